"""What edited models can still do, beside the unedited one and the paper's (§4.4.2, §5 "Model Integrity"): runs tagged ``integrity``."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd
from scipy.stats import binomtest

from companion.pages import errata, paper, results
from companion.pages.tables import DASH, percent
from companion.runs import integrity, methods
from revs.measures import metrics

TAG, BEFORE = (
    "integrity",
    "integrity-before",
)  # of runs; the second of the model that has memorised nothing yet
BENCHMARKS = {"mmlu": "MMLU", "gsm8k": "GSM8K"}  # ours → the paper's column
SURE = 0.05  # p of a sign test
UNDONE = 0.05  # of what memorising did to perplexity: less may be anything
CHANCE = {"mmlu": 1 / len(integrity.LETTERS), "gsm8k": 0.0}


def tagged(model: str, data: str, tag: str) -> dict[str, dict]:
    """The rows of one tag on a data set by method, without failed runs."""
    frame = results.tagged(model, data, tag)
    return frame[frame["failed"].isna()].set_index("method")["row"].to_dict()


def runs(model: str, data: str) -> dict[str, dict]:
    """The row of each method that was asked what the unedited model was asked, and began as the same model, by name; without the unedited one there are none."""
    found = tagged(model, data, TAG)
    begun = lambda row: row["provenance"]["model"]["revision"]
    return (
        {
            name: row
            for name, row in found.items()
            if begun(row) == begun(found["unedited"]) and items(row) == items(found["unedited"])
        }
        if "unedited" in found
        else {}
    )


def items(row: dict) -> list:
    """Where a run's questions come from, and how many they are."""
    return [
        row["result"]["integrity"]["from"],
        *(row["result"]["integrity"][name]["items"] for name in BENCHMARKS),
    ]


def untaught(model: str, data: str) -> dict | None:
    """The row of the model as it came, before it memorised the secrets, if there is one."""
    return tagged(model, data, BEFORE).get("unedited")


def every(
    model: str, names: Iterable[str] = tuple(methods.PAPER_DATA)
) -> dict[str, dict[str, dict]]:
    """The same on each of some data sets, the paper's, that there are such rows of."""
    return {data: found for data in names if (found := runs(model, data))}


def tables(found: dict[str, dict[str, dict]]) -> pd.DataFrame:
    """One data set after the other; where there is no row, the paper alone."""
    parts = {data: table(found.get(data, {}), printed(data)) for data in methods.PAPER_DATA}
    return pd.concat(
        [
            part.assign(data=methods.PAPER_DATA[data])[["data", *part]]
            for data, part in parts.items()
        ]
    ).fillna(DASH)


def error(accuracy: float, items: int) -> float:
    """The standard error of a share of so many items."""
    return math.sqrt(accuracy * (1 - accuracy) / items)


def above_chance(unedited: dict, benchmark: str) -> bool:
    """Does the unedited model answer better than by chance, by two standard errors?"""
    of_it = unedited["result"]["integrity"][benchmark]
    return of_it["accuracy"] - CHANCE[benchmark] > 2 * error(of_it["accuracy"], of_it["items"])


def guessed(model: str, names: Iterable[str] = tuple(methods.PAPER_DATA)) -> set[tuple[str, str]]:
    """The paper's columns, by data set of ours, in which the unedited model is at chance; it begins as the same model for all of them, so that one that was asked speaks for the others."""
    found = every(model, names)
    asked_of = (
        {data: found.get(data, next(iter(found.values()))) for data in names} if found else {}
    )
    return {
        (data, column)
        for data, some in asked_of.items()
        for benchmark, column in BENCHMARKS.items()
        if not above_chance(some["unedited"], benchmark)
    }


def table(found: dict[str, dict], printed: dict[str, dict[tuple[str, str], float]]) -> pd.DataFrame:
    """Unlearning Score, accuracy with its standard error, answers lost and won, and perplexity of each method; and the paper's accuracies, by its model."""
    lines = []
    for name, entry in methods.registry().items():
        theirs = {
            f"{column}, paper, {model}": cells.get((entry["title"], column))
            for model, cells in printed.items()
            for column in BENCHMARKS.values()
        }
        if name in found:
            lines.append(
                {"method": entry["title"]}
                | measured(found[name], found["unedited"])
                | shown(theirs)
            )
        elif not found and any(value is not None for value in theirs.values()):
            lines.append({"method": entry["title"]} | shown(theirs))
    return pd.DataFrame(lines)


