"""Intervals cover what they should, pairs are pairs, and three seeds decide nothing."""

import numpy as np
import pandas as pd
import pytest

from companion.analysis import extraction, results, statistics
from companion.analysis.tables import DASH
from revs.measures.attacks import ATTACKS
from revs.measures.metrics import harmonic_mean

MODEL = "smollm2-135m"


@pytest.mark.filterwarnings("error")
def test_six_pairs_can_reach_a_thirty_second_and_three_nothing():
    ours = [0.9, 0.8, 0.85, 0.95, 0.7, 0.75]
    theirs = [value - 0.1 - i / 100 for i, value in enumerate(ours)]
    assert statistics.signed_rank(ours, theirs) == pytest.approx(2 / 64)
    assert statistics.p_text(2 / 64) == "0.031"
    same, few = statistics.signed_rank(ours, ours), statistics.signed_rank(ours[:3], theirs[:3])
    assert np.isnan(same) and few is None
    assert statistics.p_text(same) == statistics.p_text(few) == DASH


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
        for metric, values in found.items():
            assert drawn[metric].mean() == pytest.approx(values.mean(), abs=0.01)
        low, high = statistics.interval(drawn["unlearning_score"])
        assert low < harmonic_mean([values.mean() for values in found.values()]) < high
        assert len(drawn["efficacy"]) == statistics.DRAWS
        widths.append(high - low)
    assert widths[0] > 3 * widths[1]


def test_methods_and_seeds_are_compared_on_the_same_secrets():
    """What is better by as much on every secret leads in every sample; nought stays nought."""
    efficacy, kept = series(np.linspace(0.1, 0.8, 20)), series(np.linspace(0.5, 0.9, 20), 20)
    worse, better = ({"efficacy": efficacy + more, "specificity": kept} for more in (0, 0.1))
    one, other, again = statistics.samples([worse, better, worse])
    assert (other["unlearning_score"] > one["unlearning_score"]).all()
    assert (one["efficacy"] == again["efficacy"]).all()
    (nought,) = statistics.samples([{"efficacy": efficacy * 0, "specificity": kept}])
    assert (nought["unlearning_score"] == 0).all() and statistics.samples([]) == []


def test_recorded_runs_are_read_secret_by_secret():
    """The means over secrets are the row's own results, and the tables' intervals hold them."""
    runs = results.runs(MODEL, "ssn")
    for row in runs["row"][:2]:
        found, after = statistics.by_secret(row), row["result"]["after"]
        for name in ("efficacy", "generalization", "specificity"):
            assert found[name].mean() == pytest.approx(after[name])
        assert len(found["efficacy"]) == len(found["generalization"]) == after["forget"]
        for metric, (low, high) in statistics.intervals([row]).items():
            assert low <= after[metric] <= high
        for reading in ("per_example", "union", "token_wise"):
            for attack, values in statistics.resisted(row, reading).items():
                expected = row["result"]["attacks"][attack][reading]
                assert attack in ATTACKS and values.mean() == pytest.approx(expected)
                assert set(values.index) == set(found["efficacy"].index)
    scores = extraction.scores(runs).query("reading == 'union' and metric == 'Resistance Score'")
    tables = {
        "Resistance Score": (statistics.resistance(runs, "union"), scores),
        "Unlearning Score": (
            statistics.table(runs),
            results.scores(runs).query("metric == 'Unlearning Score'"),
        ),
    }
    for title, (table, expected) in tables.items():
        table = table.set_index("method")
        for method, mean in zip(expected["method"], expected["mean"], strict=True):
            low, high = map(float, table.loc[method, "interval"].split(" to "))
            assert table.loc[method, title] == f"{mean:.1f}" and low - 0.1 <= mean <= high + 0.1
        assert table.loc["REVS", "REVS's lead"] == DASH != table.loc["MEMIT", "REVS's lead"]
    assert statistics.intervals([]) == {}
    for run in extraction.joint(runs).head(2).itertuples():
        parts = statistics.in_all(run.row)
        names = {name for values in statistics.leaves(parts) for name in values.index}
        once = pd.DataFrame(1, index=[0], columns=sorted(names))
        assert statistics.over(parts, once) == pytest.approx(run.joint)


def test_a_lead_pairs_runs_of_one_fine_tune_and_one_seed():
    """Two methods that differ by as much in every cell of two fine-tunes and three seeds have the p
    of six pairs, and not of the twelve that seeds alone would make."""
    cells = [(tune, seed) for tune in ("a", "b") for seed in (1, 2, 3)]
    frame = pd.DataFrame(
        [
            {"data": "ssn", "method": method, "finetune": tune, "seed": seed, "score": score}
            for place, (tune, seed) in enumerate(cells)
            for method, score in (("revs", 0.5 + place / 100), ("memit", 0.4))
        ]
    ).assign(row=lambda runs: runs["score"])
    found = statistics.compared(frame, lambda score: {"score": series([score] * 3)})
    line = statistics.leads(found, "score").set_index("method").loc["MEMIT"]
    assert line["p over runs"] == statistics.p_text(2 / 64) and line["REVS's lead"] == "12.5"
    assert line["interval of the lead"] == "12.5 to 12.5"
    found = found.set_index("method")
    assert found.loc["memit", "p_drawn"] == pytest.approx(2 / (statistics.DRAWS + 1))
    assert found.loc["memit", ["lead", "lead_low", "lead_high"]].tolist() == pytest.approx(
        [0.125] * 3
    )
    assert found.loc["revs", ["score", "low", "high"]].tolist() == pytest.approx([0.525] * 3)
    assert found.loc["revs", ["lead", "lead_low", "p_drawn", "p"]].isna().all()


def test_a_p_over_secrets_counts_the_samples_on_the_rarer_side_of_nought():
    sample = np.array([-1.0] * 4 + [1.0] * 95 + [np.nan])
    assert statistics.two_sided(sample) == statistics.two_sided(-sample) == 2 * 5 / 100
    assert statistics.two_sided(np.zeros(99)) == 1
