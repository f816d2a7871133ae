"""What is said to wrong input: rows/mistakes.json, which `make mistakes` writes, as a table."""

from __future__ import annotations

import json

import pandas as pd

from companion.record.rows import RECORDED

FILE = RECORDED / "mistakes.json"


def read() -> dict:
    """The record: when, on what, and of each case its kind, what was given, and the message or why it was skipped."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def table() -> pd.DataFrame:
    """One line a kind of input; a message is set as it appears, in code."""
    return pd.DataFrame(
        [
            {
                "kind": case["kind"],
                "given": case["given"],
                "message": f"`{case['message'].replace('`', chr(39))}`"
                if "message" in case
                else f"skipped: {case['skipped']}",
            }
            for case in read()["cases"]
        ]
    )
