"""Are margins calibrated on a model better than the paper's, on secrets that neither was chosen on? Rows of ``revs.experiments.calibrate``."""

from __future__ import annotations

import pandas as pd

from revs import methods, results, rows
from revs.experiments.calibrate import CALIBRATED
from revs.tables import METRICS, percent

TITLES = {CALIBRATED: "calibrated here"}
JUDGED = METRICS | {"unchanged": "Ordinary text unchanged", "score": "Calibration's score"}


def title(name: str) -> str:
    """A choice of settings in words."""
    return TITLES.get(name, f"the paper's for {name}")


def judged(result: dict) -> pd.DataFrame:
    """One run: each choice of settings on the secrets that were held out."""
    return pd.DataFrame([
        {"settings": title(name), "projection": one["settings"]["projection"], "r_h": f"{one['settings']['r_h']:.4f}", "r_n": f"{one['settings']['r_n']:.3f}", "n_max": str(one["settings"]["n_max"]), "k": str(one["settings"]["k"]), "columns": f"{one['columns']:,}"}
        | {column: percent(one[metric]) for metric, column in JUDGED.items()}
        for name, one in result["judged"].items()
    ])  # fmt: skip


def recorded() -> pd.DataFrame:
    """Every model and data set that there are recorded rows of: means over seeds of what each choice scored on secrets held out."""
    lines = []
    for row in rows.find(rows.RECORDED, kind="calibrate").values():
        about = {"model": row["provenance"]["model"]["name"], "data": row["name"].split("/")[1]}
        lines += [about | {"settings": title(name)} | results.numbers(one) | {name: one[name] for name in ("unchanged", "score")} for name, one in row["result"]["judged"].items()]
    if not lines:
        return pd.DataFrame()
    found = pd.DataFrame(lines).groupby(["model", "data", "settings"], sort=False)
    return pd.DataFrame([
        {"secrets": f"{methods.PAPER_DATA.get(data, data)}, {results.title(model)}", "settings": settings, "splits": str(len(frame))}
        | {column: percent(frame[metric].mean(), frame[metric].std()) for metric, column in JUDGED.items()}
        for (model, data, settings), frame in found
    ])  # fmt: skip
