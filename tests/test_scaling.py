"""Many GPUs and machines: the schedule, what plan and page say of it, GPU slots, and a Slurm profile that Snakemake reads."""

import itertools
import json
import os
import random
import subprocess
import sys

import pytest
import yaml

from companion.pages import scaling
from companion.pages.results import short
from companion.runs import methods
from companion.workflow import estimate, plan, profile, slots
from companion.workflow.paths import ROOT

SLURM = ROOT / "profiles" / "slurm"


def by_the_clock(
    seconds: dict[str, int], needs: dict[str, list[str]], workers: int, order: list[str]
) -> int:
    """Second after second, the first runs of ``order`` that have all they need are started while someone is free: when the last one ends."""
    left, begun, now = dict(seconds), [], 0
    while any(left.values()):
        for run in order:
            if (
                run not in begun
                and len([one for one in begun if left[one]]) < workers
                and not any(left[need] for need in needs[run])
            ):
                begun.append(run)
        for run in begun:
            left[run] = max(0, left[run] - 1)
        now += 1
    return now


@pytest.mark.parametrize("seed", range(30))
def test_the_schedule_is_longest_first_and_near_the_best(seed):
    draw = random.Random(seed)
    names = "abcde"
    seconds = {name: draw.randint(1, 6) for name in names}
    needs = {
        name: [other for other in names[:i] if draw.random() < 0.3] for i, name in enumerate(names)
    }
    workers = draw.randint(1, 3)
    took = plan.makespan(seconds, needs, workers)
    assert took == by_the_clock(
        seconds, needs, workers, sorted(names, key=seconds.get, reverse=True)
    )
    best = min(
        by_the_clock(seconds, needs, workers, order) for order in itertools.permutations(names)
    )
    assert best <= took <= (2 - 1 / workers) * best  # Graham's bound


def test_one_worker_takes_the_sum_and_many_the_longest_chain():
    seconds, needs = (
        {"tune": 3.5, "a": 2.0, "b": 1.0, "alone": 4.0},
        {"tune": [], "a": ["tune"], "b": ["tune"], "alone": []},
    )
    assert plan.makespan(seconds, needs, 1) == 10.5
    assert plan.makespan(seconds, needs, 9) == 5.5
    assert plan.makespan({}, {}, 3) == 0


def test_a_wide_run_waits_for_as_many_workers_as_it_takes():
    """It is passed by shorter ones that fit meanwhile, and nothing else runs where it takes all."""
    seconds, needs = {"long": 3.0, "wide": 2.0, "short": 1.0}, {"long": [], "wide": [], "short": []}
    assert (
        plan.makespan(seconds, needs, 2, {"wide": 2}) == 5
        and plan.makespan(seconds, needs, 3, {"wide": 2}) == 3
    )


def test_a_run_that_is_larger_than_one_gpu_takes_several():
    """NPO-KL keeps gradients and moments of all weights; on one GPU the page says what is left out."""
    large, small = (
        job("unlearn", model="llama-3-8b", data="ssn", dtype="bfloat16", method=method)
        for method in ("npo_kl", "revs")
    )
    assert (plan.gpus(large), plan.gpus(small)) == (2, 1)
    frame, _ = scaling.costs(["paper"])
    assert (
        frame["1 GPU"][0].endswith("(6 do not fit)")
        and "fit" not in frame["8 GPUs"][0] + frame["1 CPU"][0]
    )


def row(
    name: str,
    gpu: str | None,
    total: float,
    model: str = "smollm2-135m",
    dtype: str = "float32",
    **settings,
) -> dict:
    """What an estimate reads of a row."""
    made = {
        "model": {"name": model, "dtype": dtype},
        "hardware": {"gpu": gpu},
        "settings": {"method": "revs", "data": "ssn", "generate": True} | settings,
        "seconds": {"load": 4.0, "unlearn": total - 4.0},
        "peak_memory_mb": 1000,
    }
    return {"name": name, "kind": name.split("/")[0], "result": {}, "provenance": made}


@pytest.fixture
def measured(monkeypatch):
    """measured(*rows): these are all the rows there are, on CPUs that are ten times slower than the GPU."""
    monkeypatch.setattr(estimate, "gain", lambda dtype: 10.0)
    return lambda *found: monkeypatch.setattr(estimate, "measured", lambda: list(found))


