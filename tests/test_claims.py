"""The ledger: complete, judged by rules alone, and honest about what is missing or says little."""

import math
import re

import pandas as pd
import pytest

from companion.analysis import results, statistics
from companion.analysis.tables import DASH
from companion.claims import checks, claims
from companion.claims.claims import (
    ANY,
    BUILT_IN,
    FAILS,
    HOLDS,
    MEASURED,
    ONE_SEED,
    ONE_TUNE,
    REFUTED,
    SMALL,
    UNMEASURED,
    UNSETTLED,
    UNSURE,
)
from companion.experiments import methods
from companion.store import paper, rows

MODEL = "smollm2-135m"
CLAIMS = claims.terms()["claims"]


@pytest.fixture(scope="module")
def ledger() -> pd.DataFrame:
    return claims.ledger(MODEL)


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verdict, chance, there, more, wanted",
    [
        (HOLDS, 0.2, True, {}, HOLDS),
        (HOLDS, 0.2, None, {}, HOLDS),  # the paper prints no table of it
        (HOLDS, math.nan, True, {}, HOLDS),
        (HOLDS, 1.0, True, {}, ANY),
        (HOLDS, 0.2, True, {"built_in": "nearly"}, BUILT_IN),
        (FAILS, 0.2, True, {"built_in": "nearly"}, FAILS),
        (FAILS, 0.0, True, {}, FAILS),
        (UNMEASURED, math.nan, False, {}, UNMEASURED),
        *((verdict, 0.2, False, {}, REFUTED) for verdict in (HOLDS, FAILS)),
        (HOLDS, 1.0, False, {"built_in": "nearly"}, REFUTED),
    ],
)
def test_what_says_nothing_of_the_paper_is_a_class_of_its_own(verdict, chance, there, more, wanted):
    assert claims.classed(verdict, chance, there, more) == wanted


def test_a_claim_that_the_papers_own_table_refutes_never_counts_as_holding(ledger):
    refuted = {
        (claim["id"], data)
        for claim in CLAIMS
        if "expect" in claim
        for data in claim["data"]
        if claims.in_its_table(claim, data)[0] is False
    }
    lines = ledger[[one in refuted for one in zip(ledger["id"], ledger["data"], strict=True)]]
    assert len(refuted) == len(claims.against_the_paper()) <= len(lines)
    assert set(lines["verdict"]) == {REFUTED, UNMEASURED}
    assert (ledger["verdict"] == REFUTED).sum() == (lines["verdict"] == REFUTED).sum()


def test_a_verdict_has_its_chance_beside_it(ledger):
    """And what all labels fulfil, or a claim of one table of all methods, is told apart."""
    of_claims = ledger[ledger["kind"] == "claim"].set_index("verdict")
    assert (of_claims.loc[ANY, "chance"] == 1).all()
    assert not (of_claims.loc[HOLDS, "chance"] == 1).any()
    assert of_claims.loc[UNMEASURED, "chance"].isna().all()
    first = ledger[(ledger["id"] == "core-score-llama") & (ledger["verdict"] != UNMEASURED)]
    methods_there = first["rows"].str.findall(r"/(\w+)-seed").map(lambda names: len(set(names)))
    assert (first["chance"] * (methods_there - 1)).tolist() == pytest.approx([1] * len(first))
    same = ledger[ledger["id"].str.startswith(("perturbation-low-", "perturbation-higher-all"))]
    assert same["chance"].isna().all() and not set(same["verdict"]) & {ANY}


def counting(*lines: tuple) -> pd.DataFrame:
    names = ("verdict", "weak", "chance", "id", "data", "secrets")
    found = [{"kind": "claim"} | dict(zip(names, line, strict=True)) for line in lines]
    return pd.DataFrame(found + [{"kind": "number", "verdict": MEASURED, "weak": ONE_SEED}])


