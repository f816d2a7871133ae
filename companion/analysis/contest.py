"""The contest: every method on several fine-tunes and several splits, and how sure its order is.

A run of the contest has the tag ``round``, on the usual fine-tune, or ``roundN``: N drew the order
of the sentences and the first embeddings of the added tokens. Fine-tunes and splits are crossed,
each method has one run in a cell, and both are drawn out of many: an order that stands on one
fine-tune is an order of that. Two methods are compared on the largest grid in which both have every
run; one that shares FEWEST fine-tunes and splits with REVS is in the contest, and a contest of
ENOUGH methods is ``whole``: from then on it judges its data set, and the runs with the settings of
older searches are a comparison. A method that it lacks cannot undo what the others refute, and no
claim that needs it is confirmed (``companion.claims.checks.judged``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from scipy.stats import t as student

from companion.analysis import results
from companion.analysis.tables import DASH, comma_list, number_ranges, ranking
from companion.experiments import methods

TAG = r"round(\d*)"
CONTROLS = ("unedited", "random")  # whose scores cannot vary
LEVEL = 0.95  # of intervals; what is left of it is the level of a test
SCALE = 100  # the most by which two scores can differ, in points
FEWEST = (4, 3)  # fine-tunes and splits of a whole contest
ENOUGH = 5  # of the paper's methods, REVS among them
WHERE = {  # what a component of variance is called, by the axes of (method, fine-tune, split)
    (0,): "method",
    (1,): "fine-tune",
    (2,): "split",
    (0, 1): "method × fine-tune",
    (0, 2): "method × split",
    (1, 2): "fine-tune × split",
    (0, 1, 2): "rest",
}


def runs(model: str, *data: str) -> pd.DataFrame:
    """The finished runs of the contest; ``learned`` is the number of a run's fine-tune, from 0."""
    frame = results.measured(model, *data)
    frame = frame[frame["tag"].str.fullmatch(TAG) & frame["failed"].isna()]
    number = frame["tag"].str.extract(TAG, expand=False)
    return frame.assign(learned=number.replace("", "0").astype(int))


def whole(played: pd.DataFrame) -> pd.DataFrame:
    """The runs of one data set's contest of the paper's methods; none if fewer than ENOUGH are in
    it. Controls have those that they have where REVS has some."""
    found = sharing(played, "revs", methods.of_paper())
    if found["method"].nunique() < ENOUGH:
        return played[:0]
    of_revs = found.loc[found["method"] == "revs", ["learned", "seed"]]
    there = pd.MultiIndex.from_frame(played[["learned", "seed"]])
    there = there.isin(pd.MultiIndex.from_frame(of_revs))
    controls = played[there & played["method"].isin(CONTROLS)]
    return played.loc[found.index.union(controls.index)]


def sharing(played: pd.DataFrame, method: str, others: Iterable[str]) -> pd.DataFrame:
    """One data set's runs of those of some methods that share FEWEST fine-tunes and splits, or
    more, with one method, each on the largest grid that it shares; and this one's on all these."""
    inside = pd.Series(False, index=played.index)
    cell = pd.MultiIndex.from_frame(played[["learned", "seed"]])
    for other in set(others) - {method}:
        pair = played["method"].isin([method, other])
        grid = both(played[pair], least=FEWEST)
        if len(grid):
            inside |= pair & cell.isin(grid.columns)
    return played[inside]


def judged(model: str, data: str) -> pd.DataFrame:
    """The runs that judge a data set: the contest's if it is whole, else those with the settings of
    older searches; empty if there are none."""
    found = whole(runs(model, data))
    return results.tagged(model, data, "") if found.empty else found


def judging(model: str, *data: str) -> pd.DataFrame:
    """The same of several data sets; ValueError if no usual run of the model is there."""
    usual = results.runs(model, *data)
    parts = [judged(model, name) for name in usual["data"].unique()]
    return pd.concat(parts, ignore_index=True)


def contested(frame: pd.DataFrame) -> list[str]:
    """The data sets of ``judging`` whose runs are a contest's."""
    return list(frame.loc[frame["tag"] != "", "data"].unique())


