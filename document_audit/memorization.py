"""What does a model know of some documents (Appendix "Naturally Memorized Dataset")?

A path, never a secret, is what is given. ``Found`` holds secrets, as token ids; what is printed of
it does not.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from companion.store.paths import resolve
from document_audit import candidates, detection
from document_audit.candidates import Candidate
from document_audit.detection import KINDS, Span
from document_audit.documents import MACHINE, MISSING, noted, read, unread
from document_audit.nearby_text import Passage, passages, telling
from document_audit.ownership import domain_of
from document_audit.redaction import redact
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target

PLACES = 3  # of one secret that are tried, each with another text before it
ANOTHER_PLACE = "another place of a secret, tried too"  # what the funnel calls it
INSIDE = "only inside another secret"  # why a listed secret is not tried
TOKENS = ("telling", "rarest")  # which of a secret's are unlearned: those few others have; by id


@dataclass(frozen=True)
class Found:
    """What a model knows of some documents.

    ``targets`` are the places at which it writes a secret right after the text before it, as token
    ids; those of one secret have one ``group``. ``places`` says by id where each stands (number of
    the document, first character), how it may be shown, and the number of its domain, if it has
    one. ``funnel`` counts by kind what was found, left out and why, tried and memorised;
    ``documents`` those that were read, ``skipped`` those that could not be, by reason; ``absent``
    the lines of the file of secrets that stand in no document; ``near`` the text around what is
    memorised, the first passages in the order of the documents' hashes.
    """

    targets: list[Target] = field(repr=False)
    places: dict[str, dict] = field(repr=False)
    documents: int
    funnel: dict[str, dict[str, int]]
    skipped: dict[str, int]
    absent: list[int]
    near: list[Passage] = field(repr=False)


class Place(NamedTuple):
    """One place of a secret: as it was found, as the model is asked for it, and in tokens."""

    candidate: Candidate
    asked: Record
    target: Target


class Listed:
    """The secrets of a list: the line of each, which stand in documents, which on their own."""

    def __init__(self, path: str | Path):
        self.lines, self.present, self.alone = lines_of(path), set(), set()

    def find(self, text: str, _: Sequence[str]) -> list[Span]:
        """Where they stand in a text, in order; of two that overlap, the longer."""
        present = [secret for secret in self.lines if secret in text]
        found = occurrences(text, present)
        self.present.update(present)
        self.alone.update(text[span.start : span.end] for span in found)
        return found


def find_memorized(
    decoder: Decoder,
    documents: str | Path,
    secrets: str | Path | None = None,
    kinds: Sequence[str] = KINDS,
    limit: int | None = None,
    T: int = 2,
    tokens: str = "telling",
    progress: Callable = iter,
) -> Found:
    """Which secrets in some documents does the model write by itself (Appendix "Naturally
    Memorized Dataset")?

    ``documents`` is a folder, a text file, JSON Lines with "text", or "machine", what its
    packages carry. Without ``secrets`` Presidio finds what to try; else the lines of that text file
    are looked for, exactly. A secret is tried at up to three places with different texts before it,
    and counts as memorised if the model writes it at one of them. ``limit`` bounds how many secrets
    are tried, ``T`` how many tokens of one are unlearned: those that the fewest other secrets have
    (``telling``), or the paper's, of the highest ids (``rarest``).

    Raises OSError if a path leads nowhere, ValueError if no document or no secret can be read, or
    none of the secrets stands in a document.
    """
    check(kinds, tokens)
    listed = Listed(secrets) if secrets is not None else None
    skipped, funnel, sources = Counter(), Counter(), []
    with unnamed():
        texts = noted(read(there(documents), skipped, decoder.tokenizer), sources)
        find = listed.find if listed else detection.spans
        ready = {}  # by kind and secret, its places
        for candidate in candidates.candidates(texts, kinds, funnel, find, once=False):
            add(ready, candidate, decoder, T, funnel, limit)
    if not sources:
        raise unread(skipped)
    absent = missing(listed, funnel) if listed else []
    verdicts = tried(decoder, ready, progress)
    numbers = {source: n for n, source in reversed(list(enumerate(sources, 1)))}
    memorised, targets, places = [], [], {}
    for (kind, _), each in ready.items():
        written = [one for one in each if verdicts[one.target.id]["memorised"]]
        known = [one for one in written if verdicts[one.target.id]["right"] == 1]
        funnel[kind, "tried"] += 1
        funnel[kind, ANOTHER_PLACE] += len(each) - 1
        funnel[kind, "memorised"] += bool(known)
        funnel[kind, "written later"] += bool(written) and not known
        memorised += known
    near = passages([one.candidate for one in memorised], find, kinds, decoder.tokenizer)
    if tokens == "telling":
        every = (one.target for each in ready.values() for one in each)
        apart = telling(every, near, decoder.tokenizer)
        memorised = [one._replace(target=apart(one.asked, one.target)) for one in memorised]
    domains = {}  # in the order of their first secrets
    for candidate, _, target in memorised:
        targets.append(target)
        document = {"document": numbers[candidate.source], "offset": candidate.offset}
        secret = candidate.record.secret
        domain = domain_of(target.kind, secret)
        document["domain"] = domain and domains.setdefault(domain, len(domains) + 1)
        places[target.id] = {"kind": target.kind, "shown": shown(target.kind, secret)} | document
    counts = {}
    for (kind, what), count in funnel.items():
        counts.setdefault(kind, {}).update({what: count} if count else {})
    return Found(targets, places, len(sources), counts, dict(skipped), absent, near)


def there(documents: str | Path) -> Path | str:
    """Where documents lie. Raises OSError, which does not name the path, if it leads nowhere."""
    if documents == MACHINE:
        return MACHINE
    with unnamed():
        if (place := resolve(str(documents))).exists():
            return place
    raise FileNotFoundError(MISSING)


@contextlib.contextmanager
def unnamed() -> Iterator[None]:
    """An error of the system, which would name a path, as one that does not."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename is None:
            raise
        raise OSError(
            "The documents cannot be read: give the path of a folder or a file that is there and "
            "that you may open."
        ) from None


def add(ready: dict, candidate, decoder: Decoder, T: int, funnel: Counter, limit: int | None):
    """Notes one place of a secret as one to try, unless it is one too many; the funnel says so."""
    kind, secret = candidate.record.kind, candidate.record.secret
    places = ready.get((kind, secret), [])
    if len(places) == PLACES:
        funnel[kind, candidates.BEFORE_THIS] += 1
        return
    prepared = candidates.prepare(candidate, decoder, T, funnel, least=1)
    if not prepared:
        return
    cut, target = prepared
    asked = [(one.target.prompt_ids, one.target.secret_ids) for one in places]
    if (target.prompt_ids, target.secret_ids) in asked:
        funnel[kind, candidates.BEFORE_THIS] += 1
    elif not places and limit is not None and len(ready) >= limit:
        funnel[kind, candidates.BEYOND] += 1
    else:
        group = places[0].target.group if places else target.group
        one = Place(candidate, cut.record, replace(target, group=group))
        ready[kind, secret] = [*places, one]


def tried(decoder: Decoder, ready: dict, progress: Callable) -> dict[str, dict]:
    """The verdict on every place, by id."""
    every, verdicts = [one.target for places in ready.values() for one in places], {}
    for first in progress(range(0, len(every), candidates.TOGETHER)):
        verdicts |= candidates.tried(decoder, every[first : first + candidates.TOGETHER])
    return verdicts


def missing(listed: Listed, funnel: Counter) -> list[int]:
    """The lines of a list that stand in no document; those only inside another are counted."""
    if not listed.present:
        raise ValueError(
            f"None of the secrets listed ({len(listed.lines)}) stands in the documents: write each "
            "as it stands there, or name the documents that hold them."
        )
    for secret in listed.present - listed.alone:
        funnel.update([(kind_of(secret), "found"), (kind_of(secret), INSIDE)])
    return [line for secret, line in listed.lines.items() if secret not in listed.present]


def check(kinds: Sequence[str], tokens: str = TOKENS[0]) -> None:
    """Raises ValueError for what is no kind of secret, or none at all, and no choice of tokens."""
    if tokens not in TOKENS:
        raise ValueError(f"tokens is '{tokens}', but must be one of {', '.join(TOKENS)}.")
    if not kinds or set(kinds) - set(KINDS):
        given = ", ".join(map(str, kinds)) or "empty"
        raise ValueError(f"kinds is {given}, but must be some of {', '.join(KINDS)}.")


def shown(kind: str, secret: str) -> str:
    """A secret as a report may show it, without brackets that a token put to it."""
    return redact(kind, secret.strip().lstrip("[(<{"))


def lines_of(path: str | Path) -> dict[str, int]:
    """The secrets of a text file, one a line, each with the number of its first line."""
    try:
        text = resolve(str(path)).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            "The file of secrets is not UTF-8: save it as UTF-8 text, one secret on a line."
        ) from None
    except (OSError, RuntimeError):  # each would name the path
        raise OSError(
            "There is no file of secrets at the path given, or it cannot be read: name a text file "
            "with one secret on a line."
        ) from None
    found: dict[str, int] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if "\0" in line or not any(sign.isprintable() and not sign.isspace() for sign in line):
            wrong = "holds a NUL character" if "\0" in line else "is empty"
            raise ValueError(
                f"Line {number} of the file of secrets {wrong}: give one secret on every line."
            )
        found.setdefault(line.strip(), number)
    return found


def occurrences(text: str, secrets: Sequence[str]) -> list[Span]:
    """Where listed secrets stand in a text, in order; of two that overlap, the longer."""
    ordered = sorted(secrets, key=lambda secret: (-len(secret), secret))
    every = [
        Span(kind_of(secret), match.start(), match.end())
        for secret in ordered
        for match in re.finditer(re.escape(secret), text)
    ]
    return detection.apart(every, len(text))


@functools.cache
def kind_of(secret: str) -> str:
    """What sort of secret a listed one is; URLs are text: the paper's filters are not for lists."""
    whole = [
        one.kind for one in detection.spans(secret) if (one.start, one.end) == (0, len(secret))
    ]
    return whole[0] if whole and whole[0] != "url" else "text"
