"""The two pictures show what the method does: the example is the algorithm, the case is a recorded sentence."""

import matplotlib.pyplot as plt
import pytest
import torch

from companion.pages import diagrams, figures
from companion.record import rows


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


def recorded(name: str) -> dict:
    return rows.find(rows.RECORDED)[f"unlearn/ssn/smollm2-135m/{name}"]


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_the_example_is_what_the_algorithm_says(example):
    """The neurons are the first by rank of the k most active; their edit brings the layer, and the neuron, to the wanted rank."""
    assert example.candidates == example.a.argsort(descending=True)[: example.k].tolist()
    by_rank = sorted(
        example.candidates, key=lambda j: example.in_neuron[example.candidates.index(j)]
    )
    assert example.neurons == by_rank[: len(example.neurons)]
    assert example.by_layer[example.layer] == example.path[0] < example.r_h and all(
        r >= example.r_h for r in example.by_layer[: example.layer]
    )
    assert [r < example.r_h for r in example.path] == [True] * len(example.neurons) + [False]
    assert int((example.v_moved > example.v_moved[example.t]).sum()) == example.r_n
    assert (
        int((example.v > example.v[example.t]).sum())
        == example.in_neuron[example.candidates.index(example.neurons[0])]
    )


def test_the_exercise_reads_these_numbers(example):
    assert (example.path, example.r_h) == ([0, 2, 6], 6)


def test_the_example_draws_the_same_numbers_and_leaves_the_generator_alone(example):
    torch.rand(1)
    state = torch.random.get_rng_state()
    assert torch.equal(diagrams.example().moved, example.moved) and torch.equal(
        torch.random.get_rng_state(), state
    )


def test_the_case_is_the_middle_sentence_and_was_written_before():
    row = recorded("revs-seed1")
    case = diagrams.case(row, "ssn")
    items, before = (
        rows.items(row),
        rows.items(recorded("unedited-seed1")),
    )
    forgotten = items[items["part"] == "forget"]
    deepest = [max(ranks[i] for i in T) for ranks, T in zip(forgotten["ranks"], forgotten["T"])]
    assert len(case.pieces) == len(case.ranks) and "".join(case.pieces).count("-") == 2
    assert (
        sum(r < case.ranks[case.deepest] for r in deepest)
        <= len(deepest) // 2
        <= sum(r <= case.ranks[case.deepest] for r in deepest)
    )
    (chosen,) = [i for i, ranks in forgotten["ranks"].items() if ranks == case.ranks]
    assert (
        before.set_index("id").loc[items.loc[chosen, "id"], "exact"]
        and not items.loc[chosen, "exact"]
    )


@pytest.mark.parametrize("ranks", [[193, 0, 0, 0, 5, 0], [25244, 0, 0, 0, 0, 0]])
def test_a_target_that_fell_has_its_rank_beside_it(ax, ranks):
    diagrams.unlearning(
        ax,
        diagrams.Case("The number of Ada is", ["900", "-", "11", "-", "123", "4"], [0, 4], ranks),
    )
    assert words(ax).count(f"{ranks[0]:,}") == 1 and ("10,000" in words(ax)) == (ranks[0] > 10_000)
    assert words(ax).count("900") == 3 and "900-11-1234" in words(ax)


def test_the_second_picture_has_every_rank_of_the_example(ax, example):
    diagrams.editing(ax, example)
    assert [f"rank {r}" in words(ax) for r in example.by_layer] == [True] * len(example.by_layer)
    assert set(map(str, example.path + example.in_neuron)) <= set(words(ax))


@pytest.mark.parametrize("seed", range(1, 7))
def test_no_words_of_a_case_overlap(ax, seed):
    diagrams.unlearning(ax, diagrams.case(recorded(f"revs-seed{seed}"), "ssn"))
    check_no_words_overlap(ax)


@pytest.mark.parametrize(
    "ranks", [[882, 0, 0, 0, 1, 0], [3, 0, 0, 0, 0, 2], [25244, 0, 0, 0, 9000, 1]]
)
def test_no_words_of_a_fall_overlap(ax, ranks):
    """However far each target fell."""
    diagrams.unlearning(
        ax,
        diagrams.Case("The number of Ada is", ["900", "-", "11", "-", "123", "4"], [0, 4], ranks),
    )
    check_no_words_overlap(ax)


def test_no_words_of_the_example_overlap(ax, example):
    diagrams.editing(ax, example)
    check_no_words_overlap(ax)


def check_no_words_overlap(ax):
    """The lines of a font are higher than its letters: a fifth of the height may touch."""
    ax.figure.draw_without_rendering()
    boxes = [
        (text.get_text(), text.get_window_extent().expanded(1, 0.8))
        for text in ax.texts
        if text.get_text()
    ]
    assert not [
        (one, other)
        for i, (one, a) in enumerate(boxes)
        for other, b in boxes[i + 1 :]
        if a.overlaps(b)
    ]
