"""Checks of the ledger that no table's cell decides: how much of a model an edit touches, what its strength costs.

Each but ``touched`` and those that return a text, which tell how much, returns whether it holds, what was found in words, and the rows; None without them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pandas as pd

from companion.pages.results import finished, measured, title, unlearned_ranks
from companion.pages.tables import percent
from companion.pages.tradeoffs import by_strength
from companion.record import rows
from companion.runs import methods, models

Found = tuple[bool, str, list[str]]


def small(model: str, data: str, one: str, most: float) -> Found | None:
    """Does this method change at most so many per cent of all columns of FF₂ ("a small subset of neurons")? The mean over seeds."""
    frame = measured(model, data)
    if not len(done := finished(frame[frame["tag"] == ""], one)):
        return None
    _, share, shape = touched(model, list(done))
    return (
        share <= most,
        f"{share:.1f} per cent of {shape['layers'] * shape['ff']:,} columns",
        [row["name"] for row in done],
    )


def touched(model: str, done: Sequence[dict]) -> tuple[float, float, dict]:
    """How many layers edits changed and how many per cent of all columns of FF₂, means over rows, and the model's shape."""
    shape = models.registry()[model]["shape"]
    layers, columns = (
        statistics.mean(map(of, (row["result"]["edit"] for row in done)))
        for of in (lambda edit: len(edit["layers"]), lambda edit: edit["columns"])
    )
    return layers, 100 * columns / (shape["layers"] * shape["ff"]), shape


def extent(models: Sequence[str], data: Sequence[str], tag: str = "") -> str:
    """How much of each model REVS edits on each data set, means over its runs with a tag, in a sentence for each; empty without rows."""
    said = []
    for one in data:
        of_models = []
        for model in models:
            frame = measured(model, one)
            if len(done := finished(frame[frame["tag"] == tag], "revs")):
                layers, share, shape = touched(model, list(done))
                of_models.append(
                    f"{layers:.1f} of {shape['layers']} layers and {share:.1f} per cent of the columns of FF₂ in {title(model)}"
                )
        if of_models:
            said.append(f"on {methods.PAPER_DATA[one]} {', '.join(of_models)}")
    return f"REVS edits {'; '.join(said)}." if said else ""


def arrived(model: str, runs: dict[str, pd.DataFrame]) -> str:
    """How many of the tokens that REVS unlearned have, when all edits are made, the rank r_h that it asks for: a sentence for each data set; empty without runs."""
    sizes = {
        row["result"]["tokenizer"]: row["result"]["vocabulary"]
        for row in rows.find(kind="memorise").values()
    }
    said = []
    for data, frame in runs.items():
        if len(done := finished(frame, "revs")):
            first = done.iloc[0]["provenance"]
            V, r_h = (
                sizes.get(first["tokenizer"], models.registry()[model]["shape"]["V"]),
                first["settings"]["hyperparameters"]["r_h"],
            )
            wanted = round(r_h * V) if isinstance(r_h, float) and r_h < 1 else r_h
            ranks = unlearned_ranks(
                pd.concat([rows.items(row, "part", "ranks", "T") for row in done])
            )
            said.append(
                f"on {methods.PAPER_DATA[data]} for {wanted:,}, which {percent((ranks >= wanted).mean())} per cent of the tokens have in the end"
            )
    return (
        f"The rank that REVS asks for in a layer, $r_h$, is not the rank at the output: a layer's $n_\\max$ neurons may be spent before it is reached, and the edits for other secrets move a token too. It asks {'; '.join(said)}."
        if said
        else ""
    )


def only_the_order(runs: dict[str, pd.DataFrame]) -> str:
    """Where the setting of REVS edits all neurons that it looks at, so that their ranks choose none: a sentence; empty if nowhere."""
    said = []
    for data, frame in runs.items():
        if (
            len(done := finished(frame, "revs"))
            and (hp := done.iloc[0]["provenance"]["settings"]["hyperparameters"])["n_max"]
            >= hp["k"]
        ):
            said.append(f"{methods.PAPER_DATA[data]} ($n_\\max = k = {hp['k']}$)")
    return (
        f"The search may choose $n_\\max = k$, and did on {' and '.join(said)}: there REVS edits the most activated neurons, and the target's rank in them decides their order alone ([what that is worth](neurons.ipynb))."
        if said
        else ""
    )


def costs(model: str, data: str, one: str, metric: str, value: float, other: str) -> Found | None:
    """Has some point of this method's strength curve so much of a metric, and less of the other than the best point without it?"""
    if one not in (found := by_strength(model, data)):
        return None
    curve = found[one]
    there = curve[metric] >= value
    if not there.any():
        return False, f"{curve[metric].max():.1f} at most", list(curve["name"])
    return (
        bool(curve.loc[there, other].max() < curve.loc[~there, other].max()),
        f"{other} {curve.loc[there, other].max():.1f} with it, {curve.loc[~there, other].max():.1f} without",
        list(curve["name"]),
    )


def narrower(model: str, data: str, one: str, other: str, metric: str) -> Found | None:
    """Does a metric vary less over this method's strength curve than over the other's?"""
    found = by_strength(model, data)
    if not {one, other} <= set(found):
        return None
    mine, theirs = (found[name][metric].max() - found[name][metric].min() for name in (one, other))
    return (
        bool(mine < theirs),
        f"{mine:.1f} against {theirs:.1f} points",
        [*found[one]["name"], *found[other]["name"]],
    )


def traded(model: str, data: str, *names: str) -> Found | None:
    """Is each method's specificity lower where its strength curve has the most efficacy than where it has the least?"""
    found = by_strength(model, data)
    if not set(names) <= set(found):
        return None
    ends = {
        name: [
            curve.loc[place, "specificity"]
            for place in (curve["efficacy"].idxmin(), curve["efficacy"].idxmax())
        ]
        for name in names
        for curve in [found[name]]
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
