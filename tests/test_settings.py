"""The paper's settings stand beside those that rows have."""

import pytest

from companion.pages import settings
from companion.record import paper


@pytest.fixture(scope="module")
def table():
    return settings.table("smollm2-135m", "qwen2.5-coder-1.5b").set_index("what")


def test_a_setting_is_the_papers_or_another_one_by_what_rows_say(table):
    line = lambda what: table.loc[what, ["paper", "ours", "verdict"]].tolist()
    assert line("candidates k") == ["100", "100", "used"]
    assert line("seeds") == ["1–6", "1–6", "used"]
    assert line("e-mails unlearned in a split") == ["50", "30", "changed"]
    assert line("share of SSN unlearned in a split") == ["half", "half", "used"]


def test_every_setting_of_the_prose_has_a_line(table):
    of_prose = {f"{value:,}" for value in paper.tables()["in_prose"]["settings"].values()}
    assert of_prose <= set(table["paper"])


def test_values_that_differ_stand_beside_each_other():
    assert settings.verdict(50, {30, 50}) == settings.verdict(50, set()) == "changed"
    assert settings.shown({47_647, 47_597}) == "47,597; 47,647"
    assert settings.listed([1, 3]) == "1, 3" and settings.listed([1, 2, 3]) == "1–3"
