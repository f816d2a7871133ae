"""The ledger: complete, judged by rules alone, and honest about what is missing."""

import math
import re

import pandas as pd
import pytest
from test_results import shelf  # noqa: F401

from companion.ledger import claims
from companion.ledger.claims import (
    CLAIM,
    DIFFERENT,
    DIRECTION,
    NOTHING_DONE,
    NUMBER,
    REPRODUCED,
    UNMEASURED,
    Ours,
)
from companion.pages import abilities, paper, results, statistics, tables
from companion.pages.tables import DASH, Filtered
from companion.record import rows
from companion.runs import methods

PLACES = [("SSN", row, "Specificity") for row in ("Unedited", "FT-L", "MEMIT", "REVS")]


def values(*numbers: float) -> dict:
    return dict(zip(PLACES, numbers))


@pytest.mark.parametrize(
    "row, theirs, ours, verdict",
    [
        ("REVS", (100, 20, 30, 80), (100, 5, 5, 71), REPRODUCED),
        ("REVS", (100, 20, 30, 80), (100, 20, 30, 50), DIRECTION),  # still above the best other
        ("REVS", (100, 20, 30, 80), (100, 20, 60, 50), DIFFERENT),
        ("MEMIT", (100, 20, 30, 80), (100, 20, 45, 50), DIRECTION),  # still below REVS
        ("MEMIT", (100, 20, 30, 80), (100, 20, 55, 50), DIFFERENT),
        ("Unedited", (100, 20, 30, 80), (80, 20, 30, 80), DIFFERENT),
        ("Unedited", (100, 20, 30, 80), (100, 20, 30, 80), NOTHING_DONE),
        (
            "REVS",
            (95, 96, 97, 98),
            (94, 97, 96, 93),
            NOTHING_DONE,
        ),  # Delta: whoever does nothing has it too
        ("REVS", (95, 96, 97, 98), (80, 97, 96, 93), REPRODUCED),
    ],
)
def test_verdicts_on_numbers(row, theirs, ours, verdict):
    assert claims.number(("SSN", row, "Specificity"), values(*theirs), values(*ours), 10) == verdict


@pytest.mark.parametrize("claim", claims.terms()["claims"], ids=lambda claim: claim["id"])
def test_a_claim_stands_where_the_ledger_says(claim):
    """Its section's number and the paragraph's heading are the paper's own."""
    sections = paper.tables()["sections"]
    headings = {
        section["number"]: " ".join([section["title"], *section["paragraphs"]]).lower()
        for section in sections
    }
    for place in re.split(r"; so |, ", claim["place"].removesuffix(", GPT-J")):
        if place.startswith("§"):
            number, _, heading = place[1:].partition(" ")
            assert heading.lower() in headings[number], place
        elif place.startswith("App. "):
            assert any(
                place.removeprefix("App. ").lower() in headings[number]
                for number in headings
                if number[0].isalpha()
            ), place
        elif place.startswith("tab:"):
            assert place in paper.tables()["tables"]
        else:
            assert place == "Abstract" or any(
                place.lower() in heading for heading in headings.values()
            ), place


def test_the_same_direction_of_a_method_that_did_next_to_nothing_is_told_apart(ledger):
    assert claims.idle(PLACES[3], values(0, 20, 30, 8), 10) and not claims.idle(
        PLACES[3], values(0, 20, 30, 12), 10
    )
    assert not claims.idle(PLACES[0], values(0, 20, 30, 8), 10) and not claims.idle(
        PLACES[3], {PLACES[3]: 1.0}, 10
    )
    same = ledger[(ledger["verdict"] == DIRECTION) & (ledger["doubt"] == "")]
    still = same["why"].str.startswith("over unedited: ")
    assert 0 < still.sum() < len(same) and set(same.loc[~still, "why"]) == {""}
    assert (
        f" {len(same)} numbers in the same direction, {still.sum()} are" in claims.unmoved(ledger)
        and claims.unmoved(same[~still]) == ""
    )


