"""The page of all trials: what a score hangs on, and what was chosen at the end of a range."""

import pytest

from companion.analysis import tuning
from companion.analysis.tables import DASH
from companion.experiments import methods, tune
from companion.experiments.notebook import Refused
from companion.experiments.optimizer import Search
from companion.experiments.provenance import about_run
from companion.store import rows

MODEL, DATA = "smollm2-135m", "ssn-tune"
RANGES = {
    "k": {"low": 20, "high": 600, "most": 600},
    "n_max": {"share_of": "k", "low": 0.05},
    "r_n": {"low": 0.4, "high": 0.9, "scale": "linear", "most": 0.99},
    "ridge": {"low": 0.01, "high": 1.0},
    "kl": {"values": [0.0, 0.5]},
    "layers": {"in_a_row": 8},
    "layer_id": {"last_of": "layers"},
}
CHOSEN = {"k": 200, "n_max": 100, "r_n": 0.6, "ridge": 0.1, "kl": 0.5, "layers": [2, 3, 4]}
CHOSEN |= {"layer_id": 4}


@pytest.fixture
def search(add_row):
    """search(method, data, **result): puts the row of a search beside the trials."""

    def put(method="revs", data=DATA, tag="", **result):
        name = f"tune/{data}/{MODEL}/{method}-seed0" + (f"-{tag}" if tag else "")
        settings = {"model": MODEL, "method": method, "seed": 0, "data": data}
        made = about_run("tune", settings, {}, {"load": 1.0}) | {"tokenizer": "x"}
        found = {"trials": 4, "failed": 0, "best": 3, "unlearning_score": 0.5}
        found |= {"hyperparameters": CHOSEN} | result
        return rows.write(rows.RECORDED, name, "tune", found, [], made, tag)

    return put


def test_trials_stand_in_order_the_best_so_far_never_falls_and_a_failed_one_scores_nothing(add_row):
    """Those of one tag; the paper's settings of a method that it has are marked."""
    for data, scores in {"emails-tune": (0.9, 0.1), DATA: (0.2, 0.6, None, 0.4, 0.7)}.items():
        for number, score in reversed(list(enumerate(scores))):
            about = {"failed": "It diverged."} if score is None else {"efficacy": score}
            add_row(f"trial{number:02d}", "memit", data=data, specificity=score or 0, **about)
            add_row(f"raw-trial{number:02d}", data=data)
    add_row("trial00", "least_squares", data=DATA)
    add_row("other", "memit", data=DATA)
    frame = tuning.trials(MODEL, DATA, "emails-tune")
    places = [*((DATA, "memit", n) for n in range(5)), (DATA, "least_squares", 0)]
    places += [("emails-tune", "memit", n) for n in range(2)]
    assert list(zip(frame["data"], frame["method"], frame["number"])) == places
    assert list(frame["printed"]) == [True, True, *[False] * 4, True, True]
    score, so_far = frame["score"].drop(5), frame["so_far"].drop(5)
    assert list(score) == pytest.approx([20, 60, 0, 40, 70, 90, 10])
    assert list(so_far) == pytest.approx([20, 60, 60, 60, 70, 90, 90])
    assert list(frame["failed"].notna()) == [n == 2 for n in range(8)]
    assert set(tuning.trials(MODEL, DATA, tag="raw")["method"]) == {"revs"}
    with pytest.raises(Refused, match="make run SWEEP=tune"):
        tuning.trials(MODEL, "ssn")


def test_top_trials_by_the_mean_of_their_splits(add_row, search):
    """What ran on further splits is no trial of the search."""
    for seed in (0, 1, 2):
        for number in (3, 7):
            add_row(f"x-trial{number:02d}", "memit", seed, data=DATA, efficacy=0.4)
    search("memit", tag="x", best=7, top_trials={"3": [0.9, 0.1, 0.2], "7": [0.8, 0.5, 0.8]})
    search("revs", tag="x")  # older: none of its trials ran again
    found = tuning.reevaluated(tuning.searches(MODEL, DATA, tag="x"))
    assert found[["method", "number", "chosen"]].to_numpy().tolist() == [
        ["memit", 3, False],
        ["memit", 7, True],
    ]
    assert list(found["first"]) == pytest.approx([90, 80])
    assert found["further"].iloc[0] == pytest.approx([10, 20])
    assert list(found["mean"]) == pytest.approx([40, 70])
    assert list(tuning.trials(MODEL, DATA, tag="x")["number"]) == [3, 7]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, []),
        ({"ridge": 0.011}, [("ridge", "low", False)]),
        ({"ridge": 5.0}, [("ridge", "high", False)]),  # the paper's own may lie beyond it
        ({"r_n": 0.89}, [("r_n", "high", False)]),
        ({"k": 590, "n_max": 300}, [("k", "high", True)]),
        ({"n_max": 200}, [("n_max / k", "high", True)]),
        ({"layers": "all"}, [("layers: how many", "high", True)]),
    ],
)
def test_what_lies_at_an_end(given, found):
    """As the search sees it, and where a range may not grow besides."""
    settings = CHOSEN | given
    assert tuning.at_ends(settings, RANGES) == found
    plain = [(name, end) for name, end, fixed in found if not fixed]
    numbers = {name: value for name, value in settings.items() if not isinstance(value, list | str)}
    assert Search(RANGES, 30).at_edges(numbers) == plain


def test_every_search_says_what_grew_and_what_is_at_an_end(search):
    search(ranges=RANGES, widened=[], effective=4)
    search("revs", "emails-tune", ranges=RANGES, widened=["k", "ridge"], effective=4,
           hyperparameters=CHOSEN | {"ridge": 0.01, "n_max": 200})  # fmt: skip
    search("rmu", tag="raw")
    table = tuning.edges(tuning.searches(MODEL, "emails-tune", DATA))
    assert table.to_numpy().tolist() == [
        ["emails-tune", "revs", "`k`, `ridge`", "`n_max / k` high (limit), `ridge` low"],
        [DATA, "revs", DASH, DASH],
    ]
    assert tuning.edges(tuning.searches("another", DATA)).empty


def test_every_range_that_is_drawn_from_has_words():
    """Of every method of params/search.yml, each of which the registry knows."""
    assert {"revs", "least_squares"} <= set(tuning.searched()) <= methods.registry().keys()
    for method in tuning.searched():
        for name, space in tune.ranges(method).items():
            said = tuning.interval(space)
            assert said and "{" not in said and said != DASH, name
