"""One look for all figures: a colour and a marker for each method, the paper hollow, ours solid."""

import html
import math
from collections.abc import Collection, Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from companion.analysis.main_comparison import REFERENCES
from companion.analysis.results import CONTROLS
from companion.experiments.methods import registry, title
from companion.store.paths import params
from document_audit.report import encoded

UNKNOWN = ("#888888", "o")  # a method without a colour
INK = "#7f7f7f"  # axes and text, as in revs.mplstyle
METRIC_STYLES = {
    "efficacy": {"color": "#d55e00", "ls": "-"},
    "generalization": {"color": "#e69f00", "ls": "--"},
    "specificity": {"color": "#009e73", "ls": "-."},
    "unlearning_score": {"color": "#0072b2", "ls": ":", "lw": 2.5},
}


def style() -> None:
    """Sets the project's figure style; called once in a notebook's setup cell."""
    plt.style.use(Path(__file__).with_name("revs.mplstyle"))


def look(method: str, paper: bool = False) -> dict:
    """Colour and marker of a method, by its name or title; the paper's points are hollow."""
    titles = {entry["title"]: name for name, entry in registry().items()}
    colour, marker = params("colours").get(titles.get(method, method), UNKNOWN)
    return {
        "color": colour,
        "marker": marker,
        "markerfacecolor": "none" if paper else colour,
        "markersize": 8,
    }


def in_order(names: Collection[str]) -> list[str]:
    """Methods, by name or title, as all pictures have them: as in the paper's tables, then ours,
    then controls."""
    places = {}
    for place, (name, entry) in enumerate(registry().items()):
        places |= dict.fromkeys((name, entry["title"]), (name in CONTROLS, place))
    return sorted(set(names), key=lambda name: places.get(name, (True, len(places))))


def dots(ax: Axes, frame: pd.DataFrame) -> None:
    """One line per method of a frame of scores: mean and deviation, the paper's hollow below."""
    ours = set(frame.loc[frame["measured"] == "ours", "method"])
    names = in_order(ours)
    for part in frame[frame["method"].isin(ours)].dropna(subset="mean").to_dict("records"):
        hollow = part["measured"] != "ours"
        ax.errorbar(
            part["mean"],
            names.index(part["method"]) + (0.2 if hollow else -0.15),
            xerr=0 if math.isnan(part["std"]) else part["std"],
            linestyle="none",
            **look(part["method"], hollow) | {"markersize": 6},
        )
    ax.set(xlim=(-5, 105), ylim=(max(len(names), 1) - 0.5, -0.5), visible=bool(ax.lines))
    ax.set_yticks(range(len(names)), names)


def ranges(ax: Axes, values: pd.DataFrame, marks: Mapping[str, dict]) -> None:
    """One line per method, from the smallest of its ``values`` to the largest, in per cent, with a
    marker per column in the style that ``marks`` gives."""
    for place, (method, line) in enumerate(values.iterrows()):
        colour = look(method)["color"]
        ax.plot([line.min(), line.max()], [place] * 2, color=colour, linewidth=1)
        for column, value in line.dropna().items():
            ax.plot(value, place, **{"color": colour} | marks[column])
    ax.set_yticks(range(len(values)), map(title, values.index))
    for tick, method in zip(ax.yaxis.get_major_ticks(len(values)), values.index, strict=True):
        tick.label1.set_fontweight("bold" if method in REFERENCES else "normal")
    ax.set(ylim=(len(values) - 0.4, -0.6), xlabel="per cent")


def tradeoff(ax: Axes, frame: pd.DataFrame) -> None:
    """Specificity over efficacy of each run or trial of a frame, in per cent, with methods by name
    or title; a way of a method, whose title goes on after a comma, is hollow."""
    for method, part in frame.groupby("method", observed=True, sort=False):
        owner, _, way = method.partition(", ")
        drawn = look(owner, bool(way)) | {"ls": "", "markersize": 6, "alpha": 0.8, "label": method}
        ax.plot(100 * part["efficacy"], 100 * part["specificity"], **drawn)
    ax.set(xlim=(-3, 103), ylim=(-3, 103), xlabel="Efficacy@100, per cent")


def band(ax: Axes, frame: pd.DataFrame, x: str, y: str, method: str) -> None:
    """A method's line over a column, with its standard deviation (``std``) as a band."""
    drawn = look(method) | {"markersize": 4}
    ax.plot(frame[x], frame[y], label=title(method), **drawn)
    ends = frame[y] - frame["std"], frame[y] + frame["std"]
    ax.fill_between(frame[x], *ends, color=drawn["color"], alpha=0.15, linewidth=0)


def path(ax: Axes, frame: pd.DataFrame, x: str, y: str, method: str) -> None:
    """A method's points in their order, the ``tuned`` one with a larger marker."""
    drawn, at = look(method) | {"markersize": 4}, frame[frame["tuned"]]
    ax.plot(frame[x], frame[y], label=title(method), **drawn)
    ax.plot(at[x], at[y], **drawn | {"markersize": 10})


def panels(number: int, **shared) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes, at most three beside each other."""
    across = min(number, 3)
    down = math.ceil(number / across)
    size = {"figsize": (max(5.5, 3.0 * across), 3.3 * down), "layout": "constrained"}
    fig, axes = plt.subplots(down, across, squeeze=False, **size, **shared)
    for ax in axes.flat[number:]:
        ax.remove()
    return fig, list(axes.flat[:number])


def radar(ax: Axes, frame: pd.DataFrame) -> None:
    """A closed line per method over the metrics of a frame of scores, each a spoke, 0 to 100 from
    the centre; the paper's are dashed and hollow. Nothing is shown without scores."""
    spokes = list(dict.fromkeys(frame["metric"]))
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes))]
    for (method, measured), part in frame.groupby(["method", "measured"]):
        values = part.set_index("metric")["mean"]
        ax.plot(
            [*angles, 0],
            [values[spoke] for spoke in (*spokes, spokes[0])],
            "-" if measured == "ours" else "--",
            linewidth=2 if method == "REVS" else 1.2,
            clip_on=False,
            **look(method, measured != "ours") | {"markersize": 5},
        )
    ax.set(theta_offset=math.pi / 2, ylim=(0, 100), visible=len(frame) > 0)
    ax.set_xticks(angles, spokes, fontsize=9)
    ax.set_yticks([25, 50, 75, 100], ["", "50", "", "100"], fontsize=8)
    ax.set_rlabel_position(60)
    ax.spines["polar"].set_visible(False)


def inline(fig: Figure, alt: str) -> HTML:
    """A figure for another page to glue, the same in light and dark; ``alt`` is its text for
    readers who cannot see it."""
    source = encoded(fig, dpi=150)
    return HTML(f'<img class="dark-light" alt="{html.escape(alt)}" src="{source}">')


def legend(fig: Figure, names: Collection[str]) -> None:
    """One legend of some methods, by key or title, below all panels of a figure."""
    handles = [
        Line2D([], [], linewidth=1.2, label=label, **look(label) | {"markersize": 5})
        for label in in_order({registry().get(name, {}).get("title", name) for name in names})
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