def test_a_number_without_rows_is_not_judged():
    assert claims.number(PLACES[1], values(100, 20, 30, 80), {}, 10) == UNMEASURED
    assert (
        claims.number(PLACES[3], values(100, 20, 30, 80), {PLACES[3]: 50.0}, 10) == DIFFERENT
    )  # no other method to compare with


@pytest.mark.parametrize(
    "expect, found, holds",
    [
        ({"first": ["b"]}, {"a": 1, "b": 2, "Unedited": 9}, True),
        ({"first": ["a"]}, {"a": 1, "b": 2}, False),
        ({"first": ["a"]}, {"a": 2, "b": 2}, True),
        ({"place": ["a", 2]}, {"a": 1, "b": 2, "c": 0}, True),
        ({"place": ["c", 2]}, {"a": 1, "b": 2, "c": 0}, False),
        ({"above": ["b", "a", "Unedited"]}, {"a": 1, "b": 2, "Unedited": 1.5}, True),
        ({"above": ["b", "a"]}, {"a": 2, "b": 2}, False),
        ({"at_least": ["a", 95]}, {"a": 95}, True),
        ({"at_least": ["a", 95]}, {"a": 94.9}, False),
        ({"times": ["a", "b", 2]}, {"a": 4, "b": 2}, True),
        ({"times": ["a", "b", 2]}, {"a": 3.9, "b": 2}, False),
        ({"near": [2, "all"]}, {"a": 1, "b": 4, "Unedited": 2.5}, True),
        ({"near": [2, "a"]}, {"a": 0, "b": 4, "Unedited": 2.5}, False),
        ({"at_most": ["a", 50]}, {"a": 50}, True),
        ({"at_most": ["a", 50]}, {"a": 50.1}, False),
        ({"close": ["a", 2, 5]}, {"a": 6, "b": 10, "c": 1}, True),
        ({"close": ["a", 2, 3]}, {"a": 6, "b": 10}, False),
        ({"close": ["a", 2, 5]}, {"a": 8, "b": 10, "c": 9}, False),
        ({"far": [5, ["a", "b"], "all"]}, {"a": 6, "b": 10, "c": 1, "Unedited": 99}, True),
        ({"far": [5, ["a", "b"], "all"]}, {"a": 6, "b": 10, "c": 2}, False),
        ({"far": [5, ["a"], ["b"]]}, {"a": 9, "b": 4, "c": 8}, True),
        ({"far": [5, ["a"], ["Unedited"]]}, {"a": 9, "Unedited": 5}, False),
        ({"ahead": ["a", "b"]}, {"a": 6, "b": 10, "c": 1, "Unedited": 99}, True),
        ({"ahead": ["a", "b"]}, {"a": 6, "b": 10, "c": 7}, False),
        ({"groups": [["a", "b"], ["c"]]}, {"a": 1, "b": 5, "c": 2}, True),
        ({"groups": [["a", "b"], ["c"]]}, {"a": 1, "b": 5, "c": 3}, False),
        ({"linked": [0.5]}, {"a": (1, 4), "b": (2, 5), "c": (3, 9), "Unedited": (0, 100)}, True),
        ({"linked": [0.5]}, {"a": (1, 9), "b": (2, 5), "c": (3, 4)}, False),
        ({"opposed": [0]}, {"a": (1, 9), "b": (2, 5), "c": (3, 4)}, True),
        ({"opposed": [0]}, {"a": (1, 4), "b": (2, 5), "c": (3, 9)}, False),
        ({"superior": ["a", 1]}, {"a": (2, 2, 1), "b": (1, 1, 2)}, True),
        ({"superior": ["a", 1]}, {"a": (2, 1, 1), "b": (1, 2, 2)}, False),
        ({"paid": ["a"]}, {"a": (2, 2), "b": (3, 1), "c": (1, 9)}, True),
        ({"paid": ["a"]}, {"a": (2, 2), "b": (3, 2)}, False),
    ],
)
def test_checks(expect, found, holds):
    assert claims.holds(expect, found) is holds
    with pytest.raises(ValueError, match="is not a check"):
        claims.holds({"better": ["a"]}, found)


