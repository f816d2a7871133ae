"""What a run will take, from rows of runs like it: seconds and memory.

Rows of the same experiment, model and method (or measurement) are the best guide, then of the same experiment and model; rows of another
model are scaled by the number of parameters that the models' names tell (smollm2-135m, llama-3-8b).
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

from flow.paths import BUILD, LOGS
from flow.profile import Job
from revs import rows

MEMORY_MB = 8000  # asked of a cluster when nothing is known
SECONDS = {"page": 15, "book": 60}  # before the first build on this machine
LAST = LOGS / "seconds.json"  # of the last build's jobs, on this machine


class Estimate(NamedTuple):
    """Of one run: None where nothing is known; ``like`` is the model that was measured if it is another."""

    seconds: float | None
    memory_mb: float | None
    like: str | None


@functools.cache
def measured() -> list[dict]:
    """Every readable row, recorded or of this machine."""
    found = []
    for folder in (rows.RECORDED, BUILD / "record" / "rows", rows.MEASURED):
        for path in folder.rglob("*.json"):
            try:
                found.append(rows.read(path))
            except ValueError:  # the schema itself, or a row of another version
                continue
    return found


def parameters(model: str) -> float | None:
    """Millions of parameters, as a model's name says."""
    found = re.search(r"(\d+(?:\.\d+)?)([mb])(?![a-z])", Path(model).name.lower())
    return float(found[1]) * (1000 if found[2] == "b" else 1) if found else None


def estimate(job: Job) -> Estimate:
    """What one run will take."""
    model = Path(job.settings["model"]).name
    kind = lambda settings: (settings.get("method"), settings.get("what"))
    same = [row for row in measured() if row["kind"] == job.notebook]
    own = [row for row in same if row["provenance"]["model"]["name"] == model]
    if own:
        closest = [row for row in own if kind(row["provenance"]["settings"]) == kind(job.settings)] or own
        return Estimate(median(map(seconds, closest)), max(row["provenance"]["peak_memory_mb"] for row in closest), None)
    scaled = [(parameters(model) / size, row) for row in same if parameters(model) and (size := parameters(row["provenance"]["model"]["name"]))]
    if not scaled:
        return Estimate(None, None, None)
    like = scaled[0][1]["provenance"]["model"]["name"]
    return Estimate(median(f * seconds(row) for f, row in scaled), max(f * row["provenance"]["peak_memory_mb"] for f, row in scaled), like)


def seconds(row: dict) -> float:
    """Wall-clock seconds of a row's run."""
    return sum(row["provenance"]["seconds"].values())


def memory_mb(job: Job) -> int:
    """What to ask a scheduler for."""
    return round(1.25 * (estimate(job).memory_mb or MEMORY_MB))


def last() -> dict[str, float]:
    """Seconds of jobs in earlier builds on this machine, by name."""
    return json.loads(LAST.read_text(encoding="utf-8")) if LAST.is_file() else {}


def left(name: str, job: Job | None) -> float:
    """Seconds that a job of the present build may take: as last time here, as rows say, or a guess."""
    known = last().get(name) or (estimate(job).seconds if job else None)
    return known or SECONDS["book" if name == "book" else "page"]
