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
METRICS = {
    "efficacy": "Efficacy",
    "generalization": "Generalization",
    "specificity": "Specificity",
    "unlearning_score": "Unlearning Score",
}


def shown(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A number, with its deviation if there is one: "65.5 ± 3.1"; a dash if there is none."""
    if value is None or math.isnan(value):
        return DASH
    spread = "" if std is None or math.isnan(std) else f" ± {std:.{digits}f}"
    return f"{value:.{digits}f}{spread}"


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share in per cent, with its deviation if there is one."""
    times = [None if number is None else 100 * number for number in (value, std)]
    return shown(*times, digits)


def as_strings(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of numbers and texts as texts, one decimal, a dash for what is missing."""
    return frame.map(
        lambda cell: shown(cell) if cell is None or isinstance(cell, float) else str(cell)
    )


def wide(frame: pd.DataFrame, *lines: str, columns: str = "metric") -> pd.DataFrame:
    """A long frame of ``mean`` and ``std`` as a table of texts: these columns name its lines,
    ``columns`` its columns, in the order in which they appear."""
    cells = frame.assign(cell=list(map(shown, frame["mean"], frame["std"])))
    for name in lines:
        if not isinstance(frame[name].dtype, pd.CategoricalDtype):
            cells[name] = pd.Categorical(
                frame[name], list(dict.fromkeys(frame[name])), ordered=True
            )
    table = cells.pivot(index=list(lines), columns=columns, values="cell").sort_index()
    table = table[list(dict.fromkeys(frame[columns]))].fillna(DASH)
    return table.set_axis(list(table), axis="columns").reset_index()


@dataclass(frozen=True)
class Table:
    """A DataFrame of texts with a caption; ``name`` is its label in the book ({numref}`name`)."""

    frame: pd.DataFrame
    caption: str
    name: str

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        plain = f"{self.caption}\n{self.frame.to_string(index=False)}"
        return {
            "text/html": self.to_html(),
            "text/markdown": self.to_markdown(),
            "text/plain": plain,
        }

    def to_markdown(self) -> str:
        """A MyST table directive, numbered, captioned and referable, and a link to its data."""
        head, *body = [
            [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
            for row in [self.frame.columns, *self.frame.astype(object).values]
        ]
        align = [":---" if self.is_text(column) else "---:" for column in self.frame.columns]
        lines = ["| " + " | ".join(row) + " |" for row in [head, align, *body]]
        directive = [f":::{{table}} {self.caption}", f":name: {self.name}", "", *lines, ":::"]
        return "\n".join([*directive, "", f'<p class="csv">{self.download()}</p>'])

    def to_html(self) -> str:
        table, head = self.frame.to_html(index=False, border=0), ">\n  <thead>"
        caption = f">\n  <caption>{html.escape(self.caption)}</caption>\n  <thead>"
        return table.replace(head, caption, 1)

    def download(self) -> str:
        """A link that holds the whole table as CSV."""
        csv = base64.b64encode(self.frame.to_csv(index=False).encode()).decode()
        return f'<a download="{self.name}.csv" href="data:text/csv;base64,{csv}">CSV</a>'

    def is_text(self, column: str) -> bool:
        """Set flush left: the first filled cell is long or does not start like a number."""
        filled = [str(cell) for cell in self.frame[column] if str(cell) not in ("", DASH)]
        number = bool(filled) and filled[0].lstrip("−-*").strip()[:1].isdigit()
        return bool(filled) and (len(filled[0]) > 30 or not number)


@dataclass(frozen=True)
class Data(Table):
    """The numbers of a picture: only the link to them is shown."""

    def to_markdown(self) -> str:
        return f'<p class="csv">{self.download()}</p>'

    to_html = to_markdown


@dataclass(frozen=True)
class Filtered(Table):
    """A long table with a field to search it, a choice of one column's values, and its data as CSV.

    ``links``: columns whose cells lead to the address in another column. Those and the ``hidden``
    columns are in the data only. A page's address may say which lines are shown at first, until
    something is searched (``showing``).
    """

    choose: str
    links: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        bundle = super()._repr_mimebundle_()
        return {kind: bundle[kind] for kind in ("text/html", "text/plain")}

    def to_html(self) -> str:
        """The table and its controls; without scripts it is a plain table."""
        table = self.frame.drop(columns=[*self.links.values(), *self.hidden])
        values = dict.fromkeys(map(str, self.frame[self.choose]))
        parts = {
            "name": self.name,
            "choose": html.escape(self.choose),
            "options": "".join(f"<option>{html.escape(value)}</option>" for value in values),
            "lines": len(table),
            "download": self.download(),
            "caption": html.escape(self.caption),
            "head": "".join(f"<th>{html.escape(column)}</th>" for column in table),
            "body": "".join(self.line(row, table) for row in self.frame.to_dict("records")),
        }
        return FILTERED.format_map(parts) + "<script>" + FILTER % self.name + "</script>"

    def line(self, row: dict, columns) -> str:
        """One line of the body, with the value that it can be chosen by."""
        cells = "".join(self.cell(column, row) for column in columns)
        return f'<tr data-value="{html.escape(str(row[self.choose]), quote=True)}">{cells}</tr>'

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
    """The address of a page whose filtered table shows some lines, told by their first cells."""
    return f"{page}.html?{name}={quote(','.join(lines))}#{name}"


FILTERED = """<div class="filtered" id="{name}">
<p><label>Search <input type="search"></label>
<label>{choose} <select><option value="">all</option>{options}</select></label>
<span class="filtered-count">{lines}</span> of {lines} · {download}</p>
<div class="filtered-table"><table class="dataframe"><caption>{caption}</caption>
<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"""
FILTER = """(() => {
  const box = document.getElementById("%s");
  const [search, choice] = [box.querySelector("input"), box.querySelector("select")];
  const given = new URLSearchParams(location.search).get(box.id) || "";
  let asked = given.split(",").filter(Boolean);
  const wanted = (row) => asked.length
    ? asked.includes(row.cells[0].textContent)
    : row.textContent.toLowerCase().includes(search.value.toLowerCase())
      && (!choice.value || row.dataset.value === choice.value);
  const show = () => {
    const rows = [...box.querySelectorAll("tbody tr")];
    for (const row of rows) row.hidden = !wanted(row);
    box.querySelector(".filtered-count").textContent = rows.filter((row) => !row.hidden).length;
  };
  show();
  for (const [field, event] of [[search, "input"], [choice, "change"]])
    field.addEventListener(event, () => { asked = []; show(); });
})();"""


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
