"""`make verify`: after a change of code that should change no result, are the recorded rows still true?

Rows that came from the same modules (one method of one experiment), or from a part of them, are a group. Of those with all the
modules of a group that is stale, the quickest row's run is made twice, on the first few secrets of its data: by the code of BASE,
the commit before the change, and by the present code. If both results are equal, bit for bit, the group's rows get the present
stamp, and say which run speaks for them; if not, they stay stale and are to be recorded anew. Where a change concerns some settings only, rows with these settings speak for
themselves alone: EACH names them, with * for any part of a name. Both runs are made here, since another processor rounds
otherwise than the one that recorded, and both start from one model, which had three epochs to memorise (for a report, all of them). Rows whose settings
or inputs changed are not touched.

A calibration, also that of a report, is drawn again with its first setting alone: how it goes on from there depends on the
clock, so that after a change of that such rows are to be recorded anew. One of them speaks for all models, and so does one
search of each method, since what is special about a model is in the methods, whose runs are drawn for each. A row does not say on whose documents a report was made:
for all of them the embedded model speaks, with some secrets of the project's documents.

Rows of benchmarks are left out. Times differ from run to run, so that no second run could vouch for a first: a stale
benchmark stays as a measurement of the code of its date, which its page says, until it is measured again (`make bench adopt`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

from companion.pages.results import tag_of
from companion.record import rows, stamps
from companion.runs import datasets
from companion.runs.memorise import prepared
from companion.workflow.paths import BUILD, ROOT
from companion.workflow.profile import defaults

PLACE = BUILD / "verify"
# A run made small. The documents of a curation are not known from its row: those that come with the project serve, under a name of its own
FEW = {
    "memorise": {"epochs": 3},
    "curate": {"limit": 20, "name": "verify"},
    "unlearn": {"forget": 3, "sentences": 1},
    "tune": {"trials": 1, "forget": 3, "sentences": 1},
    "calibrate": {"minutes": 0, "sentences": 1},
}
SECRETS = 10  # of a data set, to forget and to keep
ON_ANY_MODEL = (
    "tune",
    "calibrate",
    "own",
)  # what is special about a model is in the methods, whose runs are drawn for each
FEW["own"] = defaults("own") | {"limit": 20, "forget": 3, "minutes": 0, "out": str(PLACE / "own")}


def verify(folder: Path, before: Path, each: Sequence[str] = ()) -> dict[str, list[str]]:
    """Runs the code of the checkout ``before`` and the present one, and gives stamps; the names of the rows verified, and of those that are different now."""
    said: dict[str, list[str]] = {"verified": [], "different": []}
    for kind in FEW:
        for group in groups(folder, kind, each):
            sample = min(
                (row for row in group if finished(row)),
                key=lambda row: (-len(entry(row)), sum(row["provenance"]["seconds"].values())),
            )
            print(f"{sample['name']} speaks for {len(group)} rows …", flush=True)
            old, new = (drawn(tree, sample) for tree in (before, ROOT))
            equal = old["result"] == new["result"]
            said["verified" if equal else "different"] += [row["name"] for row in group]
            if equal:
                for row in group:
                    restamp(row, sample["name"])
    return said


def groups(folder: Path, kind: str, each: Sequence[str] = ()) -> list[list[dict]]:
    """The stale rows of one kind: those of the same modules and model (searches, calibrations and reports: of any model), with those of fewer modules, or one alone that ``each`` names.

    Fine-tunes stand alone. A row of many modules that failed gives its name to no group, since it can speak for none.
    """
    found: dict[tuple, list[dict]] = {}
    for name, row in rows.find(folder, kind=kind).items():
        if rows.stale(row):
            made = row["provenance"]
            alone = kind == "memorise" or any(fnmatch(name, pattern) for pattern in each)
            about = name if alone else "" if kind in ON_ANY_MODEL else made["model"]["name"]
            found.setdefault((about, frozenset(entry(row))), []).append(row)
    able = [key for key in found if any(map(finished, found[key]))]
    widest = [
        key for key in able if not any(key[0] == other[0] and key[1] < other[1] for other in able)
    ]
    spoken: dict[tuple, list[dict]] = {key: [] for key in widest}
    for key, group in found.items():
        for wide in widest:
            if key[0] == wide[0] and key[1] <= wide[1]:
                spoken[wide] += group
                break
    return list(spoken.values())


def entry(row: dict) -> list[str]:
    """Where the code of a row begins."""
    return stamps.entries(row["kind"], row["provenance"]["settings"])


def finished(row: dict) -> bool:
    """Has the run a result? (A search's ``failed`` is a count of trials.)"""
    return row["kind"] != "unlearn" or "failed" not in row["result"]


def drawn(tree: Path, row: dict) -> dict:
    """The row's run with a few secrets, by the code of a checkout, in a process of its own."""
    kind, where = row["kind"], PLACE / "rows"
    shutil.rmtree(where, ignore_errors=True)
    settings = (
        row["provenance"]["settings"]
        | FEW[kind]
        | {"rows": str(where)}
        | ({"tag": tag_of(row["name"])} if kind == "unlearn" else {})
    )
    if settings.get("finetune"):
        finetune = (settings["finetune"] if isinstance(settings["finetune"], dict) else {}) | (
            FEW["memorise"] if kind != "own" else {}
        )
        settings |= {
            "model": prepared(
                settings["model"], settings.get("data", "ssn"), finetune, str(PLACE / "models")
            ),
            "finetune": False,
        }
    if kind in ("unlearn", "tune", "calibrate"):
        settings |= {"data": str(part(settings["data"]))}
    options = [
        part for name, value in settings.items() for part in (f"--{name}", json.dumps(value))
    ]
    done = subprocess.run(
        [sys.executable, "-m", f"companion.runs.{kind}", *options],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"{row['name']} could not be drawn again by the code in {tree}: {done.stderr.strip().splitlines()[-1]}"
        )
    return next(iter(rows.find(where, kind=kind).values()))


def part(name: str) -> Path:
    """A data set's first secrets with their sentences, in a file of the same name."""
    records = datasets.read(name)
    first = list(dict.fromkeys(record.group for record in records))[:SECRETS]
    path = PLACE / "data" / f"{Path(name).stem}.jsonl"
    rows.write_text(
        path,
        "".join(json.dumps(asdict(record)) + "\n" for record in records if record.group in first),
    )
    return path


def restamp(row: dict, by: str) -> None:
    """Gives a row the stamp of the present code, and the name of the row whose run speaks for it."""
    made = row["provenance"]
    made["stamp"] = stamps.stamp(row["kind"], made["settings"], made["inputs"])
    made["verified_by"] = by
    content = {key: value for key, value in row.items() if key not in ("path", "origin")}
    rows.validate(content)
    rows.save(row["path"], content)


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The code of a commit in a folder of its own, whose build/ is this one's; gone afterwards. Raises ValueError if there is no such commit."""
    tree = PLACE / "before"
    git("worktree", "prune")
    shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "add", "--force", "--detach", str(tree), commit)
    try:
        (tree / "build").symlink_to(BUILD)
        yield tree
    finally:
        (tree / "build").unlink(missing_ok=True)
        git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> None:
    """A git command in the project's folder."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"git {words[0]} {words[1]}: {done.stderr.strip().splitlines()[-1]}")


def main() -> None:
    """Verifies rows/; ends with status 1 if some are different now."""
    parser = argparse.ArgumentParser(
        prog="make verify", description="Do the recorded rows hold after a change of code?"
    )
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit before the change")
    parser.add_argument(
        "each",
        nargs="*",
        help="rows that speak for themselves alone, like 'unlearn/*/neurons-rank'",
    )
    asked = parser.parse_args()
    try:
        with checkout(asked.base) as before:
            said = verify(rows.RECORDED, before, asked.each)
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))
    for what, names in said.items():
        print(
            f"{what}: {len(names)} rows"
            + (f" ({', '.join(names[:5])}{' …' if len(names) > 5 else ''})" if names else "")
            + "."
        )
    sys.exit(bool(said["different"]))


if __name__ == "__main__":
    main()
