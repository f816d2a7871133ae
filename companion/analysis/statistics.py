"""Intervals and tests: a bootstrap over adapters, splits and secrets; the paper's Wilcoxon test.

Two methods are compared in the same cells. A cell is an adapter and a split; a draw of the
bootstrap takes adapters, splits and secrets with replacement, the same ones for every method.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest, wilcoxon

from companion.analysis.tables import DASH
from companion.data import datasets
from companion.store import rows
from revs.measures.attacks import AGGREGATIONS, ATTACKS

DRAWS, LEVEL = 2000, 0.95
SIX = 6  # pairs: fewer cannot reach a p of 0.05
LEAST = 0.001  # p that is written as a number
SCORE = ("efficacy", "generalization", "specificity")
Values = dict[str, pd.DataFrame]  # metric → secrets × runs, as shares
_READ: dict[tuple, dict[str, pd.Series]] = {}


# --- values of single secrets --------------------------------------------------------------------


def secret_items(row: dict, *columns: str) -> pd.DataFrame:
    """Some columns of a row's per-example values, with their secret's name as ``group``. A set
    found in documents cannot be read here; it has one sentence per secret, so the id serves."""
    items = rows.per_example(row, "id", "part", *columns)
    name = row["settings"]["data"]
    if Path(name).stem not in datasets.builtin():
        return items.assign(group=items["id"])
    groups = {record.id: record.group for record in datasets.read(name)}
    return items.assign(group=items["id"].map(groups))


def score_by_secret(row: dict) -> dict[str, pd.Series]:
    """Efficacy and generalization of each forgotten secret, and how many of each retained secret's
    sentences are still exact. Each is divided by the mean number of sentences per secret, which
    makes the mean over secrets equal to the row's mean over sentences."""
    found, items = {}, secret_items(row, "efficacy", "exact")
    parts = zip(SCORE, ("forget", "unseen", "retain"), ("efficacy", "efficacy", "exact"))
    for name, part, column in parts:
        if len(some := items[items["part"] == part]):
            sums = some.groupby("group")[column].sum().astype(float)
            found[name] = sums / (len(some) / len(sums))
    return found


def resistance_by_secret(row: dict) -> dict[str, pd.Series]:
    """Resistance@k per example of each forgotten secret to each attack."""
    some = secret_items(row, *ATTACKS).query("part == 'forget'").set_index("group")
    one, k = AGGREGATIONS["per_example"], row["settings"]["score_k"]
    return {attack: some[attack].map(lambda ranks: one([ranks], k)) for attack in ATTACKS}


def by_secret(done: Sequence[dict], values=score_by_secret) -> Values:
    """The values of some rows, metric by metric: a line per secret, a column per row."""
    each = [once(row, values) for row in done]
    names = dict.fromkeys(name for one in each for name in one)
    empty = pd.Series(dtype=float)
    return {
        name: pd.DataFrame({i: one.get(name, empty) for i, one in enumerate(each)}, dtype=float)
        for name in names
    }


def once(row: dict, values: Callable[[dict], dict[str, pd.Series]]) -> dict[str, pd.Series]:
    """The values of a row, read once in a process: several tables of a page ask for them."""
    path = row.get("path")
    key = values.__name__, path, path and path.stat().st_mtime_ns, row["name"]
    if key not in _READ:
        _READ[key] = values(row)
    return _READ[key]


# --- the bootstrap -------------------------------------------------------------------------------


def counts(names: Sequence, seed: int = 0) -> pd.DataFrame:
    """How often each name occurs in each of DRAWS bootstrap samples."""
    draw = np.random.default_rng(seed).multinomial
    drawn = draw(len(names), np.full(len(names), 1 / len(names)), size=DRAWS)
    return pd.DataFrame(drawn, columns=list(names))


def harmonic_samples(values: Values) -> np.ndarray:
    """The harmonic mean of the metrics' means over drawn secrets: draws × runs. A metric that a run
    lacks is left out of its mean."""
    secrets = sorted({name for frame in values.values() for name in frame.index})
    drawn, parts = counts(secrets), []
    with np.errstate(invalid="ignore", divide="ignore"):
        for frame in values.values():
            times = drawn[list(frame.index)].to_numpy()
            total = times @ frame.fillna(0).to_numpy()
            parts.append(total / (times @ frame.notna().to_numpy()))
        return harmonic_mean(np.stack(parts))


