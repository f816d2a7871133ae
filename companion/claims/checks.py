"""Rules that decide a claim.

Those on cells judge by numbers alone: the values of a column, or of several, by row. Whose numbers
they are does not matter, so that one rule judges the paper's own table, ours, and any other way to
give values to rows. Those on rows ask what a table's cells do not say: how much of a model an edit
touches, what its strength costs. params/claims.yml says in words what each rule means.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable

import pandas as pd
from scipy.stats import spearmanr

from companion.analysis import contest, organic, statistics, tradeoffs
from companion.analysis.results import finished
from companion.analysis.tradeoffs import Found, by_strength
from companion.data import models
from companion.experiments import methods

Values = dict[str, float]  # by row; of several columns tuples
ALL, UNEDITED = "all", "Unedited"
AGAINST_ALL = {"first", "place", "close", "paid", "superior"}  # every method has a say
FEW = 3  # methods, of which a rank correlation says something
ORDERS = ("first", "place", "close", "above", "far")  # about the gap between two rows
LABELS = 1000  # ways to shuffle the methods' names, drawn at random where there are more
APART = ("linked", "opposed", "paid")  # about how two columns go together: the second is shuffled


def strings(given: Iterable) -> list[str]:
    """The names in what is given to a rule."""
    nested = (strings(one) if isinstance(one, list) else [one] for one in given)
    return [name for some in nested for name in some if isinstance(name, str)]


def named(expect: dict) -> set[str]:
    """The rows that a rule cannot do without."""
    ((kind, given),) = expect.items()
    special = {"far": given[1:2], "near": [UNEDITED], "above": given[:1]}
    return set(strings(special.get(kind, given)))


def needed(expect: dict, every: Iterable[str]) -> set[str]:
    """The rows without which a claim cannot be confirmed; ``every`` are the printed ones."""
    ((kind, given),) = expect.items()
    everybody = kind in AGAINST_ALL or ALL in given
    methods = set(every) - {UNEDITED} if everybody else set()
    return (named(expect) | set(strings(given)) | methods) - {ALL}


def judged(expect: dict, values: Values, every: Iterable[str]) -> bool | None:
    """Does a claim hold? None where a missing row may still decide it.

    What some methods refute, more of them cannot confirm; but a correlation may go either way.
    """
    ((kind, given),) = expect.items()
    correlates = kind in ("linked", "opposed")
    few = len(methods_of(values)) < FEW or set(every) - {UNEDITED} - set(values)
    if named(expect) - set(values) or correlates and few:
        return None
    if kind not in RULES:
        raise ValueError(f"'{kind}' is not a check: use {', '.join(RULES)}.")
    holds = bool(RULES[kind](values, *given))
    return None if holds and needed(expect, every) - set(values) else holds


def methods_of(values: Values) -> Values:
    return {row: value for row, value in values.items() if row != UNEDITED}


def place(values: Values, row: str, n: int = 1, within: float = math.inf) -> bool:
    others = methods_of(values).values()
    above = sum(value > values[row] for value in others)
    return above < n and max(others) - values[row] <= within


def near(values: Values, points: float, *rows: str) -> bool:
    some = methods_of(values) if rows == (ALL,) else [row for row in rows if row in values]
    return all(abs(values[row] - values[UNEDITED]) <= points for row in some)


def leads(values: Values, rows: list[str], others: list[str] | str) -> list[tuple]:
    """By how much each of some rows is above each of others, the least first."""
    if others == ALL:
        others = [row for row in methods_of(values) if row not in rows]
    return sorted(
        (values[row] - values[other], row, other)
        for row in rows
        for other in others
        if {row, other} <= set(values)
    )


def averages(values: Values, *groups: list[str]) -> list[float]:
    """The mean of each group of rows."""
    return [sum(values[row] for row in group) / len(group) for group in groups]


def correlation(values: Values) -> float:
    """Spearman's ρ of two columns over methods; 0 where one has no order."""
    columns = list(zip(*methods_of(values).values(), strict=True))
    ordered = all(len(set(column)) > 1 for column in columns)
    return float(spearmanr(*columns).statistic) if ordered else 0.0


def unpaid(values: Values, one: str) -> list[str]:
    """The methods above one in the first of two columns that are not below it in the second."""
    (first, second), others = values[one], methods_of(values)
    return [row for row, (a, b) in others.items() if a > first and b >= second]


def won(values: Values, one: str) -> int:
    """In how many columns a row is the highest."""
    best = [max(column) for column in zip(*methods_of(values).values(), strict=True)]
    return sum(value >= most for value, most in zip(values[one], best, strict=True))


RULES: dict[str, Callable[..., bool]] = {
    "first": place,
    "place": place,
    "close": place,
    "above": lambda v, row, *others: all(v[row] > v[other] for other in others if other in v),
    "at_least": lambda v, row, least: v[row] >= least,
    "at_most": lambda v, row, most: v[row] <= most,
    "times": lambda v, row, other, times: v[row] >= times * v[other],
    "near": near,
    "far": lambda v, points, *rows: all(lead[0] >= points for lead in leads(v, *rows)),
    "groups": lambda v, *groups: averages(v, *groups)[0] > averages(v, *groups)[1],
    "linked": lambda v, least: correlation(v) >= least,
    "opposed": lambda v, most: correlation(v) < most,
    "paid": lambda v, one: not unpaid(v, one),
    "superior": lambda v, one, but: won(v, one) >= len(v[one]) - but,
}


def alike(expect: dict, values: Values) -> bool:
    """Does a claim speak of no method, or of every one in the same way, so that no name matters?"""
    ((kind, given),) = expect.items()
    spoken, known = set(strings(given[1:2] if kind == "far" else given)), set(methods_of(values))
    same = not spoken - {ALL, UNEDITED} or kind == "far" and spoken >= known
    return kind not in APART and same or len(known) < 2


