"""Two sets of rows side by side: the paper's, the recorded ones, this build's, or a folder's.

``python -m companion.analysis.compare A B`` prints what the page shows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from companion.analysis import results
from companion.analysis.tables import METRICS
from companion.experiments import methods
from companion.store import paper, rows
from companion.store.paths import BUILD, resolve

KEYS = ["data", "method", "metric"]
UNKNOWN = "There are no results in '{}': give paper, record, build or a folder with rows of runs."


def side_by_side(a: str, b: str) -> pd.DataFrame:
    """One line for each data set, method (with its tag) and metric, one column for each side and
    model: "65.5 ± 3.1 (6)", in per cent; the number in brackets is that of the seeds.

    Data sets that only one side has are left out, if there is a common one; so are tagged runs that
    only one side has. ValueError if a side holds no results.
    """
    sides = {name: side(name) for name in (a, b)}
    datasets = [set(found["data"]) for found in sides.values()]
    lines = [set(map(tuple, found[KEYS].values)) for found in sides.values()]
    common = set.intersection(*datasets) or set.union(*datasets)
    shown = pd.concat(
        found.assign(side=[f"{name}: {model}" for model in found["model"]])
        for name, found in sides.items()
    )
    both = set.intersection(*lines)
    in_both = np.array([tuple(line) in both for line in shown[KEYS].values])
    usual = ~shown["method"].str.contains(",")
    shown = shown[shown["data"].isin(common) & (usual | in_both)]
    table = shown.pivot(index=KEYS, columns="side", values="value")
    titles = [entry["title"] for entry in methods.registry().values()]
    place = {
        "data": lambda one: one,
        "method": lambda one: (titles.index(one.split(",")[0]), one),
        "metric": list(METRICS.values()).index,
    }
    order = sorted(table.index, key=lambda line: [place[k](v) for k, v in zip(KEYS, line)])
    return table.loc[order, list(dict.fromkeys(shown["side"]))].reset_index().fillna("–")


def side(name: str) -> pd.DataFrame:
    """The cells of one side: model, data, method, metric, and the value as it is shown."""
    known = {"record": [rows.RECORDED], "build": [BUILD / "record" / "rows", rows.MEASURED]}
    found = from_paper() if name == "paper" else from_rows(*known.get(name, [resolve(name)]))
    if found.empty:
        raise ValueError(UNKNOWN.format(name))
    return found


def from_rows(*where: Path) -> pd.DataFrame:
    """The cells of measured rows; a tag marks runs with other settings, which are not mixed with
    the rest. Unedited is the state before the untagged runs of REVS."""
    titles = {name: entry["title"] for name, entry in methods.registry().items()}
    lines = []
    for row in rows.find(*where, kind="unlearn").values():
        if "failed" in row["result"] or row["method"] == "unedited":
            continue
        tag = row["tag"] and f", {row['tag']}"
        states = [(titles[row["method"]] + tag, row["result"]["after"])]
        if row["method"] == "revs" and not tag:
            states.append((titles["unedited"], row["result"]["before"]))
        lines += [
            {"model": row["model"], "data": row["data"], "method": title, "metric": label}
            | {"value": 100 * scores[metric]}
            for title, scores in states
            for metric, label in METRICS.items()
            if scores[metric] is not None
        ]
    frame = pd.DataFrame(lines, columns=["model", *KEYS, "value"])
    return frame.groupby(["model", *KEYS], sort=False)["value"].agg(shown).reset_index()


def from_paper() -> pd.DataFrame:
    """The cells of the paper's core tables."""
    seeds = len(paper.tables()["splits"]["seeds"])
    names = {column: METRICS[metric] for metric, column in results.PAPER_COLUMNS.items()}
    found = []
    for label in paper.CORE.values():
        table = paper.table(label)
        table = table[table["column"].isin(names) & table["value"].notna()]
        found.append(
            pd.DataFrame({
                "model": paper.tables()["tables"][label]["model"],
                "data": table["dataset"].str.lower(),
                "method": table["row"],
                "metric": table["column"].map(names),
                "value": [cell(*pair, seeds) for pair in zip(table["value"], table["std"])],
            })
        )  # fmt: skip
    return pd.concat(found)


def shown(values: pd.Series) -> str:
    """Mean, standard deviation and number of some values."""
    return cell(values.mean(), values.std(), len(values))


def cell(mean: float, std: float | None, seeds: int) -> str:
    """A mean in per cent, its standard deviation if there is one, and the number of seeds."""
    return f"{mean:.1f}" + ("" if pd.isna(std) else f" ± {std:.1f}") + f" ({seeds})"


def made_again() -> pd.DataFrame:
    """One line for each unlearning run that is recorded and was made in this build as well: its
    Unlearning Score in per cent, on which weights, and whether the results are equal."""
    recorded, here = (
        rows.find(folder, kind="unlearn") for folder in (rows.RECORDED, rows.MEASURED)
    )
    lines = []
    for name in recorded.keys() & here.keys():
        one, two = recorded[name], here[name]
        weights = {row["provenance"]["model"]["revision"] for row in (one, two)}
        scores = [f"{100 * row['result']['after']['unlearning_score']:.1f}" for row in (one, two)]
        equal = one["result"] == two["result"]
        lines.append(
            {"run": name, "recorded": scores[0], "in this build": scores[1]}
            | {"weights": "the same" if len(weights) == 1 else "other"}
            | {"results": "equal" if equal else "differ"}
        )
    return pd.DataFrame(lines)


if __name__ == "__main__":
    try:
        print(side_by_side(*sys.argv[1:3]).to_string(index=False))
    except (TypeError, ValueError, OSError) as error:
        sys.exit(str(error))
