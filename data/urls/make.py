"""Build the project's synthetic set of web addresses (URLs): sentences of the kind that the REVS
paper unlearns (Appendix, "URLs Dataset"), with invented addresses. README.md is its datasheet.

Every sentence of ``templates.txt`` holds ``[URL]`` once. The first 25 name the project, with
``[PROJECT]``; the last 25 do not, and hold ``[TOPIC]`` instead. A line break is written ``\\n``.
Every template is used once, and ten of them twice.

Address i gets the shape ``SHAPES[i % 10]``, project i and words 2i and 2i + 1; the files stand in
an order in which no two addresses have the same rare tokens. Ten projects in a row are named in
their sentences, the next ten are not, so that each shape is named in half of its sentences.

Numbers with two or three digits, and the halves of the six-digit dates, occur in one address only;
all other digits stand alone. So no two addresses share a number token, even if a tokenizer groups
digits by three.

Run ``python data/make.py``. The output depends only on the four input files and on ``SEED``.
"""

import random
from pathlib import Path

from common import Row, addressed, deal, read_lines, read_templates

HERE = Path(__file__).resolve().parent
SEED = 20253
MONTHS = (
    "january february march april may june july august september october november december".split()
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
        parts = {"p": project.lower(), "a": words[2 * i], "b": words[2 * i + 1], "d": day}
        parts |= {"D": date, "n": number, "v": version, "h": draw_hash(rng)}
        result.append(shape.format(**parts))
    return result


def build() -> dict[str, list[Row]]:
    """Return the rows, keyed by set name."""
    projects, topics = read_lines(HERE, "projects.txt"), iter(read_lines(HERE, "topics.txt"))
    pairs = zip(projects, addresses(projects, read_lines(HERE, "words.txt")))
    decks = deal(random.Random(SEED + 2), read_templates(HERE), len(projects))
    return {"main": addressed("urls-main", "url", "[PROJECT]", pairs, decks, topics)}
