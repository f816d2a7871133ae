"""The rules of the ledger: what they make of values, of curves, and of missing methods."""

import pandas as pd
import pytest

from companion.ledger import checks
from companion.record import rows

EVERY = ["Unedited", "FT-L", "MEMIT", "REVS"]


@pytest.mark.parametrize(
    "expect, values, holds",
    [
        ({"first": ["b"]}, {"a": 1, "b": 2, "Unedited": 9}, True),
        ({"first": ["a"]}, {"a": 1, "b": 2}, False),
        ({"first": ["a"]}, {"a": 2, "b": 2}, True),
        ({"place": ["a", 2]}, {"a": 1, "b": 2, "c": 0}, True),
        ({"place": ["c", 2]}, {"a": 1, "b": 2, "c": 0}, False),
        ({"close": ["a", 2, 5]}, {"a": 6, "b": 10, "c": 1}, True),
        ({"close": ["a", 2, 3]}, {"a": 6, "b": 10}, False),
        ({"close": ["a", 2, 5]}, {"a": 8, "b": 10, "c": 9}, False),
        ({"above": ["b", "a", "Unedited"]}, {"a": 1, "b": 2, "Unedited": 1.5}, True),
        ({"above": ["b", "a"]}, {"a": 2, "b": 2}, False),
        ({"at_least": ["a", 95]}, {"a": 95}, True),
        ({"at_least": ["a", 95]}, {"a": 94.9}, False),
        ({"at_most": ["a", 50]}, {"a": 50}, True),
        ({"at_most": ["a", 50]}, {"a": 50.1}, False),
        ({"times": ["a", "b", 2]}, {"a": 4, "b": 2}, True),
        ({"times": ["a", "b", 2]}, {"a": 3.9, "b": 2}, False),
        ({"near": [2, "all"]}, {"a": 1, "b": 4, "Unedited": 2.5}, True),
        ({"near": [2, "a"]}, {"a": 0, "b": 4, "Unedited": 2.5}, False),
        ({"far": [5, ["a", "b"], "all"]}, {"a": 6, "b": 10, "c": 1, "Unedited": 99}, True),
        ({"far": [5, ["a", "b"], "all"]}, {"a": 6, "b": 10, "c": 2}, False),
        ({"far": [5, ["a"], ["b"]]}, {"a": 9, "b": 4, "c": 8}, True),
        ({"far": [5, ["a"], ["Unedited"]]}, {"a": 9, "Unedited": 5}, False),
        ({"groups": [["a", "b"], ["c"]]}, {"a": 1, "b": 5, "c": 2}, True),
        ({"groups": [["a", "b"], ["c"]]}, {"a": 1, "b": 5, "c": 3}, False),
        ({"linked": [0.5]}, {"a": (1, 4), "b": (2, 5), "c": (3, 9), "Unedited": (0, 99)}, True),
        ({"linked": [0.5]}, {"a": (1, 9), "b": (2, 5), "c": (3, 4)}, False),
        ({"opposed": [0]}, {"a": (1, 9), "b": (2, 5), "c": (3, 4)}, True),
        ({"opposed": [0]}, {"a": (1, 4), "b": (2, 5), "c": (3, 9)}, False),
        ({"superior": ["a", 1]}, {"a": (2, 2, 1), "b": (1, 1, 2)}, True),
        ({"superior": ["a", 1]}, {"a": (2, 1, 1), "b": (1, 2, 2)}, False),
        ({"paid": ["a"]}, {"a": (2, 2), "b": (3, 1), "c": (1, 9)}, True),
        ({"paid": ["a"]}, {"a": (2, 2), "b": (3, 2)}, False),
    ],
)
def test_rules_on_values(expect, values, holds):
    assert checks.judged(expect, values, values) is holds
    with pytest.raises(ValueError, match="'better' is not a check: use first, "):
        checks.judged({"better": ["a"]}, {"a": 1}, values)


@pytest.mark.parametrize(
    "expect, values, verdict",
    [
        ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 0.0}, None),
        ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 54.7}, False),
        ({"first": ["REVS"]}, {"FT-L": 54.7}, None),
        ({"first": ["REVS"]}, {"REVS": 50.0, "FT-L": 0.0, "MEMIT": 1.0}, True),
        ({"near": [2, "all"]}, {"Unedited": 60.0, "REVS": 50.0}, False),
        ({"near": [2, "all"]}, {"REVS": 50.0}, None),
        ({"above": ["REVS", "FT-L", "MEMIT"]}, {"REVS": 1.0, "MEMIT": 2.0}, False),
        ({"above": ["REVS", "FT-L", "MEMIT"]}, {"REVS": 3.0, "MEMIT": 2.0}, None),
        ({"groups": [["MEMIT"], ["FT-L"]]}, {"REVS": 3.0, "MEMIT": 2.0}, None),
        ({"linked": [0.5]}, {"REVS": (1, 1), "MEMIT": (2, 2)}, None),
    ],
)
def test_a_missing_method_keeps_none_from_refuting(expect, values, verdict):
    assert checks.judged(expect, values, EVERY) is verdict


@pytest.mark.parametrize(
    "expect, needed",
    [
        ({"first": ["REVS"]}, EVERY[1:]),
        ({"above": ["REVS", "Unedited"]}, ["REVS", "Unedited"]),
        ({"at_least": ["REVS", 95]}, ["REVS"]),
        ({"near": [2, "all"]}, EVERY),
        ({"far": [10, ["REVS"], "all"]}, EVERY[1:]),
        ({"far": [10, ["REVS"], ["Unedited"]]}, ["REVS", "Unedited"]),
        ({"groups": [["MEMIT"], ["FT-L"]]}, ["FT-L", "MEMIT"]),
    ],
)
def test_a_check_needs_every_method_that_it_speaks_of(expect, needed):
    assert checks.needed(expect, EVERY) == set(needed)


def test_a_small_subset_is_a_share_of_all_columns(shelf):
    judged = lambda most: checks.small("smollm2-135m", "ssn", "revs", most)
    assert judged(10) is None
    row = shelf(seed=1)
    row["result"]["edit"]["columns"] = 4608
    (rows.RECORDED / f"{row['name']}.json").unlink()
    rows.record(rows.RECORDED, [(row, [])])
    assert judged(10) == (True, "10.0 per cent of 46,080 columns", [row["name"]])
    assert not judged(9)[0]


def curve(method: str, *points: tuple[float, float]) -> pd.DataFrame:
    return pd.DataFrame(points, columns=["efficacy", "specificity"]).assign(method=method)


def test_what_strength_costs():
    revs, memit = curve("revs", (50, 90), (90, 50)), curve("memit", (50, 70), (90, 75))
    costs, narrower, traded = (
        getattr(checks, name).__wrapped__ for name in ("costs", "narrower", "traded")
    )
    said = "specificity 50.0 with it, 90.0 without"
    assert costs(revs, "efficacy", 90, "specificity") == (True, said)
    assert not costs(memit, "efficacy", 90, "specificity")[0]
    assert not costs(revs, "efficacy", 99, "specificity")[0]
    assert narrower(memit, revs, "specificity") == (True, "5.0 against 40.0 points")
    assert not narrower(revs, memit, "specificity")[0]
    assert traded(revs) == (True, "REVS 90.0 to 50.0")
    assert not traded(revs, memit)[0]
