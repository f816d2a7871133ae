"""`make plan SWEEP=…`: what a sweep would run, and for how long, judging by similar runs."""

import argparse
import functools
import sys

import pandas as pd

from companion.store import rows
from companion.store.paths import params
from companion.workflow.sweep import Job, Sweep, known, read

MEMORY_MB = 8000  # of a run's program, beside its weights
MODELS = params("models")
LIKE = ("method", "model", "data")


@functools.cache
def measured(kind: str) -> pd.DataFrame:
    """Return every finished CPU run with its seconds; for a search, the runs of its trials."""
    lines = [
        {name: row[name] for name in LIKE} | {"seconds": sum(row["seconds"].values())}
        for row in rows.find(kind="unlearn" if kind == "tune" else kind).values()
        if "failed" not in row["result"] and row["environment"]["device"] == "cpu"
    ]
    return pd.DataFrame(lines)


def weights(model: str) -> float:
    """How many weights a model has; nan if params/models.yml does not say so."""
    return MODELS.get(model, {}).get("shape", {}).get("weights", float("nan"))


def seconds(job: Job) -> float:
    """Estimate a run's seconds on one CPU: the median of rows with the same method, model and data,
    as far as there are any, scaled by the number of weights; nan if there are no rows."""
    found, settings = measured(job.experiment), job.settings
    for name in LIKE:
        wanted = getattr(settings, name, None)
        if name in found and (found[name] == wanted).any():
            found = found[found[name] == wanted]
    if found.empty:
        return float("nan")
    times = weights(settings.model) / found["model"].map(weights)
    trials = settings.trials if job.experiment == "tune" else 1
    return trials * float((times * found["seconds"]).median())


def memory_mb(job: Job) -> int:
    """Return the MiB to ask a scheduler for, with the weights in float32, their largest type."""
    known_weights = weights(job.settings.model)
    return MEMORY_MB + (round(4 * known_weights / 2**20) if known_weights > 0 else 0)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if not seconds >= 0:
        return "unknown"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def table(sweep: Sweep) -> pd.DataFrame:
    """One line for each experiment, model and method: its runs, those done, the time left."""
    lines = [
        {
            "experiment": job.experiment,
            "model": job.settings.model,
            "method": getattr(job.settings, "method", ""),
            "runs": 1,
            "done": int(job.row.is_file()),
            "left": 0.0 if job.row.is_file() else seconds(job),
        }
        for job in sweep.jobs.values()
    ]
    groups = pd.DataFrame(lines).groupby(["experiment", "model", "method"], sort=False)
    left = groups["left"].agg(lambda some: duration(some.sum(skipna=False)))
    return groups[["runs", "done"]].sum().assign(left=left).reset_index()


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
