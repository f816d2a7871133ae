"""`make plan PROFILE=…`: what a profile would run, and what that takes, from the rows of runs like it.

The guide of a run are the recorded rows of the same experiment and model, of the same method where it
has one. Rows of another model are scaled by the number of parameters, unlearning by that of targets.
Where no row is like it, nothing is foretold.
"""

from __future__ import annotations

import argparse
import functools
import sys
from statistics import median
from typing import NamedTuple

import pandas as pd
import yaml

from companion.record import rows
from companion.workflow.paths import ROOT, duration
from companion.workflow.profile import Job, Profile, known, read

MEMORY_MB = 8000  # asked of a cluster when nothing is known
UNKNOWN = "unknown"


class Estimate(NamedTuple):
    """Of one run; ``like`` is the model that was measured."""

    seconds: float
    memory_mb: float
    like: str


@functools.cache
def registry() -> dict[str, dict]:
    """params/models.yml: read here, since what loads models takes seconds to import."""
    return yaml.safe_load((ROOT / "params" / "models.yml").read_text(encoding="utf-8"))


@functools.cache
def measured(kind: str) -> list[dict]:
    """Every row of a run on a CPU that came to its end, recorded or of this machine."""
    return [
        row
        for row in rows.find(kind=kind).values()
        if "failed" not in row["result"] and row["provenance"]["hardware"]["gpu"] is None
    ]


def parameters(model: str) -> float | None:
    """How many weights a model has, if params/models.yml says so."""
    return registry().get(model, {}).get("shape", {}).get("weights")


def model_of(row: dict) -> str:
    return row["provenance"]["model"]["name"]


def alike(job: Job) -> list[dict]:
    """The rows most like a run: of its method or measurement, then of its model, then its data."""
    settings, found = job.settings, measured(job.notebook)
    for name in ("method", "what"):
        if name in settings:
            same = [row for row in found if row["provenance"]["settings"][name] == settings[name]]
            found = same
    found = [
        row for row in found if parameters(model_of(row)) or model_of(row) == settings["model"]
    ]
    usual = "smollm2-135m"  # of which most is known
    for mine in (
        lambda row: model_of(row) == settings["model"],
        lambda row: model_of(row) == usual,
        lambda row: row["provenance"]["settings"].get("data") == settings.get("data"),
        lambda row: row["provenance"]["settings"].get("measures") == settings.get("measures"),
    ):
        found = [row for row in found if mine(row)] or found
    return found


def targets(settings: dict, row: dict) -> float:
    """How many times as many secrets a run unlearns as a row's; one where neither says."""
    there = row["provenance"]["settings"].get("forget") or row["result"].get("after", {}).get(
        "forget"
    )
    return settings["forget"] / there if settings.get("forget") and there else 1.0


def estimate(job: Job) -> Estimate | None:
    """What one run takes on a machine like the rows'; None where no row is like it."""
    settings = job.settings
    own = parameters(settings["model"])
    found = alike(job)
    if not found or not (own or model_of(found[0]) == settings["model"]):
        return None

    def seconds(row: dict) -> float:
        larger = own / parameters(model_of(row)) if own else 1.0
        trials = settings.get("trials", 1) / row["provenance"]["settings"].get("trials", 1)
        spent = row["provenance"]["seconds"]
        return (
            larger
            * trials
            * sum(
                each * (targets(settings, row) if stage == "unlearn" else 1.0)
                for stage, each in spent.items()
            )
        )

    def memory(row: dict) -> float:
        larger = own / parameters(model_of(row)) if own else 1.0
        low = (
            settings.get("dtype") != "float32" and row["provenance"]["model"]["dtype"] == "float32"
        )
        return larger * row["provenance"]["peak_memory_mb"] / (2 if low else 1)

    return Estimate(median(map(seconds, found)), max(map(memory, found)), model_of(found[0]))


def memory_mb(job: Job) -> int:
    """What to ask a scheduler for."""
    known = estimate(job)
    return round(1.25 * known.memory_mb) if known else MEMORY_MB


def table(profile: Profile) -> pd.DataFrame:
    """One line for each experiment, model and method: its runs, those done, and what is left."""
    groups: dict[tuple, list[Job]] = {}
    for job in profile.jobs.values():
        what = job.settings.get("method", job.settings.get("what", ""))
        groups.setdefault((job.notebook, job.settings["model"], what), []).append(job)
    lines = []
    for (notebook, model, what), jobs in groups.items():
        each = [estimate(job) for job in jobs]
        left = [one for one, job in zip(each, jobs, strict=True) if not job.row.is_file()]
        lines.append({
            "notebook": notebook,
            "model": model,
            "method": what,
            "runs": len(jobs),
            "done": len(jobs) - len(left),
            "left": duration(sum(one.seconds for one in left)) if None not in left else UNKNOWN,
            "memory": f"{each[0].memory_mb / 1024:.1f} GiB" if each[0] else UNKNOWN,
            "measured on": each[0].like if each[0] else "nothing yet",
        })  # fmt: skip
    return pd.DataFrame(lines)


def downloads(profile: Profile) -> str:
    """The disk and the downloads of a profile's models, and of their memorised copies."""
    jobs = profile.jobs.values()
    models = {job.settings["model"] for job in jobs} & {*registry()}
    copies = [job.settings["model"] for job in jobs if job.notebook == "memorise"]
    size = lambda name: registry()[name].get("disk_mb", registry()[name]["download_mb"])  # noqa: E731
    disk = sum(map(size, [*models, *(name for name in copies if name in models)]))
    fetched = sum(registry()[name]["download_mb"] for name in models)
    return f"Disk: {disk / 1024:.1f} GiB. Download: {fetched / 1024:.1f} GiB, if nothing is there."


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make plan", description="Says what a profile would run.")
    parser.add_argument("profile", nargs="?", default="quick", help=", ".join(known()))
    try:
        profile = read(parser.parse_args().profile)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{profile.name}: {profile.title}", table(profile).to_string(index=False), sep="\n\n")
    print(f"\n{len(profile.jobs)} runs, one after the other on a machine like the rows'.")
    print(downloads(profile))


if __name__ == "__main__":
    main()
