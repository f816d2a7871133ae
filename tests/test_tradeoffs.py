"""Curves of trade-offs and claims about them come out of runs as they are named (§5.1)."""

import pandas as pd
import pytest
from test_ablations import MODEL, shelf  # noqa: F401

from companion.analysis import tradeoffs
from companion.store import paper, rows
from revs.measures import attacks

KNOBS = tradeoffs.KNOBS


@pytest.fixture
def put(shelf, monkeypatch):  # noqa: F811
    """put(method, tag, value, …): a run of seed 0 with this value of its knob, or of others."""
    ranks = {}
    monkeypatch.setattr(rows, "per_example", lambda row, *columns: ranks[row["name"]])

    def one(method, tag, value=None, ranks_left=None, **given):
        start, _, end = tag.partition("-")
        if end and value is None:
            given |= {"overrides": {"forget": int(end)}, "targets": int(end)}
        elif end:
            given |= {"overrides": {KNOBS[method]: value}}
        row = shelf(tag, method, given={KNOBS[method]: value or 0.02}, **given)
        forgotten = {"part": "forget", "ranks": ranks_left or (200, 0, 7), "T": [0, 1]}
        ranks[row["name"]] = pd.DataFrame([forgotten, forgotten | {"part": "retain"}])

    return one


def judge(kind, *given):
    """What a claim of this kind is told, and how many rows are behind it; None without curves."""
    found = getattr(tradeoffs, kind)(MODEL, "ssn", *given)
    return found and (*found[:2], len(found[2]))


def test_efficacy_falls_with_the_number_of_candidates(put):
    put("revs", "", seed=1, ranks_left=(50, 10, 0))
    put("revs", "", seed=2, ranks_left=(150, 10, 0))
    curve = tradeoffs.by_candidates(MODEL, "ssn")["revs"].set_index("|C|")
    assert list(curve.loc[[10, 100, 200], "efficacy"].round(6)) == [100, 75, 50]
    assert curve.loc[100, "std"] == pytest.approx(35.355, abs=1e-3)


def test_a_knob_has_its_runs_and_the_tuned_one_in_order(put):
    put("revs", "curve-r_h0.05", 0.05)
    put("revs", "base")
    put("revs", "curve-r_h0.006", 0.006)
    put("revs", "targets-5")
    put("revs", "qualitative")
    put("ft_l", "strength", 0.1)
    found = tradeoffs.by_strength(MODEL, "ssn")
    assert list(found) == ["revs"] and list(found["revs"]["knob"]) == [0.006, 0.02, 0.05]
    assert list(found["revs"]["tuned"]) == [False, True, False]
    put("ft_l", "strength-norm_constraint0.0001", 0.0001)
    put("ft_l", "strength-norm_constraint0.4", 0.4, failed="FT-L diverged.")
    assert list(tradeoffs.by_strength(MODEL, "ssn")["ft_l"]["knob"]) == [0.0001, 0.1]
    assert list(tradeoffs.by_targets(MODEL, "ssn")["revs"]["targets"]) == [5, 20]
    points = tradeoffs.points(tradeoffs.by_strength, MODEL)
    assert len(points) == 5 and set(points["panel"]) == {"SSN, SmolLM2-135M-Instruct"}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("dominates", ("revs", "ft_l")),
        ("reaches", ("revs", "specificity", 95)),
        ("keeps", ("revs", "specificity", 80)),
        ("above", ("revs", "ft_l")),
        ("stays", ("revs", 95)),
        ("steadier", ("revs", "ft_l", 10)),
        ("declines", ("revs", "ft_l")),
        ("begins", ("revs", 95)),
        ("leads", ("revs", "ft_l")),
        ("weakest", ("10 letters",)),
    ],
)
def test_a_claim_is_not_judged_without_rows(put, kind, given):
    assert judge(kind, *given) is None


