"""Promotion: finished runs become recorded rows, searches the settings that runs read."""

import json

import pytest
import yaml
from test_rows import a_row

from companion.experiments import methods
from companion.experiments.settings import DRAWS
from companion.store import rows, versions
from companion.workflow import promote, sweep

SEARCHES = rows.find(rows.RECORDED, kind="tune")


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


def spoil_values(path):
    path.with_suffix(".parquet").unlink()


def spoil_schema(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 1}))


@pytest.mark.parametrize("spoil", [spoil_values, spoil_schema, None])
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


def search(data: str, score: float, trials: int = 20, tag: str = "", **chose) -> dict:
    result = {"hyperparameters": chose, "unlearning_score": score, "trials": trials}
    return {"data": data, "method": "revs", "model": "m", "tag": tag, "result": result}


@pytest.mark.parametrize(
    ("one", "other", "k"),
    [
        (search("ssn-tune", 0.2, k=1), search("ssn", 0.9, k=2), 1),  # other people's secrets first
        (search("ssn-tune", 0.3, k=1), search("ssn-tune", 0.8, k=2), 2),  # the best of several
        (search("ssn-tune", 0.3, 40, k=1), search("ssn-tune", 0.8, k=2), 1),  # the longest
        (search("ssn-tune", 0.3, k=1), search("ssn-tune", 0.8, tag=promote.DRAWS, k=2), 1),
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


def test_runs_with_second_choices_have_what_the_second_searches_chose():
    """Only choices that reach more on the tuning set than the first. URLs take Emails', sets with
    shared tokens those of the set without, and controls REVS's."""
    runs = [job.settings for job in sweep.read("tune-all").jobs.values()]
    runs = [run for run in runs if not run.data.endswith("-tune")]
    assert runs and all(run.tag.startswith(DRAWS) for run in runs)
    for run in runs:
        data = methods.emails_for_urls(run.data)
        method = methods.registry()[run.method].get("settings_of", run.method)
        first = f"tune/{data}-tune/{run.model}/{method}-seed0-adapter-tune1"
        one, two = (SEARCHES[name]["result"] for name in (first, f"{first}-{DRAWS}"))
        assert run.hyperparameters == two["hyperparameters"]
        assert two["unlearning_score"] > one["unlearning_score"]
