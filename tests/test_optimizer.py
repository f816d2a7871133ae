"""The optimiser of settings: the same every time, inside its ranges, and never held at an edge."""

import math

import pytest

from companion.experiments.optimizer import FIRST, Search

SPACES = {
    "k": {"low": 10, "high": 400, "most": 450},
    "n_max": {"share_of": "k", "low": 0.05},
    "lr": {"low": 1e-4, "high": 1e-2},
    "r_n": {"low": 0.4, "high": 0.9, "scale": "linear", "most": 0.99},
    "kl": {"values": [0.0, 0.0625]},
    "layers": {"in_a_row": 4},
    "layer_id": {"last_of": "layers"},
}


def peak(settings: dict) -> float:
    """Highest far below the range of lr, at its k and r_n's ends, and where kl is not 0."""
    far = (math.log10(settings["lr"]) + 5.5) ** 2 + (settings["k"] - 600) ** 2 / 1e5
    return (1 + (settings["kl"] > 0)) / (1 + far + (settings["r_n"] - 2) ** 2)


def searched(n: int) -> tuple[Search, list[dict], list[float]]:
    search, asked, told = Search(SPACES, 12), [], []
    for _ in range(n):
        asked.append(search.ask())
        told.append(peak(asked[-1]))
        search.tell(told[-1])
    return search, asked, told


def test_the_same_scores_lead_to_the_same_settings():
    assert searched(30)[1:] == searched(30)[1:]


def test_settings_lie_in_their_ranges_and_hang_together():
    search, asked, _ = searched(60)
    for settings in asked:
        assert settings.keys() == SPACES.keys() and 1 <= settings["n_max"] <= settings["k"] <= 450
        layers = settings["layers"]
        assert layers == list(range(layers[0], layers[-1] + 1)) and 1 <= len(layers) <= 4
        assert 0 <= layers[0] and layers[-1] == settings["layer_id"] < 12
        assert settings["kl"] in (0.0, 0.0625) and settings["r_n"] <= 0.99
        assert isinstance(settings["k"], int) and isinstance(settings["lr"], float)
    assert len({settings["layers"][0] for settings in asked}) > 5


def test_all_layers_have_a_name():
    """Where as many in a row may be drawn as there are."""
    search = Search({"layers": {"in_a_row": 9, "scale": "linear"}}, 2)
    drawn = []
    for _ in range(20):
        drawn.append(search.ask()["layers"])
        search.tell(0)
    assert "all" in drawn and [0] in drawn and [1] in drawn and [0, 1] not in drawn
    search = Search({"layers": {"in_a_row": 1}, "layer_id": {"last_of": "layers"}}, 1)
    assert search.ask() == {"layers": "all", "layer_id": 0}


def test_a_range_grows_where_its_best_lies_at_an_end():
    """Beyond its low end for lr, as far as is allowed for k; not where the best lies inside,
    nor while settings are still drawn at random."""
    search, asked, _ = searched(80)
    assert search.spaces["lr"]["low"] < 1e-5 and search.spaces["lr"]["high"] == 1e-2
    assert search.spaces["k"]["high"] == 450 and search.spaces["r_n"]["high"] <= 0.99
    assert {"lr", "k"} <= search.widened and SPACES["lr"]["low"] == 1e-4
    assert all(settings["lr"] >= 1e-4 for settings in asked[:FIRST])


@pytest.mark.parametrize("worth, counting", [(0.0, 3 * FIRST), (1.0, FIRST - 1)])
def test_what_is_worth_nothing_or_does_not_count_widens_nothing(worth, counting):
    search = Search({"lr": {"low": 1.0, "high": 5.0}}, 12)
    for number in range(3 * FIRST):
        search.tell(worth * search.ask()["lr"], counts=number < counting)
    assert not search.widened


def test_a_range_grows_by_steps_of_one_size():
    """Half of its first width, however far it has grown, and to no more than is allowed."""
    for bound in ({}, {"most": 12.0}):
        search = Search({"lr": {"low": 1.0, "high": 5.0} | bound}, 12)
        highs = [5.0]
        for _ in range(FIRST + 12):
            search.tell(search.ask()["lr"])
            highs += [search.spaces["lr"]["high"]] * (search.spaces["lr"]["high"] > highs[-1])
        assert len(highs) > 1
        steps = [b / a for a, b in zip(highs, highs[1:])]
        assert steps[:1] == pytest.approx([5**0.5])
        assert highs[-1] == 12 if bound else steps == pytest.approx([5**0.5] * len(steps))
