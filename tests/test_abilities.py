"""What edited models can still do, as a table: accuracies, flips, and the paper's columns (§4.4.2)."""

import math

import pytest
from test_results import shelf  # noqa: F401

from companion.ledger import claims
from companion.pages import abilities
from companion.record import rows


def asked(mmlu: str, gsm8k: str, perplexity: float = 20.0) -> dict:
    """A run's answers, right or wrong, as the measure keeps them."""
    one = lambda right: {
        "accuracy": right.count("1") / len(right),
        "items": len(right),
        "right": right,
    }
    return {"from": "hub", "perplexity": perplexity, "mmlu": one(mmlu), "gsm8k": one(gsm8k)}


@pytest.fixture
def answered(shelf):  # noqa: F811
    """answered(method, answers): a run tagged ``integrity``."""

    def put(method, answers, tag="integrity"):
        row = shelf(method=method, seed=1, tag=tag)
        row["result"]["integrity"] = answers
        rows.save(rows.RECORDED / f"{row['name']}.json", row)

    return put


def test_nothing_is_compared_without_the_unedited_model(answered, shelf):  # noqa: F811
    answered("revs", asked("1010", "00"))
    assert abilities.runs("smollm2-135m", "ssn") == {}
    answered("unedited", asked("1100", "10"))
    shelf(method="memit", seed=1, tag="integrity", failed="MEMIT diverged.")
    assert set(abilities.runs("smollm2-135m", "ssn")) == {"unedited", "revs"}


def test_answers_to_other_questions_are_not_compared(answered):
    """Items from elsewhere, or another number of them."""
    answered("unedited", asked("1100", "10"))
    answered("revs", asked("1011", "00") | {"from": "a folder"})
    answered("memit", asked("10111", "00"))
    assert set(abilities.runs("smollm2-135m", "ssn")) == {"unedited"}


def test_every_data_set_has_its_lines(answered):
    answered("unedited", asked("1100", "10"))
    answered("revs", asked("1011", "00"))
    found = abilities.every("smollm2-135m")
    table = abilities.tables(found)
    assert (
        list(found) == ["ssn"]
        and list(table["data"].unique()) == ["SSN", "Emails", "URLs"]
        and not table.isna().any(axis=None)
    )
    assert list(table.loc[table["data"] == "SSN", "method"]) == ["Unedited", "REVS"] and set(
        table.loc[table["data"] == "URLs", "perplexity"]
    ) == {"–"}


def test_flips_are_counted_both_ways_beside_the_papers_numbers(answered):
    answered("unedited", asked("1100", "10"))
    answered("revs", asked("1011", "00", perplexity=21.25))
    table = abilities.table(
        abilities.runs("smollm2-135m", "ssn"), abilities.printed("ssn")
    ).set_index("method")
    assert list(table.index) == ["Unedited", "REVS"]
    assert (
        table.loc["REVS", "MMLU"] == f"75.0 ± {100 * math.sqrt(0.75 * 0.25 / 4):.1f}"
        and table.loc["REVS", "MMLU: lost, won"] == "1, 2"
    )
    assert (
        table.loc["REVS", "GSM8K: lost, won"] == "1, 0"
        and table.loc["Unedited", "MMLU: lost, won"] == "0, 0"
        and table.loc["REVS", "perplexity"] == "21.2"
        and table.loc["REVS", "Unlearning Score"] != "–"
    )
    printed = claims.printed("tab:core_results_llama")
    assert (
        table.loc["REVS", "MMLU, paper, Llama-3-8B"]
        == f"{printed['SSN', 'REVS', 'MMLU']['value']:.1f}"
    )


def test_without_rows_the_paper_stands_alone(shelf):  # noqa: F811
    table = abilities.table({}, abilities.printed("ssn"))
    assert list(table.columns) == [
        "method",
        "MMLU, paper, Llama-3-8B",
        "GSM8K, paper, Llama-3-8B",
    ] and {"Unedited", "REVS", "NPO-KL"} < set(table["method"])


def test_a_model_at_chance_is_called_so(answered):
    answered("unedited", asked("1000" * 25, "0" * 100))
    assert (
        abilities.sentence(abilities.runs("smollm2-135m", "ssn")).count("no better than chance")
        == 2
    )
    answered("unedited", asked("1100" * 25, "10" * 50))
    assert "chance" not in abilities.sentence(abilities.runs("smollm2-135m", "ssn"))


def test_what_memorising_cost_stands_before_what_edits_cost(answered):
    """More than any edit, or not; nothing is said without the model as it came, or if that was asked something else."""
    answered("unedited", asked("1000", "00", perplexity=140))
    answered("revs", asked("1000", "00", perplexity=124))
    answered("random", asked("1000", "00", perplexity=139))
    found = abilities.runs("smollm2-135m", "ssn")
    said = lambda: abilities.taught(found, abilities.untaught("smollm2-135m", "ssn"))
    assert said() == ""
    answered("unedited", asked("11000", "00", perplexity=26), tag="integrity-before")
    assert said() == ""
    answered("unedited", asked("1100", "00", perplexity=26), tag="integrity-before")
    assert (
        "answers 50.0 per cent of MMLU and 0.0 per cent of GSM8K, and its perplexity is 26.0; the edits begin at 140.0. **Memorising raised"
        in said()
        and "did.** REVS lowered it again by more than 5 per cent of that" in said()
    )
    answered("memit", asked("1000", "00", perplexity=900))
    assert "than any edit" not in abilities.taught(
        abilities.runs("smollm2-135m", "ssn"), abilities.untaught("smollm2-135m", "ssn")
    )


def test_a_loss_is_told_from_a_change_both_ways(answered):
    """Ten lost and none won is more than chance, five lost and five won is not; a benchmark that was guessed is left out."""
    answered("unedited", asked("1" * 30 + "0" * 10, "0" * 40))
    assert abilities.lost(abilities.runs("smollm2-135m", "ssn")) == ""
    answered("revs", asked("1" * 25 + "0" * 10 + "1" * 5, "1" * 40))
    assert abilities.lost(abilities.runs("smollm2-135m", "ssn")).startswith(
        "MMLU: edits that lost more answers than they won, or the reverse: none. (Sign test"
    )
    answered("memit", asked("1" * 20 + "0" * 20, "0" * 40))
    said = abilities.lost(abilities.runs("smollm2-135m", "ssn"))
    assert (
        said.startswith(
            "MMLU: edits that lost more answers than they won, or the reverse: MEMIT 10 lost and 0 won. (Sign test"
        )
        and "GSM8K" not in said
        and "REVS" not in said
    )


def test_the_ledger_has_the_two_columns_where_they_are_measured(answered, shelf):  # noqa: F811
    shelf(seed=1)
    answered("unedited", asked("1100", "10"))
    answered("revs", asked("1011", "00"))
    found = claims.measured("tab:core_results_llama", "smollm2-135m")
    assert (
        found["SSN", "REVS", "MMLU"].value == 75
        and found["SSN", "Unedited", "GSM8K"].value == 50
        and found["SSN", "REVS", "MMLU"].rows == ("unlearn/ssn/smollm2-135m/revs-seed1-integrity",)
    )
    assert not any(
        column == "MMLU"
        for _, _, column in claims.measured("tab:extraction_results_llama", "smollm2-135m")
    )
