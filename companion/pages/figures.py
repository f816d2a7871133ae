"""One look for all figures: a colour and a marker for each method, the paper hollow, ours solid, legible in light and dark."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.pages.tables import METRICS
from companion.runs.methods import PAPER_DATA, registry

INK = "#7f7f7f"  # axes and text: readable on white and on the theme's dark grey
METRIC_COLOURS = {
    "efficacy": "#d55e00",
    "generalization": "#e69f00",
    "specificity": "#009e73",
    "unlearning_score": "#0072b2",
}


def style() -> None:
    """Sets the project's figure style; called once in a notebook's setup cell."""
    plt.rcParams.update(
        {
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
            "axes.titlesize": 10,
            "legend.frameon": False,
            "svg.hashsalt": "revs",  # the same bytes for the same picture
        }
    )


def look(method: str, paper: bool = False) -> dict:
    """Colour and marker of a method; the paper's points are hollow."""
    entry = registry()[method]
    return {
        "color": entry["colour"],
        "marker": entry["marker"],
        "markerfacecolor": "none" if paper else entry["colour"],
        "markersize": 8,
    }


def title(method: str) -> str:
    return registry()[method]["title"]


def by_method(axes: Sequence[Axes], ours: dict, paper: dict) -> None:
    """One panel a metric, one row a method: mean and standard deviation, given as shares and drawn in per cent, the paper's hollow below ours."""
    names = [name for name in registry() if name in ours]
    for ax, (metric, label) in zip(axes, METRICS.items()):
        for y, name in enumerate(names):
            for values, shift, hollow in ((ours, -0.15, False), (paper, 0.2, True)):
                mean, spread = values.get(name, {}).get(metric, (math.nan, math.nan))
                if not math.isnan(mean):
                    ax.errorbar(
                        100 * mean,
                        y + shift,
                        xerr=0 if math.isnan(spread) else 100 * spread,
                        linestyle="none",
                        **look(name, hollow) | {"markersize": 6},
                    )
        ax.set(title=label, xlim=(-5, 105), visible=bool(ax.lines))
        ax.set_yticks(range(len(names)), [title(name) for name in names])
    axes[0].invert_yaxis()


def metric_lines(ax: Axes, frame: pd.DataFrame, x: str) -> None:
    """Every metric of a frame, in per cent, over one of its columns."""
    for (metric, title), style in zip(METRICS.items(), ("-", "--", "-.", ":")):
        ax.plot(
            frame[x],
            frame[metric],
            style,
            marker="o",
            markersize=4,
            label=title,
            linewidth=2.5 if metric == "unlearning_score" else 1.5,
            color=METRIC_COLOURS[metric],
        )


def panels(number: int, across: int = 3, **shared) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes, a few beside each other."""
    across = min(number, across)
    fig, axes = plt.subplots(
        -(-number // across),
        across,
        figsize=(max(5.5, 3.0 * across), 3.3 * -(-number // across)),
        squeeze=False,
        layout="constrained",
        **shared,
    )
    for ax in axes.flat[number:]:
        ax.remove()
    return fig, list(axes.flat[:number])


def curves(
    ax: Axes,
    found: dict[str, pd.DataFrame],
    x: str,
    y: str,
    spread: str | None = None,
    tuned: dict[str, str] | None = None,
) -> None:
    """One line a method over the points of its frame, with a band of ± ``spread``; the point whose tag is ``tuned`` is larger."""
    for name, part in found.items():
        drawn = look(name)
        ax.plot(part[x], part[y], label=title(name), **drawn | {"markersize": 4})
        if spread:
            ax.fill_between(
                part[x],
                part[y] - part[spread],
                part[y] + part[spread],
                color=drawn["color"],
                alpha=0.15,
                linewidth=0,
            )
        if tuned:
            at = part[part["tag"] == tuned[name]]
            ax.plot(at[x], at[y], linestyle="none", **drawn | {"markersize": 10})


def strips(ax: Axes, trials: pd.DataFrame, metric: str) -> None:
    """One row of points a method, in per cent, slightly shifted so that equal values show."""
    names = list(trials["method"].cat.categories)
    for y, name in enumerate(names):
        values = 100 * trials.loc[trials["method"] == name, metric].fillna(0).sort_values()
        offsets = [y + 0.13 * (i % 3 - 1) for i in range(len(values))]
        ax.plot(values, offsets, linestyle="none", alpha=0.85, **look(name) | {"markersize": 6})
    ax.set_yticks(range(len(names)), [title(name) for name in names])
    ax.invert_yaxis()


def radars(axes: Sequence[Axes], panels: dict[str, dict], spokes: dict[str, str]) -> None:
    """One polar panel for ours, the last, and for each of the paper's models: a closed line a method over some metrics, given as shares and drawn in per cent from the centre; the paper's are dashed."""
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes) + 1)]
    for number, (ax, (whose, values)) in enumerate(zip(axes, panels.items()), 1):
        paper = number < len(panels)
        for name in (name for name in registry() if name in values):
            radii = [100 * values[name][metric][0] for metric in (*spokes, next(iter(spokes)))]
            ax.plot(
                angles,
                radii,
                "--" if paper else "-",
                linewidth=2 if name == "revs" else 1.2,
                clip_on=False,
                **look(name, paper) | {"markersize": 5},
            )
        ax.set(theta_offset=math.pi / 2, ylim=(0, 100))
        ax.set_title(whose, pad=12)
        ax.set_xticks(angles[:-1], list(spokes.values()), fontsize=9)
        ax.set_yticks([25, 50, 75, 100], ["", "50", "", "100"], fontsize=8)
        ax.set_rlabel_position(60)
        ax.spines["polar"].set_visible(False)
        ax.set_visible(bool(values))


def layers(fig: Figure, axes: Sequence[Axes], found: dict[str, dict[str, list[float]]]) -> None:
    """One panel a data set: a score of each layer, a share drawn in per cent, one line a method; from where one of them leaves the top."""
    start = max(
        0,
        min(
            next((layer for layer, value in enumerate(values) if value < 0.99), len(values))
            for curves in found.values()
            for values in curves.values()
        )
        - 2,
    )
    for ax, (data, curves) in zip(axes, found.items()):
        for name, values in curves.items():
            ax.plot(
                range(start, len(values)),
                [100 * value for value in values[start:]],
                **look(name) | {"markersize": 3},
            )
        ax.set(xlabel="layer", ylim=(-3, 103), title=PAPER_DATA[data])
    axes[0].set_ylabel("Efficacy@100, per cent")
    legend(fig, {name for curves in found.values() for name in curves})


def legend(fig: Figure, names: Collection[str]) -> None:
    """One legend of some methods below all panels of a figure."""
    handles = [
        Line2D([], [], linewidth=1.2, label=title(name), **look(name) | {"markersize": 5})
        for name in registry()
        if name in names
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
