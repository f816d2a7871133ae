"""The n_max neurons found by counting the vocabulary piece by piece against those found by ranking all of them."""

import pytest
import torch

from revs import select
from revs.vocabulary import Vocabulary


def all_ranked(vocabulary: Vocabulary, l: int, n: torch.Tensor, t: int, wanted: int) -> list[int]:
    """Every neuron's rank, and then the first."""
    return sorted(vocabulary.neurons(l, n, t).rank_at_rest().argsort(stable=True)[:wanted].tolist())


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("wanted", [1, 4, 11])
def test_the_best_neurons_are_those_of_a_full_count(decoder, raw, wanted):
    vocabulary = Vocabulary(decoder, raw)
    for l in range(len(decoder.layers)):
        n = decoder.neurons(l)[:, 3:].T
        for t in (0, 7, vocabulary.V - 1):
            assert select.highest(vocabulary, l, n, t, wanted).tolist() == all_ranked(vocabulary, l, n, t, wanted)


def test_of_equal_neurons_the_first_are_taken(decoder):
    vocabulary = Vocabulary(decoder)
    alike = decoder.neurons(0)[:, :1].T.repeat(9, 1)
    assert select.highest(vocabulary, 0, alike, 3, 4).tolist() == [0, 1, 2, 3]


def test_a_neuron_that_is_out_is_not_counted_to_the_end(build, monkeypatch):
    decoder = build("llama-untied")
    vocabulary = Vocabulary(decoder)
    n, products = decoder.neurons(0).T, []
    monkeypatch.setattr(select, "product", lambda U, y: products.append(len(U) * len(y)) or y @ U.T)
    select.highest(vocabulary, 0, n, 5, 2)
    assert sum(products) < 0.7 * vocabulary.V * len(n)
