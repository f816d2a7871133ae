"""Your own model, your own documents, in a few names (§3 to §5 in the order in which one uses them).

book/api.md has an example, which a test runs.

A path, never a secret, is what these functions are given. What they return holds the secrets, as token ids; what they print and
raise, and what is printed of ``Found`` and ``State``, does not.
"""

from __future__ import annotations

import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from companion.own import curate, detect
from companion.own.calibrate import Calibration, calibrate
from companion.own.detect import KINDS, Span
from companion.own.documents import MACHINE, Document, read, unread
from companion.own.redact import redact
from companion.record import rows
from companion.record.paths import resolve
from companion.runs import integrity
from revs.measures import attacks, ordinary
from revs.measures import evaluate as measuring
from revs.measures.ordinary import Ordinary
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.load import load, tokenizer_hash
from revs.model.targets import Split, Target

__all__ = [
    "Calibration",
    "Found",
    "Hyperparameters",
    "State",
    "attack",
    "calibrate",
    "evaluate",
    "find_memorized",
    "load",
    "observe",
    "report",
    "undo",
    "unlearn",
]
TOGETHER = 64  # candidates that are tried at once
PLACES = 3  # of one secret that are tried, each with another text before it
ANOTHER_PLACE = "another place of a secret, tried too"  # what the funnel calls it
BEYOND, INSIDE = "beyond the limit", "only inside another secret"  # why a secret is not tried


@dataclass(frozen=True)
class Found:
    """What a model knows of some documents.

    ``targets`` are the places at which it writes a secret right after the text before it, as token ids; those of one secret have
    one ``group``. ``places`` says by id where each stands (number of the document, first character) and how it may be shown.
    ``funnel`` counts by kind what was found, left out and why, tried and memorised; ``documents`` those that were read, ``skipped``
    those that could not be, by reason; ``absent`` the lines of the file of secrets that stand in no document.
    """

    targets: list[Target] = field(repr=False)
    places: dict[str, dict] = field(repr=False)
    documents: int
    funnel: dict[str, dict[str, int]]
    skipped: dict[str, int]
    absent: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class State:
    """What a model does with secrets, at all their places, and with other text: ``observe`` before an edit and after it."""

    unlearned: list[Target] = field(repr=False)
    kept: list[Target] = field(repr=False)
    secrets: dict[str, dict] = field(repr=False)  # as ``evaluate`` gives it
    attacks: dict  # of the secrets to unlearn, as ``attack`` gives it
    depths: dict[str, dict] = field(repr=False)
    ordinary: Ordinary  # what it makes of benign text
    benchmarks: dict  # MMLU and GSM8K, if they were asked for

    def count(self, targets: Sequence[Target], what: str) -> int:
        """How many secrets are ``exact`` or ``within_50`` at one of their places at least."""
        return len({target.group for target in targets if self.secrets[target.id][what]})

    def ranks(self) -> dict[str, list[int]]:
        """By id, the ranks of the tokens of what is to be unlearned."""
        return {target.id: self.secrets[target.id]["ranks"] for target in self.unlearned}


