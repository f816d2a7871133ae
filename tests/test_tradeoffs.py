"""Curves of trade-offs and claims about them come out of runs as they are named (§5.1)."""

import pytest

from companion.analysis import tradeoffs

MODEL, KNOBS = "smollm2-135m", tradeoffs.KNOBS


@pytest.fixture
def put(add_row):
    """put(method, tag, value, …): a run of seed 0 with this value of its knob, or of others."""

    def one(method, tag, value=None, **given):
        end = tag.partition("-")[2]
        if end and value is None:
            given |= {"overrides": {"forget": int(end)}, "targets": int(end)}
        elif end:
            given |= {"overrides": {KNOBS[method]: value}}
        given = {"targets": 20} | given
        add_row(tag, method, hyperparameters={KNOBS[method]: value or 0.02}, **given)

    return one


def test_efficacy_falls_with_the_number_of_candidates(put):
    put("revs", "", seed=1, ranks=(50, 10))
    put("revs", "", seed=2, ranks=(150, 10))
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
