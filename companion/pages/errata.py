"""The paper's numbers that do not add up, each recomputed from its own tables (paper/tables.json).

A function is one rule that printed numbers must keep; it looks everywhere the rule applies and returns what breaks it.
Printed numbers are rounded: a rule is broken only if no unrounded numbers could keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

import pandas as pd

from companion.record import paper
from companion.record.paper import CORE, EXTRACTION
from revs.measures.metrics import harmonic_mean

ABLATIONS = ("tab:ablation_neuron_selection", "tab:method_results", "tab:ablation_token_method")
Row = tuple[str, str]  # data set, name
PARTS = {
    "Unlearning Score": ("Efficacy@100", "Generalization@100", "Specificity"),
    "Resistance Score": ("Logit-Lens@100", "Delta@100", "Perturb@100"),
}


def lines(label: str) -> dict[tuple[str, str], dict[str, dict]]:
    """A table's cells by (data set, row), then by column; dashes left out."""
    found: dict[tuple[str, str], dict[str, dict]] = {}
    for cell in paper.table(label).dropna(subset=["value"]).to_dict("records"):
        found.setdefault((cell["dataset"], cell["row"]), {})[cell["column"]] = cell
    return found


def rounding(cell: dict) -> float:
    """Half a unit of a printed number's last digit."""
    return 0.5 * 10.0 ** -len(
        cell["printed"].split("±")[0].strip().partition(".")[2].rstrip("} \\$")
    )


def too_large() -> Iterator[tuple[str, Row, str, dict[str, dict]]]:
    """Printed scores above the harmonic mean of their own columns, whatever the rounding: table, row, score, and the columns' cells.

    A mean of harmonic means never exceeds the harmonic mean of the means (Jensen's inequality).
    """
    for label in (*CORE.values(), *EXTRACTION.values(), *ABLATIONS):
        for place, cells in lines(label).items():
            for score, names in PARTS.items():
                parts = {name: cells[name] for name in names if name in cells}
                if (
                    score in cells
                    and len(parts) > 1
                    and cells[score]["value"] - rounding(cells[score])
                    > harmonic_mean([part["value"] + rounding(part) for part in parts.values()])
                ):
                    yield label, place, score, parts


def above_its_harmonic_mean() -> pd.DataFrame:
    """The scores that are too large, and the most that they can be."""
    return pd.DataFrame([
        {"table": f"`{label}`", "data": dataset, "row": row, "printed": f"{score} {lines(label)[dataset, row][score]['value']:g}", "at most": f"{harmonic_mean([part['value'] for part in parts.values()]):.2f}", "from": ", ".join(f"{part['value']:g}" for part in parts.values())}
        for label, (dataset, row), score, parts in too_large()
    ])  # fmt: skip


def lens_against_efficacy() -> pd.DataFrame:
    """Resistance to the Logit-Lens is a minimum over layers, the last of which gives Efficacy: it cannot be larger. How often are they equal?"""
    found = []
    for model in CORE:
        core, attacked = lines(CORE[model]), lines(EXTRACTION[model])
        both = {
            place: (
                core[place]["Efficacy@100"]["value"],
                attacked[place]["Logit-Lens@100"]["value"],
            )
            for place in core
            if place in attacked
            and {"Efficacy@100"} <= set(core[place])
            and "Logit-Lens@100" in attacked[place]
        }
        larger = [
            f"{dataset}, {row}: {lens:g} against {efficacy:g}"
            for (dataset, row), (efficacy, lens) in both.items()
            if lens > efficacy
        ]
        different = [
            f"{dataset}, {row}: {lens:g} against {efficacy:g}"
            for (dataset, row), (efficacy, lens) in both.items()
            if lens < efficacy
        ]
        found.append(
            {
                "model": model,
                "rows": str(len(both)),
                "equal": str(len(both) - len(larger) - len(different)),
                "Logit-Lens above Efficacy": "; ".join(larger) or "none",
                "below": f"{len(different)}"
                + (f" ({different[0]})" if len(different) == 1 else ""),
            }
        )
    return pd.DataFrame(found)


