"""The ledger: every main claim with a verdict, and how much that verdict is worth.

``chance``: how often the claim would hold with the methods' names permuted. ``sure``: in how many
bootstrap samples of adapters and splits the verdict is the same. Most curves, ablations
and benchmarks have one run per setting, which leaves ``sure`` unknown.
"""

import math
import random
from collections.abc import Iterable

import numpy as np
import pandas as pd

from companion.analysis import abilities, ablations, extraction, main_comparison, tradeoffs
from companion.analysis.results import having, measured
from companion.analysis.statistics import cell_weights
from companion.analysis.tables import DASH, percent
from companion.claims.claims import CLAIMS, Claim
from companion.data import models
from companion.experiments import methods

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "open"
VERDICT = {True: HOLDS, False: FAILS, None: UNKNOWN}
PERMUTATIONS, SAMPLES = 100, 200
SURE = 0.95  # of the samples: below it a verdict is weak
BENCHMARKED = ("qwen2.5-coder-1.5b", "machine-email")  # the model that answers above chance
PERCENT = ["unlearning_score", "efficacy", "generalization", "specificity"]
PERCENT += ["resistance_released", "perturbation", "perplexity_rise", "columns"]


# --- what decides --------------------------------------------------------------------------------


def runs(model: str) -> pd.DataFrame:
    """The runs of the main comparison with every measure that a claim is about, in per cent."""
    frame = main_comparison.runs(model)
    shape = models.registry().get(model, {}).get("shape", {"layers": 1, "ff": 1})
    frame = frame.assign(columns=frame["columns"].astype(float) / (shape["layers"] * shape["ff"]))
    frame[PERCENT] = 100 * frame[PERCENT].astype(float)
    return frame[frame["method"].isin(["unedited", *methods.paper_methods()])]


def evidence(kind: str, model: str, data: str, frame: pd.DataFrame):
    """What a claim of this kind decides on."""
    part = frame[frame["data"] == data]
    if kind == "means":
        return part.groupby("method")[PERCENT].mean()
    if kind == "scores":
        part = part[part["method"].isin(methods.paper_methods())]
        return part.pivot_table("unlearning_score", ["adapter", "split"], "method")
    if kind == "ablations":
        return {name: ablations.score_by_choice(name, model, data) for name in ablations.ALL}
    if kind == "benchmarks":
        found = abilities.answers(abilities.runs(*BENCHMARKED))
        return found.reindex(["unedited", *methods.paper_methods()])
    if kind == "perturbations":
        found = extraction.strategies(having(measured(model, data), "perturbations"))
        found = found.query("method == 'REVS' and aggregation == 'released'")
        return found.set_index("strategy")["mean"]
    return getattr(tradeoffs, f"by_{kind}")(model, data)


def of_the_paper(data: str) -> pd.DataFrame:
    """The paper's own means on Llama-3-8B, in the shape of "means"."""
    titles = {words: name for name, words in main_comparison.TITLES.items()}
    titles |= {"Resistance Score": "resistance_released", "Perturbation": "perturbation"}
    printed = main_comparison.printed().xs(data, level="data")
    return printed.rename(columns=titles).reindex(columns=PERCENT)


# --- what a verdict is worth ---------------------------------------------------------------------


def chance(claim: Claim, found) -> float:
    """The share of the permutations of the methods' names in which a claim holds; nan where names
    have no bearing on it."""
    if claim.evidence in ("benchmarks", "perturbations", "scores"):
        return math.nan
    draw, held = random.Random(0), []
    for _ in range(PERMUTATIONS):
        answer = claim.decide(permuted(found, draw))
        held += [answer[0]] if answer else []
    return sum(held) / len(held) if len(set(held)) == 2 else math.nan


def permuted(found, draw: random.Random):
    """The evidence with its methods' names permuted; the unedited model keeps its own."""
    if isinstance(found, dict):
        if all(isinstance(one, pd.Series) for one in found.values()):  # ablations
            return {name: one.set_axis(shuffled(one.index, draw)) for name, one in found.items()}
        return dict(zip(shuffled(found, draw), found.values(), strict=True))
    return found.set_axis(shuffled(found.index, draw))


