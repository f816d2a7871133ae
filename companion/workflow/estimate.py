"""What a run will take, from rows of runs like it: seconds and memory.

Rows of the same experiment and model whose settings are most alike are the best guide; rows of another model are scaled by
the number of parameters that the models' configurations tell, or their names (my-model-8b), all but a calibration, whose minutes
are given. Memory follows from the
configuration, where that is at hand. Where no row is of a GPU, its time is predicted: the same operations at the rate that
its maker gives for the precision of the weights: the least that it can take.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from companion.record import rows
from companion.runs import footprint, methods, models, operations
from companion.runs.bench import PROMPT
from companion.workflow.paths import BUILD, LOGS
from companion.workflow.profile import Job

MEMORY_MB = 8000  # asked of a cluster when nothing is known
SECONDS = {"page": 15, "book": 60}  # before the first build on this machine
LAST = LOGS / "seconds.json"  # of the last build's jobs, on this machine
RUNS, PAGES = (
    "runs",
    "pages",
)  # there: of all runs but the fine-tunes together, of all pages together
STAGES = {  # of a run of unlearning, and the settings that decide how long each takes, the weightiest first
    "load": ("dtype",),
    "unlearn": ("method", "data", "dtype", "forget", "T", "hyperparameters"),
    "evaluate_after": ("data", "generate", "sentences", "forget", "method"),
    "measures": ("measures", "data", "method"),
}
ALIKE = (
    "method",
    "what",
    "data",
    "generate",
    "sentences",
    "forget",
    "measures",
)  # settings that decide how long a run takes, the weightiest first


class Estimate(NamedTuple):
    """Of one run: None where nothing is known; ``like`` is the model that was measured if it is another."""

    seconds: float | None
    memory_mb: float | None
    like: str | None
    predicted: bool = False


@functools.cache
def measured() -> list[dict]:
    """Every readable row of a run that came to its end, recorded or of this machine."""
    found = {}
    for folder in (rows.RECORDED, BUILD / "record" / "rows", rows.MEASURED):
        for path in folder.rglob("*.json"):
            try:
                row = rows.read(path)
            except ValueError:  # the schema itself, or a row of another version
                continue
            if row["kind"] != "unlearn" or "failed" not in row["result"]:
                found[row["name"]] = row
    return list(found.values())


@functools.cache
def parameters(model: str) -> float | None:
    """Millions of parameters, from a model's configuration, or, where that is not at hand, as its name says."""
    if "shape" in models.registry().get(model, {}) or footprint.at_hand(model):
        with contextlib.suppress(OSError, ValueError, KeyError):
            return footprint.shape(model, "float32").weights / 1e6
    found = re.search(r"(\d+(?:\.\d+)?)([mb])(?![a-z])", Path(model).name.lower())
    return float(found[1]) * (1000 if found[2] == "b" else 1) if found else None


def estimate(job: Job, gpu: bool | None = None) -> Estimate:
    """What one run will take: on a GPU, on a CPU, or (None) on whatever machine rows are of."""
    settings, spec = resolved(job), job.settings["model"]
    model = Path(spec).name
    found = [
        row
        for row in measured()
        if row["kind"] == job.notebook
        and (job.notebook != "bench" or row["result"]["what"] == settings["what"])
    ]  # what else is measured takes another time
    if asked(settings) - {
        measure for row in found for measure in asked(row["provenance"]["settings"])
    }:  # as does a measure that no row has
        return Estimate(None, None, None)
    there = [row for row in found if gpu is None or on_gpu(row) == gpu]
    predicted = bool(gpu and not there)
    found, faster = (found, gain(settings.get("dtype", "float32"))) if predicted else (there, 1.0)
    own = [row for row in found if name(row) == model]
    usable = own or [row for row in found if parameters(spec) and parameters(name(row))]
    if not usable or not faster:
        return Estimate(None, None, None)
    scale = lambda row: 1.0 if own else parameters(spec) / parameters(name(row))
    bytes_each = lambda dtype: 4 if own or dtype == "float32" else 2
    width = lambda row: (
        bytes_each(settings.get("dtype", "float32"))
        / bytes_each(row["provenance"]["model"]["dtype"])
    )
    close = nearest(settings, usable)
    memory = max(scale(row) * width(row) * row["provenance"]["peak_memory_mb"] for row in close)
    return Estimate(
        foreseen(job.notebook, settings, usable, scale, faster),
        memory,
        None if own else name(close[0]),
        predicted,
    )


def foreseen(
    kind: str,
    settings: dict,
    found: list[dict],
    scale: Callable[[dict], float] = lambda row: 1.0,
    faster: float = 1.0,
) -> float:
    """Seconds of a run, from rows of models that it is so many times as large as."""
    if kind == "unlearn":
        return by_stage(
            settings, found, lambda row, stage: scale(row) / (1.0 if stage == "load" else faster)
        )
    trials = lambda row: settings.get("trials", 1) / row["provenance"]["settings"].get("trials", 1)
    minutes = (
        0 if settings.get("hyperparameters") else settings.get("minutes")
    )  # what is given is not calibrated
    return median(
        trials(row) * seconds(row, faster, scale(row), minutes) for row in nearest(settings, found)
    )


