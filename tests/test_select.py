"""The n_max neurons found by counting the vocabulary piece by piece against those found by ranking all of them."""

import pytest
import torch

from revs.method import algorithm as method
from revs.method import select
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary, rank


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
            assert select.highest(vocabulary, l, n, t, wanted).tolist() == all_ranked(
                vocabulary, l, n, t, wanted
            )


def test_of_equal_neurons_the_first_are_taken(decoder):
    vocabulary = Vocabulary(decoder)
    alike = decoder.neurons(0)[:, :1].T.repeat(9, 1)
    assert select.highest(vocabulary, 0, alike, 3, 4).tolist() == [0, 1, 2, 3]


@pytest.fixture
def products(monkeypatch) -> list[int]:
    """How many rows of U were multiplied with how many vectors, call by call."""
    made = []
    for name in ("product", "one_by_one"):
        do = getattr(select, name)
        monkeypatch.setattr(
            select, name, lambda U, y, do=do: made.append(len(U) * len(y)) or do(U, y)
        )
    return made


def test_a_neuron_that_is_out_is_not_counted_to_the_end(build, products):
    decoder = build("llama-untied")
    vocabulary = Vocabulary(decoder)
    n = decoder.neurons(0).T
    select.highest(vocabulary, 0, n, 5, 2)
    assert 2 * vocabulary.V < sum(products) < 0.7 * vocabulary.V * len(n)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("gate", method.WHERE)
def test_a_gate_seen_part_by_part_closes_no_open_one(decoder, raw, gate):
    """It is the gate of both ranks, but for those it takes for open, which are less than twice as far from it as a part suggests."""
    vocabulary = Vocabulary(decoder, raw)
    answers = set()

    @torch.no_grad()
    def at_layer(l, a, h, x):
        for t in range(0, vocabulary.V, 5):
            hidden = vocabulary.hidden(l, h[-1], x[-1], t)
            r_mlp, r_residual = hidden.rank_at_rest().tolist()
            for r_h in {0, 1, 4, vocabulary.V // 3, r_mlp, r_mlp + 1, r_residual, r_residual + 1}:
                hp = method.Hyperparameters(r_h=r_h, eps_r_h=0, gate=gate)
                answers.add(
                    (
                        method.gate(hidden, hp),
                        method.may_be_open(vocabulary, l, h[-1], x[-1], t, hp),
                    )
                )

    decoder.visit([3, 1, 4, 1, 5], at_layer)
    assert (
        {(True, True), (False, False)} <= answers <= {(True, True), (False, False), (False, True)}
    )


@pytest.mark.parametrize("gate", method.WHERE)
def test_what_is_taken_for_open_is_asked_again(decoder, gate, monkeypatch):
    """The same moves whether gates are asked to the end, or all taken for open."""
    hp, found = (
        method.Hyperparameters(n_max=4, k=6, r_h=8, eps_r_h=1, r_n=40, eps_r_n=2, gate=gate),
        [],
    )
    looks = {
        "whole": lambda vocabulary, l, h, x, t, hp: method.gate(vocabulary.hidden(l, h, x, t), hp),
        "none": lambda *_: True,
        "parts": method.may_be_open,
    }
    for look in looks.values():
        monkeypatch.setattr(method, "may_be_open", look)
        with Edit(decoder) as edit:
            method.unlearn_token(decoder, Vocabulary(decoder), [3, 1, 4, 1, 5], 7, hp, edit)
        found.append(edit.moves)
        edit.undo()
    assert found[0] == found[1] == found[2]


@torch.no_grad()
def test_a_closed_gate_is_closed_after_a_look(build, products):
    decoder = build("llama-untied")
    vocabulary = Vocabulary(decoder)
    h = decoder.head.weight.mean(0) - decoder.head.weight[5]
    assert not method.may_be_open(vocabulary, 0, h, h, 5, method.Hyperparameters(r_h=1, eps_r_h=0))
    assert 0 < sum(products) <= 2 * 0.3 * vocabulary.V


@torch.no_grad()
@pytest.mark.parametrize("V", [3, 31, 33])
def test_a_vocabulary_of_few_tokens_has_empty_parts(build, V):
    vocabulary = Vocabulary(build("llama-untied"))
    vocabulary.U = vocabulary.U[:V]
    h, x = torch.randn(2, vocabulary.U.shape[1], generator=torch.Generator().manual_seed(V))
    answers = set()
    for t in range(V):
        ranks = rank(vocabulary.unembed(vocabulary.gamma * torch.stack([h, x])), t).tolist()
        for r_h in range(V):
            hp = method.Hyperparameters(r_h=r_h, eps_r_h=0)
            answers.add((method.passes(*ranks, hp), method.may_be_open(vocabulary, 0, h, x, t, hp)))
    assert (
        {(True, True), (False, False)} <= answers <= {(True, True), (False, False), (False, True)}
    )


@torch.no_grad()
def test_lines_drawn_together_are_those_drawn_apart(decoder):
    vocabulary = Vocabulary(decoder)
    for l in range(len(decoder.layers)):
        n = decoder.neurons(l).T
        h, x, n = n[0], n[1] - n[2], n[3:]
        for found, apart in zip(
            method.lines(vocabulary, l, h, x, n, 7),
            (vocabulary.hidden(l, h, x, 7), vocabulary.neurons(l, n, 7)),
        ):
            for c in (0.0, -0.7, -3.0):
                assert torch.equal(
                    found.rank(torch.full_like(found.scale, c)),
                    apart.rank(torch.full_like(apart.scale, c)),
                )
            torch.testing.assert_close(found.A, apart.A)
            torch.testing.assert_close(found.scale, apart.scale)


def test_a_count_is_a_rank():
    logits = torch.randint(0, 9, (6, 40), generator=torch.Generator().manual_seed(1)).float()
    for t in (0, 17, 39):
        assert torch.equal(select.count(logits, logits[:, t]), rank(logits, t))
