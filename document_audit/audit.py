"""Your own model, your own documents, in a few names, in the order in which one uses them.

book/api.md has an example, which a test runs. A path, never a secret, is what these functions are
given. What they return holds the secrets, as token ids; what they print and raise, and what is
printed of ``Found`` and ``State``, does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from companion.store import rows
from document_audit import nearby_text
from document_audit import report as reporting
from document_audit.memorization import Found, find_memorized
from document_audit.nearby_text import Passage
from document_audit.settings_search import BEYOND, Calibration, Limits, calibrate
from revs.measures import attacks, general_text
from revs.measures import evaluate as measuring
from revs.measures.general_text import Predictions
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.load import load, tokenizer_hash
from revs.model.targets import Split, Target

__all__ = ["Calibration", "Change", "Found", "Hyperparameters", "Limits", "State", "calibrate"]
__all__ += ["evaluate", "find_memorized", "load", "observe", "report", "unlearn"]
WINDOWS = general_text.TEST[:16]  # of ordinary text that a report is about
NOTHING, UNLEARNED, UNREACHED = "nothing memorised", "unlearned", "no setting found"
FOUND = "found"  # what is memorised, and nothing was done about it yet


@dataclass(frozen=True)
class State:
    """What a model does with secrets, at all their places, and with other text."""

    unlearned: list[Target] = field(repr=False)
    kept: list[Target] = field(repr=False)
    secrets: dict[str, dict] = field(repr=False)  # as ``evaluate`` gives it
    attacks: dict  # resistance of the secrets to unlearn, by attack and reading (§4.4.3)
    depths: dict[str, dict] = field(repr=False)
    general_text: Predictions  # what it makes of benign text
    passages: Sequence[Passage] = field(repr=False)
    near: list[int] = field(repr=False)  # what it would write there

    def count(self, targets: Sequence[Target], what: str) -> int:
        """How many secrets are ``exact`` or ``within_50`` at one of their places at least."""
        return len({target.group for target in targets if self.secrets[target.id][what]})

    def forgotten(self) -> int:
        """How many secrets to unlearn it neither writes nor has among its first candidates, at all
        of their places."""
        there = lambda one: one["within_50"] or one["lowest"] < BEYOND
        still = {target.group for target in self.unlearned if there(self.secrets[target.id])}
        return len({target.group for target in self.unlearned} - still)

    def ranks(self) -> dict[str, list[int]]:
        """By id, the ranks of the tokens of what is to be unlearned."""
        return {target.id: self.secrets[target.id]["ranks"] for target in self.unlearned}


@dataclass(frozen=True)
class Change:
    """An edit between two looks at the model, its settings, and how these were calibrated.

    ``halfway``: where every secret is unlearned in the end, how many of the second half the model
    wrote before, and how many after the first half was unlearned.
    """

    before: State
    after: State
    edit: Edit
    hp: Hyperparameters
    calibration: Calibration | None = None
    limits: Limits = Limits()  # what is called a success
    halfway: tuple[int, int] | None = None

    def reached(self) -> dict[str, dict]:
        """By limit, what was reached and whether it is enough; None where nothing can be said."""
        before, after = self.before, self.after
        counts = before.count(before.kept, "exact"), after.count(before.kept, "exact")
        had, has = self.halfway or counts
        same = [a == b for a, b in zip(before.near, after.near, strict=True)]
        seen = {
            "forgotten": after.forgotten() / len({one.group for one in before.unlearned}),
            "kept": has / had if had else None,
            "near": sum(same) / len(same) if same else None,
            "words": 1 - before.general_text.share_changed(after.general_text),
            "perplexity": after.general_text.perplexity / before.general_text.perplexity - 1,
        }
        return {
            name: {"value": finite(value), "limit": getattr(self.limits, name)}
            | {"within": value is None or self.limits.met(name, value)}
            for name, value in seen.items()
        }


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


def observe(
    decoder: Decoder,
    unlearned: Sequence[Target],
    kept: Sequence[Target] = (),
    passages: Sequence[Passage] = (),
) -> State:
    """Everything that a report compares, before an edit and after it.

    Secrets to unlearn and to keep, attacks, ordinary text, and the text near the secrets.
    Raises ValueError if there is no secret.
    """
    if not unlearned:
        raise ValueError("There is nothing to look at: give the places of at least one secret.")
    attacked, depths = attacks.measure(decoder, Split(list(unlearned), [], []))
    secrets, now = (
        evaluate(decoder, [*unlearned, *kept]),
        general_text.predictions(decoder, WINDOWS),
    )
    there = nearby_text.following(decoder, passages)
    return State(list(unlearned), list(kept), secrets, attacked, depths, now, passages, there)


def outcome(
    found: Found, change: Change | None = None, calibration: Calibration | None = None
) -> tuple[dict, list[dict]]:
    """A report's content, without a secret: what was found and what changed; a line a place.

    Without a change: nothing is memorised, or no setting was found in a calibration.
    """
    memorised = len({target.group for target in found.targets})
    result = {"documents": found.documents, "found": found.funnel, "skipped": found.skipped}
    result |= {"absent": found.absent, "memorised": memorised}
    if change is None:
        if calibration is None:
            return result | {"outcome": FOUND if memorised else NOTHING}, []
        result |= {"outcome": UNREACHED, "limits": asdict(calibration.limits)}
        return result | {"calibration": trials(calibration)}, []
    before, after, reached = change.before, change.after, change.reached()
    of = lambda targets: len({target.group for target in targets})
    result |= {
        "outcome": UNLEARNED if all(one["within"] for one in reached.values()) else UNREACHED,
        "limits": asdict(change.limits),
        "reached": reached,
        "unlearned": of(before.unlearned),
        "kept": of(before.kept),
        "halfway": change.halfway and list(change.halfway),
        "calibration": trials(change.calibration) if change.calibration else [],
        "settings": asdict(change.hp),
        "edit": change.edit.summary() | furthest(change.edit),
    }
    for name, state in (("before", before), ("after", after)):
        result[name] = {
            "written": state.count(before.unlearned, "within_50"),
            "forgotten": state.forgotten(),
            "kept": state.count(before.kept, "exact"),
            "beside": state.count(beside(found, before.unlearned, before.kept), "exact"),
            "attacks": state.attacks,
            "elsewhere": {"perplexity": finite(state.general_text.perplexity)},
        }
    result["after"]["changed"] = before.general_text.share_changed(after.general_text)
    return result, lines(found, before, after)


def beside(found: Found, unlearned: Sequence[Target], kept: Sequence[Target]) -> list[Target]:
    """Of what is kept, what shares its domain with a secret that is unlearned."""
    domain = lambda target: found.places[target.id]["domain"]
    theirs = {domain(target) for target in unlearned} - {None}
    return [target for target in kept if domain(target) in theirs]


def lines(found: Found, before: State, after: State) -> list[dict]:
    """What a report says of every place of a secret."""
    every, items = before.unlearned + before.kept, []
    groups = list(dict.fromkeys(target.group for target in every))
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
    return items


def furthest(edit: Edit) -> dict[str, float]:
    """How far columns were moved, in units of their own lengths: the median, and the most."""
    moved = sorted(
        norm / max(float(edit.originals[l][n].float().norm()), 1e-12)
        for l, norms in edit.norms().items()
        for n, norm in norms.items()
    )
    return {"moved": moved[len(moved) // 2], "furthest": moved[-1]} if moved else {}


def trials(calibration: Calibration) -> list[dict]:
    """What was tried, as JSON holds it."""
    shares = lambda found: {name: finite(value) for name, value in found.items()}
    return [
        one
        | {"seen": shares(one["seen"]), "losses": shares(one["losses"])}
        | {"cost": finite(one["cost"])}
        for one in calibration.tried
    ]


def finite(value: float | None) -> float | None:
    """A number, or None where JSON has none."""
    return value if value is not None and math.isfinite(value) else None


def report(
    path: str | Path,
    decoder: Decoder,
    found: Found,
    change: Change | None = None,
    calibration: Calibration | None = None,
) -> Path:
    """Writes the report, one HTML page that loads nothing and holds no secret.

    While the edit is in place; of ``found`` alone, where nothing was unlearned.
    """
    result, items = outcome(found, change, calibration)
    dtype = str(decoder.neurons(0).dtype).removeprefix("torch.")
    made = rows.provenance("documents", {}, {"model": decoder.revision}, {})
    made["settings"] = {"model": decoder.name, "dtype": dtype}
    made["tokenizer"] = tokenizer_hash(decoder.tokenizer)
    reporting.write(Path(path), {"model": decoder.name, "result": result} | made, items)
    return Path(path)
