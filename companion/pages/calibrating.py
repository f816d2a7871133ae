"""Are margins calibrated on a model better than the paper's, on secrets that neither was chosen on?
Rows of ``companion.runs.calibrate``."""

from __future__ import annotations

import math

import pandas as pd

from companion.pages.tables import METRICS
from companion.record import rows
from companion.runs import methods
from companion.runs.calibrate import CALIBRATED

JUDGED = METRICS | {"unchanged": "Text unchanged", "score": "Score"}
TRIED = {"unchanged": "ordinary text unchanged", "unlearning_score": "Unlearning Score"}


def title(name: str) -> str:
    """A choice of settings in words."""
    return "calibrated here" if name == CALIBRATED else f"the paper's for {name}"


def tried(trials: list[dict]) -> pd.DataFrame:
    """One line a setting that a calibration tried: what it is, and what it did, as shares."""
    named = lambda one: ", ".join(f"{name} = {value}" for name, value in one.items())
    frame = pd.DataFrame(trials).assign(chosen=[one.get("chosen", False) for one in trials])
    parts = ["efficacy", "generalization", "specificity", *TRIED, "score"]
    parts = [part for part in parts if frame[part].notna().any()]
    frame = frame.assign(setting=frame["setting"].map(named))
    return frame[["setting", *parts, "columns", "chosen"]].rename(columns=TRIED)


def recorded() -> pd.DataFrame:
    """One line a recorded split and choice of settings: its scores, as shares."""
    return pd.DataFrame(
        {"secrets": methods.paper_data(row["data"]) or row["data"], "model": row["model"]}
        | {"split": row["seed"], "settings": title(name)}
        | {part: math.nan if one[part] is None else one[part] for part in JUDGED}
        for row in rows.find(rows.RECORDED, kind="calibrate").values()
        for name, one in row["result"]["judged"].items()
    )
