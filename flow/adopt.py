"""`make adopt`: finished runs become recorded rows. This alone writes into rows/."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flow.choose import choose
from flow.paths import BUILD, ROOT, shown
from revs import rows

FINISHED = BUILD / "record" / "rows"


def adopt(source: Path, target: Path) -> dict[str, list[str]]:
    """Copies the current rows of ``source`` into ``target``; says by name what was new, changed, the same or refused.

    A row is refused if it does not fit the schema, is stale, or its per-item file is missing or another.
    """
    said: dict[str, list[str]] = {"new": [], "changed": [], "same": [], "refused": []}
    for path in sorted(source.rglob("*.json")):
        name = str(path.relative_to(source).with_suffix(""))
        if reason := objection(path):
            said["refused"].append(f"{name}: {reason}")
            continue
        old, row = target / f"{name}.json", rows.read(path)
        same = result(old) == row["result"]
        said["same" if same else "changed" if old.is_file() else "new"].append(name)
        if items(path).is_file():
            rows.write_text(items(old), items(path).read_bytes())
        else:
            items(old).unlink(missing_ok=True)
        rows.write_text(old, path.read_bytes())
    return said


def result(path: Path) -> dict | None:
    """The result of a row that may be absent, damaged or of before a change of the schema: such a one is replaced."""
    try:
        return json.loads(path.read_bytes())["result"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def items(path: Path) -> Path:
    """The per-item file beside a row."""
    return path.with_suffix(".items.csv.gz")


def objection(path: Path) -> str | None:
    """Why a row cannot be recorded; None if it can."""
    try:
        row = rows.read(path)
    except ValueError as error:
        return str(error)
    if rows.stale(row):
        return "it is stale: the sources have changed since it was made; run it again."
    wanted = row["result"]["items_sha256"]
    if wanted and (not items(path).is_file() or rows.digest(items(path).read_bytes()) != wanted):
        return "its per-item file is missing or another."
    return None


def main() -> None:
    """The command."""
    said = adopt(FINISHED, rows.RECORDED)
    for kind, names in said.items():
        print(*(f"{kind:8} {name}" for name in names), sep="\n", end="\n" if names else "")
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in said.items())
    print(f"{shown(FINISHED)} → {rows.RECORDED.relative_to(ROOT)}: {counts}." if any(said.values()) else f"There are no finished runs in {shown(FINISHED)}: `make record` makes them.")
    if changed := choose():
        print(f"params/hyperparameters.yml has other settings for {', '.join(changed)}: rows that used the old ones are to be made again.")
    if said["refused"]:
        sys.exit(f"{len(said['refused'])} rows were refused.")


if __name__ == "__main__":
    main()
