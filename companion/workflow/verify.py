"""`make verify BASE=…`: after a change of code that should change no result, do the rows hold?

Rows whose code begins with the same definitions are a group. Of each group with stale rows, the
quickest run is made small twice: by the code of BASE, the commit before the change, and by the
present code, in processes of their own. If both results are equal, bit for bit, the rows of the
group get the present stamp, and say whose run speaks for them and how small it was; if not, they
stay stale and are to be recorded anew. Both runs are made on this machine, since another processor
rounds otherwise than the one that recorded. Benchmarks are left out: times differ from run to run,
so that no second run can vouch for a first.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict
from pathlib import Path

from companion.record import rows, stamps
from companion.record.paths import BUILD, ROOT
from companion.runs import datasets
from companion.runs.memorise import prepared

PLACE = BUILD / "verify"
SECRETS = 10  # of a data set, to forget and to keep
SMALL = {  # settings that make a run small
    "memorise": {"epochs": 3},
    "curate": {"limit": 20, "name": "verify"},
    "unlearn": {"forget": 3, "sentences": 1},
    "tune": {"trials": 1, "forget": 3, "sentences": 1},
    "calibrate": {"minutes": 0, "sentences": 1},
    "own": {"limit": 20, "forget": 3, "minutes": 0},
}


def verify(folder: Path, before: Path) -> dict[str, list[str]]:
    """Gives the stale rows of ``folder`` the present stamp where the code of the checkout
    ``before`` and the present one agree; the names of the rows verified and of those different."""
    said: dict[str, list[str]] = {"verified": [], "different": []}
    for group in groups(folder):
        sample = min(group, key=lambda row: sum(row["provenance"]["seconds"].values()))
        print(f"{sample['name']} speaks for {len(group)} rows …", flush=True)
        old, new = (drawn(tree, sample) for tree in (before, ROOT))
        said["verified" if old == new else "different"] += [row["name"] for row in group]
        if old == new:
            restamp(folder, group, sample)
    return said


def groups(folder: Path) -> list[list[dict]]:
    """The stale rows by where their code begins; a fine-tune stands alone."""
    found: dict[tuple, list[dict]] = {}
    for name, row in rows.find(folder).items():
        if row["kind"] != "bench" and "failed" not in row["result"] and rows.stale(row):
            begin = stamps.entries(row["kind"], row["provenance"]["settings"])
            key = (name if row["kind"] == "memorise" else "", *begin)
            found.setdefault(key, []).append(row)
    return list(found.values())


def drawn(tree: Path, row: dict) -> dict:
    """The result of the row's run made small, by the code of a checkout."""
    kind, where = row["kind"], PLACE / "rows"
    shutil.rmtree(where, ignore_errors=True)
    settings = row["provenance"]["settings"] | SMALL[kind] | {"rows": str(where)}
    if kind == "own":
        settings |= {"out": str(PLACE / "own"), "documents": "data/documents/files"}
    if settings.get("finetune"):
        given = settings["finetune"] if isinstance(settings["finetune"], dict) else {}
        given = given | (SMALL["memorise"] if kind != "own" else {})
        data = settings.get("data", "ssn")
        model = prepared(settings["model"], data, given, str(PLACE / "models"))
        settings |= {"model": model, "finetune": False}
    if kind in ("unlearn", "tune", "calibrate"):
        settings |= {"data": str(part(settings["data"]))}
    options = []
    for name, value in settings.items():
        options += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    done = subprocess.run(
        [sys.executable, "-m", f"companion.runs.{kind}", *options],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1]
        raise RuntimeError(f"{row['name']} could not be made again by the code in {tree}: {why}")
    return next(iter(rows.find(where, kind=kind).values()))["result"]


def part(name: str) -> Path:
    """A data set's first secrets with their sentences, in a file of the same name."""
    records = datasets.read(name)
    first = list(dict.fromkeys(record.group for record in records))[:SECRETS]
    path = PLACE / "data" / f"{Path(name).stem}.jsonl"
    lines = [json.dumps(asdict(record)) for record in records if record.group in first]
    rows.write_text(path, "".join(line + "\n" for line in lines))
    return path


def restamp(folder: Path, group: list[dict], sample: dict) -> None:
    """Gives rows the present stamp, and the name and size of the run that speaks for them."""
    small = SMALL[sample["kind"]] | {"secrets": SECRETS}
    taken = []
    for row in group:
        made = row["provenance"]
        stamp = stamps.stamp(row["kind"], made["settings"], made["inputs"])
        made = made | {"stamp": stamp, "verified_by": {"rows": [sample["name"]], "run": small}}
        items = rows.unpacked(rows.beside(row["path"])) if row["result"]["items_sha256"] else {}
        taken.append((row | {"provenance": made}, items.get(row["name"], [])))
    rows.record(folder, taken)


def checkout(commit: str) -> Path:
    """The code of a commit in a folder whose build/ is this one's; ValueError if there is none."""
    tree = PLACE / "before"
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise ValueError(f"git knows no commit '{commit}': name one with BASE=….")
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(tree, filter="data")
    (tree / "build").symlink_to(BUILD)
    return tree


def main() -> None:
    """Verifies rows/; ends with status 1 if some are different now."""
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit before the change")
    asked = parser.parse_args()
    try:
        said = verify(rows.RECORDED, checkout(asked.base))
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))
    for what, names in said.items():
        print(f"{what}: {len(names)} rows")
    sys.exit(bool(said["different"]))


if __name__ == "__main__":
    main()
