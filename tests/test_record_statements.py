"""What pages say of the recorded results in words: a number beside it is glued, a word is not."""

import pandas as pd
import pytest

from companion.analysis import abilities, ablations, page_values, results, tradeoffs

MODEL = "smollm2-135m"


def alternatives(which: str) -> pd.DataFrame:
    """Our lines of an ablation table, with their score as a number."""
    table = ablations.beside(which, MODEL)
    table["score"] = pd.to_numeric(table["Unlearning Score"])
    return table[table["measured"].str.startswith("ours")]


def test_neurons_that_are_not_active_do_worst():
    """neurons: “Active ones.”"""
    score = alternatives("neurons").groupby("alternative")["score"].min()
    idle = score[score.index.isin(["random", "rank"])]
    assert idle.max() < score[["hybrid", "activations"]].min()


def test_zeroing_scores_lower_than_editing():
    """zeroing: “Little is forgotten, and much else is lost.”"""
    for _, of_data in alternatives("zeroing").groupby("measured"):
        score = of_data.set_index("alternative")["score"]
        assert score.idxmax() == "REVS"


def test_a_shorter_step_scores_higher():
    """closed_form: the best ridge of a step scores more than the paper's step."""
    frame = results.measured(MODEL, "ssn")
    frame = frame[frame["tag"].str.startswith("step-") & frame["failed"].isna()]
    score = frame.groupby("ridge")["unlearning_score"].mean()
    assert score.idxmax() > 0


def test_single_digits_decide():
    """digits: “They do.”"""
    frame = results.measured(MODEL, "ssn")
    frame = frame[frame["failed"].isna()]
    best = frame.groupby(["tag", "method"])["unlearning_score"].mean().groupby("tag").max()
    assert best["ways-keep"] < best["ways-noise"] / 2


def test_more_secrets_lower_the_score_of_revs():
    """tradeoffs: “More secrets lower its score.”"""
    numbers = tradeoffs.by_targets(MODEL, "ssn")["revs"].set_index("targets")["unlearning_score"]
    assert numbers.sort_index().is_monotonic_decreasing


def test_the_embedded_model_cannot_answer():
    """integrity: “The embedded model cannot answer at all”, “within chance.”"""
    before = abilities.answers(abilities.runs(MODEL, "ssn")).loc["unedited"]
    assert not any(abilities.above_chance(before, one) for one in abilities.BENCHMARKS)
    able = abilities.answers(abilities.runs("qwen2.5-coder-1.5b", "machine-email"))
    came = abilities.answers(abilities.runs(MODEL, "ssn", "integrity-before"))
    values = page_values.integrity(able, came, able)
    assert min(values["able_mmlu_p"], values["able_gsm8k_p"]) > 0.05


@pytest.mark.parametrize("data, most", [("ssn", 100), ("emails", 20)])
def test_revs_hardly_forgets_addresses_on_gptj(data, most):
    """gptj: “On SSNs in part, on Emails hardly.”"""
    ranks = results.ranks(results.runs("gptj-small", data).query("method == 'revs'"))["rank"]
    assert 100 * (ranks >= 100).mean() < most