def repeats() -> Iterator[tuple[tuple[str, Row, list[dict]], tuple[str, Row, list[dict]]]]:
    """Rows of two tables that agree in every number, to the digits that both print, although their columns mean other things: table, row and cells of both, the one with more digits first."""
    every = [
        (label, place, list(cells.values()))
        for label in (*CORE.values(), *EXTRACTION.values(), *ABLATIONS)
        for place, cells in lines(label).items()
    ]
    for i, one in enumerate(every):
        for other in every[i + 1 :]:
            some, others = one[2], other[2]
            if (
                one[0] != other[0]
                and len(some) == len(others) > 2
                and [c["column"] for c in some] != [c["column"] for c in others]
            ):
                if (
                    all(
                        abs(a["value"] - b["value"]) <= max(rounding(a), rounding(b)) + 1e-9
                        for a, b in zip(some, others)
                    )
                    and len({a["value"] for a in some}) > 1
                ):
                    yield tuple(sorted((one, other), key=lambda row: sum(map(rounding, row[2]))))


def rows_that_repeat() -> pd.DataFrame:
    """The rows that stand twice, under other heads."""
    return pd.DataFrame([
        {"row": f"`{one}`: {', '.join(place)}", "repeats": f"`{other}`: {', '.join(elsewhere)}", "numbers": ", ".join(f"{a['value']:g} = {b['value']:g}" for a, b in zip(some, others))}
        for (one, place, some), (other, elsewhere, others) in repeats()
    ])  # fmt: skip


def doubtful() -> dict[tuple[str, str, str, str], str]:
    """Cells that cannot all be what they are printed as, by table, data set, row and column, and why: a score that is too large with the columns that it is of, and the less exact of two rows that stand twice."""
    found = {
        (label, *place, column): f"{score} is above the harmonic mean of its columns"
        for label, place, score, parts in too_large()
        for column in (score, *parts)
    }
    return found | {
        (label, *place, cell["column"]): f"{source['column']} of `{one}`"
        for (one, _, some), (label, place, others) in repeats()
        for source, cell in zip(some, others)
    }


def one_configuration_twice() -> pd.DataFrame:
    """REVS as it is stands in each of the ablations of one model, data set and seed: its numbers must agree."""
    usual = {
        "tab:ablation_neuron_selection": "Rank & Activations (hybrid)",
        "tab:method_results": "REVS",
        "tab:ablation_token_method": "Rarest",
    }
    cells = {label: lines(label)["Emails", row] for label, row in usual.items()}
    columns = [
        name
        for name in ("Unlearning Score", "Efficacy@100", "Specificity", "Resistance Score")
        if sum(name in found for found in cells.values()) > 1
    ]
    return pd.DataFrame(
        [
            {"column": column}
            | {
                f"`{label}`": f"{found[column]['value']:g}" if column in found else "–"
                for label, found in cells.items()
            }
            for column in columns
        ]
    )


def outlying_spreads(times: float = 4.0) -> pd.DataFrame:
    """Standard deviations of more than some times the median of their column in the same data set."""
    found = []
    for label in (*CORE.values(), *EXTRACTION.values()):
        table = paper.table(label).dropna(subset=["std"])
        for (dataset, column), cells in table[table["std"] > 0].groupby(["dataset", "column"]):
            usual = median(cells["std"])
            for cell in cells[cells["std"] > times * usual].to_dict("records"):
                found.append(
                    {
                        "table": f"`{label}`",
                        "data": dataset,
                        "row": cell["row"],
                        "column": column,
                        "printed": f"± {cell['std']:g}",
                        "median of the column": f"± {usual:g}",
                    }
                )
    return pd.DataFrame(found)


def sweep(method: str, name: str) -> dict | None:
    """What the Appendix says was searched for a setting: low and high, or values; layers were searched without a range."""
    return next(
        (
            entry
            for entry in paper.tables()["sweep"]
            if (entry["method"], entry["name"]) == (method, name)
        ),
        None,
    )


def is_outside(chosen: dict) -> bool:
    """Does a chosen setting lie outside the range that was searched for it?"""
    searched = sweep(chosen["method"], chosen["name"])
    if searched is None:
        return False
    return (
        chosen["value"] not in searched["values"]
        if "values" in searched
        else not searched["low"] <= chosen["value"] <= searched["high"]
    )


