"""Where every table and figure of the paper stands in this book: params/places.yml with links."""

from __future__ import annotations

import textwrap

import pandas as pd
import yaml

from companion.record import paper
from companion.record.paths import ROOT


def terms() -> dict:
    """params/places.yml: pages, or the reason why there is none, by label."""
    return yaml.safe_load((ROOT / "params" / "places.yml").read_text(encoding="utf-8"))


def panels() -> list[tuple[str, str, str]]:
    """Every panel: its label, its figure's, and its letter."""
    return [
        (label, figure, letter)
        for figure, entry in paper.tables()["figures"].items()
        for letter, label in zip("abcdefghi", entry["panels"], strict=False)
    ]


def labels() -> pd.DataFrame:
    """Every table, figure and panel by its label: what the paper calls it, and the first words of
    its caption or, of a panel, the figure that it is part of."""
    found = {
        label: (
            f"{kind}\u00a0{entry['number']}",
            textwrap.shorten(entry["caption"], 70, placeholder=" …"),
        )
        for kind in ("Table", "Figure")
        for label, entry in paper.tables()[f"{kind.lower()}s"].items()
    }
    found |= {
        label: (f"{found[figure][0]}{letter}", f"panel {letter} of `{figure}`")
        for label, figure, letter in panels()
    }
    return pd.DataFrame.from_dict(found, orient="index", columns=["in the paper", "what it is"])


def table() -> pd.DataFrame:
    """One line a label, in the order of the file, with links to where it stands."""
    pages = pd.Series(terms())
    found = labels().loc[pages.index].reset_index(names="label")
    found["label"] = found["label"].map("`{}`".format)
    found["where"] = [one if isinstance(one, str) else ", ".join(map(link, one)) for one in pages]
    return found[["in the paper", "label", "what it is", "where"]]


def link(page: str) -> str:
    """A page as the target of a link from a notebook, which the book gives its title."""
    folder, name = page.split("/")
    return f"[]({name}.ipynb)" if folder == "notebooks" else f"[](../{page}.md)"
