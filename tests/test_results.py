"""From rows to tables: synthetic rows with known numbers, and the recorded ones against what they claim."""

import base64
import collections
import math
import re
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from companion.pages import extraction, results
from companion.pages.tables import DASH, METRICS, Data, Table
from companion.record import compare, rows
from companion.record.paths import ROOT
from companion.runs import methods, tune
from companion.runs.datasets import builtin
from companion.workflow import choose
from revs.measures import attacks

BASE = {"n_max": 30, "k": 100, "r_h": 0.05, "eps_r_h": 0.02, "r_n": 0.7, "eps_r_n": 0.1}


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """shelf(name, method, seed, …): puts a row into a folder that takes the place of the recorded rows."""
    monkeypatch.setattr(rows, "RECORDED", tmp_path / "rows")
    monkeypatch.setattr(rows, "MEASURED", tmp_path / "none")
    (tmp_path / "rows").mkdir()
    schema = rows.schema()
    monkeypatch.setattr(rows, "schema", lambda: schema)

    def put(
        tag="",
        method="revs",
        seed=0,
        data="ssn",
        hyperparameters=None,
        efficacy=0.5,
        specificity=0.5,
        failed=None,
        ranks=(200, 0),
        seconds=10.0,
        extra=100,
        depths=None,
        model="smollm2-135m",
        unseen=True,
    ):
        result = {
            "k": 100,
            "efficacy": efficacy,
            "generalization": efficacy if unseen else None,
            "specificity": specificity,
            "specificity_within_50": None,
            "forget": 1,
            "retain": 1,
        }
        result["unlearning_score"] = results.metrics.unlearning_score(
            efficacy, specificity, result["generalization"]
        )
        before = result | {
            "efficacy": 0.0,
            "generalization": 0.0 if unseen else None,
            "specificity": 1.0,
            "unlearning_score": 0.0,
        }
        edit = {"layers": [0], "columns": 3, "weights": 12, "moves": 4, "unreached": 0, "norm": 2.0}
        name = f"unlearn/{data}/{model}/{method}-seed{seed}" + (f"-{tag}" if tag else "")
        settings = {
            "method": method,
            "seed": seed,
            "data": data,
            "forget": 1,
            "hyperparameters": BASE | (hyperparameters or {}),
        }
        made = rows.provenance(["revs.measures.metrics"], settings, {}, {"unlearn": seconds}) | {
            "model": {"name": model, "revision": "x", "dtype": "float32"},
            "tokenizer": "x",
            "extra_memory_mb": extra,
        }
        items = [
            {
                "id": "a",
                "part": "forget",
                "ranks": list(ranks),
                "T": [0, 1],
                "efficacy": 1.0,
                "exact": False,
            },
            {
                "id": "b",
                "part": "retain",
                "ranks": [0, 0],
                "T": [0, 1],
                "efficacy": 0.0,
                "exact": True,
            },
        ]
        if depths:  # layer by layer, for the two target tokens of the forgotten secret
            items = [
                item | {attack: depths if item["id"] == "a" else None for attack in attacks.ATTACKS}
                for item in items
            ]
            attacked = {
                "attacks": attacks.resistance(
                    {attack: {"a": depths} for attack in attacks.ATTACKS}, 100
                )
            }
        return rows.write(
            rows.RECORDED,
            name,
            "unlearn",
            {"failed": failed}
            if failed
            else {"before": before, "after": result, "edit": edit} | (attacked if depths else {}),
            [] if failed else items,
            made,
        )

    return put


def test_means_are_over_seeds_and_a_tag_keeps_a_run_out(shelf):
    shelf(seed=1, efficacy=0.4)
    shelf(seed=2, efficacy=0.6)
    shelf(seed=3, efficacy=0.0, tag="try")
    mean, spread = results.means(results.runs("smollm2-135m", "ssn"))["revs"]["efficacy"]
    assert (mean, spread) == (pytest.approx(0.5), pytest.approx(math.sqrt(0.02)))


