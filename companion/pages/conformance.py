"""Which family of decoders keeps which promise: rows/conformance.json, which `make conformance` writes, as a table."""

from __future__ import annotations

import json

import pandas as pd

from companion.pages.tables import DASH
from companion.record.rows import RECORDED
from revs.model.architecture import architectures

FILE = RECORDED / "conformance.json"


def read() -> dict:
    """The record: when, on what, and check → family → [passed, run]."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def table() -> pd.DataFrame:
    """One line a check, one column a family: how many of its cases passed."""
    checks = read()["checks"]
    names = list(dict.fromkeys(family for counts in checks.values() for family in counts))
    return pd.DataFrame(
        [
            {"family": name}
            | {
                check: "/".join(map(str, counts[name])) if name in counts else DASH
                for check, counts in checks.items()
            }
            for name in names
        ]
    )


def families() -> str:
    """The model types that are supported, as a configuration names them."""
    return ", ".join(sorted(architectures()))


def shapes() -> pd.DataFrame:
    """The table of architectures: what is special about each, in its own terms."""
    return pd.DataFrame(
        [
            {"family": f"`{name}`"} | {column: str(value) for column, value in vars(entry).items()}
            for name, entry in sorted(architectures().items())
        ]
    )
