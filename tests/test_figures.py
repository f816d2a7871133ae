"""Figures draw the numbers that they are given, the paper's apart from ours."""

import math

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from companion.plots import figures
from companion.store.paths import params


@pytest.fixture
def scores():
    """Three metrics of two methods, ours and the paper's, in the shape of results.scores."""
    lines = [
        ("REVS", "ours", (40, 80, 100)),
        ("REVS", "paper, Llama-3-8B", (100, 50, 25)),
        ("MEMIT", "ours", (10, 20, math.nan)),
    ]
    frame = pd.DataFrame(
        {"method": method, "measured": whose, "metric": metric, "mean": mean, "std": 5}
        for method, whose, means in lines
        for metric, mean in zip("abc", means, strict=True)
    )
    yield frame
    plt.close("all")


def test_methods_stand_in_one_order_with_controls_last():
    known = ["REVS", "Unedited", "MEMIT", "FT-L", "Output ban"]
    assert figures.in_order(known) == ["FT-L", "MEMIT", "REVS", "Unedited", "Output ban"]
    names = ["least_squares", "random", "gold"]
    assert figures.in_order(names[::-1]) == names


def test_dots_are_a_line_a_method_the_papers_hollow(scores):
    fig, ax = plt.subplots()
    figures.dots(ax, scores[scores["metric"] == "a"])
    found = {bar.lines[0].get_ydata()[0]: bar.lines[0] for bar in ax.containers}
    means = {y: list(line.get_xdata()) for y, line in found.items()}
    assert [label.get_text() for label in ax.get_yticklabels()] == ["MEMIT", "REVS"]
    assert means == {0.85: [40], 1.2: [100], -0.15: [10]}
    assert found[1.2].get_markerfacecolor() == "none" != found[0.85].get_markerfacecolor()
    figures.dots(empty := plt.figure().add_subplot(), scores[scores["method"] == "RMU"])
    assert not empty.get_visible()


def test_a_radar_has_a_closed_line_a_method_and_the_papers_are_dashed(scores):
    fig, ax = plt.subplots(subplot_kw={"projection": "polar"}, layout="constrained")
    figures.radar(ax, scores[scores["method"] == "REVS"])
    ours, paper = ax.lines
    assert list(ours.get_ydata()) == [40, 80, 100, 40] and ours.get_linestyle() == "-"
    assert list(paper.get_ydata()) == [100, 50, 25, 100] and paper.get_linestyle() == "--"
    assert list(ours.get_xdata()) == pytest.approx([0, math.tau / 3, 2 * math.tau / 3, 0])
    assert paper.get_markerfacecolor() == "none" != ours.get_markerfacecolor()
    assert [label.get_text() for label in ax.get_xticklabels()] == list("abc")
    figures.legend(fig, scores["method"])
    assert [text.get_text() for text in fig.legends[0].texts] == ["MEMIT", "REVS"]


def test_a_look_is_asked_for_by_name_or_title():
    assert figures.look("npo_kl") == figures.look("NPO-KL") != figures.look("NPO-KL", paper=True)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("name", params("colours"))
def test_a_method_is_seen_on_a_light_page_and_on_a_dark_one(name):
    own = luminance(params("colours")[name][0])
    pages = [luminance(page) for page in ("#ffffff", "#14181e")]
    assert min((max(own, page) + 0.05) / (min(own, page) + 0.05) for page in pages) >= 2
