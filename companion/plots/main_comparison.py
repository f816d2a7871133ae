"""The main comparison in one picture: score, resistance and integrity of every method."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.analysis import main_comparison, results
from companion.experiments import methods
from companion.plots.figures import INK, in_order, look, title

PANELS = {
    main_comparison.PRIMARY: "Unlearning Score\n(more is better)",
    "resistance": "Resistance Score\n(more is better)",
    "perplexity_rise": "Rise of perplexity\n(less is better)",
}
GENERAL_TEXT = {
    "perplexity_rise": "Rise of perplexity\n(less is better)",
    "unchanged": "Next tokens unchanged\n(more is better)",
}
PRINTED = {"Unlearning Score": main_comparison.PRIMARY, "Resistance Score": "resistance"}
SHARED = ("ssn", "emails")  # with a set whose secrets share their tokens
MARKERS = {"ssn": "o", "emails": "s", "urls": "^", "ssn-shared": "D", "emails-shared": "P"}


def overview(frame: pd.DataFrame, size: tuple[float, float] = (9, 4.4)) -> Figure:
    """A line a method and a panel a measure, means over adapters and splits: a marker a data set,
    ours filled, the paper's hollow. Controls stand below a line."""
    means = frame.groupby(["method", "data"])[list(PANELS)].mean().mul(100)
    order = in_order(frame["method"])
    printed = main_comparison.printed().rename(columns=PRINTED).reindex(columns=list(PANELS))
    printed = printed.unstack("data").reindex(order)
    fig, axes = plt.subplots(1, 3, figsize=size, sharey=True, layout="constrained")
    for ax, (column, words) in zip(axes, PANELS.items(), strict=True):
        dots(ax, means[column], order)
        for place, method in enumerate(order):
            for data, value in printed.loc[method, column].dropna().items():
                hollow = {"marker": MARKERS[data], "markerfacecolor": "none", "markersize": 6}
                ax.plot(value, place + 0.32, color=look(method)["color"], **hollow)
        ax.set_title(words, fontsize=10)
        if column != "perplexity_rise":
            ax.set_xlim(-4, 104)
    fig.legend(handles=keys(frame), loc="outside lower center", ncols=6, fontsize=9)
    return fig


def integrity(frame: pd.DataFrame) -> Figure:
    """How much each method's perplexity on general text rises, and the share of next tokens that it
    leaves as they were: a line a method, a marker a data set."""
    order = in_order(frame["method"])
    means = frame.groupby(["method", "data"])[list(GENERAL_TEXT)].mean().mul(100)
    fig, axes = plt.subplots(1, 2, figsize=(7.5, 4.2), sharey=True, layout="constrained")
    for ax, (column, words) in zip(axes, GENERAL_TEXT.items(), strict=True):
        dots(ax, means[column], order)
        ax.set_title(words, fontsize=10)
    handles = keys(frame)[:-1]  # the paper measured neither
    fig.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
    return fig


def dots(ax: Axes, means: pd.Series, order: list[str]) -> None:
    """A measure by method and data set, in per cent: a line a method from the least to the most, a
    marker a data set. Controls stand below a line."""
    for place, method in enumerate(order):
        values, colour = means.loc[method].dropna(), look(method)["color"]
        ax.plot([values.min(), values.max()], [place] * 2, color=colour, linewidth=1)
        for data, value in values.items():
            ax.plot(value, place, color=colour, marker=MARKERS[data], markersize=6)
    controls = sum(method in main_comparison.CONTROLS for method in order)
    ax.axhline(len(order) - controls - 0.45, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(order)), [title(method) for method in order])
    ax.set(ylim=(len(order) - 0.4, -0.6), xlabel="per cent")


def shared_tokens(frame: pd.DataFrame) -> Figure:
    """A panel a data set, a line a method: from its mean Unlearning Score on the plain set,
    hollow, to that on the set whose secrets share their tokens."""
    means = 100 * frame.groupby(["method", "data"])[[main_comparison.PRIMARY]].mean()
    order = in_order(frame["method"])
    means = means[main_comparison.PRIMARY].unstack().loc[order]
    kinds = [data for data in SHARED if {data, f"{data}-shared"} <= set(means)]
    grid = {"sharey": True, "squeeze": False, "layout": "constrained"}
    fig, axes = plt.subplots(1, len(kinds), figsize=(1.5 + 3.7 * len(kinds), 3.6), **grid)
    for ax, data in zip(axes[0], kinds, strict=True):
        pairs = means[[data, f"{data}-shared"]].itertuples()
        for place, (method, plain, shared) in enumerate(pairs):
            colour = look(method)["color"]
            ax.plot([plain, shared], [place] * 2, color=colour, linewidth=1)
            ax.plot(plain, place, "o", color=colour, markerfacecolor="none")
            ax.plot(shared, place, "D", color=colour)
        ax.set_title(results.DATA[data], fontsize=10)
        ax.set(xlim=(-4, 104), ylim=(len(order) - 0.4, -0.6), xlabel="Unlearning Score, per cent")
    axes[0][0].set_yticks(range(len(order)), [title(method) for method in order])
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


def keys(frame: pd.DataFrame) -> list[Line2D]:
    """What the markers stand for."""
    there = {*frame["data"], *methods.PAPER_DATA}  # the paper has every one of its own
    known = [data for data in MARKERS if data in there]
    plain = {"linestyle": "", "color": INK, "markersize": 6}
    found = [Line2D([], [], marker=MARKERS[d], label=results.DATA[d], **plain) for d in known]
    paper = Line2D([], [], marker="o", markerfacecolor="none", label="the paper's", **plain)
    return [*found, paper]
