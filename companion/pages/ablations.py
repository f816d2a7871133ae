"""One thing changed at a time: ablations, options and curves of REVS, beside the paper's tables (§5; Appendix "Ablations").

Everything here is seed 0, as in the paper, and compared with the run tagged ``base``.
"""

from __future__ import annotations

import pandas as pd

from companion.pages import paper
from companion.pages.results import (
    Means,
    describe_seeds,
    finetunes,
    means,
    measured,
    measured_on,
    runs,
)
from companion.pages.tables import DASH, METRICS, percent, shown
from companion.runs import methods

RESISTANCE = "Resistance"
# our columns, and the paper's words for them; it has no generalization here
PAPER_SCORES = {
    "Efficacy": "Efficacy@100",
    "Generalization": "",
    "Specificity": "Specificity",
    "Unlearning Score": "Unlearning Score",
    RESISTANCE: "Resistance Score",
}
CURVES = {
    "n_max": "n_max, neurons",
    "k": "k, neurons",
    "r_h": "r_h, share of the vocabulary",
    "r_n": "r_n, share of the vocabulary",
}

# the paper's tables: label, and its rows as (our tag, our words, the paper's words)
NEURONS = ("tab:ablation_neuron_selection", [
    ("neurons-random", "random", "Random"),
    ("neurons-gradient", "gradient", "Gradient-based"),
    ("neurons-rank", "rank", "Rank"),
    ("neurons-activations", "activations", "Activations"),
    ("base", "hybrid", "Rank & Activations (hybrid)"),
])  # fmt: skip
ZEROING = ("tab:method_results", [
    ("zeroing-5", "zeroing, n = 5", "ZERO (n=5)"),
    ("zeroing-2", "zeroing, n = 2", "ZERO (n=2)"),
    ("zeroing-1", "zeroing, n = 1", "ZERO (n=1)"),
    ("base", "REVS", "REVS"),
])  # fmt: skip
TOKENS = ("tab:ablation_token_method", [
    ("selection-tokensfrequent", "most frequent", "Most Frequent"),
    ("selection-tokensfirst", "first", "First"),
    ("selection-tokensrandom", "random", "Random"),
    ("base", "rarest", "Rarest"),
])  # fmt: skip
ALL = {"neurons": NEURONS, "zeroing": ZEROING, "tokens": TOKENS}


def scores(model: str, data: str) -> pd.DataFrame:
    """The runs of seed 0 by tag, results in per cent."""
    frame = measured(model, data)
    frame = frame[frame["seed"] == 0].set_index("tag", drop=False).sort_index()
    if "base" not in frame.index:
        raise ValueError(
            f"There is no row 'base' of {model} on {data}, which ablations are compared with: run `make ablations`, or look for recorded rows."
        )
    frame[list(METRICS)] *= 100
    return frame


def compared(which: str, model: str) -> dict[str, pd.DataFrame]:
    """The runs of seed 0 on each data set that has one of an ablation's rows beside the base; nothing if none has."""
    tags, found = {tag for tag, _, _ in ALL[which][1]}, {}
    for data in methods.PAPER_DATA:
        try:
            frame = scores(model, data)
        except ValueError:  # no base
            continue
        if len(tags & set(frame.index)) > 1:
            found[data] = frame[frame["tag"].isin(tags)]
    return found


def made_on(which: str, model: str) -> str:
    """What an ablation was made on: the model and, data set by data set, the seed and the fine-tune."""
    return measured_on(model, compared(which, model), how="`make ablations adopt` does it")


def ablation(which: str, model: str) -> pd.DataFrame:
    """One of the paper's ablation tables: for each alternative a line of ours on each data set, in per cent, and the paper's as printed."""
    label, entries = ALL[which]
    frames, printed = (
        compared(which, model),
        paper.table(label).set_index(["row", "column"])["printed"],
    )
    lines = []
    for tag, ours, theirs in entries:
        for data, frame in frames.items():
            if tag in frame.index:
                run = frame.loc[tag]
                lines.append({"": ours, "measured": f"ours, {methods.PAPER_DATA[data]}"} | {title: shown(run[metric]) for metric, title in METRICS.items()}
                             | {RESISTANCE: resistance(run["row"]), "columns": f"{run['row']['result']['edit']['columns']:,}"})  # fmt: skip
        lines.append(
            {"": ours, "measured": "paper, Emails"}
            | {title: printed.get((theirs, column), DASH) for title, column in PAPER_SCORES.items()}
            | {"columns": DASH}
        )
    return pd.DataFrame(lines)


