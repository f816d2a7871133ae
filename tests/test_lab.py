"""The lab is its key without solutions; the slides show the book's pictures and ask for nothing."""

import re

import nbformat
import pytest

from companion.data import adapters
from companion.store.paths import ROOT
from teaching import lab, slides

KEY = nbformat.read(lab.KEY, as_version=4)
CODE = [cell for cell in KEY.cells if cell.cell_type == "code"]


def test_the_lab_is_the_stripped_key():
    assert lab.LAB.read_text(encoding="utf-8") == nbformat.writes(lab.stripped(KEY)) + "\n"


def test_the_lab_gives_nothing_away():
    text = lab.LAB.read_text(encoding="utf-8")
    assert "SOLUTION" not in text and '"outputs": [\n' not in text
    blanks = [cell for cell in CODE if "### BEGIN SOLUTION" in cell.source]
    given = [cell.source for cell in nbformat.reads(text, as_version=4).cells]
    assert len(blanks) == sum(source.endswith("...  # your code") for source in given) >= 6


def test_each_blank_is_checked_by_the_next_cell():
    for blank, check in zip(CODE, CODE[1:]):
        if "### BEGIN SOLUTION" in blank.source:
            name = re.search(r"^def (\w+)\(", blank.source, re.MULTILINE)[1]
            assert check.source == f'teaching.check("{name}")({name})'


def test_the_steps_take_ninety_minutes():
    assert sum(lab.minutes(KEY)) == 90
    page = (ROOT / "book" / "teach.md").read_text(encoding="utf-8")
    table = re.search(r"^\| Minutes \| Step .*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)[1]
    planned = [row.split("|")[1].strip() for row in table.splitlines()]
    assert planned == [*map(str, lab.minutes(KEY)), "home"]


def test_the_key_holds_what_a_run_gave():
    assert all(cell.execution_count for cell in CODE)
    outputs = [output for cell in CODE for output in cell.outputs]
    assert not [one for one in outputs if one.output_type == "error"]
    checks = [cell for cell in CODE if cell.source.startswith("teaching.check")]
    assert all("Right: " in cell.outputs[-1].data["text/plain"] for cell in checks)
    assert max(len(line) for cell in CODE for line in cell.source.splitlines()) <= 80


def test_the_key_was_run_with_the_adapter_that_is_here():
    """Else its numbers are not those that students see: run python -m teaching.lab."""
    assert KEY.metadata.adapter == adapters.fingerprint(lab.ADAPTER)


def test_the_lab_installs_what_the_project_pins():
    lines = (ROOT / "teaching" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert "-c ../requirements.txt" in lines and not [line for line in lines if "==" in line]


def test_slides_are_written_with_all_they_need(tmp_path):
    names = {name for path in slides.LECTURES for name in slides.pictures(path.read_text())}
    picture = nbformat.v4.new_output(
        "display_data", {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'/>"}
    )
    cells = [nbformat.v4.new_code_cell(outputs=[picture]) for _ in names]
    for cell, name in zip(cells, names):
        cell.metadata["mystnb"] = {"figure": {"name": name}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "drawn.ipynb")
    out = tmp_path / "slides"
    pages = slides.write(out, [tmp_path / "drawn.ipynb"], ROOT / "book" / "_static")
    assert [page.name for page in pages] == ["lecture1.html", "lecture2.html"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        asked = re.findall(r'(?:src|href)="([^"]+)"', text)
        assert asked and all(one == "data:," or (out / one).is_file() for one in asked)
        assert text.count("<section>") == text.count('<aside class="notes">') > 10
    with pytest.raises(ValueError, match="which no page of the book draws"):
        slides.write(out, [], ROOT / "book" / "_static")


def test_each_page_of_exercises_stands_in_one_chapter():
    pages = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "book").glob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for page in (ROOT / "book" / "exercises").glob("*.md"):
        assert len(re.findall(rf"\{{include\}} \S*exercises/{page.name}\b", text)) == 1, page.name


def test_the_quiz_has_five_answered_questions_a_part():
    text = (ROOT / "book" / "exercises" / "quiz.md").read_text(encoding="utf-8")
    parts = re.findall(r"^````\{dropdown\} Part \d.*?^````$", text, re.MULTILINE | re.DOTALL)
    assert len(parts) == 5
    for part in parts:
        assert re.findall(r"^(\d)\. .*\n   \*.+\*$", part, re.MULTILINE) == list("12345")
