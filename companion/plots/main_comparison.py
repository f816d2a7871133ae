"""The main comparison in one picture: score, resistance and integrity of every method."""

from collections.abc import Collection, Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.analysis import main_comparison, results
from companion.experiments import methods
from companion.plots.figures import INK, in_order, look, ranges, title

PANELS = {
    main_comparison.PRIMARY: "Unlearning Score\n(more is better)",
    "resistance": "Resistance Score\n(more is better)",
    "perplexity_rise": "Rise of perplexity\n(less is better)",
}
GENERAL_TEXT = {
    "perplexity_rise": PANELS["perplexity_rise"],
    "unchanged": "Next tokens unchanged\n(more is better)",
}
PRINTED = {"Unlearning Score": main_comparison.PRIMARY, "Resistance Score": "resistance"}
SHARED = ("ssn", "emails")  # with a set whose secrets share their tokens
MARKERS = {"ssn": "o", "emails": "s", "urls": "^", "ssn-shared": "D", "emails-shared": "P"}
MARKS = {data: {"marker": marker, "markersize": 6} for data, marker in MARKERS.items()}
KEY = {"linestyle": "", "color": INK, "markersize": 6}


def overview(frame: pd.DataFrame, size: tuple[float, float] = (9, 4.4)) -> Figure:
    """A line per method and a panel per measure, means over adapters and splits: a marker per data
    set, ours filled, the paper's hollow. Controls stand below a line."""
    fig, axes, order = measure_panels(frame, PANELS, size)
    printed = main_comparison.printed().rename(columns=PRINTED).reindex(columns=list(PANELS))
    printed = printed.unstack("data").reindex(order)
    for ax, column in zip(axes, PANELS, strict=True):
        for place, method in enumerate(order):
            for data, value in printed.loc[method, column].dropna().items():
                hollow = MARKS[data] | {"markerfacecolor": "none"}
                ax.plot(value, place + 0.32, color=look(method)["color"], **hollow)
        if column != "perplexity_rise":
            ax.set_xlim(-4, 104)
    paper = Line2D([], [], marker="o", markerfacecolor="none", label="the paper's", **KEY)
    handles = [*keys({*frame["data"], *methods.PAPER_DATA}), paper]  # the paper has all of its own
    fig.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=9)
    return fig


def integrity(frame: pd.DataFrame) -> Figure:
    """How much each method's perplexity on general text rises, and the share of next tokens that it
    leaves as they were: a line per method, a marker per data set. Controls stand below a line."""
    fig, _, _ = measure_panels(frame, GENERAL_TEXT, (7.5, 4.2))
    fig.legend(handles=keys({*frame["data"]}), loc="outside lower center", ncols=5, fontsize=9)
    return fig


def measure_panels(
    frame: pd.DataFrame, columns: Mapping[str, str], size: tuple[float, float]
) -> tuple[Figure, Sequence[Axes], list[str]]:
    """Draw one panel per measure: each method on each data set, means over adapters and splits.

    Returns the figure, its axes, and the methods in the order of the lines. ``columns`` maps a
    measure to its panel's title.
    """
    order = in_order(frame["method"])
    means = frame.groupby(["method", "data"])[list(columns)].mean().mul(100)
    fig, axes = plt.subplots(1, len(columns), figsize=size, sharey=True, layout="constrained")
    controls = sum(method in main_comparison.CONTROLS for method in order)
    for ax, (column, words) in zip(axes, columns.items(), strict=True):
        ranges(ax, means[column].unstack().loc[order], MARKS)
        ax.axhline(len(order) - controls - 0.45, color=INK, linewidth=0.8)
        ax.set_title(words, fontsize=10)
    return fig, axes, order


def shared_tokens(frame: pd.DataFrame) -> Figure:
    """``pairs`` of the plain sets and those whose secrets share their tokens."""
    means = frame.groupby(["method", "data"])[main_comparison.PRIMARY].mean().unstack()
    kinds = [data for data in SHARED if {data, f"{data}-shared"} <= set(means)]
    return pairs({data: means[[data, f"{data}-shared"]] for data in kinds})


def protected(frame: pd.DataFrame) -> Figure:
    """``pairs`` of runs without text to protect and with it."""
    means = frame.groupby(["data", "method", "tagged"])[main_comparison.PRIMARY].mean()
    return pairs({data: means[data].unstack() for data in SHARED if data in means.index})


def pairs(means: Mapping[str, pd.DataFrame]) -> Figure:
    """A panel per data set, a line per method: from its mean Unlearning Score in the first column,
    hollow, to that in the second, filled."""
    order = in_order({method for of in means.values() for method in of.index})
    size = (1.5 + 3.7 * len(means), 0.65 + 0.245 * len(order))
    grid = {"sharey": True, "squeeze": False, "layout": "constrained"}
    fig, axes = plt.subplots(1, len(means), figsize=size, **grid)
    for ax, (data, of) in zip(axes[0], means.items(), strict=True):
        hollow = {"marker": "o", "markerfacecolor": "none"}
        ranges(ax, 100 * of.reindex(order), dict(zip(of, (hollow, {"marker": "D"}), strict=True)))
        ax.set_title(results.DATA[data], fontsize=10)
        ax.set(xlim=(-4, 104), xlabel="Unlearning Score, per cent")
    return fig


def cells(frame: pd.DataFrame) -> Figure:
    """The Unlearning Scores of one data set: a row of strokes an adapter, a stroke a split."""
    column, adapters = main_comparison.PRIMARY, sorted(frame["adapter"].unique())
    order = in_order(frame["method"])
    size = (7, 0.8 + 0.55 * len(order))
    fig, ax = plt.subplots(figsize=size, layout="constrained")
    for place, method in enumerate(order):
        own, drawn = frame[frame["method"] == method], look(method) | {"ls": ""}
        for line in own.itertuples():
            height = place - 0.3 + 0.6 * adapters.index(line.adapter) / len(adapters)
            score = 100 * getattr(line, column)
            ax.plot(score, height, **drawn | {"marker": "|", "markersize": 6})
        ax.plot(100 * own[column].mean(), place, **drawn)
    ax.set_yticks(range(len(order)), [title(method) for method in order])
    ax.set(xlim=(-4, 104), ylim=(len(order) - 0.4, -0.6), xlabel="Unlearning Score, per cent")
    return fig


def keys(names: Collection[str]) -> list[Line2D]:
    """What the markers of some data sets stand for."""
    known = [data for data in MARKS if data in names]
    return [Line2D([], [], label=results.DATA[data], **KEY | MARKS[data]) for data in known]