def test_a_check_needs_every_method_that_it_speaks_of():
    every = ["Unedited", "FT-L", "MEMIT", "REVS"]
    assert (
        claims.needed({"first": ["REVS"]}, every)
        == {"FT-L", "MEMIT", "REVS"}
        == claims.needed({"place": ["REVS", 2]}, every)
    )
    assert claims.needed({"above": ["REVS", "Unedited"]}, every) == {
        "REVS",
        "Unedited",
    } and claims.needed({"at_least": ["REVS", 95]}, every) == {"REVS"}
    assert claims.needed({"near": [2, "all"]}, every) == set(every)
    assert claims.needed({"far": [10, ["REVS"], "all"]}, every) == {
        "FT-L",
        "MEMIT",
        "REVS",
    } and claims.needed({"far": [10, ["REVS"], ["Unedited"]]}, every) == claims.named(
        {"far": [10, ["REVS"], "all"]}
    ) | {"Unedited"}
    assert claims.needed({"ahead": ["REVS", "MEMIT"]}, every) == {
        "FT-L",
        "MEMIT",
        "REVS",
    } and claims.needed({"groups": [["MEMIT"], ["FT-L"]]}, every) == {"FT-L", "MEMIT"}


@pytest.mark.parametrize("expect, found, verdict", [
    ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 0.0}, None), ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 54.7}, False), ({"first": ["REVS"]}, {"FT-L": 54.7}, None),
    ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 0.0, "MEMIT": 1.0}, True), ({"near": [2, "all"]}, {"Unedited": 60.0, "REVS": 50.0}, False), ({"near": [2, "all"]}, {"REVS": 50.0}, None),
    ({"above": ["REVS", "FT-L", "MEMIT"]}, {"REVS": 1.0, "MEMIT": 2.0}, False), ({"above": ["REVS", "FT-L", "MEMIT"]}, {"REVS": 3.0, "MEMIT": 2.0}, None),
    ({"groups": [["MEMIT"], ["FT-L"]]}, {"REVS": 3.0, "MEMIT": 2.0}, None), ({"linked": [0.5]}, {"REVS": (1, 1), "MEMIT": (2, 2)}, None),
])  # fmt: skip
def test_a_missing_method_keeps_none_from_refuting(expect, found, verdict):
    assert claims.judged(expect, found, ["Unedited", "FT-L", "MEMIT", "REVS"]) is verdict


@pytest.fixture(scope="module")
def ledger() -> pd.DataFrame:
    return claims.ledger("smollm2-135m")


def test_every_printed_number_has_one_line(ledger):
    cells = sum(len(claims.printed(label)) for label in claims.PAGES)
    assert ledger["where"].str.startswith("`").sum() == cells > 350
    assert not ledger[ledger["where"].str.startswith("`")].duplicated(["where", "what"]).any()
    assert {label for label, table in paper.tables()["tables"].items() if "cells" in table} == set(
        claims.PAGES
    )
    of_paper = paper.tables()["hardware"]
    assert (ledger["where"] == "App. Hardware").sum() == len(of_paper["gpus"]) + len(
        of_paper["runtime_minutes"]
    ) + 1  # and a claim


def test_it_is_said_how_many_rules_are_younger_than_rows():
    """Of those that were judged; numbers have one tolerance."""
    lines = [
        ("claim", "different", "a"),
        ("claim", "reproduced", "a" + claims.LATE),
        ("claim", "reproduced", "b" + claims.LATE),
        ("claim", claims.UNMEASURED, "c" + claims.LATE),
        ("number", "reproduced", "d"),
    ]
    said = claims.younger(pd.DataFrame(lines, columns=["kind", "verdict", "expected"]))
    assert said.startswith(
        "Of the 3 claims that are judged, the rule of 1 is older than all their rows, that of 2 "
    )