def test_what_stands_on_little_is_marked_in_the_count():
    found = claims.counted(
        counting(
            (HOLDS, "", 0.25, "a", "", ""),
            (HOLDS, ONE_SEED, 0.5, "a", "", ""),
            (HOLDS, f"{ONE_SEED}, {SMALL}", math.nan, "a", "", ""),
            (FAILS, UNSURE, 0.125, "a", "", ""),
            (UNMEASURED, ONE_SEED, math.nan, "a", "", ""),
        )
    )
    assert list(found.index) == list(claims.VERDICTS)
    head = ["in all", "not weak", ONE_SEED, SMALL, UNSURE, "with a chance", "by chance"]
    assert found.loc[HOLDS, head].tolist() == [3, 1, 2, 1, 0, 2, 0.75]
    assert found.loc[FAILS, head].tolist() == [1, 0, 0, 0, 1, 1, 0.125]
    assert found.loc[UNMEASURED, head].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert not found.loc[[ANY, BUILT_IN, REFUTED]].any(axis=None)


def test_the_main_claims_stand_where_their_verdict_puts_them():
    said = {claim["id"]: claim["main"] for claim in CLAIMS if "main" in claim}
    best, kept = said["core-score-llama"], said["mmlu-stable"]
    line = ("core-score-llama", "SSN", "synthetic")
    lines = claims.main(
        counting(
            (HOLDS, "", 0.1, *line),
            (HOLDS, ONE_SEED, 0.1, "core-score-llama", "URLs", "organic"),
            (REFUTED, ONE_SEED, 0.1, "core-score-llama", "Emails", "synthetic"),
            (UNMEASURED, "", math.nan, "mmlu-stable", "SSN", "synthetic"),
            (FAILS, "", 0.1, "second-best", "SSN", "synthetic"),  # no main claim
            (HOLDS, "", 0.1, "", "", ""),  # a line of what has no name
        )
    )
    assert lines["verdict"].tolist() == [HOLDS, HOLDS, UNMEASURED, UNMEASURED]
    assert claims.listed(lines) == {
        HOLDS: f"{best}: SSN, organic URLs{claims.ASIDE}",
        FAILS: "none",
        UNMEASURED: f"{best}: Emails{claims.ASIDE}; {kept}: SSN",
    }


def test_what_a_main_claim_is_follows_a_rule():
    """Of the abstract, the introduction, the conclusion; or a first place, or the dagger, of the
    two tables of Llama-3."""
    wanted = set()
    for claim in CLAIMS:
        told = re.search(r"Abstract|§[17](?![\d.])", claim["place"])
        first = claim.get("expect") == {"first": ["REVS"]} and claim["table"].endswith("_llama")
        if (told or first or "significant" in claim.get("curve", {})) and "reason" not in claim:
            wanted |= {claim["id"]} if "GPT-J" not in claim["place"] else set()
    assert {claim["id"] for claim in CLAIMS if "main" in claim} == wanted and len(wanted) > 5


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
    of_claims = ledger["kind"] == "claim"
    assert claims.counted(ledger)["in all"].sum() == of_claims.sum() < len(ledger)
    assert set(ledger.loc[~of_claims, "verdict"]) == {MEASURED, UNMEASURED}
    assert MEASURED not in set(ledger.loc[of_claims, "verdict"])
    few = judged["weak"].str.contains(ONE_SEED)
    assert (few == judged["on"].str.endswith(", 1 seed")).all() and few.any()
    small = judged["weak"].str.contains(SMALL)
    assert (small == judged["on"].str.startswith(results.title("gptj-small"))).all()
    one = judged["weak"].str.contains(ONE_TUNE)
    several = judged["on"].str.contains("fine-tunes") | judged["on"].str.contains("organic")
    assert (one == ~several).all() and not one.all()


def test_a_number_stands_beside_the_papers_and_what_cannot_be_right_is_marked(ledger):
    there = ledger[(ledger["verdict"] == MEASURED) & ledger["paper"].str.contains(r"^[\d.]+")]
    for line in there.to_dict("records"):
        apart = float(line["ours"].split(" ± ")[0]) - float(re.match(r"[\d.]+", line["paper"])[0])
        assert float(line["difference"]) == pytest.approx(apart, abs=0.11), line["what"]
    assert len(there) > 100
    assert set(ledger.loc[ledger["verdict"] == UNMEASURED, "difference"]) == {DASH}
    line = ledger[ledger["where"] == "`tab:method_results`"].set_index("what").loc
    copied = line["Emails, REVS: Efficacy@100", "doubtful as printed"]
    assert copied == "Logit-Lens@100 of `tab:extraction_results_gptj`"


