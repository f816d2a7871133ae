"""Intervals cover what they should, pairs are pairs, and three seeds decide nothing."""

import numpy as np
import pytest

from revs import results, statistics
from revs.metrics import harmonic_mean


def test_six_pairs_can_reach_a_thirty_second_and_three_nothing():
    ours = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75]
    assert statistics.signed_rank(ours, [value - 0.1 - i / 100 for i, value in enumerate(ours)]) == pytest.approx(2 / 64)
    assert statistics.signed_rank(ours[:3], [0, 0, 0]) is None


def test_an_interval_is_the_middle_of_a_sample():
    assert statistics.interval(np.arange(1001) / 1000) == pytest.approx((0.025, 0.975))


def test_a_sample_is_centred_on_the_score_and_narrows_with_the_number_of_secrets():
    random, widths = np.random.default_rng(0), []
    for n in (20, 320):
        found = {"efficacy": random.uniform(0.5, 0.9, n), "generalization": random.uniform(0.4, 0.8, n), "specificity": random.uniform(0.8, 1, n)}
        samples = statistics.draws(found, 1)
        sample = samples["unlearning_score"]
        assert all(sample_of.mean() == pytest.approx(found[metric].mean(), abs=0.01) for metric, sample_of in samples.items() if metric in found)
        low, high = statistics.interval(sample)
        assert low < harmonic_mean([values.mean() for values in found.values()]) < high and len(sample) == statistics.DRAWS
        widths.append(high - low)
    assert widths[0] > 3 * widths[1]


def test_methods_are_compared_on_the_same_samples():
    """A method that is better by the same amount on every secret leads in every sample."""
    worse = {"efficacy": np.linspace(0.1, 0.8, 20), "specificity": np.full(20, 0.9)}
    better = worse | {"efficacy": worse["efficacy"] + 0.1}
    assert (statistics.draws(better, 3)["unlearning_score"] > statistics.draws(worse, 3)["unlearning_score"]).all()
    assert (statistics.draws({"efficacy": np.zeros(5), "specificity": np.ones(5)}, 0)["unlearning_score"] == 0).all()


def test_recorded_runs_are_read_secret_by_secret():
    """The means over secrets are the row's own results, and the table has a line for each method."""
    frame = results.runs("smollm2-135m", "ssn")
    for row in frame.loc[frame["origin"] == "recorded", "row"].tolist()[:4]:
        found, after = statistics.by_secret(row), row["result"]["after"]
        assert {name: float(values.mean()) for name, values in found.items()} == pytest.approx({name: after[name] for name in ("efficacy", "generalization", "specificity")})
        assert len(found["efficacy"]) == len(found["generalization"]) == after["forget"]
    whole = statistics.intervals([row])
    assert set(whole) == {*found, "unlearning_score"} and all(low <= after[metric] <= high for metric, (low, high) in whole.items()) and statistics.intervals([]) == {}
    table = statistics.table(frame).set_index("method")
    assert table.loc["REVS", "REVS's lead"] == "–" and (frame["seed"].nunique() > 5 or set(table["p over seeds"]) == {"–"}) and float(table.loc["MEMIT", "REVS's lead"]) > 0
