"""What a curation found, as tables, with every secret redacted (Appendix "Dataset Curation")."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from companion.own.redact import hide, redact
from companion.pages import paper
from companion.pages.tables import DASH
from companion.record.paths import BUILD
from companion.runs import datasets

TITLES = {
    "url": "URLs",
    "email": "Email addresses",
    "phone": "Phone numbers",
    "ip": "IP addresses",
    "ssn": "Social security numbers",
}
PLAIN = {"cannot be split": "of too few tokens"}  # what a row says → what a reader understands
WORDS = 6  # of a prompt that are shown


def funnel(row: dict) -> pd.DataFrame:
    """One line a kind: how many were found, left out, tried and memorised, and the paper's counts."""
    printed = paper.table("tab:pii-distribution")
    theirs = {
        (cell["row"], cell["column"]): f"{int(cell['value']):,}"
        for cell in printed.to_dict("records")
    }
    return pd.DataFrame(
        [
            {
                "kind": TITLES[kind],
                "found": f"{counts['found']:,}",
                "left out": f"{sum(counts['dropped'].values()):,}",
                "tried": f"{counts['tried']:,}",
                "teacher-forced": f"{counts['teacher_forced']:,}",
                "memorised": f"{counts['memorised']:,}",
                "told by the prompt": f"{counts['told']:,}",
                "in the data set": f"{counts['kept']:,}",
                "paper: identified": theirs.get((TITLES[kind], "Identified"), DASH),
                "paper: memorised": theirs.get((TITLES[kind], "Memorized"), DASH),
            }
            for kind, counts in row["result"]["funnel"].items()
        ]
    )


def reasons(found: Sequence[dict]) -> pd.DataFrame:
    """Why secrets were left out: one line a reason, one column a kind; empty if none was."""
    counts = {
        TITLES[kind]: {PLAIN.get(why, why): number for why, number in of_kind["dropped"].items()}
        for row in found
        for kind, of_kind in row["result"]["funnel"].items()
    }
    known = list(dict.fromkeys(why for of_kind in counts.values() for why in of_kind))
    return pd.DataFrame(
        [
            {"why left out": why}
            | {title: f"{of_kind.get(why, 0):,}" for title, of_kind in counts.items()}
            for why in known
        ]
    )


def documents(row: dict) -> str:
    """How many documents were read, and why others were not."""
    skipped = ", ".join(f"{number:,} {why}" for why, number in row["result"]["skipped"].items())
    return (
        f"{row['result']['documents']:,} documents were read"
        + (f"; these were not: {skipped}" if skipped else "")
        + "."
    )


def summary(row: dict) -> str:
    """What was read, and how many secrets the data set has."""
    both = sum(counts["kept"] for counts in row["result"]["funnel"].values())
    return (
        documents(row)
        + " "
        + (
            f"**{both:,} secrets** make the data set: both tests hold of them."
            if both
            else "**Nothing is memorised**: there is nothing to unlearn."
        )
    )


def code(text: str) -> str:
    """A text as it stands, in a cell of a table: its stars and underscores are no emphasis."""
    plain = text.replace("`", "'").replace("|", "¦")
    return f"`{plain}`"


def sample(name: str, of_a_kind: int = 3) -> pd.DataFrame:
    """Some records of a curated data set: the last words of the prompt, and the secret, redacted."""
    path = BUILD / "curated" / f"{name}.jsonl"
    records = datasets.read(str(path)) if path.stat().st_size else []
    shown = [
        record
        for kind in TITLES
        for record in [record for record in records if record.kind == kind][:of_a_kind]
    ]
    lines = [
        {
            "kind": TITLES[record.kind],
            "prompt ends with": code("… " + " ".join(hide(record.prompt).split()[-WORDS:])),
            "secret": code(redact(record.kind, record.secret)),
        }
        for record in shown
    ]
    return pd.DataFrame(lines, columns=["kind", "prompt ends with", "secret"])
