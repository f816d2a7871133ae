"""Extraction resistance as tables: ours in four readings, beside the paper's (§4.4.3; Appendix "Extraction Resistance")."""

from __future__ import annotations

import math

import pandas as pd

from companion.pages import paper
from companion.pages.results import measured, measured_on
from companion.pages.tables import DASH, percent
from companion.record import rows
from companion.runs import methods
from revs.measures import metrics
from revs.measures.attacks import ATTACKS, READINGS

TITLES = {
    "resistance_score": "Resistance Score",
    "logit_lens": "Logit-Lens",
    "delta": "Delta",
    "perturbation": "Perturbation",
}
PAPER_COLUMNS = {
    "resistance_score": "Resistance Score",
    "logit_lens": "Logit-Lens@100",
    "delta": "Delta@100",
    "perturbation": "Perturb@100",
}
CLEARLY = 0.01  # less, and the layers inside show no more than the output
Spread = tuple[float, float]  # mean and standard deviation over seeds


def attacked(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs whose models were attacked."""
    return frame[frame["row"].map(lambda row: "attacks" in row["result"]).astype(bool)]


def means(frame: pd.DataFrame, reading: str) -> dict[str, dict[str, Spread]]:
    """Mean and standard deviation over seeds of each attack and of the Resistance Score, by method."""
    found = {}
    for name, part in attacked(frame).groupby("method", sort=False):
        found[name] = {
            attack: metrics.summary(
                [row["result"]["attacks"][attack][reading] for row in part["row"]]
            )
            for attack in TITLES
        }
    return found


def printed(label: str, dataset: str) -> dict[str, dict[str, Spread]]:
    """The paper's rows of an extraction table, as shares, by our names."""
    cells = paper.table(label)
    cells = cells[cells["dataset"] == dataset].set_index(["row", "column"])
    found: dict[str, dict[str, Spread]] = {}
    for name, entry in methods.registry().items():
        for attack, column in PAPER_COLUMNS.items():
            if (entry["title"], column) in cells.index:
                cell = cells.loc[(entry["title"], column)]
                found.setdefault(name, {})[attack] = (
                    cell["value"] / 100,
                    cell["std"] / 100 if cell["std"] is not None else math.nan,
                )
    return found


def printed_tables() -> dict[str, dict[str, dict[str, dict[str, Spread]]]]:
    """Both extraction tables of the paper: data set → the paper's model → method → attack."""
    return {
        data: {name: printed(label, dataset) for name, label in paper.EXTRACTION.items()}
        for data, dataset in methods.PAPER_DATA.items()
    }


def caption(model: str, found: dict[str, pd.DataFrame], data: str) -> str:
    """What an extraction table shows and what it was measured on."""
    return f"Extraction resistance on {methods.PAPER_DATA[data]} at k = 100, in per cent, mean ± standard deviation over seeds, read as the released code does. Ours: {measured_on(model, {of: attacked(frame) for of, frame in found.items()}, data)}; the paper: six seeds, as printed."


def table(
    ours: dict[str, dict[str, Spread]], theirs: dict[str, dict[str, dict[str, Spread]]]
) -> pd.DataFrame:
    """Method by method: ours, then each of the paper's models."""
    lines = []
    for name, entry in methods.registry().items():
        for whose, values in [
            ("ours", ours),
            *((f"paper, {model}", values) for model, values in theirs.items()),
        ]:
            if name in values:
                lines.append(
                    {"method": entry["title"], "measured": whose}
                    | {title: percent(*values[name][attack]) for attack, title in TITLES.items()}
                )
    return pd.DataFrame(lines)


def black_box(frame: pd.DataFrame) -> dict[str, Spread]:
    """Mean and standard deviation over seeds of the resistance to one who sees the last layer only, by method."""
    return {
        name: metrics.summary([row["result"]["attacks"]["black_box"] for row in part["row"]])
        for name, part in attacked(frame).groupby("method")
    }


def specificity(frame: pd.DataFrame) -> dict[str, Spread]:
    """Mean and standard deviation over seeds of the specificity of the runs that were attacked, by method."""
    return {
        name: metrics.summary(part["specificity"].tolist())
        for name, part in attacked(frame).groupby("method")
    }


def readings(frame: pd.DataFrame) -> pd.DataFrame:
    """The Resistance Score of every method in all four readings, the attack that found most, what is left for one who sees the last layer only, and what the edit left of the other secrets."""
    by_reading = {reading: means(frame, reading) for reading in READINGS}
    outside, kept = black_box(frame), specificity(frame)
    lines = []
    for name, entry in methods.registry().items():
        if name in by_reading["per_example"]:
            cells = {
                reading.replace("_", " "): percent(*by_reading[reading][name]["resistance_score"])
                for reading in READINGS
            }
            weakest = min(ATTACKS, key=lambda attack: by_reading["per_example"][name][attack][0])
            lines.append(
                {"method": entry["title"]}
                | cells
                | {
                    "most successful attack": TITLES[weakest],
                    "black box": percent(*outside[name]),
                    "specificity": percent(*kept[name]),
                }
            )
    return pd.DataFrame(lines)


def answer(frame: pd.DataFrame, data: str) -> str:
    """Does a model after REVS still know what it no longer says: its resistance from outside and inside and its place among the methods, what Logit-Lens sees of inner layers beside Efficacy, and the method that resists most; empty if it was not attacked."""
    views = {
        "to one who sees the last layer only, after the perturbed prompt,": black_box(frame)
    } | {
        words: {name: values["resistance_score"] for name, values in means(frame, reading).items()}
        for reading, words in (
            ("per_example", "to one who reads every layer, per example,"),
            ("released", "as the released code reads it"),
        )
    }
    kept = specificity(frame)
    if "revs" not in kept:
        return ""
    shown = {
        words: {name: values[name][0] for name in kept if name not in ("unedited", "random")}
        for words, values in views.items()
    }
    said = [
        f"{words} **{percent(values['revs'])}** (place {1 + sum(value > values['revs'] for value in values.values())} of {len(values)})"
        for words, values in shown.items()
    ]
    inside = list(shown.values())[1]
    text = f"**{methods.PAPER_DATA[data]}**: the resistance of REVS is {', '.join(said[:-1])} and {said[-1]}, with a specificity of {percent(kept['revs'][0])}. "
    lens, outside = (
        means(frame, "per_example")["revs"]["logit_lens"][0],
        attacked(frame).groupby("method")["efficacy"].mean()["revs"],
    )
    seen = f"per example Logit-Lens over all layers is **{percent(lens)}** where Efficacy, at the output, is **{percent(outside)}**."
    text += (
        f"It still knows some of what it no longer says: {seen}"
        if outside - lens > CLEARLY
        else f"No layer inside shows more than the output does: {seen}"
    )
    most = max(inside, key=inside.get)
    return text + (
        ""
        if most == "revs"
        else f" Per example {methods.registry()[most]['title']} resists most, {percent(inside[most])}, with a specificity of {percent(kept[most][0])}."
    )


def before(frame: pd.DataFrame, theirs: dict[str, dict[str, dict[str, Spread]]]) -> pd.DataFrame:
    """The unedited model, attack by attack: resistance in all four readings, and what the paper prints for its models; empty without such rows."""
    by_reading = {reading: means(frame, reading).get("unedited") for reading in READINGS}
    if not by_reading["released"]:
        return pd.DataFrame()
    return pd.DataFrame([
        {"attack": TITLES[attack]} | {reading.replace("_", " "): percent(*values[attack]) for reading, values in by_reading.items()}
        | {f"paper, {model}": percent(*values["unedited"][attack]) if "unedited" in values else DASH for model, values in theirs.items()}
        for attack in ATTACKS
    ])  # fmt: skip


def rises(frame: pd.DataFrame, k: int = 100) -> tuple[float, float] | None:
    """Of the unedited model's target tokens: the share of (token, layer) pairs in which the token is among the k whose logits change most, and of tokens that are so in no layer; None without such rows."""
    depths = [
        layers
        for row in attacked(frame[frame["method"] == "unedited"])["row"]
        for layers in rows.items(row)["delta"].dropna()
    ]
    tokens = [token for layers in depths for token in zip(*layers)]
    if not tokens:
        return None
    return metrics.mean([float(r < k) for token in tokens for r in token]), metrics.mean(
        [float(min(token) >= k) for token in tokens]
    )


def why_delta(frames: dict[str, pd.DataFrame]) -> str:
    """What those shares are, data set by data set, and what each reading makes of them."""
    found = {
        methods.PAPER_DATA[data]: shares
        for data, frame in frames.items()
        if (shares := rises(frame))
    }
    if not found:
        return ""
    each = lambda place: ", ".join(
        f"{percent(shares[place])} per cent on {data}" for data, shares in found.items()
    )
    return (
        f"Two shares explain all four columns. A target token is among the hundred that move most in few of its layers: in {each(0)} of all pairs of a token and a layer. A mean over pairs (*released*) counts all the others as resistance, and hardly a layer holds *all* tokens of a secret at once, as the equation asks (*per example*). "
        f"And many tokens are among them in no layer at all: {each(1)}. One such token keeps its secret whole when candidates of all layers are put together (*union*); to find the others, one token in one layer must be enough (*token wise*)."
    )


def perturbations(model: str, data: str) -> pd.DataFrame:
    """The runs whose models were asked with prompts changed in several ways."""
    frame = measured(model, data)
    return frame[frame["tag"] == "perturbations"]


def strategies(model: str, data: str) -> pd.DataFrame:
    """Resistance that is left after each strategy of perturbing a prompt (``revs.measures.perturbations``), by method, seed 0; empty without rows."""
    found = {
        methods.registry()[run["method"]]["title"]: run["row"]["result"]["perturbations"]
        for run in perturbations(model, data).to_dict("records")
    }
    names = next(iter(found.values()), {})
    return pd.DataFrame(
        [
            {"strategy": name}
            | {
                f"{title}, {reading.replace('_', ' ')}": percent(one[name][reading])
                for title, one in found.items()
                for reading in ("released", "per_example")
            }
            for name in names
        ]
    )


def perturbed(frame: pd.DataFrame, theirs: dict[str, dict[str, dict[str, Spread]]]) -> pd.DataFrame:
    """Resistance to a perturbed prompt before unlearning and after it with REVS, and how many times as high it is: ours and the paper's models; empty without such rows."""
    found = {"ours": means(frame, "released")} | {
        f"paper, {model}": values for model, values in theirs.items()
    }
    pairs = {
        whose: (values["unedited"]["perturbation"], values["revs"]["perturbation"])
        for whose, values in found.items()
        if {"unedited", "revs"} <= set(values)
    }
    return pd.DataFrame(
        [
            {
                "": whose,
                "before": percent(*before),
                "after REVS": percent(*after),
                "times as high": f"{after[0] / before[0]:.2f}" if before[0] else DASH,
            }
            for whose, (before, after) in pairs.items()
        ]
    )


def by_layer(frame: pd.DataFrame, attack: str, k: int = 100) -> dict[str, list[float]]:
    """Mean Efficacy@k over unlearned secrets, layer by layer, all seeds together, by method: where an attack gets through."""
    found = {}
    for name, part in attacked(frame).groupby("method", sort=False):
        if depths := [
            layers
            for row in part["row"]
            for layers in rows.items(row)[attack].dropna()
        ]:
            found[name] = [
                metrics.mean([max(metrics.score(r, k) for r in layers[l]) for layers in depths])
                for l in range(len(depths[0]))
            ]
    return found


def points(found: dict[str, dict[str, list[float]]]) -> pd.DataFrame:
    """What ``by_layer`` found on several data sets, one line a layer."""
    return pd.DataFrame(
        [
            {"data": data, "method": name, "layer": layer, "efficacy": value}
            for data, curves in found.items()
            for name, values in curves.items()
            for layer, value in enumerate(values)
        ]
    )


def every_reading(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Each attack on each method in each of the four readings, one line a number: mean and standard deviation over seeds, in per cent."""
    return pd.DataFrame([
        {"data": methods.PAPER_DATA[data], "method": methods.registry()[name]["title"], "attack": TITLES[attack], "reading": reading, "mean": 100 * mean, "std": 100 * std}
        for data, frame in frames.items() for reading in READINGS for name, values in means(frame, reading).items() for attack, (mean, std) in values.items()
    ])  # fmt: skip


def covered(values: dict[str, Spread]) -> float:
    """Share of a radar's triangle that a method's three resistances cover: a sum of products of two neighbours, which grows with the square."""
    radii = [values[attack][0] for attack in ATTACKS]
    return sum(one * other for one, other in zip(radii, radii[1:] + radii[:1])) / len(radii)
