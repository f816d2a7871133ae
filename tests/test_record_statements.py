"""What pages say of the recorded results in words: a number beside it is glued, a word is not."""

import pandas as pd

from companion.analysis import abilities, ablations, main_comparison, results, tuning
from companion.store import rows

MODEL = "smollm2-135m"


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


def test_the_embedded_model_cannot_answer():
    """integrity: “The small model cannot answer them before the edit either.”"""
    before = abilities.answers(abilities.runs(MODEL, "ssn")).loc["unedited"]
    for name, chance in (("mmlu", 1 / 4), ("gsm8k", 0)):
        assert before[name] - chance <= 2 * before[f"{name} error"]


def test_revs_was_first_in_the_first_design_alone():
    """fair_details: “REVS came first on every data set in the first design and on none …”"""
    earlier = pd.read_csv(rows.RECORDED / "earlier_designs.csv")
    scores = earlier.set_index("method").groupby(["design", "data"])["unlearning_score"]
    first = scores.idxmax() == "revs"
    assert first.loc[1].all() and not first.loc[2].any()


def test_from_the_middle_layers_on_the_new_write_resists_and_its_score_does_not_tell():
    """write: “From the middle layers on the write forgets at the output *and* in the layers …”"""
    found = ablations.by_first_layer(MODEL, "ssn").set_index("first")
    middle, last = found[found.index <= 24], found[found.index >= 28]
    assert middle["resistance"].min() > 90 and last["resistance"].max() < 5
    assert found["unlearning_score"].min() > 90 and found["perplexity_rise"].max() < 3


def test_two_methods_found_no_setting_that_forgets_and_keeps():
    """fair: “in six trials Max-Entropy and NPO-KL found none that forgets and keeps”"""
    trials = tuning.trials(MODEL, "ssn-tune")
    useful = trials[(trials["efficacy"] > 0.5) & (trials["specificity"] > 0.2)]
    assert set(tuning.searched()) - set(useful["method"]) == {"max_entropy", "npo_kl"}


def test_shared_tokens_leave_the_new_write_alone_above_a_third():
    """ban: the least-squares write alone survives shared numbers; nothing survives shared names."""
    runs = main_comparison.runs(MODEL, "ssn", "ssn-shared")
    score = runs.groupby(["data", "method"])["unlearning_score"].mean()
    assert score["ssn"].idxmax() == "output_ban"
    assert set(score["ssn-shared"][score["ssn-shared"] > 1 / 3].index) == {"least_squares"}
    names = main_comparison.runs(MODEL, "emails-shared").groupby("method")["unlearning_score"]
    assert names.mean().max() < 0.4
