"""Alg. 1 in one pass and in closed form against the printed procedure (``reference``),
and what an edit promises.
"""

import copy
from dataclasses import replace
from itertools import product

import pytest
import torch
from conftest import PROMPTS, build, next_tokens, same_bits, secrets, weights

from revs.method import reference
from revs.method.algorithm import WHERE, Hyperparameters, unlearn, unlearn_token
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Target

IDS = PROMPTS[0]
HP = Hyperparameters(n_max=5, k=24, r_h=100, eps_r_h=20, r_n=240, eps_r_n=12, schedule="paper")


def fast(decoder, ids: list[int], t: int, hp: Hyperparameters) -> Edit:
    edit = Edit(decoder)
    unlearn_token(decoder, Vocabulary(decoder, hp.projection == "raw"), ids, t, hp, edit)
    return edit


def agree(decoder, ids: list[int], t: int, hp: Hyperparameters) -> tuple[list[int], int]:
    """Asserts that both edit the same neurons of the same layers, in order, to the same columns.
    Returns the number of neurons edited in each layer and how many missed r_n. The decoder is left
    as it was."""
    plain, before = copy.deepcopy(decoder), weights(decoder)
    columns = [decoder.neurons(l).detach().clone() for l in range(len(decoder.layers))]
    wanted, missed = reference.unlearn_token(plain, ids, t, hp)
    edit = fast(decoder, ids, t, hp)
    assert [move[:3] for move in edit.moves] == [(l, j, t) for l, j, _ in wanted]
    assert edit.unreached == missed
    vocabulary = Vocabulary(plain, hp.projection == "raw")
    for (l, j, _, c), (*_, n_star) in zip(edit.moves, wanted):
        d_t = vocabulary.step(l, t)
        torch.testing.assert_close(decoder.neurons(l)[:, j], n_star, rtol=1e-4, atol=1e-5)
        assert c == pytest.approx(float((n_star - columns[l][:, j]) @ d_t / (d_t @ d_t)), rel=1e-4)
    for name, value in plain.model.state_dict().items():
        torch.testing.assert_close(decoder.model.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    edit.undo()
    assert same_bits(decoder, before)
    return [sum(layer == l for layer, *_ in wanted) for l in range(len(decoder.layers))], missed


@pytest.mark.parametrize("order", ["lazy", "eager"])
def test_the_closed_form_is_algorithm_1(decoder, order):
    """Alg. 1 and 2, for every gate and stop criterion, with layers chosen one by one or, as
    printed, all before any edit. Same layers, neurons, order, number and columns as the plain
    procedure; test_families.py has both projections."""
    counts, targets = [], next_tokens(decoder, IDS, 2)
    for i, (gate, stop) in enumerate(product(WHERE, WHERE)):
        hp = replace(HP, gate=gate, stop=stop, order=order)
        counts += agree(decoder, IDS, targets[i % 2], hp)[0]
    assert any(0 < K < HP.n_max for K in counts) and any(K == HP.n_max for K in counts)


# All tokens of all secrets ------------------------------------------------------------------------


def test_every_token_is_unlearned_after_the_true_tokens_before_it(decoder):
    """``unlearn`` is Alg. 1 for each token of T, of one secret after the other, on the model as
    edited so far."""
    plain, wanted, steps = copy.deepcopy(decoder), [], []
    for target in secrets(decoder):
        for position in target.T:
            t = target.secret_ids[position]
            found, _ = reference.unlearn_token(plain, target.before(position), t, HP)
            wanted += [(l, j, t) for l, j, _ in found]
    see = lambda every: steps.extend(every) or every
    edit = unlearn(decoder, secrets(decoder), HP, progress=see)
    assert [move[:3] for move in edit.moves] == wanted and len({t for *_, t in wanted}) > 1
    for l in range(len(plain.layers)):
        torch.testing.assert_close(decoder.ff2[l].weight, plain.ff2[l].weight, rtol=1e-4, atol=1e-5)
    assert len(steps) == 6


# Refusals -----------------------------------------------------------------------------------------


def test_a_rank_beyond_the_vocabulary_is_refused_before_anything_is_changed(decoder, refused):
    """The lowest rank is V − 1; fractions of V are turned into whole ranks first."""
    before = weights(decoder)
    for wrong in ({"r_n": 320, "eps_r_n": 20}, {"r_h": 300, "eps_r_h": 20}):
        with refused(f"{next(iter(wrong))} is 3.0, but the vocabulary has only 300 tokens"):
            unlearn(decoder, secrets(decoder), replace(HP, **wrong))
        assert same_bits(decoder, before)
    assert replace(HP, r_n=299, eps_r_n=0).in_tokens(300).r_n == 299
    for wrong in ({"r_h": 20, "eps_r_h": 20}, {"r_n": 12, "eps_r_n": 15}):
        with refused("so that nothing would be edited: lower"):
            unlearn(decoder, secrets(decoder), replace(HP, **wrong))
        assert same_bits(decoder, before)
    assert replace(HP, r_h=20, eps_r_h=20, gate="mlp").in_tokens(300).r_h == 20  # asks for no rank
    whole = Hyperparameters(r_h=0.02, eps_r_h=0.01, r_n=0.8, eps_r_n=7).in_tokens(300)
    assert (whole.r_h, whole.eps_r_h, whole.r_n, whole.eps_r_n) == (6, 3, 240, 7)


def test_a_sentence_too_long_is_refused_before_anything_is_changed(decoder, refused):
    """All sentences are measured first. An earlier one is not edited when a later one does not
    fit."""
    before = weights(decoder)
    long = Target("long", "ssn", "long", [1] * 95, [2, 3], (0, 1))
    with refused("long .* has 97 tokens, but .* reads at most 96"):
        unlearn(decoder, [*secrets(decoder), long], HP)
    assert same_bits(decoder, before)
    with pytest.raises(ValueError, match="97 tokens"):
        fast(decoder, [1] * 97, 2, HP)
    assert same_bits(decoder, before)


def test_an_edit_is_undone_only_while_its_weights_are_as_it_left_them(refused):
    """Not after a step of training, which changes nothing; test_baselines.py has newer edits."""
    decoder = build("llama-tied", dtype=torch.float32)
    plain = weights(decoder)
    with Edit(decoder) as edit:
        edit.add(1, torch.full((1, 16), 0.5), torch.ones(1, 64))
    edited, column = weights(decoder), decoder.neurons(1).detach()[3]
    column[5] += 1e-3
    trained = weights(decoder)
    assert not edit.in_force()
    with refused("by a newer edit or by training: undo what is newer first"):
        edit.undo()
    assert same_bits(decoder, trained)
    column[5] = edited[decoder.ff2_name(1)][3, 5]
    edit.undo()
    assert same_bits(decoder, plain) and edit.in_force()
