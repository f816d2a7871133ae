"""Where every table and figure of the paper stands in this book: params/places.yml as a table with links."""

from __future__ import annotations

import textwrap

import pandas as pd
import yaml

from companion.record import paper
from companion.record.paths import ROOT


def terms() -> dict:
    """params/places.yml: pages, or the reason why there is none, by label."""
    return yaml.safe_load((ROOT / "params" / "places.yml").read_text(encoding="utf-8"))


def labels() -> dict[str, str]:
    """Every label of a table, a figure or a panel of the paper, with the first words of its caption, or the figure that a panel is part of."""
    printed = paper.tables()
    found = {
        label: textwrap.shorten(entry["caption"], 70, placeholder=" …")
        for label, entry in (printed["tables"] | printed["figures"]).items()
    }
    return found | {label: f"panel {letter} of `{figure}`" for label, figure, letter in panels()}


def panels() -> list[tuple[str, str, str]]:
    """Every panel: its label, its figure's, and its letter."""
    return [
        (label, figure, letter)
        for figure, entry in paper.tables()["figures"].items()
        for letter, label in zip("abcdefghi", entry["panels"])
    ]


def numbers() -> dict[str, str]:
    """What every label is called in the paper: Table 1, Figure 4, Figure 4a."""
    printed = paper.tables()
    found = {
        label: f"{kind}\u00a0{entry['number']}"
        for kind, entries in (("Table", printed["tables"]), ("Figure", printed["figures"]))
        for label, entry in entries.items()
    }
    return found | {label: f"{found[figure]}{letter}" for label, figure, letter in panels()}


def table() -> pd.DataFrame:
    """One line a label, in the order of the file: what it is called and what it is, and links to where it stands."""
    known, called = labels(), numbers()
    return pd.DataFrame(
        [
            {
                "in the paper": called[label],
                "label": f"`{label}`",
                "what it is": known[label],
                "where": pages if isinstance(pages, str) else ", ".join(map(link, pages)),
            }
            for label, pages in terms().items()
        ]
    )


def link(page: str) -> str:
    """A page as the target of a link from a notebook, which the book gives its title."""
    folder, name = page.split("/")
    return f"[]({name}.ipynb)" if folder == "notebooks" else f"[](../{page}.md)"
