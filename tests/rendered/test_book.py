"""The rendered book: whole, self-contained, and with the numbers of the rows. Needs `make book` before it."""

import base64
import csv
import gzip
import html
import io
import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import privacy
import pytest
import yaml

from companion.ledger import claims
from companion.pages import ablations, conformance, paper, places, results, summary
from companion.pages.tables import as_strings, percent
from companion.record import compare, rows
from companion.record.paths import BUILD, ROOT
from companion.runs import methods

HTML = BUILD / "_build" / "html"
PAGES = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text())


def page(name):
    return (HTML / f"{name}.html").read_text(encoding="utf-8")


def text(name):
    return html.unescape(re.sub(r"<[^>]+>", "", page(name)))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_from_elsewhere(name):
    loaded = re.findall(
        r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]+)\"",
        page(name),
    )
    assert [address for address in loaded if "schema.org" not in address] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(name):
    """No error output, no unresolved reference, no raw directive, no object in the place of an empty text."""
    content = page(name)
    assert "IPython.core" not in content
    for sign in (
        "Traceback (most recent call last)",
        "Refused:",
        "output stderr",
        ":::{",
        "{glue:",
        "{numref}",
        "{model}",
        "{data}",
    ):
        assert sign not in re.sub(r"<(pre|code)\b.*?</\1>", "", content, flags=re.DOTALL), sign


def every_cell(name: str) -> list[str]:
    """The cells of a page's tables, and those of the data that it offers."""
    shown = [
        html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()
        for cell in re.findall(r"<td\b[^>]*>(.*?)</td>", page(name), re.DOTALL)
    ]
    offered = [
        base64.b64decode(text).decode()
        for text in re.findall(r"data:text/csv;base64,([A-Za-z0-9+/=]+)", page(name))
    ]
    return shown + [
        cell for text in offered for line in csv.reader(io.StringIO(text)) for cell in line
    ]


@pytest.mark.parametrize("name", PAGES)
def test_what_is_missing_is_a_dash(name):
    assert [cell for cell in every_cell(name) if re.match(r"[+−-]?nan\b", cell)] == []


def test_the_landing_page_shows_what_the_rows_say():
    means = results.means(results.runs("smollm2-135m", "ssn"))
    for value in (
        means["revs"]["unlearning_score"],
        means["revs"]["specificity"],
        means["random"]["unlearning_score"],
    ):
        assert percent(*value) in text("book/index")
    ledger = claims.ledger("smollm2-135m")
    assert all(
        claims.counted(ledger[ledger["kind"] == kind]) in text("book/index")
        for kind in (claims.NUMBER, claims.CLAIM)
    )


def test_the_page_on_models_of_ones_own_names_every_family():
    assert conformance.families() in text("book/run")


def test_the_core_page_has_a_numbered_table_and_both_sides():
    content = text("notebooks/core")
    assert re.search(r"Table [\d.]+\s*#?\s*Unlearning effectiveness on SSN", content)
    assert "paper, Llama-3-8B" in content and "89.6 ± 2.0" in content


def test_the_core_page_shows_every_method_that_has_rows():
    content = text("notebooks/core")
    for name, values in results.means(results.runs("smollm2-135m", "ssn")).items():
        assert (
            methods.registry()[name]["title"] in content
            and percent(*values["unlearning_score"]) in content
        )


@pytest.mark.parametrize("which", ablations.ALL)
def test_an_ablation_stands_beside_the_paper(which):
    content = text(f"notebooks/{which}")
    table = as_strings(ablations.beside(which, "smollm2-135m"))
    for cell in table[["alternative", "Unlearning Score", "Resistance"]].to_numpy().ravel():
        assert cell in content


def test_every_label_of_the_paper_leads_to_pages_that_name_it():
    lines = {
        re.sub(r"<[^>]+>", "", label): rest
        for label, rest in re.findall(
            r"<tr[^>]*>\s*<td[^>]*>.*?</td>\s*<td[^>]*>(.*?)</td>(.*?)</tr>",
            page("notebooks/contents"),
            re.DOTALL,
        )
    }
    figure = {
        panel: label
        for label, entry in paper.tables()["figures"].items()
        for panel in entry["panels"]
    }
    for label, pages in places.terms().items():
        for name in set() if isinstance(pages, str) else set(pages) & set(PAGES):
            assert f'href="{name.removeprefix("notebooks/")}.html"' in lines[label], (label, name)
            assert label in text(name) or figure.get(label, label) in text(name), (label, name)


