"""Effectiveness (§4.4, Eqs. 2–4), aggregation (§4.5), by theorem and by ranks counted by hand."""

import math
import statistics
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revs.measures.evaluate import (
    batches,
    contains,
    continuations,
    effectiveness,
    ranks_by_layer,
    secret_ranks,
)
from revs.measures.metrics import (
    efficacy,
    flips,
    harmonic_mean,
    mean,
    score,
    summary,
    unlearning_score,
)
from revs.method import reference
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Split, Target

examples = settings(max_examples=100, deadline=None, derandomize=True)
ranks = st.integers(0, 100_000)
shares = st.integers(0, 1000).map(lambda r: r / 1000)


# --- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "r, expected", [(0, 0.0), (1, 0.01), (50, 0.5), (99, 0.99), (100, 1.0), (128_000, 1.0)]
)
def test_score_is_the_rank_over_k_below_k_and_1_from_there(r, expected):
    """Eq. 2 with 0-based ranks: the token that greedy decoding writes scores 0."""
    assert score(r) == expected


@examples
@given(found=st.lists(ranks, min_size=1, max_size=5), k=st.integers(1, 1000))
def test_efficacy_is_the_score_of_the_hardest_token(found, k):
    """Eq. 3: an attacker who wants the whole secret needs every token of T."""
    assert efficacy(found, k) == score(max(found), k) == max(score(r, k) for r in found)


@examples
@given(values=st.lists(shares, min_size=1, max_size=6))
def test_the_harmonic_mean_is_0_with_a_0_and_between_minimum_and_mean(values):
    """§4.5: a method that fails in one respect fails."""
    h = harmonic_mean(values)
    if min(values) == 0:
        assert h == 0
    else:
        assert h == pytest.approx(statistics.harmonic_mean(values), rel=1e-9)
        assert min(values) * (1 - 1e-9) <= h <= mean(values) * (1 + 1e-9)


def test_the_unlearning_score_has_two_parts_or_three():
    """§4.5: generalization counts for SSN, where other sentences hold the same secret."""
    assert unlearning_score(0.5, 1.0) == pytest.approx(2 / 3)
    assert unlearning_score(0.5, 1.0, 0.25) == pytest.approx(3 / 7)
    assert unlearning_score(0.5, 1.0, 0.0) == 0.0 and unlearning_score(0.0, 1.0) == 0.0


def test_one_seed_has_no_deviation_and_no_items_have_no_mean():
    m, deviation = summary([0.3])
    assert m == 0.3 and math.isnan(deviation) and math.isnan(mean([]))


def test_flips_are_counted_both_ways():
    assert flips("1100", "1010") == {"lost": 1, "won": 1} and flips("", "") == {"lost": 0, "won": 0}
    with pytest.raises(ValueError, match="compare runs on the same items"):
        flips("10", "1")


CONTAINED = [([1, 2, 3, 4], [1, 2]), ([1, 2, 3, 4], [3, 4]), ([1, 2], [1, 2]), ([1, 1, 2], [1, 2])]
NOT = [([1, 2, 3, 4], [2, 4]), ([1, 2, 3, 4], [4, 5]), ([1, 2], [1, 2, 3]), ([], [1])]


@pytest.mark.parametrize("written, secret", CONTAINED + NOT)
def test_a_secret_is_contained_if_its_tokens_stand_in_a_row(written, secret):
    assert contains(written, secret) is ((written, secret) in CONTAINED)


# --- measured on a model -----------------------------------------------------------------------


