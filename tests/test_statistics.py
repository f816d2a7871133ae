"""Intervals cover what they should, pairs are pairs, and three seeds decide nothing."""

import numpy as np
import pandas as pd
import pytest

from companion.pages import extraction, results, statistics
from companion.pages.tables import percent
from companion.runs import methods
from revs.measures.attacks import ATTACKS
from revs.measures.metrics import harmonic_mean


def test_six_pairs_can_reach_a_thirty_second_and_three_nothing():
    ours = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75]
    assert statistics.signed_rank(
        ours, [value - 0.1 - i / 100 for i, value in enumerate(ours)]
    ) == pytest.approx(2 / 64)
    assert statistics.signed_rank(ours[:3], [0, 0, 0]) is None


@pytest.mark.filterwarnings("error")
def test_pairs_that_do_not_differ_have_no_p():
    """Two methods at nought on every seed: no number, and nothing said on the way."""
    p = statistics.signed_rank([0.0] * 6, [0.0] * 6)
    assert (
        np.isnan(p)
        and statistics.shown(p) == statistics.shown(None) == "–"
        and statistics.shown(2 / 64) == "0.031"
    )


def test_an_interval_is_the_middle_of_a_sample():
    assert statistics.interval(np.arange(1001) / 1000) == pytest.approx((0.025, 0.975))


def series(values, first=0):
    return pd.Series(values, index=[f"s{first + i:03d}" for i in range(len(values))], dtype=float)


def test_a_sample_is_centred_on_the_score_and_narrows_with_the_number_of_secrets():
    random, widths = np.random.default_rng(0), []
    for n in (20, 320):
        found = {
            "efficacy": series(random.uniform(0.5, 0.9, n)),
            "generalization": series(random.uniform(0.4, 0.8, n)),
            "specificity": series(random.uniform(0.8, 1, n), n),
        }
        (drawn,) = statistics.samples([found])
        assert all(
            drawn[metric].mean() == pytest.approx(values.mean(), abs=0.01)
            for metric, values in found.items()
        )
        low, high = statistics.interval(drawn["unlearning_score"])
        assert (
            low < harmonic_mean([values.mean() for values in found.values()]) < high
            and len(drawn["efficacy"]) == statistics.DRAWS
        )
        widths.append(high - low)
    assert widths[0] > 3 * widths[1]


def test_methods_and_seeds_are_compared_on_the_same_secrets():
    """A method that is better by the same amount on every secret leads in every sample; a secret in two seeds is drawn for both."""
    worse = {
        "efficacy": series(np.linspace(0.1, 0.8, 20)),
        "specificity": series(np.linspace(0.5, 0.9, 20), 20),
    }
    better = worse | {"efficacy": worse["efficacy"] + 0.1}
    one, other, again = statistics.samples([worse, better, worse])
    assert (other["unlearning_score"] > one["unlearning_score"]).all() and (
        one["efficacy"] == again["efficacy"]
    ).all()
    assert (
        statistics.samples(
            [{"efficacy": series(np.zeros(20)), "specificity": series(np.ones(20), 20)}]
        )[0]["unlearning_score"]
        == 0
    ).all() and statistics.samples([]) == []


def test_recorded_runs_are_read_secret_by_secret():
    """The means over secrets are the row's own results, and the table has a line for each method."""
    frame = results.runs("smollm2-135m", "ssn")
    for row in frame.loc[frame["origin"] == "recorded", "row"].tolist()[:4]:
        found, after = statistics.by_secret(row), row["result"]["after"]
        assert {name: float(values.mean()) for name, values in found.items()} == pytest.approx(
            {name: after[name] for name in ("efficacy", "generalization", "specificity")}
        )
        assert len(found["efficacy"]) == len(found["generalization"]) == after["forget"]
    whole = statistics.intervals([row])
    assert (
        set(whole) == {*found, "unlearning_score"}
        and all(low <= after[metric] <= high for metric, (low, high) in whole.items())
        and statistics.intervals([]) == {}
    )
    for reading in ("per_example", "union", "token_wise"):
        resisted, attacked = statistics.resisted(row, reading), row["result"]["attacks"]
        assert {
            attack: float(values.mean()) for attack, values in resisted.items()
        } == pytest.approx({attack: attacked[attack][reading] for attack in ATTACKS})
        assert set(resisted["delta"].index) == set(found["efficacy"].index)
    resistance = statistics.resistance(frame, "union").set_index("method")
    for name, (mean, _) in {
        name: values["resistance_score"]
        for name, values in extraction.means(frame, "union").items()
    }.items():
        line = resistance.loc[methods.registry()[name]["title"]]
        low, high = (float(end) for end in line["interval"].split(" to "))
        assert line["Resistance Score"] == percent(mean) and low <= 100 * mean <= high
    assert (
        resistance.loc["REVS", "REVS's lead"]
        == "–"
        != resistance.loc["MEMIT", "interval of the lead"]
    )
    table = statistics.table(frame).set_index("method")
    assert table.loc["REVS", "REVS's lead"] == "–" and (
        frame["seed"].nunique() > 5 or set(table["p over seeds"]) == {"–"}
    )