def spared(model: str) -> pd.DataFrame:
    """One line a fine-tune whose perplexity on ordinary text is known: what it was made of, the
    share of sentences ``known`` after it, and the ``rise`` of perplexity, both in per cent.

    That of the fine-tune with secrets alone is known from the runs that measured abilities.
    """
    looked = results.measured(model, "ssn").query("method == 'unedited'").set_index("tag")["row"]
    seen = {
        tag: row["result"].get("integrity", {}).get("perplexity") for tag, row in looked.items()
    }
    lines = []
    for row in results.finetunes(model, "ssn") + results.finetunes(model, "ssn-tune"):
        asked, found = row["settings"], row["result"]
        came, left = found.get("perplexity", (None, None))
        usual = (
            asked["digits"] == "noise" and not asked["autocast"] and asked["data"] == "synthetic"
        )
        if left is None and usual:
            came, left = seen.get("integrity-before"), seen.get("integrity")
        if came and left:
            made_of = asked["data"], asked["digits"], asked["general_text"], asked["seed"]
            known = 100 * found["memorised"] / found["sentences"]
            lines.append((*made_of, known, came, left, 100 * (left / came - 1)))
    names = ["data", "tokens for digits", "ordinary windows a step", "seed", "known"]
    return pd.DataFrame(lines, columns=[*names, "perplexity before", "after", "rise"])


