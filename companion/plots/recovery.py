"""Is the secret gone? What attacks recover after each method, in one picture."""

import math

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.analysis import recovery, results
from companion.experiments.settings import GOLD
from companion.plots.figures import INK, in_order, look

NUMBERS, RIGHT = 107, 142  # where the shares stand as numbers, and where a panel ends
NAMED = {"marker": "D", "color": INK, "markerfacecolor": "none", "markersize": 6, "linestyle": ""}
DASHED = {"color": INK, "linestyle": "--", "linewidth": 1.2}


def overview(found: pd.DataFrame) -> Figure:
    """A panel per data set, a bar per method: secrets recovered by at least one attack, with the
    interval. The dashed line is a model that never read them: a bar that ends there has nothing
    left to find. A diamond is what the weights before and after tell. Panels in which the attacks
    are not calibrated say so."""
    order = in_order(found["method"])
    sets = [data for data in results.DATA if data in set(found["data"])]
    size = (9, 1.3 + 0.32 * len(order))
    grid = {"sharey": True, "squeeze": False, "layout": "constrained"}
    fig, axes = plt.subplots(1, len(sets), figsize=size, **grid)
    calibrated = recovery.is_calibrated(recovery.calibration(found))
    for ax, data in zip(axes[0], sets, strict=True):
        panel(ax, found[found["data"] == data], order)
        blind = "" if calibrated[data] else "\n(attacks not calibrated)"
        ax.set_title(results.DATA[data] + blind, fontsize=10)
    fig.get_layout_engine().set(wspace=0.05)
    keys = [
        Line2D([], [], label=f"{recovery.title(GOLD).lower()}: nothing left to find", **DASHED),
        Line2D([], [], label="tokens named by comparing weights before and after", **NAMED),
    ]
    fig.supxlabel("secrets recovered by an attack, per cent (less is better)", fontsize=10)
    fig.legend(handles=keys, loc="outside upper center", ncols=2, fontsize=9)
    return fig


def panel(ax: Axes, part: pd.DataFrame, order: list[str]) -> None:
    """One data set."""
    shares = recovery.endpoint(part).set_index("method")[["mean", "low", "high"]] * 100
    named = part[part["part"] == "forget"].groupby("method")["two_checkpoints"].mean() * 100
    for method, (mean, low, high) in shares.iterrows():
        place = order.index(method)
        colour = look(method)["color"]
        ax.barh(place, mean, height=0.62, color=colour, alpha=0.3)
        ax.plot(mean, place, "|", color=colour, markersize=13, markeredgewidth=2.5)
        ax.plot([low, high], [place] * 2, color=INK, linewidth=1.2)
        text = {"va": "center", "ha": "left", "fontsize": 8, "color": INK}
        ax.text(NUMBERS, place, f"{math.floor(round(mean, 6) + 0.5)}", **text)
        if method != GOLD:
            ax.plot(named[method], place, **NAMED)
    if GOLD in shares.index:
        ax.axvline(shares.loc[GOLD, "mean"], **DASHED)
    controls = sum(one in recovery.AUDITED for one in order)
    ax.axhline(len(order) - controls - 0.5, color=INK, linewidth=0.8)
    ax.set(xlim=(-3, RIGHT), ylim=(len(order) - 0.4, -0.6), xticks=[0, 50, 100])
    ax.set_yticks(range(len(order)), [recovery.title(one) for one in order])
    ax.spines["left"].set_visible(False)  # where the dashed line may stand
    ax.tick_params("y", length=0)  # a tick would join a number to the next panel
    ax.grid(False, axis="y")
