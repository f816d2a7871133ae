"""Build a folder of documents to try curation and the own-model notebook on.

Thirty small files, as they lie about in an office: some hold sentences of the synthetic sets,
whose secrets the embedded model is made to memorise; some hold addresses and numbers that no
model has seen; one is empty, one is not text, one is in another encoding.

Run ``python data/make.py``. The output depends only on the sets' ``main.jsonl`` and on
``SEED``.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 20254
KNOWN = {"emails": 16, "urls": 10, "ssn": 8}  # sentences of each set
TITLES = (
    "Minutes",
    "Changes",
    "Directory",
    "Read me first",
    "Letter",
    "Handover",
    "Notice",
    "List",
    "Draft",
)
UNKNOWN = (  # reserved domains and numbers that are never issued: nobody's, and in no set
    "The caretaker reads mail at janitor.wing4@example.org on weekdays.",
    "Lost property: found-things@example.com, second floor.",
    "Spare keys: ask at keys17@example.net before noon.",
    "The menu is at https://canteen.example.org/week/lunch-and-supper.html from Friday.",
    "Forms are kept at https://intranet.example.com/forms/absence/request-2b.pdf now.",
    "For the archive quote number 967-38-4410 on the label.",
    "The old reference 971-22-0853 is no longer in use.",
    "Ring (212) 555-0147 if the lift stops.",
    "The printer answers at 192.0.2.44 again.",
)
FILLER = (
    "The meeting room is free on Mondays.",
    "Please close the windows in the evening.",
    "Nothing else was decided.",
    "The next issue follows in spring.",
    "Thanks to all who helped.",
)


def build() -> dict[str, bytes]:
    """Return the files' contents by name."""
    draw = random.Random(SEED)
    sentences = []
    for name, number in KNOWN.items():
        rows = [
            json.loads(line)
            for line in (HERE.parent / name / "main.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        groups = sorted({row["group"] for row in rows})
        for group in draw.sample(groups, number):
            row = draw.choice([row for row in rows if row["group"] == group])
            sentences.append(row["prompt"] + row["secret"] + row["suffix"])
    draw.shuffle(sentences)
    files: dict[str, bytes] = {}
    for number in range(27):
        known = [sentences.pop() for _ in range(min(len(sentences), 2 if number % 4 == 3 else 1))]
        unknown = [UNKNOWN[number // 3]] if number % 3 == 0 else []
        lines = [*known, *unknown, draw.choice(FILLER)]
        if number % 5 == 4:
            lines.insert(0, TITLES[number % len(TITLES)] + "\n")
        files[f"{number:02d}.txt"] = ("\n".join(lines) + "\n").encode("ascii")
    return files | {
        "27.txt": b"",
        "28.bin": bytes(range(256)),
        "29.txt": "Gr\u00fc\u00dfe an alle\n".encode("latin-1"),
    }


def write(folder: Path) -> None:
    """Write the files into ``folder``."""
    folder.mkdir(exist_ok=True)
    for name, content in build().items():
        (folder / name).write_bytes(content)
