"""`make record`: what is recorded of each profile and what is missing; rows drawn again.

`make record AGAIN=3` draws three recorded runs of the embedded model at random and makes them anew,
from their own settings: whoever doubts a row can see it come back. On the processor that recorded
them they come back bit for bit; on another the fine-tune rounds otherwise, and how far they are off
is said.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from companion.store import rows, versions
from companion.store.paths import BUILD, ROOT
from companion.workflow.build import last_line
from companion.workflow.profile import Job, known, options, read

MODEL = "smollm2-135m"  # whose runs take minutes
PLACE = BUILD / "again" / "rows"
# settings that say nothing about which run it is; a reader's own documents are not in his row
LEFT = {"hyperparameters", "rows", "tag", "overrides", "documents", "secrets"}
HERE = ("quick", "paper", "pile")  # profiles of which nothing is recorded: a build's, and a GPU's


def sorted_out(name: str) -> tuple[list[dict], list[str]]:
    """Of a profile's runs: the rows that are recorded, and the names of those that are not."""
    found, profile = rows.find(rows.RECORDED), read(name)
    jobs = profile.jobs
    there = [found[job] for job in jobs if job in found and asked_alike(jobs[job], found[job])]
    done = {row["name"] for row in there}
    return there, [job for job in jobs | profile.waiting if job not in done]


def listed() -> list[str]:
    """One line a profile: how many of its runs are recorded; of missing ones, the first."""
    lines = []
    for name in (name for name in known() if name not in HERE):
        there, missing = sorted_out(name)
        older = [row for row in there if versions.older(row)]
        line = f"{name:16} {len(there):4} of {len(there) + len(missing):4} runs are recorded"
        line += f", {len(older)} of them older than the code" if older else ""
        line += f"; missing: {missing[0]}" if missing else ""
        lines.append(line + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    return lines


def asked_alike(job: Job, row: dict) -> bool:
    """Was a row made with what a profile asks for? Tuned settings are a matter of their search."""
    had = row["settings"]
    asked = {name: value for name, value in job.settings.items() if name not in LEFT}
    typed = job.settings.get("hyperparameters") or {}
    same = all(had.get(name, value) == value for name, value in asked.items())
    return same and typed.items() <= (had.get("hyperparameters") or {}).items()


def drawn(number: int, seed: int) -> list[dict]:
    """Recorded runs of the embedded model, so many at random."""
    found = rows.find(rows.RECORDED, kind="unlearn").values()
    some = [row for row in found if row["model"] == MODEL and "failed" not in row["result"]]
    some = sorted(some, key=lambda row: row["name"])
    return random.Random(seed).sample(some, min(number, len(some)))


def again(row: dict) -> str:
    """Makes a row anew by its settings, and says how the two agree."""
    settings = row["settings"] | {"tag": row["tag"], "rows": str(PLACE)}
    shutil.rmtree(PLACE, ignore_errors=True)
    try:
        made(ROOT, row["kind"], settings)
    except RuntimeError as error:
        return f"{row['name']}: failed ({error})"
    new = rows.read(PLACE / f"{row['name']}.json")
    if found_again(row["result"], new["result"]):
        return f"{row['name']}: the same, bit for bit"
    weights = [one["inputs"]["model"] for one in (row, new)]
    why = "the same weights" if len(set(weights)) == 1 else "a fine-tune that rounds otherwise"
    scores = [100 * one["result"]["after"]["unlearning_score"] for one in (row, new)]
    return f"{row['name']}: {scores[0]:.1f} recorded, {scores[1]:.1f} now, on {why}"


def found_again(old, new) -> bool:
    """Is all that the code before found there again? What is new beside it does not count."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(
            name in new and found_again(value, new[name]) for name, value in old.items()
        )
    if isinstance(old, list):
        same = isinstance(new, list) and len(old) == len(new)
        return same and all(map(found_again, old, new))
    return old == new


def made(tree: Path, kind: str, settings: dict) -> None:
    """Makes a run by the code of a checkout, in a process of its own; RuntimeError if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", f"companion.experiments.{kind}", *options(settings)],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = last_line(done.stderr)
        raise RuntimeError(f"A run of {kind} could not be made by the code in {tree}: {why}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="make record", description=__doc__.splitlines()[0])
    parser.add_argument("again", nargs="?", type=int, default=0, help="rows to draw again")
    parser.add_argument("--seed", type=int, default=None, help="of the draw")
    asked = parser.parse_args()
    if asked.again < 0:
        sys.exit(f"AGAIN is {asked.again}, but must be 0 or more: so many rows are drawn.")
    print("\n".join(listed()))
    for row in drawn(asked.again, asked.seed):
        print(again(row), flush=True)


if __name__ == "__main__":
    main()
