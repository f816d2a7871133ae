"""What is paid for what (§5.1, Appendix "GPT-J-6B": the panels of fig:tradeoff_plots and fig:combined_plots).

Efficacy against the number of candidates |C| needs no runs of its own: rows keep every rank. The paper does not define
its "edit strength": here it is one setting a method, with all others as they were tuned.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from companion.pages import extraction, paper, results
from companion.pages.results import finished, measured
from companion.pages.tables import METRICS, percent, shown
from companion.record import rows
from companion.runs import methods
from revs.measures import metrics

SHOWN = (
    "revs",
    "ft_l",
    "memit",
)  # the paper draws REVS against FT-L on Llama, and against MEMIT on GPT-J
KNOBS = {"revs": "r_h", "ft_l": "norm_constraint", "memit": "clamp_norm_factor"}
TAGS = {"revs": "base", "ft_l": "strength", "memit": "strength"}  # seed 0 with tuned settings
WELL = 10.0  # points of the Unlearning Score
UNCHANGED = "none"  # what revs.measures.perturbations calls a prompt as it is
CANDIDATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def by_candidates(frame: pd.DataFrame) -> pd.DataFrame:
    """Efficacy@|C| in per cent: one line for each method and |C|, mean and standard deviation over seeds."""
    lines = []
    for name in SHOWN:
        ranks = [forgotten(row) for row in finished(frame, name)]
        for k in CANDIDATES if ranks else ():
            mean, std = metrics.summary(
                [metrics.mean([metrics.efficacy(one, k) for one in of_seed]) for of_seed in ranks]
            )
            lines.append({"method": name, "|C|": k, "efficacy": 100 * mean, "std": 100 * std})
    return pd.DataFrame(lines)


def forgotten(row: dict) -> list[list[int]]:
    """The ranks of each unlearned secret's target tokens."""
    items = rows.items(row)
    items = items[items["part"] == "forget"]
    return [[ranks[i] for i in T] for ranks, T in zip(items["ranks"], items["T"])]


def seed_zero(model: str, data: str) -> pd.DataFrame:
    """The runs of seed 0 of the methods shown, finished ones, scores in per cent; ``targets`` is how many secrets were unlearned."""
    frame = measured(model, data)
    frame = frame[
        (frame["seed"] == 0) & frame["method"].isin(SHOWN) & frame["failed"].isna()
    ].copy()
    frame[list(METRICS)] *= 100
    frame["targets"] = [row["result"]["after"]["forget"] for row in frame["row"]]
    return frame


def by_strength(model: str, data: str) -> dict[str, pd.DataFrame]:
    """For each method its runs over its knob, weakest setting of the knob first, the tuned one among them; methods with one run are left out."""
    frame = seed_zero(model, data)
    found = {}
    for name, knob in KNOBS.items():
        pattern = rf"^(?:{TAGS[name]}|(?:curve|strength)-{knob}[\d.e-]+)$"
        part = frame[(frame["method"] == name) & frame["tag"].str.match(pattern)]
        if len(part) > 1:
            found[name] = part.sort_values(knob, ignore_index=True)
    return found


def by_targets(model: str, data: str) -> dict[str, pd.DataFrame]:
    """For each method its runs over the number of secrets, the tuned half among them; methods with one run are left out."""
    frame = seed_zero(model, data)
    found = {}
    for name in SHOWN:
        part = frame[
            (frame["method"] == name)
            & ((frame["tag"] == TAGS[name]) | frame["tag"].str.match(r"^targets-forget\d+$"))
        ]
        if len(part) > 1:
            found[name] = part.sort_values("targets", ignore_index=True)
    return found


def dominates(model: str, data: str, one: str, other: str) -> tuple[bool, str, list[str]] | None:
    """Is every point of the other method's strength curve dominated by one of this one's? With the number that are, and the rows.

    Of a point with more efficacy than any of this method's, or more specificity, nothing is known: how far a setting was turned
    is our choice, and weaker or stronger edits were not made. Such points are counted apart.
    """
    found = by_strength(model, data)
    if not {one, other} <= set(found):
        return None
    mine, theirs = (
        [(run["efficacy"], run["specificity"]) for run in found[name].to_dict("records")]
        for name in (one, other)
    )
    efficacy, specificity = (max(values) for values in zip(*mine))
    within = [(x, y) for x, y in theirs if x <= efficacy and y <= specificity]
    beaten = sum(any(a >= x and b >= y and (a, b) != (x, y) for a, b in mine) for x, y in within)
    beyond = len(theirs) - len(within)
    said = f"{beaten} of {len(within)} points" + (
        f", {beyond} more beyond its own" if beyond else ""
    )
    return beaten == len(within) > 0, said, [*found[one]["name"], *found[other]["name"]]


