"""What edited models can still do (§4.4.2, §5 "Model Integrity"): answers on two benchmarks."""

import math

import pandas as pd

from companion.analysis import errata, results
from companion.analysis.tables import percent
from companion.experiments import methods
from companion.store import paper
from revs.measures.metrics import flips

BENCHMARKS = {"mmlu": "MMLU", "gsm8k": "GSM8K"}  # ours → the paper's column


def runs(model: str, data: str, tag: str = "integrity") -> dict[str, dict]:
    """By method, the rows that share the unedited run's base model and questions; empty if there is
    no unedited run."""
    frame = results.measured(model, data).query("tag == @tag and failed.isna()")
    found = frame.set_index("method")["row"].to_dict()
    if "unedited" not in found:
        return {}
    same = compared(found["unedited"])
    return {name: row for name, row in found.items() if compared(row) == same}


def compared(row: dict) -> list:
    """What two runs must share: the model before, where questions come from, how many they are."""
    asked = row["result"]["integrity"]
    sizes = [asked[name]["items"] for name in BENCHMARKS]
    return [row["inputs"]["model"], asked["from"], *sizes]


def answers(found: dict[str, dict]) -> pd.DataFrame:
    """One line per method: score, perplexity, each benchmark's accuracy, error, items and flips.

    Accuracy and standard error are shares; ``lost`` and ``won`` count the answers that changed
    against the unedited model's.
    """
    if not found:
        return pd.DataFrame()
    lines, before = {}, found["unedited"]["result"]["integrity"]
    for name in filter(found.get, methods.registry()):
        result = found[name]["result"]
        after = result["integrity"]
        line = {"score": result["after"]["unlearning_score"], "perplexity": after["perplexity"]}
        for one in BENCHMARKS:
            accuracy, items = after[one]["accuracy"], after[one]["items"]
            error = math.sqrt(accuracy * (1 - accuracy) / items)  # of a share of so many items
            line |= {one: accuracy, f"{one} error": error, f"{one} items": items}
            changed = flips(before[one]["right"], after[one]["right"])
            line |= {f"{one} {which}": count for which, count in changed.items()}
        lines[name] = line
    return pd.DataFrame.from_dict(lines, orient="index")


def accuracy_table(answers: pd.DataFrame) -> pd.DataFrame:
    """``answers`` as a table of texts, by the method's title."""
    lines = pd.DataFrame({"Unlearning Score": answers["score"].map(percent)})
    for one, column in BENCHMARKS.items():
        lines[column] = list(map(percent, answers[one], answers[f"{one} error"]))
        flips = answers[[f"{one} lost", f"{one} won"]].astype(int).astype(str)
        lines[f"{column}: lost, won"] = flips.agg(", ".join, axis=1)
    lines["perplexity"] = answers["perplexity"].map("{:.1f}".format)
    return lines.rename(index=methods.title)


def printed(data: str) -> pd.DataFrame:
    """The paper's accuracies on one data set, in per cent, by the method's title."""
    cells = errata.cells(paper.CORE)
    of_data = cells["dataset"] == methods.PAPER_DATA[data]
    cells = cells[of_data & cells["column"].isin(BENCHMARKS.values())]
    cells["column"] += ", paper, " + cells["model"]
    cells["value"] = cells["value"].map("{:.1f}".format)
    return cells.set_index(["row", "column"])["value"].unstack(sort=False)