def test_a_data_set_of_one_sentence_a_secret_has_no_generalization(shelf):
    shelf(seed=1, data="emails", unseen=False)
    line = (
        results.core_table(results.means(results.runs("smollm2-135m", "emails")), {})
        .set_index("method")
        .loc["REVS"]
    )
    assert line["Generalization"] == DASH and line["Efficacy"] == "50.0"


def test_the_order_of_methods_is_a_dash_where_the_paper_prints_none():
    said = results.orders(
        {"smollm2-135m": {"urls": {}}, "gptj-small": {}}, {"urls": {"GPT-J-6B": {}}}
    )
    assert list(said["measured"]) == ["here, SmolLM2-135M-Instruct", "the paper, GPT-J-6B"] and set(
        said["best first"]
    ) == {DASH}


def test_a_method_of_which_a_run_failed_says_so_and_shows_no_number(shelf):
    shelf(seed=1)
    shelf(method="ft_l", seed=1, efficacy=0.9)
    shelf(method="ft_l", seed=2, failed="FT-L diverged.")
    ours = results.means(results.runs("smollm2-135m", "ssn"))
    line = results.core_table(ours, {}).set_index("method").loc["FT-L"]
    assert line["measured"] == "ours (failed)" and set(line[1:]) == {DASH}
    assert results.ranking(ours) == ["revs"]


def test_the_table_keeps_the_order_of_the_registry(shelf):
    for method in ("revs", "memit", "ft_l"):
        shelf(method=method, seed=1)
    table = results.core_table(results.means(results.runs("smollm2-135m", "ssn")), {})
    assert list(table["method"]) == ["Unedited", "FT-L", "MEMIT", "REVS"]


def test_the_same_runs_on_two_fine_tunes(shelf, monkeypatch):
    """Of the same seeds; a method that has runs on only one of the two says nothing."""
    shelf(seed=1, efficacy=0.4)
    shelf(seed=2, efficacy=0.9)
    shelf(method="memit", seed=1, efficacy=0.5)
    assert results.learned_again("smollm2-135m", "ssn").empty
    shelf(seed=1, efficacy=0.6, tag="autocast")
    shelf(method="head_projection", seed=1, efficacy=0.7, tag="autocast")
    learned = [
        {
            "result": {"sentences": 10, "memorised": 10 - half},
            "provenance": {"settings": {"autocast": half, "digits": "noise"}},
        }
        for half in (False, True)
    ]
    monkeypatch.setattr(results, "finetunes", lambda *of: learned)
    table = results.learned_again("smollm2-135m", "ssn")
    assert list(table["memorised"]) == ["100.0", "90.0"]
    assert set(table["seeds"]) == {"1"} and set(table["fine-tune"]) == {"x"}
    assert (
        list(table["method"]) == ["REVS", "REVS"]
        and list(table["learned in"]) == ["float32", "bfloat16"]
        and list(table["Efficacy"]) == ["40.0", "60.0"]
    )


def test_the_same_run_on_what_another_processor_learned(shelf, monkeypatch):
    """Whatever was looked at; runs of other settings, or of the same processor and fine-tune, are no such pair."""
    shelf(seed=1, efficacy=0.4)
    shelf(method="memit", seed=1, efficacy=0.5)
    shelf(method="memit", seed=2, efficacy=0.5, tag="integrity")
    shelf(method="memit", seed=1, efficacy=0.6, tag="integrity", hyperparameters={"k": 7})
    shelf(seed=1, efficacy=0.6, tag="again")
    assert results.elsewhere("smollm2-135m", "ssn") == []
    for cpu, revision, found in (
        ("another", "x", 0),
        (None, "y", 0),
        ("another", "y", 1),
    ):  # each alone is not another processor's fine-tune
        row = shelf(seed=1, efficacy=0.8, tag="integrity")
        made = row["provenance"]
        made["hardware"]["cpu"], made["model"]["revision"], made["settings"]["measures"] = (
            cpu or made["hardware"]["cpu"],
            revision,
            ["integrity"],
        )
        rows.save(rows.RECORDED / f"{row['name']}.json", row)
        assert len(results.elsewhere("smollm2-135m", "ssn")) == found
    pairs = results.elsewhere("smollm2-135m", "ssn")
    means = results.means(results.runs("smollm2-135m", "ssn"))
    table = results.elsewhere_table(pairs, means)
    score = {
        efficacy: 100 * results.metrics.unlearning_score(efficacy, 0.5, efficacy)
        for efficacy in (0.4, 0.8)
    }
    assert (
        list(table["method"]) == ["REVS"]
        and list(table.iloc[0, 2:]) == [1, f"{score[0.4]:.1f}", f"{score[0.8]:.1f}"]
        and table.columns[-1] == "another, fine-tune y"
    )
    moved = (score[0.8] - score[0.4]) / 100
    said = f"Between the two processors REVS moves by {100 * moved:.1f} points of Unlearning Score."
    for sd, more in ((moved / 2.8, "no method"), (moved / 2.9, "REVS"), (math.nan, None)):
        assert results.elsewhere_sentence(
            pairs, {"revs": {"unlearning_score": (0.4, sd)}}
        ) == said + (
            f" That is more than two standard deviations of what two seeds differ by for {more}."
            if more
            else ""
        )


