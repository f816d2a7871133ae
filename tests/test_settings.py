"""The paper's settings stand beside those that rows have."""

import pandas as pd
import pytest

from companion.analysis import settings
from companion.store import paper, rows

MODELS = "smollm2-135m", "qwen2.5-coder-1.5b"


@pytest.fixture
def table(monkeypatch) -> pd.DataFrame:
    """The table of the recorded rows."""
    monkeypatch.setattr(rows, "MEASURED", rows.RECORDED / "none")
    return settings.table(*MODELS).set_index("what")


def test_every_setting_of_the_prose_has_a_line(table):
    printed = {f"{value:,}" for value in paper.tables()["in_prose"]["settings"].values()}
    assert printed <= set(table["paper"]) and set(table["verdict"]) <= {"used", "changed"}


def test_a_setting_is_the_papers_or_another_one_by_what_rows_say(table, monkeypatch):
    same = table.loc["target tokens of a secret"]
    assert same["paper"] == same["ours"] and same["verdict"] == "used"
    rate = table.loc["fine-tune: learning rate"]
    assert rate["paper"] != rate["ours"] and rate["verdict"] == "changed"
    every = {name: row for name, row in rows.find().items() if row.get("seed") != 2}
    monkeypatch.setattr(
        rows,
        "find",
        lambda *_, kind=None, data=None: {
            name: row
            for name, row in every.items()
            if kind in (None, row["kind"]) and data in (None, row["data"])
        },
    )
    found = settings.table(*MODELS).set_index("what").loc["seeds"]
    assert found["ours"].startswith("1, 3, ") and found["verdict"] == "changed"


def test_values_that_differ_stand_beside_each_other():
    assert settings.verdict(50, {30, 50}) == "changed" and settings.verdict(50, {50}) == "used"
    assert settings.shown({47_647, 47_597}) == "47,597; 47,647"
    assert settings.listed([1, 3]) == "1, 3" and settings.listed([1, 2, 3]) == "1–3"
