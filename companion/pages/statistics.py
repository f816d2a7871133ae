"""How sure are we (§4.5, §5)? Intervals by the bootstrap over secrets, and the paper's signed-rank test over seeds.

The paper tests REVS against each method with the Wilcoxon signed-rank test on six seeds. Six pairs have 2⁶ = 64 signs, so
that the smallest two-sided p is 2/64, about 0.03, before any correction for the number of comparisons; with three it is
0.25, which decides nothing. What more seeds cannot show, the secrets can: a bootstrap draws them anew, each for all seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from companion.pages import extraction, paper, results
from companion.pages.tables import DASH, percent
from companion.record import rows
from companion.runs import datasets, methods
from revs.measures.attacks import ATTACKS, READINGS

DRAWS, LEVEL = 2000, 0.95
SEEDS = 6  # fewer pairs cannot reach a p of 0.05


def named(row: dict, *columns: str) -> pd.DataFrame:
    """These columns of a row's items with the name of the secret that each belongs to; a set that was found in documents is not at hand, and has one sentence a secret."""
    items, name = (
        rows.items(row, "id", "part", *columns),
        row["provenance"]["settings"]["data"],
    )
    known = Path(name).stem in datasets.builtin()
    return items.assign(
        group=items["id"].map({record.id: record.group for record in datasets.read(name)})
        if known
        else items["id"]
    )


def resisted(row: dict, reading: str) -> dict[str, pd.Series]:
    """Resistance@k of each forgotten secret to each attack, by its name, in a reading that is a mean over secrets."""
    some = named(row, *ATTACKS).query("part == 'forget'").set_index("group")
    return {
        attack: some[attack].map(
            lambda depths: READINGS[reading]([depths], row["provenance"]["settings"]["score_k"])
        )
        for attack in ATTACKS
    }


def by_secret(row: dict) -> dict[str, pd.Series]:
    """Efficacy and generalization of each forgotten secret, by its name, and the share of each kept one's sentences still exact."""
    items, found = named(row, "efficacy", "exact"), {}
    for name, part, column in (
        ("efficacy", "forget", "efficacy"),
        ("generalization", "unseen", "efficacy"),
        ("specificity", "retain", "exact"),
    ):
        some = items[items["part"] == part]
        if len(some):
            found[name] = some.groupby("group")[column].mean().astype(float)
    return found


def samples(
    done: Sequence[dict[str, pd.Series]], score: str = "unlearning_score"
) -> list[dict[str, np.ndarray]]:
    """Each metric of each run, and the score that is their harmonic mean, over DRAWS samples of the secrets, (DRAWS,).

    A secret that is drawn is drawn for every run in which it has a part: seeds and methods are compared on the same ones.
    """
    if not (
        names := sorted(
            {name for found in done for values in found.values() for name in values.index}
        )
    ):
        return [{} for _ in done]
    drawn = pd.DataFrame(
        np.random.default_rng(0).multinomial(
            len(names), np.full(len(names), 1 / len(names)), size=DRAWS
        ),
        columns=names,
    )
    runs = []
    for found in done:
        with np.errstate(invalid="ignore"):
            parts = {
                metric: (drawn[values.index] * values).sum(axis=1).to_numpy()
                / drawn[values.index].sum(axis=1).to_numpy()
                for metric, values in found.items()
            }
        with np.errstate(divide="ignore"):
            runs.append(parts | {score: len(parts) / sum(1 / part for part in parts.values())})
    return runs


def intervals(done: Sequence[dict]) -> dict[str, tuple[float, float]]:
    """The interval of each metric's mean over runs that differ by seed, as shares."""
    drawn = samples([by_secret(row) for row in done])
    return {
        metric: interval(np.mean([run[metric] for run in drawn], axis=0))
        for metric in (drawn[0] if drawn else ())
    }


