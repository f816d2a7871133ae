"""How every method was tuned: its trials, how sensitive it is to its settings, and which were chosen (§4.5; Appendix)."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import pandas as pd

from companion.pages import errata, paper
from companion.pages.results import means, measured, runs
from companion.pages.tables import DASH, METRICS, percent
from companion.record import rows
from companion.runs import methods, tune

PAPER_TRIALS = tuple(tune.PAPER_VOCABULARY)  # the models behind trials 0 and 1


def trials(model: str, data: str, tag: str = "") -> pd.DataFrame:
    """One line for each trial of every method's search with this tag, in the order of the tables, results as shares; ``number`` is the trial's."""
    frame = measured(model, data)
    known = [name for name, entry in methods.registry().items() if "module" in entry]
    frame = frame.assign(
        number=frame["tag"].str.extract(rf"^{tag and tag + '-'}trial(\d+)$", expand=False)
    ).dropna(subset=["number"])
    if frame.empty:
        raise ValueError(
            f"There are no trials of {model} on {data}: run `make tune`, or look for recorded rows."
        )
    frame["number"] = frame["number"].astype(int)
    frame["seconds"] = [
        row["provenance"]["seconds"].get("unlearn", math.nan) for row in frame["row"]
    ]
    frame["method"] = pd.Categorical(
        frame["method"], [name for name in known if name in set(frame["method"])], ordered=True
    )
    return frame.sort_values(["method", "number"], ignore_index=True)


def searches(model: str, *data: str) -> dict[str, pd.DataFrame]:
    """The trials on other people's secrets of each of these data sets on which there are some, by the set that settings were chosen for."""
    found = {}
    for name in data:
        with contextlib.suppress(ValueError):
            found[name] = trials(model, f"{name}-tune")
    return found


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
            "efficacy and specificity 50 or more": str(int(((tried["efficacy"] >= 0.5) & (tried["specificity"] >= 0.5)).sum())),
            "within a fifth of the best": percent((score >= 0.8 * score.max()).mean() if score.max() > 0 else math.nan, digits=0),
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
            lines += [
                {"method": title, "measured on": where}
                | {METRICS[metric]: values[metric] for metric in METRICS}
                for where, values in (
                    ("the secrets it was chosen on", there),
                    ("other secrets", here),
                )
            ]
    return pd.DataFrame(lines)


def printed_table() -> pd.DataFrame:
    """The Appendix's settings, one line a setting: margins also as fractions of the vocabulary, † where a value lies outside the paper's own sweep."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for entry in paper.tables()["hyperparameters"]:
        value = entry["value"]
        fraction = (
            f" ({value / tune.PAPER_VOCABULARY[entry['model']]:.2g})"
            if entry["name"] in tune.MARGINS
            else ""
        )
        cell = (
            "as SSN"
            if entry.get("inherited")
            else short(value)
            if isinstance(value, (list, str))
            else f"{value:g}{fraction}" + (" †" if errata.is_outside(entry) else "")
        )
        found.setdefault((entry["method"], entry["name"]), {})[
            f"{entry['model']}, {entry['dataset']}"
        ] = cell
    return pd.DataFrame(
        [
            {"method": method, "setting": f"`{name}`"} | cells
            for (method, name), cells in found.items()
        ]
    )


def settings_table(model: str) -> pd.DataFrame:
    """From search to choice, one line a setting: the paper's sweep, what is drawn here, and what was chosen for each data set (params/hyperparameters.yml)."""
    tuned = methods.tuned()
    chosen = {method: entry.get(model, {}) for method, entry in tuned.items()}
    data = [name for name in methods.PAPER_DATA if any(name in sets for sets in chosen.values())]
    lines = []
    for method, entry in methods.registry().items():
        spaces = tune.ranges(method)
        for name in dict.fromkeys(
            [*spaces, *(name for settings in chosen.get(method, {}).values() for name in settings)]
        ):
            theirs = errata.sweep(methods.registry()[entry.get("ranges_of", method)]["title"], name)
            drawn = interval(spaces[name]) if name in spaces else DASH
            ours = {
                f"chosen, {methods.PAPER_DATA[one]}": short(
                    chosen.get(method, {}).get(one, {}).get(name)
                )
                for one in data
            }
            lines.append(
                {
                    "method": entry["title"],
                    "setting": f"`{name}`",
                    "the paper's sweep": interval(theirs) if theirs else DASH,
                    "drawn from": "the same" if theirs and interval(theirs) == drawn else drawn,
                }
                | ours
            )
    return pd.DataFrame(lines)


def interval(space: dict) -> str:
    """A range or a list of values in a cell."""
    if "values" in space:
        return ", ".join(short(value) for value in space["values"])
    return f"{short(space['low'])} to {short(space['high'])}" + (
        " (uniform)" if space.get("scale") == "linear" else ""
    )


def short(value) -> str:
    """A setting in a cell: 1.23e-05, 10230, 3–8, all, or a dash."""
    if value is None:
        return DASH
    if isinstance(value, (list, tuple)):
        return f"{value[0]}–{value[-1]}" if len(value) > 2 else ", ".join(map(str, value))
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"


def own_trials(row: dict, folder: Path) -> pd.DataFrame:
    """The trials of one tune row, best first, results in per cent, from the folder that it was written to."""
    place, lines = Path(folder) / row["name"].replace("tune/", "unlearn/", 1), []
    for number in range(row["result"]["trials"]):
        trial = rows.read(place.with_name(f"{place.name}-trial{number:02d}.json"))
        after = trial["result"].get("after")
        settings = ", ".join(
            f"{name} = {short(value)}"
            for name, value in trial["provenance"]["settings"]["hyperparameters"].items()
        )
        cells = {
            title: percent(after[metric]) if after else "failed"
            for metric, title in METRICS.items()
        }
        lines.append(
            (
                after["unlearning_score"] if after else -1,
                {"trial": str(number), "settings": settings} | cells,
            )
        )
    return pd.DataFrame([line for _, line in sorted(lines, key=lambda pair: -pair[0])])


def same_secrets(model: str, data: str) -> pd.DataFrame:
    """What the paper's way to choose changes for REVS: settings from other people's secrets, and from seed 0 of the very secrets that are reported on.

    One line each: the score where they were chosen, and the means of runs on other seeds (those of the core table that the tag ``tuned-here`` has, too). Empty without rows.
    """
    found = {
        Path(row["provenance"]["settings"]["data"]).stem: row["result"]["unlearning_score"]
        for row in rows.find(kind="tune").values()
        if (
            row["provenance"]["model"]["name"],
            row["provenance"]["settings"]["method"],
            row["provenance"]["settings"].get("tag", ""),
        )
        == (model, "revs", "")
    }
    frame = measured(model, data)
    lines = []
    frame = frame[frame["seed"].isin(frame.loc[frame["tag"] == "tuned-here", "seed"])]
    for tag, place, words in (
        ("", f"{data}-tune", "other people's secrets"),
        ("tuned-here", data, "seed 0 of the same secrets"),
    ):
        part = frame[(frame["method"] == "revs") & (frame["tag"] == tag)]
        if len(part) and place in found:
            values = means(part)["revs"]
            lines.append(
                {"chosen on": words, "score there": percent(found[place])}
                | {METRICS[metric]: percent(*values[metric]) for metric in METRICS}
                | {"seeds": ", ".join(map(str, sorted(part["seed"])))}
            )
    return pd.DataFrame(lines)
