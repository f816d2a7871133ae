"""Fine-tunes and splits as sources of variance, and differences that are sure of both."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from companion.analysis import contest, results
from companion.analysis.tables import DASH
from companion.experiments import methods
from companion.plots import figures
from companion.store import rows
from companion.workflow import record, sweep

MODEL = "smollm2-135m"
PAPERS = methods.of_paper()


def made(score, methods=("revs", "memit", "ft_l"), F=4, S=3, data="ssn") -> pd.DataFrame:
    """A frame of runs whose scores are score(method number, fine-tune, split)."""
    lines = [
        {"data": data, "method": name, "learned": f, "seed": s, "unlearning_score": score(m, f, s)}
        for m, name in enumerate(methods)
        for f in range(F)
        for s in range(S)
    ]
    return pd.DataFrame(lines).sample(frac=1, random_state=0)


def test_each_source_alone_brings_all_of_the_variance():
    for source, score in {
        "method": lambda m, f, s: 0.1 * m,
        "fine-tune": lambda m, f, s: 0.1 * f,
        "split": lambda m, f, s: 0.1 * s,
        "method × fine-tune": lambda m, f, s: 0.1 * (m - 1) * (-1) ** f,
    }.items():
        found = contest.components(made(score))
        assert found[source] > 5 and (found.drop(source) < 1e-6).all(), source


def test_components_are_those_that_were_drawn():
    """On average over many draws; and what is not fully crossed is left out."""
    draw, found = np.random.default_rng(0), []
    for _ in range(60):
        f, s, e = draw.normal(0, 0.04, 8), draw.normal(0, 0.02, 6), draw.normal(0, 0.03, (4, 8, 6))
        frame = made(lambda m, i, j: 0.5 + f[i] + s[j] + e[m, i, j], "abcd", 8, 6)  # noqa: B023
        found.append(contest.components(frame))
    mean = pd.DataFrame(found).pow(2).mean() ** 0.5
    assert mean["fine-tune"] == pytest.approx(4, rel=0.15)
    assert mean["split"] == pytest.approx(2, rel=0.25)
    assert mean["rest"] == pytest.approx(3, rel=0.1) and mean["method"] < 1
    assert contest.components(frame[frame["learned"] < 1]).empty


def test_an_unfinished_contest_is_looked_at_as_far_as_it_is_complete():
    """A fine-tune with few runs, one without a split, a method that failed in a cell."""
    draw = np.random.default_rng(0)
    frame = made(lambda m, f, s: 0.5 + draw.normal(0, 0.1), F=3)
    gone = lambda **at: np.logical_and.reduce([frame[key] == value for key, value in at.items()])
    begun = frame[~gone(learned=2) | gone(learned=2, seed=0, method="revs")]
    assert contest.cells(begun).shape == (3, 6)
    assert not contest.components(begun).empty and len(contest.against(begun)) == 2
    assert contest.cells(frame[~gone(learned=2, seed=2)]).shape == (3, 6)  # two splits of three
    failed = frame[~gone(learned=0, seed=0, method="memit")]
    assert contest.cells(failed).shape in ((2, 9), (3, 6)) and len(contest.cells(failed)) >= 2
    assert contest.cells(frame[:0]).empty and contest.components(frame[:0]).empty


def test_the_largest_complete_grid_is_found():
    """The same as among all choices of fine-tunes and splits, whichever runs are missing."""
    draw = np.random.default_rng(0)
    some = lambda values: [
        part for n in range(1, len(values) + 1) for part in itertools.combinations(values, n)
    ]
    for _ in range(20):
        frame = made(lambda m, f, s: 0.1 * m, "abc", F=4)
        frame = frame[draw.random(len(frame)) < 0.8]
        there = frame.groupby(["learned", "seed"])["method"].agg(set)
        sizes = [0]
        for cells in itertools.product(some(range(4)), some(range(3))):
            cells = list(itertools.product(*cells))
            both = set.intersection(*(there.get(cell, set()) for cell in cells))
            sizes.append(len(both) * len(cells))
        assert contest.cells(frame).size == max(sizes)


def test_a_contest_judges_once_enough_methods_are_on_enough_fine_tunes_and_splits():
    """REVS among them; a method that lacks a cell has no part, nor has one that is not the
    paper's."""
    frame = made(lambda m, f, s: 0.1 * m, [*PAPERS, "random"])
    of = lambda frame: contest.whole(frame)
    few = (frame["method"] == "random") & (frame["learned"] > 0)
    assert len(of(frame)) == len(frame) and len(of(frame[~few])) == len(frame) - few.sum()
    variant = frame[frame["method"] == "revs"].assign(method="revs_ridge")
    more = pd.concat([frame, variant[variant["learned"] > 0]], ignore_index=True)
    assert len(of(more)) == len(frame)
    for gone in ({"learned": 3}, {"seed": 0}, {"method": "revs"}, {"method": "revs", "learned": 1}):
        mask = np.logical_and.reduce([frame[key] == value for key, value in gone.items()])
        assert of(frame[~mask]).empty, gone
    rmu = frame["method"] == "rmu"
    large = made(lambda m, f, s: 0.1 * m, PAPERS, F=9)  # more than twice as many
    fewer = of(large[~(large["method"].eq("rmu") & (large["learned"] > 3))])
    tunes = fewer.groupby("method")["learned"].nunique()
    assert tunes.pop("rmu") == 4 and set(tunes) == {9} and len(tunes) == len(PAPERS) - 1
    compared = contest.against(fewer).set_index("method")
    assert compared.loc["rmu", "tunes"] == 4 and compared.loc["memit", "tunes"] == 9
    assert len(of(large)) == len(large) == len(fewer) + 15
    for gone in (rmu, rmu & (frame["learned"] == 1)):
        assert set(of(frame[~gone])["method"]) == {*frame["method"]} - {"rmu"}
        assert contest.shaped(contest.cells(of(frame[~gone]))) == (4, 3)
    assert of(frame[~frame["method"].isin(["rmu", "npo_kl", "ft_l"])]).empty
    more = frame[(frame["seed"] == 0) & (frame["method"] == "revs")].assign(seed=9)
    begun = pd.concat([frame, more], ignore_index=True)
    assert len(of(begun)) == len(frame) and of(frame[:0]).empty


