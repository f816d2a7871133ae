"""Build the project's synthetic set of e-mail addresses.

The REVS paper unlearns e-mail addresses that a model memorised during its
pre-training (Appendix, "Emails Dataset").  Those belong to real people, and are
not released.  This folder holds sentences of the same kind with invented
addresses, which a model is made to memorise first.

Inputs, all beside this file:

* ``templates.txt``: 50 lines ``domain<TAB>sentence``.  Every sentence holds
  ``[EMAIL]`` once.  The first 25 name the person, with ``[NAME]``; the last 25
  do not, and hold ``[TOPIC]`` instead.  A line break is written ``\\n``.
* ``people.txt``: 120 invented names.  The first 60 form the set "main", which
  results are reported on; the last 60 form the set "tune", which
  hyperparameters are chosen on.
* ``topics.txt``: 60 topics, one for each sentence that does not name the person.

Outputs: ``main.jsonl`` and ``tune.jsonl``, 60 rows each: one person, one
address and one sentence a row.  In each set every template is used once, and ten
of them twice.

How an address is made.  Person i gets the shape ``SHAPES[i % 10]``; in
``people.txt`` the names stand in an order in which no two addresses have the same
rare tokens (see the README).  Ten people in a row are named in their sentences, the
next ten are not, so that each shape is named in half of its sentences.  Numbers
in addresses have two digits and differ from one another.

Run ``python data/emails/make.py``.  The output depends only on the three input
files and on ``SEED``.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED = 20252
SETS = ("main", "tune")
PEOPLE_PER_SET = 60
TEMPLATES_OF_A_SORT = 25  # that name the person, and again that do not
HOSTS = ("example.com", "example.org", "example.net")  # reserved by RFC 2606: nobody has mail there

# g and f are the given and the family name in small letters, n two digits, m a middle initial.
SHAPES = (
    "{g}.{f}",
    "{g[0]}{f}",
    "{f}_{g}",
    "{g}{n}",
    "{f}.{g[0]}",
    "{g}-{f}",
    "{g[0]}{m}.{f}",
    "{g}{f[0]}",
    "{g[0]}_{f}",
    "{g:.3}{f:.4}{n}",
)

Row = dict[str, str | bool]


def read_lines(name: str, expected: int) -> list[str]:
    """Return the lines of an input file, which must be as many as expected."""
    lines = (HERE / name).read_text(encoding="ascii").splitlines()
    if len(lines) != expected:
        raise ValueError(f"{name}: {expected} lines expected, {len(lines)} found")
    return lines


def read_templates() -> list[tuple[str, str]]:
    """Return the (domain, sentence) pairs in file order: those that name the person first."""
    templates = []
    for line in read_lines("templates.txt", 2 * TEMPLATES_OF_A_SORT):
        domain, sentence = line.split("\t")
        templates.append((domain, sentence.replace("\\n", "\n")))
    return templates


def addresses(people: list[str]) -> list[str]:
    """Return one address for each person, from a generator of its own."""
    rng = random.Random(SEED)
    numbers = iter(rng.sample(range(10, 100), 2 * len(people) // len(SHAPES)))
    hosts = [HOSTS[i % len(HOSTS)] for i in range(len(people))]
    rng.shuffle(hosts)
    result = []
    for i, (person, host) in enumerate(zip(people, hosts)):
        shape = SHAPES[i % len(SHAPES)]
        given, family = person.lower().split(" ")
        middle = rng.choice("abcdefghijklmnoprstvw")
        number = next(numbers) if "{n}" in shape else None
        result.append(shape.format(g=given, f=family, n=number, m=middle) + "@" + host)
    return result


def build() -> dict[str, list[Row]]:
    """Return the rows of both sets, keyed by set name."""
    rng = random.Random(SEED + 1)
    templates = read_templates()
    people = read_lines("people.txt", PEOPLE_PER_SET * len(SETS))
    topics = iter(read_lines("topics.txt", PEOPLE_PER_SET // 2 * len(SETS)))
    secrets = addresses(people)

    result: dict[str, list[Row]] = {}
    for set_index, set_name in enumerate(SETS):
        decks = {}
        for named, first in ((True, 0), (False, TEMPLATES_OF_A_SORT)):
            deck = templates[first : first + TEMPLATES_OF_A_SORT]
            deck += rng.sample(deck, PEOPLE_PER_SET // 2 - len(deck))
            rng.shuffle(deck)
            decks[named] = iter(deck)
        rows: list[Row] = []
        for person in range(PEOPLE_PER_SET):
            index = set_index * PEOPLE_PER_SET + person
            named = person // len(SHAPES) % 2 == 0
            domain, sentence = next(decks[named])
            filled = (
                sentence.replace("[NAME]", people[index])
                if named
                else sentence.replace("[TOPIC]", next(topics))
            )
            prompt, suffix = filled.split("[EMAIL]")
            group = f"emails-{set_name}-{person:03d}"
            rows.append(
                {
                    "id": f"{group}-0",
                    "kind": "email",
                    "group": group,
                    "subject": people[index],
                    "domain": domain,
                    "named": named,
                    "prompt": prompt,
                    "secret": secrets[index],
                    "suffix": suffix,
                }
            )
        result[set_name] = rows
    return result


def write(folder: Path) -> None:
    """Write one JSON Lines file per set into `folder`."""
    for set_name, rows in build().items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{set_name}.jsonl").write_bytes(text.encode("ascii"))


def main() -> None:
    """Rewrite main.jsonl and tune.jsonl beside this script."""
    write(HERE)


if __name__ == "__main__":
    main()