def test_ranking_leaves_out_the_controls(shelf):
    for method, efficacy in {"revs": 0.3, "memit": 0.8, "random": 0.9}.items():
        shelf(method=method, seed=1, efficacy=efficacy)
    assert results.ranking(results.means(results.runs("smollm2-135m", "ssn"))) == ["memit", "revs"]


def test_what_a_random_edit_reaches_is_taken_off(shelf):
    """Nothing is said to be of the direction and the place that noise has too."""
    shelf(seed=1, efficacy=0.9, specificity=0.9)
    shelf(method="random", seed=1, efficacy=0.6, specificity=0.6)
    frame = results.runs("smollm2-135m", "ssn")
    said = results.core_sentence(frame, results.means(frame), results.paper_cores()["ssn"], "ssn")
    assert "reaches **60.0**: 30.0 points are of the direction" in said


def test_methods_without_rows_are_named(shelf):
    shelf(seed=1)
    said = results.missing_sentence({"ssn": results.means(results.runs("smollm2-135m", "ssn"))})
    assert (
        "on SSN FT-L, MEMIT" in said
        and "on Emails every method" in said
        and "REVS" not in said
        and "Zeroing" not in said
    )
    assert (
        results.missing_sentence(
            dict.fromkeys(methods.PAPER_DATA, dict.fromkeys(methods.registry(), {}))
        )
        == ""
    )


def test_data_sets_without_revs_or_its_control_are_not_shown(shelf):
    with pytest.raises(ValueError, match="There are no rows of smollm2-135m"):
        results.frames("smollm2-135m")
    shelf(seed=1)
    shelf(seed=1, method="random")
    shelf(seed=1, data="emails")
    shelf(seed=0, method="random", data="emails", tag="try")
    assert list(results.frames("smollm2-135m")) == ["ssn"]
    shelf(seed=1, method="random", data="emails")
    found = results.frames("smollm2-135m")
    assert list(found) == ["ssn", "emails"] and [len(frame) for frame in found.values()] == [2, 2]
    assert list(results.by_data(results.by_seed, found)["data"]) == [
        "SSN",
        "SSN",
        "Emails",
        "Emails",
    ]


def test_depth_counts_target_tokens_by_rank(shelf):
    shelf(seed=1, ranks=(200, 0))
    shelf(seed=2, ranks=(50, 5))
    line = results.depth_table(results.runs("smollm2-135m", "ssn")).iloc[0]
    assert list(line) == ["REVS", "75.0", "50.0", "25.0", "28", "100.0"]


def test_cost_is_a_median_beside_the_paper(shelf):
    """Of time; of memory it is the highest."""
    for seed, seconds in enumerate((10, 20, 90), 1):
        shelf(seed=seed, seconds=seconds, extra=seconds)
    shelf(method="simnpo", seed=1)
    table = results.cost_table(results.runs("smollm2-135m", "ssn")).set_index("method")
    assert (table.loc["REVS", "seconds"], table.loc["REVS", "extra memory, MiB"]) == ("20", "90")
    assert (table.loc["REVS", "paper, minutes"], table.loc["SimNPO", "paper, minutes"]) == (
        "39",
        DASH,
    )