def outside_their_sweep() -> pd.DataFrame:
    """Chosen hyperparameters that lie outside the range that the Appendix says was searched; what e-mails take over from SSN is not listed twice."""
    found = []
    for chosen in paper.tables()["hyperparameters"]:
        if is_outside(chosen) and not chosen.get("inherited"):
            searched = sweep(chosen["method"], chosen["name"])
            span = (
                ", ".join(f"{value:g}" for value in searched["values"])
                if "values" in searched
                else f"{searched['low']:g} to {searched['high']:g}"
            )
            found.append(
                {
                    "method": chosen["method"],
                    "setting": f"`{chosen['name']}`",
                    "model": chosen["model"],
                    "data": chosen["dataset"],
                    "chosen": f"{chosen['value']:g}",
                    "searched": span,
                }
            )
    return pd.DataFrame(found)


def specificity_in_words() -> pd.DataFrame:
    """What the text says of REVS's specificity on Llama-3-8B (§5), and of SSN's once more where strength is varied (§5.1), and where it stands among the methods."""
    said = [("SSN", "best"), ("SSN", "near-perfect"), ("Emails", "best"), ("URLs", "competitive")]
    found = []
    for dataset, words in said:
        values = {
            row: cells["Specificity"]["value"]
            for (data, row), cells in lines(CORE["Llama-3-8B"]).items()
            if data == dataset and row != "Unedited" and "Specificity" in cells
        }
        order = sorted(values, key=values.get, reverse=True)
        found.append(
            {
                "data": dataset,
                "the text": words,
                "printed": f"{values['REVS']:g}",
                "place among the methods": f"{order.index('REVS') + 1} of {len(order)}",
                "highest": f"{order[0]}, {values[order[0]]:g}",
            }
        )
    return pd.DataFrame(found)


def spreads_that_repeat() -> pd.DataFrame:
    """Rows in which two columns with different means have the same standard deviation, the core and the extraction table together."""
    found = []
    for model in CORE:
        core, attacked = lines(CORE[model]), lines(EXTRACTION[model])
        for place in core:
            cells = [
                (column, cell)
                for table in (core, attacked)
                for column, cell in table.get(place, {}).items()
                if cell["std"]
            ]
            for number, (column, cell) in enumerate(cells):
                for other, twin in cells[number + 1 :]:
                    if cell["std"] == twin["std"] and cell["value"] != twin["value"]:
                        found.append(
                            {
                                "model": model,
                                "data": place[0],
                                "row": place[1],
                                "columns": f"{column}, {other}",
                                "means": f"{cell['value']:g}, {twin['value']:g}",
                                "standard deviation of both": f"{cell['std']:g}",
                            }
                        )
    return pd.DataFrame(found)


def spreads_that_differ() -> pd.DataFrame:
    """Rows in which the core and the extraction table print one mean, of Efficacy and Logit-Lens, with two standard deviations: where the worst layer is the last on every seed, both are of the same numbers."""
    found = []
    for model in CORE:
        attacked = lines(EXTRACTION[model])
        for place, of_row in lines(CORE[model]).items():
            cells = [of_row.get("Efficacy@100"), attacked.get(place, {}).get("Logit-Lens@100")]
            if (
                all(cell and cell["std"] is not None for cell in cells)
                and cells[0]["value"] == cells[1]["value"]
                and cells[0]["std"] != cells[1]["std"]
            ):
                found.append(
                    {
                        "model": model,
                        "data": place[0],
                        "row": place[1],
                        "both means": f"{cells[0]['value']:g}",
                        "Efficacy@100": f"± {cells[0]['std']:g}",
                        "Logit-Lens@100": f"± {cells[1]['std']:g}",
                    }
                )
    return pd.DataFrame(found)


def perturbation_in_words() -> pd.DataFrame:
    """The text says that resistance to perturbed prompts is low before unlearning and doubles with REVS: both, and their ratio."""
    found = []
    for model, label in EXTRACTION.items():
        cells = {
            place: of_row["Perturb@100"]["value"]
            for place, of_row in lines(label).items()
            if "Perturb@100" in of_row
        }
        found += [
            {
                "model": model,
                "data": dataset,
                "before": f"{cells[dataset, 'Unedited']:g}",
                "after": f"{cells[dataset, row]:g}",
                "times": f"{cells[dataset, row] / cells[dataset, 'Unedited']:.2f}",
            }
            for dataset, row in cells
            if row == "REVS" and (dataset, "Unedited") in cells
        ]
    return pd.DataFrame(found)


