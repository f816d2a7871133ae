"""What edited models can still do, as frames: accuracies, flips, the paper's columns (§4.4.2)."""

import math

import pytest

from companion.analysis import abilities
from companion.store import paper

MODEL = "smollm2-135m"


def asked(mmlu: str, gsm8k: str, perplexity: float = 20.0, source: str = "hub") -> dict:
    """A run's answers, right or wrong, as the measure keeps them."""
    one = lambda right: {"accuracy": right.count("1") / len(right), "items": len(right)}
    found = {"mmlu": one(mmlu) | {"right": mmlu}, "gsm8k": one(gsm8k) | {"right": gsm8k}}
    return found | {"from": source, "perplexity": perplexity}


@pytest.fixture
def answered(add_row):
    """answered(method, answers): a run tagged ``integrity``."""
    return lambda method, answers: add_row("integrity", method, 1, more={"integrity": answers})


def test_only_what_was_asked_the_same_is_compared(answered, add_row):
    """Not without the unedited model; nor items from elsewhere, or another number of them."""
    answered("revs", asked("1010", "00"))
    assert abilities.runs(MODEL, "ssn") == {}
    answered("unedited", asked("1100", "10"))
    answered("ft_l", asked("1011", "00", source="a folder"))
    answered("rmu", asked("10111", "00"))
    add_row(method="memit", seed=1, tag="integrity", failed="MEMIT diverged.")
    assert set(abilities.runs(MODEL, "ssn")) == {"unedited", "revs"}


def test_flips_are_counted_both_ways_beside_the_papers_numbers(answered):
    answered("unedited", asked("1100", "10"))
    answered("revs", asked("1011", "00", perplexity=21.25))
    answers = abilities.answers(abilities.runs(MODEL, "ssn"))
    assert list(answers.index) == ["unedited", "revs"]
    revs, spread = answers.loc["revs"], math.sqrt(0.75 * 0.25 / 4)
    assert (revs["mmlu"], revs["mmlu error"], revs["mmlu items"]) == (0.75, spread, 4)
    assert (revs["mmlu lost"], revs["mmlu won"], revs["gsm8k lost"]) == (1, 2, 1)
    assert not answers.loc["unedited"].filter(regex="lost|won").any()
    shown = abilities.accuracy_table(answers).loc["REVS"]
    assert shown["MMLU"] == f"75.0 ± {100 * spread:.1f}" and shown["GSM8K: lost, won"] == "1, 0"
    assert shown["perplexity"] == "21.2"
    printed = abilities.printed("ssn")
    assert {"Unedited", "REVS", "NPO-KL"} < set(printed.index)
    cells = paper.table("tab:core_results_llama").query("dataset == 'SSN' and row == 'REVS'")
    (value,) = cells.loc[cells["column"] == "MMLU", "value"]
    assert printed.loc["REVS", "MMLU, paper, Llama-3-8B"] == f"{value:.1f}"
