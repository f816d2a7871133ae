"""Rows: written whole, validated, equal by result, older by version, recorded together."""

import copy
import json
import math

import jsonschema
import pandas as pd
import pytest

from companion.store import rows, versions

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
    made = rows.provenance(
        "finetune", {"model": "tiny", "seed": 0}, {"model": "m"}, {"load": 0.123}
    )
    made |= {"tokenizer": "t"}
    return rows.write(folder, name, "finetune", result, [{"id": "a", "ranks": [0, 2]}], made)


@pytest.mark.parametrize("name", ["finetune/x/tiny", "finetune/x/model-1.5b"])
def test_a_row_comes_back_as_it_was_written(tmp_path, name):
    row, read = a_row(tmp_path, name), rows.read(tmp_path / f"{name}.json")
    assert read == row | {"path": tmp_path / f"{name}.json"}
    assert rows.items(read).to_dict("records") == [{"id": "a", "ranks": [0, 2]}]
    assert list(rows.items(read, "ranks")) == ["ranks"]


def test_the_same_values_give_the_same_bytes(tmp_path):
    paths = [rows.beside(tmp_path / where / "finetune/x/tiny.json") for where in "ab"]
    first, second = a_row(tmp_path / "a"), a_row(tmp_path / "b")
    assert first["result"] == second["result"] and paths[0].read_bytes() == paths[1].read_bytes()
    assert a_row(tmp_path / "c", memorised=2)["result"] != first["result"]


def test_recorded_rows_of_a_model_lie_in_one_file_that_pandas_reads(tmp_path):
    names = ["finetune/x/tiny", "finetune/x/tiny-mean"]
    some = [(a_row(tmp_path / "build", name), [{"id": name, "ranks": [7]}]) for name in names]
    for one in reversed(some):
        rows.record(tmp_path / "record", [one])
    lines = pd.read_json(tmp_path / "record/finetune/x/tiny.jsonl", lines=True)
    assert list(lines["name"]) == names and list(lines["seed"]) == [0, 0]
    found = rows.find(tmp_path / "record")
    assert {name: rows.items(row)["id"][0] for name, row in found.items()} == dict(
        zip(names, names)
    )
    again = some[0][0] | {"result": some[0][0]["result"] | {"memorised": 4}}
    rows.record(tmp_path / "record", [(again, [])])
    assert rows.find(tmp_path / "record")[names[0]]["result"]["memorised"] == 4
    assert [*rows.unpacked(tmp_path / f"record/finetune/x/tiny{rows.ITEMS}")] == names[1:]


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_row_that_does_not_fit_is_refused(tmp_path, spoil):
    row = SPOILS[spoil](copy.deepcopy(a_row(tmp_path)))
    (tmp_path / "bad.json").write_text(json.dumps(row))
    with pytest.raises(ValueError, match="run it again"):
        rows.read(tmp_path / "bad.json")


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_an_earlier_version_wrote_is_passed_over(tmp_path, spoil):
    """It is stale, and its run will write it again: until then the others are read."""
    a_row(tmp_path, "finetune/x/new")
    row = SPOILS[spoil](copy.deepcopy(a_row(tmp_path)))
    (tmp_path / "finetune/x/tiny.json").write_text(json.dumps(row))
    assert [*rows.find(tmp_path)] == ["finetune/x/new"]


def test_an_earlier_run_s_row_is_none_where_another_version_wrote_it(tmp_path):
    path = tmp_path / "finetune/x/tiny.json"
    assert rows.kept(path) is None
    row = a_row(tmp_path)
    assert rows.kept(path) == row | {"path": path}
    path.write_text(json.dumps(row | {"schema": 1}))
    assert rows.kept(path) is None


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    a_row(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FloatingPointError, match="infinite or none, as the perplexity .* choose"):
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
        asked[part]["seed"] = 7
    if part == "versions":
        monkeypatch.setattr(versions, "version", lambda module: 2)
    found = rows.current(row_path := tmp_path / f"{row['name']}.json", row["kind"], **asked)
    assert found == (row | {"path": row_path} if part == "nothing" else None)
    assert versions.outdated(row) == (["finetune"] if part == "versions" else [])


def test_a_recorded_row_goes_before_that_of_this_build_unless_it_is_older(tmp_path, monkeypatch):
    """One run of six on other weights would be compared with the other five."""
    recorded, build = tmp_path / "recorded", tmp_path / "build"
    monkeypatch.setattr(rows, "RECORDED", recorded)
    a_row(recorded, memorised=1), a_row(build, memorised=2), a_row(build, "finetune/x/only", 2)

    def found():
        every = rows.find(recorded, build).items()
        return {name: (row["result"]["memorised"], row["origin"]) for name, row in every}

    measured = (2, "measured in this build")
    assert found() == {"finetune/x/tiny": (1, "recorded"), "finetune/x/only": measured}
    newer = lambda row: ["finetune"] * (row["origin"] == "recorded")  # noqa: E731
    monkeypatch.setattr(versions, "outdated", newer)
    assert found()["finetune/x/tiny"] == measured


RECORDED = sorted(path.relative_to(rows.RECORDED) for path in rows.RECORDED.rglob("*.jsonl"))


def test_there_are_recorded_rows():
    assert RECORDED


@pytest.mark.parametrize("path", RECORDED, ids=str)
def test_recorded_rows_are_valid(path):
    """Each lies where it belongs, its items are the ones it was written with."""
    found = rows.parsed(rows.RECORDED / path)
    beside = rows.beside(rows.RECORDED / path)
    items = rows.unpacked(beside) if beside.is_file() else {}
    assert len({row["name"] for row in found}) == len(found)
    for row in found:
        rows.validate(row)
        assert path.parts == (row["kind"], row["data"], f"{row['model']}.jsonl")
        assert row["name"].startswith(f"{row['kind']}/{row['data']}/{row['model']}")
        wanted = row["result"]["items_sha256"]
        assert wanted == (rows.digest(items[row["name"]]) if wanted else None)
        assert not versions.outdated(row)


def test_every_field_of_the_schema_is_described():
    """The descriptions are the data dictionary: none may be missing."""

    def missing(node, where):
        for name, field in node.get("properties", {}).items():
            if "description" not in field and "const" not in field and name != "kind":
                yield f"{where}.{name}"
            yield from missing(field, f"{where}.{name}")

    results = [rule["then"]["properties"]["result"] for rule in rows.schema()["allOf"]]
    assert [name for node in (rows.schema(), *results) for name in missing(node, "")] == []


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(rows.schema())
