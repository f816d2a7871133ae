"""Rows: written whole, validated, older by version or input, recorded together."""

import copy
import json
import math

import pandas as pd
import pytest

from companion.experiments.provenance import about_run
from companion.store import rows, schema, versions

SPOILS = {
    "another schema": lambda row: row | {"schema": 99},
    "no versions": lambda row: {key: row[key] for key in row if key != "versions"},
    "an unknown field": lambda row: row | {"result": row["result"] | {"luck": 1}},
    "a result of another kind": lambda row: row | {"kind": "unlearn", "result": {}},
}


def a_row(folder, name="finetune/x/tiny", memorised=3):
    """A small valid row, written."""
    result = {"sentences": 4, "memorised": memorised, "loss": [1.0], "learned": [4]}
    result |= {"tokenizer": "t", "vocabulary": 9}
    settings = {"model": "tiny", "seed": 0}
    made = about_run("finetune", settings, {"model": "m"}, {"load": 0.123})
    made |= {"tokenizer": "t"}
    return rows.write(folder, name, "finetune", result, [{"id": "a", "ranks": [0, 2]}], made)


@pytest.mark.parametrize("name", ["finetune/x/tiny", "finetune/x/model-1.5b"])
def test_a_row_comes_back_as_it_was_written(tmp_path, name):
    row, read = a_row(tmp_path, name), rows.read(tmp_path / f"{name}.json")
    assert read == row | {"path": tmp_path / f"{name}.json"}
    assert rows.values(read) == [{"id": "a", "ranks": [0, 2]}]
    assert list(rows.per_example(read, "ranks")) == ["ranks"]


def test_what_an_example_lacks_is_null_and_a_column_that_a_run_lacks_is_not_there(tmp_path):
    values = {
        "one": [{"id": "a", "x": 1, "y": None}, {"id": "b"}],
        "two": [{"id": "c", "z": [[1]]}],
    }
    (tmp_path / "v.parquet").write_bytes(rows.packed(values))
    row = lambda name: {"path": tmp_path / "r", "name": name, "values": {"file": "v.parquet"}}
    assert rows.values(row("one")) == [{"id": "a", "x": 1}, {"id": "b", "x": None}]
    assert rows.values(row("two")) == values["two"]
    assert rows.fingerprint(rows.values(row("one"))) == rows.fingerprint(values["one"])


def test_recorded_rows_of_a_model_lie_in_one_file_that_pandas_reads(tmp_path):
    """Files of values are written once: a row that is made again brings another."""
    names = ["finetune/x/tiny", "finetune/x/tiny-mean"]
    some = [(a_row(tmp_path / "build", name), [{"id": name, "ranks": [7]}]) for name in names]
    for one in reversed(some):
        rows.record(tmp_path / "record", [one])
    lines = pd.read_json(tmp_path / "record/finetune/x/tiny.jsonl", lines=True)
    assert list(lines["name"]) == names and list(lines["seed"]) == [0, 0]
    found = rows.find(tmp_path / "record")
    assert {name: rows.values(row)[0]["id"] for name, row in found.items()} == dict(
        zip(names, names)
    )
    files = {path: path.read_bytes() for path in tmp_path.glob("record/**/*.parquet")}
    again = some[0][0] | {"result": some[0][0]["result"] | {"memorised": 4}}
    rows.record(tmp_path / "record", [(again, [{"id": "new"}])])
    found = rows.find(tmp_path / "record")
    assert found[names[0]]["result"]["memorised"] == 4
    assert [rows.values(row)[0]["id"] for row in found.values()] == ["new", names[1]]
    kept = {path: old for path, old in files.items() if path.is_file()}
    assert len(files) == 2 and len(kept) == 1  # the other one held the values of no row any more
    assert all(path.read_bytes() == old for path, old in kept.items())


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_row_that_does_not_fit_is_refused_and_passed_over_among_others(tmp_path, spoil):
    """An earlier version wrote it: its run will write it again."""
    a_row(tmp_path, "finetune/x/new")
    path = tmp_path / "finetune/x/tiny.json"
    path.write_text(json.dumps(SPOILS[spoil](copy.deepcopy(a_row(tmp_path)))))
    with pytest.raises(ValueError, match="run it again"):
        rows.read(path)
    assert [*rows.find(tmp_path)] == ["finetune/x/new"] and rows.kept(path) is None


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    a_row(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FloatingPointError, match="infinite or NaN, like the perplexity .* choose"):
        endless = {"perplexity": [1.0, math.inf]}
        rows.write(tmp_path, "finetune/x/other", "finetune", endless, [{"id": "a"}], {})
    with pytest.raises(ValueError, match="does not fit the schema"):
        rows.write(tmp_path, "finetune/x/other", "finetune", {"sentences": -1}, [], {})
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("part", ["settings", "inputs", "versions", "nothing"])
def test_a_run_is_repeated_if_its_settings_inputs_or_versions_changed(tmp_path, monkeypatch, part):
    row = a_row(tmp_path)
    asked = {"settings": dict(row["settings"]), "inputs": dict(row["inputs"])}
    if part in asked:
        asked[part]["seed"] = "7"
    if part == "versions":
        monkeypatch.setattr(versions, "version", lambda module: 2)
    found = rows.current(path := tmp_path / f"{row['name']}.json", row["kind"], **asked)
    assert found == (row | {"path": path} if part == "nothing" else None)
    assert versions.older(row) == (["finetune"] if part == "versions" else [])


