"""Effectiveness (§4.4, Eqs. 2–4), aggregation (§4.5), by theorem and by ranks counted by hand."""

import math
import statistics
from dataclasses import replace

import pytest
import torch
from conftest import next_tokens, secrets
from hypothesis import given
from hypothesis import strategies as st

from revs.measures.evaluate import (
    batches,
    contains,
    continuations,
    effectiveness,
    ranks_by_layer,
    secret_ranks,
)
from revs.measures.metrics import flips
from revs.method import reference
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Split, Target

# --- scores ------------------------------------------------------------------------------------


def test_flips_are_counted_both_ways():
    assert flips("1100", "1010") == {"lost": 1, "won": 1} and flips("", "") == {"lost": 0, "won": 0}
    with pytest.raises(ValueError, match="compare runs on the same items"):
        flips("10", "1")


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_a_model_that_has_broken_down_ranks_nothing(decoder, value):
    """Otherwise every token would rank first, and all secrets would count as kept."""
    for parameter in decoder.model.parameters():
        parameter.data.fill_(value)
    with pytest.raises(FloatingPointError, match="the same logit, or none a number: edit it less"):
        secret_ranks(decoder, secrets(decoder))


TOKENS = st.lists(st.integers(1, 3), max_size=5)


@given(written=TOKENS, secret=TOKENS)
def test_a_secret_is_contained_if_its_tokens_stand_in_a_row(written, secret):
    assert contains(written, secret) is (bytes(secret) in bytes(written))


# --- measured on a model -----------------------------------------------------------------------


def greedy(decoder, ids: list[int], n: int) -> list[int]:
    """n tokens of greedy decoding, with a full pass for each."""
    ids = list(ids)
    for _ in range(n):
        ids += next_tokens(decoder, ids)
    return ids[-n:]


@torch.no_grad()
def by_hand(decoder, target: Target) -> list[int]:
    """Rank of each token of the secret after the true tokens before it, a full pass for each."""
    texts = [torch.tensor([target.before(i)]) for i in range(len(target.secret_ids))]
    logits = [decoder.model(input_ids=ids).logits[0, -1] for ids in texts]
    return [reference.rank(each, t) for each, t in zip(logits, target.secret_ids)]


def memorised(decoder) -> list[Target]:
    """Secrets that the model writes after prompts of different lengths; one that it writes after
    another prompt, and one 20 tokens later."""
    prompts = {"a": [5, 17, 230], "b": [41, 99, 3, 7, 11, 200, 150], "c": [250, 3]}
    found = [
        Target(name, "ssn", name, ids, greedy(decoder, ids, 4), (1, 3))
        for name, ids in prompts.items()
    ]
    later = list(range(40, 49))
    elsewhere = replace(found[0], id="d", prompt_ids=[9, 9, 17, 230, 60])
    secret = greedy(decoder, later, 24)[20:]
    return [*found, elsewhere, Target("e", "ssn", "e", later, secret, (1, 3))]


@given(lengths=st.lists(st.integers(1, 60), max_size=70))
def test_batches_hold_every_target_once_and_more_text_than_padding(lengths):
    targets = [Target(str(i), "ssn", "", [0] * n, [1], (0,)) for i, n in enumerate(lengths)]
    found = list(batches(targets))
    assert sorted(one.id for some in found for one in some) == sorted(map(str, range(len(lengths))))
    for sizes in ([len(one.prompt_ids) + 1 for one in some] for some in found):
        assert 0 < len(sizes) <= 32 and sizes[0] == max(sizes) <= 2 * min(sizes)
    assert len(list(batches(targets, shortest=0))) == -(-len(targets) // 32)


def test_ranks_of_secrets_are_those_of_one_pass_for_each_token(decoder):
    """§4.4.2: one padded pass; ranks 0 are what greedy decoding writes."""
    targets = memorised(decoder)
    found = secret_ranks(decoder, targets)
    assert found == {target.id: by_hand(decoder, target) for target in targets}
    assert found["a"] == found["b"] == found["c"] == [0, 0, 0, 0]
    assert any(found["d"]) and any(found["e"])


def test_continuations_are_greedy_whatever_the_batch(decoder):
    """Prompts of different lengths are padded on the left, which must not show; one that leaves
    no room for so many tokens is continued to the last position."""
    long = Target("f", "ssn", "f", list(range(90)), [1], (0,))
    targets = [*memorised(decoder)[-2:], long]
    assert continuations(decoder, targets, tokens=24) == {
        t.id: greedy(decoder, t.prompt_ids, 7 if t is long else 24) for t in targets
    }


def test_effectiveness_by_hand():
    """Scores are those of the tokens in T, all tokens must be exact, and what was written counts
    for sentences that are not. Without it, no verdict."""
    a, b, c, d, e, f = (Target(name, "ssn", name, [1], [2, 3, 4], (0, 1)) for name in "abcdef")
    split = Split(forget=[a, b], unseen=[c], retain=[d, e, f])
    ranks = {"a": [7, 60, 0], "b": [250, 0, 0], "c": [20, 30, 0]}
    ranks |= {"d": [0, 0, 0], "e": [0, 0, 9], "f": [5, 0, 0]}
    result, items = effectiveness(split, ranks, written={"e": [9, 2, 3, 4], "f": [2, 9, 3, 4]})
    shares = {"efficacy": 0.8, "generalization": 0.3, "specificity": 1 / 3}
    shares |= {"unlearning_score": statistics.harmonic_mean(shares.values())}
    shares |= {"specificity_within_50": 2 / 3}
    assert result == pytest.approx(shares | {"k": 100, "forget": 2, "retain": 3})
    columns = ("id", "part", "efficacy", "exact", "within_50")
    assert [tuple(item[column] for column in columns) for item in items] == [
        ("a", "forget", 0.6, False, None),
        ("b", "forget", 1.0, False, None),
        ("c", "unseen", 0.3, False, None),
        ("d", "retain", 0.0, True, True),
        ("e", "retain", 0.0, False, True),
        ("f", "retain", 0.05, False, False),
    ]
    assert all(item["ranks"] == ranks[item["id"]] and item["T"] == [0, 1] for item in items)
    silent, items = effectiveness(replace(split, unseen=[]), ranks, k=500)
    assert (silent["k"], silent["efficacy"], silent["generalization"]) == (500, 0.31, None)
    assert {item["within_50"] for item in items} == {silent["specificity_within_50"]} == {None}


def test_ranks_by_layer_are_those_of_full_passes(decoder):
    """Eq. 1 in FF₂'s output and in the stream of every layer, from one pass."""
    ids, t = [5, 17, 230, 41], 33
    project = reference.Projection(decoder)
    with torch.no_grad():
        looks = [reference.observe(decoder, ids, l)[1:] for l in range(len(decoder.layers))]
        expected = [[reference.rank(project(x), t) for x in look] for look in looks]
    assert ranks_by_layer(decoder, Vocabulary(decoder), ids, t).tolist() == expected
