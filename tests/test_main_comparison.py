"""The main comparison on made-up rows, whatever subset of them there is; and on the record."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from companion.analysis import main_comparison, page_values, statistics
from companion.experiments import methods
from companion.plots import main_comparison as drawing

MODEL = "m"
WORTH = {"revs": 0.7, "least_squares": 0.95, "rmu": 0.8, "memit": 0.5}


def row(data="ssn", method="revs", adapter="seed1", seed=1, score=0.5, **more) -> dict:
    """A run's row as a sweep with adapters writes it."""
    after = {"efficacy": score, "generalization": score, "specificity": score}
    attacks = {"resistance_score": {"released": 0.9, "per_example": score}}
    text = {"perplexity": 20.0 if method == "unedited" else 22.0, "perplexity_before": 20.0}
    text |= {"kl": 0.1, "unchanged": 0.9}
    result = {"after": after | {"unlearning_score": score, "forget": 2, "retain": 2}}
    result |= {"attacks": attacks, "general_text": text} | more
    settings = {"adapter": adapter, "hyperparameters": {}, "data": data, "score_k": 100}
    name = f"unlearn/{data}/{MODEL}/{method}-{adapter}-seed{seed}"
    about = {"name": name, "data": data, "model": MODEL, "method": method, "seed": seed, "tag": ""}
    about |= {"kind": "unlearn", "origin": "recorded", "settings": settings, "result": result}
    about |= {"inputs": {"model": f"{adapter}-weights"}, "environment": {"processor": "x"}}
    return about | {"seconds": {"unlearn": 3.0}, "extra_memory_mb": 10}


@pytest.fixture
def record(only_rows):
    """record(rows): the runs of the main comparison among these rows."""
    return lambda some: only_rows(some) or main_comparison.runs(MODEL)


def crossed(spread=0.0, data="ssn", adapters=(1, 2, 3, 4), splits=(1, 2, 3, 4)) -> list[dict]:
    """Every method of WORTH in every cell; the unedited model and a ban; adapters differ."""
    draw = np.random.default_rng(0)
    made = []
    for a, split in itertools.product(adapters, splits):
        bend = spread * draw.normal()
        for method, score in (WORTH | {"unedited": 0.0, "output_ban": 1.0}).items():
            about = {"data": data, "adapter": f"seed{a}", "seed": split, "method": method}
            made.append(row(**about, score=float(np.clip(score + bend, 0, 1))))
    return made


def test_a_run_is_one_line_with_all_its_measures(record):
    frame = record(crossed())
    assert len(frame) == 16 * 6 and main_comparison.design(frame) == "4 adapters × 4 splits"
    line = frame[frame["method"] == "revs"].iloc[0]
    assert line["perplexity_rise"] == pytest.approx(0.1) and line["resistance"] == 0.7
    assert line["resistance_released"] == 0.9 and math.isnan(line["token_rank"])
    assert (line["adapter"], line["split"], line["seconds"]) == ("seed1", 1, 3.0)


def test_a_set_without_runs_gives_an_empty_frame():
    frame = main_comparison.runs(MODEL, "nothing")
    assert frame.empty and {"adapter", "split", *main_comparison.TITLES} <= {*frame.columns}


def test_runs_of_ablations_and_of_other_adapters_are_left_out(record):
    others = [row(adapter="seed1-keep", seed=9), row(seed=9) | {"tag": "curve-k5"}]
    others += [row(adapter=None, seed=9), row(adapter="seed1-noise", seed=9)]
    failed = row(seed=8)
    failed["result"] = {"failed": "diverged"}
    frame = record([*crossed(), *others, failed])
    assert set(frame["split"]) == {1, 2, 3, 4}


def test_a_model_without_adapters_is_compared_by_its_weights(record):
    frame = record([row(adapter=None, seed=seed) for seed in (1, 2)])
    assert len(frame) == 2 and set(frame["adapter"]) == {"None-wei"}
    assert set(record([row(adapter=None, seed=1), row(seed=5)])["split"]) == {5}


@pytest.mark.parametrize("keep", [1, 20])
def test_any_subset_of_rows_gives_tables_a_picture_and_sentences(record, keep):
    some = np.random.default_rng(keep).permutation(96)[:keep]
    made = [one for place, one in enumerate(crossed(spread=0.05)) if place in some]
    frame = record([*made, *crossed(data="emails-shared", adapters=(1,), splits=(1,))[:2]])
    table = main_comparison.table(frame)
    assert "SSN, shared tokens" not in set(table.get("data", [])) and len(table) >= 1
    main_comparison.difference_table(frame)
    drawing.plt.close(drawing.overview(frame))
    drawing.plt.close(drawing.integrity(frame))
    said = main_comparison.standing(MODEL) | main_comparison.revs_means(MODEL, "ssn", "efficacy")
    assert all(isinstance(one, str) for one in said.values()) and said["place_emails"] == "–"


def test_the_interval_holds_the_mean_and_one_adapter_is_no_source_of_spread(record):
    frame = record(crossed(spread=0.1))
    for line in main_comparison.means(frame).itertuples():
        if line.method in WORTH:
            assert line.low < line.mean < line.high
    same = record([row(seed=1), row(seed=2)])
    (line,) = main_comparison.means(same).itertuples()
    assert line.low == line.mean == line.high == 0.5


