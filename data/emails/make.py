"""Build the project's synthetic set of e-mail addresses: sentences of the kind that the REVS paper
unlearns (Appendix, "Emails Dataset"), with invented addresses. README.md is its datasheet.

Every sentence of ``templates.txt`` holds ``[EMAIL]`` once. The first 25 name the person, with
``[NAME]``; the last 25 do not, and hold ``[TOPIC]`` instead. A line break is written ``\\n``. In
each set every template is used once, and ten of them twice.

Person i gets the shape ``SHAPES[i % 10]``; in ``people.txt`` the names stand in an order in which
no two addresses have the same rare tokens. Ten people in a row are named in their sentences, the
next ten are not, so that each shape is named in half of its sentences. Numbers in addresses have
two digits and differ from one another.

Run ``python data/make.py``. The output depends only on the three input files and on ``SEED``.
"""

import random
from pathlib import Path

from common import Row, addressed, deal, read_lines, read_templates

HERE = Path(__file__).resolve().parent
SEED = 20252
SETS = ("main", "tune")
PEOPLE_PER_SET = 60
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
    rng, templates = random.Random(SEED + 1), read_templates(HERE)
    people, topics = read_lines(HERE, "people.txt"), iter(read_lines(HERE, "topics.txt"))
    secrets, result = addresses(people), {}
    for index, name in enumerate(SETS):
        own = slice(index * PEOPLE_PER_SET, (index + 1) * PEOPLE_PER_SET)
        decks = deal(rng, templates, PEOPLE_PER_SET)
        pairs = zip(people[own], secrets[own])
        result[name] = addressed(f"emails-{name}", "email", "[NAME]", pairs, decks, topics)
    return result
