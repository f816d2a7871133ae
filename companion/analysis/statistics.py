"""How sure are we (§4.5, §5)? Intervals over secrets, and the paper's test over seeds.

The paper tests REVS against each method with the Wilcoxon signed-rank test on six seeds. Six pairs
have 2⁶ = 64 signs, so that the smallest two-sided p is 2/64, about 0.03, before any correction for
the number of comparisons; with three it is 0.25, which decides nothing. What more seeds cannot
show, the secrets can: a bootstrap draws them anew, each for all seeds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from companion.analysis import contest, extraction, results
from companion.analysis.tables import DASH, percent
from companion.data import datasets
from companion.experiments import methods
from companion.store import rows
from revs.measures.attacks import AGGREGATIONS, ATTACKS

DRAWS, LEVEL = 2000, 0.95
SEEDS = 6  # fewer pairs cannot reach a p of 0.05
PAIR = ["finetune", "seed"]  # on which two methods are compared
LEAST = 0.001  # p that is shown as a number
LEAD = ["lead", "lead_low", "lead_high", "p_drawn", "p"]
COMPARED = ["data", "method", "score", "low", "high", *LEAD]
# What a score is the harmonic mean of: values secret by secret, or another harmonic mean.
Parts = dict[str, "pd.Series | Parts"]


def secret_items(row: dict, *columns: str) -> pd.DataFrame:
    """These columns of a row's items with their secret's name as ``group``; a set that was found in
    documents is not at hand, and has one sentence a secret."""
    items = rows.per_example(row, "id", "part", *columns)
    name = row["settings"]["data"]
    if Path(name).stem not in datasets.builtin():
        return items.assign(group=items["id"])
    groups = {record.id: record.group for record in datasets.read(name)}
    return items.assign(group=items["id"].map(groups))


def by_secret(row: dict) -> Parts:
    """Efficacy and generalization of each forgotten secret, and the share of each kept one's
    sentences that are still exact."""
    found, items = {}, secret_items(row, "efficacy", "exact")
    for name, part, column in (
        ("efficacy", "forget", "efficacy"),
        ("generalization", "unseen", "efficacy"),
        ("specificity", "retain", "exact"),
    ):
        if len(some := items[items["part"] == part]):
            found[name] = some.groupby("group")[column].mean().astype(float)
    return found


def resisted(row: dict, reading: str) -> Parts:
    """Resistance@k of each forgotten secret to each attack; the reading is a mean over secrets."""
    some = secret_items(row, *ATTACKS).query("part == 'forget'").set_index("group")
    read, k = AGGREGATIONS[reading], row["settings"]["score_k"]
    return {attack: some[attack].map(lambda depths: read([depths], k)) for attack in ATTACKS}


def in_all(row: dict) -> Parts:
    """The Unlearning Score and the Resistance Score, counted secret by secret, as equals."""
    return {"output": by_secret(row), "layers": resisted(row, "per_example")}


def samples(done: Sequence[Parts], score: str = "unlearning_score") -> list[dict[str, np.ndarray]]:
    """Each part of each run, and the ``score`` that is their harmonic mean, over DRAWS samples.

    A secret that is drawn is drawn for every run in which it has a part: seeds and methods are
    compared on the same ones.
    """
    names = sorted({name for found in done for values in leaves(found) for name in values.index})
    if not names:
        return [{} for _ in done]
    chances = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(0).multinomial(len(names), chances, size=DRAWS)
    drawn = pd.DataFrame(counts, columns=names)
    with np.errstate(invalid="ignore", divide="ignore"):
        return [
            {part: over(values, drawn) for part, values in (found | {score: found}).items()}
            for found in done
        ]


def leaves(found: Parts) -> list[pd.Series]:
    """All values secret by secret that a score is made of."""
    below = (leaves(one) if isinstance(one, dict) else [one] for one in found.values())
    return [values for some in below for values in some]


def over(values: pd.Series | Parts, drawn: pd.DataFrame) -> np.ndarray:
    """The mean over secrets in each draw; of several parts the harmonic mean of theirs."""
    if isinstance(values, dict):
        return len(values) / sum(1 / over(one, drawn) for one in values.values())
    times = drawn[values.index]
    return (times * values).sum(axis=1).to_numpy() / times.sum(axis=1).to_numpy()


def interval(sample: np.ndarray) -> tuple[float, float]:
    """The middle LEVEL of a sample; draws without one secret of a part are left out."""
    low, high = np.nanquantile(sample, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def intervals(done: Sequence[dict]) -> dict[str, tuple[float, float]]:
    """The interval of each metric's mean over rows that differ by seed, as shares."""
    drawn = samples([by_secret(row) for row in done])
    return {
        metric: interval(np.mean([run[metric] for run in drawn], axis=0))
        for metric in (drawn[0] if drawn else ())
    }


