"""From documents to an edit that is checked: find what is memorised → search → unlearn → check.

``run`` does it all; its parts can also be called one by one, as book/api.md shows. These functions
take paths, never a secret. What they return holds the secrets, as token ids; what they print and
raise, and the printed form of ``Found`` and ``State``, does not.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from document_audit import edit_file, export, nearby_text, report
from document_audit.memorization import Found, find_memorized
from document_audit.methods import METHODS
from document_audit.nearby_text import Passage
from document_audit.settings import AuditSettings, Limits
from document_audit.settings_search import (
    BEYOND,
    Evaluation,
    SearchResult,
    Trial,
    effect,
    search_settings,
)
from revs.measures import attacks, general_text
from revs.measures import evaluate as measuring
from revs.measures.general_text import Predictions
from revs.method.edit import Edit
from revs.method.least_squares import Hyperparameters, unlearn
from revs.method.moments import Text
from revs.model.architecture import Decoder
from revs.model.load import load
from revs.model.targets import Split, Target, split

__all__ = ["AuditSettings", "Change", "Found", "Hyperparameters", "Limits", "SearchResult", "State"]
__all__ += ["Trial", "evaluate", "find_memorized", "load", "observe", "run", "search_settings"]
__all__ += ["content", "unlearn"]
WINDOWS = general_text.TEST[:16]  # of general text that a report is about
NOTHING, UNLEARNED, UNREACHED = "nothing memorised", "unlearned", "no setting found"
FOUND = "found"  # what is memorised, and nothing was done about it yet
Progress = Callable[[str, str], Callable]  # (what, unit) → what wraps the steps of a loop


@dataclass(frozen=True)
class State:
    """What a model does with secrets, at all their places, and with other text."""

    unlearned: list[Target] = field(repr=False)
    kept: list[Target] = field(repr=False)
    secrets: dict[str, dict] = field(repr=False)  # as ``evaluate`` gives it
    general_text: Predictions
    passages: Sequence[Passage] = field(repr=False)
    nearby: list[int] = field(repr=False)  # what it would write there
    # resistance of the secrets to unlearn, by attack and aggregation (§4.4.3); empty: not attacked
    attacks: dict = field(default_factory=dict)
    ranks_by_layer: dict[str, dict] = field(default_factory=dict, repr=False)

    def count(self, targets: Sequence[Target], what: str) -> int:
        """How many secrets are ``exact`` or ``written`` at one of their places at least."""
        return len({target.group for target in targets if self.secrets[target.id][what]})

    def forgotten(self) -> int:
        """How many secrets to unlearn are neither written nor among the first candidates at any of
        their places."""
        there = lambda one: one["written"] or one["lowest"] < BEYOND
        still = {target.group for target in self.unlearned if there(self.secrets[target.id])}
        return len({target.group for target in self.unlearned} - still)

    def ranks(self) -> dict[str, list[int]]:
        """By id, the ranks of the tokens of what is to be unlearned."""
        return {target.id: self.secrets[target.id]["ranks"] for target in self.unlearned}


@dataclass(frozen=True)
class Change:
    """An edit, the states of the model before and after it, its settings, and how they were found.

    ``halfway``: of the secrets to unlearn later, how many the model wrote before and after the
    first ones were unlearned.
    """

    before: State
    after: State
    edit: Edit
    hp: Hyperparameters
    search: SearchResult | None = None
    limits: Limits = Limits()  # what is called a success
    halfway: tuple[int, int] | None = None

    def reached(self) -> dict[str, dict]:
        """By limit, what was reached and whether it is enough; None where nothing can be said."""
        before, after = self.before, self.after
        counts = before.count(before.kept, "exact"), after.count(before.kept, "exact")
        had, has = self.halfway or counts
        same = [a == b for a, b in zip(before.nearby, after.nearby, strict=True)]
        shares = {
            "forgotten": after.forgotten() / len({one.group for one in before.unlearned}),
            "kept": has / had if had else None,
            "nearby_text": sum(same) / len(same) if same else None,
            "next_word_agreement": 1 - before.general_text.share_changed(after.general_text),
            "perplexity": after.general_text.perplexity / before.general_text.perplexity - 1,
        }
        return {
            name: {"value": finite(value), "limit": getattr(self.limits, name)}
            | {"within": value is None or self.limits.is_met(name, value)}
            for name, value in shares.items()
        }


@dataclass(frozen=True)
class Audit:
    """What an audit found and did: the report's content and a line per place, neither of which
    holds a secret; the edit, if one is to be written; the seconds of each part; the secret ids."""

    result: dict
    values: list[dict]
    edit: edit_file.SavedEdit | None
    seconds: dict[str, float]
    ids: list[str] = field(repr=False)


def run(
    decoder: Decoder,
    documents: str | Path | Callable,
    secrets: str | Path | None = None,
    settings: AuditSettings | None = None,
    export_to: Path | None = None,
    progress: Progress = lambda *_: iter,
) -> Audit:
    """Find what a model has memorised of some documents, and make an edit that unlearns it.

    The model is left as it was. ``export_to`` is a new folder for the edited model, written if the
    edit meets every limit or ``anyway`` is set. Raises ValueError, before anything is read, if that
    folder is there already or nothing pins the model's weights.
    """
    edit_file.check_pinned(decoder)
    if export_to:
        export.check_new(export_to)
    settings, start = settings or AuditSettings(), time.monotonic()
    asked = documents, secrets, settings.kinds, settings.limit
    print("read: …", flush=True)
    found = find_memorized(decoder, *asked, progress=progress("try", "batches"))
    seconds = {"find": time.monotonic() - start}
    result, values, saved = *content(found), None
    print(report.found_sentence(result), flush=True)
    if found.targets:
        result, values, saved = edited(decoder, found, settings, seconds, export_to, progress)
    if "before" not in result:  # else it was said before the attacks
        print(report.verdict(result), flush=True)
    return Audit(result, values, saved, seconds, [target.id for target in found.targets])


def edited(
    decoder: Decoder,
    found: Found,
    settings: AuditSettings,
    seconds: dict[str, float],
    export_to: Path | None,
    progress: Progress,
) -> tuple[dict, list[dict], edit_file.SavedEdit | None]:
    """Unlearn what was found; return the report's content, and the edit if it is to be written.

    Where every secret is to go, the search unlearns secrets of one half and measures the cost on
    the other. Text near the secrets and the secrets to keep are protected; in the search, half of
    the latter. The verdict is printed before the attacks, on which it does not depend.
    """
    method, limits = METHODS[settings.method], settings.limits()
    first, second, kept = parts(found.targets, settings.forget, settings.seed)
    with timed(seconds, "search"):
        general = method.measured(decoder)
        spared = lambda some: general | method.spared(decoder, protected(found.nearby, some))
        spare, (hp, search) = spared(kept), chosen(decoder, found, settings, spared, progress)
    if search and not (search.reached or settings.anyway):
        return *content(found, method=settings.method, search=search), None
    print("check: before …", flush=True)
    places = first + second, kept, found.nearby
    with timed(seconds, "check"):
        before, halfway = observe(decoder, *places, attack=False), None
        if second and search:
            halfway = search.best.others
        elif second:
            on = first, second, found.nearby, limits, settings.seed, settings.method, spare
            halfway = effect(decoder, Evaluation(decoder, *on), hp)[-1]
    with timed(seconds, "unlearn"):
        more = spare | {"progress": progress("unlearn", "steps")}
        # what is looked at is what the file adds, and not what the method did before rounding
        with method.unlearn(decoder, first + second, hp, settings.seed, **more) as made:
            added = edit_file.factors(made, hp) if made.layers else {}
        made.undo()
        hashes = edit_file.weights_hash(decoder, added)
    with edit_file.add(decoder, added) as edit:
        print("check: after …", flush=True)
        with timed(seconds, "check"):
            after = observe(decoder, *places, attack=False)
            change = Change(before, after, edit, hp, search, limits, halfway)
            result, _ = content(found, change, method=settings.method)
        saved = None
        if added and (settings.anyway or result["outcome"] == UNLEARNED):
            ranks = before.ranks(), after.ranks()
            saved = edit_file.saved_edit(decoder, added, settings.method, hp, *ranks, hashes)
        written = {"written": bool(saved)}
        print(report.verdict(result | written), "attack: …", sep="\n", flush=True)
        if saved and export_to:
            export.export(edit, export_to, saved)
        with timed(seconds, "attack"):
            after = attacked(decoder, after)
    edit.undo()
    with timed(seconds, "attack"):
        before = attacked(decoder, before)
    for name, state in (("before", before), ("after", after)):
        result[name]["attacks"] = state.attacks
    return result | written, place_rows(found, before, after), saved


def chosen(
    decoder: Decoder,
    found: Found,
    settings: AuditSettings,
    spared: Callable[[Sequence[Target]], dict],
    progress: Progress,
) -> tuple[Any, SearchResult | None]:
    """The method's settings, given or found by a search on half of the secrets, and that search or
    None. ``spared`` turns secrets to protect into arguments of the method."""
    if settings.hyperparameters is not None:
        return METHODS[settings.method].Hyperparameters(**settings.hyperparameters), None
    first, second, kept = parts(found.targets, settings.forget, settings.seed)
    looked_at, safe = halves(kept, settings.seed) if kept else (second, [])
    about = found.nearby, settings.limits(), settings.minutes, settings.trials, settings.seed
    more = {"more": spared(safe), "progress": progress("search", "settings")}
    search = search_settings(decoder, first, looked_at, *about, settings.method, **more)
    return search.hp, search


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the time that its block takes to the seconds of a part."""
    start = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - start


