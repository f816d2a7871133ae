"""`make verify BASE=…`: after a change of code that should change no result, do the rows hold?

A row's code begins at its experiment, its method and its measures, and goes one way or another by
its options, its precision and its model's family. Of the stale rows a few quick ones are chosen in
which all of these occur, a method on each family that it was run on, and every way to fine-tune.
Each is made small twice: by the code of BASE, the commit before the change, and by the present
code, in folders and processes of their own, so that neither reads what the other has kept. What the
code before found must be found again, bit for bit. A row gets the present stamp where all its
beginnings are in runs that were equal, and says whose runs speak for it and how small they were;
the others stay stale and are to be recorded anew. Both runs are made on this machine, since another
processor rounds otherwise than the one that recorded. Curations and reports are made of the
embedded model and documents: how others are read is not tried. Benchmarks are left out: times
differ from run to run, so that no second run can vouch for a first.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict
from pathlib import Path

from companion.data import datasets, models
from companion.data.models import adapted as prepared
from companion.store import rows, stamps
from companion.store.paths import BUILD, ROOT
from companion.workflow.profile import parameters
from companion.workflow.record import found_again, made
from revs.method.algorithm import CHOICES

PLACE = BUILD / "verify"
SECRETS = 10  # of a data set, to forget and to keep
SMALL = {  # settings that make a run small
    "memorise": {"epochs": 3},
    "curate": {"limit": 20, "name": "verify"},
    "unlearn": {"forget": 3, "sentences": 1},
    "own": {"limit": 20, "forget": 3, "minutes": 0},
}
CUT = ("memorise", "unlearn")  # whose data is cut to a few secrets
EMBEDDED = {"model": "smollm2-135m", "documents": "data/documents/files"}
# settings by which a run goes one way or another
WAYS = ("challenge_tokenizer", "choose", "dtype", "held", "kinds", "told", "tokens")
CODE = ("companion", "data", "notebooks", "paper", "params", "revs", "rows")


def verify(folder: Path, before: Path, now: Path) -> dict[str, list[str]]:
    """Gives the stale rows of ``folder`` the present stamp where the code in ``before`` and the
    present one in ``now`` agree; the names of the rows verified and of the others.

    Rows are written as soon as all that speaks for them is known: what is interrupted goes on."""
    found = stale(folder)
    equal: dict[str, str] = {}  # where code begins → the run that speaks for it
    said: dict[str, list[str]] = {"verified": []}
    for sample in samples(found):
        print(f"{sample['name']} …", flush=True)
        try:
            old, new = (drawn(tree, sample) for tree in (before, now))
        except OSError as error:  # a set of secrets, or a model, that is not on this machine
            print(f"{sample['name']} is left out: {error}", flush=True)
            continue
        if not found_again(old, new):
            print(f"{sample['name']} is different now.", flush=True)
            continue
        equal |= dict.fromkeys(begin(sample) - equal.keys(), sample["name"])
        held = [row for row in found if begin(row) <= equal.keys()]
        restamp(folder, held, equal)
        found = [row for row in found if row not in held]
        said["verified"] += [row["name"] for row in held]
    return said | {"different": [row["name"] for row in found]}


def stale(folder: Path) -> list[dict]:
    """The stale rows that a small run can speak for."""
    return [row for row in rows.find(folder).values() if rows.stale(row)]


def begin(row: dict) -> set[str]:
    """Where a row's code begins and which ways it goes; a fine-tune's ways are its settings, which
    sentences it learns is none of them."""
    kind, asked = row["kind"], row["provenance"]["settings"]
    found = set(stamps.entries(kind, asked))
    if kind == "memorise":
        ways = {name: value for name, value in asked.items() if name != "data"}
        return found | {json.dumps(ways, sort_keys=True)}
    if isinstance(why := row["result"].get("failed"), str):  # a search counts failed trials
        found.add(why)
    found |= {f"{name} {asked[name]}" for name in WAYS if asked.get(name)}
    if "method" in asked:
        options = (asked.get("hyperparameters") or {}).items()
        found |= {f"{name} {value}" for name, value in options if name in (*CHOICES, "control")}
        made = models.registry().get(row["model"], {}).get("config", {})
        # those in wheels that methods were run on are of one row of the table of architectures
        found.add(f"{asked['method']} on {made.get('model_type', 'llama')}")
    return found


def samples(some: list[dict]) -> list[dict]:
    """Quick runs among some rows, few in number, in which all their code begins."""
    seconds = lambda row: sum(row["provenance"]["seconds"].values())  # noqa: E731
    some = [row for row in some if row["kind"] != "tune"]  # whose trials are rows too
    chosen, left = [], set().union(*map(begin, some))
    for row in sorted(some, key=lambda row: (len(begin(row)), seconds(row))):
        if begin(row) & left:
            chosen.append(row)
            left -= begin(row)
    return chosen


def drawn(tree: Path, row: dict) -> dict:
    """The result of the row's run made small, by the code of a checkout."""
    kind, where = row["kind"], PLACE / "rows"
    shutil.rmtree(where, ignore_errors=True)
    settings = row["provenance"]["settings"] | SMALL[kind] | {"rows": str(where)}
    if kind in ("own", "curate"):
        settings |= {name: value for name, value in EMBEDDED.items() if name in settings}
    if kind == "own":
        settings |= {"out": str(PLACE / "own"), "secrets": None}
    if settings.get("finetune"):
        given = settings["finetune"] if isinstance(settings["finetune"], dict) else {}
        given = given | (SMALL["memorise"] if kind != "own" else {})
        data = settings.get("data", "ssn")
        model = prepared(settings["model"], data, given, str(PLACE / "models"))
        settings |= {"model": model, "finetune": False}
    if kind in CUT:
        settings |= {"data": str(part(settings["data"]))}
    there = parameters(tree / "notebooks" / f"{kind}.ipynb")  # a newer setting is not in all code
    try:
        made(tree, kind, {name: settings[name] for name in settings.keys() & there.keys()})
    except RuntimeError:
        if "failed" not in row["result"]:
            raise
    return next(iter(rows.find(where, kind=kind).values()))["result"]


