"""How long `make book` takes and what it leaves on the disk, recorded from a real run and shown in the README.

python -m companion.workflow.timing --record    # after `make book` in a fresh clone: rows/timing.json, then the README's table
python -m companion.workflow.timing             # the README's table from rows/timing.json
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from companion.record import rows
from companion.record.paths import CACHE
from companion.workflow import estimate
from companion.workflow.build import duration
from companion.workflow.paths import BUILD, ROOT

TIMING = ROOT / "rows" / "timing.json"
BLOCK = re.compile(r"(<!-- timing:.*?-->\n).*?(<!-- /timing -->)", re.DOTALL)


def measured() -> dict:
    """The seconds of the last installation and of the jobs of the last build, and the disk used."""
    jobs = estimate.last()
    stages = dict.fromkeys(("memorise", estimate.RUNS, estimate.PAGES, "book"), 0.0)
    for name, seconds in jobs.items():
        if (
            stage := name.split("/")[0]
        ) in stages:  # a run or a page by itself is counted with all of them
            stages[stage] += seconds
    disk = {
        "environment": size(ROOT / ".venv"),
        "models": size(CACHE / "models"),
        "build": size(BUILD),
    }
    install = float((ROOT / ".venv" / "install-seconds").read_text())
    return {
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
        "hardware": rows.machine()["hardware"],
        "seconds": {"install": install} | stages,
        "disk_mb": disk,
    }


def size(folder: Path) -> int:
    """MiB of the files under a folder."""
    return round(
        sum(
            path.lstat().st_size
            for path in folder.rglob("*")
            if path.is_file() and not path.is_symlink()
        )
        / 2**20
    )


def table(timing: dict) -> str:
    """The README's table."""
    names = {
        "install": "installation",
        "memorise": "memorising (with the model's download and conversion)",
        estimate.RUNS: "small runs: secrets in documents, unlearning, a search, margins, documents to report, a benchmark",
        estimate.PAGES: "light notebooks",
        "book": "the book",
    }
    lines = [
        f"| {title} | {duration(timing['seconds'][stage])} |"
        for stage, title in names.items()
        if stage in timing["seconds"]
    ]
    hardware, disk = timing["hardware"], timing["disk_mb"]
    return "\n".join([
        "| stage of `make book` | time |",
        "|---|---:|",
        *lines,
        f"| **clone to book** | **{duration(sum(timing['seconds'].values()))}** |",
        "",
        f"Measured {timing['when']} on {hardware['cores']} cores ({hardware['cpu']}), {hardware['memory_gb']} GiB, no GPU. "
        f"Disk: {disk['environment'] / 1024:.1f} GiB for the environment, {disk['models'] / 1024:.1f} GiB for the model's cache, {disk['build'] / 1024:.1f} GiB for `build/`.",
        "",
    ])  # fmt: skip


def readme(timing: dict) -> str:
    """The README with its table made anew."""
    return BLOCK.sub(
        lambda found: found[1] + table(timing) + found[2],
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.workflow.timing",
        description="Writes the README's table of times.",
    )
    parser.add_argument(
        "--record", action="store_true", help="take the times of the last build first"
    )
    if parser.parse_args().record:
        rows.write_text(TIMING, json.dumps(measured(), indent=1) + "\n")
    rows.write_text(ROOT / "README.md", readme(json.loads(TIMING.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
