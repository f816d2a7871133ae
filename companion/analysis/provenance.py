"""Where rows come from: machines, versions, and what each field means."""

from __future__ import annotations

import pandas as pd

from companion.analysis.tables import DASH
from companion.store import rows


def machine(row: dict) -> dict[str, str]:
    """The machine and the versions of libraries that a row was measured with."""
    return {name: str(value) for name, value in row["environment"].items()}


def dictionary() -> pd.DataFrame:
    """The data dictionary: every described field of rows/schema.json."""
    schema = rows.schema()
    lines = list(described(schema, ""))
    for rule in schema["allOf"]:
        kind = rule["if"]["properties"]["kind"]["const"]
        lines += described(rule["then"]["properties"]["result"], f"{kind}: result.")
    return pd.DataFrame(lines).drop_duplicates("field")


def described(node: dict, prefix: str):
    """The described fields below a node of the schema, one line each."""
    for name, field in node.get("properties", {}).items():
        kinds = field.get("type", DASH)
        if "description" in field:
            yield {
                "field": f"`{prefix}{name}`",
                "type": " or ".join(kinds) if isinstance(kinds, list) else kinds,
                "meaning": field["description"],
            }
        yield from described(field, f"{prefix}{name}.")