def above(model: str, data: str, one: str, other: str) -> tuple[bool, str, list[str]] | None:
    """Is this method's efficacy at no number of candidates lower than the other's, and at some higher? With the number where it is lower, and the rows."""
    frame = measured(model, data)
    frame = frame[frame["tag"] == ""]
    if not all(len(finished(frame, name)) for name in (one, other)):
        return None
    curve = by_candidates(frame).pivot(index="|C|", columns="method", values="efficacy")
    lower = int((curve[one] < curve[other]).sum())
    return (
        lower == 0 and bool((curve[one] > curve[other]).any()),
        f"lower at {lower} of {len(curve)} sizes",
        [row["name"] for name in (one, other) for row in finished(frame, name)],
    )


def steadier(
    model: str, data: str, one: str, other: str, points: float
) -> tuple[bool, str, list[str]] | None:
    """Does this method's Unlearning Score move by at most so many points over the numbers of targets, and less than the other's? With both ranges, and the rows."""
    found = by_targets(model, data)
    if not {one, other} <= set(found):
        return None
    mine, theirs = (
        found[name]["unlearning_score"].max() - found[name]["unlearning_score"].min()
        for name in (one, other)
    )
    return (
        bool(mine <= points and mine < theirs),
        f"{mine:.1f} against {theirs:.1f} points",
        [*found[one]["name"], *found[other]["name"]],
    )


def weakest(model: str, data: str, strategy: str) -> tuple[bool, str, list[str]] | None:
    """Does this way to change a prompt leave the least resistance of all, or as little as another, on every model that it can be seen on? With those that do, model by model, and the rows; a model on which all ways are equal shows nothing."""
    frame = extraction.perturbations(model, data)
    said, found, behind = [], [], []
    for run in frame[frame["method"] != "unedited"].to_dict("records"):
        left = {
            name: tried["released"]
            for name, tried in run["row"]["result"]["perturbations"].items()
            if name != UNCHANGED
        }
        if len(set(left.values())) > 1:
            least = [name for name, value in left.items() if value == min(left.values())]
            said.append(
                f"{methods.registry()[run['method']]['title']} {' and '.join(least)} ({percent(min(left.values()))})"
            )
            found.append(strategy in least)
            behind.append(run["name"])
    return (all(found), ", ".join(said), behind) if found else None


def declines(model: str, data: str, *names: str) -> tuple[bool, str, list[str]] | None:
    """Is each method's Unlearning Score lower with the most targets than with the fewest? With both of each, and the rows."""
    found = by_targets(model, data)
    if not set(names) <= set(found):
        return None
    ends = {
        name: (found[name]["unlearning_score"].iloc[0], found[name]["unlearning_score"].iloc[-1])
        for name in names
    }
    said = ", ".join(
        f"{methods.registry()[name]['title']} {first:.1f} to {last:.1f}"
        for name, (first, last) in ends.items()
    )
    return (
        all(last < first for first, last in ends.values()),
        said,
        [row for name in names for row in found[name]["name"]],
    )


def begins(model: str, data: str, one: str, value: float) -> tuple[bool, str, list[str]] | None:
    """Is this method's Unlearning Score with the fewest targets at least so high? With that score, and the rows."""
    if one not in (found := by_targets(model, data)):
        return None
    first = found[one].iloc[0]
    return (
        bool(first["unlearning_score"] >= value),
        f"{first['unlearning_score']:.1f} with {first['targets']} targets",
        list(found[one]["name"]),
    )


def reaches(
    model: str, data: str, one: str, metric: str, value: float
) -> tuple[bool, str, list[str]] | None:
    """Does some point of this method's strength curve have so much of a metric, or of two at once ("efficacy and specificity")? With the most that one has, and the rows."""
    if one not in (found := by_strength(model, data)):
        return None
    most = found[one][metric.split(" and ")].min(axis=1).max()
    return bool(most >= value), f"{most:.1f} at most", list(found[one]["name"])


def leads(model: str, data: str, one: str, other: str) -> tuple[bool, str, list[str]] | None:
    """Has this method the higher Unlearning Score at every number of targets that both were tried with? With how often, and the rows."""
    found = by_targets(model, data)
    if not {one, other} <= set(found):
        return None
    mine, theirs = (found[name].set_index("targets")["unlearning_score"] for name in (one, other))
    both = mine.index.intersection(theirs.index)
    if not len(both):
        return None
    higher = int((mine[both] > theirs[both]).sum())
    return (
        higher == len(both),
        f"higher at {higher} of {len(both)} numbers",
        [*found[one]["name"], *found[other]["name"]],
    )


def keeps(
    model: str, data: str, one: str, metric: str, value: float
) -> tuple[bool, str, list[str]] | None:
    """Has every point of this method's strength curve at least so much of a metric? With the least that one has, and the rows."""
    if one not in (found := by_strength(model, data)):
        return None
    least = found[one][metric].min()
    return bool(least >= value), f"{least:.1f} at least", list(found[one]["name"])


def stays(model: str, data: str, one: str, value: float) -> tuple[bool, str, list[str]] | None:
    """Is this method's efficacy at every number of candidates at least so high? With the lowest, and the rows."""
    frame = measured(model, data)
    frame = frame[frame["tag"] == ""]
    if not len(done := finished(frame, one)):
        return None
    curve = by_candidates(frame)
    least = curve.loc[curve["method"] == one, "efficacy"].min()
    return bool(least >= value), f"{least:.1f} at least", [row["name"] for row in done]