def protected(passages: Sequence[Passage], targets: Sequence[Target]) -> list[Text]:
    """The places at which a model decides on a text near the secrets, or on a secret to keep."""
    nearby = [(one.ids, [place - 1 for place in one.places]) for one in passages if one.places]
    secrets = [(one.before(len(one.secret_ids) - 1), len(one.prompt_ids) - 1) for one in targets]
    return nearby + secrets


def parts(targets: list, forget: int | None, seed: int) -> tuple[list, list, list]:
    """Secrets to unlearn first, secrets to unlearn next, and secrets to keep, at all places."""
    groups = {target.group for target in targets}
    if forget is None or forget >= len(groups):
        return *halves(targets, seed), []
    drawn = split(targets, seed, forget)
    return drawn.forget + drawn.unseen, [], drawn.retain


def halves(targets: list, seed: int) -> tuple[list, list]:
    """All places of half of the secrets, of the larger half if there are two, and of the others."""
    groups = len({target.group for target in targets})
    if groups < 2:
        return targets, []
    drawn = split(targets, seed, -(-groups // 2))
    return drawn.forget + drawn.unseen, drawn.retain


def evaluate(decoder: Decoder, targets: Sequence[Target]) -> dict[str, dict]:
    """By id, the ``ranks`` of a secret's tokens, the ``lowest`` place of an unlearned token,
    whether the secret is written next (``exact``), and whether its text, however spelt, is in the
    next 50 greedy tokens (``written``)."""
    decode = decoder.tokenizer.decode
    text = lambda ids: decode(ids, skip_special_tokens=True).strip().casefold()
    ranks = measuring.secret_ranks(decoder, targets)
    inexact = [target for target in targets if any(ranks[target.id])]
    written = measuring.continuations(decoder, inexact)
    said = lambda one: one.id not in written or text(one.secret_ids) in text(written[one.id])
    return {
        target.id: {
            "ranks": ranks[target.id],
            "lowest": max(ranks[target.id][position] for position in target.T),
            "exact": not any(ranks[target.id]),
            "written": said(target),
        }
        for target in targets
    }


def observe(
    decoder: Decoder,
    unlearned: Sequence[Target],
    kept: Sequence[Target] = (),
    passages: Sequence[Passage] = (),
    attack: bool = True,
) -> State:
    """Return the state that a report compares before and after; ``attack=False`` omits the attacks,
    without which ``report.write`` refuses it. Raises ValueError if ``unlearned`` is empty."""
    if not unlearned:
        raise ValueError("There is nothing to look at: give the places of at least one secret.")
    secrets = evaluate(decoder, [*unlearned, *kept])
    texts = general_text.predictions(decoder, WINDOWS), passages
    nearby = nearby_text.next_tokens(decoder, passages)
    state = State(list(unlearned), list(kept), secrets, *texts, nearby)
    return attacked(decoder, state) if attack else state


def attacked(decoder: Decoder, state: State) -> State:
    """The state of this model with what attacks find of the secrets to unlearn."""
    found, ranks = attacks.measure(decoder, Split(state.unlearned, [], []))
    return replace(state, attacks=found, ranks_by_layer=ranks)


# --- what a report is made of --------------------------------------------------------------------


def content(
    found: Found,
    change: Change | None = None,
    search: SearchResult | None = None,
    method: str = "least_squares",
) -> tuple[dict, list[dict]]:
    """Return a report's content, which holds no secret: a summary, and one line per place.

    ``change`` is None if nothing was memorised or unlearned, or ``search`` found no setting.
    """
    memorised = len({target.group for target in found.targets})
    result = {"documents": found.documents, "found": found.funnel, "skipped": found.skipped}
    result |= {"absent": found.absent, "memorised": memorised, "method": method}
    if change is None:
        if search is None:
            return result | {"outcome": FOUND if memorised else NOTHING}, []
        result |= {"outcome": UNREACHED, "limits": search.limits.model_dump()}
        return result | {"trials": trial_records(search)}, []
    before, after, reached = change.before, change.after, change.reached()
    of = lambda targets: len({target.group for target in targets})
    ranks = [len(right) for some in change.edit.products.values() for _, right in some]
    result |= {
        "outcome": UNLEARNED if all(one["within"] for one in reached.values()) else UNREACHED,
        "limits": change.limits.model_dump(),
        "reached": reached,
        "unlearned": of(before.unlearned),
        "kept": of(before.kept),
        "halfway": change.halfway and list(change.halfway),
        "trials": trial_records(change.search) if change.search else [],
        "settings": asdict(change.hp),
        "edit": change.edit.summary() | {"rank": max(ranks, default=0)},
    }
    for name, state in (("before", before), ("after", after)):
        result[name] = {
            "written": state.count(before.unlearned, "written"),
            "forgotten": state.forgotten(),
            "kept": state.count(before.kept, "exact"),
            "attacks": state.attacks,
            "general_text": {"perplexity": finite(state.general_text.perplexity)},
        }
    result["after"]["changed"] = before.general_text.share_changed(after.general_text)
    return result, place_rows(found, before, after)


def place_rows(found: Found, before: State, after: State) -> list[dict]:
    """What a report says of every place of a secret."""
    every, rows = before.unlearned + before.kept, []
    groups = list(dict.fromkeys(target.group for target in every))
    for target in every:
        part = "unlearned" if target in before.unlearned else "kept"
        row = {"number": groups.index(target.group) + 1, **found.places[target.id], "part": part}
        row["tokens"] = len(target.T)
        for when, state in (("before", before), ("after", after)):
            for name in ("lowest", "exact", "written"):
                row[f"{name}_{when}"] = state.secrets[target.id][name]
            row[f"logit_lens_{when}"] = state.ranks_by_layer.get(target.id, {}).get("logit_lens")
        rows.append(row)
    return rows


def trial_records(search: SearchResult) -> list[dict]:
    """What was tried, as JSON holds it."""
    finite_values = lambda found: {name: finite(value) for name, value in found.items()}
    return [
        {"settings": one.settings, "shares": finite_values(one.shares)}
        | {"losses": finite_values(one.losses), "cost": finite(one.cost)}
        | {"chosen": one is search.best}
        for one in search.trials
    ]


def finite(value: float | None) -> float | None:
    """A number, or None where JSON has none."""
    return value if value is not None and math.isfinite(value) else None
