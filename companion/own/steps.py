"""Your own model, your own documents, in a few names, in the order in which one uses them.

book/api.md has an example, which a test runs. A path, never a secret, is what these functions are
given. What they return holds the secrets, as token ids; what they print and raise, and what is
printed of ``Found`` and ``State``, does not.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from companion.own import curate, detect
from companion.own import report as reporting
from companion.own.calibrate import Calibration, calibrate
from companion.own.detect import KINDS, Span
from companion.own.documents import MACHINE, noted, read, unread
from companion.own.redact import redact
from companion.record import rows
from companion.record.paths import resolve
from revs.measures import attacks, ordinary
from revs.measures import evaluate as measuring
from revs.measures.ordinary import Ordinary
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.load import load, tokenizer_hash
from revs.model.targets import Split, Target

__all__ = ["Calibration", "Change", "Found", "Hyperparameters", "State", "calibrate", "evaluate"]
__all__ += ["find_memorized", "load", "observe", "report", "unlearn"]
PLACES = 3  # of one secret that are tried, each with another text before it
ANOTHER_PLACE = "another place of a secret, tried too"  # what the funnel calls it
INSIDE = "only inside another secret"  # why a listed secret is not tried


@dataclass(frozen=True)
class Found:
    """What a model knows of some documents.

    ``targets`` are the places at which it writes a secret right after the text before it, as token
    ids; those of one secret have one ``group``. ``places`` says by id where each stands (number of
    the document, first character) and how it may be shown. ``funnel`` counts by kind what was
    found, left out and why, tried and memorised; ``documents`` those that were read, ``skipped``
    those that could not be, by reason; ``absent`` the lines of the file of secrets that stand in no
    document.
    """

    targets: list[Target] = field(repr=False)
    places: dict[str, dict] = field(repr=False)
    documents: int
    funnel: dict[str, dict[str, int]]
    skipped: dict[str, int]
    absent: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """What a model does with secrets, at all their places, and with other text."""

    unlearned: list[Target] = field(repr=False)
    kept: list[Target] = field(repr=False)
    secrets: dict[str, dict] = field(repr=False)  # as ``evaluate`` gives it
    attacks: dict  # resistance of the secrets to unlearn, by attack and reading (§4.4.3)
    depths: dict[str, dict] = field(repr=False)
    ordinary: Ordinary  # what it makes of benign text

    def count(self, targets: Sequence[Target], what: str) -> int:
        """How many secrets are ``exact`` or ``within_50`` at one of their places at least."""
        return len({target.group for target in targets if self.secrets[target.id][what]})

    def ranks(self) -> dict[str, list[int]]:
        """By id, the ranks of the tokens of what is to be unlearned."""
        return {target.id: self.secrets[target.id]["ranks"] for target in self.unlearned}


@dataclass(frozen=True)
class Change:
    """An edit between two looks at the model, its settings, and how these were calibrated."""

    before: State
    after: State
    edit: Edit
    hp: Hyperparameters
    calibration: Calibration | None = None


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
    progress: Callable = iter,
) -> Found:
    """Which secrets in some documents does the model write by itself (Appendix "Naturally
    Memorized Dataset")?

    ``documents`` is a folder, a text file, JSON Lines with "text", or "machine", what its
    packages carry. Without ``secrets`` Presidio finds what to try; else the lines of that text file
    are looked for, exactly. A secret is tried at up to three places with different texts before it,
    and counts as memorised if the model writes it at one of them. ``limit`` bounds how many secrets
    are tried.

    Raises OSError if a path leads nowhere, ValueError if no document or no secret can be read, or
    none of the secrets stands in a document.
    """
    check(kinds)
    listed = Listed(secrets) if secrets is not None else None
    skipped, funnel, sources = Counter(), Counter(), []
    with unnamed():
        place = documents if documents == MACHINE else resolve(str(documents))
        texts = noted(read(place, skipped, decoder.tokenizer), sources)
        find = listed.find if listed else detect.spans
        ready = {}  # by kind and secret, its places
        for candidate in curate.candidates(texts, kinds, funnel, find, once=False):
            add(ready, candidate, decoder, T, funnel, limit)
    if not sources:
        raise unread(skipped)
    absent = missing(listed, funnel) if listed else []
    verdicts = tried(decoder, ready, progress)
    numbers = {source: n for n, source in reversed(list(enumerate(sources, 1)))}
    targets, places = [], {}
    for (kind, _), each in ready.items():
        written = [target.id for _, target in each if verdicts[target.id]["memorised"]]
        known = [one for one in each if one[1].id in written and verdicts[one[1].id]["right"] == 1]
        funnel[kind, "tried"] += 1
        funnel[kind, ANOTHER_PLACE] += len(each) - 1
        funnel[kind, "memorised"] += bool(known)
        funnel[kind, "written later"] += bool(written) and not known
        for candidate, target in known:
            targets.append(target)
            document = {"document": numbers[candidate.source], "offset": candidate.offset}
            seen = shown(kind, candidate.record.secret)
            places[target.id] = {"kind": kind, "shown": seen} | document
    counts = {}
    for (kind, what), count in funnel.items():
        counts.setdefault(kind, {}).update({what: count} if count else {})
    return Found(targets, places, len(sources), counts, dict(skipped), absent)


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
        funnel[kind, curate.BEFORE_THIS] += 1
        return
    prepared = curate.prepare(candidate, decoder, T, funnel, least=1)
    if not prepared:
        return
    asked = [(target.prompt_ids, target.secret_ids) for _, target in places]
    if (prepared[1].prompt_ids, prepared[1].secret_ids) in asked:
        funnel[kind, curate.BEFORE_THIS] += 1
    elif not places and limit is not None and len(ready) >= limit:
        funnel[kind, curate.BEYOND] += 1
    else:
        group = places[0][1].group if places else prepared[1].group
        ready[kind, secret] = [*places, (candidate, replace(prepared[1], group=group))]


def tried(decoder: Decoder, ready: dict, progress: Callable) -> dict[str, dict]:
    """The verdict on every place, by id."""
    every, verdicts = [target for places in ready.values() for _, target in places], {}
    for first in progress(range(0, len(every), curate.TOGETHER)):
        verdicts |= curate.tried(decoder, every[first : first + curate.TOGETHER])
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


def check(kinds: Sequence[str]) -> None:
    """Raises ValueError for what is no kind of secret, or none at all."""
    if not kinds or set(kinds) - set(KINDS):
        given = ", ".join(map(str, kinds)) or "empty"
        raise ValueError(f"kinds is {given}, but must be some of {', '.join(KINDS)}.")


def shown(kind: str, secret: str) -> str:
    """A secret as a report may show it, without brackets that a token put to it."""
    secret = secret.strip().lstrip("[(<{")
    if kind == "url" and not re.match(r"[A-Za-z]{1,8}://", secret):
        kind = "text"  # of an address without a scheme nothing is shown
    return redact(kind, secret)


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
    return detect.apart(every, len(text))


def kind_of(secret: str) -> str:
    """What sort of secret a listed one is; URLs are text: the paper's filters are not for lists."""
    whole = [one.kind for one in detect.spans(secret) if (one.start, one.end) == (0, len(secret))]
    return whole[0] if whole and whole[0] != "url" else "text"


def evaluate(decoder: Decoder, targets: Sequence[Target]) -> dict[str, dict]:
    """What the model does with each secret, by id.

    ``ranks`` of its tokens, the ``lowest`` place that one of its unlearned tokens has, is it
    written next (``exact``), or ``within_50`` greedy tokens? The last is asked of the text, in any
    case and with whatever tokens it is spelt: a model that lost one token may find others.
    """
    decode = decoder.tokenizer.decode

    def text(ids: list[int]) -> str:
        return decode(ids, skip_special_tokens=True).strip().casefold()

    ranks = measuring.secret_ranks(decoder, targets)
    written = measuring.continuations(decoder, targets)
    return {
        target.id: {
            "ranks": ranks[target.id],
            "lowest": max(ranks[target.id][position] for position in target.T),
            "exact": not any(ranks[target.id]),
            "within_50": text(target.secret_ids) in text(written[target.id]),
        }
        for target in targets
    }


def observe(decoder: Decoder, unlearned: Sequence[Target], kept: Sequence[Target] = ()) -> State:
    """Everything that a report compares, before an edit and after it.

    Secrets to unlearn and to keep, attacks, perplexity, the next tokens of other text.
    Raises ValueError if there is no secret.
    """
    if not unlearned:
        raise ValueError("There is nothing to look at: give the places of at least one secret.")
    attacked, depths = attacks.measure(decoder, Split(list(unlearned), [], []))
    secrets, now = evaluate(decoder, [*unlearned, *kept]), ordinary.observe(decoder)
    return State(list(unlearned), list(kept), secrets, attacked, depths, now)


def outcome(found: Found, change: Change | None = None) -> tuple[dict, list[dict]]:
    """A report's content, without a secret: what was found and what changed; a line a place."""
    memorised = len({target.group for target in found.targets})
    result = {"documents": found.documents, "found": found.funnel, "skipped": found.skipped}
    result |= {"absent": found.absent, "memorised": memorised}
    if change is None:
        return result, []
    before, after = change.before, change.after
    result |= {
        "unlearned": len({target.group for target in before.unlearned}),
        "kept": len({target.group for target in before.kept}),
        "calibration": change.calibration.tried if change.calibration else [],
        "settings": asdict(change.hp),
        "edit": change.edit.summary(),
    }
    for name, state in (("before", before), ("after", after)):
        perplexity = state.ordinary.perplexity
        result[name] = {
            "written": state.count(before.unlearned, "within_50"),
            "kept": state.count(before.kept, "exact"),
            "attacks": state.attacks,
            "elsewhere": {"perplexity": perplexity if math.isfinite(perplexity) else None},
        }
    result["after"]["changed"] = before.ordinary.changed(after.ordinary)
    every = before.unlearned + before.kept
    groups = list(dict.fromkeys(target.group for target in every))
    items = []
    for target in every:
        part = "unlearned" if target in before.unlearned else "kept"
        line = {"number": groups.index(target.group) + 1, **found.places[target.id], "part": part}
        line["tokens"] = len(target.T)
        for name in ("lowest", "exact", "within_50"):
            for when, state in (("before", before), ("after", after)):
                line[f"{name}_{when}"] = state.secrets[target.id][name]
        for when, state in (("before", before), ("after", after)):
            line[f"logit_lens_{when}"] = state.depths.get(target.id, {}).get("logit_lens")
        items.append(line)
    return result, items


def report(path: str | Path, decoder: Decoder, found: Found, change: Change | None = None) -> Path:
    """Writes the report, one HTML page that loads nothing and holds no secret.

    While the edit is in place; of ``found`` alone, where nothing was unlearned.
    """
    result, items = outcome(found, change)
    dtype = str(decoder.neurons(0).dtype).removeprefix("torch.")
    made = rows.provenance("own", {}, {"model": decoder.revision}, {})
    made["model"] = {"name": decoder.name, "revision": decoder.revision, "dtype": dtype}
    made["tokenizer"] = tokenizer_hash(decoder.tokenizer)
    reporting.write(Path(path), {"result": result, "provenance": made}, items)
    return Path(path)
