"""The n_max neurons found by counting the vocabulary piece by piece against those found by ranking all of them."""

import pytest
import torch

from revs import method, select
from revs.vocabulary import Vocabulary, rank


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


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("gate", method.WHERE)
def test_a_gate_seen_part_by_part_is_the_gate_of_both_ranks(decoder, raw, gate):
    vocabulary = Vocabulary(decoder, raw)
    answers = set()

    @torch.no_grad()
    def at_layer(l, a, h, x):
        for t in range(0, vocabulary.V, 5):
            hidden = vocabulary.hidden(l, h[-1], x[-1], t)
            r_mlp, r_residual = hidden.rank_at_rest().tolist()
            for r_h in {0, 1, 4, vocabulary.V // 3, r_mlp, r_mlp + 1, r_residual, r_residual + 1}:
                hp = method.Hyperparameters(r_h=r_h, eps_r_h=0, gate=gate)
                answers.add(method.gate(hidden, hp))
                assert method.opened(vocabulary, l, h[-1], x[-1], t, hp) == method.gate(hidden, hp)

    decoder.visit([3, 1, 4, 1, 5], at_layer)
    assert answers == {True, False}


@torch.no_grad()
def test_a_closed_gate_is_closed_after_a_look(build, monkeypatch):
    decoder = build("llama-untied")
    vocabulary, looked = Vocabulary(decoder), []
    monkeypatch.setattr(select, "product", lambda U, y: looked.append(len(U)) or y @ U.T)
    h = decoder.head.weight.mean(0) - decoder.head.weight[5]
    assert not method.opened(vocabulary, 0, h, h, 5, method.Hyperparameters(r_h=1, eps_r_h=0))
    assert sum(looked) <= 0.3 * vocabulary.V


@torch.no_grad()
def test_lines_drawn_together_are_those_drawn_apart(decoder):
    vocabulary = Vocabulary(decoder)
    for l in range(len(decoder.layers)):
        n = decoder.neurons(l).T
        h, x, n = n[0], n[1] - n[2], n[3:]
        for found, apart in zip(method.lines(vocabulary, l, h, x, n, 7), (vocabulary.hidden(l, h, x, 7), vocabulary.neurons(l, n, 7))):
            for c in (0.0, -0.7, -3.0):
                assert torch.equal(found.rank(torch.full_like(found.scale, c)), apart.rank(torch.full_like(apart.scale, c)))
            torch.testing.assert_close(found.A, apart.A)
            torch.testing.assert_close(found.scale, apart.scale)


def test_a_count_is_a_rank():
    logits = torch.randint(0, 9, (6, 40), generator=torch.Generator().manual_seed(1)).float()
    for t in (0, 17, 39):
        assert torch.equal(select.count(logits, logits[:, t]), rank(logits, t))
