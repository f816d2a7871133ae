"""Where rows come from: machines, versions, and what each field means."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from companion.store import schema, versions


def machine(row: dict) -> dict[str, str]:
    """The machine and the versions of libraries that a row was measured with."""
    return {name: str(value) for name, value in row["environment"].items()}


def machines(found: Mapping[str, dict]) -> pd.DataFrame:
    """One line a row: the ``machine`` by number, and what it is."""
    frame = pd.DataFrame([machine(row) for row in found.values()])
    number = frame.groupby(list(frame), sort=False, dropna=False).ngroup() + 1
    frame.insert(0, "machine", number.astype(str))
    return frame


def row_table(found: Mapping[str, dict], machines: pd.DataFrame) -> pd.DataFrame:
    """One line a row: its name, origin, date and machine, what it took, and the file it is in."""
    lines = [
        {
            "row": row["name"],
            "origin": row["origin"],
            "date": row["date"],
            "seconds": f"{sum(row['seconds'].values()):.0f}",
            "MiB": f"{row['peak_memory_mb']:,}",
            "older": ", ".join(versions.older(row)),
            "file": f"../rows/{row['kind']}/{row['data']}/{row['model']}.jsonl",
        }
        for row in found.values()
    ]
    frame = pd.DataFrame(lines)
    frame.insert(3, "machine", list(machines["machine"]))
    return frame


def dictionary() -> pd.DataFrame:
    """The data dictionary: every field of a row."""
    lines = [one | {"field": f"`{one['field']}`"} for one in schema.dictionary()]
    return pd.DataFrame(lines).drop_duplicates("field")