def test_trials_are_told_from_other_rows():
    assert results.is_trial("unlearn/ssn-tune/m/revs-seed0-trial07")
    assert not results.is_trial("unlearn/ssn/m/revs-seed1") and not results.is_trial(
        "unlearn/ssn/m/revs-seed0-trial-of-mine"
    )


# --- extraction ------------------------------------------------------------------------------------------------------


def test_runs_from_another_fine_tune_are_named(shelf):
    """Whole methods, or the seeds of one; nothing is said where all stand on the same model."""
    for seed in (1, 2, 3):
        shelf(seed=seed)
    frame = results.runs("smollm2-135m", "ssn")
    assert results.fine_tunes(frame) == "weights x"
    shelf(method="memit", seed=1)
    frame = results.runs("smollm2-135m", "ssn")
    for run in frame.to_dict("records"):
        if run["method"] == "memit" or run["seed"] == 3:
            run["row"]["provenance"]["model"]["revision"] = "y"
            run["row"]["provenance"]["hardware"] = {"gpu": None, "cpu": "Z80"}
        run["row"]["provenance"]["settings"]["finetune"] = True
    assert results.fine_tunes(frame) == "fine-tune x; fine-tune y (Z80): MEMIT and seed 3 of REVS"
    assert (
        results.measured_on("smollm2-135m", {"ssn": frame}, "ssn")
        == f"{results.title('smollm2-135m')}, seeds 1–3 (seed 1 of MEMIT), {results.fine_tunes(frame)}"
    )


def test_captions_name_the_methods_with_other_seeds(shelf):
    """The seeds of most methods stand first, whatever REVS has; a failed run has no seed; data sets with the same words share them."""
    for name, seeds in {
        "revs": range(1, 7),
        "random": range(1, 7),
        "memit": (1, 2, 3),
        "ft_l": (1, 2, 3),
        "rmu": (1, 2, 3),
        "npo_kl": (1, 3),
    }.items():
        for seed in seeds:
            for data in ("ssn", "emails"):
                shelf(
                    method=name,
                    seed=seed,
                    data=data,
                    failed="RMU diverged." if name == "npo_kl" and seed == 3 else None,
                )
    found = results.frames("smollm2-135m")
    assert (
        results.seeds(found["ssn"])
        == "seeds 1–3 (seeds 1–6 of Random edit, REVS, seed 1 of NPO-KL)"
    )
    assert (
        results.measured_on("smollm2-135m", found)
        == f"{results.title('smollm2-135m')}. SSN, Emails: {results.seeds(found['ssn'])}, weights x"
    )
    shelf(method="revs", seed=7, data="emails")
    assert (
        ". SSN: seeds 1–3 ("
        in results.measured_on("smollm2-135m", (found := results.frames("smollm2-135m")))
        and ". Emails: seeds 1–3 (seeds 1–6 of Random edit, seed 1 of NPO-KL, seeds 1–7 of REVS), weights x"
        in results.measured_on("smollm2-135m", found)
    )
    assert (
        results.measured_on("smollm2-135m", found, "emails").startswith(
            f"{results.title('smollm2-135m')}, seeds 1–3 ("
        )
        and results.headline(
            found["ssn"],
            {name: {metric: (0.5, 0.1) for metric in METRICS} for name in ("revs", "random")},
            results.paper_cores()["ssn"],
        )["seeds"]
        == "6"
    )
    assert (
        results.describe_seeds(found["ssn"][found["ssn"]["seed"] == 3], "npo_kl") == f"seed {DASH}"
    )
    assert (
        results.measured_on("smollm2-135m", {})
        == "not measured yet, `make tune adopt` and `make core adopt` do it"
    )


def test_a_caption_of_attacks_has_the_seeds_that_were_attacked(shelf):
    for seed in (1, 2):
        shelf(seed=seed, depths=[[0, 100], [100, 0]] if seed == 1 else None)
    frame = results.runs("smollm2-135m", "ssn")
    assert ", seed 1, weights x;" in extraction.caption(
        "smollm2-135m", {"ssn": frame}, "ssn"
    ) and ", seeds 1, 2, weights x;" in results.core_caption("smollm2-135m", {"ssn": frame}, "ssn")


