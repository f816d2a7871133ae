"""Where rows come from: machines, versions, and what each field means."""

from __future__ import annotations

import pandas as pd

from companion.store import schema


def machine(row: dict) -> dict[str, str]:
    """The machine and the versions of libraries that a row was measured with."""
    return {name: str(value) for name, value in row["environment"].items()}


def dictionary() -> pd.DataFrame:
    """The data dictionary: every field of a row."""
    lines = [one | {"field": f"`{one['field']}`"} for one in schema.dictionary()]
    return pd.DataFrame(lines).drop_duplicates("field")
