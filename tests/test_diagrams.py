"""The two pictures show what the method does: the example is the algorithm, no words overlap."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch

from companion.plots import diagrams, figures

PIECES = ["900", "-", "11", "-", "123", "4"]
PROMPT = "… who keeps the books: the number of Ada is"


@pytest.fixture
def ax():
    """An area to draw on, of the width that the page has."""
    figures.style()
    fig, ax = plt.subplots(figsize=(6.9, 6.1), layout="constrained")
    yield ax
    plt.close(fig)


@pytest.fixture(scope="module")
def example():
    return diagrams.example()


def points(ranks: list[int]) -> pd.DataFrame:
    target = [place in (0, 4) for place in range(6)]
    return pd.DataFrame({"piece": PIECES, "target": target, "rank": ranks})


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def overlapping(ax) -> list[tuple[str, str]]:
    """A font's lines are higher than its letters: a fifth of the height may touch."""
    ax.figure.draw_without_rendering()
    texts = [text for text in ax.texts if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent().expanded(1, 0.8)) for text in texts]
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :]]
    return [(one, other) for (one, a), (other, b) in pairs if a.overlaps(b)]


def test_the_example_is_what_the_algorithm_says(example):
    """The first by rank of the k most active; their edit brings layer and neuron to the ranks."""
    hp, t = example.hp, example.t
    assert example.candidates == example.a.argsort(descending=True)[: hp.k].tolist()
    ranks = dict(zip(example.candidates, example.in_neuron, strict=True))
    by_rank = sorted(ranks, key=ranks.get)
    assert example.neurons == by_rank[: len(example.neurons)]
    assert example.by_layer[example.layer] == example.path[0] < hp.r_h
    assert all(r >= hp.r_h for r in example.by_layer[: example.layer])
    assert [r < hp.r_h for r in example.path] == [True] * len(example.neurons) + [False]
    before, after = (int((v > v[t]).sum()) for v in example.v)
    assert (before, after) == (ranks[example.neurons[0]], hp.r_n)


def test_the_exercise_reads_these_numbers(example):
    assert (example.path, example.hp.r_h) == ([0, 2, 6], 6)


def test_the_example_is_the_same_each_time_and_leaves_the_generator_alone(example):
    torch.rand(1)
    state = torch.random.get_rng_state()
    assert torch.equal(diagrams.example().n[1], example.n[1])
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    "ranks",
    [[193, 0, 0, 0, 5, 0], [882, 0, 0, 0, 1, 0], [3, 0, 0, 0, 0, 2], [25244, 0, 0, 0, 9000, 1]],
)
def test_a_target_that_fell_has_its_rank_beside_it(ax, ranks):
    """However far each fell, nothing stands on anything else."""
    diagrams.unlearning(ax, PROMPT, points(ranks))
    assert words(ax).count(f"{ranks[0]:,}") == 1 and ("10,000" in words(ax)) == (ranks[0] > 10_000)
    assert words(ax).count("900") == 3 and "900-11-1234" in words(ax)
    assert not overlapping(ax)


def test_the_second_picture_has_every_rank_of_the_example(ax, example):
    diagrams.editing(ax, example)
    shown = {f"rank {r}" for r in example.by_layer} | set(map(str, example.path))
    assert shown | set(map(str, example.in_neuron)) <= set(words(ax))
    assert not overlapping(ax)
