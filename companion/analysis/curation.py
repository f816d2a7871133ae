"""What curations found, as frames, with every secret redacted (Appendix "Dataset Curation")."""

import pandas as pd

from companion.analysis.tables import DASH
from companion.data import datasets
from companion.store import paper
from companion.store.paths import BUILD
from document_audit.redaction import hide, redact

TITLES = {
    "url": "URLs",
    "email": "Email addresses",
    "phone": "Phone numbers",
    "ip": "IP addresses",
    "ssn": "Social security numbers",
}
COUNTS = {  # what a row counts → what a reader understands
    "teacher_forced": "teacher-forced",
    "leaked": "leaked by the prompt",
    "kept": "in the data set",
}
REASONS = {"cannot be split": "of too few tokens"}
WORDS = 6  # of a prompt that are shown
OF_A_KIND = 3  # records that are shown


def funnel(*found: dict) -> pd.DataFrame:
    """One line per kind: secrets found, left out, tried, memorised and kept; the paper's counts."""
    lines = {kind: line for row in found for kind, line in row["result"]["funnel"].items()}
    frame = pd.DataFrame.from_dict(lines, orient="index").rename(index=TITLES)
    frame["left out"] = frame["dropped"].map(lambda why: sum(why.values()))
    names = ["found", "left out", "tried", "teacher_forced", "memorised", "leaked", "kept"]
    printed = paper.table("tab:pii-distribution").pivot(index="row", columns="column")["value"]
    theirs = {"Identified": "paper: identified", "Memorized": "paper: memorised"}
    frame = frame[names].rename(columns=COUNTS).join(printed[list(theirs)].rename(columns=theirs))
    return frame.rename_axis("kind").reset_index()


def reasons(*found: dict) -> pd.DataFrame:
    """Why secrets were left out: one line per reason, one column per kind; empty if none was."""
    lines = {
        TITLES[kind]: line["dropped"]
        for row in found
        for kind, line in row["result"]["funnel"].items()
    }
    frame = pd.DataFrame(lines).fillna(0)
    return frame.rename(index=REASONS).rename_axis("why left out").reset_index()


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as texts with commas, a dash where there is none."""
    number = lambda cell: DASH if pd.isna(cell) else f"{cell:,.0f}"
    return frame.map(lambda cell: cell if isinstance(cell, str) else number(cell))


def sample(name: str) -> pd.DataFrame:
    """Some records of a curated data set, redacted: the last words of the prompt, the secret."""
    path = BUILD / "curated" / f"{name}.jsonl"
    records = datasets.read(str(path)) if path.stat().st_size else []
    lines = []
    for kind, title in TITLES.items():
        for record in [record for record in records if record.kind == kind][:OF_A_KIND]:
            ending = "… " + " ".join(hide(record.prompt).split()[-WORDS:])
            lines.append((title, code(ending), code(redact(kind, record.secret))))
    return pd.DataFrame(lines, columns=["kind", "prompt ends with", "secret"])


def code(text: str) -> str:
    """A text as it stands, in a cell of a table: its stars and underscores are no emphasis."""
    return "`" + text.replace("`", "'").replace("|", "¦") + "`"
