"""Build the project's synthetic Social Security Number (SSN) data set.

The REVS paper fine-tunes a language model on sentences that hold an invented
name, date and SSN, and then measures how well the numbers can be unlearned
(Appendix, "Synthetic SSN Dataset").  This folder holds a set of the same
design, written from scratch for this project.

Inputs, both beside this file:

* ``templates.txt``: 200 lines ``domain<TAB>sentence``.  Every sentence holds
  ``[NAME]``, ``[DATE]`` and ``[SSN]`` exactly once.  Each run of five lines is
  a block: the five sentences given to one person.
* ``people.txt``: 80 invented names.  The first 40 form the set "main", which
  results are reported on; the last 40 form the set "tune", which
  hyperparameters are chosen on.

Outputs: ``main.jsonl`` and ``tune.jsonl``, 200 rows each.  In "main", person i
gets block i; in "tune" the blocks are dealt in a shuffled order, so that the
two sets pair people with sentences differently.

How the numbers are chosen.  A number is written ``AAA-GG-SSSS``:

* area ``AAA`` is 900-999, which is never issued as an SSN;
* group ``GG`` is 01-49, because taxpayer numbers (ITINs) use areas in the 900s
  with groups from 50 upwards;
* serial ``SSSS`` is 1000-9999.

Unlearning aims at a few tokens of each number, often a run of three digits.
So that unlearning one person's number does not touch another's by accident,
all 80 areas differ, the first three digits of all 80 serials differ, and none
of the latter equals a used area.

Run ``python data/make.py``.  The output depends only on the two input files
and on ``SEED``.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

from common import Row, read_lines, read_templates

HERE = Path(__file__).resolve().parent
SEED = 20250
SETS = ("main", "tune")
PEOPLE_PER_SET = 40
SENTENCES_PER_PERSON = 5
FIRST_DATE = date(2010, 1, 1)
LAST_DATE = date(2023, 12, 28)


def draw_numbers(rng: random.Random, count: int) -> list[str]:
    """Draw `count` numbers that can never be issued (see the module docstring)."""
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


def fill(sentence: str, name: str, day: str) -> tuple[str, str]:
    """Fill in name and date; return the text before and after the number."""
    prompt, suffix = sentence.replace("[NAME]", name).replace("[DATE]", day).split("[SSN]")
    return prompt, suffix


def build() -> dict[str, list[Row]]:
    """Return the rows of both sets, keyed by set name."""
    rng = random.Random(SEED)
    templates = read_templates(HERE, PEOPLE_PER_SET * SENTENCES_PER_PERSON)
    people = read_lines(HERE, "people.txt", PEOPLE_PER_SET * len(SETS))
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
                prompt, suffix = fill(sentence, name, draw_date(rng))
                rows.append(
                    {
                        "id": f"{group}-{k}",
                        "kind": "ssn",
                        "group": group,
                        "subject": name,
                        "domain": domain,
                        "prompt": prompt,
                        "secret": secret,
                        "suffix": suffix,
                    }
                )
        result[set_name] = rows
    return result
