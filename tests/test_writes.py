"""What texts feel of an edit of one layer, as the chapter on the write draws it."""

import pytest
import torch
from conftest import build
from test_least_squares import secrets

from companion.plots import writes
from revs.method.algorithm import Hyperparameters
from revs.method.least_squares import solution
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Split

HP = Hyperparameters(20, 20, r_h=120, eps_r_h=0, r_n=200, eps_r_n=0)


@pytest.fixture(scope="module")
def seen():
    """A tiny model, three parts of which the first two are the same, and general text."""
    decoder, (one, two, three) = build("llama-untied"), secrets()
    parts = writes.parts(decoder, Split([one, two], [one, two], [three]), 1)
    return decoder, parts, writes.at_layer(decoder, [5, 6, 7, 8], 1)[0]


def test_a_secret_feels_of_its_own_columns_what_they_add_up_to(seen):
    decoder, parts, general = seen
    moved = writes.columns(decoder, Vocabulary(decoder), 1, parts["forget"], HP)
    S = (moved * parts["forget"].a).sum(1)
    assert (moved <= 0).all() and (S < 0).any()
    found = writes.shares(moved / S.clamp_max(-1e-9)[:, None], parts, general)
    torch.testing.assert_close(found["own context"], (S < 0).to(S), atol=1e-6, rtol=0)
    assert found["secrets to keep"].shape == (4, 2) and found["general text"].shape == (4, 4)


def test_a_least_squares_write_reaches_each_key_and_no_other(seen):
    decoder, parts, general = seen
    found = writes.shares(solution(parts["forget"].a, lam=1e-8), parts, general)
    ones = torch.ones(4).to(general)
    torch.testing.assert_close(found["own context"], ones, atol=1e-3, rtol=0)
    torch.testing.assert_close(found["same secret, other sentence"], ones, atol=1e-3, rtol=0)
    assert (found["secrets to keep"] < 1).all()


def test_secrets_with_one_sentence_each_are_refused_in_one_sentence(seen):
    decoder, *_ = seen
    one, two, three = secrets()
    with pytest.raises(ValueError, match="Not every secret has a second sentence: take a set"):
        writes.parts(decoder, Split([one, two], [one], [three]), 1)
