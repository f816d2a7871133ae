"""Secrets in their sentences, as text and as tokens (§4.2, Appendix "Dataset Curation").

A data set is a JSON Lines file with one sentence a line: ``id, kind, group, prompt, secret, suffix``. ``kind`` is
ssn, email, url, phone, ip or text (any other); records of one ``group`` hold the same secret. Offsets, not re-encoding,
say which tokens are the secret's: the text is encoded once and never decoded.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from companion.record.paths import ROOT, resolve
from companion.runs.nearest import hint
from revs.model.tokens import eligible, select

COLUMNS = ("id", "kind", "group", "prompt", "secret", "suffix")


@dataclass(frozen=True)
class Record:
    """One sentence with its secret, as text."""

    id: str
    kind: str
    group: str
    prompt: str
    secret: str
    suffix: str

    @property
    def text(self) -> str:
        return self.prompt + self.secret + self.suffix


@dataclass(frozen=True)
class Target:
    """One sentence with its secret, as token ids; ``T`` are the positions in the secret that are unlearned (§3.3)."""

    id: str
    kind: str
    group: str
    prompt_ids: list[int]
    secret_ids: list[int]
    T: tuple[int, ...]
    prompt: str = ""  # as text, for attacks that change its characters

    def before(self, position: int) -> list[int]:
        """The prompt and the true tokens of the secret before one of its positions."""
        return self.prompt_ids + self.secret_ids[:position]


@dataclass(frozen=True)
class Split:
    """What one seed forgets and what it keeps (§4.5)."""

    forget: list[Target]  # one sentence for each secret: unlearned, and measured for efficacy
    unseen: list[Target]  # the other sentences of the same secrets: generalization
    retain: list[Target]  # all sentences of the other secrets: specificity


def builtin() -> dict[str, Path]:
    """The sets in data/: ``ssn`` is data/ssn/main.jsonl, ``ssn-tune`` data/ssn/tune.jsonl."""
    return {
        path.parent.name + suffix: path
        for stem, suffix in (("main", ""), ("tune", "-tune"))
        for path in sorted((ROOT / "data").glob(f"*/{stem}.jsonl"))
    }


def together(name: str) -> str:
    """What is memorised in the same fine-tune as a built-in set: all of them (or all for tuning). Another set stands alone."""
    return (
        name
        if name not in builtin()
        else "synthetic-tune"
        if name.endswith("-tune")
        else "synthetic"
    )


def read(name: str) -> list[Record]:
    """The records of a built-in set, of all of them (``synthetic``, or ``synthetic-tune``), or of a JSON Lines file."""
    if name in ("synthetic", "synthetic-tune"):
        return [record for part in builtin() if together(part) == name for record in read(part)]
    path = builtin().get(name) or resolve(name)
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"There is no data set '{name}'"
            + hint(name, builtin(), "give the path of a JSON Lines file, or one of")
        )
    if not Path(path).stat().st_size:
        raise ValueError(f"{path} holds no records: write one on each line.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is not UTF-8: save it as UTF-8 text, one record on each line."
        ) from None
    records: dict[str, Record] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        try:
            row = json.loads(line)
            fields = {column: row[column] for column in COLUMNS}
        except (json.JSONDecodeError, KeyError, TypeError):
            raise ValueError(
                f"Line {number} of {path} is not a record: each line is a JSON object with {', '.join(COLUMNS)}."
            ) from None
        if other := [column for column, value in fields.items() if not isinstance(value, str)]:
            raise ValueError(
                f"Line {number} of {path} has a {other[0]} that is not text: put it into quotation marks."
            )
        if fields["id"] in records:
            raise ValueError(
                f"Line {number} of {path} has the id of an earlier one: give each sentence its own."
            )
        records[fields["id"]] = Record(**fields)
    return list(records.values())


def fingerprint(records: list[Record]) -> str:
    """sha256 of a data set's content."""
    return hashlib.sha256(
        "\n".join(json.dumps(asdict(record)) for record in records).encode()
    ).hexdigest()


def encode(record: Record, tokenizer, size: int = 2, method: str = "rarest") -> Target:
    """The record's token ids, split where its secret begins and ends, with |T| = size target positions.

    Raises ValueError where the tokenizer merges the secret's first character with the text before it, or where
    the secret has fewer than ``size`` tokens that may be unlearned.
    """
    if not record.secret:
        raise ValueError(
            f"{record.id} has an empty secret: write it out, or leave the record away."
        )
    coded = tokenizer(record.text, return_offsets_mapping=True, add_special_tokens=True)
    ids, offsets = coded["input_ids"], coded["offset_mapping"]
    start, end = len(record.prompt), len(record.prompt) + len(record.secret)
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    if not inside or offsets[inside[0]][0] < start:
        raise ValueError(
            f"{record.id} cannot be split as asked: a token spans the end of the prompt and the start of the secret; cut the prompt elsewhere."
        )
    if not inside[0]:
        raise ValueError(f"{record.id} has no token before its secret: give it a prompt.")
    spans = [(offsets[i][0] - start, offsets[i][1] - start) for i in inside]
    secret_ids = [ids[i] for i in inside]
    candidates = eligible(record.kind, record.secret, spans)
    if len(candidates) < size:
        raise ValueError(
            f"{record.id} has {len(candidates)} tokens that may be unlearned, but |T| = {size} were asked for: lower T or leave it out."
        )
    return Target(
        record.id,
        record.kind,
        record.group,
        ids[: inside[0]],
        secret_ids,
        select(secret_ids, candidates, size, method, seed=record.id),
        record.prompt,
    )


def pairs(targets: Iterable[Target]) -> list[tuple[list[int], int]]:
    """What every method unlearns: (the prompt with the true tokens before it, token t), for each t of each target's T."""
    return [
        (target.before(position), target.secret_ids[position])
        for target in targets
        for position in target.T
    ]


def split(
    targets: list[Target], seed: int, forget: int | None = None, sentences: int | None = None
) -> Split:
    """A seeded split by secret: ``forget`` secrets (half by default) and the rest; the sentence unlearned is drawn too.

    ``sentences`` of a secret, at most, are measured besides the unlearned one (all by default).
    """
    groups: dict[str, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.group, []).append(target)
    forget = len(groups) // 2 if forget is None else forget
    if not 0 < forget < len(groups):
        raise ValueError(
            f"The forget set would hold {forget} of {len(groups)} secrets: at least one must be forgotten and one kept."
        )
    if sentences is not None and sentences < 1:
        raise ValueError(
            f"sentences is {sentences}, but at least one sentence of a kept secret must be measured."
        )
    draw = random.Random(seed)
    names = sorted(groups)
    draw.shuffle(names)
    forgotten, kept = names[:forget], names[forget:]
    chosen = {name: draw.choice(groups[name]) for name in forgotten}
    return Split(
        forget=[chosen[name] for name in forgotten],
        unseen=[
            target
            for name in forgotten
            for target in [t for t in groups[name] if t is not chosen[name]][:sentences]
        ],
        retain=[target for name in kept for target in groups[name][:sentences]],
    )
