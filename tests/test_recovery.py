"""The experiment ``audit``, its rows, and the verdicts that are drawn from them."""

import itertools
import json
from dataclasses import asdict
from unittest import mock

import pandas as pd
import pytest
import torch
from conftest import build, records
from test_secret_audit import POOL

from companion.analysis import recovery
from companion.analysis.tables import DASH
from companion.experiments import audit, memory, unlearn
from companion.experiments.settings import check
from companion.plots import recovery as drawing
from companion.store import rows, versions
from companion.workflow import sweep
from revs.audit import suite
from revs.audit.suite import ATTACKS
from revs.baselines import ft_l
from revs.model import load

MODEL = "m"
KNOWN = {"leak": -60.0, "exposure": 40.0, "relearning": 900.0, "rounding": 300.0, "int8": 800.0}
KNOWN |= {"two_checkpoints": 5000.0}
VALUES = (0.0, 1e9, -1e9, 1.0)  # of an attack that is not known here one finds a secret, one not
GONE, WRITTEN = (
    {
        name: next(value for value in VALUES if one.recovered(value) == found)
        for name, one in ATTACKS.items()
        if name not in KNOWN
    }
    for found in (False, True)
)
GONE |= KNOWN
WRITTEN |= dict.fromkeys(KNOWN, 0.0) | {"leak": -0.01, "two_checkpoints": 5000.0}
SHARE = {"unedited": 1.0, "random": 1.0, "output_ban": 0.0, "gold": 0.1, "revs": 0.3, "rmu": 0.6}


# --- the experiment ------------------------------------------------------------------------------


@pytest.fixture
def an_audit(knowing, tmp_path, monkeypatch):
    """an_audit(name=value, …): of two of the three addresses that a tiny model knows."""
    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    lines = [json.dumps(asdict(one)) for one in records()]
    (tmp_path / "set.jsonl").write_text("\n".join(lines), encoding="utf-8")
    one = asdict(records(["Ada"])[0])
    others = [one | {"id": f"o{i}", "secret": secret} for i, secret in enumerate(POOL)]
    (tmp_path / "others.jsonl").write_text("\n".join(map(json.dumps, others)), encoding="utf-8")
    own = {"model": str(knowing), "adapter": None, "data": str(tmp_path / "set.jsonl")}
    own |= {"never_trained": str(tmp_path / "others.jsonl"), "strings": 5, "forget": 2}
    own |= {"rows": str(tmp_path / "rows"), "method": "unedited"}
    return lambda **more: audit.run(check(own | more, audit.Settings))


def test_an_audit_is_a_row_with_a_line_for_each_secret_and_each_control(an_audit, tmp_path):
    row = an_audit()
    assert row["result"]["written"] == 1 == row["result"]["attacks"]["leak"]["secrets"]
    assert row["result"]["attacks"]["leak"]["never_trained"] == 0
    assert row["result"]["relearning"] == {"steps": [0, 0], "written": [1.0, 1.0]}
    found = rows.read(tmp_path / "rows" / f"{row['name']}.json")
    values = rows.per_example(found)
    assert list(values["part"]) == ["forget"] * 2 + ["never_trained"] * 2
    assert set(suite.ATTACKS) <= set(values) and values["id"].is_unique
    assert row["name"].startswith("audit/set/") and set(row["seconds"]) >= set(suite.ATTACKS)
    assert {f"attack {name}" for name in versions.attacks()} <= set(row["versions"])


def test_an_audit_needs_memory_to_relearn_with_all_weights(an_audit, knowing, monkeypatch, refused):
    """Where a run of the method would fit: the weights six times over, in float32."""
    weights = memory.weight_count(knowing)
    there = lambda times: memory.PROCESS + 4 * times * weights
    monkeypatch.setattr(memory, "free_bytes", lambda *_: there(5.9))
    with refused("An audit on .* takes at least", MemoryError):
        an_audit()
    monkeypatch.setattr(memory, "free_bytes", lambda *_: there(6))
    assert an_audit()["result"]["written"] == 1


def test_a_finished_audit_is_not_repeated(an_audit, monkeypatch):
    first = an_audit()
    monkeypatch.setattr(audit, "measure", lambda *_: pytest.fail("it was measured again"))
    assert an_audit()["result"] == first["result"]


def test_a_method_edits_before_the_attacks(an_audit):
    row = an_audit(method="output_ban")
    assert row["result"]["written"] == 0 == row["result"]["attacks"]["leak"]["secrets"]
    assert row["result"]["edit"]["norm"] > 0


