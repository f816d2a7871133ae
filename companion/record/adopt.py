"""`make adopt`: finished runs become recorded rows. This alone writes into rows/."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from companion.record import rows
from companion.runs import finetune
from companion.workflow.choose import choose
from companion.workflow.paths import BUILD, ROOT, shown

FINISHED = BUILD / "record" / "rows"


def adopt(source: Path, target: Path) -> dict[str, list[str]]:
    """Copies the current rows of ``source`` into ``target``; says by name what was new, changed, the same or refused.

    A row is refused if it does not fit the schema, is stale, or its per-item file is missing or another. A fine-tune that is not
    the recorded one is left while recorded rows that were not made again stand on that: fine-tunes are looked at last.
    """
    said: dict[str, list[str]] = {"new": [], "changed": [], "same": [], "left": [], "refused": []}
    for path in sorted(
        source.rglob("*.json"),
        key=lambda path: (path.relative_to(source).parts[0] == "memorise", path),
    ):
        name = str(path.relative_to(source).with_suffix(""))
        if reason := objection(path):
            said["refused"].append(f"{name}: {reason}")
            continue
        old, row = target / f"{name}.json", rows.read(path)
        same = result(old) == row["result"]
        if (
            not same
            and result(old)
            and (
                standing := stand_on(row, target) - {*said["new"], *said["changed"], *said["same"]}
            )
        ):
            said["left"].append(
                f"{name}: it is another fine-tune than the recorded one, on which {len(standing)} recorded rows stand, such as {min(standing)}; make those again to take it."
            )
            continue
        said["same" if same else "changed" if old.is_file() else "new"].append(name)
        if items(path).is_file():
            rows.write_text(items(old), items(path).read_bytes())
        else:
            items(old).unlink(missing_ok=True)
        rows.write_text(old, path.read_bytes())
    return said


def parsed(path: Path) -> dict:
    """A row that may be absent, damaged or of before a change of the schema, as far as it can be read."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def result(path: Path) -> dict | None:
    """The result of such a row; one without is replaced."""
    return parsed(path).get("result")


def stand_on(row: dict, target: Path) -> set[str]:
    """The recorded results that begin with a fine-tune of these settings; a benchmark's times do not depend on which."""
    if row["kind"] != "memorise":
        return set()
    found = {
        path: parsed(path).get("provenance", {}).get("settings", {})
        for path in target.glob("*/**/*.json")
        if path.relative_to(target).parts[0] not in ("memorise", "bench")
    }
    return {
        str(path.relative_to(target).with_suffix(""))
        for path, settings in found.items()
        if finetune(settings) == row["provenance"]["settings"]
    }


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
    print(
        f"{shown(FINISHED)} → {rows.RECORDED.relative_to(ROOT)}: {counts}."
        if any(said.values())
        else f"There are no finished runs in {shown(FINISHED)}: `make record` makes them."
    )
    if changed := choose():
        print(
            f"params/hyperparameters.yml has other settings for {', '.join(changed)}: rows that used the old ones are to be made again."
        )
    if said["refused"]:
        sys.exit(f"{len(said['refused'])} rows were refused.")


if __name__ == "__main__":
    main()