def test_claims_that_the_papers_own_numbers_refute_are_listed():
    found = claims.against_the_paper().set_index(["where", "the text"])["printed"]
    assert found[
        "App. Results on GPT-J",
        "Emails: Head-Projection is very effective too, here: among the two best",
    ].startswith("REVS 97.22, MEMIT 88.23, Head-Projection 82.55, ")
    assert {
        printed for (_, text), printed in found.items() if "compromises specificity" in text
    } == {f"ρ = {rho} over 7 methods" for rho in ("0.71", "0.82")}
    gsm8k = next(
        printed for (_, text), printed in found.items() if text.startswith("Emails: GSM8K")
    )
    assert "FT-L 50.94" in gsm8k and "Unedited 47.99" in gsm8k
    assert not any("highest Unlearning Score" in text for _, text in found.index)


def test_every_claim_has_its_lines(ledger):
    organic = lambda claim: (
        set(claim.get("data", ())) & {"Emails", "URLs"}
        if "GPT-J" not in claim["place"]
        and claim.get("table") not in claims.ABLATIONS
        and "secrets" not in claim
        else ()
    )
    wanted = sum(
        len(claim.get("data", [0])) + len(organic(claim)) for claim in claims.terms()["claims"]
    )
    assert (ledger["kind"] == CLAIM).sum() == wanted
    for claim in claims.terms()["claims"]:
        assert (
            sum(key in claim for key in ("reason", "expect", "curve")) == 1
            and claim["says"]
            and claim["place"]
        )
        if "expect" in claim:
            known = {row for _, row, _ in claims.printed(claim["table"])}
            there = {
                (d, c)
                for label in (claim["table"], claims.TWINS.get(claim["table"]))
                if label
                for d, _, c in claims.printed(label)
            }
            assert claims.needed(claim["expect"], []) <= known and all(
                (data, column) in there
                for data in claim["data"]
                for column in claims.columns_of(claim)
                if column not in abilities.BENCHMARKS.values()
            )
            assert claims.check(claim)


def test_a_verdict_is_never_without_a_row_or_a_reason(ledger):
    judged = ledger[ledger["verdict"] != UNMEASURED]
    assert (
        (judged["rows"] != "").all()
        and (judged["ours"] != "–").all()
        and (judged["on"] != "–").all()
    )
    assert (ledger.loc[ledger["verdict"] == UNMEASURED, "why"] != "").all()
    assert sum(claims.summary(ledger).values()) == (ledger["doubt"] == "").sum() < len(ledger)


def test_what_an_unedited_model_has_too_and_what_cannot_be_right_is_told_apart(ledger):
    by_what = ledger[
        ledger["where"].isin(["`tab:extraction_results_llama`", "`tab:method_results`"])
    ].set_index("what")
    assert by_what.loc["SSN, Unedited: Resistance Score", ["verdict", "why"]].tolist() == [
        NOTHING_DONE,
        "",
    ]
    assert set(by_what.loc[by_what.index.str.contains("Delta"), "verdict"]) <= {
        NOTHING_DONE,
        UNMEASURED,
    }
    assert by_what.loc["SSN, REVS: Delta@100", "why"].startswith(
        "over unedited: +2.1 in the paper, "
    )
    copied = by_what.loc[["Emails, REVS: Efficacy@100", "Emails, REVS: Specificity"], "doubt"]
    assert list(copied) == [
        "Logit-Lens@100 of `tab:extraction_results_gptj`",
        "Delta@100 of `tab:extraction_results_gptj`",
    ]
    assert set(ledger.loc[ledger["kind"] == CLAIM, "doubt"]) == {""} and set(ledger["kind"]) == {
        CLAIM,
        NUMBER,
    }
    said = claims.counted(ledger)
    assert (
        f"{(ledger['doubt'] != '').sum()} more cannot be right" in said
        and f"{((ledger['verdict'] == REPRODUCED) & (ledger['doubt'] == '')).sum()} reproduced, "
        in said
    )


def cell(label: str, what: str) -> pd.Series:
    """One line of the ledger, from the rows that are there."""
    found = claims.ledger("smollm2-135m")
    (one,) = [
        line
        for _, line in found[(found["where"] == f"`{label}`") & (found["what"] == what)].iterrows()
    ]
    return one