def test_the_gold_standard_is_another_adapter_and_no_edit(an_audit, tmp_path, monkeypatch):
    never = build("llama-untied", dtype=torch.float32, seed=5, max_position_embeddings=192)
    load.save(never.model, never.tokenizer, tmp_path / "gold")
    monkeypatch.setattr(audit, "gold_adapter", lambda settings: "gold-x-split1")
    monkeypatch.setattr(audit.adapters, "fingerprint", lambda adapter: "f")
    adapted = lambda model, adapter: str(tmp_path / "gold") if adapter else model
    monkeypatch.setattr(audit.adapters, "adapted", adapted)
    row = an_audit(method="gold")
    assert row["result"]["written"] == 0 and row["inputs"]["gold"] == "f"
    assert row["method"] == "gold" and "gold" not in row["versions"]


def test_a_gold_standard_that_is_not_there_is_named(refused):
    settings = check({"method": "gold", "adapter": "nothing"}, audit.Settings)
    with refused("There is no adapter 'gold-nothing-split1'", FileNotFoundError):
        audit.gold_adapter(settings)


def test_a_set_without_a_tuning_set_needs_never_trained_secrets(an_audit, refused):
    with refused("name a data set of other secrets"):
        an_audit(never_trained=None)


def test_a_method_that_fails_leaves_a_row_that_says_why(an_audit, tmp_path, monkeypatch):
    """test_tune.py has what it may replace."""
    fails = mock.Mock(side_effect=FloatingPointError("FT-L diverged: lower the learning rate."))
    monkeypatch.setattr(ft_l, "unlearn", fails)
    with pytest.raises(FloatingPointError, match="diverged"):
        an_audit(method="ft_l")
    (row,) = rows.find(tmp_path / "rows", kind="audit").values()
    assert row["result"] == {"failed": "FT-L diverged: lower the learning rate."}


def test_the_sweep_has_every_method_and_the_gold_standard_in_every_cell():
    jobs = [job for job in sweep.read("audit").jobs.values() if not job.settings.tag]
    cells = {(job.settings.data, job.settings.adapter, job.settings.seed) for job in jobs}
    assert len(cells) == 16 and len(jobs) == 16 * 9
    assert {job.settings.method for job in jobs} >= {*recovery.AUDITED, "revs", "least_squares"}


# --- the verdict ---------------------------------------------------------------------------------


def made_row(method, adapter, seed, share, data="ssn", secrets=20, **values) -> dict:
    """A row in which the first ``share`` of the secrets is recovered, no never-trained string is,
    and the attacks find of a ban what the weights tell."""
    items = []
    for i, part in itertools.product(range(secrets), ("forget", "never_trained")):
        found = part == "forget" and i < share * secrets
        one = WRITTEN if found else GONE
        if method == "output_ban" and part == "forget":
            one = one | {"two_checkpoints": 3.0}
        line = {"id": f"{part}{i}", "part": part, "group": f"g{i}", "written": found}
        items.append(line | one | values)
    row = {"kind": "audit", "data": data, "model": MODEL, "method": method, "seed": seed, "tag": ""}
    row |= {"name": f"audit/{data}/{MODEL}/{method}-{adapter}-{seed}", "items": items}
    result = {"rounding": {"bits": 4, "kept": 1.0}}
    result |= {"relearning": {"steps": [3, 5], "written": [1.0, 0.5]}}
    return row | {"settings": {"adapter": adapter, "data": data}, "result": result}


@pytest.fixture
def record(only_rows, monkeypatch):
    """record(rows): the secrets of these rows, as the page has them."""
    monkeypatch.setattr(rows, "per_example", lambda row, *_: pd.DataFrame(row["items"]))
    return lambda some: only_rows(some) or recovery.secrets(recovery.runs(MODEL))


def crossed(shares=SHARE, adapters=("seed1", "seed2"), splits=(1, 2), **more) -> list[dict]:
    every = itertools.product(shares.items(), adapters, splits)
    return [made_row(method, a, s, share, **more) for (method, share), a, s in every]


def test_a_calibrated_suite_meets_all_criteria_and_names_what_exposes_the_ban(record):
    checked = recovery.calibration(record(crossed()))
    assert checked["met"].all() and recovery.is_calibrated(checked)["ssn"]
    assert checked.set_index("criterion").loc["output_ban", "attack"] == "two_checkpoints"
    table = recovery.calibration_table(checked)
    assert list(table) == ["data", *recovery.CRITERIA.values()] and list(table["data"]) == ["SSN"]