def test_the_numbers_of_a_picture_are_a_link():
    shown = Data(pd.DataFrame({"a": [1.5]}), "A picture.", "points")._repr_mimebundle_()
    assert (
        shown["text/markdown"] == shown["text/html"]
        and base64.b64decode(re.search(r"base64,([^\"]+)", shown["text/html"])[1]) == b"a\n1.5\n"
        and 'download="points.csv"' in shown["text/html"]
    )


def test_resistance_is_averaged_over_seeds_in_the_reading_asked_for(shelf):
    """Found in layer 0 and safe in layer 1, or the other way round for its two tokens: per example safe, in union found."""
    shelf(seed=1, depths=[[0, 100], [100, 0]])
    shelf(seed=2, depths=[[50, 50], [100, 100]])
    shelf(method="random", seed=1)
    frame = results.runs("smollm2-135m", "ssn")
    assert extraction.means(frame, "per_example")["revs"]["logit_lens"] == (
        pytest.approx(0.75),
        pytest.approx(math.sqrt(0.125)),
    )
    assert extraction.means(frame, "union")["revs"]["resistance_score"][0] == pytest.approx(0.25)
    assert list(extraction.means(frame, "released")) == ["revs"]
    table = extraction.readings(frame)
    assert (
        list(table["method"]) == ["REVS"]
        and table.loc[0, "token wise"].startswith("25.0")
        and table.loc[0, "per example"].startswith("75.0")
    )
    assert list(
        extraction.points({"ssn": extraction.by_layer(frame, "logit_lens")})["efficacy"]
    ) == [pytest.approx(0.75), pytest.approx(1.0)]
    assert set(table["black box"]) == {"100.0 ± 0.0"}  # the last layer alone
    assert list(table["specificity"]) == ["50.0 ± 0.0"]
    assert extraction.by_layer(frame, "logit_lens") == {
        "revs": [pytest.approx(0.75), pytest.approx(1.0)]
    }


def test_the_numbers_of_pictures_are_numbers(shelf):
    for seed, depths in ((1, [[0, 100], [100, 0]]), (2, [[50, 50], [100, 100]])):
        shelf(seed=seed, efficacy=0.25 * seed, depths=depths)
    frame = results.runs("smollm2-135m", "ssn")
    found = extraction.every_reading({"ssn": frame}).set_index(["method", "attack", "reading"])
    assert (
        found.loc[("REVS", "Logit-Lens", "per_example"), ["mean", "std"]].tolist()
        == [pytest.approx(75), pytest.approx(100 * math.sqrt(0.125))]
        and len(found) == 4 * 4
    )
    found = results.points({"ssn": results.means(frame)}).set_index(["method", "metric"])
    assert (
        found.loc[("REVS", "Efficacy"), "mean"] == pytest.approx(37.5)
        and found.loc[("Unedited", "Specificity"), ["mean", "std"]].tolist() == [100, 0]
        and set(found["data"]) == {"SSN"}
    )


def test_deltas_readings_are_explained_by_two_shares(shelf):
    """Two layers, two tokens: pairs that are among the first hundred, and tokens that are so in neither layer."""
    assert (
        extraction.rises(results.measured("smollm2-135m", "ssn")) is None
        and extraction.why_delta({}) == ""
    )
    shelf(method="unedited", seed=1, depths=[[99, 100], [5, 3_000]])
    shelf(method="revs", seed=1, depths=[[500, 500], [500, 500]])
    frame = results.runs("smollm2-135m", "ssn")
    assert extraction.rises(frame) == (0.5, 0.5)
    shelf(method="unedited", seed=1, depths=[[99, 99], [5, 3_000]])
    assert extraction.rises(results.runs("smollm2-135m", "ssn")) == (
        0.75,
        0.0,
    ) and "75.0 per cent on SSN" in extraction.why_delta(
        {"ssn": results.runs("smollm2-135m", "ssn")}
    )