def test_an_audit_is_not_older_than_an_attack_that_it_lacks(tmp_path, monkeypatch):
    row = a_row(tmp_path) | {"kind": "audit"}
    row["settings"]["method"] = "unedited"
    row["versions"] = versions.current("audit", row["settings"])
    monkeypatch.setattr(versions, "attacks", lambda: ["leak", "younger"])
    assert versions.older(row) == []
    row["versions"]["attack leak"] = 0
    assert versions.older(row) == ["attack leak"]


def test_a_row_made_from_another_data_set_or_general_text_is_older(tmp_path):
    row = a_row(tmp_path)
    row["settings"] |= {"data": "ssn", "protect": "emails-tune", "never_trained": None}
    sets = {"data": "ssn", "protect": "emails-tune", "never_trained": "ssn-tune"}
    now = {name: versions.committed(name, data) for name, data in sets.items()}
    now |= {"general_text": versions.committed("general_text", None), "model": "m"}
    assert versions.older(row | {"inputs": now}) == []
    for name in (*sets, "general_text"):
        assert versions.older(row | {"inputs": now | {name: "another"}}) == [name]


def test_hashes_of_committed_inputs_are_those_that_runs_write():
    from companion.data import datasets
    from revs.model.text import text_inputs

    for name in ("ssn", "emails-tune"):
        assert versions.committed("data", name) == datasets.fingerprint(datasets.read(name))
    assert {"general_text": versions.committed("general_text", None)} == text_inputs()


def test_a_recorded_row_goes_before_that_of_this_build_unless_it_is_older(tmp_path, monkeypatch):
    recorded, build = tmp_path / "recorded", tmp_path / "build"
    monkeypatch.setattr(rows, "RECORDED", recorded)
    a_row(recorded, memorised=1), a_row(build, memorised=2), a_row(build, "finetune/x/only", 2)

    def found():
        every = rows.find(recorded, build).items()
        return {name: (row["result"]["memorised"], row["origin"]) for name, row in every}

    measured = (2, "measured in this build")
    assert found() == {"finetune/x/tiny": (1, "recorded"), "finetune/x/only": measured}
    newer = lambda row: ["finetune"] * (row["origin"] == "recorded")
    monkeypatch.setattr(versions, "older", newer)
    assert found()["finetune/x/tiny"] == measured


RECORDED = sorted(path.relative_to(rows.RECORDED) for path in rows.RECORDED.rglob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDED, ids=str)
def test_recorded_rows_are_valid(path):
    """Each lies where it belongs, with the per-example values that it was written with."""
    found = rows.parsed(rows.RECORDED / path)
    assert len({row["name"] for row in found}) == len(found)
    for row in found:
        rows.validate(row)
        assert path.parts == (row["kind"], row["data"], f"{row['model']}.jsonl")
        assert row["name"].startswith(f"{row['kind']}/{row['data']}/{row['model']}")
        values = rows.values(row | {"path": rows.RECORDED / path})
        assert not row["values"] or rows.fingerprint(values) == row["values"]["sha256"]


def test_rows_older_than_the_code_are_allowed_by_name_with_a_reason():
    """Make them again, or say in rows/older.yml why they stay; nothing there is without use."""
    older = [row for row in rows.find(rows.RECORDED).values() if versions.older(row)]
    assert [row["name"] for row in older if not versions.reason(row)] == []
    used = {versions.reason(row) for row in older}
    assert {one["reason"] for one in versions.allowed()} == used
    assert versions.reason(older[0] | {"date": "9999-01-01"}) is None  # none that is made now


def test_the_schema_file_is_what_the_models_say_and_describes_every_field():
    """The descriptions are the data dictionary: none may be missing."""
    written = (rows.RECORDED / "schema.json").read_text(encoding="utf-8")
    assert written == schema.json_schema(), "run python -m companion.store.schema"
    assert [one["field"] for one in schema.dictionary() if not one["meaning"]] == []