def part(name: str) -> Path:
    """A data set's first secrets with their sentences, in a file of the same name."""
    records = datasets.read(name)
    first = list(dict.fromkeys(record.group for record in records))[:SECRETS]
    path = PLACE / "data" / f"{Path(name).stem}.jsonl"
    lines = [json.dumps(asdict(record)) for record in records if record.group in first]
    rows.write_text(path, "".join(line + "\n" for line in lines))
    return path


def restamp(folder: Path, held: list[dict], equal: dict[str, str]) -> None:
    """Gives rows the present stamp, and the names and sizes of the runs that speak for them."""
    taken = []
    for row in held:
        made = row["provenance"]
        stamp = stamps.stamp(row["kind"], made["settings"], made["inputs"])
        spoken = sorted({equal[place] for place in begin(row)})
        kind = "unlearn" if row["kind"] == "tune" else row["kind"]
        small = SMALL[kind] | ({"secrets": SECRETS} if kind in CUT else {})
        made = made | {"stamp": stamp, "verified_by": {"rows": spoken, "run": small}}
        taken.append((row | {"provenance": made}, rows.listed(row)))
    rows.record(folder, taken)


def checkout(commit: str) -> Path:
    """The code of a commit in a folder of its own; ValueError if there is no such commit."""
    tree = PLACE / "before"
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise ValueError(f"git knows no commit '{commit}': name one with BASE=….")
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


def copied() -> Path:
    """The present code in a folder of its own."""
    tree = PLACE / "now"
    shutil.rmtree(tree, ignore_errors=True)
    for name in CODE:
        shutil.copytree(ROOT / name, tree / name)
    shutil.copy(ROOT / "_toc.yml", tree)
    return tree


def main() -> None:
    """Verifies rows/; ends with status 1 if some are different now."""
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?", default="HEAD", help="the commit before the change")
    asked = parser.parse_args()
    try:
        said = verify(rows.RECORDED, checkout(asked.base), copied())
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))
    for what, names in said.items():
        print(f"{what}: {len(names)} rows")
    sys.exit(bool(said["different"]))


if __name__ == "__main__":
    main()
