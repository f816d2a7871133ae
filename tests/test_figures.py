"""Figures draw the numbers that they are given, the paper's apart from ours."""

import math

import matplotlib.pyplot as plt
import pytest

from companion.pages import extraction, figures
from revs.measures.attacks import ATTACKS


def resistances(*values: float) -> dict:
    return {attack: (value, 0.0) for attack, value in zip(ATTACKS, values)}


def test_a_radar_has_a_closed_line_a_method_and_the_papers_are_dashed():
    panels = {
        "paper, Llama-3-8B": {
            "revs": resistances(1, 0.5, 0.25),
            "memit": resistances(0.1, 0.2, 0.3),
        },
        "ours": {"revs": resistances(0.4, 0.8, 1)},
    }
    fig, axes = plt.subplots(1, 2, subplot_kw={"projection": "polar"}, layout="constrained")
    figures.radars(axes, panels, {attack: extraction.TITLES[attack] for attack in ATTACKS})
    figures.legend(fig, {"revs", "memit"})
    of_memit, of_revs = axes[0].lines  # in the order of the registry
    assert list(of_revs.get_ydata()) == [100, 50, 25, 100] and list(
        of_memit.get_ydata()
    ) == pytest.approx([10, 20, 30, 10])
    assert list(of_revs.get_xdata()) == pytest.approx([0, math.tau / 3, 2 * math.tau / 3, math.tau])
    assert [line.get_linestyle() for line in (of_revs, *axes[1].lines)] == [
        "--",
        "-",
    ] and of_revs.get_markerfacecolor() == "none" != axes[1].lines[0].get_markerfacecolor()
    assert [label.get_text() for label in axes[0].get_xticklabels()] == [
        "Logit-Lens",
        "Delta",
        "Perturbation",
    ]
    assert [text.get_text() for text in fig.legends[0].texts] == ["MEMIT", "REVS"] and [
        ax.get_title() for ax in axes
    ] == list(panels)
    plt.close(fig)


def test_the_area_of_a_radar_grows_with_the_square():
    assert extraction.covered(resistances(1, 1, 1)) == 1
    assert extraction.covered(resistances(0.5, 0.5, 0.5)) == 0.25
    assert extraction.covered(resistances(0, 0.9, 0.8)) == pytest.approx(
        0.24
    )  # though the harmonic mean is 0
