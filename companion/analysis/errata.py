"""The paper's numbers that do not add up, each recomputed from its own tables (paper/tables.json).

A function is one rule that printed numbers must keep; it looks everywhere the rule applies and
returns what breaks it. Printed numbers are rounded: a rule is broken only if no unrounded numbers
could keep it.
"""

import itertools
import re
from collections.abc import Iterator

import pandas as pd

from companion.store import paper
from companion.store.paper import CORE, EXTRACTION
from revs.measures.metrics import harmonic_mean

RESULTS = (*CORE.values(), *EXTRACTION.values())
USUAL = {  # REVS as it is, e-mails, GPT-J-6B, in each of the ablations
    "tab:ablation_neuron_selection": "Rank & Activations (hybrid)",
    "tab:method_results": "REVS",
    "tab:ablation_token_method": "Rarest",
}
PARTS = {
    "Unlearning Score": ("Efficacy@100", "Generalization@100", "Specificity"),
    "Resistance Score": ("Logit-Lens@100", "Delta@100", "Perturb@100"),
}


def rows() -> Iterator[tuple[str, tuple[str, str], dict[str, dict]]]:
    """Every row of the tables of results and ablations: table, (data set, row), cells by column;
    dashes left out."""
    for label in (*RESULTS, *USUAL):
        printed = paper.table(label).dropna(subset=["value"])
        for place, cells in printed.groupby(["dataset", "row"], sort=False):
            yield label, place, cells.set_index("column").to_dict("index")


def cells(tables: dict[str, str]) -> pd.DataFrame:
    """The cells of one table of each of the paper's models, dashes left out, with columns
    ``model`` and ``table``."""
    found = [paper.table(label).assign(model=m, table=f"`{label}`") for m, label in tables.items()]
    return pd.concat(found, ignore_index=True).dropna(subset=["value"])


def rounding(cell: dict) -> float:
    """Half a unit of a printed number's last digit."""
    digits = cell["printed"].split("±")[0].strip().partition(".")[2].rstrip("} \\$")
    return 0.5 * 10.0 ** -len(digits)


def above_its_harmonic_mean() -> pd.DataFrame:
    """Printed scores above the harmonic mean of their own columns, whatever the rounding, and the
    most that they can be.

    A mean of harmonic means never exceeds the harmonic mean of the means (Jensen's inequality).
    """
    found = []
    for label, (dataset, row), of_row in rows():
        for score, names in PARTS.items():
            parts = [of_row[name] for name in names if name in of_row]
            if score not in of_row or len(parts) < 2:
                continue
            printed, values = of_row[score]["value"], [part["value"] for part in parts]
            most = harmonic_mean([part["value"] + rounding(part) for part in parts])
            if printed - rounding(of_row[score]) > most:
                place = [f"`{label}`", dataset, row, f"{score} {printed:g}"]
                listed = ", ".join(f"{value:g}" for value in values)
                found.append([*place, f"{harmonic_mean(values):.2f}", listed])
    return pd.DataFrame(found, columns=["table", "data", "row", "printed", "at most", "from"])


def lens_and_efficacy() -> pd.DataFrame:
    """Efficacy and resistance to the Logit-Lens side by side, where both are printed.

    The second is a minimum over layers, the last of which gives the first: it cannot be larger.
    """
    keys, core, attacked = ["model", "dataset", "row"], cells(CORE), cells(EXTRACTION)
    core = core[core["column"] == "Efficacy@100"]
    attacked = attacked[attacked["column"] == "Logit-Lens@100"]
    return core.merge(attacked, on=keys, suffixes=("", "_lens"))


def rows_that_repeat() -> pd.DataFrame:
    """Rows of two tables that agree in every number, to the digits that both print, although their
    columns mean other things; the one with more digits first."""
    found = []
    for pair in itertools.combinations(rows(), 2):
        (label, _, one), (other_label, _, other) = pair
        if label == other_label or len(one) != len(other) or list(one) == list(other):
            continue
        near = [
            abs(a["value"] - b["value"]) <= max(rounding(a), rounding(b)) + 1e-9
            for a, b in zip(one.values(), other.values())
        ]
        if len(near) > 2 and all(near) and len({cell["value"] for cell in one.values()}) > 1:
            ordered = sorted(pair, key=lambda row: sum(map(rounding, row[2].values())))
            named = [f"`{label}`: {', '.join(place)}" for label, place, _ in ordered]
            pairs = zip(*(of_row.values() for *_, of_row in ordered))
            found.append([*named, ", ".join(f"{a['value']:g} = {b['value']:g}" for a, b in pairs)])
    return pd.DataFrame(found, columns=["row", "repeats", "numbers"])


def one_configuration() -> pd.DataFrame:
    """REVS as it is in each of the ablations of one model, data set and seed, by column."""
    usual = {label: cells for label, (_, row), cells in rows() if USUAL.get(label) == row}
    return pd.DataFrame(usual).map(lambda cell: cell["value"], na_action="ignore")


def spreads() -> pd.DataFrame:
    """Every positive standard deviation of the result tables; ``usual`` is the median of its
    column in the same data set."""
    some = pd.concat([cells(CORE), cells(EXTRACTION)], ignore_index=True).query("std > 0")
    usual = some.groupby(["table", "dataset", "column"])["std"].transform("median")
    return some.assign(usual=usual)


def sweep(method: str, name: str) -> dict | None:
    """What the Appendix says was searched for a setting: low and high, or values; else None."""
    every = {(entry["method"], entry["name"]): entry for entry in paper.tables()["sweep"]}
    return every.get((method, name))


def is_outside(chosen: dict) -> bool:
    """Does a chosen setting lie outside the range that was searched for it?"""
    searched, value = sweep(chosen["method"], chosen["name"]), chosen["value"]
    if searched is None:
        return False
    if "values" in searched:
        return value not in searched["values"]
    return not searched["low"] <= value <= searched["high"]


def outside_their_sweep() -> pd.DataFrame:
    """Chosen settings outside their range; what e-mails take over from SSN is not listed twice."""
    found = []
    for one in paper.tables()["hyperparameters"]:
        if is_outside(one) and not one.get("inherited"):
            span = sweep(one["method"], one["name"])
            searched = ", ".join(f"{value:g}" for value in span.get("values", ()))
            searched = searched or f"{span['low']:g} to {span['high']:g}"
            place = [one["method"], f"`{one['name']}`", one["model"], one["dataset"]]
            found.append([*place, f"{one['value']:g}", searched])
    columns = ["method", "setting", "model", "data", "chosen", "searched"]
    return pd.DataFrame(found, columns=columns)


def panels_in_words() -> pd.DataFrame:
    """Figure captions that name, for a panel's letter, another data set than the one drawn."""
    found = []
    for label, figure in paper.tables()["figures"].items():
        for dataset, letter in re.findall(r"(SSN|Email|URL)s? \((\w)\)", figure["caption"]):
            drawn = dict(zip("abcdefghi", figure["panels"], strict=False)).get(letter, "")
            if drawn and f"_{dataset.lower()}" not in drawn:
                found.append([f"`{label}`", letter, dataset, f"`{drawn}`"])
    return pd.DataFrame(found, columns=["figure", "panel", "the caption", "drawn there"])
