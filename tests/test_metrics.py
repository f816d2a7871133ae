"""Effectiveness and integrity (§4.4, Eqs. 2–4) and their aggregation (§4.5), by theorem and against ranks counted by hand."""

import math
import statistics
from dataclasses import replace

import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revs.measures.evaluate import (
    contains,
    continuations,
    effectiveness,
    ranks_by_layer,
    secret_ranks,
)
from revs.measures.metrics import efficacy, harmonic_mean, mean, score, summary, unlearning_score
from revs.method.algorithm import Hyperparameters, unlearn
from revs.method.vocabulary import Vocabulary
from revs.model.targets import Split, Target

examples = settings(max_examples=100, deadline=None, derandomize=True)
ranks = st.integers(0, 100_000)
shares = st.integers(0, 1000).map(lambda r: r / 1000)


# Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "r, expected", [(0, 0.0), (1, 0.01), (50, 0.5), (99, 0.99), (100, 1.0), (128_000, 1.0)]
)
def test_score_is_the_rank_over_k_below_k_and_1_from_there(r, expected):
    """Eq. 2 with 0-based ranks: the token that greedy decoding writes scores 0."""
    assert score(r) == expected


@examples
@given(r=ranks, further=ranks, k=st.integers(1, 1000))
def test_score_lies_between_0_and_1_and_never_falls_with_the_rank(r, further, k):
    assert 0 <= score(r, k) <= score(r + further, k) <= 1
    assert (score(r, k) == 1) == (r >= k) and (score(r, k) == 0) == (r == 0)


@examples
@given(found=st.lists(ranks, min_size=1, max_size=5), k=st.integers(1, 1000))
def test_efficacy_is_the_score_of_the_hardest_token(found, k):
    """Eq. 3: whoever wants the whole secret needs every token of T."""
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


@examples
@given(seeds=st.lists(st.tuples(shares, shares, shares), min_size=1, max_size=6))
def test_a_mean_of_unlearning_scores_never_exceeds_the_score_of_the_means(seeds):
    """The harmonic mean is concave: tables that show the opposite cannot be averages over the same seeds."""
    assert (
        mean([unlearning_score(*seed) for seed in seeds])
        <= unlearning_score(*map(mean, zip(*seeds))) + 1e-9
    )


@examples
@given(values=st.lists(shares, min_size=2, max_size=6))
def test_a_summary_is_the_mean_and_the_sample_deviation(values):
    """Over seeds, with ddof = 1."""
    assert summary(values) == pytest.approx(
        (statistics.mean(values), statistics.stdev(values)), abs=1e-9
    )


def test_one_seed_has_no_deviation_and_no_items_have_no_mean():
    m, deviation = summary([0.3])
    assert m == 0.3 and math.isnan(deviation) and math.isnan(mean([]))


@pytest.mark.parametrize(
    "written, secret, expected",
    [
        ([1, 2, 3, 4], [1, 2], True),
        ([1, 2, 3, 4], [3, 4], True),
        ([1, 2, 3, 4], [2], True),
        ([1, 2], [1, 2], True),
        ([1, 2, 3, 4], [2, 4], False),
        ([1, 2, 3, 4], [4, 5], False),
        ([1, 2], [1, 2, 3], False),
        ([], [1], False),
        ([1, 1, 2], [1, 2], True),
    ],
)
def test_a_secret_is_contained_if_its_tokens_stand_in_a_row(written, secret, expected):
    assert contains(written, secret) is expected


# Measured on a model ---------------------------------------------------------------------------------------------


