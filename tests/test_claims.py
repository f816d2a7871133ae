"""The ledger: complete, judged by rules alone, and honest about what is missing."""

import re

import pandas as pd
import pytest

from companion.ledger import checks, claims
from companion.ledger.claims import DIFFERENT, DIRECTION, NOTHING_DONE, REPRODUCED, UNMEASURED
from companion.pages import results, statistics
from companion.pages.tables import DASH
from companion.record import paper, rows
from companion.runs import methods

MODEL = "smollm2-135m"
PLACES = [("SSN", row, "Specificity") for row in ("Unedited", "FT-L", "MEMIT", "REVS")]
CLAIMS = claims.terms()["claims"]


@pytest.fixture(scope="module")
def ledger() -> pd.DataFrame:
    return claims.ledger(MODEL)


def values(*numbers: float) -> dict:
    return dict(zip(PLACES, numbers, strict=True))


# --- verdicts ------------------------------------------------------------------------------------


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
        ("REVS", (95, 96, 97, 98), (94, 97, 96, 93), NOTHING_DONE),  # who does nothing has it too
        ("REVS", (95, 96, 97, 98), (80, 97, 96, 93), REPRODUCED),
    ],
)
def test_verdicts_on_numbers(row, theirs, ours, verdict):
    place = ("SSN", row, "Specificity")
    assert claims.number(place, values(*theirs), values(*ours), 10) == verdict


def test_a_number_without_rows_is_not_judged():
    theirs, alone = values(100, 20, 30, 80), {PLACES[3]: 50.0}
    assert claims.number(PLACES[1], theirs, {}, 10) == UNMEASURED
    assert claims.number(PLACES[3], theirs, alone, 10) == DIFFERENT  # no other to compare with


@pytest.mark.parametrize("row", claims.THE_METHOD)
def test_the_method_is_known_under_its_names_in_the_ablations(row):
    """On the method's other side than in the paper is different, whatever another row says."""
    place = lambda name: ("Emails", name, "Efficacy@100")
    theirs = {place("Random"): 20, place("First"): 90, place(row): 80}
    ours = {place("Random"): 60, place("First"): 90, place(row): 50}
    assert claims.number(place("Random"), theirs, ours, 10) == DIFFERENT


def test_the_same_direction_of_a_method_that_did_next_to_nothing_is_told_apart(ledger):
    assert claims.idle(PLACES[3], values(0, 20, 30, 8), 10)
    assert not claims.idle(PLACES[3], values(0, 20, 30, 12), 10)
    assert not claims.idle(PLACES[0], values(0, 20, 30, 8), 10)
    assert not claims.idle(PLACES[3], {PLACES[3]: 1.0}, 10)
    same = ledger[(ledger["verdict"] == DIRECTION) & (ledger["doubtful as printed"] == "")]
    still = same["why"].str.startswith("over unedited: ")
    assert 0 < still.sum() < len(same) and set(same.loc[~still, "why"]) == {""}


# --- what params/claims.yml says -----------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_a_claim_stands_where_the_ledger_says(claim):
    """Its section's number and the paragraph's heading are the paper's own."""
    headings = {
        section["number"]: " ".join([section["title"], *section["paragraphs"]]).lower()
        for section in paper.tables()["sections"]
    }
    of_appendix = [text for number, text in headings.items() if number[0].isalpha()]
    for place in re.split(r"; so |, ", claim["place"].removesuffix(", GPT-J")):
        if place.startswith("§"):
            number, _, heading = place[1:].partition(" ")
            assert heading.lower() in headings[number], place
        elif place.startswith("App. "):
            assert any(place.removeprefix("App. ").lower() in text for text in of_appendix), place
        elif place.startswith("tab:"):
            assert place in paper.tables()["tables"]
        else:
            known = any(place.lower() in text for text in headings.values())
            assert place == "Abstract" or known, place


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_a_claim_has_one_way_to_be_decided_on_cells_that_there_are(claim):
    assert sum(key in claim for key in ("reason", "expect", "curve")) == 1
    assert claim["says"] and set(claim.get("late", ())) <= set(claim.get("data", ()))
    if "curve" in claim:
        assert set(claim["curve"]) <= set(checks.ON_ROWS)
    if "expect" in claim:
        there, expect = claims.beside(claim), claim["expect"]
        assert set(expect) <= set(checks.RULES) and claims.words(expect)
        assert checks.needed(expect, []) <= {row for _, row, _ in there}
        columns = set(claims.columns_of(claim)) - set(claims.BENCHMARKS)
        known = {(data, column) for data, _, column in there}
        assert {(data, column) for data in claim["data"] for column in columns} <= known


