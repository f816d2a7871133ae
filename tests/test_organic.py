"""Secrets that a model knows by itself: rows of curations and runs become frames (§4.2)."""

import test_tuning

from companion.analysis import curation, main_comparison, organic, qualitative, tuning
from companion.analysis.tables import DASH
from companion.experiments.provenance import about_run
from companion.store import rows
from document_audit.candidates import BEFORE_THIS

MODEL = "smollm2-135m"
search = test_tuning.search


def test_curations_are_those_of_the_name_kind_after_kind(add_row):
    for name, kinds, kept in (("email", ["email"], 3), ("numbers", ["phone", "ip"], 0)):
        counts = {"found": 5, "dropped": {BEFORE_THIS: 1}, "tried": 4, "teacher_forced": 3}
        counts |= {"memorised": 3, "both": kept, "leaked": 0, "kept": kept}
        result = {"documents": 9, "skipped": {"large": 2}, "funnel": dict.fromkeys(kinds, counts)}
        made = about_run("curate", {"name": f"machine-{name}", "model": MODEL}, {}, {"try": 1.0})
        where = f"curate/machine-{name}/{MODEL}"
        rows.write(rows.RECORDED, where, "curate", result, [], made | {"tokenizer": "x"})
    found = organic.curations(MODEL, "machine")
    assert [row["data"] for row in found] == ["machine-email", "machine-numbers"]
    assert organic.curations(MODEL, "other") == []
    funnel = curation.funnel(*found)
    assert list(funnel["kind"]) == ["Email addresses", "Phone numbers", "IP addresses"]
    assert list(funnel["left out"]) == [1, 1, 1] and list(funnel["in the data set"]) == [3, 0, 0]
    assert list(funnel["paper: memorised"]) == [205, 0, 0]
    left = curation.counted(curation.reasons(*found))
    assert left.values.tolist() == [[BEFORE_THIS, "1", "1", "1"]]


def test_runs_are_by_kind_and_the_rows_with_a_measure_of_the_first_seed(add_row):
    for seed in (2, 1):
        for method in ("revs", "unedited", "memit"):
            add_row(data="machine-email", method=method, seed=seed)
    add_row(data="machine-url", seed=1)
    add_row(data="machine-email", seed=1, tag="cue")
    frame = organic.runs(MODEL, "machine")
    assert list(frame["data"].unique()) == ["emails", "urls"] and set(frame["tag"]) == {""}
    assert qualitative.by_method(frame, "replacement") == {}
    asked = qualitative.by_method(frame, "edit")
    assert list(asked) == ["emails", "urls"]
    assert list(asked["emails"]) == ["unedited", "memit", "revs"]  # as the tables have them
    assert {row["seed"] for of_data in asked.values() for row in of_data.values()} == {1}


def test_prompts_tell_nearly_all_addresses_that_are_known():
    """organic: “So it shows which methods stop the model from writing an address, not …”"""
    model = "qwen2.5-coder-0.5b"
    (known,) = organic.curations(model, "known")
    said = organic.answer([known], main_comparison.runs(model, "known-email"))
    assert int(said["known_emails"]) == known["result"]["funnel"]["email"]["kept"]
    assert int(said["prompt_leaked"]) > 0.9 * int(said["apart_secrets"])


def test_searches_of_both_ways_stand_side_by_side(add_row, search):
    """REVS's trials with U alone have a tag; another method has none, and one search."""
    data = "known-email-tune"
    for tag in ("trial00", "trial01", "raw-trial00"):
        add_row(tag, "revs", data=data)
    add_row("trial00", "memit", data=data)
    found = organic.in_both_ways(tuning.trials, MODEL, data)
    assert list(found["method"]) == ["MEMIT", "REVS", "REVS", "REVS, U alone"]
    search("memit", data, effective=3, unlearning_score=0.25, hyperparameters={"layers": [1, 2]})
    search("revs", data, tag="raw", effective=4, hyperparameters={})
    table = organic.chosen(MODEL, data)
    assert table.iloc[0].tolist() == ["MEMIT", "4", "3", "0", "25.0", "layers 1, 2"]
    assert table.iloc[1].tolist() == ["REVS, U alone", "4", "4", "0", "50.0", DASH]
