"""`make record`: what is recorded of each sweep, what is missing, and which rows are older.

`make record AGAIN=3` draws three recorded runs of the embedded model at random and makes them anew
from their own settings: whoever doubts a row can see it come back.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections import Counter

from companion.experiments.settings import MODEL
from companion.store import rows, versions
from companion.store.paths import BUILD, ROOT
from companion.workflow.sweep import Job, known, options, read

PLACE = BUILD / "again" / "rows"
FREE = {"hyperparameters", "overrides", "rows", "tag"}  # settings that say nothing of which run


def recorded(name: str) -> tuple[list[dict], list[str]]:
    """Of a sweep's runs: the rows that are recorded, and the names of those that are not."""
    found, jobs = rows.find(rows.RECORDED), read(name).jobs
    there = [found[job] for job in jobs if job in found and same_settings(jobs[job], found[job])]
    done = {row["name"] for row in there}
    return there, [job for job in jobs if job not in done]


def same_settings(job: Job, row: dict) -> bool:
    """Was a row made with what a sweep asks for? Tuned settings are a matter of their search."""
    had, asked = row["settings"], job.settings.model_dump(exclude=FREE)
    typed = getattr(job.settings, "hyperparameters", None) or {}
    same = all(had[name] == value for name, value in asked.items() if name in had)
    legacy = bool(had.get("finetune"))  # of all weights, instead of an adapter
    return same and not legacy and typed.items() <= (had.get("hyperparameters") or {}).items()


def overview() -> list[str]:
    """One line a sweep, and one for each reason why rows may be older."""
    lines, older = [], Counter()
    for name in known():
        there, missing = recorded(name)
        line = f"{name:16} {len(there):4} of {len(there) + len(missing):4} runs are recorded"
        line += f"; missing: {missing[0]}" if missing else ""
        lines.append(line + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    for row in rows.find(rows.RECORDED).values():
        if names := versions.older(row):
            older[", ".join(names), versions.reason(row) or "not allowed by rows/older.yml"] += 1
    return lines + [
        f"{count} rows are older ({what}): {why}" for (what, why), count in older.items()
    ]


def drawn(number: int, seed: int | None) -> list[dict]:
    """Recorded runs of the embedded model that can be made anew, so many at random."""
    every = sorted(rows.find(rows.RECORDED, kind="unlearn").items())
    some = [row for _, row in every if row["model"] == MODEL and not versions.older(row)]
    some = [row for row in some if "failed" not in row["result"]]
    return random.Random(seed).sample(some, min(number, len(some)))


def again(row: dict) -> str:
    """Makes a row anew by its settings, in a process of its own, and says how the two agree."""
    settings = row["settings"] | {"tag": row["tag"], "rows": str(PLACE)}
    path = PLACE / f"{row['name']}.json"
    path.unlink(missing_ok=True)
    words = [sys.executable, "-m", f"companion.experiments.{row['kind']}", *options(settings)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        said = [*filter(None, done.stderr.splitlines())] or ["it was killed."]
        return f"{row['name']}: failed ({said[-1]})"
    new = rows.read(path)
    if new["result"] == row["result"]:
        return f"{row['name']}: the same, bit for bit"
    scores = [100 * one["result"]["after"]["unlearning_score"] for one in (row, new)]
    return f"{row['name']}: Unlearning Score {scores[0]:.1f} recorded, {scores[1]:.1f} now"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make record", description=__doc__.splitlines()[0])
    parser.add_argument("again", nargs="?", type=int, default=0, help="rows to make anew")
    parser.add_argument("--seed", type=int, default=None, help="of the draw")
    asked = parser.parse_args()
    if asked.again < 0:
        sys.exit(f"AGAIN is {asked.again}, but must be 0 or more: so many rows are made anew.")
    print("\n".join(overview()))
    for row in drawn(asked.again, asked.seed):
        print(again(row), flush=True)


if __name__ == "__main__":
    main()
