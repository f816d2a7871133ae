"""The path of the book can be read: a question, a short answer, a picture, short paragraphs."""

import re

import nbformat
import pytest
import yaml

from companion.store.paths import ROOT

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
PATH = [part for part in TOC if part["caption"] not in ("Yours", "Appendix")]
PAGES = re.findall(r"notebooks/(\w+)", str(PATH))  # chapters, and the pages below them

WORDS, LONGEST, NUMBERS, ROWS = 1200, 90, 8, 9  # a page; a paragraph, twice; a table
ANSWER, IN_ANSWER, LIMITS = 50, 3, 50  # words, numbers; words in the box of limits
ASIDE = r"exercise|solution|math|literalinclude|raw|dropdown|div|prf:\S+|code\S*"  # not in the flow


def read(name: str) -> list:
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells


def flow(text: str) -> str:
    """What a reader reads on: without exercises, formulas, code, and what is folded."""
    for fence in ("````", "```", ":::"):
        text = re.sub(rf"^{fence}\{{({ASIDE})\}}.*?^{fence}$", "", text, flags=re.M | re.S)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.S)
    text = re.sub(r"^(:::|```|\(\S+\)=|#|:\w+:).*$", "", text, flags=re.M)
    text = re.sub(r"\{glue:\w+\}`[^`]*`", "0", text)
    text = re.sub(r"\{\S+?\}`([^`<]*)[^`]*`", r"\1", text)  # roles: what they show
    return re.sub(r"\$[^$]+\$|`[^`]+`", "x", re.sub(r"\]\([^)]*\)", "]", text))


def paragraphs(text: str) -> list[list[str]]:
    """The words of each paragraph and point of a list."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", flow(text))
    return [words for words in map(str.split, parts) if words]


def numbers(words: list[str]) -> int:
    return sum(bool(re.search(r"\d", word)) for word in words)


def shows(cell) -> str:
    """What a cell of code puts on the page: a picture, a table, or nothing of these."""
    if cell.metadata.get("mystnb", {}).get("figure"):
        return "picture"
    return "table" if "tables.Table(" in cell.source else ""


def test_the_path_has_at_most_twenty_chapters_in_five_parts():
    *parts, appendix = TOC
    assert len(parts) == 5 and appendix["caption"] == "Appendix"
    chapters = [chapter["file"] for part in parts for chapter in part["chapters"]]
    assert len(chapters) <= 20 and len(PATH) == 4 and len(PAGES) > 20


@pytest.mark.parametrize("name", PAGES)
def test_a_chapter_begins_with_a_question_a_short_answer_and_a_picture(name):
    cells = read(name)
    title = re.search(r"^# (.+)$", cells[0].source, re.M)[1]
    first, *_ = paragraphs(cells[0].source)
    assert title.endswith("?")
    assert len(first) <= ANSWER and numbers(first) <= IN_ANSWER
    shown = [shows(cell) for cell in cells if cell.cell_type == "code" and shows(cell)]
    assert shown[0] == "picture"
    before = cells[1 : next(i for i, cell in enumerate(cells) if shows(cell))]
    assert not [cell for cell in before if cell.cell_type == "markdown"], "the picture comes next"


@pytest.mark.parametrize("name", PAGES)
def test_a_chapter_is_short(name):
    text = [cell.source for cell in read(name) if cell.cell_type == "markdown"]
    every = [words for source in text for words in paragraphs(source)]
    assert sum(map(len, every)) <= WORDS
    prose = [words for words in every if words[0] != "|"]  # a table is no paragraph
    assert not [" ".join(words) for words in prose if len(words) > LONGEST]
    assert not [" ".join(words) for words in every if numbers(words) > NUMBERS]
    rows = re.findall(r"(?:^\|.*\n?)+", "\n".join(text), re.M)
    assert all(table.count("\n") <= ROWS + 2 for table in rows)


@pytest.mark.parametrize("name", PAGES)
def test_a_chapter_says_once_what_it_does_not_show(name):
    text = "\n\n".join(cell.source for cell in read(name) if cell.cell_type == "markdown")
    (box,) = re.findall(
        r"^:::\{admonition\} What this does not show\n:class: limits\n(.*?)^:::$", text, re.M | re.S
    )
    assert len(flow(box).split()) <= LIMITS