def test_claims_about_strength_are_judged_from_rows(put):
    put("revs", "base", efficacy=0.5, specificity=0.9)
    put("revs", "curve-r_h0.05", 0.05, efficacy=0.9, specificity=0.5)
    put("ft_l", "strength", 0.1, efficacy=0.5, specificity=0.8)
    put("ft_l", "strength-norm_constraint0.4", 0.4, efficacy=0.6, specificity=0.6)
    assert judge("dominates", "revs", "ft_l") == (False, "1 of 2 points", 4)
    put("ft_l", "strength-norm_constraint0.9", 0.9, efficacy=0.95, specificity=0.0)
    put("ft_l", "strength-norm_constraint0.4", 0.4, efficacy=0.6, specificity=0.5)
    assert judge("dominates", "revs", "ft_l") == (True, "2 of 2 points, 1 more beyond its own", 5)
    assert judge("reaches", "revs", "specificity", 90) == (True, "90.0 at most", 2)
    assert judge("reaches", "revs", "efficacy and specificity", 51) == (False, "50.0 at most", 2)
    assert judge("keeps", "revs", "specificity", 50) == (True, "50.0 at least", 2)
    assert judge("keeps", "revs", "specificity", 51)[0] is False


def test_claims_about_candidates_are_judged_from_rows(put):
    put("revs", "", seed=1, ranks_left=(50, 10, 0))
    put("ft_l", "", seed=1, ranks_left=(40, 10, 0))
    assert judge("above", "revs", "ft_l") == (True, "lower at 0 of 12 sizes", 2)
    assert judge("above", "ft_l", "revs")[0] is False and judge("above", "revs", "memit") is None
    least = 50 / 5000 * 100 + 0
    assert judge("stays", "revs", 0.01)[0] is True and judge("stays", "revs", least + 1)[0] is False


def test_claims_about_targets_are_judged_from_rows(put):
    for method, targets, score in (
        ("revs", 20, 0.8),
        ("revs", 5, 0.9),
        ("ft_l", 20, 0.7),
        ("ft_l", 5, 0.95),
        ("ft_l", 10, 0.99),
        ("memit", 30, 0.1),
        ("memit", 40, 0.2),
    ):
        tag = tradeoffs.TAGS[method] if targets == 20 else f"targets-{targets}"
        put(method, tag, efficacy=score, specificity=score)
    assert judge("steadier", "revs", "ft_l", 11) == (True, "10.0 against 29.0 points", 5)
    assert judge("steadier", "revs", "ft_l", 9)[0] is judge("steadier", "ft_l", "revs", 99)[0]
    assert judge("declines", "revs", "ft_l") == (True, "REVS 90.0 to 80.0, FT-L 95.0 to 70.0", 5)
    assert judge("declines", "memit")[0] is False
    assert judge("begins", "revs", 89) == (True, "90.0 with 5 targets", 2)
    assert judge("begins", "revs", 91)[0] is False
    assert judge("leads", "revs", "ft_l") == (False, "higher at 1 of 2 numbers", 5)
    assert judge("leads", "revs", "memit") is None  # at no number both


def test_the_best_way_to_change_a_prompt_is_one_that_changes_it(shelf):  # noqa: F811
    """A prompt as it is does not count, nor does a model on which all ways are equal; among equals
    each is the best."""
    assert attacks.STRATEGIES[tradeoffs.UNCHANGED] == ("", 0, "")
    ways = ("none", "10 spaces", "10 letters", "30 spaces")
    for name, left in (
        ("memit", (0.5, 1.0, 1.0, 1.0)),
        ("unedited", (0.0, 0.1, 0.2, 0.3)),
        ("ft_l", (0.5, 0.8, 0.8, 0.9)),
        ("revs", (0.1, 0.95, 0.9, 1.0)),
    ):
        found = {way: {"released": value} for way, value in zip(ways, left, strict=True)}
        shelf("perturbations", name, perturbations=found)
    said = "FT-L 10 spaces and 10 letters (80.0), REVS 10 letters (90.0)"
    assert judge("weakest", "10 letters") == (True, said, 2)
    assert judge("weakest", "10 spaces")[0] is judge("weakest", "none")[0] is False


def test_every_panel_of_the_paper_is_one_of_three_kinds():
    """The notebook finds the curves of a panel by its label."""
    labels = [label for one in paper.tables()["figures"].values() for label in one["panels"]]
    for label in labels:
        assert sum(kind in label for kind in ("c_size", "specificity", "targets")) == 1
        assert sum(f"_{word}" in label for word in ("ssn", "email", "url")) == 1
    assert len(labels) == 15
