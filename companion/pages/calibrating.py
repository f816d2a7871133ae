"""Are margins calibrated on a model better than the paper's, on secrets that neither was chosen on? Rows of ``companion.runs.calibrate``."""

from __future__ import annotations

import pandas as pd

from companion.pages import results
from companion.pages.tables import METRICS, percent
from companion.record import rows
from companion.runs import methods
from companion.runs.calibrate import CALIBRATED

TITLES = {CALIBRATED: "calibrated here"}
JUDGED = METRICS | {"unchanged": "Text unchanged", "score": "Score"}


def title(name: str) -> str:
    """A choice of settings in words."""
    return TITLES.get(name, f"the paper's for {name}")


def judged(result: dict) -> pd.DataFrame:
    """One run: each choice of settings on the secrets that were held out."""
    return pd.DataFrame([
        {"settings": title(name), "which are": "{projection}, r_h = {r_h:.4f}, r_n = {r_n:.3f}, n_max = {n_max}, k = {k}".format_map(one["settings"]), "columns": f"{one['columns']:,}"}
        | {column: percent(one[metric]) for metric, column in JUDGED.items()}
        for name, one in result["judged"].items()
    ])  # fmt: skip


def recorded() -> pd.DataFrame:
    """Every model and data set that there are recorded rows of: means over seeds of what each choice scored on secrets held out."""
    lines = []
    for row in rows.find(rows.RECORDED, kind="calibrate").values():
        about = {"model": row["provenance"]["model"]["name"], "data": row["name"].split("/")[1]}
        lines += [
            about
            | {"settings": title(name)}
            | results.numbers(one)
            | {name: one[name] for name in ("unchanged", "score")}
            for name, one in row["result"]["judged"].items()
        ]
    if not lines:
        return pd.DataFrame()
    found = pd.DataFrame(lines).groupby(["model", "data", "settings"], sort=False)
    return pd.DataFrame([
        {"secrets": f"{methods.paper_data(data) or data}, `{model}`, {len(frame)} split{'s' * (len(frame) > 1)}", "settings": settings}
        | {column: percent(frame[metric].mean(), frame[metric].std()) for metric, column in JUDGED.items()}
        for (model, data, settings), frame in found
    ])  # fmt: skip


def sentence() -> str:
    """On how many of the recorded splits the calibrated settings are the best; nothing without rows."""
    every = [row["result"]["judged"] for row in rows.find(rows.RECORDED, kind="calibrate").values()]
    best = sum(
        one[CALIBRATED]["unlearning_score"]
        > max(other["unlearning_score"] for name, other in one.items() if name != CALIBRATED)
        for one in every
    )
    return (
        f"On {best} of {len(every)} splits the calibrated settings have the highest Unlearning Score of the three."
        if every
        else ""
    )
