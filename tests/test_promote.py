"""Promotion: finished runs become recorded rows, searches the settings that runs read."""

import json
from pathlib import Path

import pytest
import yaml
from test_rows import a_row

from companion.experiments import methods
from companion.experiments.settings import DRAWS
from companion.store import rows, versions
from companion.store.paths import params
from companion.workflow import promote, sweep

RECORDED = rows.find(rows.RECORDED)
SEARCHES = {name: row for name, row in RECORDED.items() if row["kind"] == "tune"}


def test_rows_are_copied_and_differences_reported(tmp_path, monkeypatch):
    build, recorded = tmp_path / "build", tmp_path / "rows"
    for name in ("same", "changed"):
        a_row(build, f"finetune/x/{name}")
    assert promote.promote(build, recorded)["new"] == ["finetune/x/changed", "finetune/x/same"]
    a_row(build, "finetune/x/changed", 2), a_row(build, "finetune/x/new")
    found = promote.promote(build, recorded)
    assert (found["same"], found["new"]) == (["finetune/x/same"], ["finetune/x/new"])
    assert len(found["changed"]) == 1 and not found["refused"]
    there = rows.find(recorded)
    assert there["finetune/x/changed"]["result"]["memorised"] == 2
    assert rows.per_example(there["finetune/x/changed"])["ranks"][0] == [0, 2]


SPOIL = {
    "no values": lambda path: path.with_suffix(".parquet").unlink(),
    "schema": lambda path: path.write_text(
        json.dumps(json.loads(path.read_text()) | {"schema": 1})
    ),
    "older": None,
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_a_row_that_is_spoilt_or_older_than_the_code_is_refused(tmp_path, monkeypatch, spoil):
    build, name = tmp_path / "build", "finetune/x/tiny"
    a_row(build, name)
    if spoil:
        spoil(build / f"{name}.json")
    else:
        monkeypatch.setattr(versions, "version", lambda module: 2)
    (sentence,) = promote.promote(build, tmp_path / "rows")["refused"]
    assert sentence.startswith(f"{name}: ") and "run it again" in sentence
    assert not rows.find(tmp_path / "rows")


def search(data: str, score: float, tag: str = "", **chose) -> dict:
    result = {"hyperparameters": chose, "unlearning_score": score}
    return {"data": data, "method": "revs", "model": "m", "tag": tag, "result": result}


@pytest.mark.parametrize(
    ("one", "other", "k"),
    [
        (search("ssn-tune", 0.2, k=1), search("ssn", 0.9, k=2), 1),  # other people's secrets first
        (search("ssn-tune", 0.3, k=1), search("ssn-tune", 0.8, tag="draws", k=2), 2),  # the best
        (search("ssn-tune", 0.8, k=1), search("ssn-tune", 0.8, tag="draws", k=2), 1),  # the first
    ],
)
def test_which_of_two_searches_chooses(one, other, k):
    for found in ({"a": one, "b": other}, {"b": one, "a": other}):
        assert promote.tuned(found) == {"revs": {"m": {"ssn": {"k": k}}}}


def test_the_settings_are_what_the_searches_chose():
    """params/hyperparameters.yml has what each search chose, not what somebody typed."""
    written = yaml.safe_load(promote.SETTINGS.read_text(encoding="utf-8"))
    found = promote.tuned(SEARCHES)
    assert written | found == written and set(found) >= set(methods.paper_methods())


@pytest.mark.parametrize("name", ["main", "main-first", "audit", "ablations", "integrity"])
def test_recorded_runs_have_the_settings_that_their_sweep_asks_for(name):
    """The main comparison what the better search chose; those before it what the first one did."""
    done = [job for job in sweep.read(name).jobs.values() if job.id in RECORDED]
    assert done
    for job in done:
        row, run = RECORDED[job.id], job.settings
        if run.method in methods.registry():
            data = Path(run.data).stem
            asked = methods.hyperparameters(run.method, run.model, data, run.hyperparameters or {})
            kind = methods.method(run.method).Hyperparameters
            assert kind(**row["settings"]["hyperparameters"]) == kind(**asked), row["name"]


def test_first_choices_are_those_of_the_first_searches_where_a_second_one_found_better():
    for method, of in params("first_choices").items():
        for model, by_data in of.items():
            for data, chosen in by_data.items():
                name = f"tune/{data}-tune/{model}/{method}-seed0-adapter-tune1"
                first, second = (SEARCHES[tag]["result"] for tag in (name, f"{name}-{DRAWS}"))
                given = {key: value for key, value in chosen.items() if value is not None}
                assert given == first["hyperparameters"]
                assert set(chosen) >= set(second["hyperparameters"])  # none is taken from there
                assert second["unlearning_score"] > first["unlearning_score"]
