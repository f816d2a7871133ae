"""`make book` and `make record`: runs Snakemake under a lock and shows where it is.

Snakemake's own words go to build/logs/snakemake.log. A failure ends with one sentence; a success with the page to open
and what was reproduced.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import time

import psutil

from companion.record.paths import held
from companion.record.rows import write_text
from companion.workflow import estimate, lifeline
from companion.workflow.paths import BUILD, LOGS, ROOT, shown
from companion.workflow.profile import Profile, known, read
from companion.workflow.site import HTML

LOG = LOGS / "snakemake.log"


class Busy(RuntimeError):
    """Another build holds the lock."""


@contextlib.contextmanager
def lock():
    """Holds build/.lock, which the kernel releases however this process and Snakemake end; gives its descriptor."""
    with held(
        BUILD / ".lock",
        Busy("Another build is running in this folder: wait for it, or end it first."),
    ) as stream:
        yield stream.fileno()


def command(profile: str, cores: int, *more: str) -> list[str]:
    """How Snakemake is called."""
    resources = [f"mem_mb={psutil.virtual_memory().total // 2**20}"]
    if gpus := visible_gpus():
        resources.append(f"gpu={gpus}")
    return [
        sys.executable, "-m", "companion.workflow.lifeline", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", str(cores), "--nolock",
        "--rerun-incomplete", "--rerun-triggers", "params", "--resources", *resources, "--config", f"profile={profile}", *more,
    ]  # fmt: skip


# Snakemake keeps its own records in build/ too: there they are removed together with what they are about
PLACE = {"cwd": BUILD, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}


def visible_gpus() -> int:
    """How many GPUs there are to share out."""
    import torch

    return torch.cuda.device_count()


def due(profile: str, cores: int) -> list[str]:
    """The names of the jobs that Snakemake would run, asked of Snakemake. ValueError if it cannot say."""
    done = subprocess.run(command(profile, cores, "--dry-run"), capture_output=True, **PLACE)
    if done.returncode:
        raise ValueError(f"The workflow could not be read: {last_line(done.stderr)}")
    names = []
    for block in re.findall(
        r"^(?:local)?rule (?:run|page|book):$.*?(?=^\S|\Z)",
        done.stdout + done.stderr,
        re.DOTALL | re.MULTILINE,
    ):
        wildcard = re.search(r"wildcards: (?:job|page)=(\S+)", block)
        names.append(wildcard[1] if wildcard else "book")
    return list(dict.fromkeys(names))


def last_line(text: str) -> str:
    """The last line that says something."""
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing."])[
        -1
    ]


class Overview:
    """Puts what is done and how long the rest may take before every line of progress: pages go side by side on all cores, runs as many as share them."""

    def __init__(self, profile: Profile, names: list[str], cores: int):
        self.groups = {
            estimate.RUNS: [
                name for name, job in profile.jobs.items() if job.notebook != "memorise"
            ],
            estimate.PAGES: profile.pages,
        }
        self.waiting = {name: estimate.left(name, profile.jobs.get(name)) for name in names}
        self.beside = {name: cores for name in profile.pages} | {
            name: min(cores, job.abreast) for name, job in profile.jobs.items()
        }
        self.total, self.start, self.begun = len(names), time.monotonic(), {}
        self.took: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def __call__(self, line: str) -> str:
        """The line for the terminal; a job's first and last lines are what is counted."""
        name = line.split(": ", 1)[0]
        now = time.monotonic()
        if name in self.waiting:
            self.begun.setdefault(name, now)
            if finished := re.search(r": finished in (\d+) s", line):
                self.took[name], self.ended[name] = float(finished[1]), now
                del self.waiting[name]
        running = sum(
            max(0, seconds - (now - self.begun.get(name, now))) / self.beside.get(name, 1)
            for name, seconds in self.waiting.items()
        )
        return f"[{self.total - len(self.waiting)}/{self.total} done, {duration(now - self.start)}, about {duration(running)} left] {line}"

    def seconds(self) -> dict[str, float]:
        """Of every finished job; of all pages together, which run side by side, and of all runs but the fine-tunes, if all were made."""
        made = {
            group: names
            for group, names in self.groups.items()
            if names and set(names) <= set(self.ended)
        }
        return self.took | {
            group: round(
                max(self.ended[name] for name in names) - min(self.begun[name] for name in names)
            )
            for group, names in made.items()
        }


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def run(profile: Profile, names: list[str], cores: int, held: int) -> None:
    """Runs Snakemake to its end; RuntimeError with one sentence if a job fails."""
    overview = Overview(profile, names, cores)
    LOG.parent.mkdir(parents=True, exist_ok=True)
    onward = (
        [] if profile.pages else ["--keep-going"]
    )  # a recording of hours does not end with one run that fails; a book would lack a page
    with (
        LOG.open("w") as noise,
        subprocess.Popen(
            command(profile.name, cores, *onward),
            stdout=subprocess.PIPE,
            stderr=noise,
            pass_fds=[held],
            **PLACE,
        ) as process,
    ):
        for line in process.stdout:
            print(overview(line.rstrip()), flush=True)
    write_text(estimate.LAST, json.dumps(estimate.last() | overview.seconds(), indent=1))
    if process.returncode < 0:
        raise RuntimeError("Snakemake was killed: the next call continues from here.")
    if process.returncode:
        raise RuntimeError(failure(LOG.read_text(encoding="utf-8")))


def failure(noise: str) -> str:
    """What the first job that failed said last, and where its log is; the names of others that failed after it."""
    found = list(
        dict.fromkeys(
            re.findall(r"^Error in rule .*?^    log: (logs/\S+)", noise, re.DOTALL | re.MULTILINE)
        )
    )
    if not found or not (BUILD / found[0]).is_file():
        return f"Snakemake stopped: {last_line(noise)} (log: {shown(LOG)})"
    log = BUILD / found[0]
    name, *others = (
        each.removeprefix("logs/").removeprefix("record/").removesuffix(".log") for each in found
    )
    said = [
        line
        for line in log.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"{name}: ")
    ]
    after = f"; failed too: {', '.join(others)}" if others else ""
    return f"{said[-1] if said else f'{name}: the job was killed.'} (log: {shown(log)}{after})"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.workflow.build",
        description="Runs a profile, and builds the book if it has pages.",
    )
    parser.add_argument(
        "profile", nargs="?", default="quick", help=f"a name of params/: {', '.join(known())}"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    lifeline.hold()
    try:
        with lock() as held:
            profile = read(arguments.profile)
            print(f"{profile.title}: looking for what has changed …", flush=True)
            names = due(profile.name, arguments.cores)
            if names:
                print(f"{len(names)} jobs to do: {', '.join(names)}", flush=True)
                run(profile, names, arguments.cores, held)
            else:
                print("Nothing has changed.")
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Interrupted: the next call continues from here.")
    if profile.pages:
        print(
            "",
            *importlib.import_module("companion.pages.summary").lines(),
            "",
            f"Open {(HTML / 'index.html').as_uri()}",
            sep="\n",
        )
    else:
        print(
            f"All {len(profile.jobs)} rows are in {shown(ROOT / next(iter(profile.jobs.values())).rows)}: `make adopt` records them."
        )


if __name__ == "__main__":
    main()
