"""The paper's settings stand beside those that rows have."""

from test_results import shelf  # noqa: F401

from companion.pages import paper, settings
from companion.record import rows


def test_a_setting_is_the_papers_or_another_one_by_what_rows_say(shelf):  # noqa: F811
    lines = lambda: settings.table("smollm2-135m", "qwen2.5-coder-1.5b").set_index("what")
    assert (
        lines().loc["candidates k", ["paper", "ours", "verdict"]].tolist()
        == ["100", "–", "no rows yet"]
        and lines().loc["sentences of each", "verdict"] == "used"
    )
    for seed in (1, 2):
        shelf(seed=seed)
    for row in rows.find(kind="unlearn").values():
        row["provenance"]["settings"] |= {"score_k": 100, "T": 3}
        rows.save(
            row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
        )
    found = lines()
    assert found.loc["candidates k", "verdict"] == "used" and found.loc[
        "target tokens of a secret", ["ours", "verdict"]
    ].tolist() == ["3", "changed"]
    assert (
        found.loc["seeds", ["paper", "ours", "verdict"]].tolist() == ["1–6", "1–2", "changed"]
        and found.loc["e-mails unlearned in a split", "verdict"] == "no rows yet"
    )


def test_every_setting_of_the_prose_has_a_line():
    table = settings.table("smollm2-135m", "qwen2.5-coder-1.5b")
    assert {f"{value:,}" for value in paper.tables()["in_prose"]["settings"].values()} <= set(
        table["paper"]
    ) and set(table["verdict"]) <= set(settings.VERDICTS)


def test_values_that_differ_stand_beside_each_other():
    assert (
        settings.verdict(50, {30, 50}) == "changed"
        and settings.shown({47_647, 47_597}) == "47,597; 47,647"
        and settings.listed([1, 3]) == "1, 3"
    )
