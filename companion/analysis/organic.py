"""Secrets that a pretrained model memorised by itself, found and unlearned (§4.2; Appendix
"Naturally Memorized Dataset"): rows of params/sweeps/organic.yml."""

from __future__ import annotations

import pandas as pd

from companion.analysis import curation, results, tuning
from companion.analysis.tables import DASH, percent
from companion.experiments import methods
from companion.store import rows

SETS = {"email": "emails", "url": "urls"}  # end of a curated set's name → the paper's data
COUNTED = "numbers"  # kinds that are counted and not unlearned
WAYS = {"": "", "raw": ", U alone"}  # tag of a search → what its method's title ends with


def curations(model: str, name: str) -> list[dict]:
    """The rows that say what was found in the documents, a kind after the other."""
    found = rows.find(kind="curate")
    names = [f"curate/{name}-{part}/{model}" for part in (*SETS, COUNTED)]
    return [found[row] for row in names if row in found]


def places(found: list[dict]) -> pd.DataFrame:
    """One line a secret in the data sets: its kind, and the package in which it stood first."""
    items = [rows.per_example(row) for row in found if row["values"]]
    frame = pd.concat(items, ignore_index=True)
    frame = frame[frame["exact"].astype(bool)]
    package = "`" + frame["package"].astype(str).str.split("=").str[0] + "`"
    return pd.DataFrame({"kind": frame["kind"].map(curation.TITLES), "package": package})


def runs(model: str, name: str) -> pd.DataFrame:
    """The usual runs on each kind of secret that was found, by the paper's data of that kind."""
    parts = [results.runs(model, f"{name}-{kind}").assign(data=SETS[kind]) for kind in SETS]
    return pd.concat(parts, ignore_index=True)


def tried(model: str, data: str) -> pd.DataFrame:
    """Every trial of the searches on a set, methods by their titles; REVS has one search through
    the final norm and one with U alone, which ``way`` and its title tell apart."""
    return titled([tuning.trials(model, data, tag).assign(way=tag) for tag in WAYS])


def searches(model: str, data: str) -> pd.DataFrame:
    """One line a search on a set, with its ``result``; methods by the same titles."""
    return titled([tuning.searches(model, [data], tag).assign(way=tag) for tag in WAYS])


def titled(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Frames below each other, their methods by titles that tell the ways apart."""
    found = pd.concat(parts, ignore_index=True)
    titles = found["method"].astype(str).map(methods.title)
    return found.assign(method=titles + found["way"].map(WAYS))


def chosen(model: str, data: str) -> pd.DataFrame:
    """One line a search on a set, each cell a string: how many trials, how many of them moved their
    targets, the minutes they took, the mean score of the chosen one over the splits it ran on, and
    its settings."""
    spent = tried(model, data).groupby("method")["row"].agg(minutes)
    lines = []
    for one in searches(model, data).itertuples():
        result, counts = (
            one.result,
            {name: str(one.result[name]) for name in ("trials", "effective")},
        )
        line = {"method": one.method} | counts | {"minutes": f"{spent[one.method]:.0f}"}
        line |= {"chosen, mean of its splits": percent(result["unlearning_score"])}
        lines.append(line | {"settings": settings_text(result["hyperparameters"])})
    return pd.DataFrame(lines)


def minutes(trials: pd.Series) -> float:
    """What some trials took, without loading the model."""
    spent = [row["seconds"] for row in trials]
    return sum(one["unlearn"] + one.get("evaluate_after", 0) for one in spent) / 60


def settings_text(settings: dict) -> str:
    """A method's settings in one cell of a table; a dash for none."""
    return ", ".join(f"{key} {tuning.short(value)}" for key, value in settings.items()) or DASH


def having(found: pd.DataFrame, measure: str) -> dict[str, dict[str, dict]]:
    """The rows with a measure, of the first seed of each data set: data set → method → row."""
    first = found[found["seed"] == found.groupby("data")["seed"].transform("min")]
    kept = first["row"].map(lambda row: measure in row["result"]).astype(bool)
    order = list(methods.registry()).index
    by_data: dict[str, dict[str, dict]] = {}
    for run in first[kept].sort_values("method", key=lambda names: names.map(order)).itertuples():
        by_data.setdefault(run.data, {})[run.method] = run.row
    return by_data


def public(model: str, data: str, one: str, share: float) -> tuple[bool, str, list[str]] | None:
    """Does the model that this method edited still write so large a share of the public addresses
    that the unedited one writes (tab:retained_email_example)? With how many, and the rows."""
    found = results.measured(model, data)
    of_data = having(found[found["tag"] == ""], "public_addresses").get(data, {})
    known = {name: row["result"]["public_addresses"]["known"] for name, row in of_data.items()}
    if not any(known.get("unedited", {}).values()) or one not in known:
        return None
    written = [known[one][address] for address, yes in known["unedited"].items() if yes]
    names = [of_data[method]["name"] for method in ("unedited", one)]
    return sum(written) >= share * len(written), f"{sum(written)} of {len(written)}", names
