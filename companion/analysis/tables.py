"""Tables that have a number, a caption and a name in the book, and look right in Jupyter."""

import base64
import html
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import pandas as pd

DASH = "–"
WORDS = "no one two three four five six seven eight nine".split()
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth".split()
IN_FLOW = 9  # lines of a table; a longer one is folded
METRICS = {
    "efficacy": "Efficacy",
    "generalization": "Generalization",
    "specificity": "Specificity",
    "unlearning_score": "Unlearning Score",
}


def decimal(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A number, with its deviation if there is one: "65.5 ± 3.1"; a dash if there is none."""
    if value is None or math.isnan(value):
        return DASH
    spread = "" if std is None or math.isnan(std) else f" ± {std:.{digits}f}"
    value = round(round(value, 9), digits) + 0.0  # the same of 70.25 and 70.25000000000001; no −0.0
    return f"{value:.{digits}f}{spread}"


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share in per cent, with its deviation if there is one."""
    return decimal(*(None if one is None else 100 * one for one in (value, std)), digits)


def intervals(frame: pd.DataFrame) -> list[str]:
    """Intervals of shares, ``low`` and ``high``, in per cent: "62.4 to 68.6"."""
    return [f"{percent(low)} to {percent(high)}" for low, high in zip(frame["low"], frame["high"])]


def as_strings(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of numbers and texts as texts, one decimal, a dash for what is missing."""
    text = lambda one: decimal(one) if one is None or isinstance(one, float) else str(one)
    return frame.map(text)


def comma_list(titles: Iterable[str]) -> str:
    """Some titles in words; "none" if there are none."""
    return ", ".join(titles) or "none"


def spoken_list(texts: Sequence[str]) -> str:
    """Some texts in a sentence.

    >>> spoken_list(["one", "two", "three"])
    'one, two and three'
    """
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def number_word(number: int) -> str:
    """A count in a sentence: a word below ten."""
    return WORDS[number] if number < len(WORDS) else str(number)


def ordinal(place: int) -> str:
    """A place, from 1, in a sentence: a word below ten."""
    return ORDINALS[place - 1] if place <= len(ORDINALS) else f"no. {place}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in words, three or more in a row by their ends.

    >>> number_ranges([12, 4, 5, 6, 7, 13])
    '4–7, 12, 13'
    """
    # in a row, a number and its place grow together
    together = itertools.groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    rows = [[number for _, number in some] for _, some in together]
    parts = ([f"{row[0]}–{row[-1]}"] if len(row) > 2 else map(str, row) for row in rows)
    return comma_list(itertools.chain(*parts))


def wide(frame: pd.DataFrame, *lines: str, columns: str = "metric") -> pd.DataFrame:
    """A long frame of ``mean`` and ``std`` as a table of texts: these columns name its lines,
    ``columns`` its columns, in the order in which they appear."""
    cells = frame.assign(cell=list(map(decimal, frame["mean"], frame["std"])))
    for name in lines:
        if not isinstance(frame[name].dtype, pd.CategoricalDtype):
            cells[name] = pd.Categorical(frame[name], frame[name].unique(), ordered=True)
    table = cells.pivot(index=list(lines), columns=columns, values="cell").sort_index()
    table = table[list(frame[columns].unique())].fillna(DASH)
    return table.set_axis(list(table), axis="columns").reset_index()


@dataclass(frozen=True, repr=False)
class Table:
    """A DataFrame of texts with a caption; ``name`` is its label in the book ({numref}`name`)."""

    frame: pd.DataFrame
    caption: str
    name: str
    fold: bool = field(default=True, kw_only=True)  # if it is long

    def __repr__(self) -> str:
        return f"{self.caption}\n{self.frame.to_string(index=False)}"

    def _repr_markdown_(self) -> str:
        """A numbered MyST table directive, folded if it is long, and a link to its data."""
        head, *body = [
            [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
            for row in [self.frame.columns, *self.frame.astype(object).values]
        ]
        align = [":---" if self.is_text(column) else "---:" for column in self.frame.columns]
        lines = ["| " + " | ".join(row) + " |" for row in [head, align, *body]]
        shown = [f":::{{table}} {self.caption}", f":name: {self.name}", "", *lines, ":::"]
        shown += ["", f'<p class="csv">{self.download()}</p>']
        if self.fold and len(self.frame) > IN_FLOW:
            title = re.split(r"[:.;(]", self.caption)[0]
            title = (title if len(title) <= 60 else title.split(",")[0]).strip()
            shown = [f"::::{{dropdown}} {title}, {len(self.frame)} rows", *shown, "::::"]
        return "\n".join(shown)

    def _repr_html_(self) -> str:
        table = self.frame.to_html(index=False, border=0)
        return table.replace(">", f">\n  <caption>{html.escape(self.caption)}</caption>", 1)

    def download(self) -> str:
        """A link that holds the whole table as CSV."""
        csv = base64.b64encode(self.frame.to_csv(index=False).encode()).decode()
        return f'<a download="{self.name}.csv" href="data:text/csv;base64,{csv}">CSV</a>'

    def is_text(self, column: str) -> bool:
        """Is a column text, set flush left? Its first filled cell is long or not like a number."""
        filled = next((one for one in map(str, self.frame[column]) if one not in ("", DASH)), "0")
        return len(filled) > 30 or not filled.lstrip("−-*").strip()[:1].isdigit()


class Data(Table):
    """The numbers of a picture: only the link to them is shown."""

    def _repr_html_(self) -> str:
        return f'<p class="csv">{self.download()}</p>'

    _repr_markdown_ = _repr_html_


@dataclass(frozen=True, repr=False)
class Filtered(Table):
    """A long table with a search field and a choice of one column's values; plain without
    scripts."""

    choose: str
    _repr_markdown_ = None  # a page takes it before HTML

    def _repr_html_(self) -> str:
        loader = jinja2.FileSystemLoader(Path(__file__).parent)
        places = jinja2.Environment(loader=loader, autoescape=True)
        code = r"`([^`]*)`", r"<code>\1</code>"
        places.filters["code"] = lambda text: re.sub(*code, html.escape(str(text)))
        return places.get_template("filtered.html.j2").render(
            vars(self),
            columns=list(self.frame),
            values=dict.fromkeys(map(str, self.frame[self.choose])),
            lines=self.frame.to_dict("records"),
            download=self.download(),
        )
