"""Extraction resistance as frames: four readings of each attack, and the paper's (§4.4.3; Appendix
"Extraction Resistance")."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from companion.pages import results
from companion.pages.tables import percent
from companion.record import paper, rows
from companion.runs import methods
from revs.measures import metrics
from revs.measures.attacks import ATTACKS, READINGS

TITLES = {
    "resistance_score": "Resistance Score",
    "logit_lens": "Logit-Lens",
    "delta": "Delta",
    "perturbation": "Perturbation",
}
PAPER_COLUMNS = {
    "resistance_score": "Resistance Score",
    "logit_lens": "Logit-Lens@100",
    "delta": "Delta@100",
    "perturbation": "Perturb@100",
}


def attacked(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs whose models were attacked."""
    return frame[frame["row"].map(lambda row: "attacks" in row["result"]).astype(bool)]


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean and deviation over seeds of each attack and of the Resistance Score, in each reading.

    The shape of ``results.scores`` with ``reading``; "black box" is of the last layer alone.
    """
    found = attacked(frame)
    attacks = [row["result"]["attacks"] for row in found["row"]]
    parts = [
        results.scores(
            found.assign(**{name: [one[name][reading] for one in attacks] for name in TITLES}),
            of=TITLES,
        ).assign(reading=reading.replace("_", " "))
        for reading in READINGS
    ]
    outside = found.assign(black_box=[one["black_box"] for one in attacks])
    named = {"black_box": "black box"}
    return pd.concat([*parts, results.scores(outside, of=named).assign(reading="black box")])


def printed() -> pd.DataFrame:
    """Both extraction tables of the paper in the shape of ``results.scores``."""
    return results.printed(paper.EXTRACTION, {PAPER_COLUMNS[name]: TITLES[name] for name in TITLES})


def means(frame: pd.DataFrame, reading: str) -> results.Means:
    """Mean and deviation over seeds of one reading by method and attack, as shares."""
    return {
        name: {
            attack: metrics.summary(
                [row["result"]["attacks"][attack][reading] for row in part["row"]]
            )
            for attack in TITLES
        }
        for name, part in attacked(frame).groupby("method", sort=False)
    }


def depths(frame: pd.DataFrame, attack: str) -> pd.DataFrame:
    """One line a target token of the attacked runs: its data, method and seed, and its ``rank`` in
    each layer by what the attack orders, from 0."""
    lines = [
        {key: run[key] for key in ("data", "method", "seed")} | {"rank": token}
        for run in attacked(frame).to_dict("records")
        for layers in rows.items(run["row"])[attack].dropna()
        for token in zip(*layers, strict=True)
    ]
    return results.titled(pd.DataFrame(lines))


def by_layer(frame: pd.DataFrame, attack: str, k: int = 100) -> pd.DataFrame:
    """Mean Efficacy@k of the unlearned secrets, layer by layer, all seeds together: where an attack
    gets through. A secret counts by its best hidden token."""
    lines = [
        {"data": run["data"], "method": run["method"], "layer": layer}
        | {"efficacy": max(metrics.score(r, k) for r in ranks)}
        for run in attacked(frame).to_dict("records")
        for layers in rows.items(run["row"])[attack].dropna()
        for layer, ranks in enumerate(layers)
    ]
    groups = pd.DataFrame(lines).groupby(["data", "method", "layer"], sort=False)["efficacy"]
    return results.titled(groups.agg(lambda part: metrics.mean(part.tolist())).reset_index())


def perturbations(model: str, data: str) -> pd.DataFrame:
    """The runs whose models were asked with prompts changed in several ways."""
    return results.tagged(model, data, "perturbations")


def strategies(frame: pd.DataFrame) -> pd.DataFrame:
    """Resistance that is left after each way of changing a prompt (revs.measures.perturbations).

    One line a run, strategy and reading; ``mean`` in per cent.
    """
    lines = [
        {"data": run["data"], "method": run["method"], "strategy": name, "reading": reading}
        | {"mean": 100 * found[reading], "std": float("nan")}
        for run in frame.to_dict("records")
        for name, found in run["row"]["result"]["perturbations"].items()
        for reading in ("released", "per_example")
    ]
    return results.titled(pd.DataFrame(lines))


def covered(values: Mapping[str, float]) -> float:
    """Share of a radar's triangle that three resistances, in per cent, cover: a sum of products of
    two neighbours, which grows with the square."""
    radii = [values[TITLES[attack]] / 100 for attack in ATTACKS]
    pairs = zip(radii, radii[1:] + radii[:1], strict=True)
    return sum(one * other for one, other in pairs) / len(radii)


# --- until their last user is gone ---


Spread = tuple[float, float]


def printed_(label: str, dataset: str) -> dict[str, dict[str, Spread]]:
    """The paper's rows of an extraction table, as shares, by our names."""
    cells = paper.table(label)
    cells = cells[cells["dataset"] == dataset].set_index(["row", "column"])
    found: dict[str, dict[str, Spread]] = {}
    for name, entry in methods.registry().items():
        for attack, column in PAPER_COLUMNS.items():
            if (entry["title"], column) in cells.index:
                cell = cells.loc[(entry["title"], column)]
                found.setdefault(name, {})[attack] = (
                    cell["value"] / 100,
                    cell["std"] / 100 if cell["std"] is not None else math.nan,
                )
    return found


def printed_tables() -> dict[str, dict[str, dict[str, dict[str, Spread]]]]:
    """Both extraction tables of the paper: data set → the paper's model → method → attack."""
    return {
        data: {name: printed_(label, dataset) for name, label in paper.EXTRACTION.items()}
        for data, dataset in methods.PAPER_DATA.items()
    }


def table(
    ours: dict[str, dict[str, Spread]], theirs: dict[str, dict[str, dict[str, Spread]]]
) -> pd.DataFrame:
    """Method by method: ours, then each of the paper's models."""
    lines = []
    for name, entry in methods.registry().items():
        for whose, values in [
            ("ours", ours),
            *((f"paper, {model}", values) for model, values in theirs.items()),
        ]:
            if name in values:
                lines.append(
                    {"method": entry["title"], "measured": whose}
                    | {title: percent(*values[name][attack]) for attack, title in TITLES.items()}
                )
    return pd.DataFrame(lines)
