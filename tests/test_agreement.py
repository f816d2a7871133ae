"""Rows made again on another machine are compared with the recorded ones."""

import copy
import json

import pytest

from companion.store import rows
from companion.workflow.agreement import differences, sentence

NAME = "unlearn/ssn/smollm2-135m/revs-seed1"


@pytest.fixture
def again(tmp_path):
    """Writes the recorded run with other contents as this build's; returns what differs."""
    recorded = rows.find(rows.RECORDED, kind="unlearn", data="ssn")[NAME]

    def made(**changes) -> dict[str, float]:
        row = json.loads(rows.line(copy.deepcopy(recorded))) | {"values": None}
        for field, values in changes.items():
            row[field] = values if "failed" in values else row[field] | values
        rows.write_file(tmp_path / f"{NAME}.json", rows.line(row) + "\n")
        return differences(built=tmp_path)

    made.after = recorded["result"]["after"]
    return made


def test_a_score_that_no_run_of_the_set_has_is_not_compared(again, monkeypatch):
    """Generalization where each secret has one sentence."""
    lacking = {"after": again.after | {"generalization": None}}
    find = rows.find
    monkeypatch.setattr(
        rows, "find", lambda *a, **k: {n: r | {"result": lacking} for n, r in find(*a, **k).items()}
    )
    assert again(result=lacking) == {NAME: 0}


def test_the_same_run_is_compared_in_points_though_it_measured_less(again):
    assert again(settings={"measures": ["attacks"], "generate": True}) == {NAME: 0}
    assert "agrees" in sentence({NAME: 0})
    less = again.after | {"efficacy": again.after["efficacy"] - 0.05}
    found = again(result={"after": less})
    assert found == {NAME: pytest.approx(5)} and "does NOT agree" in sentence(found)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"T": 1}},
        {"inputs": {"data": "another"}},
        {"versions": {"revs": 0}},
        {"result": {"failed": "It did not fit."}},
    ],
)
def test_another_run_of_the_name_is_not_compared(again, change):
    assert again(**change) == {} and "nothing is compared" in sentence({})