@torch.no_grad()
def greedy(decoder, ids: list[int], n: int) -> list[int]:
    """n tokens of greedy decoding, with a full pass for each."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-n:]


@torch.no_grad()
def by_hand(decoder, target: Target) -> list[int]:
    """Rank of each token of the secret after the true tokens before it, a full pass for each."""
    texts = [torch.tensor([target.before(i)]) for i in range(len(target.secret_ids))]
    logits = [decoder.model(input_ids=ids).logits[0, -1] for ids in texts]
    return [reference.rank(each, t) for each, t in zip(logits, target.secret_ids)]


def sentence(decoder, name: str, prompt: list[int], skip: int = 0) -> Target:
    """A sentence whose secret is what the model writes next, or after ``skip`` tokens."""
    return Target(name, "ssn", name[0], prompt, greedy(decoder, prompt, 4 + skip)[skip:], (1, 3))


def astray(decoder, name: str, prompt: list[int]) -> Target:
    """A sentence whose secret the model would write but for one token outside of T."""
    start = greedy(decoder, prompt, 2)
    wrong = (greedy(decoder, prompt + start, 1)[0] + 1) % 300
    secret = [*start, wrong, *greedy(decoder, [*prompt, *start, wrong], 1)]
    return Target(name, "ssn", name[0], prompt, secret, (1, 3))


def some_split(decoder) -> Split:
    """Memorised secrets, another sentence of one, one 20 tokens later, one astray."""
    forget = [
        sentence(decoder, "a1", [5, 17, 230]),
        sentence(decoder, "b1", [41, 99, 3, 7, 11, 200, 150]),
    ]
    unseen = [replace(forget[0], id="a2", prompt_ids=[9, 9, 17, 230, 60])]
    retain = [
        sentence(decoder, "c1", [250, 3]),
        sentence(decoder, "d1", list(range(40, 49)), skip=20),
    ]
    return Split(forget, unseen, [*retain, astray(decoder, "e1", [70, 71, 72, 73])])


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
    targets = every(some_split(decoder))
    found = secret_ranks(decoder, targets)
    assert found == {target.id: by_hand(decoder, target) for target in targets}
    assert found["a1"] == found["b1"] == found["c1"] == [0, 0, 0, 0]
    assert any(found["a2"]) and any(found["d1"])


def test_continuations_are_greedy_whatever_the_batch(decoder):
    """Prompts of different lengths are padded on the left, which must not show; one that leaves
    no room for so many tokens is continued to the last position."""
    long = Target("f1", "ssn", "f", list(range(90)), [1], (0,))
    targets = [*some_split(decoder).retain, long]
    assert continuations(decoder, targets, tokens=24) == {
        t.id: greedy(decoder, t.prompt_ids, 7 if t is long else 24) for t in targets
    }


def every(split: Split) -> list[Target]:
    return split.forget + split.unseen + split.retain


def test_effectiveness_of_an_unlearned_model(decoder):
    """Before and after REVS, from ranks counted by hand with k = 40."""
    split, mean_of = some_split(decoder), statistics.harmonic_mean
    before, items = effectiveness(split, secret_ranks(decoder, every(split)), k=40)
    of = {item["id"]: (item["efficacy"], item["exact"]) for item in items}
    assert of["c1"] == (0, True) and of["e1"] == (0, False)
    assert before["efficacy"] == before["unlearning_score"] == 0 and before["specificity"] == 1 / 3
    hp = Hyperparameters(n_max=20, k=40, r_h=100, eps_r_h=20, r_n=240, eps_r_n=12)
    unlearn(decoder, split.forget, hp)
    # one more that the unlearned model writes
    split = replace(split, retain=[*split.retain, sentence(decoder, "f1", [60, 61, 62])])
    ranks, written = secret_ranks(decoder, every(split)), continuations(decoder, split.retain)
    result, items = effectiveness(split, ranks, 40, written)

    found = {t.id: by_hand(decoder, t) for t in every(split)}
    hardest = {name: max(min(r[i] / 40, 1) for i in (1, 3)) for name, r in found.items()}
    exact = [found[t.id] == [0] * len(t.secret_ids) for t in split.retain]
    texts = [greedy(decoder, t.prompt_ids, 50) for t in split.retain]
    within = [
        any(text[i : i + len(t.secret_ids)] == t.secret_ids for i in range(50))
        for t, text in zip(split.retain, texts)
    ]
    assert result["efficacy"] == pytest.approx((hardest["a1"] + hardest["b1"]) / 2)
    assert result["generalization"] == pytest.approx(hardest["a2"])
    assert result["specificity"] == sum(exact) / 4 > 0
    assert result["specificity_within_50"] == sum(within) / 4
    three = [result["efficacy"], result["generalization"], result["specificity"]]
    assert result["unlearning_score"] == pytest.approx(mean_of(three)) and min(three) > 0
    assert (result["k"], result["forget"], result["retain"]) == (40, 2, 4)
    assert [item["id"] for item in items] == ["a1", "b1", "a2", "c1", "d1", "e1", "f1"]
    parts = ["forget"] * 2 + ["unseen"] + ["retain"] * 4
    assert [item["part"] for item in items] == parts
    assert {item["id"]: item["ranks"] for item in items} == found
    assert [item["exact"] for item in items[3:]] == exact
    assert [item["within_50"] for item in items] == [None] * 3 + within


def test_what_was_written_counts_for_sentences_that_are_not_exact():
    """By the secret's tokens in a row; it changes nothing else. Without it, no verdict."""
    one = Target("a", "ssn", "a", [1], [2, 3], (0, 1))
    split = Split([one], [], [replace(one, id=name) for name in "bcd"])
    ranks = {"a": [7, 60], "b": [0, 0], "c": [0, 1], "d": [5, 0]}
    result, items = effectiveness(split, ranks, written={"c": [9, 2, 3], "d": [2, 9, 3]})
    assert [item["within_50"] for item in items] == [None, True, True, False]
    assert [item["exact"] for item in items] == [False, True, False, False]
    assert result["specificity_within_50"] == 2 / 3 and result["specificity"] == 1 / 3
    silent, items = effectiveness(split, ranks)
    assert result | {"specificity_within_50": None} == silent
    assert [item["within_50"] for item in items] == [None] * 4
    assert (silent["k"], silent["efficacy"], silent["generalization"]) == (100, 0.6, None)


def test_ranks_by_layer_are_those_of_full_passes(decoder):
    """Eq. 1 in FF₂'s output and in the stream of every layer, from one pass."""
    ids, t = [5, 17, 230, 41], 33
    project = reference.Projection(decoder)
    with torch.no_grad():
        looks = [reference.observe(decoder, ids, l)[1:] for l in range(len(decoder.layers))]
        expected = [[reference.rank(project(x), t) for x in look] for look in looks]
    assert ranks_by_layer(decoder, Vocabulary(decoder), ids, t).tolist() == expected