def test_another_value_in_one_row_is_another_verdict_and_another_table(shelf):  # noqa: F811
    """From the row's number to the ledger's line and the page's table, with nothing in between that remembers."""
    seen = []
    for specificity in (0.85, 0.2):
        for name, other in (("memit", 0.5), ("revs", specificity)):
            shelf(method=name, seed=1, specificity=other)
        line = cell("tab:core_results_llama", "SSN, REVS: Specificity")
        scores = results.scores(results.runs("smollm2-135m", "ssn"))
        table = tables.wide(scores, "method").set_index("method")
        seen.append((line["verdict"], line["ours"], table.loc["REVS", "Specificity"]))
    assert seen == [(REPRODUCED, "85.0", "85.0"), (DIFFERENT, "20.0", "20.0")]


def test_what_the_paper_found_with_gptj_is_judged_by_a_gptj_alone(shelf):  # noqa: F811
    shelf(seed=1, specificity=0.5)
    line = cell("tab:core_results_gptj", "SSN, REVS: Specificity")
    assert line["verdict"] == UNMEASURED and "make gptj" in line["why"]
    shelf(seed=1, specificity=0.9, model="gptj-small")
    line = cell("tab:core_results_gptj", "SSN, REVS: Specificity")
    assert line["on"] == f"{results.title('gptj-small')}, synthetic" and line["ours"].startswith(
        "90.0"
    )
    assert cell("tab:core_results_llama", "SSN, REVS: Specificity")["ours"].startswith("50.0")


def test_a_rule_that_is_younger_than_its_rows_says_so_on_their_data_sets():
    claim = {"column": "Specificity", "expect": {"at_least": ["REVS", 80]}, "late": ["SSN"]}
    synthetic, organic = claims.Judge("a", {}, "synthetic"), claims.Judge("b", {}, "organic")
    assert (
        claims.check(claim) == "Specificity: REVS at least 80"
        and claims.late(claim, "SSN", synthetic, "ours")
        == " (a rule that is younger than the rows)"
    )
    assert (
        claims.late(claim, "URLs", synthetic, "ours")
        == claims.late(claim, "SSN", synthetic, None)
        == ""
        and claims.late(claim, "URLs", organic, "ours") == claims.LATE
    )
    assert (
        claims.late(claim | {"column": "MMLU"}, "URLs", organic, "ours") == ""
        and claims.late(claim | {"column": "MMLU"}, "SSN", organic, "ours") == claims.LATE
    )
    assert all(
        set(claim.get("late", ())) <= set(claim.get("data", ()))
        for claim in claims.terms()["claims"]
    )
    assert (
        "SSN"
        in next(claim for claim in claims.terms()["claims"] if claim["id"] == "efficacy-best")[
            "late"
        ]
    )


@pytest.mark.parametrize("row", ["REVS", "Rarest", "Rank & Activations (hybrid)"])
def test_the_method_is_known_under_its_names_in_the_ablations(row):
    """A row on the method's other side than in the paper is different, although another row is on the paper's side."""
    theirs, ours = (
        {
            ("Emails", name, "Efficacy@100"): value
            for name, value in zip(("Random", "First", row), values)
        }
        for values in ((20, 90, 80), (60, 90, 50))
    )
    assert claims.number(("Emails", "Random", "Efficacy@100"), theirs, ours, 10) == DIFFERENT


def test_what_is_said_of_e_mails_is_judged_by_organic_ones_too(shelf):  # noqa: F811
    """One higher method refutes a first place, although others were not measured; a synthetic set's verdict does not change by it."""
    for name in [
        name for name, entry in methods.registry().items() if paper.has_settings(entry["title"])
    ]:
        shelf(
            data="emails",
            method=name,
            seed=1,
            efficacy=0.9 if name == "revs" else 0.1,
            specificity=0.9,
        )
    shelf(data="machine-email", model="qwen2.5-coder-1.5b", seed=1, efficacy=0.5, specificity=0.5)
    said = lambda: (
        claims.ledger("smollm2-135m")
        .query(
            "what == 'Emails: REVS has the highest Unlearning Score of all methods' and not `where`.str.contains('GPT-J')"
        )
        .set_index("on")
    )
    before = said()
    shelf(
        data="machine-email",
        model="qwen2.5-coder-1.5b",
        method="memit",
        seed=1,
        efficacy=0.9,
        specificity=0.9,
    )
    after = said()
    (synthetic, organic) = [
        next(on for on in after.index if on.endswith(kind)) for kind in ("synthetic", "organic")
    ]
    assert list(before.loc[[synthetic, organic], "verdict"]) == [REPRODUCED, UNMEASURED] and list(
        after.loc[[synthetic, organic], "verdict"]
    ) == [REPRODUCED, DIFFERENT]
    assert (
        after.loc[organic, "expected"].endswith(claims.LATE)
        and after.loc[organic, "page"] == "organic"
        and not after.loc[synthetic, "expected"].endswith(claims.LATE)
    )
    assert "make organic" in before.loc[organic, "why"] and "qwen" in after.loc[organic, "rows"]


