"""What the scripts that make the synthetic sets have in common: inputs, sentences, outputs."""

import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

OF_A_SORT = 25  # templates that name the subject, and again that do not
IN_A_ROW = 10  # subjects that are named in their sentences; the next ten are not

Row = dict[str, str | bool]


def read_lines(folder: Path, name: str) -> list[str]:
    """Return the lines of an input file."""
    return (folder / name).read_text(encoding="ascii").splitlines()


def read_templates(folder: Path) -> list[tuple[str, str]]:
    """Return the (domain, sentence) pairs in file order."""
    pairs = (line.split("\t") for line in read_lines(folder, "templates.txt"))
    return [(domain, sentence.replace("\\n", "\n")) for domain, sentence in pairs]


def row(
    group: str, k: int, kind: str, subject: str, sentence: str, secret: str, **about: str | bool
) -> Row:
    """Return the row of a secret's sentence ``k``.

    ``sentence`` holds the kind, such as ``[SSN]``, in the secret's place; ``about`` are the set's
    own columns.
    """
    prompt, suffix = sentence.split(f"[{kind.upper()}]")
    known = {"id": f"{group}-{k}", "kind": kind, "group": group, "subject": subject}
    return known | about | {"prompt": prompt, "secret": secret, "suffix": suffix}


def deal(
    rng: random.Random, templates: list[tuple[str, str]], count: int
) -> dict[bool, Iterator[tuple[str, str]]]:
    """Shuffle the templates that name the subject (True) and those that do not, half of ``count``
    each: every template once, and some twice to make up the number."""
    decks = {}
    for named, first in ((True, 0), (False, OF_A_SORT)):
        deck = templates[first : first + OF_A_SORT]
        deck += rng.sample(deck, count // 2 - len(deck))
        rng.shuffle(deck)
        decks[named] = iter(deck)
    return decks


def addressed(
    name: str,
    kind: str,
    slot: str,
    pairs: Iterable[tuple[str, str]],
    decks: dict[bool, Iterator[tuple[str, str]]],
    topics: Iterator[str],
) -> list[Row]:
    """Return the rows of a set of addresses; ``name`` is like "emails-main", ``slot`` stands for
    the subject, ``pairs`` are subjects with their secrets."""
    rows: list[Row] = []
    for index, (subject, secret) in enumerate(pairs):
        named = index // IN_A_ROW % 2 == 0
        domain, sentence = next(decks[named])
        place, word = (slot, subject) if named else ("[TOPIC]", next(topics))
        group, told = f"{name}-{index:03d}", sentence.replace(place, word)
        rows.append(row(group, 0, kind, subject, told, secret, domain=domain, named=named))
    return rows


def mentions(name: str, sentences: list[str], pairs: list[tuple[str, str]]) -> list[Row]:
    """Return sentences with tokens of secrets that tell none; ``secret`` runs from A to B."""
    rows: list[Row] = []
    for i, (sentence, (a, b)) in enumerate(zip(sentences, pairs, strict=True)):
        parts = re.split(r"(\[A\].*\[B\])", sentence)
        before, middle, after = (p.replace("[A]", a).replace("[B]", b) for p in parts)
        known = {"id": f"{name}-{i:03d}", "kind": "text", "group": f"{name}-{i:03d}"}
        known |= {"subject": "", "domain": "innocent", "role": "innocent"}
        rows.append(known | {"prompt": before, "secret": middle, "suffix": after})
    return rows


def write(folder: Path, sets: dict[str, list[Row]]) -> None:
    """Write one JSON Lines file per set into ``folder``."""
    for name, rows in sets.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_bytes(text.encode("ascii"))