def find_memorized(
    decoder: Decoder,
    documents: str | Path,
    secrets: str | Path | None = None,
    kinds: Sequence[str] = KINDS,
    limit: int | None = None,
    T: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Which secrets in some documents does the model write by itself (Appendix "Naturally Memorized Dataset")?

    ``documents`` is a folder, a text file, JSON Lines with "text", or "machine", what its packages carry. Without ``secrets`` Presidio
    finds what to try; else the lines of that text file are looked for, exactly. A secret is tried at up to three places with different
    texts before it, and counts as memorised if the model writes it at one of them. ``limit`` bounds how many secrets are tried.

    Raises OSError if a path leads nowhere, ValueError if no document or no secret can be read, or none of the secrets stands in a document.

    >>> found = find_memorized(decoder, documents)
    >>> found.funnel["email"]["memorised"], found.documents
    (3, 4)
    """
    check(kinds)
    listed = lines_of(secrets) if secrets is not None else {}
    skipped, funnel, numbers, many = Counter(), Counter(), {}, 0
    ready: dict[
        tuple[str, str], list[tuple[curate.Candidate, Target]]
    ] = {}  # by kind and secret, its places
    present, alone = set(), set()

    def exactly(text: str, _: Sequence[str]) -> list[Span]:
        spans = occurrences(text, listed)
        present.update(secret for secret in listed if secret in text)
        alone.update(text[span.start : span.end] for span in spans)
        return spans

    def numbered() -> Iterator[Document]:
        nonlocal many
        for many, document in enumerate(
            read(
                documents if documents == MACHINE else resolve(str(documents)),
                skipped,
                decoder.tokenizer,
            ),
            1,
        ):
            numbers.setdefault(document.source, many)
            yield document

    try:
        for candidate in curate.candidates(
            numbered(), kinds, funnel, exactly if secrets is not None else None, once=False
        ):
            kind, places = (
                candidate.record.kind,
                ready.get((candidate.record.kind, candidate.record.secret), []),
            )
            if len(places) == PLACES:
                funnel[kind, curate.BEFORE_THIS] += 1
            elif prepared := curate.prepare(candidate, decoder, T, funnel, least=1):
                if any(same(prepared[1], target) for _, target in places):
                    funnel[kind, curate.BEFORE_THIS] += 1
                elif not places and limit is not None and len(ready) >= limit:
                    funnel[kind, BEYOND] += 1
                else:
                    ready.setdefault((kind, candidate.record.secret), []).append(prepared)
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename is None:
            raise
        raise OSError(
            "The documents cannot be read: give the path of a folder or a file that is there and that you may open."
        ) from None
    if not many:
        raise unread(skipped)
    if listed and not present:
        raise ValueError(
            f"None of the secrets listed ({len(listed)}) stands in the documents: write each as it stands there, or name the documents that hold them."
        )
    for secret in present - alone:
        funnel.update([(kind_of(secret), "found"), (kind_of(secret), INSIDE)])
    every = [
        (candidate, replace(target, group=places[0][1].group))
        for places in ready.values()
        for candidate, target in places
    ]
    verdicts = {}
    for first in range(0, len(every), TOGETHER):
        progress(first, len(every))
        verdicts |= curate.tried(decoder, [target for _, target in every[first : first + TOGETHER]])
    progress(len(every), len(every))
    known = [
        (candidate, target)
        for candidate, target in every
        if verdicts[target.id]["memorised"] and verdicts[target.id]["right"] == 1
    ]
    memorised, written = (
        {target.group for _, target in known},
        {target.group for _, target in every if verdicts[target.id]["memorised"]},
    )
    for (kind, _), places in ready.items():
        group = places[0][1].group
        funnel[kind, "tried"] += 1
        funnel[kind, ANOTHER_PLACE] += len(places) - 1
        funnel[kind, "memorised"] += group in memorised
        funnel[kind, "written later"] += group in written - memorised
    return Found(
        [target for _, target in known],
        {
            target.id: {
                "kind": target.kind,
                "shown": shown(target.kind, candidate.record.secret),
                "document": numbers[candidate.source],
                "offset": candidate.offset,
            }
            for candidate, target in known
        },
        many,
        {
            kind: {what: count for (of, what), count in funnel.items() if of == kind and count}
            for kind in dict.fromkeys(kind for kind, _ in funnel)
        },
        dict(skipped),
        [line for secret, line in listed.items() if secret not in present],
    )


def same(one: Target, other: Target) -> bool:
    """Would the model be asked the same?"""
    return (one.prompt_ids, one.secret_ids) == (other.prompt_ids, other.secret_ids)


def check(kinds: Sequence[str]) -> None:
    """Raises ValueError for what is no kind of secret, or none at all."""
    if not kinds or set(kinds) - set(KINDS):
        raise ValueError(
            f"kinds is {', '.join(map(str, kinds)) or 'empty'}, but must be some of {', '.join(KINDS)}."
        )


def shown(kind: str, secret: str) -> str:
    """A secret as a report may show it, without brackets that a token put to it; an address of a page without a scheme not at all."""
    secret = secret.strip().lstrip("[(<{")
    return redact(
        kind if kind != "url" or re.match(r"[A-Za-z]{1,8}://", secret) else "text", secret
    )


def lines_of(path: str | Path) -> dict[str, int]:
    """The secrets of a text file, one a line, each with the number of its first line."""
    try:
        path = resolve(str(path))
        if not path.is_file():
            raise FileNotFoundError(
                "There is no file of secrets at the path given: name a text file with one secret on a line."
            )
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise ValueError(
            "The file of secrets is not UTF-8: save it as UTF-8 text, one secret on a line."
        ) from None
    except (
        OSError,
        RuntimeError,
    ):  # a path that is too long, a folder that is closed, a home that nobody has: each would be named
        raise OSError("The file of secrets cannot be read: allow it, or give another.") from None
    found: dict[str, int] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        seen = any(sign.isprintable() and not sign.isspace() for sign in line)
        if not seen or "\0" in line:
            raise ValueError(
                f"Line {number} of the file of secrets {'holds a NUL character' if seen else 'is empty'}: give one secret on every line."
            )
        found.setdefault(line.strip(), number)
    return found


def occurrences(text: str, secrets: Sequence[str] | dict[str, int]) -> list[Span]:
    """Where listed secrets stand in a text, in order; of two that overlap, the longer."""
    taken, spans = bytearray(len(text)), []
    for secret in sorted(secrets, key=lambda secret: (-len(secret), secret)):
        start = text.find(secret)
        while start >= 0:
            end = start + len(secret)
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * len(secret)
                spans.append(Span(kind_of(secret), start, end))
            start = text.find(secret, end)
    return sorted(spans, key=lambda span: span.start)


def kind_of(secret: str) -> str:
    """What sort of secret a listed one is; addresses of pages count as text, since the paper's filters for them are not meant for a list."""
    whole = [
        span.kind for span in detect.spans(secret) if (span.start, span.end) == (0, len(secret))
    ]
    return whole[0] if whole and whole[0] != "url" else "text"


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """REVS (Alg. 1) on every target, in place; the Edit undoes it exactly.

    >>> edit = unlearn(decoder, found.targets, hp)
    >>> edit.summary()["columns"] > 0
    True
    >>> edit.undo()
    """
    return method.unlearn(decoder, targets, hp, progress=progress)


def undo(edit: Edit) -> None:
    """Puts back every weight that an edit changed, bit by bit; of several edits, undo the newest first.

    >>> edit = unlearn(decoder, found.targets, hp)
    >>> undo(edit)
    >>> edit.summary()["columns"]
    0
    """
    edit.undo()


def evaluate(decoder: Decoder, targets: Sequence[Target]) -> dict[str, dict]:
    """What the model does with each secret, by id: ``ranks`` of its tokens, the ``lowest`` place that one of its unlearned tokens has, is it written next (``exact``), or ``within_50`` greedy tokens?

    The last is asked of the text, in any case and with whatever tokens it is spelt: a model that lost one token may find others.

    >>> {one["exact"] for one in evaluate(decoder, found.targets).values()}
    {True}
    """
    text = lambda ids: decoder.tokenizer.decode(ids, skip_special_tokens=True).strip().casefold()
    ranks, written = (
        measuring.secret_ranks(decoder, targets),
        measuring.continuations(decoder, targets),
    )
    return {
        target.id: {
            "ranks": ranks[target.id],
            "lowest": max(ranks[target.id][position] for position in target.T),
            "exact": not any(ranks[target.id]),
            "within_50": text(target.secret_ids) in text(written[target.id]),
        }
        for target in targets
    }


def attack(
    decoder: Decoder, targets: Sequence[Target], k: int = 100
) -> tuple[dict, dict[str, dict]]:
    """Resistance@k to Logit-Lens, Delta and Perturbation in four readings (§4.4.3), and the depths of each secret by layer.

    Raises ValueError if there is nothing to attack.

    >>> resistance, depths = attack(decoder, found.targets)
    >>> resistance["resistance_score"]["per_example"]
    0.0
    """
    if not targets:
        raise ValueError("There is nothing to attack: give the places of at least one secret.")
    return attacks.measure(decoder, Split(list(targets), [], []), k)


def observe(
    decoder: Decoder,
    unlearned: Sequence[Target],
    kept: Sequence[Target] = (),
    benchmarks: bool = False,
) -> State:
    """Everything that a report compares: secrets to unlearn and to keep, attacks, perplexity, the next tokens of other text, MMLU and GSM8K if wanted.

    >>> state = observe(decoder, found.targets)
    >>> state.count(state.unlearned, "exact")
    3
    """
    attacked, depths = attack(decoder, unlearned)
    scores = integrity.measure(decoder, None)[0] if benchmarks else {}
    scores.pop("perplexity", None)  # of the same text
    return State(
        list(unlearned),
        list(kept),
        evaluate(decoder, [*unlearned, *kept]),
        attacked,
        depths,
        ordinary.observe(decoder),
        scores,
    )


def outcome(
    found: Found,
    before: State | None = None,
    after: State | None = None,
    edit: Edit | None = None,
    hp: Hyperparameters | None = None,
    calibration: Calibration | None = None,
) -> tuple[dict, list[dict]]:
    """A report's content: what was found and, where something was unlearned, what changed; and one line for each place. No secret is in it."""
    result = {
        "documents": found.documents,
        "found": found.funnel,
        "skipped": found.skipped,
        "absent": found.absent,
        "memorised": len({target.group for target in found.targets}),
    }
    if before is None:
        return result, []
    result |= {
        "unlearned": len({target.group for target in before.unlearned}),
        "kept": len({target.group for target in before.kept}),
    }
    result |= {
        "calibration": calibration.tried if calibration else [],
        "settings": asdict(hp),
        "edit": edit.summary(),
    }
    for name, state in (("before", before), ("after", after)):
        result[name] = {
            "written": state.count(before.unlearned, "within_50"),
            "kept": state.count(before.kept, "exact"),
            "attacks": state.attacks,
            "elsewhere": elsewhere(state),
        }
    result["after"]["changed"] = before.ordinary.changed(after.ordinary)
    numbers = {
        group: number
        for number, group in enumerate(
            dict.fromkeys(target.group for target in before.unlearned + before.kept), 1
        )
    }
    return result, [
        item(numbers[target.group], found.places[target.id], target, before, after)
        for target in before.unlearned + before.kept
    ]


def elsewhere(state: State) -> dict:
    """What a model makes of text that has nothing to do with the secrets; a perplexity that is no number is None."""
    return {
        "perplexity": state.ordinary.perplexity
        if math.isfinite(state.ordinary.perplexity)
        else None
    } | state.benchmarks


def item(number: int, place: dict, target: Target, before: State, after: State) -> dict:
    """One place of a secret, redacted; ``number`` is the secret's."""
    states = {"before": before, "after": after}
    line = {
        "number": number,
        **place,
        "part": "unlearned" if target in before.unlearned else "kept",
        "tokens": len(target.T),
    }
    line |= {
        f"{name}_{when}": state.secrets[target.id][name]
        for name in ("lowest", "exact", "within_50")
        for when, state in states.items()
    }
    return line | {
        f"logit_lens_{when}": state.depths.get(target.id, {}).get("logit_lens")
        for when, state in states.items()
    }


def report(
    path: str | Path,
    decoder: Decoder,
    found: Found,
    before: State | None = None,
    after: State | None = None,
    edit: Edit | None = None,
    hp: Hyperparameters | None = None,
    calibration: Calibration | None = None,
) -> Path:
    """Writes the report, one HTML page that loads nothing and holds no secret; while the edit is in place. Of ``found`` alone, where nothing was unlearned.

    >>> before = observe(decoder, found.targets)
    >>> edit = unlearn(decoder, found.targets, hp)
    >>> path = report(folder / "report.html", decoder, found, before, observe(decoder, found.targets), edit, hp)
    >>> undo(edit)
    >>> "What is not guaranteed" in path.read_text()
    True
    """
    if before is not None and None in (after, edit, hp):
        raise ValueError(
            "A report of an edit needs the state after it, the edit and its settings: give all of them, or nothing but what was found."
        )
    result, items = outcome(found, before, after, edit, hp, calibration)
    made = rows.provenance("own", {}, {"model": decoder.revision}, {}) | {
        "model": {
            "name": decoder.name,
            "revision": decoder.revision,
            "dtype": str(decoder.neurons(0).dtype).removeprefix("torch."),
        },
        "tokenizer": tokenizer_hash(decoder.tokenizer),
    }
    importlib.import_module("companion.own.report").write(
        Path(path), {"result": result, "provenance": made}, items
    )
    return Path(path)
