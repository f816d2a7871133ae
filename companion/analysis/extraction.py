"""Extraction resistance as frames: four aggregations of each attack, and the paper's numbers
(§4.4.3; Appendix "Extraction Resistance")."""

import pandas as pd

from companion.analysis import results, tables
from companion.analysis.tables import decimal, percent, spoken_list
from companion.experiments import methods
from companion.store import paper, rows
from revs.measures import metrics
from revs.measures.attacks import AGGREGATIONS

K = 100  # candidates of an attack
TITLES = {
    "resistance_score": "Resistance Score",
    "logit_lens": "Logit-Lens",
    "delta": "Delta",
    "perturbation": "Perturbation",
}


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """``results.scores`` of each attack and of the Resistance Score, by ``aggregation``, of which
    "black box" is the last layer alone."""
    found, parts = results.having(frame, "attacks"), []
    for aggregation in AGGREGATIONS:
        part = results.scores(resistance(found, aggregation), of=TITLES)
        parts.append(part.assign(aggregation=aggregation.replace("_", " ")))
    outside = [row["result"]["attacks"]["black_box"] for row in found["row"]]
    last = results.scores(found.assign(outside=outside), of={"outside": "black box"})
    return pd.concat([*parts, last.assign(aggregation="black box")])


def resistance(frame: pd.DataFrame, aggregation: str) -> pd.DataFrame:
    """The attacked runs with their resistance to each attack in one aggregation, as shares."""
    found = results.having(frame, "attacks")
    attacks = [row["result"]["attacks"] for row in found["row"]]
    return found.assign(**{name: [one[name][aggregation] for one in attacks] for name in TITLES})


def beside_paper(found: pd.DataFrame) -> pd.DataFrame:
    """Of ``scores``, those that are aggregated as released, and the paper's after them."""
    return pd.concat([found[found["aggregation"] == "released"], results.printed(paper.EXTRACTION)])


def by_layer(frame: pd.DataFrame, attack: str) -> pd.DataFrame:
    """Mean Efficacy@100 of the unlearned secrets, layer by layer, all seeds together: where an
    attack gets through. A secret counts by its best hidden token."""
    lines = [
        {"data": run["data"], "method": run["method"], "layer": layer}
        | {"efficacy": max(metrics.score(r) for r in ranks)}
        for run in results.having(frame, "attacks").to_dict("records")
        for layers in rows.per_example(run["row"])[attack].dropna()
        for layer, ranks in enumerate(layers)
    ]
    groups = pd.DataFrame(lines).groupby(["data", "method", "layer"], sort=False)["efficacy"]
    return results.titled(groups.agg(lambda part: metrics.mean(part.tolist())).reset_index())


def upper(layers: pd.DataFrame) -> pd.DataFrame:
    """Of ``by_layer``: from two layers below the first in which an attack finds anything."""
    return layers[layers["layer"] >= layers.loc[layers["efficacy"] < 0.99, "layer"].min() - 2]


def strategies(frame: pd.DataFrame) -> pd.DataFrame:
    """Resistance, in per cent, after each way of changing a prompt (revs.measures.attacks): one
    line per run, strategy and aggregation."""
    lines = [
        {"data": run["data"], "method": run["method"], "strategy": name, "aggregation": aggregation}
        | {"mean": 100 * found[aggregation], "std": float("nan")}
        for run in frame.to_dict("records")
        for name, found in run["row"]["result"]["perturbations"].items()
        for aggregation in ("released", "per_example")
    ]
    columns = ["data", "method", "strategy", "aggregation", "mean", "std"]
    return results.titled(pd.DataFrame(lines, columns=columns))


# --- tables and sentences ------------------------------------------------------------------------

ATTACKED = ["Logit-Lens", "Delta", "Perturbation"]


def aggregation_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The Resistance Score of every method in each aggregation, that of the last layer alone,
    specificity, and the attack that finds most per example, as texts."""
    found = scores(frame)
    attacks = found.query("aggregation == 'per example' and metric != 'Resistance Score'")
    weakest = attacks.pivot(index=["data", "method"], columns="metric", values="mean")
    weakest = weakest[ATTACKED]
    best = weakest.idxmin(axis="columns").where(weakest.min(axis="columns") < 100, tables.DASH)
    best = best.rename("most successful attack")
    kept = results.scores(frame, of={"specificity": "specificity"})
    some = found[found["metric"].isin(["Resistance Score", "black box"])]
    columns = pd.concat([some, kept.assign(aggregation="specificity")])
    table = tables.wide(columns, "data", "method", columns="aggregation")
    return table.join(best, on=["data", "method"])


def unedited_table(found: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """The unedited models under each attack: ours in each aggregation, and the paper's."""
    some = pd.concat([found, paper.assign(aggregation=paper["measured"])])
    some = some[(some["method"] == "Unedited") & some["metric"].isin(ATTACKED)]
    table = tables.wide(some, "data", "metric", columns="aggregation")
    return table.rename(columns={"metric": "attack"})


def before_and_after(found: pd.DataFrame) -> pd.DataFrame:
    """Resistance to perturbed prompts of the unedited model and after REVS, and their ratio."""
    some = found[(found["metric"] == "Perturbation")].astype({"measured": str})
    some = some[some["method"].isin(["Unedited", "REVS"])].astype({"method": str})
    table = tables.wide(some, "data", "measured", columns="method")
    mean = some.pivot(index=["data", "measured"], columns="method", values="mean")
    ratio = (mean["REVS"] / mean["Unedited"]).map("{:.2f}".format).rename("times as high")
    table = table.join(ratio, on=["data", "measured"])
    table = table.rename(columns={"Unedited": "before", "REVS": "after REVS"})
    return table[["data", "measured", "before", "after REVS", "times as high"]]


def answer(frame: pd.DataFrame) -> dict[str, str]:
    """What the page says of the main comparison on SSN, for ``glue``: how many targets of each
    method are in the lower half of the vocabulary (``bottom``), and the methods that reach a half
    in efficacy, and not in resistance per example (``shallow``)."""
    runs = frame[frame["data"] == "ssn"]
    targets = results.ranks(runs)
    half = targets["rank"].max() / 2
    low = 100 * targets["rank"].ge(half).groupby(targets["method"].astype(str)).mean()
    low = low.drop(map(methods.title, results.CONTROLS), errors="ignore")
    low = low.sort_values(ascending=False, kind="stable")
    bottom = ", ".join(f"{title} {decimal(value)}" for title, value in low.items())
    means = runs.groupby("method")[["efficacy", "resistance"]].mean()
    means = means.drop([*results.CONTROLS], errors="ignore")
    hidden = means.index[(means["efficacy"] >= 0.5) & (means["resistance"] < 0.5)]
    return {"bottom": bottom, "shallow": spoken_list([*hidden.map(methods.title)] or ["none"])}


def aggregation_answer(frame: pd.DataFrame, data: str) -> dict[str, str]:
    """What the page on aggregations says of a data set, for ``glue``: REVS's Resistance Score in
    three, and how often Delta finds a token of the unedited model."""
    some = results.having(frame[frame["data"] == data], "attacks")
    said = {"title": results.DATA.get(data, data)}
    for name in ("released", "per_example", "token_wise"):
        found = resistance(some[some["method"] == "revs"], name)["resistance_score"]
        said[f"revs_{name}"] = percent(found.mean())
    unedited = some.loc[some["method"] == "unedited", "row"]
    deltas = [rows.per_example(row)["delta"].dropna() for row in unedited]
    ranks = pd.concat(deltas).explode().explode()  # of each layer, then of each token
    return said | {"among": percent((ranks < K).mean())}