def job(notebook: str = "unlearn", **parameters) -> profile.Job:
    return profile.Job(notebook, parameters, "build/rows")


def test_a_gpus_time_is_measured_or_predicted(measured):
    measured(row("unlearn/a", None, 104.0))
    assert estimate.estimate(job(), False) == estimate.Estimate(104.0, 1000.0, None)
    assert estimate.estimate(job(), True) == estimate.Estimate(
        14.0, 1000.0, None, predicted=True
    )  # loading is not faster
    measured(row("unlearn/a", None, 104.0), row("unlearn/b", "a GPU", 20.0))
    assert estimate.estimate(job(), True) == estimate.Estimate(20.0, 1000.0, None)
    assert estimate.estimate(job(), False).seconds == 104.0
    measured()
    assert estimate.estimate(job(), True).seconds is None


def test_the_row_that_is_most_alike_is_the_guide(measured):
    measured(
        row("unlearn/a", None, 104.0, data="emails"),
        row("unlearn/b", None, 204.0),
        row("unlearn/c", None, 304.0, method="rmu"),
        row("unlearn/ssn-trial00", None, 9.0, generate=False, forget=5),
    )
    assert estimate.estimate(job(data="ssn")).seconds == 204.0
    assert estimate.estimate(job(data="emails")).seconds == 104.0
    assert estimate.estimate(job(data="ssn", method="rmu")).seconds == 304.0


def test_the_settings_that_a_run_will_have_find_the_row(measured):
    """A run that leaves its hyperparameters open has the tuned ones, which the row of another such run names."""
    tuned = methods.resolved(job(data="ssn").settings)
    assert tuned["n_max"] != 5
    measured(
        row("unlearn/a", None, 104.0, hyperparameters=tuned),
        *(
            row(f"unlearn/b{n}", None, 304.0, hyperparameters=tuned | {"n_max": 5})
            for n in range(2)
        ),
    )
    assert (
        estimate.estimate(job(data="ssn")).seconds == 104.0
        and estimate.estimate(job(data="ssn", n_max=5)).seconds == 304.0
    )


def test_what_nobody_has_measured_yet_takes_nobody_knows_how_long(measured):
    """Benchmarks of MMLU and GSM8K take many times as long as a run without them."""
    measured(row("unlearn/a", None, 104.0, measures=["attacks"]))
    assert (
        estimate.estimate(job(measures=["attacks"])).seconds
        == estimate.estimate(job()).seconds
        == 104.0
    )
    assert estimate.estimate(job(measures=["attacks", "integrity"])) == estimate.Estimate(
        None, None, None
    )


def test_another_model_is_scaled_by_its_parameters_and_memory_by_their_bytes_too(measured):
    measured(row("unlearn/a", None, 100.0))
    found = estimate.estimate(job(model="llama-1.35b", dtype="bfloat16"))
    assert found == estimate.Estimate(
        pytest.approx(1000.0, rel=0.01), pytest.approx(5000.0, rel=0.01), "smollm2-135m"
    )  # 134.5 million in its configuration


def test_a_search_takes_as_long_as_its_trials(measured):
    search = row("tune/ssn/m/revs-seed0", None, 4.0)
    measured(
        search,
        row("unlearn/ssn/m/revs-seed0-trial00", None, 14.0),
        row("unlearn/ssn/m/revs-seed0-trial01", None, 24.0),
        row("unlearn/ssn/m/revs-seed1-trial00", None, 99.0),
    )
    assert estimate.seconds(search) == 4.0 + 10.0 + 20.0
    search["provenance"]["settings"]["trials"] = 2
    assert estimate.estimate(job("tune", trials=6)).seconds == 3 * 34.0


def test_a_measurement_of_speed_is_foreseen_from_its_like_alone(measured):
    floor = row("bench/ssn/m/floor", None, 27.0) | {"result": {"what": "floor"}}
    measured(floor)
    assert estimate.estimate(job("bench", what="floor", repeats=1)).seconds == 27.0
    assert estimate.estimate(job("bench", what="attacks")) == estimate.Estimate(None, None, None)


