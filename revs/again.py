"""What came back the same when everything was built again from nothing: rows/again.json, which `make again` writes."""

from __future__ import annotations

import json

import pandas as pd

from revs.rows import RECORDED

FILE = RECORDED / "again.json"
TITLES = {"row": "rows, by their results", "text": "tables and texts, but for durations", "picture": "pictures, by their pixels"}


def read() -> dict | None:
    """The record: when, on what, and by kind how many products there were and which are different; None where there is none."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else None


def table(record: dict) -> pd.DataFrame:
    """One line a kind of product."""
    return pd.DataFrame([{"what": TITLES[kind], "made": str(each["products"]), "different the second time": str(len(each["other"])), "which": "; ".join(each["other"])} for kind, each in record["found"].items()])


def sentence(record: dict) -> str:
    """When and where it was tried."""
    hardware = record["hardware"]
    return f"Tried {record['when']} on {hardware['cores']} cores ({hardware['gpu'] or hardware['cpu']}): the second build took {record['seconds'] / 60:.0f} minutes."
