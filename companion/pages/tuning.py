"""How every method was tuned: its trials, what they were drawn from, and what was chosen
(§4.5; Appendix "Implementation and Experimental Details")."""

from __future__ import annotations

import pandas as pd

from companion.pages import errata
from companion.pages.results import measured
from companion.pages.tables import DASH
from companion.record import paper
from companion.runs import methods, tune


def trials(model: str, data: str, tag: str = "") -> pd.DataFrame:
    """One line a trial of every method's search with this tag, results as shares: ``number`` is the
    trial's, ``printed`` whether its settings are the paper's. ValueError if there is none."""
    frame = measured(model, data)
    start = "-".join(filter(None, (tag, "trial")))
    frame = frame[frame["tag"].str.startswith(start)]
    if frame.empty:
        raise ValueError(
            f"There are no trials of {model} on {data}: run `make run PROFILE=tune`, or look for "
            "recorded rows."
        )
    known = {name: entry["title"] for name, entry in methods.registry().items()}
    number = frame["tag"].str.removeprefix(start).astype(int)
    in_print = frame["method"].map(known).map(paper.has_settings).astype(bool)
    named = [name for name in known if name in set(frame["method"])]
    frame = frame.assign(
        number=number,
        printed=in_print & (number < len(tune.PAPER_VOCABULARY)),
        method=pd.Categorical(frame["method"], named, ordered=True),
    )
    return frame.sort_values(["method", "number"], ignore_index=True)


def printed(entry: dict) -> str:
    """A setting of the Appendix in a cell: margins also as fractions of the vocabulary, † where it
    lies outside the paper's own sweep."""
    value = entry["value"]
    if entry.get("inherited"):
        return "as SSN"
    if isinstance(value, (list, str)):
        return short(value)
    share = value / tune.PAPER_VOCABULARY[entry["model"]]
    fraction = f" ({share:.2g})" if entry["name"] in tune.MARGINS else ""
    return f"{value:g}{fraction}" + (" †" if errata.is_outside(entry) else "")


def interval(space: dict | None) -> str:
    """A range or a list of values in a cell."""
    if space is None:
        return DASH
    if "values" in space:
        return ", ".join(short(value) for value in space["values"])
    uniform = " (uniform)" if space.get("scale") == "linear" else ""
    return f"{short(space['low'])} to {short(space['high'])}{uniform}"


def short(value) -> str:
    """A setting in a cell: 1.23e-05, 10230, 3–8, all, or a dash."""
    if value is None:
        return DASH
    if isinstance(value, (list, tuple)):
        return f"{value[0]}–{value[-1]}" if len(value) > 2 else ", ".join(map(str, value))
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"