def test_until_then_older_runs_judge(shelf):
    """And one data set's contest says nothing of another's."""
    for data in ("ssn", "emails"):
        shelf(data=data, seed=1)
    for number in range(4):
        assert set(contest.judging(MODEL, "ssn", "emails")["tag"]) == {""}
        for name in PAPERS:
            for seed in (1, 2, 3):
                shelf(tag=f"round{number or ''}", method=name, seed=seed, efficacy=0.2 * number)
    found = contest.judging(MODEL, "ssn", "emails").set_index("data")["tag"]
    assert found["emails"] == "" and set(found["ssn"]) == {"round", "round1", "round2", "round3"}
    with pytest.raises(ValueError, match="no rows of gptj-small on ssn"):
        contest.judging("gptj-small", "ssn")


def test_an_interval_is_that_of_the_mean_over_both():
    values = made(lambda m, f, s: 0.1 * f + 0.01 * s).set_index(["method", "learned", "seed"])
    values = values["unlearning_score"]
    low, high = contest.interval(values["revs"])
    assert low < values["revs"].mean() < high and high - low > 0.1
    assert contest.interval(values["revs"] - values["memit"]) == (0, 0)
    revs = values["revs"].sort_index()
    fewer = revs.drop([(0, 1), (1, 0), (1, 1), (1, 2)])  # as controls may have
    assert contest.interval(fewer) == pytest.approx(contest.interval(revs.loc[2:]))
    assert contest.interval(revs[revs.index.get_level_values("seed") == 0]) == (0, 0)  # one split


