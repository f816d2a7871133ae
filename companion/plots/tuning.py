"""Searches in pictures: trials one by one, the top trials on further splits, what trials trade."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from companion.plots.figures import INK, look, panels, title, tradeoff

SCORE = "Unlearning Score, per cent"


def progress(trials: pd.DataFrame, data: str, more: str) -> Figure:
    """One panel a method: the score of every trial on ``data``, the best so far there and, dashed,
    on ``more``; the paper's own settings hollow."""
    names = [name for name in trials["method"].cat.categories]
    fig, axes = panels(len(names), sharex=True, sharey=True)
    for ax, name in zip(axes, names, strict=True):
        own = trials[trials["method"] == name]
        for one, style in {more: "--", data: "-"}.items():
            part, colour = own[own["data"] == one], look(name)["color"]
            ax.step(part["number"], part["so_far"], style, where="post", color=colour)
        for in_print, part in own[own["data"] == data].groupby("printed"):
            drawn = look(name, in_print) | {"markersize": 5, "linestyle": "none", "alpha": 0.7}
            ax.plot(part["number"], part["score"], **drawn)
        ax.set(title=title(name), ylim=(-4, 104))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    fig.supxlabel("trial", fontsize=10)
    fig.supylabel(SCORE, fontsize=10)
    return fig


def reevaluated(top: pd.DataFrame) -> Figure:
    """One panel per method, a line per top trial: on the search's own split (hollow), on further
    ones (strokes), the mean (filled); a ring around what was chosen."""
    fig, axes = panels(top["method"].nunique(), sharex=True)
    for ax, (name, part) in zip(axes, top.groupby("method", sort=False), strict=True):
        drawn = look(name) | {"ls": "", "markersize": 6}
        for place, one in enumerate(part.itertuples()):
            ax.plot(one.first, place, **drawn | {"markerfacecolor": "none"})
            ax.plot(one.further, [place] * len(one.further), **drawn | {"marker": "|"})
            ax.plot(one.mean, place, **drawn)
            if one.chosen:
                ax.plot(one.mean, place, "o", ms=13, fillstyle="none", color=INK)
        ax.set_yticks(range(len(part)), part["number"], fontsize=8)
        ax.set(title=title(name), xlim=(-4, 104), ylim=(len(part) - 0.5, -0.5))
    fig.supxlabel(SCORE, fontsize=10)
    fig.supylabel("trial", fontsize=10)
    return fig


def trade(trials: pd.DataFrame) -> Figure:
    """One panel a method: efficacy against specificity of every trial."""
    names = [name for name in trials["method"].cat.categories if (trials["method"] == name).any()]
    fig, axes = panels(len(names), sharex=True, sharey=True)
    for ax, name in zip(axes, names, strict=True):
        tradeoff(ax, trials[trials["method"] == name])
        ax.set(title=title(name), xlim=(-5, 105), ylim=(-5, 105), xlabel="")
    fig.supxlabel("Efficacy@100, per cent", fontsize=10)
    fig.supylabel("Specificity, per cent", fontsize=10)
    return fig
