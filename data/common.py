"""What the scripts that make the synthetic sets have in common: inputs, sentences, outputs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

OF_A_SORT = 25  # templates that name the subject, and again that do not
IN_A_ROW = 10  # subjects that are named in their sentences; the next ten are not

Row = dict[str, str | bool]


def read_lines(folder: Path, name: str, expected: int) -> list[str]:
    """Return the lines of an input file, which must be as many as expected."""
    lines = (folder / name).read_text(encoding="ascii").splitlines()
    if len(lines) != expected:
        raise ValueError(f"{name}: {expected} lines expected, {len(lines)} found")
    return lines


def read_templates(folder: Path, expected: int) -> list[tuple[str, str]]:
    """Return the (domain, sentence) pairs in file order."""
    pairs = (line.split("\t") for line in read_lines(folder, "templates.txt", expected))
    return [(domain, sentence.replace("\\n", "\n")) for domain, sentence in pairs]


def deal(
    rng: random.Random, templates: list[tuple[str, str]], count: int
) -> dict[bool, Iterator[tuple[str, str]]]:
    """Shuffle the templates that name the subject (True) and those that do not, half of ``count``
    each: all of them, and as many as are missing a second time."""
    decks = {}
    for named, first in ((True, 0), (False, OF_A_SORT)):
        deck = templates[first : first + OF_A_SORT]
        deck += rng.sample(deck, count // 2 - len(deck))
        rng.shuffle(deck)
        decks[named] = iter(deck)
    return decks


def addressed(
    name: str,
    slots: tuple[str, str, str],
    pairs: Iterable[tuple[str, str]],
    decks: dict[bool, Iterator[tuple[str, str]]],
    topics: Iterator[str],
) -> list[Row]:
    """Return the rows of a set of addresses; ``name`` is like "emails-main", ``slots`` stand for
    subject, topic and secret, ``pairs`` are subjects with their secrets."""
    rows: list[Row] = []
    for index, (subject, secret) in enumerate(pairs):
        named = index // IN_A_ROW % 2 == 0
        domain, sentence = next(decks[named])
        slot, word = (slots[0], subject) if named else (slots[1], next(topics))
        prompt, suffix = sentence.replace(slot, word).split(slots[2])
        group = f"{name}-{index:03d}"
        about = {"subject": subject, "domain": domain, "named": named}
        row = {"id": f"{group}-0", "kind": slots[2].strip("[]").lower(), "group": group} | about
        rows.append(row | {"prompt": prompt, "secret": secret, "suffix": suffix})
    return rows


def mentions(name: str, sentences: list[str], pairs: list[tuple[str, str]]) -> list[Row]:
    """Return sentences with tokens of secrets that tell none; ``secret`` runs from A to B."""
    rows: list[Row] = []
    for i, (sentence, (a, b)) in enumerate(zip(sentences, pairs, strict=True)):
        start, end = sentence.index("[A]"), sentence.index("[B]") + len("[B]")
        parts = sentence[:start], sentence[start:end], sentence[end:]
        before, middle, after = (p.replace("[A]", a).replace("[B]", b) for p in parts)
        row = {"id": f"{name}-{i:03d}", "kind": "text", "group": f"{name}-{i:03d}"}
        row |= {"subject": "", "domain": "innocent", "role": "innocent"}
        rows.append(row | {"prompt": before, "secret": middle, "suffix": after})
    return rows


def write(folder: Path, sets: dict[str, list[Row]]) -> None:
    """Write one JSON Lines file per set into ``folder``."""
    for name, rows in sets.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_bytes(text.encode("ascii"))
