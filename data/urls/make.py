"""Build the project's synthetic set of web addresses (URLs).

The REVS paper unlearns URLs that a model memorised during its pre-training
(Appendix, "URLs Dataset").  This folder holds sentences of the same kind with
invented addresses, which a model is made to memorise first.

Inputs, all beside this file:

* ``templates.txt``: 50 lines ``domain<TAB>sentence``.  Every sentence holds
  ``[URL]`` once.  The first 25 name the project, with ``[PROJECT]``; the last 25
  do not, and hold ``[TOPIC]`` instead.  A line break is written ``\\n``.
* ``projects.txt``: 60 invented names of projects, one for each host.
* ``words.txt``: 120 words, two for each path.
* ``topics.txt``: 30 topics, one for each sentence that does not name the project.

Output: ``main.jsonl``, 60 rows: one address and one sentence a row.  Every
template is used once, and ten of them twice.  There is no set "tune": the paper uses the
hyperparameters that it chose on e-mail addresses.

How an address is made.  Address i gets the shape ``SHAPES[i % 10]``, project i
and words 2i and 2i + 1; the files stand in an order in which no two addresses
have the same rare tokens (see the README).  Ten projects in a row are named in their
sentences, the next ten are not, so that each shape is named in half of its sentences.

Numbers with two or three digits, and the halves of the six-digit dates, occur
in one address only; all other digits stand alone.  So a tokenizer that groups
digits by three has no number in common to two addresses.

Run ``python data/make.py``.  The output depends only on the four input
files and on ``SEED``.
"""

from __future__ import annotations

import random
from pathlib import Path

from common import OF_A_SORT, Row, addressed, deal, read_lines, read_templates

HERE = Path(__file__).resolve().parent
SEED = 20253
ADDRESSES = 60
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)

# p is the project, a and b are words; d a day of a month, D a six-digit date, n a number,
# v a version, h a hash.
SHAPES = (
    "https://docs.{p}.example.org/en/{a}/{b}.html",
    "https://{p}.example.net/archive/{d}/{a}-{b}",
    "https://git.{p}.example.org/{a}/{b}/commit/{h}",
    "https://files.{p}.example.com/pub/{a}/{b}-{v}.tar.gz",
    "https://wiki.{p}.example.org/{a}/{b}_guide",
    "https://lists.{p}.example.net/{a}/{b}/msg{n}.html",
    "https://www.{p}.example.com/books/{a}-and-{b}.pdf",
    "https://data.{p}.example.org/{a}/{b}?row={n}",
    "https://{p}.example.com/{a}/{D}-{b}.txt",
    "https://blog.{p}.example.net/{a}-of-the-{b}",
)


def draw_hash(rng: random.Random) -> str:
    """Draw eight hexadecimal digits like a commit: no two decimal digits stand together."""
    result = ""
    while len(result) < 8:
        sort = "abcdef" if result and result[-1].isdigit() else rng.choice(("abcdef", "0123456789"))
        result += rng.choice(sort)
    return result


def addresses(projects: list[str], words: list[str]) -> list[str]:
    """Return one address for each project, from a generator of its own."""
    rng = random.Random(SEED)
    triples = iter(rng.sample(range(100, 1000), 4 * len(projects)))  # more than are needed
    days = iter(rng.sample(range(10, 29), 10))
    used: set[int] = set()
    result = []
    for i, project in enumerate(projects):
        shape = SHAPES[i % len(SHAPES)]
        date = number = day = None
        if "{D}" in shape:  # YYMMDD, such as 940317
            while date is None or used & {int(date[:3]), int(date[3:])}:
                date = f"{rng.randint(60, 99)}{rng.randint(1, 12):02d}{rng.randint(1, 28):02d}"
            used |= {int(date[:3]), int(date[3:])}
        if "{n}" in shape:
            number = next(triple for triple in triples if triple not in used)
            used.add(number)
        if "{d}" in shape:
            day = f"{next(days)}-{rng.choice(MONTHS)}"
        version = ".".join(str(rng.randint(0, 9)) for _ in range(3))
        result.append(
            shape.format(
                p=project.lower(),
                a=words[2 * i],
                b=words[2 * i + 1],
                d=day,
                D=date,
                n=number,
                v=version,
                h=draw_hash(rng),
            )
        )
    return result


def build() -> dict[str, list[Row]]:
    """Return the rows, keyed by set name."""
    rng, folder = random.Random(SEED + 2), HERE
    templates = read_templates(folder, 2 * OF_A_SORT)
    projects = read_lines(folder, "projects.txt", ADDRESSES)
    words = read_lines(folder, "words.txt", 2 * ADDRESSES)
    topics = iter(read_lines(folder, "topics.txt", ADDRESSES // 2))
    pairs, slots = zip(projects, addresses(projects, words)), ("[PROJECT]", "[TOPIC]", "[URL]")
    decks = deal(rng, templates, ADDRESSES)
    return {"main": addressed("urls-main", slots, pairs, decks, topics)}