def test_a_claim_about_two_columns_is_checked_on_the_papers_own_too(shelf):  # noqa: F811
    for name, efficacy, depths in (
        ("revs", 0.9, [[100, 100]]),
        ("memit", 0.5, [[50, 50]]),
        ("ft_l", 0.1, [[10, 10]]),
    ):
        shelf(method=name, seed=1, efficacy=efficacy, depths=depths)
    shelf(method="random", seed=1, efficacy=0.0, depths=[[100, 100]])  # a control: not counted
    line = lambda: (
        claims.ledger("smollm2-135m")
        .query(
            "what.str.startswith('SSN: methods that are more effective resist more') and not `where`.str.contains('GPT-J')"
        )
        .iloc[0]
    )
    assert (line()["ours"], line()["paper"], line()["verdict"]) == (
        "ρ = 1.00 over 3 methods",
        "holds in its table: ρ = 1.00 over 7 methods",
        REPRODUCED,
    )
    shelf(method="revs", seed=1, efficacy=0.0, depths=[[100, 100]])
    assert line()["verdict"] == DIFFERENT and len(line()["rows"].split(", ")) == 3


def test_minutes_of_other_machines_and_procedures_are_not_judged(shelf):  # noqa: F811
    for name, seconds in (("revs", 120), ("memit", 60)):
        shelf(data="emails", method=name, seed=1, seconds=seconds)
    lines = claims.ledger("smollm2-135m").query("`where` == 'App. Hardware' and kind == 'number'")
    assert (
        set(lines["verdict"]) == {UNMEASURED}
        and lines["why"].str.len().min() > 0
        and len(lines) == 2 * len(paper.tables()["hardware"]["gpus"])
    )


def test_a_benchmark_at_chance_level_is_not_judged(shelf):  # noqa: F811
    """And one that the model knows has the interval of its items."""
    asked = lambda share: {
        name: {"accuracy": accuracy, "items": 100, "right": "1" * 100}
        for name, accuracy in (("mmlu", share), ("gsm8k", 0.0))
    }
    for share, verdict in ((0.27, UNMEASURED), (0.6, NOTHING_DONE)):
        for name in ("unedited", "revs"):
            shelf(method=name, seed=1)
            shelf(method=name, seed=1, tag="integrity")
        for row in [
            row for name, row in rows.find(kind="unlearn").items() if name.endswith("integrity")
        ]:
            row["result"]["integrity"] = asked(share) | {"from": "x", "perplexity": 9.0}
            rows.save(
                row["path"],
                {key: value for key, value in row.items() if key not in ("path", "origin")},
            )
        line = cell("tab:core_results_llama", "SSN, REVS: MMLU")
        assert (
            line["verdict"] == verdict
            and ("chance" in line["why"]) == (share < 0.5)
            and line["interval"] == (DASH if share < 0.5 else "50.4 to 69.6")
        )
    assert all(
        "chance" in cell("tab:core_results_llama", f"{data}, REVS: GSM8K")["why"]
        for data in ("SSN", "Emails")
    )  # of which one alone was asked