def test_controls_that_cannot_vary_are_no_source_of_variance():
    score = lambda m, f, s: 0.0 if m > 1 else 0.5 + 0.1 * f
    frame = made(score, ("revs", "memit", "unedited", "random"))
    found = contest.components(frame)
    assert found["fine-tune"] == pytest.approx(12.9, rel=0.01) and found["method"] == 0
    assert set(contest.against(frame)["method"]) == {"memit"}


@pytest.mark.parametrize("of_tune, of_split", [(0, 0), (4, 0), (1, 0.5), (4, 1), (1, 2)])
def test_an_interval_of_a_difference_covers_the_truth_as_often_as_it_says(of_tune, of_split):
    """Whatever fine-tunes and splits do; one that counts every run as independent does not."""
    draw, held, naive, N = np.random.default_rng(1), 0, 0, 1500
    for _ in range(N):
        noise = draw.normal(0, 1, (4, 3))
        d = 5 + draw.normal(0, of_tune, (4, 1)) + draw.normal(0, of_split, (1, 3)) + noise
        mean, low, high, p = contest.difference(d)
        held += low <= 5 <= high
        naive += abs(mean - 5) <= 1.96 * d.std(ddof=1) / d.size**0.5
        assert (p < 0.05) == (not low <= 0 <= high)
    assert 0.935 <= held / N <= 0.985 and (naive / N < 0.8 or not of_tune + of_split > 2)


def test_without_variance_of_splits_it_is_a_t_test_of_fine_tunes():
    d = np.random.default_rng(0).normal(3, 1, (4, 1)) + np.array([[0.5, -0.5], [-0.5, 0.5]] * 2)
    assert contest.difference(d)[3] == pytest.approx(ttest_1samp(d.mean(1), 0).pvalue)


def test_the_same_everywhere_has_no_p():
    mean, low, high, p = contest.difference(np.full((4, 3), 2.0))
    assert mean == low == high == 2 and np.isnan(p)


def test_corrected_p_grow_with_the_number_of_comparisons():
    p = pd.Series({"a": 0.01, "b": 0.04, "c": 0.03})
    assert contest.holm(p).to_dict() == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})


def test_methods_stand_beside_revs_on_the_same_fine_tunes_and_splits():
    """The others' scores are on their own fine-tunes' level; differences are not."""
    frame = made(lambda m, f, s: 0.5 + 0.1 * f + 0.01 * ((f + s) % 3) - 0.2 * m)
    found = contest.against(frame).set_index("method")
    assert found["mean"].to_dict() == pytest.approx({"memit": -20, "ft_l": -40})
    assert contest.against(frame[frame["seed"] == 0]).empty
    assert contest.against(frame[frame["method"] != "revs"]).empty
    draw = np.random.default_rng(0)
    frame["unlearning_score"] += draw.normal(0, 0.01, len(frame))
    text = contest.table(frame).set_index("method")
    assert text.loc["REVS", "above REVS"] == DASH and set(text["data"]) == {"SSN"}
    assert text["above REVS"].drop("REVS").str.startswith("-").all()
    means = 100 * frame.groupby("method")["unlearning_score"].mean().rename(figures.title)
    assert text["score"].astype(float).to_dict() == pytest.approx(means.to_dict(), abs=0.1)
    low, high = map(float, text.loc["REVS", "its interval"].split(" to "))
    assert low < float(text.loc["REVS", "score"]) < high
    other = frame.rename(columns={"unlearning_score": "resistance_score"})
    assert contest.table(other, "resistance_score").equals(contest.table(frame))
    assert contest.table(frame[:0]).empty and contest.table(frame[frame["seed"] == 0]).empty


