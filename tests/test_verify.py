"""After a change that should change no result: which small runs speak for which rows."""

import os
import subprocess
import sys

import pytest

from companion.store import rows
from companion.store.paths import ROOT
from companion.workflow import verify

METHODS = ("revs", "memit", "ft_l")


def row(method: str, *measures: str, kind: str = "unlearn", seconds: float = 1.0) -> dict:
    name = f"{kind}/x/m/{method}-{'-'.join(measures)}-{seconds}"
    settings = {"method": method, "measures": list(measures)} if kind == "unlearn" else {}
    settings |= {"method": method} if kind == "tune" else {}
    settings |= {"dtype": "float32"} | ({} if kind == "tune" else {"tokens": "rarest"})
    made = {"settings": settings, "inputs": {}, "seconds": {"unlearn": seconds}, "stamp": "old"}
    return {
        "name": name,
        "kind": kind,
        "model": "smollm2-135m",
        "result": {"items_sha256": None},
        "provenance": made,
    }


def test_few_quick_runs_hold_every_beginning():
    """Of each method and each measure the quickest; a search is spoken for by its trials."""
    some = [row(m, seconds=s) for m in METHODS for s in (3.0, 2.0, 9.0)]
    some += [row(m, measure, seconds=20.0) for m in METHODS for measure in ("attacks", "cue")]
    some += [row("revs", kind="tune", seconds=0.1)]
    chosen = verify.samples(some)
    assert set().union(*map(verify.begin, chosen)) == set().union(*map(verify.begin, some))
    assert len(chosen) == 5 and all(one["kind"] == "unlearn" for one in chosen)
    assert {one["provenance"]["seconds"]["unlearn"] for one in chosen} == {2.0, 20.0}


def test_a_run_on_one_family_says_nothing_of_another_and_an_option_is_tried_by_itself():
    on_gptj = row("revs", seconds=5.0) | {"model": "gptj-small"}
    raw = row("revs", seconds=7.0)
    raw["provenance"]["settings"]["hyperparameters"] = {"projection": "raw", "n_max": 3}
    low = row("revs", seconds=8.0)
    low["provenance"]["settings"]["dtype"] = "bfloat16"
    some = [row("revs", seconds=1.0), row("revs", seconds=2.0), on_gptj, raw, low]
    chosen = [one["provenance"]["seconds"]["unlearn"] for one in verify.samples(some)]
    assert sorted(chosen) == [1, 5, 7, 8]


def test_a_curation_s_options_are_ways_of_their_own():
    some = [row("revs", kind="curate") for _ in range(4)]
    for one, way in zip(
        some, ({}, {"told": True}, {"choose": 0.3}, {"kinds": ["ip"]}), strict=True
    ):
        one["provenance"]["settings"] |= way
    assert len({frozenset(verify.begin(one)) for one in some}) == 4


def test_a_run_that_failed_must_fail_alike_and_a_search_with_failed_trials_has_not_failed():
    failed, search = row("memit"), row("revs", kind="tune")
    failed["result"]["failed"], search["result"]["failed"] = "It diverged.", 3
    some = [row("memit", seconds=2.0), failed, row("revs"), search]
    assert [one["name"] for one in verify.samples(some)].count(failed["name"]) == 1
    assert verify.begin(some[0]) < verify.begin(failed) and verify.begin(search) < verify.begin(
        some[2]
    )


def test_a_fine_tune_speaks_for_those_that_learn_other_sentences_in_the_same_way():
    some = [row(name, kind="memorise") for name in ("a", "b", "c")]
    ways = ({"data": "a", "lr": 1}, {"data": "b", "lr": 1}, {"data": "a", "lr": 2})
    for one, way in zip(some, ways, strict=True):
        one["provenance"]["settings"] |= way
    assert len(verify.samples(some)) == 2 and len(verify.begin(some[0])) == 2
    assert verify.begin(some[0]) == verify.begin(some[1]) != verify.begin(some[2])


@pytest.mark.parametrize(
    "old, new, same",
    [
        ({"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": 4}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2, "c": 3}]}, True),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, False),
        ({"a": {"b": 1}}, {"a": 1}, False),
    ],
)
def test_what_was_found_must_be_found_again_and_what_is_new_does_not_count(old, new, same):
    assert verify.found_again(old, new) is same


def test_rows_are_stamped_as_far_as_runs_were_equal(monkeypatch, tmp_path):
    """MEMIT differs now: its rows stay stale, with whatever measure; those of others do not."""
    some = [row(m, *measures) for m in METHODS for measures in ((), ("attacks",))]
    monkeypatch.setattr(rows, "find", lambda *_: {one["name"]: one for one in some})
    monkeypatch.setattr(rows, "stale", lambda _: True)
    written = []
    monkeypatch.setattr(rows, "record", lambda _, taken: written.extend(one for one, _ in taken))

    def changed(tree, one):
        return {"score": tree.name if "memit" in one["name"] else "same"}

    monkeypatch.setattr(verify, "drawn", changed)
    said = verify.verify(tmp_path, tmp_path / "before", tmp_path / "now")
    assert {name.split("/")[3].split("-")[0] for name in said["different"]} == {"memit"}
    assert len(said["verified"]) == 4 and len(said["different"]) == 2
    stamped = {one["name"]: one["provenance"] for one in written}
    assert stamped.keys() == set(said["verified"])
    assert all(made["stamp"] != "old" for made in stamped.values())
    spoken = {name: made["verified_by"]["rows"] for name, made in stamped.items()}
    assert all(
        any("revs" in by for by in names) for name, names in spoken.items() if "revs" in name
    )


def test_a_run_whose_data_are_not_here_leaves_its_rows_stale(monkeypatch, tmp_path, capsys):
    some = [row("revs"), row("memit")]
    monkeypatch.setattr(rows, "find", lambda *_: {one["name"]: one for one in some})
    monkeypatch.setattr(rows, "stale", lambda _: True)
    monkeypatch.setattr(rows, "record", lambda *_: None)

    def drawn(tree, one):
        if "memit" in one["name"]:
            raise FileNotFoundError("There is no data set 'mine'.")
        return {}

    monkeypatch.setattr(verify, "drawn", drawn)
    said = verify.verify(tmp_path, tmp_path, tmp_path)
    assert (said["verified"], said["different"]) == ([some[0]["name"]], [some[1]["name"]])
    assert f"{some[1]['name']} is left out: There is no data set" in capsys.readouterr().out


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a checkout without its history")
def test_the_two_codes_keep_apart_what_they_compute_once(monkeypatch, tmp_path):
    """Moments and ranks are kept by weights and data, not by the code that found them."""
    monkeypatch.setattr(verify, "PLACE", tmp_path)
    program = "from companion.store.paths import BUILD; print(BUILD.resolve())"
    for tree in (verify.checkout("HEAD"), verify.copied()):
        environment = os.environ | {"PYTHONPATH": str(tree)}
        words = [sys.executable, "-c", program]
        said = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True)
        assert said.stdout.strip() == str(tree.resolve() / "build")
