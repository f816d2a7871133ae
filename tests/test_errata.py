"""The rules find what is known not to add up, and nothing where numbers keep them."""

import pandas as pd
import pytest

from companion.pages import errata, paper


def places(frame, *columns: str) -> list[tuple]:
    return list(frame[list(columns)].itertuples(index=False, name=None))


def test_scores_above_their_bound():
    assert places(errata.above_its_harmonic_mean(), "data", "row", "at most") == [
        ("SSN", "Max-Entropy", "2.58"),
        ("Emails", "Max-Entropy", "43.32"),
        ("SSN", "REVS", "98.88"),
        ("Emails", "ZERO (n=2)", "14.17"),
    ]


def test_lens_and_efficacy():
    found = errata.lens_against_efficacy().set_index("model")
    assert (
        tuple(found.loc["Llama-3-8B", ["rows", "equal", "Logit-Lens above Efficacy"]])
        == ("23", "22", "none")
        and "58.8 against 59.13" in found.loc["Llama-3-8B", "below"]
    )
    assert (
        found.loc["GPT-J-6B", "Logit-Lens above Efficacy"]
        == "Emails, Max-Entropy: 34.98 against 34.6"
    )


def test_a_row_stands_in_two_tables():
    (row,) = errata.rows_that_repeat().to_dict("records")
    assert (
        "tab:extraction_results_gptj" in row["row"]
        and "tab:method_results" in row["repeats"]
        and "REVS" in row["row"]
        and "83.48 = 83.5" in row["numbers"]
    )


def test_cells_that_cannot_all_be_right_are_named_and_their_neighbours_are_not():
    found = errata.doubtful()
    assert (
        found["tab:method_results", "Emails", "REVS", "Efficacy@100"]
        == "Logit-Lens@100 of `tab:extraction_results_gptj`"
    )  # the copy, not the row that it was taken from
    assert ("tab:extraction_results_gptj", "Emails", "REVS", "Logit-Lens@100") not in found
    assert (
        "above the harmonic mean"
        in found["tab:core_results_llama", "SSN", "Max-Entropy", "Specificity"]
        and ("tab:core_results_llama", "SSN", "Max-Entropy", "MMLU") not in found
    )
    assert len(found) == 4 + 3 + 4 + 3 + 4


def test_one_configuration_has_several_numbers():
    found = errata.one_configuration_twice().set_index("column")
    assert list(found.loc["Resistance Score"]) == ["84.2", "82.6", "83.9"]


def test_a_spread_and_settings_that_stand_out():
    assert ("Emails", "Max-Entropy", "± 41.6") in places(
        errata.outlying_spreads(), "data", "row", "printed"
    ) and len(errata.outlying_spreads(1000)) == 0
    assert ("RMU", "`alpha`", "329") in places(
        errata.outside_their_sweep(), "method", "setting", "chosen"
    ) and len(errata.outside_their_sweep()) == 6


def test_two_columns_with_one_spread():
    found = errata.spreads_that_repeat().set_index(["model", "data", "row"])
    assert (
        found.loc[("GPT-J-6B", "SSN", "REVS"), "columns"] == "Unlearning Score, Resistance Score"
        and found.loc[("GPT-J-6B", "SSN", "REVS"), "standard deviation of both"] == "3.56"
    )
    assert all(len(set(means.split(", "))) == 2 for means in found["means"])


def test_what_doubles_and_what_does_not():
    found = errata.perturbation_in_words().set_index(["model", "data"])
    assert (
        tuple(found.loc[("Llama-3-8B", "SSN")]) == ("92.13", "100", "1.09")
        and found.loc[("Llama-3-8B", "Emails"), "times"] == "1.96"
        and len(found) == 5
    )


def test_words_and_missing_rows():
    assert places(errata.specificity_in_words(), "data", "place among the methods") == [
        ("SSN", "1 of 7"),
        ("SSN", "1 of 7"),
        ("Emails", "1 of 7"),
        ("URLs", "3 of 7"),
    ]
    assert places(errata.specificity_in_words(), "the text", "printed")[1] == (
        "near-perfect",
        "82.17",
    )
    assert places(
        errata.spreads_that_differ(), "model", "data", "row", "Efficacy@100", "Logit-Lens@100"
    ) == [("Llama-3-8B", "Emails", "REVS", "± 3.95", "± 3.97")]
    assert errata.without_an_unedited_row() == ["`tab:core_results_llama`, URLs"]


def test_captions_and_panels():
    assert places(errata.panels_in_words(), "figure", "panel") == [
        ("`fig:combined_plots`", "c"),
        ("`fig:combined_plots`", "f"),
    ]


def test_numbers_that_the_prose_says_twice(monkeypatch):
    found = places(errata.numbers_in_words(), "one place", "another")
    assert (
        found[0] == ("half of the data set (Specificity)", "155 of 205, all that are not unlearned")
        and len(found) == 5
    )
    assert (
        found[1][0].startswith("100 (")
        and found[1][1].startswith("50 e-mails")
        and found[2][1].startswith("SSN and Emails; URLs take over")
        and found[3][1].startswith("not printed")
        and found[4][1].startswith("39 minutes with 1 GPU, the others 8 to 13 with 2 to 5")
    )
    printed = paper.tables()
    agreeing = printed | {
        "in_prose": printed["in_prose"] | {"retained": "rest", "tuned": {"targets": 50, "data": ["SSN", "Emails", "URLs"], "extent": ""}, "best_generality": ["SSN"]},
        "hardware": printed["hardware"] | {"runtime_minutes": {"REVS": 8, "FT-L": 39}},
    }  # fmt: skip
    monkeypatch.setattr(errata.paper, "tables", lambda: agreeing)
    assert errata.numbers_in_words().empty


def test_what_was_not_edited_is_marked_as_best():
    assert errata.marks_on_the_unedited() == ["`tab:core_results_llama`, Emails: Specificity"]


@pytest.mark.parametrize(
    "printed, half", [("14.3", 0.05), ("43.60", 0.005), ("0", 0.5), ("5.12 ± 3.50", 0.005)]
)
def test_half_a_unit_of_the_last_digit(printed, half):
    assert errata.rounding({"printed": printed}) == pytest.approx(half)


def test_numbers_that_keep_the_rules_are_not_listed(monkeypatch):
    """A table that is consistent up to rounding breaks nothing; one more unit in the last digit does."""

    def table(score: str):
        cells = [
            ("SSN", "REVS", column, float(value), None, None, value)
            for column, value in {
                "Unlearning Score": score,
                "Efficacy@100": "60.0",
                "Generalization@100": "60.0",
                "Specificity": "60.0",
            }.items()
        ]
        return lambda label: pd.DataFrame(cells, columns=paper.CELL)

    monkeypatch.setattr(errata.paper, "table", table("60.1"))
    assert errata.above_its_harmonic_mean().empty
    monkeypatch.setattr(errata.paper, "table", table("60.2"))
    assert len(errata.above_its_harmonic_mean()) > 0
