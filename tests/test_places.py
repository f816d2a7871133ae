"""Every table and figure of the paper has its place: a page that exists and names it."""

import re

import nbformat
import pytest

from companion.ledger import claims
from companion.pages import paper, places
from companion.record.paths import ROOT

TOC = set(re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8")))
PLACES = places.terms()
SHOWN = [
    (label, page) for label, pages in PLACES.items() if not isinstance(pages, str) for page in pages
]


def test_every_label_of_the_paper_has_an_entry_and_nothing_else_has():
    figures = paper.tables()["figures"]
    panels = [label for figure in figures.values() for label in figure["panels"]]
    assert set(PLACES) == {*paper.tables()["tables"], *figures, *panels} == set(places.labels())


def test_labels_are_called_as_in_the_paper():
    called = places.numbers()
    assert (
        set(called) == set(PLACES)
        and called["tab:core_results_llama"] == "Table\u00a01"
        and called["fig:unlearning_score_vs_targets_ssn_llama"] == "Figure\u00a04c"
    )


def test_every_page_exists():
    assert {page for _, page in SHOWN} <= TOC
    assert all(PLACES.values()), "an entry without a page"


@pytest.mark.parametrize(("label", "page"), SHOWN)
def test_the_page_names_the_label(label, page):
    """Or, for a panel, its figure; the ledger takes its tables' labels from the paper's data."""
    source = (
        ROOT / f"{page}.ipynb" if page.startswith("notebooks/") else ROOT / f"{page}.md"
    ).read_text(encoding="utf-8")
    figure = next(
        (name for name, entry in paper.tables()["figures"].items() if label in entry["panels"]),
        label,
    )
    assert {label, figure} & set(re.findall(r"(?:tab|fig):[\w-]+", source)) or (
        page == "notebooks/claims" and label in claims.PAGES
    )


def captions(page: str) -> list[str]:
    """What stands under a notebook's pictures."""
    return [
        cell.metadata["mystnb"]["figure"]["caption"]
        for cell in nbformat.read(ROOT / f"{page}.ipynb", as_version=4).cells
        if "figure" in cell.metadata.get("mystnb", {})
    ]


@pytest.mark.parametrize(
    ("label", "page"),
    [(label, page) for label, page in SHOWN if label in paper.tables()["figures"]],
)
def test_a_figure_of_the_paper_is_named_by_a_caption(label, page):
    assert any(f"`{label}`" in caption for caption in captions(page))


@pytest.mark.parametrize(("number", "word"), list(enumerate(("c_size", "specificity", "targets"))))
def test_a_caption_names_the_panels_of_its_kind(number, word):
    letters = {}
    for label, figure, letter in places.panels():
        letters.setdefault(figure, []).extend([letter] * (word in label))
    assert (
        " and ".join(f"{', '.join(named)} of `{figure}`" for figure, named in letters.items())
        in captions("notebooks/tradeoffs")[number]
    )


def test_the_table_links_every_page():
    table = places.table().set_index("label")["where"]
    for label, page in SHOWN:
        assert f"]({page.removeprefix('notebooks/')}.ipynb)" in table[f"`{label}`"]
    assert places.link("book/method") == "[](../book/method.md)"
    assert (table.str.len() > 0).all()
