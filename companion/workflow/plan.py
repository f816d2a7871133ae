"""`make plan PROFILE=…`: what a profile would run, and what that takes, from runs like it.

The guide of a run are recorded rows of its experiment, method, model, data and measures, as many of
these as agree. Rows of another model are scaled by parameters, unlearning by targets; a search
takes what its trials took.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from statistics import median
from typing import NamedTuple

import pandas as pd
import yaml

from companion.experiments.memory import PROCESS
from companion.store import rows
from companion.store.paths import ROOT
from companion.workflow.profile import Job, Profile, known, read

MEMORY_MB = 8000  # asked of a cluster when nothing is known, and beside weights that go to a GPU
PROCESS_MB = PROCESS // 2**20  # which no larger model makes larger
UNKNOWN, USUAL = "unknown", "smollm2-135m"  # the model of which most is known
MODELS = yaml.safe_load((ROOT / "params" / "models.yml").read_text(encoding="utf-8"))


class Estimate(NamedTuple):
    """Of one run; ``like`` is the model that was measured."""

    seconds: float
    memory_mb: float
    like: str


@functools.cache
def measured(kind: str) -> pd.DataFrame:
    """Every run on a CPU that came to its end: what it was asked, and what it took."""
    lines = []
    of_trials = trials() if kind == "tune" else {}
    for row in rows.find(kind=kind).values():
        made = row
        failed = isinstance(row["result"].get("failed"), str)
        if not failed and made["environment"]["device"] == "cpu":
            forget = row["result"].get("after", {}).get("forget", 0)
            asked = {name: str(value) for name, value in made["settings"].items()}
            counts = {"trials": made["settings"].get("trials", 1), "forget": forget}
            seconds = made["seconds"] | {"trials": of_trials.get(seedless(row["name"]), 0)}
            spent = {"spent": seconds, "peak": made["peak_memory_mb"]}
            lines.append(asked | counts | spent | {"model": row["model"]})
    return pd.DataFrame(lines)


def trials() -> dict[str, float]:
    """The seconds of all trials of every search, by the name of its row without its seed: the best
    trials run on further splits too."""
    found: dict[str, float] = {}
    for name, row in rows.find(kind="unlearn").items():
        search, trial, _ = seedless(name.replace("unlearn/", "tune/", 1)).rpartition("-trial")
        if trial:
            spent = row["seconds"]
            parts = ("unlearn", "evaluate_after", "measures")
            own = sum(spent[part] for part in parts if part in spent)
            found[search] = found.get(search, 0) + own
    return found


def seedless(name: str) -> str:
    """The name of a run without its seed."""
    return re.sub(r"-seed\d+", "", name)


def parameters(model: str) -> float | None:
    """How many weights a model has, if params/models.yml says so."""
    return MODELS.get(model, {}).get("shape", {}).get("weights")


def estimate(job: Job) -> Estimate | None:
    """What one run takes on a machine like the rows'; None where no row is like it."""
    settings, found = job.settings, measured(job.notebook)
    own = parameters(settings["model"])
    for name in ("method", "what"):
        if name in settings and name in found:
            found = found[found[name] == settings[name]]
    for name, wanted in [("model", settings["model"]), ("model", USUAL)] + [
        (name, str(settings.get(name))) for name in ("data", "measures")
    ]:
        if name in found and (found[name] == wanted).any():
            found = found[found[name] == wanted]
    if found.empty or not (own or (found["model"] == settings["model"]).all()):
        return None
    seconds, memory = [], []
    for row in found.to_dict("records"):
        larger = own / parameters(row["model"]) if own and parameters(row["model"]) else 1.0
        targets = (
            settings["forget"] / row["forget"] if row["forget"] and settings.get("forget") else 1
        )
        parts = row["spent"].items()
        spent = sum(each * (targets if part == "unlearn" else 1) for part, each in parts)
        seconds.append(larger * spent * settings.get("trials", 1) / row["trials"])
        halved = settings.get("dtype") != "float32" == row["dtype"]
        program = min(PROCESS_MB, row["peak"])
        memory.append(program + larger * (row["peak"] - program) / (1 + halved))
    return Estimate(median(seconds), max(memory), row["model"])


def memory_mb(job: Job, gpus: int = 0) -> int:
    """What to ask a scheduler for; of a run on GPUs, its machine has the weights as they are read,
    in float32 at most."""
    if gpus:
        return MEMORY_MB + round(4 * (parameters(job.settings["model"]) or 0) / 2**20)
    found = estimate(job)
    return round(1.25 * found.memory_mb) if found else MEMORY_MB


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def table(profile: Profile) -> pd.DataFrame:
    """One line for each experiment, model and method: its runs, those done, and what is left."""
    groups: dict[tuple, list[Job]] = {}
    for job in profile.jobs.values():
        what = job.settings.get("method", job.settings.get("what", ""))
        groups.setdefault((job.notebook, job.settings["model"], what), []).append(job)
    lines = []
    for about, jobs in groups.items():
        one, left = estimate(jobs[0]), [estimate(job) for job in jobs if not job.row.is_file()]
        line = dict(zip(("notebook", "model", "method"), about, strict=True))
        line |= {"runs": len(jobs), "done": len(jobs) - len(left)}
        line["left"] = UNKNOWN if None in left else duration(sum(each.seconds for each in left))
        line["memory"] = f"{one.memory_mb / 1024:.1f} GiB" if one else UNKNOWN
        lines.append(line | {"measured on": one.like if one else "nothing yet"})
    return pd.DataFrame(lines)


def downloads(profile: Profile) -> str:
    """The disk and the downloads of a profile's models, and of their memorised copies."""
    every = [(job.settings["model"], job.notebook == "finetune") for job in profile.jobs.values()]
    models = {model for model, _ in every} & set(MODELS)
    copies = [model for model, copied in every if copied and model in models]
    sizes = {name: MODELS[name].get("disk_mb", MODELS[name]["download_mb"]) for name in models}
    made = sum(MODELS[name]["shape"]["weights"] * 4e-6 for name in copies)  # saved in float32
    disk = (sum(sizes[name] for name in models) + made) / 1024
    fetched = sum(MODELS[name]["download_mb"] for name in models) / 1024
    return f"Disk: {disk:.1f} GiB. Download: {fetched:.1f} GiB, if nothing is there."


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make plan", description="Says what a profile would run.")
    parser.add_argument("profile", nargs="?", default="quick", help=", ".join(known()))
    try:
        profile = read(parser.parse_args().profile)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{profile.name}: {profile.title}", table(profile).to_string(index=False), sep="\n\n")
    print(f"\n{len(profile.jobs)} runs, one after the other. {downloads(profile)}")
    if profile.waiting:
        print(profile.postponed())
    print("Times are those of a processor without a GPU, memory is the machine's.")


if __name__ == "__main__":
    main()
