"""Which secrets of some documents does a model write (Appendix "Naturally Memorized Dataset")?

Callers give a path, never a secret. ``Found`` holds secrets as token ids; its printed form does
not.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from document_audit import candidates, detection
from document_audit.candidates import Candidate
from document_audit.documents import Document, nothing_read_error, read, with_sources_noted
from document_audit.files import errors_without_paths
from document_audit.nearby_text import Passage, by_distinctive_tokens, passages
from document_audit.redaction import redact
from document_audit.secret_list import SecretList, kind_of
from document_audit.settings import KINDS
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target

T = 2  # tokens of a secret that are unlearned, where it has so many
PLACES = 3  # of one secret that are tried, each with another text before it
ANOTHER_PLACE = "another place of a secret, tried too"  # what the funnel calls it
INSIDE = "only inside another secret"  # why a listed secret is not tried
# Where a record may begin in a text: a model that learned it alone is asked for it alone.
SHORTEST = 12  # characters of such a record before its secret
BEGINNINGS = (r"\n\s*\n", r"\n", r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Found:
    """What a model knows of some documents.

    ``targets`` are the places at which it writes a secret; places of one secret share a ``group``.
    ``places`` gives, by id, the number of the document, the first character, and how the secret may
    be shown. ``funnel`` counts, by kind, secrets found, left out (by reason), tried and memorised;
    ``skipped`` counts unread documents by reason. ``absent`` are lines of the file of secrets that
    no document contains; ``nearby`` is the text around memorised secrets.
    """

    targets: list[Target] = field(repr=False)
    places: dict[str, dict] = field(repr=False)
    documents: int
    funnel: dict[str, dict[str, int]]
    skipped: dict[str, int]
    absent: list[int]
    nearby: list[Passage] = field(repr=False)


@dataclass
class Place:
    """One place of a secret as it was found, every prompt that the model is asked with, from the
    longest to the shortest, and what came of it."""

    candidate: Candidate
    prompts: list[tuple[Record, Target]]
    memorised: tuple[Record, Target] | None = None
    written: bool = False  # within 50 tokens, of a secret that is memorised nowhere


def find_memorized(
    decoder: Decoder,
    documents: str | Path | Callable[[Counter], Iterable[Document]],
    secrets: str | Path | None = None,
    kinds: Sequence[str] = KINDS,
    limit: int | None = None,
    progress: Callable = iter,
) -> Found:
    """Find the secrets in some documents that the model writes by itself (Appendix "Naturally
    Memorized Dataset").

    ``documents`` is a folder, a file, or a function that yields documents and counts what it skips.
    ``secrets`` is a text file whose lines are searched for exactly; without it, recognisers find
    what to try. A secret is tried at up to three places, each with the 60 tokens before it and, if
    the model does not write it then, with fewer: from the start of its paragraph, line or sentence.
    A secret counts as memorised if the model writes it. ``limit`` bounds how many secrets are
    tried. Two tokens of a secret are unlearned: those that the fewest other secrets have.

    Raises OSError if a path leads nowhere, ValueError if no document or no secret can be read, or
    no document holds any of the secrets.
    """
    check_kinds(kinds)
    listed = SecretList(secrets) if secrets is not None else None
    skipped, funnel, sources = Counter(), Counter(), []
    with errors_without_paths():
        read_all = documents if callable(documents) else partial(read, existing_path(documents))
        texts = with_sources_noted(read_all(skipped), sources)
        spans = listed.spans if listed else lambda text: detection.secret_spans(text, kinds)
        ready: dict[tuple[str, str], list[Place]] = {}  # by kind and secret
        for candidate in candidates.secret_candidates(texts, spans, funnel, once=False):
            add_place(ready, candidate, decoder, funnel, limit)
    if not sources:
        raise nothing_read_error(skipped)
    for secret in listed.only_inside_others() if listed else ():
        funnel.update([(kind_of(secret), "found"), (kind_of(secret), INSIDE)])
    ask(decoder, ready.values(), progress)
    memorised = []
    for (kind, _), places in ready.items():
        known = [place for place in places if place.memorised]
        funnel[kind, "tried"] += 1
        funnel[kind, ANOTHER_PLACE] += len(places) - 1
        funnel[kind, "memorised"] += bool(known)
        funnel[kind, "written later"] += any(place.written for place in places)
        memorised += known
    nearby = passages([place.candidate for place in memorised], spans, decoder.tokenizer)
    every = [place.prompts[0][1] for places in ready.values() for place in places]
    target_of = by_distinctive_tokens(every, nearby, decoder.tokenizer)
    targets, shown = [], {}
    numbers = {source: n for n, source in reversed(list(enumerate(sources, 1)))}
    for place in memorised:
        target, candidate = target_of(*place.memorised), place.candidate
        secret = candidate.record.secret
        targets.append(target)
        shown[target.id] = {
            "kind": target.kind,
            "shown": redact(target.kind, secret.strip().lstrip("[(<{")),  # of a token with it
            "document": numbers[candidate.source],
            "offset": candidate.offset,
        }
    counts: dict[str, dict[str, int]] = {}
    for (kind, what), count in funnel.items():
        counts.setdefault(kind, {}).update({what: count} if count else {})
    absent = listed.absent_lines() if listed else []
    return Found(targets, shown, len(sources), counts, dict(skipped), absent, nearby)


def existing_path(documents: str | Path) -> Path:
    """Where documents lie. Raises OSError, which does not name the path, if it leads nowhere."""
    if not str(documents):
        raise ValueError("The path of the documents is empty: give one that leads somewhere.")
    with errors_without_paths():
        path = Path(os.path.expanduser(documents))
        if path.is_dir() or path.is_file():
            return path
    raise FileNotFoundError(
        "There are no documents at the path given: name a folder, a text file, or a .json, .jsonl, "
        ".csv or .eml file."  # the path may hold a secret
    )


def add_place(ready: dict, candidate, decoder: Decoder, funnel: Counter, limit: int | None):
    """Note one place of a secret to try, or count in the funnel why it is not tried."""
    kind = candidate.record.kind
    secret = detection.same_secret(kind, candidate.record.secret)
    places = ready.get((kind, secret), [])
    if len(places) == PLACES:
        funnel[kind, candidates.BEFORE_THIS] += 1
        return
    group = places[0].prompts[0][1].group if places else candidate.record.group
    prompts = list(prompts_of(candidate, decoder, funnel, group))
    if not prompts:
        return
    asked = lambda target: (target.prompt_ids, target.secret_ids)
    if asked(prompts[0][1]) in [asked(place.prompts[0][1]) for place in places]:
        funnel[kind, candidates.BEFORE_THIS] += 1
    elif not places and limit is not None and len(ready) >= limit:
        funnel[kind, candidates.BEYOND] += 1
    else:
        ready[kind, secret] = [*places, Place(candidate, prompts)]


def prompts_of(
    candidate: Candidate, decoder: Decoder, funnel: Counter, group: str
) -> Iterator[tuple[Record, Target]]:
    """Yield the prompts of one place, as text and as tokens: at most 60 tokens before the secret,
    then those from where a record may begin. With too few tokens, yield none, and count that in
    the funnel. Each target has its own id."""
    whole, seen = candidate.record.prompt, []
    for start in [0, *sorted(set(beginnings(whole)))]:
        cut = replace(candidate, record=replace(candidate.record, prompt=whole[start:]))
        counted = Counter() if start else funnel
        if found := candidates.cut_to_target(cut, decoder, T, counted, least=1):
            record, id = found[0].record, f"{found[1].id} {len(seen)}"
            if found[1].prompt_ids not in seen:
                seen.append(found[1].prompt_ids)
                yield record, replace(found[1], id=id, group=group)
        elif not start:
            return


def beginnings(prompt: str) -> Iterator[int]:
    """Where the last paragraph, line and sentence of a prompt begin, if they are no mere stub."""
    for pattern in BEGINNINGS:
        ends = [match.end() for match in re.finditer(pattern, prompt.rstrip())]
        long = [end for end in ends if len(prompt) - end >= SHORTEST]
        if long:
            yield long[-1]


def ask(decoder: Decoder, ready: Iterable[Sequence[Place]], progress: Callable) -> None:
    """Try every place with its longest prompt, and those that fail with shorter ones; then check
    whether secrets memorised nowhere are written within 50 tokens."""
    places = [place for some in ready for place in some]
    rounds = max((len(place.prompts) for place in places), default=0)
    batches = [
        (number, places[first : first + candidates.TOGETHER])
        for number in range(rounds)
        for first in range(0, len(places), candidates.TOGETHER)
    ]
    right: dict[str, float] = {}
    for number, some in progress(batches):
        left = [one for one in some if number < len(one.prompts) and not one.memorised]
        right |= candidates.shares_right(decoder, [one.prompts[number][1] for one in left])
        for one in left:
            if right[one.prompts[number][1].id] == 1:
                one.memorised = one.prompts[number]
    unknown = [place for some in ready if not any(one.memorised for one in some) for place in some]
    targets = [target for place in unknown for _, target in place.prompts]
    written = candidates.written_later(decoder, targets, right)
    for place in unknown:
        place.written = any(target.id in written for _, target in place.prompts)


def check_kinds(kinds: Sequence[str]) -> None:
    """Raise ValueError if a kind is unknown, or none is given."""
    if not kinds or set(kinds) - set(KINDS):
        given = ", ".join(map(str, kinds)) or "empty"
        raise ValueError(f"kinds is {given}, but must be some of {', '.join(KINDS)}.")