def test_plan_and_page_say_what_a_profile_costs_on_each_machine():
    frame, unknown = scaling.costs(["core", "paper"])
    assert [column for column in frame if column in plan.MACHINES] == ["1 CPU", "1 GPU", "8 GPUs"]
    core = profile.read("core")
    seconds = {run.id: estimate.estimate(run, False).seconds for run in core.jobs.values()}
    assert frame["1 CPU"][0] == plan.duration(sum(seconds.values()))
    said, absent = plan.costs(core, list(core.jobs.values()))
    assert absent == 0 and said == dict(frame[list(plan.MACHINES)].iloc[0])
    assert (
        "; ".join(
            f"{title} {took}"
            for title, took in plan.costs(
                core, [run for run in core.jobs.values() if not plan.current(run)]
            )[0].items()
        )
        in plan.summary(core)[0]
    )


def test_the_paper_s_runs_are_summed_up():
    """Both profiles on one queue: on one machine the sum, on eight no longer than one after the other."""
    frame, unknown = scaling.costs([*scaling.MATRIX, "core"])
    whole = frame.iloc[-1]
    assert (
        len(frame) == 4
        and int(whole["runs"]) == sum(map(int, frame["runs"][:2]))
        and "`paper` and `pile`" in whole["profile"]
    )
    assert (
        len(scaling.costs(["core", "paper"])[0]) == 2
        and unknown == scaling.costs([*scaling.MATRIX, "core"][::-1])[1]
    )


def test_a_gpu_gains_more_in_low_precision():
    machine = estimate.gpu()
    assert estimate.gain("bfloat16") / estimate.gain("float32") == pytest.approx(
        machine["weights"] / machine["float32"]
    ) and estimate.gain("bfloat16") > estimate.gain("float32")


def test_the_page_says_what_is_missing(monkeypatch, tmp_path, measured):
    measured()
    estimate.cpu_rate.cache_clear()
    monkeypatch.setattr(scaling, "RECORD", tmp_path / "slurm.json")
    frame, unknown = scaling.costs(["core"])
    assert set(frame["1 CPU"]) == {plan.UNKNOWN} and unknown.endswith(f"runs, {frame['runs'][0]}.")
    assert (
        "nothing can be predicted" in scaling.basis() and "`make slurm-try`" in scaling.tried()[1]
    )
    estimate.cpu_rate.cache_clear()


# --- GPU slots -------------------------------------------------------------------------------------------------------


def test_a_time_is_foreseen_from_the_other_rows(monkeypatch):
    """Three seeds alike, one of them half as long and of another day; a trial, and the only run of a model."""

    def row(name, model, seconds, steps=5):
        return {
            "name": name,
            "kind": "unlearn",
            "result": {"after": {"forget": 5}},
            "provenance": {
                "model": {"name": model},
                "settings": {"method": "ft_l", "data": "ssn", "steps": steps},
                "when": "2026-01-02" if seconds == 50 else "2026-01-01",
                "seconds": {"unlearn": seconds},
            },
        }

    every = [
        row(f"x/ft_l-seed{seed}", "smollm2-135m", seconds)
        for seed, seconds in enumerate((100.0, 110.0, 50.0))
    ] + [row("x/ft_l-seed0-trial00", "smollm2-135m", 100.0), row("y/ft_l-seed0", "other", 1.0)]
    monkeypatch.setattr(
        scaling.rows,
        "find",
        lambda folder, kind: (
            {row["name"]: row for row in every if row["kind"] == kind}
            | ({"failed": {"result": {"failed": "It diverged."}}} if kind == "unlearn" else {})
        ),
    )
    found = scaling.foretold().set_index("runs")
    usual, trials = (
        found.loc["unlearning, in the usual way"],
        found.loc["unlearning, trials of a search"],
    )
    assert (
        usual["number"] == "3"
        and usual["off by 20% at most"] == "67%"
        and (usual["foreseen ÷ taken, lowest"], usual["highest"]) == ("0.91", "2.00")
        and trials["off by, median"] == "0%"
        and len(found) == 3
    )
    same_day = found.loc["unlearning, in the usual way, repeated on the same day"]
    assert same_day["number"] == "2" and (
        same_day["foreseen ÷ taken, lowest"],
        same_day["highest"],
    ) == ("0.91", "1.05")
    every.append(
        row("z/ft_l-seed0", "a-269m", 400.0)
    )  # twice as large, and twice as slow beside it: its first run, and the others', each from the other model
    found = scaling.foretold().set_index("runs")
    assert (
        list(found.loc["unlearning, first on the model", "number"]) == ["4", "1"]
        and found.loc["unlearning, first on the model", "highest"].iloc[-1] == "0.50"
    )


