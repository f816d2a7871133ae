"""Where rows come from: machines, versions, and what each field means."""

from collections.abc import Mapping

import pandas as pd

from companion.analysis.tables import number_ranges
from companion.store import schema, versions


def machines(found: Mapping[str, dict]) -> pd.DataFrame:
    """One line per row: the ``machine`` by number, what it is, and the versions of libraries."""
    frame = pd.DataFrame(
        {name: str(value) for name, value in row["environment"].items()} for row in found.values()
    )
    number = frame.groupby(list(frame), sort=False, dropna=False).ngroup() + 1
    frame.insert(0, "machine", number.astype(str))
    return frame


def summary(found: Mapping[str, dict], machines: pd.DataFrame) -> pd.DataFrame:
    """One line per experiment, data set and model: how many rows, from when, and what they took."""
    lines = pd.DataFrame(found.values())[["kind", "data", "model", "date"]]
    lines["hours"] = [sum(row["seconds"].values()) / 3600 for row in found.values()]
    lines["older"] = [bool(versions.older(row)) for row in found.values()]
    lines["machine"] = list(machines["machine"])
    groups = lines.groupby(["kind", "data", "model"], dropna=False)
    columns = {
        "rows": groups.size().astype(str),
        "older": groups["older"].sum().astype(str),
        "first": groups["date"].min(),
        "last": groups["date"].max(),
        "machines": groups["machine"].agg(lambda some: number_ranges(set(map(int, some)))),
        "hours": groups["hours"].sum().map("{:.1f}".format),
    }
    return pd.DataFrame(columns).reset_index()


def dictionary() -> pd.DataFrame:
    """The data dictionary: every field of a row."""
    lines = [one | {"field": f"`{one['field']}`"} for one in schema.dictionary()]
    return pd.DataFrame(lines).drop_duplicates("field")
