"""Rows: written whole, validated, equal by result, stale by content."""

import copy
import json
import os

import jsonschema
import pytest

from companion.record import rows
from companion.runs.memorise import MODULES


def a_row(folder, name="memorise/x/tiny", memorised=3, settings=None):
    """A small valid row, written."""
    result = {
        "sentences": 4,
        "memorised": memorised,
        "loss": [1.0],
        "learned": [4],
        "tokenizer": "t",
        "vocabulary": 9,
    }
    made = rows.provenance(MODULES, settings or {"seed": 0}, {"model": "m"}, {"load": 0.123}) | {
        "model": {"name": "tiny"},
        "tokenizer": "t",
    }
    return rows.write(folder, name, "memorise", result, [{"id": "a", "ranks": [0, 2]}], made)


@pytest.mark.parametrize("name", ["memorise/x/tiny", "memorise/x/model-1.5b"])
def test_a_row_comes_back_as_it_was_written(tmp_path, name):
    row = a_row(tmp_path, name)
    path = tmp_path / f"{name}.json"
    assert rows.read(path) == row
    assert rows.items(rows.read(path)).to_dict("records") == [{"id": "a", "ranks": [0, 2]}]
    assert not rows.stale(row)


def test_the_same_values_give_the_same_bytes(tmp_path):
    first, second = a_row(tmp_path / "a"), a_row(tmp_path / "b")
    assert first["result"] == second["result"]
    assert (tmp_path / "a/memorise/x/tiny.items.csv.gz").read_bytes() == (
        tmp_path / "b/memorise/x/tiny.items.csv.gz"
    ).read_bytes()
    assert a_row(tmp_path / "c", memorised=2)["result"] != first["result"]


@pytest.mark.parametrize(
    "spoil", ["another schema", "no provenance", "an unknown field", "a share above one"]
)
def test_a_row_that_does_not_fit_is_refused(tmp_path, spoil):
    row = copy.deepcopy(a_row(tmp_path))
    if spoil == "another schema":
        row["schema"] = 99
    elif spoil == "no provenance":
        del row["provenance"]
    elif spoil == "an unknown field":
        row["result"]["luck"] = 1
    else:
        row["kind"], row["result"] = "unlearn", {}
    (tmp_path / "bad.json").write_text(json.dumps(row))
    with pytest.raises(ValueError):
        rows.read(tmp_path / "bad.json")


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    a_row(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="does not fit the schema"):
        rows.write(tmp_path, "memorise/x/other", "memorise", {"sentences": -1}, [], {})
    with pytest.raises(ValueError, match="at most"):
        noise = [{"id": os.urandom(30).hex()} for _ in range(20_000)]
        rows.write(tmp_path, "memorise/x/other", "memorise", {}, noise, {})
    assert sorted(tmp_path.rglob("*")) == before


def test_settings_inputs_and_code_make_a_row_stale(tmp_path, monkeypatch):
    row = a_row(tmp_path)
    for part in ("settings", "inputs"):
        changed = copy.deepcopy(row)
        changed["provenance"][part]["seed"] = 7
        assert rows.stale(changed)
    monkeypatch.setattr(
        rows, "code_hash", lambda module: "edited" if module == "revs.model.memorise" else "same"
    )
    assert rows.stale(row)


def test_a_comment_or_a_docstring_does_not(tmp_path, monkeypatch):
    """The hash is of the syntax tree: what Python does not run does not count."""
    source = tmp_path / "module.py"
    monkeypatch.setattr(rows, "source", lambda module: source)
    hashes = []
    for text in ('"""One."""\nx = 1\n', '"""Two."""\n\n# a comment\nx  =  1\n', "x = 2\n"):
        source.write_text(text)
        rows.code_hash.cache_clear()
        hashes.append(rows.code_hash("revs.anything"))
    rows.code_hash.cache_clear()
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_recorded_row_goes_before_that_of_this_build_unless_it_is_stale(tmp_path, monkeypatch):
    """One run of six on other weights would be compared with the other five."""
    monkeypatch.setattr(rows, "RECORDED", tmp_path / "recorded")
    (
        a_row(tmp_path / "recorded", memorised=1),
        a_row(tmp_path / "build", memorised=2),
        a_row(tmp_path / "build", "memorise/x/only", memorised=2),
    )
    found = lambda: {
        name: (row["result"]["memorised"], row["origin"])
        for name, row in rows.find(tmp_path / "recorded", tmp_path / "build").items()
    }
    assert found() == {
        "memorise/x/tiny": (1, "recorded"),
        "memorise/x/only": (2, "measured in this build"),
    }
    monkeypatch.setattr(rows, "stale", lambda row: row["origin"] == "recorded")
    assert found()["memorise/x/tiny"] == (2, "measured in this build")


RECORDED = sorted(path for path in rows.RECORDED.rglob("*.json") if path.parent != rows.RECORDED)


def test_there_are_recorded_rows():
    assert RECORDED


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.relative_to(rows.RECORDED)))
def test_recorded_rows_are_valid_and_current(path):
    """Its name is its place, its items are the ones it was written with, and the present sources would give it the same stamp; a benchmark is of the code of its date, and its page says so."""
    row = rows.read(path)
    assert row["name"] == str(path.relative_to(rows.RECORDED).with_suffix(""))
    items = path.with_suffix(".items.csv.gz")
    assert (rows.digest(items.read_bytes()) if items.is_file() else None) == row["result"][
        "items_sha256"
    ]
    assert row["kind"] == "bench" or not rows.stale(row), "run `make record` and `make adopt`"


def test_every_field_of_the_schema_is_described():
    """The descriptions are the data dictionary: none may be missing."""

    def missing(node, where):
        for name, field in node.get("properties", {}).items():
            if "description" not in field and "const" not in field and name != "kind":
                yield f"{where}.{name}"
            yield from missing(field, f"{where}.{name}")

    rules = [rule["then"]["properties"]["result"] for rule in rows.schema()["allOf"]]
    assert [
        name
        for node in (rows.schema()["properties"]["provenance"], *rules)
        for name in missing(node, "")
    ] == []


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(rows.schema())
