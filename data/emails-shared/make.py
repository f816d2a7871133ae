"""Build the synthetic set of e-mail addresses whose names are shared. README.md is its datasheet.

In ``data/emails`` no two people share a name, and each rare token belongs to one address. Here ten
given names and ten family names make up forty people, so that forgetting an address by never
writing its tokens destroys those of relatives and namesakes.

``templates.txt`` has 20 sentences that name the person, 20 that give a topic instead, and 4 for a
person's second address, at an office; those of ``innocent.txt`` hold two names in small letters,
``[A]`` and ``[B]``, that are no address.

Each given name and each family name is four people's, in pairs that never repeat. An office has
two holders, of different families.
"""

import random
from pathlib import Path

from common import Row, mentions, read_lines, row

HERE = Path(__file__).resolve().parent
SEED = 20562
SETS = ("main", "tune")
PEOPLE, NAMES = 40, 10  # in a set
HOSTS = ("example.com", "example.org", "example.net")  # reserved by RFC 2606: nobody has mail there
SHAPES = ("{g}.{f}", "{f}.{g}", "{g}_{f}", "{f}-{g}")


def build() -> dict[str, list[Row]]:
    """Return the rows of both sets and their innocent sentences, keyed by file name."""
    rng, result = random.Random(SEED), {}
    lines = [line.split("\t") for line in read_lines(HERE, "templates.txt")]
    named, topical, office = lines[:20], lines[20:40], lines[40:]
    topics, roles = read_lines(HERE, "topics.txt"), read_lines(HERE, "roles.txt")
    innocent, words = read_lines(HERE, "innocent.txt"), {}
    for line in read_lines(HERE, "names.txt"):
        of, sort, names = line.split("\t")
        words[of, sort] = names.split()
    for index, name in enumerate(SETS):
        given, family = words[name, "given"], words[name, "family"]
        rows: list[Row] = []
        for i in range(PEOPLE):
            turn, place = divmod(i, NAMES)
            g, f = given[place], family[(place + 3 * turn) % NAMES]
            address = SHAPES[(turn + place) % len(SHAPES)].format(g=g.lower(), f=f.lower())
            chosen = [named[(i + 7 * index + 3 * turn) % 20], topical[(i + 5 * index + turn) % 20]]
            secrets = [f"{address}@{rng.choice(HOSTS)}"] * 2
            role = roles[i // 5 if i % 5 == 0 else (i // 5 + 3) % len(roles)]
            if i % 5 in (0, 2):
                chosen.append(office[(i // 5 + i) % len(office)])
                secrets.append(f"{role}.{f.lower()}@{rng.choice(HOSTS)}")
            for k, ((sort, domain, sentence), secret) in enumerate(zip(chosen, secrets)):
                group = f"emails-shared-{name}-{i:03d}" + ("-near" if sort == "near" else "")
                person, topic = f"{g} {f}", topics[index * PEOPLE + i]
                told = sentence.replace("[NAME]", person).replace("[TOPIC]", topic)
                told = told.replace("[ROLE]", role)
                about = {"domain": domain, "named": sort != "topic"}
                about |= {"role": "near" if sort == "near" else "own"}
                rows.append(row(group, k, "email", person, told, secret, **about))
        result[name] = rows
        pairs = [
            (given[i % NAMES].lower(), family[(i + 1 + i // NAMES) % NAMES].lower())
            for i in range(2 * len(innocent))
        ]
        result[f"innocent-{name}"] = mentions(f"emails-shared-innocent-{name}", innocent * 2, pairs)
    return result
