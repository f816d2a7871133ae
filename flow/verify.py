"""`make verify`: after a change of code that should change no result, are the recorded rows still true?

Rows that came from the same modules (one method of one experiment) are a group. Of each group that is stale, the quickest
row is drawn again. If its result is equal, bit for bit, the group's rows get the present stamp, and say which row
speaks for them; if not, they stay stale and are to be recorded anew. Rows whose settings or inputs changed are not touched.

Rows of benchmarks and of curating are left out. Times differ from run to run, so that no second run could vouch for a first:
a stale benchmark is measured again (`make bench adopt`), and `make adopt` calls it changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from flow.paths import BUILD
from flow.profile import defaults
from revs import rows
from revs.experiments import MISTAKES, memorise, tune, unlearn
from revs.results import tag_of

PLACE = BUILD / "verify"


def verify(folder: Path) -> dict[str, list[str]]:
    """Draws rows again and gives stamps; the names of the rows verified, and of those that are different now."""
    said: dict[str, list[str]] = {"verified": [], "different": []}
    for kind in ("memorise", "unlearn", "tune"):  # in this order: a run starts from a memorised model, a search reads its trials
        for group in groups(folder, kind):
            sample = min((row for row in group if finished(row)), key=lambda row: sum(row["provenance"]["seconds"].values()))
            print(f"{sample['name']} is drawn again, for {len(group)} rows …", flush=True)
            equal = again(sample, folder)["result"] == sample["result"]
            said["verified" if equal else "different"] += [row["name"] for row in group]
            if equal:
                for row in group:
                    restamp(row, sample["name"])
    return said


def groups(folder: Path, kind: str) -> list[list[dict]]:
    """The stale rows of one kind: runs by their modules and model, others one by one; a group of failures alone is left out."""
    found: dict[tuple, list[dict]] = {}
    for name, row in rows.find(folder, kind=kind).items():
        if rows.stale(row):
            made = row["provenance"]
            found.setdefault((*made["entry"], made["model"]["name"]) if kind == "unlearn" else (name,), []).append(row)
    return [group for group in found.values() if any(map(finished, group))]


def finished(row: dict) -> bool:
    """Has the run a result? (A search's ``failed`` is a count of trials.)"""
    return row["kind"] != "unlearn" or "failed" not in row["result"]


def again(row: dict, folder: Path) -> dict:
    """The same run with the present code, its row under build/verify; a search only over recorded trials that are current."""
    made = row["provenance"]
    torch.set_num_threads(made["hardware"]["threads"])  # sums are rounded otherwise with another number
    if row["kind"] == "memorise":
        return memorise.memorised(**made["settings"], rows=str(PLACE))[1]
    if row["kind"] == "tune":
        trials = row["name"].replace("tune/", "unlearn/", 1) + "-trial"
        stale = any(rows.stale(trial) for name, trial in rows.find(folder, kind="unlearn").items() if name.startswith(trials))
        return {"result": None} if stale else tune.search(**made["settings"], rows=str(folder))
    return unlearn.once(**defaults("unlearn") | made["settings"] | {"tag": tag_of(row["name"]), "rows": str(PLACE)})


def restamp(row: dict, by: str) -> None:
    """Gives a row the stamp of the present code, and the name of the row that was drawn again for it."""
    made = row["provenance"]
    made["stamp"] = rows.stamp(made["entry"], made["settings"], made["inputs"])
    made["modules"] = rows.closure(*made["entry"])
    made["verified_by"] = by
    content = {key: value for key, value in row.items() if key not in ("path", "origin")}
    rows.validate(content)
    rows.save(row["path"], content)


def main() -> None:
    """Verifies rows/; ends with status 1 if some are different now."""
    try:
        said = verify(rows.RECORDED)
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")
    for what, names in said.items():
        print(f"{what}: {len(names)} rows" + (f" ({', '.join(names[:5])}{' …' if len(names) > 5 else ''})" if names else "") + ".")
    sys.exit(bool(said["different"]))


if __name__ == "__main__":
    main()