def interval(sample: np.ndarray) -> tuple[float, float]:
    """The middle LEVEL of a sample; draws without one secret of a part are left out."""
    low, high = np.nanquantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def signed_rank(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The exact two-sided p of the Wilcoxon signed-rank test, paired by seed; None with fewer than SEEDS pairs, nan if no pair differs."""
    if len(ours) < SEEDS:
        return None
    return (
        float(wilcoxon(ours, theirs, method="exact").pvalue)
        if any(one != other for one, other in zip(ours, theirs))
        else math.nan
    )


def shown(p: float | None) -> str:
    """A p in three digits; a dash where there is none."""
    return DASH if p is None or math.isnan(p) else f"{p:.3f}"


def significant(model: str, data: str, level: float) -> tuple[bool, str, list[str]] | None:
    """Is REVS's Unlearning Score higher than that of every method of the paper, each with a p below the level (tab:core_results_llama's dagger)? With the largest p, and the rows; None unless each has SEEDS seeds."""
    frame = results.measured(model, data)
    frame = frame[frame["tag"] == ""]
    scores = {
        name: {row["provenance"]["settings"]["seed"]: row for row in results.finished(frame, name)}
        for name, entry in methods.registry().items()
        if paper.has_settings(entry["title"])
    }
    of_revs, tests = scores.pop("revs"), {}
    for name, found in scores.items():
        seeds = sorted(set(found) & set(of_revs))
        ours, theirs = (
            [rows_of[seed]["result"]["after"]["unlearning_score"] for seed in seeds]
            for rows_of in (of_revs, found)
        )
        if (p := signed_rank(ours, theirs)) is None:
            return None
        tests[name] = (p, np.mean(ours) > np.mean(theirs))
    worst = max(tests, key=lambda name: (not tests[name][1], tests[name][0]))
    said = f"{'p' if tests[worst][1] else 'not ahead, p'} = {shown(tests[worst][0])} against {methods.registry()[worst]['title']}, of {len(tests)} methods, uncorrected"
    return (
        all(ahead and p < level for p, ahead in tests.values()),
        said,
        [row["name"] for found in (of_revs, *scores.values()) for row in found.values()],
    )


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Each method's Unlearning Score with its interval, and REVS's lead over it, paired by seed and secret."""
    return leads(
        frame, "Unlearning Score", by_secret, lambda row: row["result"]["after"]["unlearning_score"]
    )


def resistance(frame: pd.DataFrame, reading: str = "per_example") -> pd.DataFrame:
    """The same of the Resistance Score in a reading that is a mean over secrets; empty unless something was attacked."""
    return leads(
        extraction.attacked(frame),
        "Resistance Score",
        lambda row: resisted(row, reading),
        lambda row: row["result"]["attacks"]["resistance_score"][reading],
    )


def leads(
    frame: pd.DataFrame,
    title: str,
    parts: Callable[[dict], dict[str, pd.Series]],
    value: Callable[[dict], float],
) -> pd.DataFrame:
    """Each method's score with its interval, and REVS's lead over it, paired by seed and secret: ``parts`` are what a row's score is the harmonic mean of, secret by secret, ``value`` is the score."""
    done = [
        (name, row) for name in frame["method"].unique() for row in results.finished(frame, name)
    ]
    drawn: dict[str, dict[int, tuple[float, np.ndarray]]] = {}
    for (name, row), sample in zip(done, samples([parts(row) for _, row in done], title)):
        drawn.setdefault(name, {})[row["provenance"]["settings"]["seed"]] = (
            value(row),
            sample[title],
        )
    lines = []
    for name, entry in methods.registry().items():
        if not drawn.get(name):
            continue
        scores = [score for score, _ in drawn[name].values()]
        low, high = interval(np.mean([sample for _, sample in drawn[name].values()], axis=0))
        line = {
            "method": entry["title"],
            title: percent(float(np.mean(scores))),
            "interval": f"{percent(low)} to {percent(high)}",
            "REVS's lead": DASH,
            "interval of the lead": DASH,
            "p over seeds": DASH,
        }
        both = sorted(set(drawn[name]) & set(drawn.get("revs", {})))
        if name != "revs" and both:
            lead = [drawn["revs"][seed][1] - drawn[name][seed][1] for seed in both]
            low, high = interval(np.mean(lead, axis=0))
            pairs = [(drawn["revs"][seed][0], drawn[name][seed][0]) for seed in both]
            p = signed_rank(*zip(*pairs))
            line |= {
                "REVS's lead": percent(float(np.mean([a - b for a, b in pairs]))),
                "interval of the lead": f"{percent(low)} to {percent(high)}",
                "p over seeds": shown(p),
            }
        lines.append(line)
    return pd.DataFrame(lines)