def harmonic_mean(parts: np.ndarray) -> np.ndarray:
    """The harmonic mean over the first axis, ignoring nan; 0 where a part is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return (~np.isnan(parts)).sum(axis=0) / np.nansum(1 / parts, axis=0)


def cell_weights(frame: pd.DataFrame) -> np.ndarray:
    """How often each run's adapter and split are drawn together: draws × runs."""
    weights = np.ones((DRAWS, len(frame)))
    for seed, axis in enumerate(("adapter", "split"), 1):
        names = sorted(frame[axis].unique())
        if len(names) > 1:
            weights *= counts(names, seed)[list(frame[axis])].to_numpy()
    return weights


def interval(sample: np.ndarray) -> tuple[float, float]:
    """The middle LEVEL of a sample; draws without a value are left out."""
    low, high = np.nanquantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of ``n`` items: it has a width where all of them agree."""
    found = binomtest(round(share * n), n).proportion_ci(LEVEL, "wilson")
    return float(found.low), float(found.high)


def newcombe(share: float, n: int, other: float, m: int) -> tuple[float, float]:
    """Newcombe's interval of the difference of two shares, of ``n`` and of ``m`` items, from the
    Wilson intervals of both (his method 10, 1998)."""
    (low, high), (other_low, other_high) = wilson(share, n), wilson(other, m)
    below = math.hypot(share - low, other_high - other)
    above = math.hypot(high - share, other - other_low)
    return share - other - below, share - other + above


def by_method(
    runs: pd.DataFrame, values: np.ndarray, samples: np.ndarray, to: str | None = None
) -> Iterator[dict]:
    """Yield for each method of one data set the number of its ``runs``, the ``mean`` of their
    values, its interval ``low`` to ``high``, and ``p``, of the hypothesis that it is 0; with
    ``to``, the same for the difference from that method, in the cells that both have.

    ``values`` holds one number per run, ``samples`` the same in each draw: draws × runs.
    """
    weights = cell_weights(runs)
    cells = runs.assign(place=range(len(runs)))
    places = cells.pivot_table("place", ["adapter", "split"], "method", aggfunc="first")
    for method in runs["method"].unique():
        if to and (method == to or to not in places):
            continue
        shared = places[[method, to] if to else [method]].dropna().astype(int)
        if shared.empty:
            continue
        own = shared[method].to_numpy()
        found, sample = values[own], samples[:, own]
        if to:
            found, sample = found - values[shared[to]], sample - samples[:, shared[to]]
        drawn = weights[:, own]
        with np.errstate(invalid="ignore"):  # nan where a draw has none of the runs
            sample = (sample * drawn).sum(axis=1) / drawn.sum(axis=1)
        low, high = interval(sample)
        line = {"method": method, "runs": len(own), "mean": float(found.mean())}
        yield line | {"low": low, "high": high, "p": two_sided(sample)}


# --- tests ---------------------------------------------------------------------------------------


def two_sided(sample: np.ndarray) -> float:
    """The two-sided p of no difference: twice the share of draws on the rarer side of 0, with
    one more draw on that side, so that p is never 0."""
    known = sample[~np.isnan(sample)]
    rarer = min((known <= 0).sum(), (known >= 0).sum())
    return float(min(1.0, 2 * (rarer + 1) / (len(known) + 1)))


def least_p(tests: int) -> float:
    """The least p that so many tests can reach after Holm's correction, if it is the least of all:
    no draw lies on the rarer side."""
    return tests * 2 / (DRAWS + 1)


def holm(p: pd.Series) -> pd.Series:
    """Holm's correction of some p, each at most 1."""
    order = p.sort_values()
    stepped = (order * np.arange(len(order), 0, -1)).cummax().clip(upper=1.0)
    return stepped.reindex(p.index)


def signed_rank(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The exact two-sided p of the Wilcoxon signed-rank test of paired runs (§5); None with fewer
    than SIX pairs, nan if no pair differs."""
    if len(ours) < SIX:
        return None
    if list(ours) == list(theirs):
        return math.nan
    return float(wilcoxon(ours, theirs, method="exact").pvalue)


def p_text(p: float | None) -> str:
    """A p in three digits; a dash where there is none."""
    if p is None or math.isnan(p):
        return DASH
    return f"< {LEAST}" if p < LEAST else f"{p:.3f}"
