"""Build the project's synthetic Social Security Number (SSN) data set, of the design of the REVS
paper's (Appendix, "Synthetic SSN Dataset"). README.md is its datasheet.

Every sentence of ``templates.txt`` holds ``[NAME]``, ``[DATE]`` and ``[SSN]`` exactly once. Each
run of five lines is a block: the five sentences given to one person. In "main", person i gets
block i; in "tune" the blocks are dealt in a shuffled order, so that the two sets pair people with
sentences differently.

Run ``python data/make.py``. The output depends only on the two input files and on ``SEED``.
"""

import random
from datetime import date, timedelta
from pathlib import Path

from common import Row, read_lines, read_templates, row

HERE = Path(__file__).resolve().parent
SEED = 20250
SETS = ("main", "tune")
PEOPLE_PER_SET = 40
SENTENCES_PER_PERSON = 5
FIRST_DATE = date(2010, 1, 1)
LAST_DATE = date(2023, 12, 28)


def draw_numbers(rng: random.Random, count: int) -> list[str]:
    """Draw `count` numbers AAA-GG-SSSS that can never be issued.

    No SSN has an area AAA of 900-999, and no taxpayer number (ITIN) such an area with a group GG
    below 50. Areas and the first three digits of serials all differ, also from one another, so
    that unlearning one number, often by a run of three digits, does not touch another.
    """
    areas = rng.sample(range(900, 1000), count)
    used = set(areas)
    heads = rng.sample([head for head in range(100, 1000) if head not in used], count)
    return [
        f"{area}-{rng.randint(1, 49):02d}-{head}{rng.randint(0, 9)}"
        for area, head in zip(areas, heads)
    ]


def draw_date(rng: random.Random) -> str:
    """Draw a day between FIRST_DATE and LAST_DATE, written D-M-YYYY."""
    day = FIRST_DATE + timedelta(days=rng.randint(0, (LAST_DATE - FIRST_DATE).days))
    return f"{day.day}-{day.month}-{day.year}"


def build() -> dict[str, list[Row]]:
    """Return the rows of both sets, keyed by set name."""
    rng = random.Random(SEED)
    templates, people = read_templates(HERE), read_lines(HERE, "people.txt")
    numbers = draw_numbers(rng, len(people))

    main_order = list(range(PEOPLE_PER_SET))
    tune_order = main_order.copy()
    rng.shuffle(tune_order)

    result: dict[str, list[Row]] = {}
    for set_index, (set_name, order) in enumerate(zip(SETS, (main_order, tune_order))):
        rows: list[Row] = []
        for person, block in enumerate(order):
            name = people[set_index * PEOPLE_PER_SET + person]
            secret = numbers[set_index * PEOPLE_PER_SET + person]
            group = f"ssn-{set_name}-{person:03d}"
            start = block * SENTENCES_PER_PERSON
            for k, (domain, sentence) in enumerate(templates[start : start + SENTENCES_PER_PERSON]):
                told = sentence.replace("[NAME]", name).replace("[DATE]", draw_date(rng))
                rows.append(row(group, k, "ssn", name, told, secret, domain=domain))
        result[set_name] = rows
    return result
