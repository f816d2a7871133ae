"""The data sets by name: those in data/, and any JSON Lines file (§4.2, "Dataset Curation").

Each line of a set is one sentence: ``id, kind, group, prompt, secret, suffix`` (``Record``).
"""

import hashlib
import json
from dataclasses import asdict, fields
from pathlib import Path

from companion.store.paths import ROOT, resolve
from companion.store.suggestions import hint
from revs.model.targets import Record

NEAR = "-near"  # suffix of the group of a person's second secret
COLUMNS = tuple(field.name for field in fields(Record))


def builtin() -> dict[str, Path]:
    """The sets in data/: ``ssn`` is data/ssn/main.jsonl, ``ssn-tune`` data/ssn/tune.jsonl.

    ``ssn-shared-innocent`` has sentences that use tokens of secrets but reveal no secret.
    """
    stems = {"main": "", "innocent-main": "-innocent"}
    stems |= {"tune": "-tune", "innocent-tune": "-innocent-tune"}
    return {
        path.parent.name + suffix: path
        for stem, suffix in stems.items()
        for path in sorted((ROOT / "data").glob(f"*/{stem}.jsonl"))
    }


def kept(records: list[Record]) -> set[str]:
    """The groups that are never forgotten: a person's second secret."""
    return {record.group for record in records if record.group.endswith(NEAR)}


def read(name: str) -> list[Record]:
    """Return the records of a built-in set, a file, or all sets (``synthetic[-tune]``)."""
    if name in ("synthetic", "synthetic-tune"):
        parts = [part for part in builtin() if part.endswith("-tune") == name.endswith("-tune")]
        return [record for part in parts for record in read(part)]
    path = Path(builtin().get(name) or resolve(name))
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no data set '{name}'"
            + hint(name, builtin(), "give the path of a JSON Lines file, or one of")
        )
    if not path.stat().st_size:
        raise ValueError(f"{path} holds no records: write one on each line.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is not UTF-8: save it as UTF-8 text, one record on each line."
        ) from None
    records: dict[str, Record] = {}
    group_of: dict[str, str] = {}  # by secret
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        try:
            row = json.loads(line)
            found = {column: row[column] for column in COLUMNS}
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(
                f"Line {number} of {path} is not a record: each line is a JSON object with "
                f"{', '.join(COLUMNS)}."
            ) from None
        if other := [column for column, value in found.items() if not isinstance(value, str)]:
            raise ValueError(
                f"Line {number} of {path} has a {other[0]} that is not text: put it into "
                "quotation marks."
            )
        if found["id"] in records:
            raise ValueError(
                f"Line {number} of {path} has the id of an earlier one: give each sentence its own."
            )
        group, secret = found["group"], found["secret"]
        if group_of.setdefault(secret, group) != group:
            raise ValueError(
                f"Line {number} of {path} has a secret of the group '{group_of[secret]}': give it "
                "that group, since a secret is forgotten or kept."
            )
        records[found["id"]] = Record(**found)
    return list(records.values())


def fingerprint(records: list[Record]) -> str:
    """sha256 of a data set's content."""
    lines = "\n".join(json.dumps(asdict(record)) for record in records)
    return hashlib.sha256(lines.encode()).hexdigest()
