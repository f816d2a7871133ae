"""Tables that have a number, a caption and a name in the book, and look right in Jupyter."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import pandas as pd

DASH = "–"


@dataclass(frozen=True)
class Table:
    """A DataFrame of strings with a caption; ``name`` is its label in the book ({numref}`name`)."""

    frame: pd.DataFrame
    caption: str
    name: str

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {
            "text/html": self.to_html(),
            "text/markdown": self.to_markdown(),
            "text/plain": f"{self.caption}\n{self.frame.to_string(index=False)}",
        }

    def to_markdown(self) -> str:
        """A MyST table directive, numbered, captioned and referable, and a link to its data."""
        cells = [
            [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
            for row in [self.frame.columns, *self.frame.values]
        ]
        align = [":---" if self.is_text(column) else "---:" for column in self.frame.columns]
        lines = ["| " + " | ".join(row) + " |" for row in [cells[0], align, *cells[1:]]]
        return "\n".join(
            [
                f":::{{table}} {self.caption}",
                f":name: {self.name}",
                "",
                *lines,
                ":::",
                "",
                f'<p class="csv">{self.download()}</p>',
            ]
        )

    def to_html(self) -> str:
        return self.frame.to_html(index=False, border=0).replace(
            ">\n  <thead>", f">\n  <caption>{html.escape(self.caption)}</caption>\n  <thead>", 1
        )

    def download(self) -> str:
        """A link that holds the whole table as CSV."""
        csv = base64.b64encode(self.frame.to_csv(index=False).encode()).decode()
        return f'<a download="{self.name}.csv" href="data:text/csv;base64,{csv}">CSV</a>'

    def is_text(self, column: str) -> bool:
        """A column is set flush left if its first filled cell is long or does not start like a number."""
        filled = [str(cell) for cell in self.frame[column] if str(cell) not in ("", DASH)]
        return bool(filled) and (
            len(filled[0]) > 30 or not filled[0].lstrip("−-*").strip()[:1].isdigit()
        )


@dataclass(frozen=True)
class Data(Table):
    """The numbers of a picture: only the link to them is shown."""

    def to_markdown(self) -> str:
        return f'<p class="csv">{self.download()}</p>'

    def to_html(self) -> str:
        return self.to_markdown()


@dataclass(frozen=True)
class Filtered(Table):
    """A long table with a field to search it, a choice of one column's values, and its data as CSV.

    ``links``: columns whose cells lead to the address in another column. Those and the ``hidden`` columns are in the data
    only. A page's address may say which lines are shown at first, until something is searched (``showing``).
    """

    choose: str
    links: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {
            "text/html": self.to_html(),
            "text/plain": f"{self.caption}\n{self.frame.to_string(index=False)}",
        }

    def to_html(self) -> str:
        """The table and its controls; without scripts it is a plain table."""
        shown = self.frame.drop(columns=[*self.links.values(), *self.hidden])
        head = "".join(f"<th>{html.escape(column)}</th>" for column in shown)
        body = "".join(
            f'<tr data-value="{html.escape(str(row[self.choose]), quote=True)}">'
            + "".join(self.cell(column, row) for column in shown)
            + "</tr>"
            for row in self.frame.to_dict("records")
        )
        options = "".join(
            f"<option>{html.escape(value)}</option>"
            for value in dict.fromkeys(map(str, self.frame[self.choose]))
        )
        return (
            f'<div class="filtered" id="{self.name}"><p><label>Search <input type="search"></label> <label>{html.escape(self.choose)} <select><option value="">all</option>{options}</select></label> '
            f'<span class="filtered-count">{len(shown)}</span> of {len(shown)} · {self.download()}</p>'
            f'<div class="filtered-table"><table class="dataframe"><caption>{html.escape(self.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div><script>{FILTER % self.name}</script>'
        )

    def cell(self, column: str, row: dict) -> str:
        """One cell, text only, or a link."""
        text = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(str(row[column])))
        address = row[self.links[column]] if column in self.links else ""
        return (
            f'<td><a href="{html.escape(address)}">{text}</a></td>'
            if address
            else f"<td>{text}</td>"
        )


def showing(page: str, name: str, lines: Sequence[str]) -> str:
    """The address of a page whose filtered table shows only some lines, told by their first cells."""
    return f"{page}.html?{name}={quote(','.join(lines))}#{name}"


FILTER = """(() => {
  const box = document.getElementById("%s"), [search, choice] = [box.querySelector("input"), box.querySelector("select")];
  let asked = (new URLSearchParams(location.search).get(box.id) || "").split(",").filter(Boolean);
  const show = () => {
    let count = 0;
    for (const row of box.querySelectorAll("tbody tr")) {
      row.hidden = asked.length ? !asked.includes(row.cells[0].textContent) : !(row.textContent.toLowerCase().includes(search.value.toLowerCase()) && (!choice.value || row.dataset.value === choice.value));
      count += !row.hidden;
    }
    box.querySelector(".filtered-count").textContent = count;
  };
  show();
  for (const [field, event] of [[search, "input"], [choice, "change"]]) field.addEventListener(event, () => { asked = []; show(); });
})();"""


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share as a percentage, with its spread if there is one: "65.5 ± 3.1"."""
    if value is None or math.isnan(value):
        return DASH
    spread = "" if std is None or math.isnan(std) else f" ± {100 * std:.{digits}f}"
    return f"{100 * value:.{digits}f}{spread}"


def shown(value: float | None) -> str:
    """A number in per cent or points with one decimal, or a dash if there is none."""
    return DASH if value is None or math.isnan(value) else f"{value:.1f}"


METRICS = {
    "efficacy": "Efficacy",
    "generalization": "Generalization",
    "specificity": "Specificity",
    "unlearning_score": "Unlearning Score",
}


def before_and_after(row: dict, caption: str, name: str) -> Table:
    """The core metrics of one run, before and after the edit."""
    result = row["result"]
    names = METRICS | {"specificity_within_50": "Specificity, anywhere in 50 tokens"}
    measured = [
        (title, metric) for metric, title in names.items() if result["after"][metric] is not None
    ]
    lines = [
        {
            "": title,
            "before": percent(result["before"][metric]),
            "after": percent(result["after"][metric]),
        }
        for title, metric in measured
    ]
    return Table(pd.DataFrame(lines), caption, name)


def as_strings(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of numbers and texts as a frame of texts, one decimal, a dash for what is missing."""
    return frame.map(
        lambda cell: shown(cell) if cell is None or isinstance(cell, float) else str(cell)
    )