def shuffled(names: Iterable[str], draw: random.Random) -> list[str]:
    """The names in another order, the unedited model in its place."""
    names = list(names)
    others = [name for name in names if name != "unedited"]
    drawn = iter(draw.sample(others, len(others)))
    return [name if name == "unedited" else next(drawn) for name in names]


def resampled(part: pd.DataFrame) -> list[pd.DataFrame]:
    """The methods' means in SAMPLES bootstrap samples of adapters and splits; empty with a single
    adapter or split, whose effect no sample can show."""
    if min(part["adapter"].nunique(), part["split"].nunique()) < 2:
        return []
    names = sorted(part["method"].unique())
    of = (part["method"].to_numpy()[None] == np.array(names)[:, None]).astype(float)
    values = part[PERCENT].to_numpy(dtype=float)
    known, values = ~np.isnan(values), np.nan_to_num(values)
    found = []
    for weight in cell_weights(part)[:SAMPLES]:
        with np.errstate(invalid="ignore"):
            mean = (of * weight) @ values / ((of * weight) @ known)
        found.append(pd.DataFrame(mean, index=names, columns=PERCENT).dropna(how="all"))
    return found


def sure(claim: Claim, samples: list[pd.DataFrame], holds: bool) -> float:
    """The share of the samples in which the verdict is the same; nan without samples."""
    if claim.evidence != "means":
        return math.nan
    same = [answer[0] == holds for one in samples if (answer := claim.decide(one))]
    return sum(same) / len(same) if same else math.nan


# --- the ledger ----------------------------------------------------------------------------------


def ledger(model: str) -> pd.DataFrame:
    """One line per claim and data set: the verdict, what we saw, what the paper's own table says,
    ``chance`` and ``sure`` as shares, and whether the verdict is ``weak``."""
    frame, lines = runs(model), []
    drawn = {data: resampled(part.reset_index(drop=True)) for data, part in frame.groupby("data")}
    for claim, data in ((one, data) for one in CLAIMS for data in one.data):
        found = evidence(claim.evidence, model, data, frame)
        answer = claim.decide(found) if claim.has_room(found) else None
        line = {"claim": claim.says, "where": claim.place, "data": methods.PAPER_DATA[data]}
        line |= {"verdict": VERDICT[answer and answer[0]], "ours": answer[1] if answer else DASH}
        theirs = claim.decide(of_the_paper(data)) if claim.evidence == "means" else None
        line["in the paper's table"] = VERDICT[theirs[0]] if theirs else DASH
        line["chance"] = chance(claim, found) if answer else math.nan
        line["sure"] = sure(claim, drawn.get(data, []), answer[0]) if answer else math.nan
        line["weak"] = bool(answer) and not line["sure"] >= SURE
        lines.append(line)
    return pd.DataFrame(lines)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The ledger as texts."""
    shares = {name: frame[name].map(percent) for name in ("chance", "sure")}
    return frame.assign(**shares, weak=frame["weak"].map({True: "weak", False: ""}))


def answer(frame: pd.DataFrame) -> dict[str, int | float]:
    """What pages say of the ledger, for ``glue``: counts of claims, and what chance would hold."""
    known = frame[frame["verdict"] != UNKNOWN]
    asked = known["chance"].notna()
    return {
        "claims_known": len(known),
        "claims_held": int((known["verdict"] == HOLDS).sum()),
        "claims_asked": int(asked.sum()),
        "claims_asked_held": int((known["verdict"][asked] == HOLDS).sum()),
        "claims_chance": float(known["chance"].sum()),
    }


def against_the_paper() -> pd.DataFrame:
    """The claims about tables that the paper's own printed numbers contradict."""
    lines = []
    for claim in (one for one in CLAIMS if one.evidence == "means"):
        for data in claim.data:
            answer = claim.decide(of_the_paper(data))
            if answer and not answer[0]:
                lines.append((claim.place, f"{methods.PAPER_DATA[data]}: {claim.says}", answer[1]))
    return pd.DataFrame(lines, columns=["where", "the text", "printed"])