def test_a_contest_in_words():
    """Best first; every other method is on one side of REVS, or undecided."""
    draw = np.random.default_rng(0)
    shift = {"revs": 0.0, "memit": 0.2, "ft_l": -0.2, "rmu": 0.01, "random": -0.4}
    score = lambda m, f, s: 0.5 + [*shift.values()][m] + draw.normal(0, 0.02)
    said = contest.told(made(score, list(shift)))
    assert [one.rsplit(" ", 1)[0] for one in said["order"].split(", ")][-1] == "FT-L"
    assert said["order"].startswith("MEMIT ") and "Random" not in said["order"]
    assert (said["above"], said["below"], said["undecided"]) == ("MEMIT", "FT-L", "RMU")
    assert said["corrected"] == "MEMIT, FT-L"
    nothing = contest.told(made(score, list(shift))[:0])
    assert nothing.pop("order") == "" and set(nothing.values()) == {"none"}


def test_a_verdict_can_hang_on_one_fine_tune():
    """MEMIT is ahead on all but the last; FT-L is behind everywhere, by more or less."""
    wobble = lambda f, s: 0.004 * (-1) ** (f + s)
    memit = lambda f, s: 0.1 + wobble(f, s) if f < 3 else -0.15
    shift = {0: lambda f, s: 0, 1: memit, 2: lambda f, s: -0.2 + 0.01 * f + wobble(f, s)}
    frame = made(lambda m, f, s: 0.5 + shift[m](f, s))
    sides = contest.sides(contest.against(frame))
    assert sides.to_dict() == {"memit": "undecided", "ft_l": "below"}
    assert contest.swayed(frame) == {"memit": [3]}


def test_an_interval_that_says_nothing_is_not_printed_as_numbers():
    frame = made(lambda m, f, s: 0.5 + 0.2 * m * (-1) ** f + 0.01 * s, F=2, S=2)
    found = contest.against(frame).set_index("method")
    wide = found.index[found["high"] - found["low"] > 2 * contest.SCALE].map(figures.title)
    text = contest.table(frame).set_index("method")["interval"]
    assert len(wide) and (text[wide] == "wider than the scale").all()


def test_what_runs_edited_and_what_they_left_of_ordinary_text():
    def row(layers, perplexity):
        return {"result": {"edit": {"layers": layers}, "general_text": {"perplexity": perplexity}}}

    several = pd.Series([row([3, 4], 10.0), row([4, 5], 20.0)])
    assert contest.edited(several) == "layers 3–5" and contest.perplexity(several) == 15
    assert contest.edited(pd.Series([row([29], 1.0)])) == "layer 29"
    assert contest.edited(pd.Series([row([], 1.0)])) == "–"


def test_variants_are_runs_by_tag_and_method(shelf):
    for tag, method in (("round", "revs"), ("why", "revs"), ("round", "memit"), ("", "revs")):
        for seed in (2, 1):
            shelf(tag=tag, method=method, seed=seed, failed="no" if method == "memit" else None)
    named = {("why", "revs"): "with less", ("round", "revs"): "as it is", ("round", "memit"): "x"}
    found = contest.variants(MODEL, "ssn", named)
    assert list(found["edit"]) == ["with less"] * 2 + ["as it is"] * 2
    assert list(found["seed"]) == [1, 2, 1, 2] and set(found["method"]) == {"revs"}
    alike = contest.variants(MODEL, "ssn", dict.fromkeys(named, "one name"))
    assert list(alike["edit"]) == ["one name"] * 4


def test_the_recorded_runs_of_the_contest_have_the_settings_of_its_searches():
    """A search that would choose otherwise now makes its runs count as missing."""
    frame = results.measured(MODEL, "ssn", "emails")
    names = set(frame.loc[frame["tag"].str.startswith("round"), "name"])
    (there, missing), read = record.recorded("main"), sweep.read("main")
    assert names and names <= {row["name"] for row in there} and not names & set(missing)
    for name in names:
        job = read.jobs[name]
        owner = {"random": "revs"}.get(job.settings["method"], job.settings["method"])
        data = f"{job.settings['data']}-tune"
        search = f"tune/{data}/{MODEL}/{owner}-seed0-tpe"
        chose = rows.find(kind="tune", data=data).get(search, {"result": {}})["result"]
        assert job.settings["hyperparameters"] == chose.get("hyperparameters")