def test_an_attack_that_is_younger_than_the_rows_is_left_out(record, monkeypatch):
    before = record(crossed())
    monkeypatch.setitem(ATTACKS, "younger", ATTACKS["leak"])
    monkeypatch.setattr(recovery, "ENDPOINT", [*recovery.ENDPOINT, "younger"])
    found = record(crossed())
    assert found["recovered"].tolist() == before["recovered"].tolist()
    assert (
        found["younger"].isna().all() and recovery.is_calibrated(recovery.calibration(found)).all()
    )
    assert set(recovery.attack_table(found).iloc[:, -1]) == {DASH}


def with_items(part=None, method=None, **values) -> list[dict]:
    """Every cell, with other values of the attacks for some of its secrets."""
    some = crossed()
    for row in some:
        for item in row["items"]:
            if part in (None, item["part"]) and method in (None, row["method"]):
                item |= values
    return some


def without(method: str) -> list[dict]:
    return crossed({name: share for name, share in SHARE.items() if name != method})


BLIND = {
    "the unedited model leaks too little": ("unedited", crossed(SHARE | {"unedited": 0.9})),
    "a random edit hides secrets": ("random", crossed(SHARE | {"random": 0.8})),
    "no unedited model": ("unedited", without("unedited")),
    "no random edit": ("random", without("random")),
    "no ban": ("output_ban", without("output_ban")),
    "an attack invents": ("never_trained", with_items("never_trained", exposure=0.0)),
    "the ban is hidden": ("output_ban", with_items("forget", "output_ban", two_checkpoints=9e2)),
    "one names whatever it is asked": ("output_ban", with_items(two_checkpoints=1.0)),
}


@pytest.mark.parametrize("why", BLIND)
def test_a_control_that_fails_or_is_missing_makes_the_suite_blind(record, why):
    criterion, some = BLIND[why]
    checked = recovery.calibration(record(some))
    assert criterion in set(checked.loc[~checked["met"], "criterion"])
    assert not recovery.is_calibrated(checked)["ssn"]


def test_rounding_counts_only_where_the_rounded_unedited_model_still_writes(record):
    some = crossed({"revs": 0.0}, adapters=("seed1",))
    for row in some:
        for item in row["items"]:
            item["rounding"] = 0.0
        row["result"]["rounding"]["kept"] = 0.9 if row["seed"] == 1 else 0.8
    by_split = record(some).groupby("split")["recovered"]
    assert by_split.mean().to_dict() == {1: 1.0, 2: 0.0}


def test_the_excess_is_paired_with_gold_and_its_interval_holds_it(record):
    found = record(crossed())
    shares = recovery.endpoint(found).set_index("method")
    assert shares["mean"].to_dict() == pytest.approx(SHARE)
    excess = recovery.endpoint(found, "gold").set_index("method")
    assert "gold" not in excess.index
    for method, line in excess.iterrows():
        assert line["mean"] == pytest.approx(SHARE[method] - 0.1)
        assert line["low"] <= line["mean"] <= line["high"]
    assert excess.loc["revs", "low"] < excess.loc["revs", "high"]
    lone = record([*crossed({"gold": 0.1}, splits=(1,)), *crossed({"revs": 0.3}, splits=(2,))])
    assert recovery.endpoint(lone, "gold").empty


def test_any_subset_of_rows_gives_tables_a_picture_and_sentences(record):
    some = [*crossed(), *crossed({"revs": 0.5, "gold": 0.0}, data="emails", splits=(1,))]
    for keep in (some, some[:1], some[5:9], some[-3:]):
        found = record(keep)
        tables = (recovery.endpoint_table, recovery.attack_table, recovery.traces)
        assert all(len(table(found)) for table in tables)
        drawing.plt.close(drawing.overview(found))
        assert all(isinstance(one, str) for one in recovery.answer(found).values())
    said = recovery.answer(record(some))
    assert said == {"excess_least_squares": "–", "excess_revs": "20 points (SSN)"}


def test_an_insider_is_told_of_where_runs_were_attacked_and_else_a_dash(record, monkeypatch):
    attacked = pd.DataFrame({"method": ["revs", "revs"], "resistance": [0.8, 0.6]})
    monkeypatch.setattr(recovery.main_comparison, "runs", lambda *_: attacked)
    found = record(crossed())
    said = recovery.insider(MODEL, found, found.iloc[:0])
    assert (said.pop("insider_revs"), said.pop("layer_data")) == ("70.0", "SSN")
    assert set(said.values()) == {"–"}


def test_traces_are_ranks_among_strings_and_after_relearning(record):
    (line,) = recovery.traces(record(crossed({"revs": 0.4}))).to_dict("records")
    assert (line["data"], line["method"]) == ("SSN", "REVS")
    assert line["exposure: median rank"] == "40" and line["other half written"] == "40.0"
    assert line["relearning: trained half written"] == "75.0"
    assert (line["its least rank"], line["its median rank"]) == ("0", "900")