def test_a_rule_that_is_younger_than_its_rows_says_so_on_their_data_sets():
    claim = {"column": "Specificity", "expect": {"at_least": ["REVS", 80]}, "late": ["SSN"]}
    synthetic, organic = claims.Judge("a", {}, "synthetic"), claims.Judge("b", {}, "organic")
    assert claims.words(claim["expect"]) == "REVS at least 80"
    assert claims.late(claim, "SSN", synthetic) == claims.late(claim, "URLs", organic) == "younger"
    assert claims.late(claim, "URLs", synthetic) == ""
    assert claims.late(claim | {"column": "MMLU"}, "URLs", organic) == ""


def test_claims_that_the_papers_own_numbers_refute_are_listed():
    found = claims.against_the_paper().set_index(["where", "the text"])["printed"]
    text = "Emails: Head-Projection is very effective too, here: among the two best"
    start = "REVS 97.22, MEMIT 88.23, Head-Projection 82.55, "
    assert found["App. Results on GPT-J", text].startswith(start)
    compromise = found[found.index.get_level_values(1).str.contains("compromises specificity")]
    assert set(compromise) == {f"ρ = {rho} over 7 methods" for rho in ("0.71", "0.82")}
    assert not any("highest Unlearning Score" in text for _, text in found.index)


# --- completeness --------------------------------------------------------------------------------


def test_every_printed_number_and_every_claim_has_its_lines(ledger):
    labels, tables = claims.terms()["pages"], paper.tables()["tables"]
    assert {label for label, table in tables.items() if "cells" in table} == set(labels)
    cells = ledger[ledger["where"].str.startswith("`")]
    assert len(cells) == sum(len(claims.printed(label)) for label in labels) > 350
    assert not cells.duplicated(["where", "what"]).any()
    of_machines = ledger[(ledger["where"] == "App. Hardware") & (ledger["kind"] == "number")]
    assert len(of_machines) == 2 * len(paper.tables()["hardware"]["gpus"])
    assert set(of_machines["verdict"]) == {UNMEASURED} and (of_machines["why"] != "").all()
    wanted = 0
    for claim in CLAIMS:
        alone = "GPT-J" in claim["place"] or "secrets" in claim
        alone |= claim.get("table") in claims.ABLATIONS
        twice = () if alone else set(claim.get("data", ())) & {"Emails", "URLs"}
        wanted += len(claim.get("data", [0])) + len(twice)
    assert (ledger["kind"] == "claim").sum() == wanted


def test_a_verdict_is_never_without_a_row_or_a_reason(ledger):
    judged = ledger[ledger["verdict"] != UNMEASURED]
    assert (judged["rows"] != "").all() and not (judged[["ours", "on"]] == DASH).any(axis=None)
    assert (ledger.loc[ledger["verdict"] == UNMEASURED, "why"] != "").all()
    sure = ledger["doubtful as printed"] == ""
    assert sum(claims.counted(ledger).values()) == sure.sum() < len(ledger)


def test_what_an_unedited_model_has_too_and_what_cannot_be_right_is_told_apart(ledger):
    of_two = ledger["where"].isin(["`tab:extraction_results_llama`", "`tab:method_results`"])
    line = ledger[of_two].set_index("what").loc
    assert line["SSN, Unedited: Resistance Score", ["verdict", "why"]].tolist() == [
        NOTHING_DONE,
        "",
    ]
    delta = "over unedited: +2.1 in the paper, "
    assert line["SSN, REVS: Delta@100", "why"].startswith(delta)
    copied = line["Emails, REVS: Efficacy@100", "doubtful as printed"]
    assert copied == "Logit-Lens@100 of `tab:extraction_results_gptj`"


