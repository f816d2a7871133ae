"""How every method was tuned: its trials, how sensitive it is to its settings, and which were chosen (§4.5; Appendix)."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from revs import methods, paper, rows
from revs.experiments import tune
from revs.results import means, measured, runs
from revs.tables import DASH, METRICS, percent

PAPER_TRIALS = tuple(tune.PAPER_VOCABULARY)  # the models behind trials 0 and 1


def trials(model: str, data: str) -> pd.DataFrame:
    """One line for each trial of every method, in the order of the tables, results as shares; ``number`` is the trial's."""
    frame = measured(model, data)
    known = [name for name, entry in methods.registry().items() if "module" in entry]
    frame = frame.assign(number=frame["tag"].str.extract(r"^trial(\d+)$", expand=False)).dropna(subset=["number"])
    if frame.empty:
        raise ValueError(f"There are no trials of {model} on {data}: run `make tune`, or look for recorded rows.")
    frame["number"] = frame["number"].astype(int)
    frame["seconds"] = [row["provenance"]["seconds"].get("unlearn", math.nan) for row in frame["row"]]
    frame["method"] = pd.Categorical(frame["method"], [name for name in known if name in set(frame["method"])], ordered=True)
    return frame.sort_values(["method", "number"], ignore_index=True)


def sensitivity(frame: pd.DataFrame) -> pd.DataFrame:
    """What a method's trials say about it: how good it can be, and how easily."""
    lines = []
    for name, tried in frame.groupby("method", observed=True):
        score = tried["unlearning_score"].fillna(0)
        lines.append({
            "method": methods.registry()[name]["title"],
            "trials": str(len(tried)),
            "failed": str(int(tried["failed"].notna().sum())),
            "best": percent(score.max()),
            "median": percent(score.median()),
            "within 10 points of the best": percent((score >= score.max() - 0.1).mean() if score.max() > 0 else math.nan, digits=0),
            "the paper's settings": " / ".join(percent(value) for value in tried.loc[tried["number"] < len(PAPER_TRIALS), "unlearning_score"]) if paper.has_settings(methods.registry()[name]["title"]) else DASH,
            "seconds a trial": f"{tried['seconds'].median():.0f}",
        })  # fmt: skip
    return pd.DataFrame(lines)


def transfer(frame: pd.DataFrame, model: str, data: str) -> pd.DataFrame:
    """What a choice on one set of secrets is worth on another: the best trial's scores, and the means over seeds of the runs with its settings."""
    ours = means(runs(model, data))
    lines = []
    for name, tried in frame.groupby("method", observed=True):
        if name in ours:
            best = tried.loc[tried["unlearning_score"].idxmax()]
            there = {metric: percent(best[metric]) for metric in METRICS}
            here = {metric: percent(*ours[name][metric]) for metric in METRICS}
            title = methods.registry()[name]["title"]
            lines += [{"method": title, "measured on": where} | {METRICS[metric]: values[metric] for metric in METRICS} for where, values in (("the secrets it was chosen on", there), ("other secrets", here))]
    return pd.DataFrame(lines)


def settings_table(model: str, data: str) -> pd.DataFrame:
    """The chosen settings beside the paper's, one line a setting; what the paper does not print is a dash."""
    lines = []
    for row in sorted(rows.find(kind="tune").values(), key=lambda row: list(methods.registry()).index(row["provenance"]["settings"]["method"])):
        asked = row["provenance"]["settings"]
        if (row["provenance"]["model"]["name"], Path(asked["data"]).stem) != (model, data):
            continue
        title = methods.registry()[asked["method"]]["title"]
        printed = {name: paper.hyperparameters(title, name, "SSN") for name in PAPER_TRIALS} if paper.has_settings(title) else {}
        for name, value in row["result"]["hyperparameters"].items():
            lines.append({"method": title, "setting": f"`{name}`", "ours": short(value)} | {f"paper, {model}": short(printed.get(model, {}).get(name)) for model in PAPER_TRIALS})
    return pd.DataFrame(lines)


def ranges_table(names: list[str]) -> pd.DataFrame:
    """What was drawn for each setting, beside the range that the paper prints."""
    printed = {(entry["method"], entry["name"]): entry for entry in paper.tables()["sweep"]}
    lines = []
    for method in names:
        title = methods.registry()[method]["title"]
        for name, space in tune.ranges(method).items():
            theirs = printed.get((title, name))
            drawn = interval(space)
            lines.append({"method": title, "setting": f"`{name}`", "drawn from": "as the paper" if theirs and interval(theirs) == drawn else drawn, "the paper's sweep": interval(theirs) if theirs else DASH})
    return pd.DataFrame(lines)


def interval(space: dict) -> str:
    """A range or a list of values in a cell."""
    if "values" in space:
        return ", ".join(short(value) for value in space["values"])
    return f"{short(space['low'])} to {short(space['high'])}" + (" (uniform)" if space.get("scale") == "linear" else "")


def short(value) -> str:
    """A setting in a cell: 1.23e-05, 3–8, all, or a dash."""
    if value is None:
        return DASH
    if isinstance(value, (list, tuple)):
        return f"{value[0]}–{value[-1]}" if len(value) > 2 else ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, (int, float)) else str(value)


def own_trials(row: dict, folder: Path) -> pd.DataFrame:
    """The trials of one tune row, best first, results in per cent, from the folder that it was written to."""
    asked = row["provenance"]["settings"]
    place = Path(folder) / "unlearn" / Path(asked["data"]).stem / row["provenance"]["model"]["name"]
    lines = []
    for number in range(row["result"]["trials"]):
        trial = rows.read(place / f"{asked['method']}-seed{asked['seed']}-trial{number:02d}.json")
        after = trial["result"].get("after")
        settings = ", ".join(f"{name} = {short(value)}" for name, value in trial["provenance"]["settings"]["hyperparameters"].items())
        cells = {title: percent(after[metric]) if after else "failed" for metric, title in METRICS.items()}
        lines.append((after["unlearning_score"] if after else -1, {"trial": str(number), "settings": settings} | cells))
    return pd.DataFrame([line for _, line in sorted(lines, key=lambda pair: -pair[0])])


def same_secrets(model: str, data: str) -> pd.DataFrame:
    """What the paper's way to choose changes for REVS: settings from other people's secrets, and from seed 0 of the very secrets that are reported on.

    One line each: the score where they were chosen, and the means of runs on other seeds that one machine made (tags ``again`` and ``tuned-here``). Empty without rows.
    """
    found = {Path(row["provenance"]["settings"]["data"]).stem: row["result"]["unlearning_score"] for row in rows.find(kind="tune").values() if (row["provenance"]["model"]["name"], row["provenance"]["settings"]["method"]) == (model, "revs")}
    frame = measured(model, data)
    lines = []
    for tag, place, words in (("again", f"{data}-tune", "other people's secrets"), ("tuned-here", data, "seed 0 of the same secrets")):
        part = frame[(frame["method"] == "revs") & (frame["tag"] == tag)]
        if len(part) and place in found:
            values = means(part)["revs"]
            lines.append({"chosen on": words, "score there": percent(found[place])} | {METRICS[metric]: percent(*values[metric]) for metric in METRICS} | {"seeds": ", ".join(map(str, sorted(part["seed"])))})
    return pd.DataFrame(lines)