def lines_of(name: str, label: str) -> list[dict[str, tuple[str, str]]]:
    """The lines of a long table on a page: by column, the text of a cell and the address that it leads to."""
    whole = re.search(rf'<div class="filtered" id="{label}">.*?</table>', page(name), re.DOTALL)[0]
    plain = lambda cell: html.unescape(re.sub(r"<[^>]+>", "", cell))
    columns = [plain(cell) for cell in re.findall(r"<th>(.*?)</th>", whole, re.DOTALL)]
    link = lambda cell: (
        html.unescape(found[1]) if (found := re.search(r'<a href="([^"]*)"', cell)) else ""
    )
    return [
        {
            column: (plain(cell), link(cell))
            for column, cell in zip(columns, re.findall(r"<td>(.*?)</td>", line, re.DOTALL))
        }
        for line in re.findall(r"<tr data-value=.*?</tr>", whole, re.DOTALL)
    ]


def captions(name: str) -> str:
    """What stands under a page's tables and pictures."""
    return " ".join(
        re.findall(r"<(?:caption|figcaption)\b.*?</(?:caption|figcaption)>", page(name), re.DOTALL)
    )


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_has_a_caption(name):
    drawn, figures = (
        re.findall(pattern, page(name), re.DOTALL)
        for pattern in (r"<img\b[^>]*_images/", r"<figure\b.*?</figure>")
    )
    assert len(drawn) == sum(
        len(re.findall(r"<img\b[^>]*_images/", figure))
        for figure in figures
        if "<figcaption" in figure
    )


def test_every_figure_of_the_paper_is_named_under_a_picture():
    for label in paper.tables()["figures"]:
        for name in places.terms()[label]:
            assert any(
                label in caption
                for caption in re.findall(r"<figcaption\b.*?</figcaption>", page(name), re.DOTALL)
            ), (label, name)


def test_every_label_of_the_paper_has_a_caption_and_a_row_or_a_reason():
    """A table or picture with a caption on a page of its; each number that it prints on the ledger's page as printed, with ours and its rows or the reason; each panel with its points or the command."""
    shown = text("notebooks/tradeoffs")
    lines = lines_of("notebooks/claims", "tab-numbers")
    for label, pages in places.terms().items():
        assert isinstance(pages, str) or any(captions(name) for name in pages), label
        cells = (
            {
                (f"{f'{dataset}, ' if dataset else ''}{row}: {column}", cell["printed"])
                for (dataset, row, column), cell in claims.printed(label).items()
            }
            if label in claims.PAGES
            else set()
        )
        there = [line for line in lines if line["where"][0] == label]
        assert {(line["what"][0], line["paper"][0]) for line in there} == cells and len(
            there
        ) == len(cells), label
        for line in there:
            behind = parse_qs(urlsplit(line["ours"][1]).query).get("tab-rows", [""])[0].split(",")
            assert (
                behind != [""]
                and all((HTML / "rows" / f"{name}.json").is_file() for name in behind)
                or line["why"][0]
            ), (label, line["what"])
    for entry in paper.tables()["figures"].values():
        assert all(panel in shown for panel in entry["panels"])


def test_no_path_of_the_machine_is_shown():
    for name in PAGES:
        assert str(ROOT) not in page(name), name


def test_a_few_lines_say_what_was_reproduced():
    """And one more for each recorded run that was made in this build, too."""
    assert len(summary.lines()) == 5 + len(compare.made_again()) == 6


def test_the_list_of_rows_leads_to_them():
    lines = lines_of("notebooks/provenance", "tab-rows")
    assert len(lines) == len(rows.find())
    for name, address in (line["row"] for line in lines):
        assert (
            json.loads((HTML / "notebooks" / address).read_text(encoding="utf-8"))["name"] == name
        )


def test_the_toc_is_rendered_completely():
    assert yaml.safe_load((ROOT / "_toc.yml").read_text())["format"] == "jb-book"
    assert all((HTML / f"{name}.html").is_file() for name in PAGES) and len(PAGES) > 10


def built() -> list[Path]:
    """Everything that a build writes and that is text: pages with their attributes and sources, the search index, executed notebooks, rows, logs, reports."""
    places = {
        HTML: ("*.html", "_sources/**/*", "searchindex.js"),
        BUILD: ("notebooks/**/*.ipynb", "rows/**/*", "logs/**/*", "own/**/*.html", "own/**/*.json"),
    }
    return sorted(
        {
            path
            for place, patterns in places.items()
            for pattern in patterns
            for path in place.rglob(pattern)
            if path.is_file()
        }
    )


def test_nothing_that_was_built_has_a_secret_of_a_real_person():
    """Tables for download, which hold more than the page shows, are read; pictures are not."""
    hits = {}
    for path in built():
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        whole = re.sub(
            r"data:text/csv;base64,([A-Za-z0-9+/=]+)",
            lambda match: base64.b64decode(match[1]).decode(),
            content.decode("utf-8", errors="ignore"),
        )
        seen = re.sub(r"(?:base64,|\"image/\w+\": ?\")[A-Za-z0-9+/=\\]+", "", whole)
        if found := privacy.found(seen):
            hits[str(path.relative_to(BUILD))] = found
    assert not hits and len(built()) > 3 * len(PAGES)