def test_a_number_of_ours_has_its_interval_over_secrets_and_an_attack_has_none(ledger):
    of_core = ledger["where"].eq("`tab:core_results_llama`") & ~ledger["what"].str.contains("Uned")
    known = ledger[of_core & (ledger["interval"] != DASH)]
    assert len(known) > 20
    for line in known.to_dict("records"):
        low, high = map(float, line["interval"].split(" to "))
        assert low - 1 <= float(line["ours"].split(" ± ")[0]) <= high + 1, line["what"]
    assert set(ledger.loc[ledger["what"].str.contains("Delta|Logit-Lens@"), "interval"]) == {DASH}


# --- from rows to lines --------------------------------------------------------------------------


def cell(label: str, what: str) -> pd.Series:
    """One line of the ledger, from the rows that are there."""
    found = claims.ledger(MODEL)
    (place,) = found.index[(found["where"] == f"`{label}`") & (found["what"] == what)]
    return found.loc[place]


def test_another_value_in_one_row_is_another_verdict_and_another_mean(shelf):
    seen = []
    for specificity in (0.85, 0.2):
        for name, other in (("memit", 0.5), ("revs", specificity)):
            shelf(method=name, seed=1, specificity=other)
        line = cell("tab:core_results_llama", "SSN, REVS: Specificity")
        mean, _ = results.means(results.runs(MODEL, "ssn"))["revs"]["specificity"]
        seen.append((line["verdict"], line["ours"], mean))
    assert seen == [(REPRODUCED, "85.0", 0.85), (DIFFERENT, "20.0", 0.2)]


def test_what_the_paper_found_with_gptj_is_judged_by_a_gptj_alone(shelf):
    shelf(seed=1, specificity=0.5)
    what = "SSN, REVS: Specificity"
    assert cell("tab:core_results_gptj", what)["verdict"] == UNMEASURED
    shelf(seed=1, specificity=0.9, model="gptj-small")
    line = cell("tab:core_results_gptj", what)
    assert line["on"] == f"{results.title('gptj-small')}, synthetic, 1 seed"
    assert line["ours"] == "90.0" and cell("tab:core_results_llama", what)["ours"] == "50.0"


def test_what_is_said_of_e_mails_is_judged_by_organic_ones_too(shelf):
    """One higher method refutes a first place, although others were not measured; a synthetic
    set's verdict does not change by it."""
    known = [name for name, one in methods.registry().items() if paper.has_settings(one["title"])]
    for name in known:
        efficacy = 0.9 if name == "revs" else 0.1
        shelf(data="emails", method=name, seed=1, efficacy=efficacy, specificity=0.9)
    organic = {"data": "machine-email", "model": "qwen2.5-coder-1.5b", "seed": 1}
    verdicts = []
    for method, share in (("revs", 0.5), ("memit", 0.9)):
        shelf(method=method, efficacy=share, specificity=share, **organic)
        found = claims.ledger(MODEL)
        found = found[
            found["what"] == "Emails: REVS has the highest Unlearning Score of all methods"
        ]
        found = found[~found["where"].str.contains("GPT-J")]
        verdicts.append(found["verdict"].tolist())
    assert verdicts == [[REPRODUCED, UNMEASURED], [REPRODUCED, DIFFERENT]]
    assert found["rule"].tolist() == ["", "younger"]
    assert found["page"].tolist() == ["core.html", "organic.html"]
    assert "qwen" in found["rows"].iloc[1] and "qwen" not in found["rows"].iloc[0]


