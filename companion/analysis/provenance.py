"""Where rows come from: machines, versions, and what each field means."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pandas as pd

from companion.analysis.tables import DASH, number_ranges
from companion.store import rows, schema, versions


def machines(found: Mapping[str, dict]) -> pd.DataFrame:
    """One line a row: the ``machine`` by number, what it is, and the versions of libraries."""
    frame = pd.DataFrame(
        {name: str(value) for name, value in row["environment"].items()} for row in found.values()
    )
    number = frame.groupby(list(frame), sort=False, dropna=False).ngroup() + 1
    frame.insert(0, "machine", number.astype(str))
    return frame


def summary(found: Mapping[str, dict], machines: pd.DataFrame) -> pd.DataFrame:
    """One line an experiment, data set and model: how many rows, from when, and what they took."""
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


def campaign() -> tuple[pd.DataFrame, pd.DataFrame]:
    """What ``tests/campaign.py`` counted: by stage of the build, how often it was killed there; and
    of each other fault, how the build ended, its last line, and what the next build lacks."""
    counted = json.loads((rows.RECORDED / "campaign.json").read_text(encoding="utf-8"))
    kills = pd.DataFrame(counted["stages"].items(), columns=["stage", "times killed"])
    others = [
        {"fault": name, "the build": "ends with an error" if one["code"] else "is complete"}
        | {"its last line": " ".join(one["said"]), "then lacks": "; ".join(one["faults"]) or DASH}
        for name, one in counted["others"].items()
    ]
    return kills, pd.DataFrame(others)