def winners(which: str, model: str) -> str:
    """The best of an ablation and its Unlearning Score on each data set, and the paper's."""
    label, entries = ALL[which]
    printed = paper.table(label)
    printed = printed[printed["column"] == "Unlearning Score"].set_index("row")["value"]
    theirs = max(entries, key=lambda entry: printed[entry[2]])
    said = []
    for data, frame in compared(which, model).items():
        ours = max(
            (entry for entry in entries if entry[0] in frame.index),
            key=lambda entry: frame.loc[entry[0], "unlearning_score"],
        )
        said.append(
            f"on {methods.PAPER_DATA[data]} **{ours[1]}** with an Unlearning Score of {frame.loc[ours[0], 'unlearning_score']:.1f}"
        )
    return (
        f"The best here is {', '.join(said)}"
        if said
        else "Ours is not measured yet (`make ablations adopt`)"
    ) + f"; in the paper it is {theirs[1]} with {printed[theirs[2]]:.1f}."


def resistance(row: dict) -> str:
    """The Resistance Score of a run, as the paper's code reads it (``revs.measures.attacks.released``); a dash if it was not attacked."""
    attacked = row["result"].get("attacks")
    return percent(attacked["resistance_score"]["released"]) if attacked else DASH


def same_neurons(model: str) -> str:
    """What the setting of each data set makes of the difference between hybrid and activations, a sentence each; empty without runs."""
    said = []
    for data, frame in compared("neurons", model).items():
        hp = frame.loc["base", "row"]["provenance"]["settings"]["hyperparameters"]
        if hp["n_max"] < hp["k"]:
            said.append(
                f" On {methods.PAPER_DATA[data]} the setting has $n_\\max = {hp['n_max']}$ and $k = {hp['k']}$: hybrid and activations may choose other neurons."
            )
        else:
            said.append(
                f" On {methods.PAPER_DATA[data]} the setting has $n_\\max = k = {hp['k']}$: hybrid and activations look at the same neurons, and differ only in the order in which they are edited."
            )
    return "".join(said)


def curves(model: str, data: str) -> dict[str, pd.DataFrame]:
    """For each of n_max, k, r_h and r_n the runs in which it alone differs from the base, with the base, in its order."""
    frame = scores(model, data)
    settings = {
        tag: row["provenance"]["settings"]["hyperparameters"] for tag, row in frame["row"].items()
    }
    usual, found = settings["base"], {}
    for name in CURVES:
        others = [other for other in usual if other != name]
        varied = frame[frame["tag"].str.match(f"curve-{name}[0-9]") | (frame["tag"] == "base")]
        same = [
            all(settings[tag].get(other) == usual[other] for other in others)
            for tag in varied["tag"]
        ]
        found[name] = varied[same].sort_values(name)
    return found


def knobs(found: dict[str, pd.DataFrame]) -> str:
    """By how much the Unlearning Score moves over each setting, and the one or two that move it most; or that there are no runs yet."""
    spread = {
        name: curve["unlearning_score"].max() - curve["unlearning_score"].min()
        for name, curve in found.items()
        if len(curve) > 1
    }
    missing = [f"`{name}`" for name in found if name not in spread]
    text = ""
    if spread:
        text = (
            "The Unlearning Score moves by "
            + ", ".join(f"{value:.0f} points over `{name}`" for name, value in spread.items())
            + f". {' and '.join(f'**`{name}`**' for name in sorted(spread, key=spread.get, reverse=True) if spread[name] > 0.9 * max(spread.values()))} move it most, over the values tried, which are not equally far apart."
        )
    return text + (
        f" Not measured here yet: {', '.join(missing)}. `make ablations adopt` measures what is missing."
        if missing
        else ""
    )


