"""The paper's numbers that do not add up, each recomputed from its own tables (paper/tables.json).

A function is one rule that printed numbers must keep; it looks everywhere the rule applies and
returns what breaks it. Printed numbers are rounded: a rule is broken only if no unrounded numbers
could keep it.
"""

from __future__ import annotations

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
Row = tuple[str, str]  # data set, name


def lines(label: str) -> dict[Row, dict[str, dict]]:
    """A table's cells by (data set, row), then by column; dashes left out."""
    found: dict[Row, dict[str, dict]] = {}
    for cell in paper.table(label).dropna(subset=["value"]).to_dict("records"):
        found.setdefault((cell["dataset"], cell["row"]), {})[cell["column"]] = cell
    return found


def cells(tables: dict[str, str]) -> pd.DataFrame:
    """The cells of one table of each of the paper's models, dashes left out; ``model`` and label
    stand with them."""
    found = [paper.table(label).assign(model=m, table=f"`{label}`") for m, label in tables.items()]
    return pd.concat(found, ignore_index=True).dropna(subset=["value"])


def rounding(cell: dict) -> float:
    """Half a unit of a printed number's last digit."""
    digits = cell["printed"].split("±")[0].strip().partition(".")[2].rstrip("} \\$")
    return 0.5 * 10.0 ** -len(digits)


def too_large() -> Iterator[tuple[str, Row, str, dict[str, dict]]]:
    """Printed scores above the harmonic mean of their own columns, whatever the rounding.

    Gives table, row, score, and the columns' cells. A mean of harmonic means never exceeds the
    harmonic mean of the means (Jensen's inequality).
    """
    for label in (*RESULTS, *USUAL):
        for place, of_row in lines(label).items():
            for score, names in PARTS.items():
                parts = {name: of_row[name] for name in names if name in of_row}
                if score in of_row and len(parts) > 1:
                    most = harmonic_mean([one["value"] + rounding(one) for one in parts.values()])
                    if of_row[score]["value"] - rounding(of_row[score]) > most:
                        yield label, place, score, parts


def above_its_harmonic_mean() -> pd.DataFrame:
    """The scores that are too large, and the most that they can be."""
    found = []
    for label, (dataset, row), score, parts in too_large():
        values = [part["value"] for part in parts.values()]
        printed = f"{score} {lines(label)[dataset, row][score]['value']:g}"
        most, listed = f"{harmonic_mean(values):.2f}", ", ".join(f"{v:g}" for v in values)
        found.append([f"`{label}`", dataset, row, printed, most, listed])
    return pd.DataFrame(found, columns=["table", "data", "row", "printed", "at most", "from"])


def lens_and_efficacy() -> pd.DataFrame:
    """Efficacy and resistance to the Logit-Lens side by side, where both are printed.

    The second is a minimum over layers, the last of which gives the first: it cannot be larger.
    """
    keys, core, attacked = ["model", "dataset", "row"], cells(CORE), cells(EXTRACTION)
    core = core[core["column"] == "Efficacy@100"]
    attacked = attacked[attacked["column"] == "Logit-Lens@100"]
    return core.merge(attacked, on=keys, suffixes=("", "_lens"))


def repeats() -> Iterator[tuple[tuple[str, Row, list[dict]], tuple[str, Row, list[dict]]]]:
    """Rows of two tables that agree in every number, to the digits that both print, although their
    columns mean other things: table, row and cells of both, the one with more digits first."""
    every = [
        (label, place, list(of_row.values()))
        for label in (*RESULTS, *USUAL)
        for place, of_row in lines(label).items()
    ]
    for i, one in enumerate(every):
        for other in every[i + 1 :]:
            heads = [[cell["column"] for cell in row[2]] for row in (one, other)]
            if one[0] == other[0] or len(heads[0]) != len(heads[1]) or heads[0] == heads[1]:
                continue
            pairs = list(zip(one[2], other[2], strict=True))
            near = [
                abs(a["value"] - b["value"]) <= max(rounding(a), rounding(b)) + 1e-9
                for a, b in pairs
            ]
            if len(pairs) > 2 and all(near) and len({a["value"] for a, _ in pairs}) > 1:
                yield tuple(sorted((one, other), key=lambda row: sum(map(rounding, row[2]))))


def rows_that_repeat() -> pd.DataFrame:
    """The rows that stand twice, under other heads."""
    found = []
    for one, other in repeats():
        named = [f"`{label}`: {', '.join(place)}" for label, place, _ in (one, other)]
        pairs = zip(one[2], other[2], strict=True)
        found.append([*named, ", ".join(f"{a['value']:g} = {b['value']:g}" for a, b in pairs)])
    return pd.DataFrame(found, columns=["row", "repeats", "numbers"])


def one_configuration() -> pd.DataFrame:
    """REVS as it is in each of the ablations of one model, data set and seed, by column."""
    found = {label: lines(label)["Emails", row] for label, row in USUAL.items()}
    return pd.DataFrame(
        {
            label: {column: cell["value"] for column, cell in of.items()}
            for label, of in found.items()
        }
    )


def spreads() -> pd.DataFrame:
    """Every positive standard deviation of the result tables; ``usual`` is the median of its
    column in the same data set."""
    both = pd.concat([cells(CORE), cells(EXTRACTION)], ignore_index=True)
    some = both[both["std"] > 0]
    usual = some.groupby(["table", "dataset", "column"])["std"].transform("median")
    return some.assign(usual=usual)


def sweep(method: str, name: str) -> dict | None:
    """What the Appendix says was searched for a setting: low and high, or values; else None."""
    for entry in paper.tables()["sweep"]:
        if (entry["method"], entry["name"]) == (method, name):
            return entry
    return None


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
    """Captions of figures that say of a panel, by its letter, another data set than is drawn."""
    found = []
    for label, figure in paper.tables()["figures"].items():
        for dataset, letter in re.findall(r"(SSN|Email|URL)s? \((\w)\)", figure["caption"]):
            drawn = dict(zip("abcdefghi", figure["panels"], strict=False)).get(letter, "")
            if drawn and f"_{dataset.lower()}" not in drawn:
                found.append([f"`{label}`", letter, dataset, f"`{drawn}`"])
    return pd.DataFrame(found, columns=["figure", "panel", "the caption", "drawn there"])


def two_places() -> pd.DataFrame:
    """What two places of the paper say differently."""
    printed, pii = paper.tables(), paper.table("tab:pii-distribution")
    said = printed["in_prose"]
    emails = int(pii.set_index(["row", "column"])["value"]["Email addresses", "Memorized"])
    lines = [
        (
            "e-mails kept, of Llama-3-8B",
            f"{said['retained']} of the data set (Specificity)",
            f"{emails - said['forget_emails']} of {emails}, all that are not unlearned",
        ),
        (
            "data sets that settings were searched on",
            f"{said['tuned']['extent']} (App. Baselines)",
            f"{' and '.join(said['tuned']['data'])}; URLs take over those of Emails (§4.5)",
        ),
        (
            "REVS's generalization on URLs",
            "the best (§5)",
            f"not printed (`{CORE['Llama-3-8B']}`)",
        ),
    ]
    return pd.DataFrame(lines, columns=["what", "one place", "another"])