def test_a_gap_has_the_interval_of_the_same_secrets_and_says_if_its_sign_is_not_sure(ledger):
    of_gaps = ledger["ours"].str.contains(r" over .+ [+-][\d.]+$") & (ledger["interval"] != DASH)
    known = ledger[of_gaps]
    assert len(known) > 15 and 0 < known["weak"].str.contains(UNSURE).sum() < len(known)
    for line in known.to_dict("records"):
        low, high = map(float, line["interval"].split(" to "))
        gap = float(line["ours"].rsplit(" ", 1)[1])
        assert low - 1 <= gap <= high + 1, line["what"]
        if line["id"] in ("core-score-llama", "efficacy-best"):  # decided at no gap
            marks = {UNSURE, UNSETTLED} & set(line["weak"].split(", "))
            assert bool(marks) == (low < 0 < high), line["what"]


def test_a_number_has_its_interval_over_secrets_and_an_attack_has_one_over_fine_tunes(ledger):
    of_core = ledger["where"].eq("`tab:core_results_llama`") & ~ledger["what"].str.contains("Uned")
    known = ledger[of_core & (ledger["interval"] != DASH)]
    assert len(known) > 20
    for line in known.to_dict("records"):
        low, high = map(float, line["interval"].split(" to "))
        assert low - 1 <= float(line["ours"].split(" ± ")[0]) <= high + 1, line["what"]
    attacks = ledger[ledger["what"].str.contains("Delta|Logit-Lens@")]
    alone = attacks[~attacks["on"].str.contains("fine-tunes")]
    assert set(alone["interval"]) == {DASH} and len(alone) < len(attacks)


# --- from rows to lines --------------------------------------------------------------------------


def cell(label: str, what: str) -> pd.Series:
    """One line of the ledger, from the rows that are there."""
    found = claims.ledger(MODEL)
    (place,) = found.index[(found["where"] == f"`{label}`") & (found["what"] == what)]
    return found.loc[place]


def test_another_value_in_one_row_is_another_difference_and_another_mean(shelf):
    seen = []
    for specificity in (0.85, 0.2):
        for name, other in (("memit", 0.5), ("revs", specificity)):
            shelf(method=name, seed=1, specificity=other)
        line = cell("tab:core_results_llama", "SSN, REVS: Specificity")
        mean, _ = results.means(results.runs(MODEL, "ssn"))["revs"]["specificity"]
        seen.append((line["verdict"], line["ours"], line["difference"], mean))
    assert [one[:2] + one[3:] for one in seen] == [
        (MEASURED, "85.0", 0.85),
        (MEASURED, "20.0", 0.2),
    ]
    assert float(seen[0][2]) - float(seen[1][2]) == pytest.approx(65)


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
    known = methods.of_paper()
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
    assert verdicts == [[HOLDS, UNMEASURED], [HOLDS, FAILS]]
    assert found["rule"].tolist() == ["", "younger"]
    assert found["page"].tolist() == ["core.html", "organic.html"]
    assert "qwen" in found["rows"].iloc[1] and "qwen" not in found["rows"].iloc[0]


