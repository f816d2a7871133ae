"""How fast: the benchmark's rows as frames, and runs in two orders and precisions beside them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.analysis import results
from companion.analysis.tables import METRICS
from companion.store import rows

PARTS = {  # of a token's time: colour and hatching
    "forward": ("#8c8c8c", ""),
    "direction": ("#56b4e9", "//"),
    "gate": ("#e69f00", ".."),
    "candidates": ("#0072b2", ""),
    "selection": ("#009e73", "xx"),
    "edit": ("#d55e00", "\\\\"),
}
FLOORS = {"": "tuned", "n100": "a hundred neurons", "paper": "the paper's"}  # by tag
PRECISIONS = ("float32", "bfloat16")


def row(what: str, model: str, data: str) -> dict:
    """The recorded row of a measurement."""
    return rows.find(kind="bench", data=data)[f"bench/{data}/{model}/{what}"]


def times(found: dict) -> pd.DataFrame:
    """One measurement, a line for each way: every round and their median, in seconds."""
    result = found["result"]
    frame = pd.DataFrame({"way": list(result["timings"]), "rounds": result["timings"].values()})
    frame["median"] = frame["way"].map(result["medians"])
    return frame.assign(token=frame["median"] / result["tokens"])


def floors(model: str, *data: str) -> pd.DataFrame:
    """A token beside the least that it must do and a pass alone: medians in seconds a token."""
    lines = []
    for of in data:
        for tag, settings in FLOORS.items():
            name = "-".join(filter(None, ("floor", tag)))
            if f"bench/{of}/{model}/{name}" not in rows.find(kind="bench", data=of):
                continue
            found = row(name, model, of)
            result, hp = found["result"], found["provenance"]["settings"]["hyperparameters"]
            each = {way: seconds / result["tokens"] for way, seconds in result["medians"].items()}
            layers = result["work"]["layers"] / result["tokens"]
            about = {"data": of, "settings": settings, "k": hp["k"], "n_max": hp["n_max"]}
            about |= {"tokens": result["tokens"], "edited layers": layers}
            lines.append(about | each | {"parts": result["parts"]})
    return pd.DataFrame(lines)


def gradient(model: str, data: str) -> pd.DataFrame:
    """REVS and the methods that follow gradients, the quickest first: seconds, rounds, score."""
    result = row("gradient", model, data)["result"]
    lines = {
        name: {
            "seconds": seconds,
            "rounds": len(result["timings"][name]),
            "score": 100 * result["effects"][name]["unlearning_score"],
        }
        for name, seconds in result["medians"].items()
    }
    frame = pd.DataFrame.from_dict(lines, orient="index").sort_values("seconds")
    return frame.astype({"rounds": int}).assign(ratio=frame["seconds"]["revs"] / frame["seconds"])


def goals(model: str, data: str, other: str) -> pd.DataFrame:
    """What was wanted before anything was measured, and what was measured."""
    ratio, floor = {}, floors(model, data, other)
    floor = floor[floor["settings"] == "tuned"]
    for of in (data, other):
        table = gradient(model, of)
        ratio[of] = table["seconds"]["revs"] / table["seconds"].drop("revs").min()
    wanted = [
        ("ours ÷ the least of a token", "≤", 1.5, max(floor["ours"] / floor["floor"])),
        ("REVS ÷ the fastest gradient method, tuned", "<", 1, max(ratio.values())),
    ]
    frame = pd.DataFrame(wanted, columns=["what", "sign", "bound", "measured"])
    met = [
        value < bound if sign == "<" else value <= bound
        for sign, bound, value in frame[["sign", "bound", "measured"]].itertuples(index=False)
    ]
    return frame.assign(met=met)


def draw_parts(ax: Axes, floors: pd.DataFrame) -> None:
    """One bar for each line of ``floors``: the shares of a token's time, in per cent."""
    names = floors["data"] + ", " + floors["settings"]
    parts = pd.DataFrame(list(floors["parts"]), index=names).reindex(columns=list(PARTS))
    shares = 100 * parts.div(parts.sum(axis=1), axis=0)
    left = np.zeros(len(shares))
    for part, (colour, hatch) in PARTS.items():
        bars = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        ax.barh(shares.index, shares[part], left=left, label=part, **bars)
        left += shares[part]
    ax.set(xlabel="share of the time, per cent", xlim=(0, 100))
    ax.invert_yaxis()
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def paired(model: str, data: str, *tags: str) -> pd.DataFrame:
    """Finished runs with these tags, with the highest memory of their process in MiB (``peak``)."""
    frame = pd.concat([results.tagged(model, data, tag) for tag in tags])
    frame = frame[frame["failed"].isna()]
    made = [one["provenance"] for one in frame["row"]]
    dtypes = [one["model"]["dtype"] for one in made]
    frame = frame.assign(dtype=dtypes, peak=[one["peak_memory_mb"] for one in made])
    attacks = [one["result"].get("attacks") for one in frame["row"]]
    found = [one and one["resistance_score"]["released"] for one in attacks]
    return frame.assign(resistance=found).astype({name: float for name in METRICS})
