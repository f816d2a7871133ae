"""Finding secrets in text: Presidio's recognisers (Appendix "Naturally Memorized Dataset").

They are called one by one, without the engine, which would want a language model for names.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    "ssn": ("UsSsnRecognizer", "0123456789"),
}
KINDS = tuple(RECOGNISERS)


@dataclass(frozen=True)
class Span:
    """A secret's place in a text."""

    kind: str
    start: int
    end: int


@functools.cache
def recogniser(kind: str):
    """Presidio's recogniser of a kind; it must not ask the network for top-level domains."""
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""
    from presidio_analyzer import predefined_recognizers

    return getattr(predefined_recognizers, RECOGNISERS[kind][0])()


def spans(text: str, kinds: Sequence[str] = KINDS) -> list[Span]:
    """Every secret in a text, in order; of two that overlap the longer, of equals the first."""
    found = [
        Span(kind, start + a, start + b)
        for start, passage in passages(text)
        for kind in kinds
        for a, b in within(passage, kind)
    ]
    found.sort(key=lambda span: (span.start - span.end, kinds.index(span.kind), span.start))
    return apart(found, len(text))


def apart(found: list[Span], length: int) -> list[Span]:
    """Of spans the first of those that overlap, in the order of a text of this length."""
    kept, taken = [], bytearray(length)
    for span in found:
        if not any(taken[span.start : span.end]):
            kept.append(span)
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
    return sorted(kept, key=lambda span: span.start)


def within(passage: str, kind: str) -> Iterator[tuple[int, int]]:
    """What one recogniser finds, without quotes around it and the signs that end a sentence."""
    name, needed = RECOGNISERS[kind]
    if any(character in passage for character in needed):
        for result in recogniser(kind).analyze(passage, recogniser(kind).supported_entities, None):
            secret = passage[result.start : result.end]
            start = result.start + len(secret) - len(secret.lstrip("\"' "))
            yield start, start + len(secret.strip("\"' ").rstrip(".,;:!?"))


def passages(text: str) -> Iterator[tuple[int, str]]:
    """A text in passages with their places; long runs of words with dots between are blanks there.

    One ends after a space or a line's end, else after a sign that hardly any secret has; only a
    word longer than a passage is cut anywhere.
    """
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        if end < len(text):
            cuts = (max(text.rfind(sign, start, end) for sign in signs) for signs in CUTS)
            end = next((cut + 1 for cut in cuts if cut > start), end)
        yield start, DOTTED.sub(lambda run: " " * len(run[0]), text[start:end])
        start = end
