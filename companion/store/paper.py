"""The REVS paper's own numbers, as data: its tables and the hyperparameters of its Appendix.

The numbers lie in paper/tables.json, made from the LaTeX source by paper/extract.py;
paper/README.md describes them.
"""

import functools
import json

import pandas as pd

from companion.store.paths import ROOT

MODELS = {"Llama-3-8B": "llama", "GPT-J-6B": "gptj"}
CORE = {model: f"tab:core_results_{short}" for model, short in MODELS.items()}
EXTRACTION = {model: f"tab:extraction_results_{short}" for model, short in MODELS.items()}
FILE = ROOT / "paper" / "tables.json"
CELL = ["dataset", "row", "column", "value", "std", "mark", "printed"]


@functools.cache
def tables() -> dict:
    """All of tables.json. Cached and shared between callers: do not change it."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def table(label) -> pd.DataFrame:
    """One of the paper's tables of numbers, one row per printed cell.

    Columns: dataset ("SSN", "Emails", "URLs" or None), row, column, value (per cent, counts in
    tab:pii-distribution; NaN where the paper prints a dash), std over the seeds (NaN where none is
    printed), mark ("bold", "underline" or None) and printed.
    """
    return pd.DataFrame(tables()["tables"][label]["cells"], columns=CELL)


def has_settings(method) -> bool:
    """Does the Appendix print settings of this method?"""
    return method in {entry["method"] for entry in tables()["hyperparameters"]}


def hyperparameters(method, model, dataset) -> dict:
    """The Appendix's hyperparameters of one method, {name: value}.

    `model` is "Llama-3-8B" or "GPT-J-6B"; `dataset` "SSN", "Emails" or "URLs", the last of which
    gives the values of Emails, as in §4.5. Layers are a list of ints, or "all". KeyError for an
    unknown name.
    """
    found: dict[tuple, dict] = {}
    for one in tables()["hyperparameters"]:
        place = one["method"], one["model"], one["dataset"]
        found.setdefault(place, {})[one["name"]] = one["value"]
    return found[method, model, "Emails" if dataset == "URLs" else dataset]
