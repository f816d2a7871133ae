"""`make plan SWEEP=…`: what a sweep would run, and what that takes, from recorded runs like it.

Like a run are the rows of its experiment and, as far as there are some, of its method, model and
data. Time and memory of another model are scaled by its number of weights.
"""

from __future__ import annotations

import argparse
import functools
import sys
from statistics import median
from typing import NamedTuple

import pandas as pd
import yaml

from companion.store import rows
from companion.store.paths import ROOT
from companion.workflow.sweep import Job, Sweep, known, read

MEMORY_MB = 8000  # asked of a cluster when nothing is known, and beside weights that go to a GPU
PROCESS_MB = 700  # which no larger model makes larger
MODELS = yaml.safe_load((ROOT / "params" / "models.yml").read_text(encoding="utf-8"))
LIKE = ("method", "model", "data")


class Estimate(NamedTuple):
    """Of one run; ``like`` is the model that was measured."""

    seconds: float
    memory_mb: float
    like: str


@functools.cache
def measured(kind: str) -> pd.DataFrame:
    """Every run on a CPU that came to its end, and what it took; a search has its trials' time."""
    lines = [
        {name: row[name] for name in LIKE}
        | {"seconds": sum(row["seconds"].values()), "peak": row["peak_memory_mb"]}
        for row in rows.find(kind="unlearn" if kind == "tune" else kind).values()
        if "failed" not in row["result"] and row["environment"]["device"] == "cpu"
    ]
    return pd.DataFrame(lines)


def weights(model: str) -> float | None:
    """How many weights a model has, if params/models.yml says so."""
    return MODELS.get(model, {}).get("shape", {}).get("weights")


def estimate(job: Job) -> Estimate | None:
    """What one run takes on a machine like the rows'; None where no row is like it."""
    found, settings = measured(job.experiment), job.settings
    for name in LIKE:
        wanted = getattr(settings, name, None)
        if name in found and (found[name] == wanted).any():
            found = found[found[name] == wanted]
    if found.empty or not weights(settings.model):
        return None
    times = found["model"].map(lambda model: weights(settings.model) / (weights(model) or 1e9))
    trials = getattr(settings, "trials", 1) if job.experiment == "tune" else 1
    memory = PROCESS_MB + times * (found["peak"] - PROCESS_MB).clip(lower=0)
    return Estimate(trials * median(times * found["seconds"]), max(memory), found["model"].iloc[0])


def memory_mb(job: Job, gpus: int = 0) -> int:
    """What to ask a scheduler for; of a run on GPUs, its machine has the weights as they are read,
    in float32 at most."""
    if gpus:
        return MEMORY_MB + round(4 * (weights(job.settings.model) or 0) / 2**20)
    found = estimate(job)
    return round(1.25 * found.memory_mb) if found else MEMORY_MB


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def table(sweep: Sweep) -> pd.DataFrame:
    """One line for each experiment, model and method: its runs, those done, and what is left."""
    groups: dict[tuple, list[Job]] = {}
    for job in sweep.jobs.values():
        about = job.experiment, job.settings.model, getattr(job.settings, "method", "")
        groups.setdefault(about, []).append(job)
    lines = []
    for about, jobs in groups.items():
        one, left = estimate(jobs[0]), [estimate(job) for job in jobs if not job.row.is_file()]
        line = dict(zip(("experiment", "model", "method"), about, strict=True))
        line |= {"runs": len(jobs), "done": len(jobs) - len(left)}
        line["left"] = "unknown" if None in left else duration(sum(each.seconds for each in left))
        line["memory"] = f"{one.memory_mb / 1024:.1f} GiB" if one else "unknown"
        lines.append(line | {"measured on": one.like if one else "nothing yet"})
    return pd.DataFrame(lines)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make plan", description="Says what a sweep would run.")
    parser.add_argument("sweep", nargs="?", default="quick", help=", ".join(known()))
    try:
        sweep = read(parser.parse_args().sweep)
    except ValueError as error:
        sys.exit(str(error))
    models = {job.settings.model for job in sweep.jobs.values()} & set(MODELS)
    fetched = sum(MODELS[name]["download_mb"] for name in models) / 1024
    print(f"{sweep.name}: {sweep.title}", table(sweep).to_string(index=False), sep="\n\n")
    print(f"\n{len(sweep.jobs)} runs. Download: {fetched:.1f} GiB, if nothing is there.")
    print("Times are those of a processor without a GPU, one run after the other.")


if __name__ == "__main__":
    main()
