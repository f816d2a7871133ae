"""`make book` and `make run SWEEP=…`: runs Snakemake under a lock and shows its progress.

Snakemake's own output goes to build/logs/snakemake.log. A failure ends with one sentence, a success
with the page to open or the folder of the rows.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from companion.store.paths import BUILD, HTML, LOGS, ROOT, locked, products, short_path
from companion.workflow import sources
from companion.workflow.agreement import differences, sentence
from companion.workflow.plan import duration
from companion.workflow.sweep import Sweep, known, read

LOG = LOGS / "snakemake.log"
# makes a process end with its parent, however that ends; only Linux has setpriv
TIED = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
# Snakemake keeps its records in build/, so that they are removed together with the products
PLACE = {"cwd": BUILD, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "text": True}


def lock():
    """Hold build/.lock, which the kernel releases however this process and Snakemake end."""
    sentence = "Another build is running in this folder: wait for it, or end it first."
    return locked(BUILD / ".lock", RuntimeError(sentence))


def command(sweep: str, cores: int, *more: str) -> list[str]:
    """Return the command that runs Snakemake."""
    memory = f"mem_mb={psutil.virtual_memory().total // 2**20}"
    return [
        *(*TIED, sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")),
        *("--cores", str(cores), "--nolock", "--rerun-incomplete"),
        *("--resources", memory, "--config", f"sweep={sweep}", *more),
    ]


def leave_no_file_ahead(paths: Iterable[str | Path], now: float) -> None:
    """Set files with a time in the future, left by a wrong clock, to ``now``: Snakemake does not
    accept outputs older than their inputs."""
    for path in paths:
        with contextlib.suppress(OSError):  # gone meanwhile, or somebody else's
            if os.path.getmtime(path) > now:
                os.utime(path, (now, now))


def run(sweep: Sweep, cores: int, held: int) -> None:
    """Run Snakemake to its end; RuntimeError with one sentence if a job fails.

    A sweep of hours continues after a failed run; a book would lack a page, and stops.
    """
    start = time.monotonic()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    made_from = sources.files([*sources.RUNS, *sources.PAGES, *sources.BOOK])
    leave_no_file_ahead([*BUILD.rglob("*"), *made_from], time.time())
    words = command(sweep.name, cores, *([] if sweep.pages else ["--keep-going"]))
    pipes = {"stdout": subprocess.PIPE, "pass_fds": [held]}
    with LOG.open("w") as noise, subprocess.Popen(words, stderr=noise, **pipes, **PLACE) as process:
        for line in process.stdout:
            found = re.findall(r"^\d+ of \d+ steps", LOG.read_text(encoding="utf-8"), re.MULTILINE)
            done = f"{found[-1] if found else '0 steps'} done"
            print(f"[{done}, {duration(time.monotonic() - start)}] {line.rstrip()}", flush=True)
    if process.returncode:
        raise RuntimeError(failure(LOG.read_text(encoding="utf-8")))


def failure(noise: str) -> str:
    """Return the first failed job's last message and log, and the names of others that failed."""
    pattern = r"^Error in rule .*?^    log: (logs/\S+)"
    found = list(dict.fromkeys(re.findall(pattern, noise, re.DOTALL | re.MULTILINE)))
    if not found or not (BUILD / found[0]).is_file():
        last = (noise.strip().splitlines() or ["it said nothing."])[-1].strip()
        return f"Snakemake stopped: {last} (log: {short_path(LOG)})"
    log = BUILD / found[0]
    name, *others = (re.sub(r"^logs/(record/)?|\.log$", "", each) for each in found)
    lines = log.read_text(encoding="utf-8").splitlines()
    pages = tuple(f"{path.stem}: " for path in (ROOT / "notebooks").glob("*.ipynb"))
    said = [line for line in lines if line.startswith((f"{name}: ", *pages))]
    after = f"; failed too: {', '.join(others)}" if others else ""
    return f"{said[-1] if said else f'{name}: the job was killed.'} (log: {short_path(log)}{after})"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m companion.workflow.build")
    parser.add_argument("sweep", nargs="?", default="quick", help=", ".join(known()))
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    given = parser.parse_args()
    try:
        with lock() as stream:
            sweep = read(given.sweep)
            print(f"{sweep.title}: looking for what has changed …", flush=True)
            run(sweep, given.cores, stream.fileno())
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Interrupted: the next call continues from here.")
    if sweep.pages:
        print(f"\n{sentence(differences())}\nOpen {(HTML / 'index.html').as_uri()}")
    elif sweep.jobs:
        where = short_path(products(sweep.name) / "rows")
        print(f"All {len(sweep.jobs)} rows are in {where}: `make promote` records them.")


if __name__ == "__main__":
    main()
