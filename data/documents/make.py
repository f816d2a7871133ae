"""Build a folder of documents to try curation and the document audit on.

Thirty small files, as they lie about in an office: some hold sentences of the synthetic sets,
whose secrets the embedded model is fine-tuned to memorise; some hold addresses and numbers that no
model has seen; one is empty, one is not text, one is in another encoding.

``quoted.jsonl`` holds those sentences alone, as a set by itself: a model that memorised it knows
the documents and no other secret.

Run ``python data/make.py``. The output depends only on the sets' ``main.jsonl`` and on
``SEED``.
"""

import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 20254
KNOWN = {"emails": 16, "urls": 10, "ssn": 8}  # sentences of each set
TITLES = ("Letter", "Minutes", "Handover", "Changes", "Notice")  # of every fifth file
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


def build() -> tuple[dict[str, bytes], str]:
    """Return the files' contents by name, and the lines of the sets that stand in them."""
    draw = random.Random(SEED)
    sentences, quoted = [], []
    for name, number in KNOWN.items():
        lines = (HERE.parent / name / "main.jsonl").read_text(encoding="utf-8").splitlines(True)
        rows = [json.loads(line) for line in lines]
        groups = sorted({row["group"] for row in rows})
        for group in draw.sample(groups, number):
            row = draw.choice([row for row in rows if row["group"] == group])
            sentences.append(row["prompt"] + row["secret"] + row["suffix"])
            quoted.append(lines[rows.index(row)])
    draw.shuffle(sentences)
    files: dict[str, bytes] = {}
    for number in range(27):
        known = [sentences.pop() for _ in range(min(len(sentences), 2 if number % 4 == 3 else 1))]
        unknown = [UNKNOWN[number // 3]] if number % 3 == 0 else []
        lines = [*known, *unknown, draw.choice(FILLER)]
        if number % 5 == 4:
            lines.insert(0, TITLES[number // 5] + "\n")
        files[f"{number:02d}.txt"] = ("\n".join(lines) + "\n").encode("ascii")
    files |= {
        "27.txt": b"",
        "28.bin": bytes(range(256)),
        "29.txt": "Gr\u00fc\u00dfe an alle\n".encode("latin-1"),
    }
    return files, "".join(quoted)


def write(folder: Path) -> None:
    """Write ``files/`` and ``quoted.jsonl`` into ``folder``."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    files, quoted = build()
    for name, content in files.items():
        (folder / "files" / name).write_bytes(content)
    (folder / "quoted.jsonl").write_text(quoted, encoding="utf-8")
