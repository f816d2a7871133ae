"""Finding secrets in text: Presidio's recognisers (Appendix "Naturally Memorized Dataset").

They are called one by one, without Presidio's engine, which needs a language model for names.
Social security numbers are found by a pattern of this file: the areas that Presidio rejects change
with its version, and invented numbers use areas from 900 on, which are never issued.
"""

import functools
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from document_audit.settings import KINDS

PIECE = 4000  # characters that a recogniser sees at once
CUTS = (" \n\t", ',;<>()[]"')  # after which a text may be cut: hardly any secret has one of them
# No host has so many parts, and a recogniser's time grows with their square.
DOTTED = re.compile(r"(?:[^\s./@]{1,63}\.){20,}")
# kind → Presidio's recogniser, and characters without which there is nothing to find
RECOGNISERS = {
    "email": ("EmailRecognizer", "@"),
    "url": ("UrlRecognizer", "."),
    "phone": ("PhoneRecognizer", "0123456789"),
    "ip": ("IpRecognizer", ".:"),
}
# with one sign between its groups, in two groups, without any
SSN = re.compile(r"\b(?:\d{3}(?P<sign>[- .])\d{2}(?P=sign)\d{4}|\d{5}-\d{4}|\d{3}-\d{6}|\d{9})\b")
SSN_NEVER = re.compile(r"(\d)\1{8}|(?:000|666)\d{6}|\d{3}00\d{4}|\d{5}0000|123456789")
AT = re.compile(r"%40|&#64;|&#x40;|\\u0040", re.IGNORECASE)
# a sign with the accents that follow it
CHARACTER = re.compile(rf"{AT.pattern}|.[\u0300-\u036f]*", re.DOTALL | re.IGNORECASE)
# around a secret in Markdown, tables and code; an underscore within a word is a part of it
MARKS = re.compile(r"[`*|]|\\[nrt]|(?<![\w/.-])_+(?=\w)|(?<=\w)_+(?![\w(/.-])")
DASHES = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))  # invisible: left out
DASHES |= dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-")


@dataclass(frozen=True)
class Span:
    """A secret's place in a text."""

    kind: str
    start: int
    end: int


@functools.cache
def recogniser(name: str):
    """Presidio's recogniser of this name; it must not ask the network for top-level domains."""
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""
    from presidio_analyzer import predefined_recognizers

    return getattr(predefined_recognizers, name)()


def secret_spans(text: str, kinds: Sequence[str] = KINDS) -> list[Span]:
    """Every secret in a text, in order; of two that overlap the longer, of equals the first."""
    found = [
        Span(kind, start + a, start + b)
        for start, piece in pieces(text)
        for kind in kinds
        for a, b in spans_of_kind(piece, kind)
    ]
    found.sort(key=lambda span: (span.start - span.end, kinds.index(span.kind), span.start))
    return without_overlaps(found, len(text))


def without_overlaps(found: list[Span], length: int) -> list[Span]:
    """Of spans the first of those that overlap, in the order of a text of this length."""
    kept, taken = [], bytearray(length)
    for span in found:
        if not any(taken[span.start : span.end]):
            kept.append(span)
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
    return sorted(kept, key=lambda span: span.start)


def spans_of_kind(piece: str, kind: str) -> Iterator[tuple[int, int]]:
    """Where secrets of a kind stand, without quotes around them and signs that end a sentence."""
    plain, places = plain_characters(piece)
    for start, end in found_in(plain, kind):
        secret = plain[start:end]
        start += len(secret) - len(secret.lstrip("\"' "))
        end = start + len(secret.strip("\"' ").rstrip(".,;:!?"))
        if start < end:
            yield places[start][0], places[end - 1][1]


def found_in(plain: str, kind: str) -> list[tuple[int, int]]:
    """Where secrets of a kind stand in plain characters, as a recogniser finds them."""
    if kind == "ssn":
        never = lambda number: SSN_NEVER.fullmatch(re.sub(r"\D", "", number))
        return [match.span() for match in SSN.finditer(plain) if not never(match[0])]
    name, signs = RECOGNISERS[kind]
    if not any(sign in plain for sign in signs):
        return []
    ours = recogniser(name)
    return [(one.start, one.end) for one in ours.analyze(plain, ours.supported_entities, None)]


@functools.lru_cache(maxsize=2)
def plain_characters(text: str) -> tuple[str, Sequence[tuple[int, int]]]:
    """A text in Unicode's form NFKC, and where each of its characters stood, as (start, end).

    Dashes become "-", encodings of "@" become "@"; Markdown becomes blanks, and invisible
    characters are left out.
    """
    text = MARKS.sub(lambda match: " " * len(match[0]), text)
    if text.isascii() and not AT.search(text):
        return text, [(place, place + 1) for place in range(len(text))]
    plain, places = [], []
    for match in CHARACTER.finditer(text):
        some = "@" if AT.fullmatch(match[0]) else unicodedata.normalize("NFKC", match[0])
        some = some.translate(DASHES)
        plain.append(some)
        places += [match.span()] * len(some)
    return "".join(plain), places


def same_secret(kind: str, secret: str) -> str:
    """What all spellings of a secret have in common: of numbers their digits, of an address its
    letters in lower case; other secrets have one spelling."""
    plain = plain_characters(secret)[0].strip()
    if kind in ("ssn", "phone"):
        return re.sub(r"\D", "", plain)[-10:]
    return plain.casefold() if kind in ("email", "ip") else secret


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield a text in pieces, each with its place; long runs of dotted words become blanks.

    A piece ends after a space or a line end, else after a sign that hardly any secret has; only a
    word longer than a piece is cut at an arbitrary place.
    """
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        if end < len(text):
            cuts = (max(text.rfind(sign, start, end) for sign in signs) for signs in CUTS)
            end = next((cut + 1 for cut in cuts if cut > start), end)
        yield start, DOTTED.sub(lambda run: " " * len(run[0]), text[start:end])
        start = end