def measured(row: dict, unedited: dict) -> dict[str, str]:
    """One method's cells of ours."""
    before, after, line = (
        unedited["result"]["integrity"],
        row["result"]["integrity"],
        {"Unlearning Score": percent(row["result"]["after"]["unlearning_score"])},
    )
    for ours, column in BENCHMARKS.items():
        flips = metrics.flips(before[ours]["right"], after[ours]["right"])
        line |= {
            column: percent(
                after[ours]["accuracy"], error(after[ours]["accuracy"], after[ours]["items"])
            ),
            f"{column}: lost, won": f"{flips['lost']}, {flips['won']}",
        }
    return line | {"perplexity": f"{after['perplexity']:.1f}"}


def shown(theirs: dict[str, float | None]) -> dict[str, str]:
    """The paper's cells."""
    return {column: DASH if value is None else f"{value:.1f}" for column, value in theirs.items()}


def printed(data: str) -> dict[str, dict[tuple[str, str], float]]:
    """The paper's accuracies on one data set, in per cent: model → (method, benchmark)."""
    found = {}
    for model, label in paper.CORE.items():
        cells = {
            (row, column): cell["value"]
            for (dataset, row), of_row in errata.lines(label).items()
            for column, cell in of_row.items()
            if dataset == methods.PAPER_DATA[data] and column in BENCHMARKS.values()
        }
        if cells:
            found[model] = cells
    return found


def asked() -> str:
    """Which items are asked."""
    return (
        f"From a folder, the items of MMLU are those of MMLU-Redux that its reviewers found without error, the first {integrity.EACH} of each subject, without examples; those of GSM8K are the first {integrity.PROBLEMS}, after {integrity.SHOTS} solved ones; where a folder has fewer, all of them. "
        "From the hub as many are asked. Either way it is a part of each benchmark, since every method has to answer it anew."
    )


def sentence(found: dict[str, dict]) -> str:
    """What was asked, and whether the unedited model is better than chance at it."""
    before, said = found["unedited"]["result"]["integrity"], []
    for ours, column in BENCHMARKS.items():
        said.append(
            f"{column}, {before[ours]['items']} items: the unedited model answers {percent(before[ours]['accuracy'])} per cent"
            + (
                "."
                if above_chance(found["unedited"], ours)
                else ", **no better than chance**: what does not know cannot forget, and its accuracy says nothing about an edit."
            )
        )
    return " ".join(said)


def taught(found: dict[str, dict], row: dict | None) -> str:
    """What memorising did before any edit, beside what the edits do; empty unless the model as it came was asked the same."""
    if row is None or items(row) != items(found["unedited"]):
        return ""
    came, begins = (of["result"]["integrity"] for of in (row, found["unedited"]))
    perplexity = {name: each["result"]["integrity"]["perplexity"] for name, each in found.items()}
    rise = begins["perplexity"] - came["perplexity"]
    said = f"As it came, before it memorised the secrets, the model answers {percent(came['mmlu']['accuracy'])} per cent of MMLU and {percent(came['gsm8k']['accuracy'])} per cent of GSM8K, and its perplexity is {came['perplexity']:.1f}; the edits begin at {begins['perplexity']:.1f}."
    if rise <= max(perplexity.values()) - begins["perplexity"]:
        return said
    undone = [
        methods.registry()[name]["title"]
        for name, after in perplexity.items()
        if begins["perplexity"] - after > UNDONE * rise
    ]
    return (
        f"{said} **Memorising raised the perplexity of ordinary text more than any edit did.**"
        + (
            f" {' and '.join(undone)} lowered it again by more than {percent(UNDONE, digits=0)} per cent of that: they may have undone a part of what was learned."
            if undone
            else ""
        )
    )


def lost(found: dict[str, dict]) -> str:
    """Of each benchmark that the unedited model does not guess: the methods that lost more answers than they won, or the reverse, by a sign test over the answers that changed."""
    before, said = found["unedited"]["result"]["integrity"], []
    for ours, column in BENCHMARKS.items():
        changed = {
            name: metrics.flips(before[ours]["right"], row["result"]["integrity"][ours]["right"])
            for name, row in found.items()
            if name != "unedited"
        }
        if not changed or not above_chance(found["unedited"], ours):
            continue
        sure = {
            name: each
            for name, each in changed.items()
            if sum(each.values()) and binomtest(each["lost"], sum(each.values())).pvalue < SURE
        }
        named = "; ".join(
            f"{methods.registry()[name]['title']} {each['lost']} lost and {each['won']} won"
            for name, each in sure.items()
        )
        said.append(
            f"{column}: edits that lost more answers than they won, or the reverse: {named or 'none'}."
        )
    return (
        " ".join(
            [
                *said,
                f"(Sign test on the answers that changed, two-sided, p below {SURE}, not corrected for the number of methods.)",
            ]
        )
        if said
        else ""
    )
