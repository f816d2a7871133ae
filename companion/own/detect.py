"""Finding secrets in text without a network: Presidio's recognisers (Appendix "Naturally Memorized Dataset").

The recognisers are called one by one, without Presidio's engine, which would want a language model for names.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

PIECE = 4000  # characters that a recogniser sees at once
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
    """Presidio's recogniser of a kind; it must not ask the network for a list of top-level domains."""
    os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] = ""
    from presidio_analyzer import predefined_recognizers

    return getattr(predefined_recognizers, RECOGNISERS[kind][0])()


def spans(text: str, kinds: Sequence[str] = KINDS) -> list[Span]:
    """Every secret in a text, in order; of two that overlap, the longer, of equals the kind named first."""
    found = [
        Span(kind, start + a, start + b)
        for start, piece in pieces(text)
        for kind in kinds
        for a, b in within(piece, kind)
    ]
    found.sort(key=lambda span: (span.start - span.end, kinds.index(span.kind), span.start))
    kept: list[Span] = []
    taken = bytearray(len(text))
    for span in found:
        if not any(taken[span.start : span.end]):
            kept.append(span)
            taken[span.start : span.end] = b"\1" * (span.end - span.start)
    return sorted(kept, key=lambda span: span.start)


def within(piece: str, kind: str) -> Iterator[tuple[int, int]]:
    """What one recogniser finds in a piece, without the quotes around it and the signs that end a sentence."""
    name, needed = RECOGNISERS[kind]
    if any(character in piece for character in needed):
        for result in recogniser(kind).analyze(piece, recogniser(kind).supported_entities, None):
            secret = piece[result.start : result.end]
            start = result.start + len(secret) - len(secret.lstrip("\"' "))
            yield start, start + len(secret.strip("\"' ").rstrip(".,;:!?"))


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """A text in pieces, cut after a space or a line's end where there is one, with their places."""
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        if end < len(text):
            cut = max(text.rfind(space, start, end) for space in " \n\t")
            end = cut + 1 if cut > start else end
        yield start, text[start:end]
        start = end
