"""What came back the same when everything was built again from nothing: rows/again.json, which `make again` writes."""

from __future__ import annotations

import json

import pandas as pd

from revs import rows
from revs.paths import PACKAGE, ROOT
from revs.rows import RECORDED

FILE = RECORDED / "again.json"
TITLES = {"row": "rows, by their results", "text": "tables and texts, but for durations", "picture": "pictures, by their pixels"}


def read() -> dict | None:
    """The record: when, on what, and by kind how many products there were and which are different; None where there is none."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else None


def sources() -> str:
    """Hash of everything that a build is made from: modules without comments and docstrings, the workflow, notebooks, parameters, data and pages."""
    modules = {".".join(("revs", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__") for path in PACKAGE.rglob("*.py")}
    others = [path for folder in ("flow", "notebooks", "params", "data", "book") for path in sorted((ROOT / folder).rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    return rows.digest([{module: rows.code_hash(module) for module in modules}, {str(path.relative_to(ROOT)): rows.digest(path.read_bytes()) for path in others}])


def table(record: dict) -> pd.DataFrame:
    """One line a kind of product."""
    return pd.DataFrame([{"what": TITLES[kind], "made": str(each["products"]), "different the second time": str(len(each["other"])), "which": "; ".join(each["other"])} for kind, each in record["found"].items()])


def sentence(record: dict) -> str:
    """When and where it was tried, and whether with the present sources."""
    hardware = record["hardware"]
    since = "The sources are still those." if record["sources"] == sources() else "The sources have changed since."
    return f"Tried {record['when']} on {hardware['cores']} cores ({hardware['gpu'] or hardware['cpu']}): the second build took {record['seconds'] / 60:.0f} minutes. {since}"