def test_recorded_times_are_foreseen_as_the_page_says():
    """A fifth for nearly all runs that repeat others of the same day, for most that repeat any; an order of magnitude for nearly all that would be the first on their model."""
    found = scaling.ratios()
    usual = found[short("smollm2-135m"), f"unlearning, {scaling.USUAL}"]
    same_day = found[short("smollm2-135m"), f"unlearning, {scaling.USUAL}, {scaling.SAME_DAY}"]
    assert sum(abs(ratio - 1) <= scaling.WITHIN for ratio in same_day) >= 0.8 * len(same_day) >= 40
    assert sum(abs(ratio - 1) <= scaling.WITHIN for ratio in usual) >= 0.5 * len(usual) >= 40
    first = [
        ratio
        for (_, runs), all_of in found.items()
        if runs.endswith(scaling.FIRST)
        for ratio in all_of
    ]
    assert sum(0.1 <= ratio <= 10 for ratio in first) >= 0.95 * len(first) >= 400


def test_what_is_kept_is_counted(monkeypatch):
    """Four runs of two fine-tunes on one data set, of which one makes the ranks of each; two runs need the factor, of one fine-tune; a failed run needs nothing."""

    def run(method, model, before):
        return {
            "kind": "unlearn",
            "result": {"after": {}},
            "provenance": {
                "model": {"name": "m"},
                "settings": {"method": method, "dtype": "float32", "finetune": True},
                "inputs": {"model": model, "data": "d"},
                "seconds": {"evaluate_before": before},
            },
        }

    runs = [
        run("revs", "one", 1800.0),
        run("random", "one", 0.01),
        run("rmu", "one", 0.0),
        run("ft_l", "two", 3600.0),
        run("revs", "two", 0.0) | {"result": {"failed": "It diverged."}},
    ]
    taught = [
        {
            "kind": "memorise",
            "result": {},
            "provenance": {"model": {"name": "m"}, "seconds": {"load": 600.0, "finetune": 3000.0}},
        }
    ]
    timed = [
        {
            "kind": "bench",
            "result": {"what": "floor", "once": {"ours": 7.2}},
            "provenance": {"model": {"name": "m"}},
        }
    ]
    monkeypatch.setattr(
        scaling.rows,
        "find",
        lambda folder, kind: dict(
            enumerate(row for row in runs + taught + timed if row["kind"] == kind)
        ),
    )
    found = scaling.kept().set_index("what")
    assert found.loc["fine-tune"].tolist() == ["m", "4", "2", "3600.0", "2.0"]
    assert found.loc["ranks before the edit"].tolist() == ["m", "4", "2", "2700.0", "1.5"]
    assert found.loc["Gram factor"].tolist() == ["m", "2", "1", "7.2", "0.0"]
    timed.clear()
    assert scaling.kept().set_index("what").loc["Gram factor"].tolist() == [
        "m",
        "2",
        "1",
        scaling.DASH,
        scaling.DASH,
    ]


def test_a_calibration_has_its_minutes(measured):
    """Whatever the model and the machine; all else grows with the model."""
    made = row("own/x/m", None, 104.0, minutes=5)
    made["provenance"]["seconds"]["calibrate"] = 290.0
    measured(made)
    larger = estimate.parameters("llama-1.35b") / estimate.parameters("smollm2-135m")
    assert estimate.estimate(job("own", minutes=10)).seconds == 104.0 + 600
    assert estimate.estimate(job("own", minutes=10, model="llama-1.35b")).seconds == pytest.approx(
        104.0 * larger + 600
    )
    assert estimate.estimate(job("own", minutes=10), True).seconds == 4.0 + 10.0 + 600
    assert estimate.estimate(job("own", minutes=10, hyperparameters={"n_max": 5})).seconds == 104.0