def test_a_claim_about_two_columns_is_checked_on_the_papers_own_too(shelf):
    for name, efficacy, rank in (("revs", 0.9, 100), ("memit", 0.5, 50), ("ft_l", 0.1, 10)):
        shelf(method=name, seed=1, efficacy=efficacy, depths=[[rank, rank]])
    shelf(method="random", seed=1, efficacy=0.0, depths=[[100, 100]])  # a control: not counted

    def line():
        found = claims.ledger(MODEL)
        found = found[found["what"].str.startswith("SSN: methods that are more effective resist")]
        return found.iloc[0]

    assert line()["ours"] == "ρ = 1.00 over 3 methods" and line()["verdict"] == REPRODUCED
    assert line()["paper"] == "holds in its table: ρ = 1.00 over 7 methods"
    shelf(method="revs", seed=1, efficacy=0.0, depths=[[100, 100]])
    assert line()["verdict"] == DIFFERENT and len(line()["rows"].split(", ")) == 3


def asked(row: dict, share: float, items: int) -> None:
    """Gives a row on the shelf the answers to two benchmarks."""
    row["result"]["integrity"] = {"from": "x", "perplexity": 9.0} | {
        name: {"accuracy": accuracy, "items": items, "right": "1" * items}
        for name, accuracy in (("mmlu", share), ("gsm8k", 0.0))
    }
    (rows.RECORDED / f"{row['name']}.json").unlink(missing_ok=True)
    rows.record(rows.RECORDED, [(row, [])])


@pytest.mark.parametrize("share, verdict", [(0.27, UNMEASURED), (0.6, NOTHING_DONE)])
def test_a_benchmark_at_chance_level_is_not_judged(shelf, share, verdict):
    """And one that the model knows has the interval of its items."""
    for name in ("unedited", "revs"):
        shelf(method=name, seed=1)
        asked(shelf(method=name, seed=1, tag="integrity"), share, 100)
    line = cell("tab:core_results_llama", "SSN, REVS: MMLU")
    assert line["verdict"] == verdict and line["page"] == "integrity.html"
    assert ("chance" in line["why"]) == (share < 0.5)
    assert line["interval"] == (DASH if share < 0.5 else "50.4 to 69.6")
    for data in ("SSN", "Emails"):  # of which one alone was asked
        assert "chance" in cell("tab:core_results_llama", f"{data}, REVS: GSM8K")["why"]


def test_a_tolerance_finer_than_one_answer_judges_nothing(shelf):
    claim = next(claim for claim in CLAIMS if claim["id"] == "mmlu-stable")
    judge = claims.Judge(MODEL, claims.DATA, "synthetic")
    assert claims.too_coarse(claim, "SSN", judge) == ""
    for items, said in ((10, "one answer is 10.0 points, more than the tolerance"), (100, "")):
        asked(shelf(method="unedited", seed=1, tag="integrity"), 0.6, items)
        assert claims.too_coarse(claim, "SSN", judge) == said
    assert claims.too_coarse(claim | {"column": "Specificity"}, "SSN", judge) == ""


def test_significance_needs_six_seeds_and_every_method(shelf):
    judged = lambda: statistics.significant(MODEL, "ssn", 0.05)
    known = [name for name, one in methods.registry().items() if paper.has_settings(one["title"])]
    others = [name for name in known if name != "revs"]
    assert len(others) == 6 and "simnpo" not in others  # which is not the paper's
    for seed in range(1, 7):
        assert judged() is None
        shelf(seed=seed, efficacy=0.9, specificity=0.9)
        for name in others:
            shelf(method=name, seed=seed, efficacy=0.1 * seed, specificity=0.1 * seed)
    assert judged()[:2] == (True, "p = 0.031 against FT-L, of 6 methods, uncorrected")
    assert len(judged()[2]) == 42
    shelf(method="memit", seed=6, efficacy=0.99, specificity=0.99)
    assert judged()[:2] == (False, "p = 0.062 against MEMIT, of 6 methods, uncorrected")


def test_our_numbers_are_printed_with_their_spread():
    assert str(claims.Ours(71.94, ("a",), 4.41)) == "71.9 ± 4.4"
    assert str(claims.Ours(71.94, ("a",))) == "71.9"
