"""The rules of the ledger: what they make of values, of curves, and of missing methods."""

import math

import pandas as pd
import pytest

from companion.claims import checks
from companion.store import rows

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


SEVEN = {name: float(i) for i, name in enumerate("abcdefg")} | {"Unedited": 50.0}
TWO = {name: (i, i) for i, name in enumerate("abcdefg")}


@pytest.mark.parametrize(
    "expect, values, share",
    [
        ({"first": ["a"]}, SEVEN, 1 / 7),  # whoever is first, and though this one is not
        ({"first": ["g"]}, SEVEN, 1 / 7),
        ({"first": ["a"]}, {"a": 1.0, "b": 2.0, "Unedited": 9.0}, 1 / 2),
        ({"place": ["c", 3]}, SEVEN, 3 / 7),
        ({"close": ["a", 3, 1]}, SEVEN, 2 / 7),
        ({"at_least": ["a", 5]}, SEVEN, 2 / 7),
        ({"at_least": ["a", 0]}, SEVEN, 1),  # true under any labels
        ({"at_least": ["a", 9]}, SEVEN, 0),
        ({"above": ["a", "b"]}, SEVEN, 1 / 2),
        ({"above": ["Unedited", "a"]}, SEVEN, 1),
        ({"times": ["a", "Unedited", 0.1]}, SEVEN, 2 / 7),
        ({"far": [1, ["a"], "all"]}, SEVEN, 1 / 7),
        ({"far": [2, ["a"], "all"]}, SEVEN, 0),
        ({"far": [1, ["a", "b"], "all"]}, SEVEN, 2 / 42),
        ({"superior": ["a", 1]}, TWO, 1 / 7),
        ({"paid": ["g"]}, TWO, 1),  # nobody is above it in the column that keeps its names
    ],
)
def test_the_chance_of_a_claim_is_the_share_of_labels_under_which_it_holds(expect, values, share):
    assert checks.chance(expect, values) == pytest.approx(share)


def test_where_there_are_many_labels_some_are_drawn():
    halves = {"groups": [["a", "b", "c"], ["d", "e", "f"]]}
    assert checks.chance(halves, SEVEN) == pytest.approx(0.5, abs=0.05)
    assert checks.chance({"opposed": [0]}, TWO) == pytest.approx(0.5, abs=0.05)
    assert checks.chance({"linked": [0.5]}, TWO) < 0.2
    assert checks.chance(halves, SEVEN) == checks.chance(halves, SEVEN)


@pytest.mark.parametrize(
    "expect, values",
    [
        ({"near": [2, "all"]}, SEVEN),
        ({"at_most": ["Unedited", 50]}, SEVEN),
        ({"far": [1, list("abcdefg"), ["Unedited"]]}, SEVEN),
        ({"at_least": ["a", 1]}, {"a": 2.0, "Unedited": 0.0}),  # there is no other name
    ],
)
def test_a_claim_about_all_alike_or_about_none_has_no_chance(expect, values):
    assert math.isnan(checks.chance(expect, values))


@pytest.mark.parametrize(
    "expect, values, number, at",
    [
        ({"first": ["g"]}, SEVEN, (1, "g", "f"), 0),
        ({"first": ["a"]}, SEVEN, (-6, "a", "g"), 0),
        ({"place": ["f", 2]}, SEVEN, (1, "f", "e"), 0),
        ({"place": ["e", 2]}, SEVEN, (-1, "e", "f"), 0),
        ({"close": ["f", 2, 5]}, SEVEN, (-1, "f", "g"), -5),
        ({"above": ["c", "a", "b"]}, SEVEN, (1, "c", "b"), 0),
        ({"far": [2, ["g"], ["e", "a"]]}, SEVEN, (2, "g", "e"), 2),
    ],
)
def test_an_order_comes_to_the_gap_that_decides_it(expect, values, number, at):
    assert tuple(checks.comes_to(expect, values).values()) == number and checks.bar(expect) == at
    assert checks.judged(expect, values, values) is (number[0] >= at)


def test_a_value_has_its_bar_and_a_correlation_none():
    assert checks.bar({"at_least": ["a", 5]}) == checks.bar({"at_most": ["a", 5]}) == 5
    assert math.isnan(checks.bar({"linked": [0.5]})) and math.isnan(checks.bar({"near": [2, "a"]}))


def test_the_chance_of_a_claim_about_rows_is_that_of_other_methods(monkeypatch):
    """What is said of both has one order, and without another method's rows there is no chance."""
    found = {"revs": 3, "ft_l": 2, "memit": 1}
    ahead = lambda model, data, one, other: (found[one] > found[other], "", [])
    least = lambda model, data, one, most: (found[one] >= most, "", []) if one in found else None
    for kind, rule in (("leads", ahead), ("traded", ahead), ("keeps", least)):
        monkeypatch.setitem(checks.ON_ROWS, kind, rule)
    share = lambda kind, *given: checks.chance_on_rows(kind, list(given), "m", "d")
    assert share("leads", "ft_l", "memit") == 1 / 2 and share("traded", "revs", "ft_l") == 1
    assert share("keeps", "revs", 3) == 1 / 3 and share("keeps", "revs", 1) == 1
    assert math.isnan(share("significant", 0.05))
    found.pop("ft_l"), found.pop("memit")
    assert math.isnan(share("keeps", "revs", 1))


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