def test_a_whole_contest_judges_its_data_set(shelf):
    """By a rule that is older than it; its interval is that over fine-tunes and splits."""
    known = methods.of_paper()
    for name in known:
        shelf(method=name, seed=1, efficacy=0.9 if name == "revs" else 0.5)
    claim = next(one for one in CLAIMS if one["id"] == "core-score-llama")
    ask = lambda: claims.of_cells(claim, "SSN", claims.Judge(MODEL, {"SSN": "ssn"}))
    said = lambda line: [line[key] for key in ("verdict", "weak", "rule")]
    assert said(ask()) == [HOLDS, f"{ONE_SEED}, {ONE_TUNE}", "younger"]
    for number in range(4):
        for seed in (1, 2, 3):
            for name in known:
                share = {"revs": 0.5, "rmu": 0.6 + 0.05 * (-1) ** number}.get(name, 0.3)
                shelf(tag=f"round{number or ''}", method=name, seed=seed, efficacy=share)
    line = ask()
    assert said(line) == [FAILS, "", ""]
    assert line["on"].endswith("synthetic, 4 fine-tunes, 3 seeds") and "round3" in line["rows"]
    assert line["ours"] == "REVS over RMU -6.2"
    low, high = map(float, line["interval"].split(" to "))
    assert low < -6.2 < high < 0
    for number in range(4):
        for seed in (1, 2, 3):
            far = {"efficacy": 0.6 + 0.4 * (-1) ** number}
            shelf(tag=f"round{number or ''}", method="rmu", seed=seed, **far)
    assert UNSETTLED in ask()["weak"]


def test_a_claim_about_two_columns_is_checked_on_the_papers_own_too(shelf):
    for name, efficacy, rank in (("revs", 0.9, 100), ("memit", 0.5, 50), ("ft_l", 0.1, 10)):
        shelf(method=name, seed=1, efficacy=efficacy, depths=[[rank, rank]])
    others = [name for name in methods.of_paper() if name not in ("revs", "memit", "ft_l")]
    shelf(method="random", seed=1, efficacy=0.0, depths=[[100, 100]])  # a control: not counted

    def line():
        found = claims.ledger(MODEL)
        found = found[found["what"].str.startswith("SSN: methods that are more effective resist")]
        return found.iloc[0]

    assert line()["verdict"] == UNMEASURED  # whom it lacks may turn it either way
    for number, name in enumerate(others, 6):
        shelf(method=name, seed=1, efficacy=0.08 * number, depths=[[8 * number] * 2])
    assert line()["ours"] == "ρ = 1.00 over 7 methods" and line()["verdict"] == BUILT_IN
    assert line()["paper"] == "holds in its table: ρ = 1.00 over 7 methods"
    shelf(method="revs", seed=1, efficacy=0.0, depths=[[100, 100]])
    assert line()["ours"].startswith("ρ = 0.25") and line()["verdict"] == FAILS
    assert len(line()["rows"].split(", ")) == 7


def asked(row: dict, share: float, items: int) -> None:
    """Gives a row on the shelf the answers to two benchmarks."""
    row["result"]["integrity"] = {"from": "x", "perplexity": 9.0} | {
        name: {"accuracy": accuracy, "items": items, "right": "1" * items}
        for name, accuracy in (("mmlu", share), ("gsm8k", 0.0))
    }
    (rows.RECORDED / f"{row['name']}.json").unlink(missing_ok=True)
    rows.record(rows.RECORDED, [(row, [])])


@pytest.mark.parametrize("share, verdict", [(0.27, UNMEASURED), (0.6, MEASURED)])
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
    known = methods.of_paper()
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


def test_a_method_without_runs_cannot_make_a_lead_significant_nor_undo_that_there_is_none(shelf):
    some = [name for name in methods.of_paper() if name not in ("rmu", "npo_kl")]
    for seed in range(1, 7):
        for name in some:
            shelf(method=name, seed=seed, efficacy=0.9 if name == "revs" else 0.1 * seed)
    assert statistics.significant(MODEL, "ssn", 0.05) is None
    for seed in range(1, 7):
        shelf(method="memit", seed=seed, efficacy=0.95)
    holds, said, _ = statistics.significant(MODEL, "ssn", 0.05)
    assert not holds and "not ahead" in said and said.endswith("of 4 methods, uncorrected")


def test_our_numbers_are_printed_with_their_spread():
    assert str(claims.Ours(71.94, ("a",), 4.41)) == "71.9 ± 4.4"
    assert str(claims.Ours(71.94, ("a",))) == "71.9"
