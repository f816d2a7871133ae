"""One look for all figures: a colour and a marker for each method, the paper hollow, ours solid, legible in light and dark."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from revs.methods import registry

INK = "#7f7f7f"  # axes and text: readable on white and on the theme's dark grey


def style() -> None:
    """Sets the project's figure style; called once in a notebook's setup cell."""
    plt.rcParams.update({
        "figure.figsize": (6.4, 3.8),
        "figure.dpi": 110,
        "savefig.transparent": True,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": INK,
        "grid.alpha": 0.25,
        "font.size": 10,
        "legend.frameon": False,
        "svg.hashsalt": "revs",  # the same bytes for the same picture
    })


def look(method: str, paper: bool = False) -> dict:
    """Colour and marker of a method; the paper's points are hollow."""
    entry = registry()[method]
    return {"color": entry["colour"], "marker": entry["marker"], "markerfacecolor": "none" if paper else entry["colour"], "markersize": 8}


def title(method: str) -> str:
    return registry()[method]["title"]


def dots(ax: Axes, labels: list[str], series: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Mean and standard deviation of some metrics, given as shares and drawn in per cent, one row a metric, for each (method, whose)."""
    for shift, ((method, whose), values) in enumerate(series.items()):
        y = [row + 0.13 * (shift - (len(series) - 1) / 2) for row in range(len(labels))]
        means, spreads = zip(*[(100 * mean, 0 if math.isnan(spread) else 100 * spread) for mean, spread in values])
        ax.errorbar(means, y, xerr=spreads, linestyle="none", label=f"{title(method)}, {whose}", **look(method, whose != "ours"))
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlim(-4, 104)