@torch.no_grad()
def greedy(decoder, ids: list[int], n: int) -> list[int]:
    """n tokens of greedy decoding, with a full pass for each."""
    ids = list(ids)
    for _ in range(n):
        ids.append(int(decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[-n:]


@torch.no_grad()
def by_hand(decoder, target: Target) -> list[int]:
    """Rank of each token of the secret after the true tokens before it, with a full pass for each."""
    found = []
    for i, t in enumerate(target.secret_ids):
        found.append(
            oracle.rank(
                decoder.model(
                    input_ids=torch.tensor([target.prompt_ids + target.secret_ids[:i]])
                ).logits[0, -1],
                t,
            )
        )
    return found


def sentence(decoder, name: str, prompt: list[int], skip: int = 0) -> Target:
    """A sentence whose secret is what the model writes next, or after ``skip`` tokens."""
    return Target(name, "ssn", name[0], prompt, greedy(decoder, prompt, 4 + skip)[skip:], (1, 3))


def astray(decoder, name: str, prompt: list[int]) -> Target:
    """A sentence whose secret the model would write but for one token outside of T."""
    start = greedy(decoder, prompt, 2)
    wrong = (greedy(decoder, prompt + start, 1)[0] + 1) % 300
    return Target(
        name,
        "ssn",
        name[0],
        prompt,
        [*start, wrong, *greedy(decoder, [*prompt, *start, wrong], 1)],
        (1, 3),
    )


def some_split(decoder) -> Split:
    """Prompts of lengths 2 to 9: memorised secrets, another sentence of one, one that comes 20 tokens later, one astray."""
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


def test_ranks_of_secrets_are_those_of_one_pass_for_each_token(decoder):
    """§4.4.2: one padded, teacher-forced pass for many sentences; a secret of ranks 0 is what greedy decoding writes."""
    split = some_split(decoder)
    targets = split.forget + split.unseen + split.retain
    found = secret_ranks(decoder, targets)
    assert found == {target.id: by_hand(decoder, target) for target in targets}
    assert (
        found["a1"] == found["b1"] == found["c1"] == [0, 0, 0, 0]
        and any(found["a2"])
        and any(found["d1"])
    )


def test_continuations_are_greedy_whatever_the_batch(decoder):
    """Prompts of different lengths are padded on the left, which must not show."""
    targets = some_split(decoder).retain
    assert continuations(decoder, targets, tokens=24) == {
        t.id: greedy(decoder, t.prompt_ids, 24) for t in targets
    }


def every(split: Split) -> list[Target]:
    return split.forget + split.unseen + split.retain


def test_effectiveness_of_an_unlearned_model(decoder):
    """Efficacy, generalization and specificity before and after REVS, from ranks counted by hand with k = 40."""
    split = some_split(decoder)
    before, items = effectiveness(split, secret_ranks(decoder, every(split)), k=40)
    assert [(item["efficacy"], item["exact"]) for item in items if item["id"] in ("c1", "e1")] == [
        (0, True),
        (0, False),
    ]
    assert (
        before["efficacy"] == 0
        and before["specificity"] == 1 / 3
        and before["unlearning_score"] == 0
    )
    unlearn(
        decoder,
        split.forget,
        Hyperparameters(n_max=20, k=40, r_h=100, eps_r_h=20, r_n=240, eps_r_n=12),
    )
    split = replace(
        split, retain=[*split.retain, sentence(decoder, "f1", [60, 61, 62])]
    )  # written by the unlearned model
    result, items = effectiveness(
        split, secret_ranks(decoder, every(split)), 40, continuations(decoder, split.retain)
    )

    found = {t.id: by_hand(decoder, t) for t in every(split)}
    hardest = {name: max(min(r[i] / 40, 1) for i in (1, 3)) for name, r in found.items()}
    exact = [found[t.id] == [0] * len(t.secret_ids) for t in split.retain]
    within = [
        any(text[i : i + len(t.secret_ids)] == t.secret_ids for i in range(50))
        for t in split.retain
        for text in [greedy(decoder, t.prompt_ids, 50)]
    ]
    assert (
        result["efficacy"] == pytest.approx((hardest["a1"] + hardest["b1"]) / 2)
        and result["efficacy"] > 0
    )
    assert result["generalization"] == pytest.approx(hardest["a2"])
    assert (
        result["specificity"] == sum(exact) / 4 > 0
        and result["specificity_within_50"] == sum(within) / 4
    )
    three = [result["efficacy"], result["generalization"], result["specificity"]]
    assert (
        result["unlearning_score"] == pytest.approx(statistics.harmonic_mean(three))
        and result["unlearning_score"] > 0
    )
    assert (result["k"], result["forget"], result["retain"]) == (40, 2, 4)
    parts = {
        "a1": "forget",
        "b1": "forget",
        "a2": "unseen",
        "c1": "retain",
        "d1": "retain",
        "e1": "retain",
        "f1": "retain",
    }
    assert [(item["id"], item["part"]) for item in items] == list(parts.items())
    assert {item["id"]: item["ranks"] for item in items} == found
    assert [item["exact"] for item in items[3:]] == exact and [
        item["within_50"] for item in items
    ] == [None] * 3 + within


def test_a_secret_written_later_is_within_50_tokens_but_not_exact(decoder):
    """Specificity is equality (§4.4.2); the released code's substring stands beside it. Without other sentences, no generalization."""
    split = replace(some_split(decoder), unseen=[])
    ranks = secret_ranks(decoder, every(split))
    result, items = effectiveness(
        split, ranks, written=continuations(decoder, [t for t in split.retain if any(ranks[t.id])])
    )
    late = next(item for item in items if item["id"] == "d1")
    assert late["within_50"] and not late["exact"]
    assert (
        result["specificity_within_50"] > result["specificity"] and result["generalization"] is None
    )


def test_sentences_that_are_reproduced_exactly_need_not_be_written(decoder):
    """They are within 50 tokens already: the result is that of writing all retained sentences out."""
    split = some_split(decoder)
    ranks, written = secret_ranks(decoder, every(split)), continuations(decoder, split.retain)
    some = {name: text for name, text in written.items() if any(ranks[name])}
    assert 0 < len(some) < len(written)
    assert effectiveness(split, ranks, 40, some) == effectiveness(split, ranks, 40, written)


def test_without_continuations_nothing_is_said_about_50_tokens():
    """``written`` is None: no verdict, of no sentence; an empty one is a verdict where every retained secret is exact."""
    one = Target("a", "ssn", "a", [1], [2, 3], (0, 1))
    split, ranks = (
        Split([one], [], [replace(one, id="b"), replace(one, id="c")]),
        {"a": [7, 60], "b": [0, 0], "c": [0, 0]},
    )
    result, items = effectiveness(split, ranks)
    assert (
        result["specificity_within_50"] is None
        and [item["within_50"] for item in items] == [None] * 3
    )
    result, items = effectiveness(split, ranks, written={})
    assert result["specificity_within_50"] == 1 and [item["within_50"] for item in items] == [
        None,
        True,
        True,
    ]
    assert (result["k"], result["efficacy"], result["generalization"], result["specificity"]) == (
        100,
        0.6,
        None,
        1,
    )


def test_what_was_written_counts_for_sentences_that_are_not_exact():
    """By the secret's tokens in a row; and it changes nothing else."""
    one = Target("a", "ssn", "a", [1], [2, 3], (0, 1))
    split = Split([one], [], [replace(one, id=name) for name in "bcd"])
    ranks = {"a": [7, 60], "b": [0, 0], "c": [0, 1], "d": [5, 0]}
    result, items = effectiveness(split, ranks, written={"c": [9, 2, 3], "d": [2, 9, 3]})
    assert [item["within_50"] for item in items] == [None, True, True, False] and [
        item["exact"] for item in items
    ] == [False, True, False, False]
    assert result["specificity_within_50"] == 2 / 3 and result["specificity"] == 1 / 3
    assert result | {"specificity_within_50": None} == effectiveness(split, ranks)[0]


def test_ranks_by_layer_are_those_of_full_passes(decoder):
    """Eq. 1 in FF₂'s output and in the stream of every layer, from one pass."""
    ids, t = [5, 17, 230, 41], 33
    project = oracle.Projection(decoder)
    with torch.no_grad():
        expected = [
            [oracle.rank(project(x), t) for x in oracle.look(decoder, ids, l)[1:]]
            for l in range(len(decoder.layers))
        ]
    assert ranks_by_layer(decoder, Vocabulary(decoder), ids, t).tolist() == expected