def on_curves(found: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The runs of all curves, each once."""
    return pd.concat(found.values()).drop_duplicates("name")


def best_on_curves(found: dict[str, pd.DataFrame]) -> tuple[dict, dict]:
    """The run with the highest Unlearning Score of all curves, and the base."""
    every = on_curves(found)
    return every.loc[every["unlearning_score"] == every["unlearning_score"].max()].iloc[
        0
    ].to_dict(), every.loc["base"].to_dict()


def what_differs(run: dict, usual: dict) -> str:
    """The setting in which two runs of a curve differ: `r_n` = 0.9."""
    return ", ".join(f"`{name}` = {run[name]:g}" for name in CURVES if run[name] != usual[name])


def chosen_here(found: dict[str, pd.DataFrame]) -> str:
    """What choosing on the split that is reported on would change; nothing can be said of a base without other runs."""
    best, usual = best_on_curves(found)
    text = f"Chosen on other people's secrets, the setting scores {usual['unlearning_score']:.1f} here. "
    if all(len(curve) == 1 for curve in found.values()):
        return text + "What a choice on this very split would change is not measured here yet."
    text += "The best of the runs on this page, chosen on the very split that it is scored on, is "
    if best["tag"] == "base":
        return text + "the same setting."
    return (
        text
        + f"{what_differs(best, usual)} with {best['unlearning_score']:.1f}: a gain of {best['unlearning_score'] - usual['unlearning_score']:.1f} points, of which the part that is luck would not carry over to other splits."
    )


def curves_table(found: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Every run of every curve."""
    lines = []
    for name, curve in found.items():
        for run in curve.to_dict("records"):
            lines.append(
                {
                    "varied": f"`{name}`",
                    "value": f"{run[name]:g}" + (" (base)" if run["tag"] == "base" else ""),
                }
                | {title: shown(run[metric]) for metric, title in METRICS.items()}
            )
    return pd.DataFrame(lines)


def varied(model: str, data: str) -> pd.DataFrame:
    """The runs with another option, and the base."""
    frame = scores(model, data)
    return frame[(frame["tag"] == "base") | frame["tag"].str.startswith("variants")].copy()


def variants(model: str, data: str) -> tuple[pd.DataFrame, dict[str, float]]:
    """One option changed at a time, beside the base.

    The numbers with it are the paper's schedule ÷ ours, and the efficacy, in per cent, of the two readings of the paper's text.
    """
    frame = varied(model, data)
    usual = frame.loc["base", "row"]["provenance"]["settings"]["hyperparameters"]
    frame["option"] = [
        ", ".join(
            f"{key} = {value}"
            for key, value in row["provenance"]["settings"]["hyperparameters"].items()
            if usual.get(key) != value
        )
        or "as in the core results"
        for row in frame["row"]
    ]
    edits = pd.DataFrame(
        [
            row["result"]["edit"] | {"seconds": row["provenance"]["seconds"]["unlearn"]}
            for row in frame["row"]
        ],
        index=frame["option"],
    )
    table = pd.DataFrame({"option": frame["option"]} | {title: [shown(value) for value in frame[metric]] for metric, title in METRICS.items()}
                         | {"columns": [f"{value:,}" for value in edits["columns"]], "norm": [f"{value:.1f}" for value in edits["norm"]], "seconds": [f"{value:.0f}" for value in edits["seconds"]]})  # fmt: skip
    efficacy = dict(zip(frame["option"], frame["efficacy"]))
    ratios = (
        edits.loc["schedule = paper", ["columns", "norm", "seconds"]]
        / edits.loc["as in the core results", ["columns", "norm", "seconds"]]
    )
    return table, ratios.to_dict() | {
        "text": efficacy["gate = mlp, stop = mlp"],
        "raw": efficacy["projection = raw"],
    }


def digits(model: str, data: str) -> tuple[pd.DataFrame, dict[str, dict[str, float]]]:
    """REVS under three tokenisations: the table, and by tokenisation what was memorised and the mean scores, in per cent.

    A tokenisation under which too little was memorised has no runs, and dashes in their place.
    """
    lines, found = [], {}
    names = {"keep": "single digits", "mean": "grouped, mean", "noise": "grouped, noise"}
    learnt = {
        settings["digits"]: row["result"]
        for row in finetunes(model, data)
        if not (settings := row["provenance"]["settings"])["autocast"]
    }
    for how, name in ((how, name) for how, name in names.items() if how in learnt):
        memorised = learnt[how]["memorised"] / learnt[how]["sentences"]
        found[how], line = (
            {"memorised": 100 * memorised},
            {"digits": name, "memorised": percent(memorised)},
        )
        try:
            frame = runs(model, data, "" if how == "noise" else f"digits-{how}")
        except ValueError:
            lines.append(line | {"seeds": DASH} | {title: DASH for title in METRICS.values()})
            continue
        values: Means = means(frame)
        found[how] |= {metric: 100 * value for metric, (value, _) in values["revs"].items()} | {
            "before": 100 * values["unedited"]["specificity"][0]
        }
        lines.append(
            line
            | {"seeds": describe_seeds(frame, "revs").split(" ", 1)[1]}
            | {title: percent(*values["revs"][metric]) for metric, title in METRICS.items()}
        )
    return pd.DataFrame(lines), found


def digits_sentence(found: dict[str, dict[str, float]]) -> str:
    """What the table of ``digits`` says; a way to read numbers without rows is named as missing."""
    words = {
        "keep": "single digits",
        "mean": "grouped digits and means",
        "noise": "grouped digits and noise",
    }
    measured = [
        f"with {words[how]} it leaves **{one['specificity']:.1f}** per cent of the *other* half (before the edit: {one['before']:.1f})"
        for how, one in found.items()
        if "specificity" in one
    ]
    text = "When half of the numbers are unlearned, " + "; ".join(measured) + ". "
    text += (
        "The same fine-tune memorises "
        + ", ".join(
            f"{one['memorised']:.1f} per cent of all sentences with {words[how]}"
            for how, one in found.items()
        )
        + "."
    )
    missing = [words[how] for how in words if "specificity" not in found.get(how, {})]
    return text + (
        f" Not measured here yet, or not memorised well enough to be measured: {', '.join(missing)}."
        if missing
        else ""
    )
