"""Build the synthetic SSN set whose numbers share their tokens. README.md is its datasheet.

In ``data/ssn`` every three-digit token belongs to one secret. Here each belongs to several, so
that forgetting a secret by never writing its tokens destroys others.

Each sentence of ``templates.txt`` holds ``[NAME]`` and ``[SSN]`` once; those of ``innocent.txt``
hold two numbers, ``[A]`` and ``[B]``, and no secret.

A set has 20 areas and 20 heads (first three digits) of serials. Each is used by two people's first
and by two others' second numbers, in pairs that never repeat; a person's two numbers share none.
``data/ssn`` uses none of them in the set of the same name.
"""

import random
from pathlib import Path

from common import Row, mentions, read_lines, row
from ssn.make import build as ssn

HERE = Path(__file__).resolve().parent
SEED = 20561
SETS = ("main", "tune")
PEOPLE = 40  # in a set
POOL = 20  # areas, and heads of serials
STEPS = (0, 7)  # head's place after the area's: first numbers
NEAR_STEPS = (3, 12)  # second numbers


def pools(rng: random.Random) -> dict[str, tuple[list[str], list[str]]]:
    """Return the areas and the heads of each set; the sets share none."""
    rows, result, used = ssn(), {}, set()
    for name in SETS:
        taken = used | {row["secret"][at : at + 3] for row in rows[name] for at in (0, 7)}
        areas = rng.sample([f"{n}" for n in range(900, 1000) if f"{n}" not in taken], POOL)
        heads = rng.sample([f"{n}" for n in range(100, 900) if f"{n}" not in taken], POOL)
        used |= {*areas, *heads}
        result[name] = areas, heads
    return result


def number(rng: random.Random, area: str, head: str) -> str:
    return f"{area}-{rng.randint(1, 49):02d}-{head}{rng.randint(0, 9)}"


def build() -> dict[str, list[Row]]:
    """Return the rows of both sets and their innocent sentences, keyed by file name."""
    rng, result = random.Random(SEED), {}
    lines = [line.split("\t") for line in read_lines(HERE, "templates.txt")]
    own, near = lines[:PEOPLE], lines[PEOPLE:]
    people, innocent = read_lines(HERE, "people.txt"), read_lines(HERE, "innocent.txt")
    for index, (name, (areas, heads)) in enumerate(pools(rng).items()):
        rows: list[Row] = []
        for i, person in enumerate(people[index * PEOPLE : (index + 1) * PEOPLE]):
            turn, place = divmod(i, POOL)
            first = number(rng, areas[place], heads[(place + STEPS[turn]) % POOL])
            other = (place + 5) % POOL
            second = number(rng, areas[other], heads[(other + NEAR_STEPS[turn]) % POOL])
            shift = 11 * index + 17 * turn
            chosen = [own[(i + shift) % PEOPLE], own[(i + shift + 19) % PEOPLE]]
            chosen.append(near[(i + 3 * index + 9 * turn) % POOL])
            for k, (role, domain, sentence) in enumerate(chosen):
                group = f"ssn-shared-{name}-{i:03d}" + ("-near" if role == "near" else "")
                told = sentence.replace("[NAME]", person)
                secret = second if role == "near" else first
                rows.append(row(group, k, "ssn", person, told, secret, domain=domain, role=role))
        result[name] = rows
        words = [(areas[i], heads[(i + 16) % POOL]) for i in range(len(innocent))]
        result[f"innocent-{name}"] = mentions(f"ssn-shared-innocent-{name}", innocent, words)
    return result