def without_an_unedited_row() -> list[str]:
    """Blocks of the result tables that do not say where the model started."""
    return [
        f"`{label}`, {dataset}"
        for label in (*CORE.values(), *EXTRACTION.values())
        for dataset in paper.table(label)["dataset"].unique()
        if (dataset, "Unedited") not in lines(label)
    ]


def panels_in_words() -> pd.DataFrame:
    """Captions of figures that say of a panel another data set than the one drawn there; panels are lettered in their order."""
    found = []
    for label, figure in paper.tables()["figures"].items():
        for dataset, letter in re.findall(r"(SSN|Email|URL)s? \((\w)\)", figure["caption"]):
            place = ord(letter) - ord("a")
            if (
                place < len(figure["panels"])
                and f"_{dataset.lower()}" not in figure["panels"][place]
            ):
                found.append(
                    {
                        "figure": f"`{label}`",
                        "panel": letter,
                        "the caption": dataset,
                        "drawn there": f"`{figure['panels'][place]}`",
                    }
                )
    return pd.DataFrame(found)


def numbers_in_words() -> pd.DataFrame:
    """What two places of the paper give otherwise: secrets kept and unlearned, data sets that were searched or are said to generalise, minutes."""
    printed, found = paper.tables(), []
    said, splits, minutes = (
        printed["in_prose"],
        printed["splits"],
        printed["hardware"]["runtime_minutes"],
    )
    emails = next(
        int(cell["value"])
        for cell in paper.table("tab:pii-distribution").to_dict("records")
        if (cell["row"], cell["column"]) == ("Email addresses", "Memorized")
    )
    if said["retained"] == "half" and 2 * (kept := emails - splits["forget_emails"]) != emails:
        found.append(
            (
                "e-mails kept, of Llama-3-8B",
                f"{said['retained']} of the data set (Specificity)",
                f"{kept} of {emails}, all that are not unlearned",
            )
        )
    if said["tuned"]["targets"] != splits["forget_emails"]:
        found.append(
            (
                "secrets unlearned in the search",
                f"{said['tuned']['targets']} (App. Results on GPT-J, Analysis)",
                f"{splits['forget_emails']} e-mails, {splits['forget_ssn']} of SSN (§4.5)",
            )
        )
    core = paper.table(CORE["Llama-3-8B"])
    if left := sorted(set(core["dataset"]) - set(said["tuned"]["data"])):
        found.append(
            (
                "data sets that settings were searched on",
                f"{said['tuned']['extent']} (App. Baselines)",
                f"{' and '.join(said['tuned']['data'])}; {', '.join(left)} take over those of Emails (§4.5)",
            )
        )
    general = set(
        core.loc[(core["column"] == "Generalization@100") & core["value"].notna(), "dataset"]
    )
    if left := [dataset for dataset in said["best_generality"] if dataset not in general]:
        found.append(
            (
                f"REVS's generalization on {', '.join(left)}",
                "the best (§5)",
                f"not printed (`{CORE['Llama-3-8B']}`)",
            )
        )
    if said["revs_is"] == "computational efficiency" and minutes["REVS"] == max(minutes.values()):
        (own, others), (gpu, gpus) = (
            ([values["REVS"]], sorted(values[name] for name in values if name != "REVS"))
            for values in (minutes, printed["hardware"]["gpus"])
        )
        found.append(
            (
                "how long REVS takes",
                f"{said['revs_is']} (App. Hardware)",
                f"{own[0]} minutes with {gpu[0]} GPU, the others {others[0]} to {others[-1]} with {gpus[0]} to {gpus[-1]} (the same place)",
            )
        )
    return pd.DataFrame(found, columns=["what", "one place", "another"])


def marks_on_the_unedited() -> list[str]:
    """Blocks of the result tables in which the model that nothing was done to is marked as the best result."""
    return [
        f"`{label}`, {dataset}: {column}"
        for label in (*CORE.values(), *EXTRACTION.values())
        for (dataset, row), cells in lines(label).items()
        if row == "Unedited"
        for column, cell in cells.items()
        if cell["mark"] == "bold"
    ]