def test_differences_are_paired_by_cell(record):
    """What adapters and splits bring to both methods drops out of their difference."""
    frame = record(crossed(spread=0.04))
    found = main_comparison.differences(frame, "revs").set_index("method")
    assert found.loc["memit", ["mean", "low", "high"]].tolist() == pytest.approx([-0.2] * 3)
    assert found.loc["memit", "p"] == pytest.approx(2 / (statistics.DRAWS + 1))
    unpaired = record([row(seed=1), row(seed=2, method="memit")])
    assert main_comparison.differences(unpaired).empty
    assert main_comparison.difference_table(unpaired).empty


def test_holm_corrects_the_primary_endpoint_over_the_methods_and_not_the_controls(record):
    frame = record(crossed(spread=0.04))
    found = main_comparison.differences(frame, "revs").set_index("method")
    assert found["holm"].notna().sum() == 3 and math.isnan(found.loc["output_ban", "holm"])
    assert found.loc["memit", "holm"] == pytest.approx(3 * found.loc["memit", "p"])
    assert main_comparison.differences(frame, column="resistance")["holm"].isna().all()


def test_methods_are_sided_and_ranked(record):
    found = main_comparison.side_table(record(crossed(spread=0.01)))
    assert "RMU" in found["score higher than REVS"][0] and found["lower"][0] == "MEMIT"
    said = main_comparison.standing(MODEL)
    assert said["place_ssn"] == "second" and said["methods"] == "3"


def test_findings_follow_the_numbers(record):
    said = main_comparison.findings(record(crossed()))
    assert "second on SSN" in said["finding_rank"]
    assert "10.0 per cent" in said["finding_rank"]
    assert "first on SSN" in said["finding_added"]
    without = main_comparison.findings(record([row()]))
    assert "first on SSN" in without["finding_rank"] and "lacks" in without["finding_added"]


def test_secrets_are_drawn_where_their_values_are_recorded(record, monkeypatch):
    """Without them adapters and splits alone make the interval."""
    made = crossed(splits=(1, 2))
    values = pd.Series([0.0, 1.0] * 5, index=[f"s{i}" for i in range(10)])
    monkeypatch.setitem(
        main_comparison.BY_SECRET, "unlearning_score", lambda row: {"efficacy": values}
    )
    narrow = main_comparison.means(record(made)).set_index("method").loc["revs"]
    for one in made:
        one["values"] = {"file": "x"}
    wide = main_comparison.means(record(made)).set_index("method").loc["revs"]
    assert narrow["high"] == pytest.approx(narrow["low"]) and wide["high"] - wide["low"] > 0.3


# --- the record ----------------------------------------------------------------------------------


def test_the_record_has_every_method_of_the_paper_in_the_main_comparison():
    frame = main_comparison.runs("smollm2-135m")
    for data, part in frame[frame["data"].isin(methods.PAPER_DATA)].groupby("data"):
        assert set(methods.paper_methods()) <= set(part["method"]), data
        cells = part.groupby("method").apply(lambda some: set(zip(some["adapter"], some["split"])))
        assert part["adapter"].nunique() >= 2 and all(one == cells["revs"] for one in cells)
    assert frame["perplexity_rise"].notna().mean() > 0.9


def test_recorded_values_of_secrets_are_the_rows_own_results():
    frame = main_comparison.runs("smollm2-135m").query("method == 'revs'").head(3)
    for line in frame.itertuples():
        by_secret = statistics.score_by_secret(line.row)
        for name, values in by_secret.items():
            assert values.mean() == pytest.approx(getattr(line, name), abs=1e-6)
        parts = np.array([values.mean() for values in by_secret.values()])
        assert statistics.harmonic_mean(parts) == pytest.approx(line.unlearning_score, abs=1e-6)
        against = statistics.resistance_by_secret(line.row)
        parts = np.array([values.mean() for values in against.values()])
        assert statistics.harmonic_mean(parts) == pytest.approx(line.resistance, abs=1e-6)


def test_runs_with_text_to_protect_stand_beside_the_same_cells_without(record):
    spared = row(method="memit", score=0.9) | {"tag": "protect"}
    spared["name"] += "-protect"
    record([*crossed(), spared])
    frame = main_comparison.beside(MODEL, "protect")
    assert len(frame) == 2 and set(frame["split"]) == {1} and set(frame["adapter"]) == {"seed1"}
    (line,) = main_comparison.beside_table(frame).to_dict("records")
    assert (line["method"], line["Unlearning Score"]) == ("MEMIT", "50.0 → 90.0")
    drawing.plt.close(drawing.protected(frame))
    assert page_values.protected(frame)["gain_memit"] == "40"
    record(crossed())  # none with such text
    assert main_comparison.beside_table(main_comparison.beside(MODEL, "protect")).empty


def test_the_range_of_a_methods_runs_is_between_its_lowest_and_its_highest(record):
    scores = {"revs": (0.5, 0.7), "memit": (0.2, 0.6), "rmu": (0.3, 0.4), "unedited": (0, 1)}
    record([row(method=m, seed=i, score=s) for m, two in scores.items() for i, s in enumerate(two)])
    found = page_values.run_ranges(main_comparison.runs(MODEL))
    assert found == {"range_revs": "20", "range": "20", "widest": "MEMIT", "range_widest": "40"}