def test_a_tolerance_finer_than_one_answer_judges_nothing(shelf):  # noqa: F811
    """Within two points: of ten items none can tell, of a hundred they can."""
    claim = next(claim for claim in claims.terms()["claims"] if claim["id"] == "mmlu-stable")
    judge = claims.Judge("smollm2-135m", claims.DATA, "synthetic")
    assert claims.too_coarse(claim, "SSN", judge) == ""
    for items, said in ((10, "one answer is 10.0 points, more than the tolerance"), (100, "")):
        row = shelf(method="unedited", seed=1, tag="integrity")
        row["result"]["integrity"] = {
            name: {"accuracy": 0.6, "items": items, "right": "1" * items}
            for name in ("mmlu", "gsm8k")
        } | {"from": "x", "perplexity": 9.0}
        rows.save(rows.RECORDED / f"{row['name']}.json", row)
        assert claims.too_coarse(claim, "SSN", judge) == said
    assert claims.too_coarse(claim | {"column": "Specificity"}, "SSN", judge) == ""
    assert (
        claims.page_of("tab:core_results_llama", "GSM8K") == "integrity"
        and claims.page_of("tab:core_results_llama", "Specificity") == "core"
    )


def test_significance_needs_six_seeds_and_every_method(shelf):  # noqa: F811
    judged = lambda: statistics.significant("smollm2-135m", "ssn", 0.05)
    others = [
        name
        for name, entry in methods.registry().items()
        if paper.has_settings(entry["title"]) and name != "revs"
    ]
    assert len(others) == 6 and "simnpo" not in others  # which is not the paper's
    for seed in range(1, 7):
        assert judged() is None
        shelf(seed=seed, efficacy=0.9, specificity=0.9)
        for name in others:
            assert judged() is None
            shelf(method=name, seed=seed, efficacy=0.1 * seed, specificity=0.1 * seed)
    assert (
        judged()[:2] == (True, "p = 0.031 against FT-L, of 6 methods, uncorrected")
        and len(judged()[2]) == 42
    )
    shelf(method="memit", seed=6, efficacy=0.99, specificity=0.99)
    assert judged()[:2] == (False, "p = 0.062 against MEMIT, of 6 methods, uncorrected")
    for seed in range(1, 7):
        shelf(method="memit", seed=seed, efficacy=0.9, specificity=0.9)
    assert judged()[:2] == (False, "not ahead, p = – against MEMIT, of 6 methods, uncorrected")


def test_our_numbers_are_printed_with_their_spread():
    assert (
        str(Ours(71.94, 4.41, ("a",))) == "71.9 ± 4.4"
        and str(Ours(71.94, math.nan, ("a",))) == "71.9"
    )


def test_a_long_table_can_be_searched_and_downloaded(ledger):
    table = Filtered(
        claims.shown(ledger),
        "All of it.",
        "tab-all",
        choose="verdict",
        links={"verdict": "page", "ours": "behind"},
        hidden=("rows",),
    )
    text = table.to_html()
    assert (
        text.count("<tr") == len(ledger) + 1
        and "data:text/csv;base64," in text
        and 'getElementById("tab-all")' in text
        and "<code>tab:core_results_llama</code>" in text
    )
    assert list(table._repr_mimebundle_()) == ["text/html", "text/plain"]
    assert (
        '<a href="provenance.html?tab-rows=unlearn/ssn/smollm2-135m/revs-seed1%2Cunlearn/ssn/smollm2-135m/revs-seed2%2C'
        in text
    )


def test_a_number_of_ours_has_its_interval_over_secrets_and_an_attack_has_none(ledger):
    ours = ledger[(ledger["ours"] != "–") & ledger["where"].eq("`tab:core_results_llama`")]
    known = ours[
        ours["what"].str.contains("Specificity|Efficacy|Unlearning Score")
        & ~ours["what"].str.contains("Unedited")
    ]
    assert len(known) > 20
    for line in known[known["interval"] != "–"].to_dict("records"):
        low, high = map(float, line["interval"].split(" to "))
        assert low <= high and low - 1 <= float(line["ours"].split(" ± ")[0]) <= high + 1, line[
            "what"
        ]
    assert set(ledger.loc[ledger["what"].str.contains("Delta|Logit-Lens@"), "interval"]) == {"–"}
