"""Extraction resistance as frames: four readings of each attack, and the paper's (§4.4.3; Appendix
"Extraction Resistance")."""

from __future__ import annotations

import pandas as pd

from companion.analysis import results
from companion.store import paper, rows
from revs.measures import metrics
from revs.measures.attacks import AGGREGATIONS

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
    found, parts = attacked(frame), []
    for reading in AGGREGATIONS:
        part = results.scores(resistance(found, reading), of=TITLES)
        parts.append(part.assign(reading=reading.replace("_", " ")))
    outside = found.assign(
        black_box=[row["result"]["attacks"]["black_box"] for row in found["row"]]
    )
    last = results.scores(outside, of={"black_box": "black box"}).assign(reading="black box")
    return pd.concat([*parts, last])


def resistance(frame: pd.DataFrame, reading: str) -> pd.DataFrame:
    """The attacked runs with their resistance to each attack in one reading, as shares."""
    found = attacked(frame)
    attacks = [row["result"]["attacks"] for row in found["row"]]
    return found.assign(**{name: [one[name][reading] for one in attacks] for name in TITLES})


def joint(frame: pd.DataFrame, reading: str = "per_example") -> pd.DataFrame:
    """The attacked runs with their resistance in one reading, and ``joint``, the harmonic mean of
    the Unlearning Score and the Resistance Score, as shares."""
    found = resistance(frame, reading)
    pairs = found[["unlearning_score", "resistance_score"]].to_numpy()
    return found.assign(joint=[metrics.harmonic_mean(pair) for pair in pairs])


def printed() -> pd.DataFrame:
    """Both extraction tables of the paper in the shape of ``results.scores``."""
    return results.printed(paper.EXTRACTION, {PAPER_COLUMNS[name]: TITLES[name] for name in TITLES})


def means(frame: pd.DataFrame, reading: str) -> results.Means:
    """Mean and deviation over seeds of one reading by method and attack, as shares."""
    return {
        name: {attack: metrics.summary(part[attack].tolist()) for attack in TITLES}
        for name, part in resistance(frame, reading).groupby("method", sort=False)
    }


def ranks_by_layer(frame: pd.DataFrame, attack: str) -> pd.DataFrame:
    """One line a target token of the attacked runs: its data, method and seed, and its ``rank`` in
    each layer by what the attack orders, from 0."""
    lines = [
        {key: run[key] for key in ("data", "method", "seed")} | {"rank": token}
        for run in attacked(frame).to_dict("records")
        for layers in rows.per_example(run["row"])[attack].dropna()
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
        for layers in rows.per_example(run["row"])[attack].dropna()
        for layer, ranks in enumerate(layers)
    ]
    groups = pd.DataFrame(lines).groupby(["data", "method", "layer"], sort=False)["efficacy"]
    return results.titled(groups.agg(lambda part: metrics.mean(part.tolist())).reset_index())


def upper(layers: pd.DataFrame) -> pd.DataFrame:
    """Of ``by_layer``: from two layers below the first in which an attack finds anything."""
    return layers[layers["layer"] >= layers.loc[layers["efficacy"] < 0.99, "layer"].min() - 2]


def perturbations(model: str, data: str) -> pd.DataFrame:
    """The runs whose models were asked with prompts changed in several ways."""
    return results.tagged(model, data, "perturbations")


def strategies(frame: pd.DataFrame) -> pd.DataFrame:
    """Resistance that is left after each way of changing a prompt (revs.measures.attacks).

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