def panels(model: str, gptj: str = "gptj-small") -> pd.DataFrame:
    """Every panel of the paper's two figures: how many points of each method stand behind ours and on what model, or the command that measures it."""
    lines, printed = [], paper.tables()["figures"]
    for figure, other, models in (
        ("fig:tradeoff_plots", "ft_l", (model,)),
        ("fig:combined_plots", "memit", (gptj,)),
    ):
        for label in printed[figure]["panels"]:
            data = next(
                data
                for word, data in (("ssn", "ssn"), ("email", "emails"), ("url", "urls"))
                if f"_{word}" in label
            )
            ours = next(
                (
                    f"{results.title(one)}: {points}"
                    for one in models
                    if (points := behind(one, data, label, other))
                ),
                None,
            )
            lines.append(
                {
                    "panel": f"`{label}`",
                    "data": methods.PAPER_DATA[data],
                    "ours": ours
                    or f"not measured yet: `make {'gptj' if models == (gptj,) else 'core' if 'c_size' in label else 'ablations'} adopt`",
                }
            )
    return pd.DataFrame(lines)


def behind(model: str, data: str, label: str, other: str) -> str:
    """How many points of REVS and of another method a panel has; empty unless it has both."""
    found = (
        over_candidates
        if "c_size" in label
        else by_strength
        if "specificity" in label
        else by_targets
    )(model, data)
    return (
        ", ".join(
            f"{methods.registry()[name]['title']} {len(found[name])} points"
            for name in ("revs", other)
        )
        if {"revs", other} <= set(found)
        else ""
    )


def of_models(
    curves: Callable[[str, str], dict[str, pd.DataFrame]], *models: str
) -> dict[tuple[str, str], dict[str, pd.DataFrame]]:
    """Curves of some models on each of the paper's data sets, where there are any, by (model, data set)."""
    return {
        (model, data): found
        for model in models
        for data in methods.PAPER_DATA
        if (found := curves(model, data))
    }


def over_candidates(model: str, data: str) -> dict[str, pd.DataFrame]:
    """For each method its efficacy over the number of candidates, from the usual runs."""
    frame = measured(model, data)
    curve = by_candidates(frame[frame["tag"] == ""])
    return {name: part for name, part in curve.groupby("method", sort=False)} if len(curve) else {}


def panel(model: str, data: str) -> str:
    """What stands above a panel."""
    return f"{methods.PAPER_DATA[data]}, {results.short(model)}"


def on(found: dict[tuple[str, str], dict[str, pd.DataFrame]]) -> str:
    """What the runs behind some panels were made on, model by model."""
    by_model: dict[str, dict[str, pd.DataFrame]] = {}
    for (model, data), curves in found.items():
        by_model.setdefault(model, {})[data] = pd.concat(curves.values())
    return ". ".join(results.measured_on(model, frames) for model, frames in by_model.items())


def missed(found: dict[tuple[str, str], dict[str, pd.DataFrame]]) -> str:
    """Where a point of a strength curve has an Unlearning Score well above that of the tuned setting: panel by panel; empty if there is none."""
    said = []
    for place, curves in found.items():
        for name, part in curves.items():
            best, tuned = (
                part.loc[part["unlearning_score"].idxmax()],
                part.loc[part["tag"] == TAGS[name], "unlearning_score"],
            )
            if len(tuned) and best["unlearning_score"] - tuned.iloc[0] > WELL:
                said.append(
                    f"{panel(*place)}: {methods.registry()[name]['title']} with `{KNOBS[name]}` {best[KNOBS[name]]:g} scores {best['unlearning_score']:.1f}, as it was tuned {tuned.iloc[0]:.1f}"
                )
    return (
        f"Some points fare far better than the tuned settings. {'. '.join(said)}. Each is the best of a few on the very split that it is judged on, which flatters it; but no order of methods is safe from another search."
        if said
        else ""
    )


def points(found: dict[tuple[str, str], dict[str, pd.DataFrame]]) -> pd.DataFrame:
    """Every point of every panel."""
    return pd.concat(
        [
            part.assign(panel=panel(*place))
            for place, curves in found.items()
            for part in curves.values()
        ]
    )


def by_data(found: dict[tuple[str, str], dict[str, pd.DataFrame]], what: str) -> pd.DataFrame:
    """The points of the pictures of several models and data sets."""
    return pd.concat(
        [
            part.assign(panel=panel(*place))[["panel", *part]]
            for place, curves in found.items()
            for part in [table(curves, what)]
        ]
    )


def table(found: dict[str, pd.DataFrame], what: str) -> pd.DataFrame:
    """The points of a picture as they are drawn: ``what`` is knob or targets."""
    return pd.DataFrame([
        {"method": methods.registry()[name]["title"], what: f"{run[KNOBS[name] if what == 'knob' else what]:g}"} | {title: shown(run[metric]) for metric, title in METRICS.items()}
        for name, part in found.items() for run in part.to_dict("records")
    ])  # fmt: skip
