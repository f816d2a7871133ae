"""Every table and figure of the paper has its place: a page that exists and names it."""

import re

import nbformat
import pytest
import yaml

from companion.store import paper
from companion.store.paths import ROOT

TOC = set(re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8")))
PLACES = yaml.safe_load((ROOT / "params" / "places.yml").read_text(encoding="utf-8"))
FIGURES = paper.tables()["figures"]
SHOWN = [
    (label, page) for label, pages in PLACES.items() if not isinstance(pages, str) for page in pages
]


def test_every_label_of_the_paper_has_an_entry_and_nothing_else_has():
    panels = [label for figure in FIGURES.values() for label in figure["panels"]]
    known = {*paper.tables()["tables"], *FIGURES, *panels}
    assert set(PLACES) == known
    assert all(PLACES.values()) and {page for _, page in SHOWN} <= TOC


@pytest.mark.parametrize(("label", "page"), SHOWN)
def test_the_page_names_the_label(label, page):
    """Or, for a panel, its figure."""
    ending = "ipynb" if page.startswith("notebooks/") else "md"
    named = re.findall(r"(?:tab|fig):[\w-]+", (ROOT / f"{page}.{ending}").read_text("utf-8"))
    figure = next((name for name, one in FIGURES.items() if label in one["panels"]), label)
    assert {label, figure} & set(named)


def captions(page: str) -> list[str]:
    """What stands under a notebook's pictures."""
    cells = nbformat.read(ROOT / f"{page}.ipynb", as_version=4).cells
    figures = [cell.metadata.get("mystnb", {}).get("figure") for cell in cells]
    return [figure["caption"] for figure in figures if figure]


@pytest.mark.parametrize(("label", "page"), [(one, page) for one, page in SHOWN if one in FIGURES])
def test_a_figure_of_the_paper_is_named_by_a_caption(label, page):
    assert any(f"`{label}`" in caption for caption in captions(page))