def test_the_question_of_the_page_is_answered_from_rows(shelf):
    """From outside and inside, with REVS's place among the methods, controls aside, and the specificity of the one that resists most."""
    shelf(seed=1)
    assert extraction.answer(results.runs("smollm2-135m", "ssn"), "ssn") == ""
    shelf(seed=1, depths=[[50, 50], [100, 100]], efficacy=1.0, specificity=0.9)
    shelf(method="unedited", seed=1, depths=[[100, 100], [100, 100]])
    shelf(method="ft_l", seed=1, depths=[[10, 10], [10, 10]])
    said = extraction.answer(results.runs("smollm2-135m", "ssn"), "ssn")
    assert (
        "last layer only, after the perturbed prompt, **100.0** (place 1 of 2)" in said
        and "per example, **50.0** (place 1 of 2)" in said
        and "a specificity of 90.0. It still knows some of what it no longer says: per example Logit-Lens over all layers is **50.0** where Efficacy, at the output, is **100.0**."
        in said
        and "resists most" not in said
    )
    shelf(method="ft_l", seed=1, depths=[[100, 100], [100, 100]], specificity=0.0)
    said = extraction.answer(results.runs("smollm2-135m", "ssn"), "ssn")
    assert "No layer inside shows more than the output does" in extraction.answer(
        (both := results.runs("smollm2-135m", "ssn")).assign(
            method=both["method"].map({"ft_l": "revs", "revs": "ft_l"}).fillna("unedited")
        ),
        "ssn",
    )
    assert "per example, **50.0** (place 2 of 2)" in said and said.endswith(
        "Per example FT-L resists most, 100.0, with a specificity of 0.0."
    )


def test_the_unedited_model_has_a_table_of_its_own(shelf):
    """Attack by attack in all readings, beside the paper's where it prints them."""
    shelf(seed=1, depths=[[0, 100], [100, 0]])
    assert extraction.before(
        results.runs("smollm2-135m", "ssn"), extraction.printed_tables()["ssn"]
    ).empty
    shelf(method="unedited", seed=1, depths=[[0, 100], [100, 0]])
    table = extraction.before(
        results.runs("smollm2-135m", "ssn"), extraction.printed_tables()["ssn"]
    ).set_index("attack")
    assert (
        list(table.index) == ["Logit-Lens", "Delta", "Perturbation"]
        and table.loc["Delta", "union"].startswith("0.0")
        and table.loc["Delta", "per example"].startswith("100.0")
    )
    assert table.loc["Delta", "paper, Llama-3-8B"].startswith("96.8") and table.loc[
        "Delta", "paper, GPT-J-6B"
    ].startswith("95.1")
    assert set(
        extraction.before(results.runs("smollm2-135m", "ssn"), extraction.printed_tables()["urls"])[
            "paper, GPT-J-6B"
        ]
    ) == {DASH}


def test_the_papers_extraction_tables_stand_beside_ours(shelf):
    shelf(seed=1, depths=[[0, 100], [100, 0]])
    theirs = {
        model: extraction.printed(label, "SSN")
        for model, label in {
            "Llama-3-8B": "tab:extraction_results_llama",
            "GPT-J-6B": "tab:extraction_results_gptj",
        }.items()
    }
    assert {
        "unedited",
        "revs",
        "ft_l",
        "memit",
        "max_entropy",
        "head_projection",
        "rmu",
        "npo_kl",
    } == set(theirs["Llama-3-8B"])
    assert theirs["Llama-3-8B"]["ft_l"]["resistance_score"] == (
        pytest.approx(0.8277),
        pytest.approx(0.0573),
    )
    table = extraction.table(
        extraction.means(results.runs("smollm2-135m", "ssn"), "released"), theirs
    )
    assert list(table[table["method"] == "REVS"]["measured"]) == [
        "ours",
        "paper, Llama-3-8B",
        "paper, GPT-J-6B",
    ]
    assert list(table[table["method"] == "FT-L"]["measured"]) == [
        "paper, Llama-3-8B",
        "paper, GPT-J-6B",
    ]


