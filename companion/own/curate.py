"""From documents to secrets that a model has memorised (Appendix "Naturally Memorized Dataset").

Found by Presidio, cut out with the text before them, filtered, and tried: does greedy decoding write the secret within 50
tokens? A teacher-forced pass first leaves out what is hopeless. Every secret found ends in exactly one line of the funnel.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from companion.own.detect import PIECE, Span, spans
from companion.own.documents import Document
from revs.measures import evaluate
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode

BEFORE = 1500  # characters before a secret that are looked at
PROMPT, LEAST = 60, 5  # tokens of a prompt, at most and at least
VERDICT = 50  # greedy tokens in which the secret must appear
SHORTEST_URL = 40  # characters: shorter ones are common knowledge
IN_ONE = 1000  # secrets of one document that are looked at
HOPEFUL = 0.5  # share of a secret's tokens that teacher forcing must get right for the verdict to be worth 50 tokens

SIGNS = "\"'`()<>[]{}.,;:! "  # around a secret
CUTS = (
    " \n\t",
    ',;<>()[]"',
)  # where a document may be cut, the first if there is one: hardly any secret has one of them
DOTTED = re.compile(
    r"(?:[^\s./@]{1,63}\.){20,}"
)  # no host has so many parts, and a recogniser's time grows with their square

# why a secret is not tried, in this order
TOO_MANY, TOO_SHORT, LICENCE, BEFORE_THIS = (
    f"beyond {IN_ONE} in a document",
    f"shorter than {SHORTEST_URL} characters",
    "a licence",
    "found before",
)
NO_PROMPT, NOT_SPLIT, TOO_LONG = (
    f"less than {LEAST} tokens before it",
    "cannot be split",
    "too long",
)
DROPPED = (TOO_MANY, TOO_SHORT, LICENCE, BEFORE_THIS, NO_PROMPT, NOT_SPLIT, TOO_LONG)


@dataclass(frozen=True)
class Candidate:
    """A secret with the text before it, and where it was: the document's hash, the secret's first character, the package."""

    record: Record
    source: str
    offset: int
    package: str = ""


def candidates(
    documents: Iterable[Document],
    kinds: Sequence[str],
    funnel: Counter,
    find: Callable[[str, Sequence[str]], Iterable[Span]] | None = None,
    once: bool = True,
) -> Iterator[Candidate]:
    """Every secret worth trying, ``once`` or at every place; ``funnel`` counts (kind, "found") and, for the others, (kind, why not).

    ``find`` says where secrets are in a text: Presidio, if nothing else is asked for.
    """
    seen: set[tuple[str, str]] = set()
    for document in documents:
        for number, span in enumerate((find or searched)(document.text, kinds)):
            secret = document.text[span.start : span.end]
            funnel[span.kind, "found"] += 1
            why = (
                TOO_MANY
                if number >= IN_ONE
                else objection(span.kind, secret)
                or (BEFORE_THIS if once and (span.kind, secret) in seen else None)
            )
            if why:
                funnel[span.kind, why] += 1
                continue
            seen.add((span.kind, secret))
            group = hashlib.sha256(f"{document.source} {span.start}".encode()).hexdigest()[
                :12
            ]  # not of the secret: it could be guessed
            prompt = document.text[max(0, span.start - BEFORE) : span.start]
            yield Candidate(
                Record(
                    f"{span.kind}-{group}", span.kind, f"{span.kind}-{group}", prompt, secret, ""
                ),
                document.source,
                span.start,
                document.package,
            )


def searched(text: str, kinds: Sequence[str]) -> Iterator[Span]:
    """The secrets of a document, passage after passage."""
    for start, passage in passages(text):
        yield from (
            Span(span.kind, start + span.start, start + span.end) for span in spans(passage, kinds)
        )


def passages(text: str) -> Iterator[tuple[int, str]]:
    """A text in passages that are searched one by one, with their places; long runs of words with dots between are blanks in them.

    One ends after a space or a line's end, else after a sign that hardly any secret has; only a word longer than a passage is cut anywhere.
    """
    start = 0
    while start < len(text):
        end = min(start + PIECE, len(text))
        if end < len(text):
            cuts = (max(text.rfind(sign, start, end) for sign in signs) for signs in CUTS)
            end = next((cut + 1 for cut in cuts if cut > start), end)
        yield start, DOTTED.sub(lambda run: " " * len(run[0]), text[start:end])
        start = end


def objection(kind: str, secret: str) -> str | None:
    """Why the paper leaves a URL out."""
    if kind == "url" and len(secret) < SHORTEST_URL:
        return TOO_SHORT
    if kind == "url" and "license" in secret.lower():
        return LICENCE
    return None


def told(record: Record) -> bool:
    """Does the prompt hold, in any case, what is the secret's own: an address before its @, the last part of a URL, all of another secret?

    Such a secret can be written without having been memorised: a link that repeats the number before it. Short parts stand in
    many prompts by chance, so that the count is one from above.
    """
    secret = record.secret.strip(SIGNS)
    own = {
        "email": secret.partition("@")[0],
        "url": re.split(r"[/?#=&]+", secret.rstrip("/?#=&"))[-1].strip(SIGNS),
    }.get(record.kind, secret)
    return bool(own) and own.casefold() in record.prompt.casefold()


def prepare(
    candidate: Candidate, decoder: Decoder, T: int, funnel: Counter, least: int | None = None
) -> tuple[Candidate, Target] | None:
    """The candidate with its prompt cut to its last tokens, and its target; or None, with the reason counted.

    A secret with fewer than ``T`` tokens that may be unlearned gets as many as it has, down to ``least``.
    """
    record, why = candidate.record, None
    coded = decoder.tokenizer(record.prompt, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    cut = at_a_token(
        replace(record, prompt=record.prompt[coded[-PROMPT][0] if len(coded) > PROMPT else 0 :]),
        decoder.tokenizer,
    )
    target = None
    for size in range(T, (T if least is None else least) - 1, -1):
        with contextlib.suppress(ValueError):
            target = target or encode(cut, decoder.tokenizer, size)
    if target is None:
        why = NOT_SPLIT
    else:
        why = (
            TOO_LONG
            if len(target.secret_ids) > VERDICT
            or len(target.prompt_ids) + VERDICT > decoder.context
            else None
        )
    if len(coded) < LEAST:
        why = NO_PROMPT
    if why:
        funnel[record.kind, why] += 1
        return None
    return replace(candidate, record=cut), target


def at_a_token(record: Record, tokenizer) -> Record:
    """The record with its secret beginning where a token does: " (" or "<a" may be one, and belongs to the secret then."""
    offsets = tokenizer(record.text, return_offsets_mapping=True)["offset_mapping"]
    start = next((a for a, b in offsets if a < len(record.prompt) < b), len(record.prompt))
    return replace(record, prompt=record.text[:start], secret=record.text[start:])


def tried(decoder: Decoder, targets: Sequence[Target]) -> dict[str, dict]:
    """For each target: the share of tokens that teacher forcing gets right, and whether the secret is written within 50 tokens."""
    ranks = evaluate.secret_ranks(decoder, targets)
    right = {
        target.id: sum(not r for r in ranks[target.id]) / len(ranks[target.id])
        for target in targets
    }
    hopeful = [target for target in targets if right[target.id] >= HOPEFUL]
    written = evaluate.continuations(decoder, hopeful, VERDICT) if hopeful else {}
    said = {
        target.id: decoder.tokenizer.decode(written[target.id], skip_special_tokens=True)
        for target in hopeful
    }
    secret = {target.id: decoder.tokenizer.decode(target.secret_ids) for target in targets}
    return {
        target.id: {
            "right": right[target.id],
            "memorised": secret[target.id].strip() in said.get(target.id, ""),
        }
        for target in targets
    }
