"""Two sets of rows side by side: the paper's, the recorded ones, those of this build, or a folder's."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from companion.pages.results import PAPER_COLUMNS, tag_of
from companion.pages.tables import DASH, METRICS
from companion.record import paper, rows
from companion.record.paths import BUILD, resolve
from companion.runs import methods
from revs.measures import metrics

Cell = tuple[str, str, str, str]  # model, data set, method with its tag, metric


def side_by_side(a: str, b: str) -> pd.DataFrame:
    """One line for each data set, method and metric, one column for each side and model: "65.5 ± 3.1 (6)", in per cent.

    The number in brackets is that of the seeds. Data sets that only one side has are left out, if there is a common
    one; so are tagged runs (sweeps and variants) that only one side has. ``a`` and ``b`` are each ``paper``, ``record``, ``build`` or a folder;
    ValueError if one of them holds no results.
    """
    sides = {name: side(name) for name in (a, b)}
    shown = [
        (name, model)
        for name, found in sides.items()
        for model in dict.fromkeys(cell[0] for cell in found)
    ]
    order = [entry["title"] for entry in methods.registry().values()]
    common = set.intersection(*({cell[1] for cell in found} for found in sides.values()))
    in_both = set.intersection(*({cell[1:] for cell in found} for found in sides.values()))
    lines = {
        cell[1:] for found in sides.values() for cell in found if cell[1] in common or not common
    }
    lines = {line for line in lines if line in in_both or "," not in line[1]}

    def place(line: tuple[str, str, str]) -> tuple:
        data, method, metric = line
        base = method.split(",")[0]
        return (
            data,
            order.index(base) if base in order else len(order),
            method,
            list(METRICS).index(metric),
        )

    return pd.DataFrame([
        {"data": data, "method": method, "metric": METRICS[metric]}
        | {f"{name}: {model}": percent(sides[name].get((model, data, method, metric))) for name, model in shown}
        for data, method, metric in sorted(lines, key=place)
    ])  # fmt: skip


def made_again() -> pd.DataFrame:
    """One line for each unlearning run that is recorded and was made in this build as well: its Unlearning Score in per cent, on which weights, and whether the results are equal."""
    recorded, here = (
        {
            name: row
            for name, row in rows.find(folder, kind="unlearn").items()
            if "failed" not in row["result"]
        }
        for folder in (rows.RECORDED, rows.MEASURED)
    )
    score = lambda row: f"{100 * row['result']['after']['unlearning_score']:.1f}"
    weights = lambda row: row["provenance"]["model"]["revision"]
    return pd.DataFrame([
        {"run": name, "recorded": score(recorded[name]), "in this build": score(row), "weights": "the same" if weights(row) == weights(recorded[name]) else "other", "results": "equal" if row["result"] == recorded[name]["result"] else "differ"}
        for name, row in here.items() if name in recorded
    ])  # fmt: skip


def percent(value: tuple[float, float, int] | None) -> str:
    """A mean in per cent, its standard deviation and the number of seeds."""
    if value is None:
        return DASH
    mean, std, seeds = value
    return f"{mean:.1f}" + ("" if math.isnan(std) else f" ± {std:.1f}") + f" ({seeds})"


def side(name: str) -> dict[Cell, tuple[float, float, int]]:
    """Mean, standard deviation and seeds of every cell of one side, in per cent."""
    found = from_paper() if name == "paper" else from_rows(*folders(name))
    if not found:
        raise ValueError(
            f"There are no results in '{name}': give paper, record, build or a folder with rows of unlearning runs."
        )
    return found


def folders(name: str) -> list[Path]:
    """Where the rows of a side lie."""
    known = {"record": [rows.RECORDED], "build": [BUILD / "record" / "rows", rows.MEASURED]}
    return known.get(name) or [resolve(name)]


def from_rows(*where: Path) -> dict[Cell, tuple[float, float, int]]:
    """The cells of measured rows; a tag marks runs with other settings, which are not mixed with the rest.

    Unedited is the state before the untagged runs of REVS.
    """
    seeds: dict[Cell, list[float]] = {}
    titles = {name: entry["title"] for name, entry in methods.registry().items()}
    for name, row in rows.find(*where, kind="unlearn").items():
        settings = row["provenance"]["settings"]
        tag = tag_of(name)
        if "failed" in row["result"] or settings["method"] == "unedited":
            continue
        states = [(titles[settings["method"]], row["result"]["after"])]
        if settings["method"] == "revs" and not tag:
            states.append((titles["unedited"], row["result"]["before"]))
        for title, result in states:
            for metric in METRICS:
                if result[metric] is not None:
                    cell = (
                        row["provenance"]["model"]["name"],
                        Path(settings["data"]).stem,
                        title + (f", {tag}" if tag else ""),
                        metric,
                    )
                    seeds.setdefault(cell, []).append(100 * result[metric])
    return {cell: (*metrics.summary(values), len(values)) for cell, values in seeds.items()}


def from_paper() -> dict[Cell, tuple[float, float, int]]:
    """The cells of the paper's core tables."""
    seeds = len(paper.tables()["splits"]["seeds"])
    names = {column: metric for metric, column in PAPER_COLUMNS.items()}
    found = {}
    for label in paper.CORE.values():
        model = paper.tables()["tables"][label]["model"]
        for cell in paper.table(label).to_dict("records"):
            if cell["column"] in names and not math.isnan(cell["value"]):
                found[model, cell["dataset"].lower(), cell["row"], names[cell["column"]]] = (
                    cell["value"],
                    cell["std"],
                    seeds,
                )
    return found