def test_a_run_made_again_stands_beside_the_recorded_one(shelf, monkeypatch):
    recorded, here = rows.RECORDED, rows.RECORDED.with_name("build")
    shelf(seed=1, efficacy=0.4), shelf(seed=2, efficacy=0.4), shelf(seed=4, failed="diverged")
    monkeypatch.setattr(rows, "RECORDED", here)
    shelf(seed=1, efficacy=0.4), shelf(seed=2, efficacy=0.9), shelf(seed=3), shelf(seed=4)
    monkeypatch.setattr(rows, "RECORDED", recorded)
    monkeypatch.setattr(rows, "MEASURED", here)
    frame = compare.made_again()
    assert frame["run"].tolist() == [f"unlearn/ssn/smollm2-135m/revs-seed{seed}" for seed in (1, 2)]
    assert (
        frame["results"].tolist() == ["equal", "differ"]
        and set(frame["weights"]) == {"the same"}
        and frame["recorded"].nunique() == 1 < frame["in this build"].nunique()
    )
    assert set(results.runs("smollm2-135m", "ssn")["origin"]) == {
        "recorded",
        "measured in this build",
    }  # seed 3 is of this build alone
    row = rows.read(here / "unlearn/ssn/smollm2-135m/revs-seed2.json")
    row["provenance"]["model"]["revision"] = "another"
    rows.save(here / "unlearn/ssn/smollm2-135m/revs-seed2.json", row)
    assert compare.made_again()["weights"].tolist() == ["the same", "other"]


# --- what is committed -----------------------------------------------------------------------------------------------


LAYERS = {
    "smollm2-135m": 30,
    "qwen2.5-coder-1.5b": 28,
    "gptj-small": 10,
}  # of the models that were tuned


def tuned():
    return rows.find(rows.RECORDED, kind="tune")


def test_the_settings_are_what_the_tune_rows_chose():
    """params/hyperparameters.yml is written from rows, not by hand."""
    assert choose.FILE.read_text(encoding="utf-8") == choose.text(choose.chosen(tuned()))
    written = yaml.safe_load(choose.FILE.read_text(encoding="utf-8"))
    assert set(written) == {row["provenance"]["settings"]["method"] for row in tuned().values()}


def test_other_peoples_secrets_choose_before_the_secrets_themselves():
    """A search on the data that is reported on is for comparison; where there is no other set, it is all there is."""
    one, another = (
        {
            "provenance": {"settings": {"data": data, "method": "revs"}, "model": {"name": "m"}},
            "result": {"hyperparameters": {"k": k}, "unlearning_score": score},
        }
        for data, k, score in (("ssn-tune", 1, 0.2), ("ssn", 2, 0.9))
    )
    assert (
        choose.chosen({"a": one, "b": another})
        == choose.chosen({"b": another, "a": one})
        == {"revs": {"m": {"ssn": {"k": 1}}}}
    )
    assert choose.chosen({"b": another}) == {"revs": {"m": {"ssn": {"k": 2}}}}


def test_the_best_of_several_searches_chooses():
    one, another = (
        {
            "provenance": {
                "settings": {"data": "ssn-tune", "method": "revs"},
                "model": {"name": "m"},
            },
            "result": {"hyperparameters": {"projection": way}, "unlearning_score": score},
        }
        for way, score in (("norm", 0.3), ("raw", 0.8))
    )
    assert (
        choose.chosen({"a": one, "b": another})
        == choose.chosen({"b": another, "a": one})
        == {"revs": {"m": {"ssn": {"projection": "raw"}}}}
    )


@pytest.mark.parametrize("name", tuned())
def test_a_search_has_all_its_trials_and_chose_the_best(name):
    row = tuned()[name]
    asked, result = row["provenance"]["settings"], row["result"]
    place = rows.RECORDED / name.replace("tune/", "unlearn/", 1)
    trials = [
        rows.read(place.with_name(f"{place.name}-trial{number:02d}.json"))
        for number in range(result["trials"])
    ]
    assert [trial["provenance"]["settings"]["hyperparameters"] for trial in trials] == [
        tune.candidate(
            asked["method"],
            number,
            LAYERS[row["provenance"]["model"]["name"]],
            "Emails" if "email" in asked["data"] else "SSN",
        )
        | (asked.get("hyperparameters") or {})
        for number in range(len(trials))
    ]
    assert len({trial["provenance"]["inputs"]["model"] for trial in trials}) == 1
    scores = {
        number: trial["result"]["after"]["unlearning_score"]
        for number, trial in enumerate(trials)
        if "after" in trial["result"]
    }
    assert len(trials) - len(scores) == result["failed"]
    assert (
        result["best"] == max(scores, key=scores.get)
        and result["unlearning_score"] == scores[result["best"]]
    )