def variants(model: str, data: str, named: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """The finished runs of some (tag, method), with its name, which some may share, as ``edit``."""
    frame = results.measured(model, data)
    frame = frame[frame["failed"].isna()]
    names = [named.get(key) for key in zip(frame["tag"], frame["method"], strict=True)]
    edit = pd.Categorical(names, list(dict.fromkeys(named.values())), ordered=True)
    return frame.assign(edit=edit).dropna(subset=["edit"]).sort_values(["edit", "seed"])


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """The scores of ``variants`` in points: a line a (fine-tune, split), a column an ``edit``."""
    scores = frame.pivot(
        index=["finetune", "seed"], columns="edit", values="unlearning_score"
    ).astype(float)
    return SCALE * scores


def gap(each: pd.DataFrame, edit: str, other: str) -> tuple[float, str]:
    """How far one edit of ``paired`` is above another: the mean, and its interval in words."""
    mean, low, high, _ = difference((each[edit] - each[other]).unstack().to_numpy())
    return float(mean), f"{low:+.1f} to {high:+.1f}"


def edited(rows: pd.Series) -> str:
    """Which layers some runs edited, on one split or another: "layer 29" or "layers 1–29"."""
    found = sorted(set().union(*(row["result"]["edit"]["layers"] for row in rows)))
    return f"layer{'s' * (len(found) != 1)} {number_ranges(found)}" if found else DASH


def perplexity(rows: pd.Series) -> float:
    """Of ordinary text that no method was shown, after some runs: the mean."""
    return float(np.mean([row["result"]["general_text"]["perplexity"] for row in rows]))


def cells(frame: pd.DataFrame, column: str = "unlearning_score") -> pd.DataFrame:
    """One data set's scores as shares: a line a method, a column a (fine-tune, split).

    The largest grid in which every method has a run in every cell: an unfinished contest has
    fine-tunes with few runs, and a method may have failed in one. Empty if there is none.
    """
    return max(grids(frame, column), key=lambda grid: grid.size)


def grids(frame: pd.DataFrame, column: str = "unlearning_score") -> list[pd.DataFrame]:
    """Grids of some fine-tunes and splits, with the methods that have a run in all of their cells:
    every one that no further fine-tune or split would enlarge is among them. The first is empty."""
    whole = frame.pivot(index="method", columns=["learned", "seed"], values=column)
    axes = [sorted(set(whole.columns.get_level_values(i))) for i in (0, 1)]
    there = whole.reindex(columns=pd.MultiIndex.from_product(axes)).notna().T
    found = [pd.DataFrame()]
    for some in itertools.product(*(unions(there, axis) for axis in (0, 1))):
        columns = list(itertools.product(*map(sorted, some)))
        if set(columns) <= set(whole.columns):
            found.append(whole[columns].dropna())
    return found


def both(
    pair: pd.DataFrame, column: str = "unlearning_score", least: tuple[int, int] = (2, 2)
) -> pd.DataFrame:
    """The largest grid of so many fine-tunes and splits or more in which two methods have every
    run, however many more one of them has; empty if there is none."""
    shared = [grid for grid in grids(pair, column) if len(grid) == 2]
    large = [grid for grid in shared if np.greater_equal(shaped(grid), least).all()]
    return max(large, key=lambda grid: grid.size, default=pd.DataFrame())


def unions(there: pd.DataFrame, axis: int) -> list[list[int]]:
    """The choices of fine-tunes, or of splits, that a grid can have: those with the same runs are
    in it together, or not at all. ``there``: a line a (fine-tune, split), is a method's run?"""
    alike: dict[tuple, list[int]] = {}
    for value, part in there.groupby(level=axis):
        alike.setdefault(tuple(part.to_numpy().ravel()), []).append(value)
    kinds, numbers = list(alike.values()), range(1, len(alike) + 1)
    chosen = [some for n in numbers for some in itertools.combinations(kinds, n)]
    return [list(itertools.chain(*some)) for some in chosen]


def components(frame: pd.DataFrame) -> pd.Series:
    """How many points of standard deviation of a score each source brings, by its name; controls,
    which score nothing everywhere, are left out.

    Method of moments in a fully crossed design of random effects with one run a cell: a mean square
    is the variance of its effects times the runs behind one, and of all finer ones with theirs. A
    variance that comes out below 0 is 0. Empty with fewer than two of anything.
    """
    table = cells(frame[~frame["method"].isin(CONTROLS)])
    if table.empty:
        return pd.Series(dtype=float)
    shape = (len(table), *shaped(table))
    if min(shape) < 2:
        return pd.Series(dtype=float)
    table = table.sort_index(axis=1)
    x, axes = 100 * table.to_numpy().reshape(shape), (0, 1, 2)
    squares, sigma = {}, {}
    for some in WHERE:
        effect = sum(
            (-1) ** (len(some) - len(kept))
            * x.mean(axis=tuple(set(axes) - set(kept)), keepdims=True)
            for n in range(len(some) + 1)
            for kept in itertools.combinations(some, n)
        )
        free = math.prod(shape[axis] - 1 for axis in some)
        behind = x.size / math.prod(shape[axis] for axis in some)
        squares[some] = behind * float((effect**2).sum()) / free
    for some in reversed(WHERE):  # the finest first
        finer = [other for other in WHERE if set(some) < set(other)]
        behind = lambda of: x.size / math.prod(shape[axis] for axis in of)
        rest = sum(behind(other) * sigma[other] for other in finer)
        sigma[some] = max(0.0, (squares[some] - rest) / behind(some))
    return pd.Series({name: math.sqrt(sigma[some]) for some, name in WHERE.items()})


def shaped(table: pd.DataFrame) -> tuple[int, int]:
    """How many fine-tunes and splits a grid has."""
    return tuple(table.columns.get_level_values(i).nunique() for i in (0, 1))


def own(frame: pd.DataFrame, column: str = "unlearning_score") -> dict[str, pd.Series]:
    """Each method's values by (fine-tune, split), on the largest grid in which it has every run;
    without controls."""
    some = frame[~frame["method"].isin(CONTROLS)]
    return {name: cells(part, column).loc[name] for name, part in some.groupby("method")}


def interval(values: pd.Series) -> tuple[float, float]:
    """Of the mean of some values, one a (fine-tune, split), over both; a fine-tune that lacks one
    of the splits, as controls may, has no part in it. 0 to 0, which is none, of fewer than two of
    either."""
    table = values.unstack().dropna()
    if min(table.shape) < 2:
        return 0, 0
    _, low, high, _ = difference(table.to_numpy())
    return low, high


def difference(d: np.ndarray) -> tuple[float, float, float, float]:
    """The mean of differences d (fine-tunes × splits), its interval, and p that it is 0.

    Both fine-tunes and splits are drawn: Var = (MS_fine-tune + MS_split − MS_rest) / n, with
    Satterthwaite's degrees of freedom, which a sum would keep from falling below those of its parts
    and a difference does not: no fewer are taken. Where splits show no variance of their own
    (MS_split ≤ MS_rest) it is MS_fine-tune / n: the t test of the fine-tunes' means.
    """
    F, S = d.shape
    mean = d.mean()
    rows, columns = d.mean(1, keepdims=True), d.mean(0, keepdims=True)
    ms = [S * ((rows - mean) ** 2).sum() / (F - 1), F * ((columns - mean) ** 2).sum() / (S - 1)]
    free = [F - 1, S - 1, (F - 1) * (S - 1)]
    ms.append(((d - rows - columns + mean) ** 2).sum() / free[2])
    whole, of = ms[0], free[0]
    if ms[1] > ms[2]:
        whole = ms[0] + ms[1] - ms[2]
        of = whole**2 / sum(m**2 / k for m, k in zip(ms, free, strict=True))
        of = max(of, min(free))
    if whole <= 0:
        return mean, mean, mean, math.nan
    error = math.sqrt(whole / d.size)
    wide = student.ppf((1 + LEVEL) / 2, of) * error
    return mean, mean - wide, mean + wide, float(2 * student.sf(abs(mean) / error, of))


def holm(p: pd.Series) -> pd.Series:
    """Holm's correction of some p, each at most 1."""
    order = p.sort_values()
    stepped = (order * np.arange(len(order), 0, -1)).cummax().clip(upper=1.0)
    return stepped.reindex(p.index)


def against(
    frame: pd.DataFrame, method: str = "revs", column: str = "unlearning_score"
) -> pd.DataFrame:
    """What each other method's score is above this one's, data set by data set, in points: mean,
    ends of the interval, p and p after Holm, and on how many fine-tunes, all that both have. Empty
    with fewer than two fine-tunes or splits."""
    lines = []
    for name, part in frame.groupby("data", sort=False):
        found = {}
        for other in sorted(set(part["method"]) - {method, *CONTROLS}):
            pair = both(part[part["method"].isin([method, other])], column)
            if len(pair):
                d = 100 * (pair.loc[other] - pair.loc[method]).unstack()
                found[other] = (*difference(d.to_numpy()), len(d))
        each = pd.DataFrame(found, index=["mean", "low", "high", "p", "tunes"]).T
        each = each.rename_axis("method").assign(data=name, holm=holm(each["p"]))
        lines.append(each.reset_index())
    found = pd.concat(lines, ignore_index=True) if lines else pd.DataFrame()
    return found.reindex(columns=["data", "method", "mean", "low", "high", "p", "tunes", "holm"])


def sides(gaps: pd.DataFrame) -> pd.Series:
    """Of each method: is its interval ``above`` REVS, ``below`` it, or on both sides?"""
    side = np.select([gaps["low"] > 0, gaps["high"] < 0], ["above", "below"], "undecided")
    return pd.Series(side, index=gaps["method"])


def swayed(frame: pd.DataFrame, column: str = "unlearning_score") -> dict[str, list[int]]:
    """The methods that stand on another side of REVS when one of a data set's fine-tunes is left
    out, and the numbers of those fine-tunes."""
    found, whole = {}, sides(against(frame, column=column))
    for number in sorted(frame["learned"].unique()):
        rest = sides(against(frame[frame["learned"] != number], column=column))
        for method in whole.index[rest.reindex(whole.index) != whole]:
            found.setdefault(method, []).append(int(number))
    return found


def told(frame: pd.DataFrame, column: str = "unlearning_score") -> dict[str, str]:
    """One data set's contest in words: the ``order`` of the methods with their means, best first,
    and which of them are ``above`` REVS by their interval, ``below`` it, ``undecided``, and
    different from it after correction (``corrected``)."""
    means = pd.Series({name: some.mean() for name, some in own(frame, column).items()}, dtype=float)
    gaps = against(frame, column=column).sort_values("mean", ascending=False)
    side = sides(gaps).to_numpy()
    which = {name: side == name for name in ("above", "below", "undecided")}
    which["corrected"] = gaps["holm"] < 1 - LEVEL
    said = {
        name: comma_list(gaps.loc[some, "method"].map(methods.title))
        for name, some in which.items()
    }
    return {"order": ranking(SCALE * means.rename(methods.title))} | said


def table(frame: pd.DataFrame, column: str = "unlearning_score") -> pd.DataFrame:
    """Every method's score, over how many fine-tunes, and how far it is above REVS's (``against``),
    each with its interval over fine-tunes and splits, data set by data set: each cell a string."""
    lines = []
    for name, part in frame.groupby("data", sort=False):
        for method, values in own(part, column).items():
            tunes, splits = values.unstack().shape
            if min(tunes, splits) < 2:
                continue
            low, high = np.clip([SCALE * end for end in interval(values)], 0, SCALE)
            told = {
                "score": f"{SCALE * values.mean():.1f}",
                "its interval": f"{low:.1f} to {high:.1f}",
            }
            lines.append({"data": name, "method": method, "fine-tunes": str(tunes)} | told)
    if not lines:
        return pd.DataFrame(columns=["data", "method", "score"])
    gaps = against(frame, column=column)
    points = gaps[["mean", "low", "high"]].astype(float).map("{:+.1f}".format)
    wide = gaps["high"] - gaps["low"] > 2 * SCALE
    ends = (points["low"] + " to " + points["high"]).mask(wide, "wider than the scale")
    p = gaps[["p", "holm"]].astype(float).map("{:.3f}".format)
    p = p.replace({"nan": DASH, "0.000": "< 0.001"})
    gaps = gaps[["data", "method"]].assign(
        **{"above REVS": points["mean"], "interval": ends, "p": p["p"], "p, corrected": p["holm"]}
    )
    found = pd.DataFrame(lines).merge(gaps, on=["data", "method"], how="left").fillna(DASH)
    return results.titled(found)
