"""Claims are decided by plain functions, and the ledger says what a verdict is worth."""

import math
import random

import pandas as pd
import pytest

from companion.analysis import ablations
from companion.claims import claims, ledger
from companion.claims.claims import CLAIMS
from companion.experiments import methods

MODEL = "smollm2-135m"
NAMES = ["unedited", "revs", "ft_l", "memit", "max_entropy", "head_projection", "rmu", "npo_kl"]


def means(**columns) -> pd.DataFrame:
    """Values by method, in the order of NAMES."""
    frame = pd.DataFrame(columns, index=NAMES, dtype=float)
    return frame.reindex(columns=dict.fromkeys([*frame, *ledger.PERCENT]))


def curves(**points) -> dict[str, pd.DataFrame]:
    """Curves of (efficacy, specificity, score) by method."""
    names = ["efficacy", "specificity", "unlearning_score"]
    return {name: pd.DataFrame(some, columns=names) for name, some in points.items()}


FAR_APART = [(28, 90, 50), (58, 83, 68)]  # of efficacies on both sides of a rival's
UP = [0, 90, 10, 20, 30, 40, 50, 60]
BELOW = [0, 57, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize(
    ("decide", "found", "wanted"),
    [
        (claims.highest_score, means(unlearning_score=UP), True),
        (claims.best_efficacy, means(efficacy=BELOW), False),
        (claims.close_second_resistance, means(resistance_released=BELOW), True),
        (claims.close_second_resistance, means(resistance_released=[0, 5] + 6 * [60]), False),
        (claims.perturbation_doubles, means(perturbation=[40, 80] + 6 * [0]), True),
        (claims.effective_methods_resist, means(efficacy=UP, resistance_released=UP), True),
        (claims.small_subset, means(columns=[0, 11] + 6 * [0]), False),
        (claims.intact_text, means(perplexity_rise=[0, 5.1] + 6 * [0]), False),
        (claims.dominates, curves(revs=[(90, 90, 90)], ft_l=[(80, 90, 80)]), True),
        (claims.dominates, curves(revs=[(90, 90, 90)], ft_l=[(95, 10, 20)]), False),  # beyond
        (claims.dominates, curves(revs=[(90, 90, 90)], ft_l=[(5, 99, 9), (9, 9, 9)]), True),
        (claims.dominates, curves(revs=FAR_APART, ft_l=[(55, 93, 60), (9, 9, 9)]), False),
        (claims.keeps_specificity, curves(revs=[(90, 80, 80), (99, 79, 80)]), False),
        (claims.better_at_every_size, curves(revs=[(9, 0, 0)], ft_l=[(8, 0, 0)]), True),
        (claims.stable_over_targets, curves(revs=[(0, 0, 9), (0, 0, 8)], ft_l=[(0, 0, 9)]), False),
        (claims.hybrid_neurons, {"neurons": pd.Series({"hybrid": 9.0, "rank": 8.0})}, True),
        (claims.rarest_tokens, {"tokens": pd.Series({"rarest": 7.0, "first": 8.0})}, False),
        (claims.zeroing_worse, {"zeroing": pd.Series({"REVS": 19.0, "zeroing": 10.0})}, False),
        (
            claims.ten_spaces_weakest,
            pd.Series({"none": 0, "10 spaces, one behind": 1, "x": 2}),
            True,
        ),
    ],
)
def test_a_claim_is_decided_by_its_numbers(decide, found, wanted):
    holds, said = decide(found)
    assert holds is wanted and said


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.decide.__name__)
def test_a_claim_without_its_runs_has_no_verdict(claim):
    empty = {"means": means().dropna(how="all"), "scores": pd.DataFrame()}
    empty |= {"ablations": dict.fromkeys(ablations.ALL, pd.Series(dtype=float))}
    empty |= {"benchmarks": pd.DataFrame(columns=["mmlu", "gsm8k"])}
    empty |= {"perturbations": pd.Series(dtype=float)}
    assert claim.decide(empty.get(claim.evidence, {})) is None
    assert claim.data and set(claim.data) <= set(methods.PAPER_DATA) and claim.place


def test_benchmarks_change_by_less_than_two_points_or_cannot_say():
    frame = pd.DataFrame({"mmlu": [0.50, 0.51], "mmlu items": 200}, index=["unedited", "revs"])
    assert claims.mmlu_stable(frame)[0] and claims.mmlu_stable(frame.assign(mmlu=[0.5, 0.4]))
    assert claims.mmlu_stable(frame.assign(**{"mmlu items": 25})) is None


def test_significance_needs_six_pairs_and_every_method():
    scores = pd.DataFrame({"revs": [0.9 + i / 100 for i in range(6)], "memit": 0.5, "rmu": 0.6})
    assert claims.significant_lead(scores)[0]
    assert not claims.significant_lead(scores.assign(rmu=0.99))[0]
    assert claims.significant_lead(scores[:5]) is None


# --- what a verdict is worth ---------------------------------------------------------------------


CLAIM = {claim.decide: claim for claim in CLAIMS}


def test_a_first_place_has_one_chance_in_as_many_as_there_are_methods():
    found = ledger.chance(CLAIM[claims.highest_score], means(unlearning_score=UP))
    assert found == pytest.approx(1 / 7, abs=0.1)
    alike = means(efficacy=UP, resistance_released=UP)
    assert math.isnan(ledger.chance(CLAIM[claims.effective_methods_resist], alike))


def test_the_unedited_model_keeps_its_name():
    for seed in range(5):
        found = ledger.permuted(means(efficacy=UP), random.Random(seed))
        assert found.loc["unedited", "efficacy"] == 0 and sorted(found["efficacy"]) == sorted(UP)


def test_a_verdict_that_hangs_on_one_adapter_is_not_sure():
    lines = [
        {"adapter": adapter, "split": split, "method": method, "unlearning_score": score}
        for adapter, of_revs in (("a", 90.0), ("b", 90.0), ("c", 10.0))
        for method, score in (("revs", of_revs), ("memit", 50.0))
        for split in (1, 2)
    ]
    part = pd.DataFrame(lines).reindex(columns=dict.fromkeys([*lines[0], *ledger.PERCENT]))
    claim = CLAIM[claims.highest_score]
    found = ledger.sure(claim, ledger.resampled(part), holds=True)
    assert 0.5 < found < 0.95
    for name, value in (("adapter", "a"), ("split", 1)):
        assert not ledger.resampled(part[part[name] == value])
    assert math.isnan(ledger.sure(claim, [], holds=True))


def test_a_claim_is_open_where_our_numbers_leave_it_no_room():
    doubling = CLAIM[claims.perturbation_doubles]
    table = means(perturbation=UP)
    for before, room in ((50.0, True), (80.0, False)):
        table.loc["unedited", "perturbation"] = before
        assert doubling.has_room(table) == room and doubling.decide(table) is not None


# --- the record ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_more_claims_hold_than_with_the_names_shuffled(monkeypatch):
    """landing page: “hold; with shuffled names, fewer would”"""
    monkeypatch.setattr(ledger, "SAMPLES", 2)  # the page takes more, for what is weak
    said = ledger.answer(ledger.ledger(MODEL))
    assert said["claims_asked_held"] > said["claims_chance"] + 2


def test_the_papers_own_numbers_are_judged_by_the_same_functions():
    table = ledger.of_the_paper("ssn")
    assert claims.highest_score(table)[0] and table.loc["revs", "unlearning_score"] > 89
    found = ledger.against_the_paper()
    assert found["the text"].str.startswith("SSN: with REVS the resistance to perturbed").any()
