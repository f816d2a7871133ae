"""Intervals cover what they should, pairs are pairs, and three seeds decide nothing."""

import numpy as np
import pandas as pd
import pytest

from companion.analysis import statistics
from companion.analysis.tables import DASH


@pytest.mark.filterwarnings("error")
def test_six_pairs_can_reach_a_thirty_second_and_three_nothing():
    ours = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75]
    theirs = [value - 0.1 - i / 100 for i, value in enumerate(ours)]
    assert statistics.signed_rank(ours, theirs) == pytest.approx(2 / 64)
    assert statistics.p_text(2 / 64) == "0.031"
    same, few = statistics.signed_rank(ours, ours), statistics.signed_rank(ours[:3], theirs[:3])
    assert np.isnan(same) and few is None
    assert statistics.p_text(same) == statistics.p_text(few) == DASH


def secrets(values, first=0):
    """One run's values, secret by secret."""
    return pd.DataFrame({0: values}, index=[f"s{first + i:03d}" for i in range(len(values))])


def test_an_interval_is_the_middle_of_a_sample():
    assert statistics.interval(np.arange(1001) / 1000) == pytest.approx((0.025, 0.975))


def test_shares_on_which_all_items_agree_have_an_interval_too():
    """The first two by hand; the third is the example in Newcombe (1998), Table II (a)."""
    z2 = 1.959964**2
    assert statistics.wilson(0, 20) == pytest.approx((0, z2 / (20 + z2)))
    assert statistics.wilson(1, 20) == pytest.approx((20 / (20 + z2), 1))
    found = statistics.newcombe(56 / 70, 70, 48 / 80, 80)
    assert found == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_a_sample_is_centred_on_the_score_and_narrows_with_the_number_of_secrets():
    random, widths = np.random.default_rng(0), []
    for n in (20, 320):
        values = {
            "efficacy": secrets(random.uniform(0.5, 0.9, n)),
            "specificity": secrets(random.uniform(0.8, 1, n), n),
        }
        sample = statistics.harmonic_samples(values)[:, 0]
        low, high = statistics.interval(sample)
        score = statistics.harmonic_mean(np.array([one[0].mean() for one in values.values()]))
        assert low < score < high and len(sample) == statistics.DRAWS
        widths.append(high - low)
    assert widths[0] > 3 * widths[1]


def test_runs_are_drawn_with_the_same_secrets_and_nought_stays_nought():
    values = secrets(np.linspace(0.1, 0.8, 20))
    frame = pd.DataFrame({"worse": values[0], "better": values[0] + 0.1, "none": 0 * values[0]})
    worse, better, nought = statistics.harmonic_samples({"efficacy": frame}).T
    assert np.allclose(better - worse, 0.1) and (nought == 0).all()


def test_a_metric_that_a_run_lacks_is_left_out_of_its_mean():
    one = secrets([0.5] * 4)
    lacking = secrets([np.nan] * 4)
    assert np.allclose(statistics.harmonic_samples({"a": one, "b": lacking}), 0.5)


def test_adapters_and_splits_are_drawn_together_and_a_single_one_is_kept():
    frame = pd.DataFrame({"adapter": ["a", "a", "b", "b"], "split": [1, 2, 1, 2]})
    weights = statistics.cell_weights(frame)
    assert weights.shape == (statistics.DRAWS, 4) and set(weights.sum(axis=1)) == {4}
    assert (statistics.cell_weights(frame[:1]) == 1).all()
    samples = np.tile([0.0, 0.0, 1.0, 1.0], (statistics.DRAWS, 1))
    mean = (samples * weights).sum(axis=1) / weights.sum(axis=1)
    assert set(np.round(mean, 6)) == {0.0, 0.5, 1.0}  # two adapters: both, or one of them twice


def test_the_bootstrap_of_cells_covers_the_truth_most_of_the_time():
    """fair: “In a simulation of four adapters, about four in five contained the true difference
    with one split and about nine in ten with two, fewer where one split is harder than another.”
    Two adapters with two splits are as bad as four with one; more of both help."""

    def covered(adapters: int, splits: int, harder: float = 0) -> float:
        draw, others, held = *map(np.random.default_rng, (0, 1)), 0
        every = [(a, s) for a in range(adapters) for s in range(splits)]
        cells = pd.DataFrame(every, columns=["adapter", "split"])
        weights = statistics.cell_weights(cells)
        for _ in range(300):
            values = draw.normal(size=adapters)[cells["adapter"]] + draw.normal(size=len(cells))
            values += harder * others.normal(size=splits)[cells["split"]]
            sample = weights @ values / weights.sum(axis=1)
            low, high = statistics.interval(sample)
            held += low <= 0 <= high
        return held / 300

    assert all(0.75 < covered(*design) < 0.85 for design in ((2, 2), (4, 1)))
    assert 0.87 < covered(4, 2) < 0.93
    assert all(covered(*one, harder=1) < covered(*one) - 0.05 for one in ((4, 1), (4, 2)))
    assert covered(2, 1) < 0.6 and 0.85 < covered(4, 4) < 0.99


def test_a_p_counts_the_draws_on_the_rarer_side_of_nought():
    sample = np.array([-1.0] * 4 + [1.0] * 95 + [np.nan])
    assert statistics.two_sided(sample) == statistics.two_sided(-sample) == 2 * 5 / 100
    assert statistics.two_sided(np.zeros(99)) == 1


def test_holm_multiplies_the_smallest_most_and_never_falls():
    p = pd.Series({"a": 0.04, "b": 0.01, "c": 0.03})
    assert statistics.holm(p).to_dict() == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})
