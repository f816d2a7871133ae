"""Checks on the synthetic SSN data in data/ssn."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "data" / "ssn"
SETS = ("main", "tune")
DOMAINS = ["employment", "tax", "finance", "government", "medical"]
PLACEHOLDERS = ("[NAME]", "[DATE]", "[SSN]")
COLUMNS = ["id", "kind", "group", "subject", "domain", "prompt", "secret", "suffix"]


def load_make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ssn_make", FOLDER / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_rows(set_name: str) -> list[dict[str, str]]:
    text = (FOLDER / f"{set_name}.jsonl").read_text(encoding="ascii")
    return [json.loads(line) for line in text.splitlines()]


def by_group(rows: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return groups


def all_numbers() -> list[str]:
    """One number per person, over both sets."""
    return [
        members[0]["secret"]
        for set_name in SETS
        for members in by_group(read_rows(set_name)).values()
    ]


@pytest.fixture(scope="module")
def templates() -> list[tuple[str, str]]:
    lines = (FOLDER / "templates.txt").read_text(encoding="ascii").splitlines()
    pairs = []
    for line in lines:
        domain, sentence = line.split("\t")
        pairs.append((domain, sentence))
    return pairs


@pytest.fixture(scope="module")
def people() -> list[str]:
    return (FOLDER / "people.txt").read_text(encoding="ascii").splitlines()


# ---- templates and names -------------------------------------------------------------------------


def test_templates_count_and_domain_order(templates):
    assert [domain for domain, _ in templates] == [d for d in DOMAINS for _ in range(40)]


def test_templates_have_each_placeholder_once(templates):
    for _, sentence in templates:
        for placeholder in PLACEHOLDERS:
            assert sentence.count(placeholder) == 1, sentence
        assert sentence.count("[") == sentence.count("]") == 3, sentence


def test_templates_place_the_number_well(templates):
    for _, sentence in templates:
        before, after = sentence.split("[SSN]")
        assert "[NAME]" in before, sentence
        assert len(before.split()) >= 2, sentence
        assert before.endswith(" "), sentence
        assert after[0] in " ,.", sentence


def test_templates_are_plain_sentences(templates):
    for _, sentence in templates:
        assert 18 <= len(sentence.split()) <= 32, sentence
        assert sentence[0].isupper() and sentence.endswith("."), sentence
        assert "  " not in sentence, sentence
        assert not re.search(r"\d", sentence), sentence


def test_templates_start_differently(templates):
    starts = Counter(" ".join(sentence.lower().split()[:3]) for _, sentence in templates)
    assert [start for start, n in starts.items() if n > 1] == []


def test_templates_of_one_person_introduce_the_number_differently(templates):
    for start in range(0, len(templates), 5):
        block = [sentence for _, sentence in templates[start : start + 5]]
        leads = {tuple(sentence.split("[SSN]")[0].split()[-2:]) for sentence in block}
        assert len(leads) == 5, block


def test_people_are_distinct(people):
    assert len(people) == len(set(people)) == 80
    given, family = zip(*(name.split(" ") for name in people))
    assert len(set(given)) == len(set(family)) == 80


# ---- generated files -----------------------------------------------------------------------------


def test_regenerating_gives_the_same_bytes(tmp_path):
    load_make().write(tmp_path)
    for set_name in SETS:
        file_name = f"{set_name}.jsonl"
        assert (tmp_path / file_name).read_bytes() == (FOLDER / file_name).read_bytes()


@pytest.mark.parametrize("set_name", SETS)
def test_rows_and_groups(set_name):
    rows = read_rows(set_name)
    assert [row["id"] for row in rows] == [
        f"ssn-{set_name}-{person:03d}-{k}" for person in range(40) for k in range(5)
    ]
    for row in rows:
        assert list(row) == COLUMNS
        assert row["kind"] == "ssn"
        assert row["group"] == row["id"].rpartition("-")[0]
    groups = by_group(rows)
    assert len(groups) == 40
    for members in groups.values():
        assert len(members) == 5
        for column in ("subject", "domain", "secret"):
            assert len({row[column] for row in members}) == 1
    assert Counter(row["domain"] for row in rows) == {domain: 40 for domain in DOMAINS}


@pytest.mark.parametrize("set_name", SETS)
def test_one_name_and_one_number_per_person(set_name, people):
    groups = by_group(read_rows(set_name)).values()
    expected = people[:40] if set_name == "main" else people[40:]
    assert [members[0]["subject"] for members in groups] == expected
    assert len({members[0]["secret"] for members in groups}) == 40


@pytest.mark.parametrize("set_name", SETS)
def test_sentences_are_filled_in(set_name, templates):
    used = []
    for row in read_rows(set_name):
        assert row["prompt"].endswith(" ") and not row["prompt"].endswith("  ")
        assert row["suffix"][0] in " ,."
        full = row["prompt"] + row["secret"] + row["suffix"]
        assert "[" not in full and "]" not in full
        assert row["subject"] in row["prompt"]
        found = re.findall(r"(?<![\d-])\d{1,2}-\d{1,2}-\d{4}(?![\d-])", full)
        assert len(found) == 1, full
        day, month, year = map(int, found[0].split("-"))
        assert found[0] == f"{day}-{month}-{year}"
        assert date(2010, 1, 1) <= date(year, month, day) <= date(2023, 12, 28)
        template = full.replace(row["secret"], "[SSN]").replace(row["subject"], "[NAME]")
        used.append((row["domain"], template.replace(found[0], "[DATE]")))
    assert sorted(used) == sorted(templates)
    assert (used == templates) == (set_name == "main")


# ---- the numbers ---------------------------------------------------------------------------------


def test_numbers_can_never_be_issued():
    for number in all_numbers():
        match = re.fullmatch(r"(\d{3})-(\d{2})-(\d{4})", number)
        assert match, number
        area, group, serial = (int(part) for part in match.groups())
        assert 900 <= area <= 999, number
        assert 1 <= group <= 49, number
        assert 1000 <= serial <= 9999, number


def test_areas_and_serial_heads_are_distinct():
    numbers = all_numbers()
    areas = {number[:3] for number in numbers}
    heads = {number[7:10] for number in numbers}
    assert len(numbers) == len(set(numbers)) == len(areas) == len(heads) == 80
    assert not areas & heads


def test_sets_share_no_person_and_no_number():
    main, tune = read_rows("main"), read_rows("tune")
    for column in ("group", "subject", "secret"):
        assert not {row[column] for row in main} & {row[column] for row in tune}