def signed_rank(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The exact two-sided p of the Wilcoxon signed-rank test of paired runs; None with fewer than
    SEEDS pairs, nan if no pair differs."""
    if len(ours) < SEEDS:
        return None
    if list(ours) == list(theirs):
        return math.nan
    return float(wilcoxon(ours, theirs, method="exact").pvalue)


def p_text(p: float | None) -> str:
    """A p in three digits; a dash where there is none."""
    if p is None or math.isnan(p):
        return DASH
    return f"< {LEAST}" if p < LEAST else f"{p:.3f}"


def significant(model: str, data: str, level: float) -> tuple[bool, str, list[str]] | None:
    """Is REVS's Unlearning Score higher than that of every method of the paper, each with a p below
    the level (the dagger of tab:core_results_llama)? With the largest p, and the rows; None where a
    method with fewer than SEEDS seeds may still decide it."""
    known = methods.of_paper()
    found = contest.judged(model, data)
    found = found[found["method"].isin(known) & found["failed"].isna()]
    scores = found.pivot(index=PAIR, columns="method", values="unlearning_score")
    tests = []
    for name in (name for name in known if name != "revs"):
        pairs = scores.reindex(columns=["revs", name]).dropna()
        p = signed_rank(list(pairs["revs"]), list(pairs[name]))
        if p is None:
            continue
        ahead = bool(pairs["revs"].mean() > pairs[name].mean())
        tests.append((not ahead, p, methods.registry()[name]["title"]))
    refuted = any(behind or p >= level for behind, p, _ in tests)
    if not refuted and len(tests) < len(known) - 1:
        return None
    behind, p, name = max(tests, key=lambda test: test[:2])
    said = (
        f"{'not ahead, ' * behind}p {p_text(p) if p < LEAST else f'= {p_text(p)}'} against {name}"
    )
    holds = not behind and all(p < level for _, p, _ in tests)
    said += f", of {len(tests)} methods, uncorrected"
    said += ", of pairs that share fine-tunes" if found["finetune"].nunique() > 1 else ""
    return holds, said, list(found["name"])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Each method's Unlearning Score with its interval, and REVS's lead over it."""
    return leads(compared(by_score(frame)), "Unlearning Score")


def by_score(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that ended, judged by their Unlearning Score."""
    return frame[frame["failed"].isna()].assign(score=lambda done: done["unlearning_score"])


def resistance(frame: pd.DataFrame, reading: str = "per_example") -> pd.DataFrame:
    """The same of the Resistance Score in a reading that is a mean over secrets."""
    found = extraction.attacked(frame)
    scores = [row["result"]["attacks"]["resistance_score"][reading] for row in found["row"]]
    of_secret = functools.partial(resisted, reading=reading)
    return leads(compared(found.assign(score=scores), of_secret), "Resistance Score")


def leads(found: pd.DataFrame, title: str) -> pd.DataFrame:
    """``compared`` in words: each method's score with its interval, and REVS's lead over it."""
    lines = []
    for one in found.to_dict("records"):
        line = {"data": one["data"], "method": one["method"], title: percent(one["score"])}
        line["interval"] = between(one["low"], one["high"])
        if not math.isnan(one["lead"]):
            line["REVS's lead"] = percent(one["lead"])
            line["interval of the lead"] = between(one["lead_low"], one["lead_high"])
            line["p over runs"] = p_text(one["p"])
        lines.append(line)
    if not lines:
        return pd.DataFrame(columns=["data", "method", title])
    table = results.titled(pd.DataFrame(lines)).sort_values(["data", "method"])
    return table.astype(object).fillna(DASH)


def compared(frame: pd.DataFrame, parts: Callable[[dict], Parts] = by_secret) -> pd.DataFrame:
    """One line a method of a data set, as shares: the mean of its runs' ``score`` and its interval
    over secrets, ``low`` to ``high``; REVS's ``lead``, paired by fine-tune, seed and secret, with
    its interval, ``p_drawn`` over secrets and ``p`` over runs, nan where there is none. ``parts``
    are what a row's score is the harmonic mean of."""
    lines = []
    for name, runs in frame.groupby("data", sort=False):
        drawn = samples([parts(row) for row in runs["row"]], "score")
        runs = runs.assign(sample=[one["score"] for one in drawn])
        revs = runs[runs["method"] == "revs"]
        for method, mine in runs.groupby("method"):
            line = [name, method, float(np.mean(mine["score"])), *interval(mean(mine["sample"]))]
            both = mine.merge(revs, on=PAIR, suffixes=("", "_revs"))
            if method != "revs" and len(both):
                line.append(float(np.mean(both["score_revs"] - both["score"])))
                ahead = mean(both["sample_revs"] - both["sample"])
                line += [*interval(ahead), two_sided(ahead)]
                line.append(signed_rank(list(both["score_revs"]), list(both["score"])))
            lines.append(line + [math.nan] * (len(COMPARED) - len(line)))
    return pd.DataFrame(lines, columns=COMPARED)


def mean(sampled: pd.Series) -> np.ndarray:
    """The mean of samples, one a run, draw by draw."""
    return np.mean(list(sampled), axis=0)


def two_sided(sample: np.ndarray) -> float:
    """The p of a difference that is 0: twice the share of a sample on the rarer side of it, the
    difference that was found counted with it."""
    known = sample[~np.isnan(sample)]
    rarer = min((known <= 0).sum(), (known >= 0).sum())
    return float(min(1.0, 2 * (rarer + 1) / (len(known) + 1)))


def between(low: float, high: float) -> str:
    """An interval in per cent."""
    return f"{percent(low)} to {percent(high)}"
