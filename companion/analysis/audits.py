"""What the own-model path reached, on which models, and what that is owed to. Rows of
``companion.experiments.documents``."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from companion.analysis import results
from companion.analysis.tables import DASH, percent
from companion.store import rows

LIMITS = {
    "forgotten": "forgotten",
    "kept": "others kept",
    "near": "text around",
    "words": "ordinary text",
    "perplexity": "perplexity, rise",
}
WAYS = {  # a run's name → what it does otherwise than the tool
    "models": "as the tool does",
    "tokens": "the paper's tokens",
    "neurons": "the paper's neurons",
    "step": "the paper's step",
    "paper": "all three as in the paper",
}
SHOWN = {"share": (60, 100), "perplexity": (-2, 10)}  # per cent
COLUMNS = ["run", "model", "outcome", "memorised", "unlearned", "beside", "furthest", "minutes"]
COLUMNS += [f"{name}{what}" for name in LIMITS for what in ("", " within", " limit")]


def reached(folder=None) -> pd.DataFrame:
    """One line a recorded run with an edit: the run, its model, the outcome, what was reached by
    limit (shares), whether it is within, how many of the others that share a domain with an
    unlearned secret stayed, and the minutes."""
    found = []
    for row in rows.find(folder or rows.RECORDED, kind="documents").values():
        result, made = row["result"], row
        if "reached" not in result:
            continue
        line = {"run": row["data"], "model": results.title(row["model"])}
        line |= {"outcome": result["outcome"], "unlearned": result["unlearned"]}
        line |= {"memorised": result["memorised"], "furthest": result["edit"].get("furthest")}
        line["beside"] = f"{result['after']['beside']} of {result['before']['beside']}"
        line["minutes"] = sum(made["seconds"].values()) / 60
        for name, one in result["reached"].items():
            line |= {name: one["value"], f"{name} within": one["within"]}
            line[f"{name} limit"] = one["limit"]
        found.append(line)
    return pd.DataFrame(found, columns=COLUMNS)


def lines(frame: pd.DataFrame, *first: str) -> pd.DataFrame:
    """The runs of ``reached`` as texts; what is beyond a limit stands in italics."""
    table = frame[list(first)].copy()
    table["forgotten, of"] = [
        f"{round(share * n)} of {n}" for share, n in zip(frame["forgotten"], frame["unlearned"])
    ]
    for name, title in list(LIMITS.items())[1:]:
        pairs = zip(frame[name], frame[f"{name} within"], strict=True)
        table[f"{title}, %"] = [percent(v) if ok else f"*{percent(v)}*" for v, ok in pairs]
    table.insert(table.columns.get_loc("others kept, %") + 1, "same domain", frame["beside"])
    table["furthest column"] = frame["furthest"].map("{:.1f}".format)
    table["minutes"] = frame["minutes"].map("{:.0f}".format)
    return table.assign(outcome=frame["outcome"])


def panels(frame: pd.DataFrame, names: list[str]) -> Figure:
    """One panel a limit, one line a run: filled within the limit, which is dashed, else hollow; an
    arrow stands for what lies beyond the panel."""
    size = {"figsize": (9, 0.9 + 0.4 * len(frame)), "layout": "constrained"}
    fig, axes = plt.subplots(1, len(LIMITS), sharey=True, **size)
    for ax, (name, title) in zip(axes, LIMITS.items(), strict=True):
        least, most = SHOWN["perplexity" if name == "perplexity" else "share"]
        for y, (_, one) in enumerate(frame.iterrows()):
            fill = "C0" if one[f"{name} within"] else "none"
            value = 100 * one[name] if pd.notna(one[name]) else float("nan")
            marker = "<" if value < least else ">" if value > most else "o"
            look = {"color": "C0", "markerfacecolor": fill, "markersize": 7, "clip_on": False}
            ax.plot(min(max(value, least), most), y, marker, **look)
        if len(frame):
            ax.axvline(100 * frame[f"{name} limit"].iloc[0], color="C1", linestyle="--")
        ax.set(title=title, ylim=(max(len(frame), 1) - 0.5, -0.5), xlabel="per cent")
        ax.set_xlim(least, most + (most - least) / 20)
    axes[0].set_yticks(range(len(names)), names)
    return fig


def tried(trials: list[dict]) -> pd.DataFrame:
    """One line a setting that was tried: what it is, what it kept, in per cent, and its cost."""
    named = lambda one: ", ".join(f"{name} {value:.3g}" for name, value in one.items())
    frame = pd.DataFrame({"setting": [named(one["setting"]) for one in trials]})
    for name, title in LIMITS.items():
        frame[f"{title}, %"] = [percent(one["seen"][name]) for one in trials]
    frame["cost"] = [DASH if one["cost"] is None else f"{one['cost']:.2f}" for one in trials]
    frame["secrets"] = ["all" if one["whole"] else "a few" for one in trials]
    return frame.assign(chosen=["yes" if one.get("chosen") else "" for one in trials])


def shares(result: dict) -> pd.DataFrame:
    """What was wanted of a run and what came of it."""
    verdict = {True: "within", False: "missed"}
    return pd.DataFrame(
        {"": LIMITS[name], "wanted": "at most" if name == "perplexity" else "at least"}
        | {"limit, %": percent(one["limit"]), "reached, %": percent(one["value"])}
        | {"verdict": DASH if one["value"] is None and one["within"] else verdict[one["within"]]}
        for name, one in result["reached"].items()
    )