def test_every_method_had_the_same_budget():
    """As many trials of each method that ran, on a model and a data set, in one search or several, on equally many secrets, sentence positions and seeds."""
    trials: dict[tuple[str, str], collections.Counter] = {}
    sizes: dict[tuple[str, str], set] = {}
    for row in tuned().values():
        asked = row["provenance"]["settings"]
        place = (row["provenance"]["model"]["name"], asked["data"])
        trials.setdefault(place, collections.Counter())[asked["method"]] += (
            row["result"]["trials"] - row["result"]["failed"]
        )
        sizes.setdefault(place, set()).add((asked["forget"], asked["sentences"], asked["seed"]))
    assert len(trials) >= 5 and all(len(each) == 1 for each in sizes.values())
    for (model, data), budgets in trials.items():
        assert len(set(budgets.values())) == 1 and min(budgets.values()) >= (
            10 if data in builtin() else 8
        ), (model, data, budgets)


def test_every_method_of_the_core_table_was_tuned():
    settings = yaml.safe_load(choose.FILE.read_text(encoding="utf-8"))
    for row in rows.find(rows.RECORDED, kind="unlearn").values():
        name = row["provenance"]["settings"]["method"]
        assert (
            results.is_trial(row["name"])
            or name == "unedited"
            or methods.registry()[name].get("settings_of", name) in settings
        )


def test_sides_do_not_mix_trials_with_results(shelf):
    shelf(seed=1, efficacy=0.5)
    shelf(seed=0, tag="trial00", efficacy=1.0)
    cells = compare.from_rows(rows.RECORDED)
    assert {cell for cell, value in cells.items() if "REVS" in cell and value[0] > 60} == set()


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-j-6b"])
@pytest.mark.parametrize(
    "name", [name for name, entry in methods.registry().items() if "module" in entry]
)
def test_every_method_has_settings_for_the_papers_models(name, model):
    for data in methods.PAPER_DATA:
        assert methods.method(name).Hyperparameters(
            **methods.hyperparameters(name, model, data, {})
        )


def test_secrets_of_a_kind_have_the_papers_settings_whatever_their_set_is_called():
    of = lambda data: methods.hyperparameters("revs", "llama-3-8b", data, {})
    assert of("llama-3-8b-pile-email") == of("emails") == of("emails-tune") == of("pile-url") != of(
        "ssn"
    ) and of("mine") == methods.hyperparameters("revs", "another", "mine", {})
    assert (
        methods.paper_data("email") == "Emails"
        and methods.paper_data("HR_Emails") == "Emails"
        and methods.paper_data("nossn") is None
        and methods.like("pile-curl") == "pile-curl"
        and methods.like("urls") == "emails"
        and methods.like("machine-url") == "machine-email"
    )


def test_every_table_carries_its_data():
    frame = pd.DataFrame({"a": ["1", "x,y"], "b": ["±", "–"]})
    found = re.search(
        r'download="tab-x.csv" href="data:text/csv;base64,([^"]+)"',
        Table(frame, "A table.", "tab-x").to_markdown(),
    )
    assert base64.b64decode(found[1]).decode() == frame.to_csv(index=False)


def test_who_reads_rows_does_not_wait_for_models():
    """Most pages need neither torch nor transformers, which take longer to import than the pages to make."""
    light = (
        "ablations",
        "again",
        "compare",
        "curating",
        "errata",
        "figures",
        "mistakes",
        "notebook",
        "paper",
        "places",
        "results",
        "tables",
    )
    code = f"import sys; from revs import {', '.join(light)}; print({{'torch', 'transformers'}} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