def resolved(job: Job) -> dict:
    """A run's settings, with the hyperparameters that it will have, as its row would tell them."""
    if job.notebook != "unlearn":
        return job.settings
    try:
        return job.settings | {"hyperparameters": methods.resolved(job.settings)}
    except ValueError:  # the run itself will say what is wrong with its settings
        return job.settings


def by_stage(
    settings: dict, found: list[dict], scale: Callable[[dict, str], float] = lambda row, stage: 1.0
) -> float:
    """Seconds of a run of unlearning: each stage as in the rows that are most like it in what decides that stage; unlearning in proportion to its targets."""
    total, tokens = 0.0, targets(settings, found)
    for stage, alike in STAGES.items():
        timed = [row for row in found if row["provenance"]["seconds"].get(stage) is not None]
        if not timed or (stage == "measures" and not settings.get("measures")):
            continue
        share = lambda row: (
            tokens / targets(row["provenance"]["settings"], [row]) if stage == "unlearn" else 1.0
        )
        total += median(
            share(row) * scale(row, stage) * row["provenance"]["seconds"][stage]
            for row in nearest(settings, timed, alike)
        )
    return total


def asked(settings: dict) -> set[str]:
    """What a run measures besides the metrics."""
    return set(settings.get("measures") or ())


def targets(settings: dict, found: list[dict]) -> float:
    """Tokens that a run unlearns: half of the secrets, where it does not say how many, are as many as in rows of the same data."""
    alike = nearest(settings, found, ("data", "forget"))
    secrets = settings.get("forget") or median(
        row["result"].get("after", {"forget": 1})["forget"] for row in alike
    )
    return secrets * settings.get("T", 2)


def name(row: dict) -> str:
    """A row's model."""
    return row["provenance"]["model"]["name"]


def on_gpu(row: dict) -> bool:
    """Was it measured on a GPU?"""
    return row["provenance"]["hardware"]["gpu"] is not None


def nearest(settings: dict, found: list[dict], deciding: Sequence[str] = ALIKE) -> list[dict]:
    """The rows whose settings are most like these."""
    alike = [
        [
            row["provenance"]["settings"].get(setting) == settings.get(setting)
            for setting in deciding
        ]
        for row in found
    ]
    most = max(alike)
    return [row for row, each in zip(found, alike) if each == most]


def seconds(
    row: dict, faster: float = 1.0, larger: float = 1.0, minutes: float | None = None
) -> float:
    """Wall-clock seconds of a row's run, a search with its trials; with a model so many times as large, all but loading on a machine so many times as fast, and a calibration with the minutes that it may take."""
    spent = [*row["provenance"]["seconds"].items()]
    if row["kind"] == "tune":
        trial = row["name"].replace("tune/", "unlearn/", 1) + "-trial"
        spent += [
            pair
            for other in measured()
            if other["name"].startswith(trial)
            for pair in other["provenance"]["seconds"].items()
            if pair[0] not in ("load", "evaluate_before")
        ]
    return sum(
        60 * minutes
        if stage == "calibrate" and minutes is not None
        else larger * value / (1.0 if stage == "load" else faster)
        for stage, value in spent
    )


@functools.cache
def cpu_rate() -> float | None:
    """Operations a second of the rows' CPUs, in fine-tunes: six for each weight and token, forward and backward."""
    tuned = [
        row
        for row in measured()
        if row["kind"] == "memorise" and not on_gpu(row) and parameters(name(row))
    ]
    return (
        median(
            6e6
            * parameters(name(row))
            * PROMPT
            * sum(row["result"]["learned"])
            / row["provenance"]["seconds"]["finetune"]
            for row in tuned
        )
        if tuned
        else None
    )


def gpu() -> dict:
    """The first machine of params/machines.yml."""
    return next(iter(operations.machines().values()))


def gain(dtype: str) -> float | None:
    """How many times as fast that machine is at its peak, with weights in this precision: arithmetic decides, since reading the weights of a batch takes less. In low precision some of it stays float32, so that this is the most that can be gained."""
    return (
        gpu()["float32" if dtype == "float32" else "weights"] / cpu_rate() if cpu_rate() else None
    )


def memory(job: Job) -> float | None:
    """MiB at the highest: from the model's configuration, else (a benchmark, a data set that is not there yet) from rows of runs like it."""
    model = job.settings["model"]
    if job.notebook != "bench" and (
        "shape" in models.registry().get(model, {}) or footprint.at_hand(model)
    ):  # nothing is downloaded for a plan
        with contextlib.suppress(OSError, ValueError, KeyError):
            return footprint.total(footprint.of_run(job.settings)) / 2**20
    return estimate(job).memory_mb


def memory_mb(job: Job) -> int:
    """What to ask a scheduler for."""
    return round(1.25 * (memory(job) or MEMORY_MB))


def last() -> dict[str, float]:
    """Seconds of jobs in earlier builds on this machine, by name."""
    return json.loads(LAST.read_text(encoding="utf-8")) if LAST.is_file() else {}


def left(name: str, job: Job | None) -> float:
    """Seconds that a job of the present build may take: as last time here, as rows say, or a guess."""
    known = last().get(name) or (estimate(job).seconds if job else None)
    return known or SECONDS["book" if name == "book" else "page"]
