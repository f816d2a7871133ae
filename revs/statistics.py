"""How sure are we (§4.5, §5.1)? Intervals by the bootstrap over secrets, and the paper's signed-rank test over seeds.

The paper tests REVS against each method with the Wilcoxon signed-rank test on six seeds. Six pairs have 2⁶ = 64 signs, so
that the smallest two-sided p is 2/64, about 0.03, before any correction for the number of comparisons; with three it is
0.25, which decides nothing. What more seeds cannot show, the secrets can: a bootstrap draws them anew, within each seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from revs import data, methods, results, rows
from revs.tables import DASH, percent

DRAWS, LEVEL = 2000, 0.95
SEEDS = 6  # fewer pairs cannot reach a p of 0.05


def by_secret(row: dict) -> dict[str, np.ndarray]:
    """Efficacy and generalization of each forgotten secret, in the order of its name, and the share of each kept one's sentences still exact."""
    items = rows.read_items(row["path"])
    group = {record.id: record.group for record in data.read(row["provenance"]["settings"]["data"])}
    items = items.assign(group=items["id"].map(group))
    found = {}
    for name, part, column in (("efficacy", "forget", "efficacy"), ("generalization", "unseen", "efficacy"), ("specificity", "retain", "exact")):
        some = items[items["part"] == part]
        if len(some):
            found[name] = some.groupby("group")[column].mean().to_numpy(dtype=float)
    return found


def draws(found: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Each metric of one run, and its Unlearning Score, over DRAWS samples of its secrets, (DRAWS,). Two methods with one seed get the same samples."""
    random = np.random.default_rng(seed)
    forgotten, kept = (random.integers(n, size=(DRAWS, n)) for n in (len(found["efficacy"]), len(found["specificity"])))
    parts = {name: values[kept if name == "specificity" else forgotten].mean(1) for name, values in found.items()}
    with np.errstate(divide="ignore"):
        return parts | {"unlearning_score": len(parts) / sum(1 / part for part in parts.values())}


def intervals(done: Sequence[dict]) -> dict[str, tuple[float, float]]:
    """The interval of each metric's mean over runs that differ by seed, as shares."""
    samples = [draws(by_secret(row), row["provenance"]["settings"]["seed"]) for row in done]
    return {metric: interval(np.mean([sample[metric] for sample in samples], axis=0)) for metric in (samples[0] if samples else ())}


def interval(sample: np.ndarray) -> tuple[float, float]:
    """The middle LEVEL of a sample."""
    low, high = np.quantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def signed_rank(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The exact two-sided p of the Wilcoxon signed-rank test, paired by seed; None with fewer than SEEDS pairs."""
    return float(wilcoxon(ours, theirs, method="exact").pvalue) if len(ours) >= SEEDS else None


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Each method's Unlearning Score with its interval, and REVS's lead over it, paired by seed and secret."""
    samples = {}
    for name in frame["method"].unique():
        done = {row["provenance"]["settings"]["seed"]: row for row in results.finished(frame, name)}
        samples[name] = {seed: (row["result"]["after"]["unlearning_score"], draws(by_secret(row), seed)["unlearning_score"]) for seed, row in done.items()}
    lines = []
    for name, entry in methods.registry().items():
        if not samples.get(name):
            continue
        scores = [score for score, _ in samples[name].values()]
        low, high = interval(np.mean([sample for _, sample in samples[name].values()], axis=0))
        line = {"method": entry["title"], "Unlearning Score": percent(float(np.mean(scores))), "interval": f"{percent(low)} to {percent(high)}", "REVS's lead": DASH, "interval of the lead": DASH, "p over seeds": DASH}
        both = sorted(set(samples[name]) & set(samples.get("revs", {})))
        if name != "revs" and both:
            lead = [samples["revs"][seed][1] - samples[name][seed][1] for seed in both]
            low, high = interval(np.mean(lead, axis=0))
            pairs = [(samples["revs"][seed][0], samples[name][seed][0]) for seed in both]
            p = signed_rank(*zip(*pairs))
            line |= {"REVS's lead": percent(float(np.mean([a - b for a, b in pairs]))), "interval of the lead": f"{percent(low)} to {percent(high)}", "p over seeds": DASH if p is None else f"{p:.3f}"}
        lines.append(line)
    return pd.DataFrame(lines)
