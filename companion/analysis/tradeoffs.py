"""What is paid for what (§5.1, Appendix "GPT-J-6B": fig:tradeoff_plots and fig:combined_plots).

Efficacy against the number of candidates |C| needs no runs of its own: rows keep every rank. The
paper does not define its "edit strength": here it is one setting a method, all others as tuned.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pandas as pd

from companion.analysis import extraction, results
from companion.analysis.results import finished, measured
from companion.analysis.tables import METRICS, percent
from companion.experiments import methods
from companion.store import paper, rows
from revs.measures import metrics

# the paper draws REVS against FT-L on Llama, and against MEMIT on GPT-J; each with its knob
KNOBS = {"revs": "r_h", "ft_l": "norm_constraint", "memit": "clamp_norm_factor"}
TAGS = {"revs": "base", "ft_l": "strength", "memit": "strength"}  # seed 0 with tuned settings
UNCHANGED = "none"  # what revs.measures.attacks calls a prompt as it is
CANDIDATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
Curves = dict[str, pd.DataFrame]  # method → one line a point
Found = tuple[bool, str, list[str]]  # does it hold, what was found in words, the rows behind it

# --- curves --------------------------------------------------------------------------------------


def by_candidates(model: str, data: str) -> Curves:
    """Efficacy@|C| of the usual runs in per cent, mean and standard deviation over seeds."""
    frame, found = results.tagged(model, data, ""), {}
    for name in KNOBS:
        done = list(finished(frame, name))
        ranks = [forgotten(row) for row in done]
        lines = []
        for k in CANDIDATES if done else ():
            mean, std = metrics.summary(
                [metrics.mean([metrics.efficacy(one, k) for one in seed]) for seed in ranks]
            )
            lines.append({"method": name, "|C|": k, "efficacy": 100 * mean, "std": 100 * std})
        if done:
            behind = [[row["name"] for row in done]] * len(lines)
            found[name] = pd.DataFrame(lines).assign(rows=behind)
    return found


def forgotten(row: dict) -> list[list[int]]:
    """The ranks of each unlearned secret's target tokens."""
    items = rows.per_example(row, "part", "ranks", "T")
    items = items[items["part"] == "forget"]
    return [[ranks[i] for i in T] for ranks, T in zip(items["ranks"], items["T"], strict=True)]


def by_strength(model: str, data: str) -> Curves:
    """Each method's runs over its ``knob``, weakest setting first, the tuned one among them."""
    return varied(model, data, KNOBS, "knob")


def by_targets(model: str, data: str) -> Curves:
    """Each method's runs over the number of secrets to forget, the tuned half among them."""
    return varied(model, data, dict.fromkeys(KNOBS, "forget"), "targets")


def varied(model: str, data: str, what: dict[str, str], by: str) -> Curves:
    """Each method's finished runs of seed 0 in which this alone was varied, and the tuned one, in
    per cent; ``targets`` are the secrets unlearned. A method with one run is left out."""
    frame = measured(model, data)
    frame = frame[(frame["seed"] == 0) & frame["failed"].isna()].copy()
    frame[list(METRICS)] *= 100
    frame["alone"] = [set(row["overrides"]) == {what.get(row["method"])} for row in frame["row"]]
    found = {}
    for name, knob in KNOBS.items():
        part = frame[frame["method"] == name]
        part = part.assign(tuned=part["tag"] == TAGS[name], knob=part.get(knob))
        part = part[part["tuned"] | part["alone"]]
        targets = [row["result"]["after"]["forget"] for row in part["row"]]
        part = part.assign(targets=targets, rows=[[row] for row in part["name"]])
        if len(part) > 1:
            found[name] = part.sort_values(by, ignore_index=True)
    return found


def points(curves: Callable[[str, str], Curves], *models: str) -> pd.DataFrame:
    """Every point of some models' curves on the paper's data sets; ``panel`` names both."""
    return pd.concat(
        [
            part.assign(panel=f"{title}, {results.short(model)}")
            for model in models
            for data, title in methods.PAPER_DATA.items()
            for part in curves(model, data).values()
        ],
        ignore_index=True,
    )


def panels(
    candidates: pd.DataFrame, strength: pd.DataFrame, targets: pd.DataFrame, model: str, gptj: str
) -> pd.DataFrame:
    """Each panel of the paper's two figures, its data set, and how many points ours has."""
    kinds = {"c_size": candidates, "specificity": strength, "targets": targets}
    titles = {"ssn": "SSN", "email": "Emails", "url": "URLs"}
    ours = {"fig:tradeoff_plots": (model, "ft_l"), "fig:combined_plots": (gptj, "memit")}
    lines = []
    for figure, (one, rival) in ours.items():
        for label in paper.tables()["figures"][figure]["panels"]:
            of = next(points for kind, points in kinds.items() if kind in label)
            data = next(title for key, title in titles.items() if f"_{key}" in label)
            drawn = of.loc[of["panel"] == f"{data}, {results.short(one)}", "method"]
            counts = [
                f"{methods.registry()[name]['title']} {(drawn == name).sum()} points"
                for name in ("revs", rival)
            ]
            said = f"{results.title(one)}: {', '.join(counts)}"
            lines.append({"panel": f"`{label}`", "data": data, "ours": said})
    return pd.DataFrame(lines)


# --- claims about curves, judged from rows (params/claims.yml) ------------------------------------