def test_stages_are_foreseen_one_by_one():
    """Unlearning is in proportion to its targets; what is measured counts only where it is asked for; a search's trial does not stand in for a run's evaluation."""

    def row(method, data, forget, seconds, measures=()):
        return {
            "result": {"after": {"forget": forget or 50}},
            "provenance": {
                "settings": {
                    "method": method,
                    "data": data,
                    "forget": forget,
                    "T": 2,
                    "measures": list(measures),
                    "generate": bool(measures),
                },
                "seconds": seconds,
            },
        }

    rows_of_model = [
        row("ft_l", "a", 20, {"load": 5.0, "unlearn": 40.0, "evaluate_after": 10.0}),
        row(
            "revs",
            "a",
            None,
            {"load": 5.0, "unlearn": 1.0, "evaluate_after": 100.0, "measures": 30.0},
            ["attacks"],
        ),
    ]
    asked = {
        "method": "ft_l",
        "data": "a",
        "forget": None,
        "T": 2,
        "measures": ["attacks"],
        "generate": True,
    }
    assert estimate.by_stage(asked, rows_of_model) == 5 + 40 * 50 / 20 + 100 + 30
    assert (
        estimate.by_stage(asked | {"measures": [], "generate": False, "T": 1}, rows_of_model)
        == 5 + 40 * 25 / 20 + 10
    )


def test_no_gpu_is_given_twice(monkeypatch, tmp_path):
    monkeypatch.setattr(slots, "BUILD", tmp_path)
    monkeypatch.setattr(os, "environ", {})
    first = slots.take(2, 3)
    assert os.environ.pop("CUDA_VISIBLE_DEVICES") == "0,1"
    second = slots.take(1, 3)
    assert os.environ.pop("CUDA_VISIBLE_DEVICES") == "2"
    with pytest.raises(ValueError, match="only 0 of 3 are free"):
        slots.take(1, 3)
    for stream in first:
        stream.close()
    os.environ["CUDA_VISIBLE_DEVICES"] = "5,6,7"  # what the shell allows
    assert len(slots.take(2, 3)) == 2 and os.environ["CUDA_VISIBLE_DEVICES"] == "5,6"
    assert second


def test_a_module_runs_in_its_slot(tmp_path):
    (tmp_path / "look.py").write_text(
        "import os, sys\nprint(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])\n"
    )
    code = f"import sys, pathlib, runpy, companion.workflow.paths\nflow.paths.BUILD = pathlib.Path({str(tmp_path)!r})\nsys.argv = ['slots', '1', '4', 'look', 'x']\nrunpy.run_module('companion.workflow.slots', run_name='__main__')"
    environment = {
        name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"
    } | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, env=environment
    )
    assert done.stdout == "0 ['x']\n", done.stderr


def test_a_run_takes_its_gpus_and_its_share_of_the_cores():
    """Also a model that is larger than one GPU: a fine-tune with two of eight."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "16",
        "--resources",
        "gpu=8",
        "--config",
        "profile=paper",
        "gpus=2",
        "--dry-run",
        "--printshellcmds",
        "--nolock",
    ]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    (block,) = [
        part
        for part in (done.stdout + done.stderr).split("rule run:")
        if "wildcards: job=memorise/ssn/gpt-j-6b-keep" in part
    ]
    assert (
        "threads: 4\n" in block
        and "gpu=2" in block
        and "-m companion.workflow.slots 2 8 companion.workflow.notebook" in block
    )


# --- the profile for Slurm -------------------------------------------------------------------------------------------


def test_the_slurm_profile_names_only_what_snakemake_knows():
    from snakemake.cli import get_argument_parser

    known = {
        option.lstrip("-")
        for action in get_argument_parser()._actions
        for option in action.option_strings
    }
    settings = yaml.safe_load((SLURM / "config.yaml").read_text())
    assert settings["executor"] == "slurm" and settings["retries"] >= 1
    assert set(settings) <= known


def test_the_plugin_is_pinned_and_not_asked_of_everyone():
    pins = [
        line
        for line in (SLURM / "requirements.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert pins and all(
        pin.startswith("snakemake-executor-plugin-slurm") and "==" in pin for pin in pins
    )
    assert "slurm" not in (ROOT / "requirements.txt").read_text()


def test_the_record_of_the_trial_is_of_these_pins():
    if not scaling.RECORD.is_file():
        pytest.skip("there is no record: make slurm-try")
    versions = json.loads(scaling.RECORD.read_text())["versions"]
    assert (
        f"snakemake-executor-plugin-slurm=={versions['snakemake-executor-plugin-slurm']}\n"
        in (SLURM / "requirements.txt").read_text()
    )
    assert f"snakemake=={versions['snakemake']}\n" in (ROOT / "requirements.txt").read_text()
