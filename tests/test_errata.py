"""The rules find what is known not to add up, and nothing where numbers keep them."""

import pandas as pd
import pytest

from companion.analysis import errata
from companion.store import paper


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
    both = errata.lens_and_efficacy()
    above, below = both.query("value_lens > value"), both.query("value_lens < value")
    assert places(above, "model", "row", "value_lens", "value") == [
        ("GPT-J-6B", "Max-Entropy", 34.98, 34.6)
    ]
    assert both["model"].value_counts().to_dict() == {"Llama-3-8B": 23, "GPT-J-6B": 16}
    assert below["model"].value_counts().to_dict() == {"GPT-J-6B": 8, "Llama-3-8B": 1}


def test_a_row_stands_in_two_tables():
    (row,) = errata.rows_that_repeat().to_dict("records")
    assert row["row"] == "`tab:extraction_results_gptj`: Emails, REVS"
    assert row["repeats"] == "`tab:method_results`: Emails, REVS"
    assert "83.48 = 83.5" in row["numbers"]


def test_one_configuration_has_several_numbers():
    assert list(errata.one_configuration().loc["Resistance Score"]) == [84.2, 82.6, 83.9]


def test_spreads_stand_beside_the_median_of_their_column():
    found = errata.spreads().set_index(["table", "dataset", "row", "column"])
    of = ("`tab:extraction_results_gptj`", "Emails", "Max-Entropy", "Perturb@100")
    assert found.loc[of, ["std", "usual"]].tolist() == [41.6, 4.625]
    assert (found["std"] > 0).all() and (found["std"] > 4 * found["usual"]).sum() == 8


def test_settings_outside_their_sweep():
    found = errata.outside_their_sweep()
    assert ("RMU", "`alpha`", "329") in places(found, "method", "setting", "chosen")
    assert len(found) == 6


def test_captions_and_panels():
    found = places(errata.panels_in_words(), "figure", "panel")
    assert found == [("`fig:combined_plots`", "c"), ("`fig:combined_plots`", "f")]


@pytest.mark.parametrize("score, broken", [("60.1", False), ("60.2", True)])
def test_what_rounding_explains_is_not_listed(monkeypatch, score, broken):
    """One more unit in the last digit is."""
    columns = ["Efficacy@100", "Generalization@100", "Specificity"]
    printed = {"Unlearning Score": score} | dict.fromkeys(columns, "60.0")
    cells = [("SSN", "REVS", c, float(value), None, None, value) for c, value in printed.items()]
    monkeypatch.setattr(paper, "table", lambda label: pd.DataFrame(cells, columns=paper.CELL))
    assert errata.above_its_harmonic_mean().empty is not broken