def chance(expect: dict, values: Values) -> float:
    """The share of the ways to give the measured methods' names to the same values in which a claim
    would hold; nan where it speaks of all alike.

    The unedited model keeps its value. Where a claim is about how columns go together, the first
    column keeps its names.
    """
    if alike(expect, values):
        return math.nan
    ((kind, given),) = expect.items()
    names, draw = sorted(methods_of(values)), random.Random(0)
    moved = names if kind in APART else [name for name in names if name in strings(given)]
    if math.perm(len(names), len(moved)) <= LABELS:
        ways = itertools.permutations(names, len(moved))
    else:
        ways = (draw.sample(names, len(moved)) for _ in range(LABELS))
    rest, held = [name for name in names if name not in moved], []
    for way in ways:
        left = [name for name in names if name not in way]
        pairs = zip([*moved, *rest], [*way, *left], strict=True)
        if kind in APART:
            drawn = {name: (values[name][0], *values[other][1:]) for name, other in pairs}
        else:
            drawn = {name: values[other] for name, other in pairs}
        held.append(bool(RULES[kind](values | drawn, *given)))
    return sum(held) / len(held)


def bar(expect: dict) -> float:
    """What a claim's number must reach, or stay under; nan where it is no single one."""
    ((kind, given),) = expect.items()
    if kind in ("at_least", "at_most"):
        return given[1]
    if kind == "close":
        return -given[2]
    return given[0] if kind == "far" else 0.0 if kind in ORDERS else math.nan


def comes_to(expect: dict, values: Values) -> dict | None:
    """The numbers of a claim that is about more than one row's, for its sentence; else None."""
    ((kind, given),) = expect.items()
    if kind in ("linked", "opposed"):
        return {"rho": correlation(values), "methods": len(methods_of(values))}
    if kind in ORDERS:
        of = {"far": given[1:], "above": [given[:1], given[1:]]}.get(kind, [given[:1], ALL])
        found, n = leads(values, *of), given[1] if kind == "place" else 1
        return dict(zip(("lead", "row", "other"), found[min(n, len(found)) - 1], strict=True))
    if kind == "groups":
        return dict(zip(("one", "other"), averages(values, *given), strict=True))
    if kind == "paid":
        return {"rows": ", ".join(unpaid(values, given[0])) or "none"}
    if kind == "superior":
        return {"first": won(values, given[0]), "of": len(values[given[0]])}
    return None


# --- rules on rows: does it hold, what was found, in which rows; None without them ----------------


def small(model: str, data: str, one: str, most: float) -> Found | None:
    """Does this method change at most so many per cent of all columns of FF₂, in the mean?"""
    done = list(finished(contest.judged(model, data), one))
    if not done:
        return None
    shape = models.registry()[model]["shape"]
    columns = shape["layers"] * shape["ff"]
    share = 100 * sum(row["result"]["edit"]["columns"] for row in done) / len(done) / columns
    names = [row["name"] for row in done]
    return share <= most, f"{share:.1f} per cent of {columns:,} columns", names


@tradeoffs.judged(by_strength)
def costs(one: pd.DataFrame, metric: str, least: float, other: str) -> tuple[bool, str]:
    """Has some point so much of a metric, and less of the other than the best without it?"""
    there = one[metric] >= least
    dear, cheap = one.loc[there, other].max(), one.loc[~there, other].max()
    return bool(dear < cheap), f"{other} {dear:.1f} with it, {cheap:.1f} without"


@tradeoffs.judged(by_strength)
def narrower(one: pd.DataFrame, other: pd.DataFrame, metric: str) -> tuple[bool, str]:
    """Does a metric vary less over this method's curve than over the other's?"""
    mine, theirs = (curve[metric].max() - curve[metric].min() for curve in (one, other))
    return bool(mine < theirs), f"{mine:.1f} against {theirs:.1f} points"


@tradeoffs.judged(by_strength)
def traded(*curves: pd.DataFrame) -> tuple[bool, str]:
    """Is each one's specificity lower where it has the most efficacy than where the least?"""
    ends, said = [], []
    for curve in curves:
        places = [curve["efficacy"].idxmin(), curve["efficacy"].idxmax()]
        ends.append(curve.loc[places, "specificity"].tolist())
        title = methods.registry()[curve["method"].iloc[0]]["title"]
        said.append("{} {:.1f} to {:.1f}".format(title, *ends[-1]))
    return all(last < first for first, last in ends), ", ".join(said)


CURVED = ("above", "begins", "declines", "dominates", "keeps", "leads", "reaches", "stays")
CURVED = {name: getattr(tradeoffs, name) for name in (*CURVED, "steadier")}
CURVED |= {rule.__name__: rule for rule in (costs, narrower, traded)}
ON_ROWS = CURVED | {"small": small, "public": organic.public, "weakest": tradeoffs.weakest}
ON_ROWS |= {"significant": statistics.significant}
BOTH = ("declines", "traded")  # say the same of each method that they name


def chance_on_rows(kind: str, given: list, model: str, data: str) -> float:
    """The share of the ways to name other methods in a claim in which it would hold, of those whose
    rows are there; nan if it names none, or there is no other."""
    known = methods.of_paper()
    named = [one for one in given if one in known]
    among = list(tradeoffs.KNOBS) if kind in CURVED else known
    ways = itertools.combinations if kind in BOTH else itertools.permutations
    held = []
    for others in ways(among, len(named)) if named else ():
        names = dict(zip(named, others, strict=True))
        told = ON_ROWS[kind](model, data, *(names.get(one, one) for one in given))
        held += [told[0]] if told else []
    return sum(held) / len(held) if len(held) > 1 else math.nan