def judged(curves: Callable[[str, str], Curves]) -> Callable:
    """Makes a rule on the curves of some methods a check of a claim, given by their names before
    the rule's other values: does it hold, what was found, the rows; None without the curves."""

    def wrap(rule: Callable) -> Callable[..., Found | None]:
        @functools.wraps(rule)
        def check(model: str, data: str, *given) -> Found | None:
            known, names = curves(model, data), [one for one in given if one in KNOBS]
            if not set(names) <= set(known):
                return None
            found = [known[name] for name in names]
            said = rule(*found, *given[len(names) :])
            behind = [name for curve in found for some in curve["rows"] for name in some]
            return said and (*said, list(dict.fromkeys(behind)))

        return check

    return wrap


@judged(by_strength)
def dominates(one: pd.DataFrame, other: pd.DataFrame) -> tuple[bool, str]:
    """Is every point of the other's curve dominated by one of this one's?

    Of a point with more efficacy than any of this method's, or more specificity, nothing is known:
    how far a setting was turned is our choice. Such points are counted apart.
    """
    mine, theirs = (curve[["efficacy", "specificity"]].to_numpy() for curve in (one, other))
    within = theirs[(theirs <= mine.max(axis=0)).all(axis=1)]
    beaten = sum(((mine >= x).all(axis=1) & (mine > x).any(axis=1)).any() for x in within)
    beyond = len(theirs) - len(within)
    said = f"{beaten} of {len(within)} points"
    said += f", {beyond} more beyond its own" if beyond else ""
    return bool(beaten == len(within) > 0), said


@judged(by_strength)
def reaches(one: pd.DataFrame, metric: str, value: float) -> tuple[bool, str]:
    """Has some point so much of a metric, or of two at once ("efficacy and specificity")?"""
    most = one[metric.split(" and ")].min(axis=1).max()
    return bool(most >= value), f"{most:.1f} at most"


@judged(by_strength)
def keeps(one: pd.DataFrame, metric: str, value: float) -> tuple[bool, str]:
    """Has every point at least so much of a metric?"""
    return bool(one[metric].min() >= value), f"{one[metric].min():.1f} at least"


@judged(by_candidates)
def above(one: pd.DataFrame, other: pd.DataFrame) -> tuple[bool, str]:
    """Is its efficacy at no number of candidates lower than the other's, and at some higher?"""
    lower = int((one["efficacy"] < other["efficacy"]).sum())
    higher = bool((one["efficacy"] > other["efficacy"]).any())
    return lower == 0 and higher, f"lower at {lower} of {len(one)} sizes"


@judged(by_candidates)
def stays(one: pd.DataFrame, value: float) -> tuple[bool, str]:
    """Is its efficacy at every number of candidates at least so high?"""
    return bool(one["efficacy"].min() >= value), f"{one['efficacy'].min():.1f} at least"


@judged(by_targets)
def steadier(one: pd.DataFrame, other: pd.DataFrame, most: float) -> tuple[bool, str]:
    """Does its Unlearning Score move by at most so many points, and by less than the other's?"""
    mine, theirs = (score.max() - score.min() for score in of_targets(one, other))
    return bool(mine <= most and mine < theirs), f"{mine:.1f} against {theirs:.1f} points"


@judged(by_targets)
def declines(*curves: pd.DataFrame) -> tuple[bool, str]:
    """Is each one's Unlearning Score lower with the most targets than with the fewest?"""
    ends = [score.iloc[[0, -1]].tolist() for score in of_targets(*curves)]
    titles = [methods.registry()[curve["method"].iloc[0]]["title"] for curve in curves]
    said = [f"{title} {a:.1f} to {b:.1f}" for title, (a, b) in zip(titles, ends, strict=True)]
    return all(last < first for first, last in ends), ", ".join(said)


@judged(by_targets)
def begins(one: pd.DataFrame, value: float) -> tuple[bool, str]:
    """Is its Unlearning Score with the fewest targets at least so high?"""
    (score,) = of_targets(one)
    return bool(score.iloc[0] >= value), f"{score.iloc[0]:.1f} with {score.index[0]} targets"


@judged(by_targets)
def leads(one: pd.DataFrame, other: pd.DataFrame) -> tuple[bool, str] | None:
    """Has it the higher Unlearning Score at every number of targets that both were tried with?"""
    mine, theirs = of_targets(one, other)
    both = mine.index.intersection(theirs.index)
    higher = int((mine[both] > theirs[both]).sum())
    said = f"higher at {higher} of {len(both)} numbers"
    return (higher == len(both), said) if len(both) else None


def of_targets(*curves: pd.DataFrame) -> list[pd.Series]:
    """The Unlearning Scores of some curves by the number of targets, fewest first."""
    return [curve.set_index("targets")["unlearning_score"] for curve in curves]


def weakest(model: str, data: str, strategy: str) -> Found | None:
    """Does this way to change a prompt leave the least resistance of all, or as little as another,
    on every model that it can be seen on? Where all ways are equal nothing is seen."""
    frame, seen = extraction.perturbations(model, data), []
    for run in frame[frame["method"] != "unedited"].to_dict("records"):
        ways = run["row"]["result"]["perturbations"]
        left = {way: tried["released"] for way, tried in ways.items() if way != UNCHANGED}
        if len(set(left.values())) > 1:
            least = [way for way, value in left.items() if value == min(left.values())]
            title = methods.registry()[run["method"]]["title"]
            said = f"{title} {' and '.join(least)} ({percent(min(left.values()))})"
            seen.append((strategy in least, said, run["name"]))
    holds, words, names = zip(*seen, strict=True) if seen else ((), (), ())
    return (all(holds), ", ".join(words), list(names)) if seen else None
