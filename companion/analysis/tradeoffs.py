"""How forgetting and keeping trade off (§5.1, Appendix "GPT-J-6B": fig:tradeoff_plots and
fig:combined_plots).

Efficacy against the number of candidates |C| needs no runs of its own: rows keep every rank. The
paper does not define its "edit strength": here it is one setting a method, all others as the search
chose them.
"""

from collections.abc import Callable

import pandas as pd

from companion.analysis import results
from companion.analysis.results import measured
from companion.analysis.tables import METRICS
from companion.experiments import methods
from companion.store import paper
from revs.measures import metrics

# the paper draws REVS against FT-L on Llama, and against MEMIT on GPT-J; each with its knob
KNOBS = {"ft_l": "norm_constraint", "memit": "clamp_norm_factor", "revs": "r_h"}
TUNED = ("base", "strength")  # tags of the runs of seed 0 with tuned settings
CANDIDATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
Curves = dict[str, pd.DataFrame]  # method → one line per point


def by_candidates(model: str, data: str) -> Curves:
    """Efficacy@|C| of the usual runs in per cent, mean and standard deviation over seeds."""
    frame, found = measured(model, data).query("tag == '' and failed.isna()"), {}
    for name in (one for one in KNOBS if one in set(frame["method"])):
        ranks = [results.target_ranks(row) for row in frame.loc[frame["method"] == name, "row"]]
        lines = []
        for k in CANDIDATES:
            shares = [metrics.mean([metrics.efficacy(one, k) for one in seed]) for seed in ranks]
            mean, std = metrics.summary(shares)
            lines.append({"method": name, "|C|": k, "efficacy": 100 * mean, "std": 100 * std})
        found[name] = pd.DataFrame(lines)
    return found


def by_strength(model: str, data: str) -> Curves:
    """Each method's runs over its ``knob``, weakest setting first, the tuned one among them."""
    return varied(model, data, KNOBS, "knob")


def by_targets(model: str, data: str) -> Curves:
    """Each method's runs over the number of secrets to forget, the tuned half among them."""
    return varied(model, data, dict.fromkeys(KNOBS, "forget"), "targets")


def varied(model: str, data: str, what: dict[str, str], by: str) -> Curves:
    """Each method's finished runs of seed 0, the tuned one and those that vary one setting
    (``what``) alone, in per cent, in the order of ``by``; ``targets`` counts the secrets unlearned.
    A method with only one run is left out."""
    frame = measured(model, data)
    frame = frame.query("seed == 0 and failed.isna()").copy()
    frame[list(METRICS)] *= 100
    frame["alone"] = [set(row["overrides"]) == {what.get(row["method"])} for row in frame["row"]]
    found = {}
    for name, knob in KNOBS.items():
        part = frame[frame["method"] == name]
        part = part.assign(tuned=part["tag"].isin(TUNED), knob=part.get(knob))
        part = part[part["tuned"] | part["alone"]]
        part = part.assign(targets=[row["result"]["after"]["forget"] for row in part["row"]])
        if len(part) > 1:
            found[name] = part.sort_values(by, ignore_index=True)
    return found


def points(curves: Callable[[str, str], Curves], *models: str) -> pd.DataFrame:
    """Every point of some models' curves on the paper's data sets; ``panel`` names both."""
    parts = [
        part.assign(panel=f"{title}, {results.short(model)}")
        for model in dict.fromkeys(models)
        for data, title in methods.PAPER_DATA.items()
        for part in curves(model, data).values()
    ]
    return pd.concat(parts, ignore_index=True)


def panels(
    candidates: pd.DataFrame, strength: pd.DataFrame, targets: pd.DataFrame, model: str, gptj: str
) -> pd.DataFrame:
    """Each panel of the paper's two figures, its data set, and how many points ours has."""
    kinds = {"c_size": candidates, "specificity": strength, "targets": targets}
    ours = {"fig:tradeoff_plots": (model, "ft_l"), "fig:combined_plots": (gptj, "memit")}
    lines = []
    for figure, (one, rival) in ours.items():
        for label in paper.tables()["figures"][figure]["panels"]:
            of = next(points for kind, points in kinds.items() if kind in label)
            data = next(title for key, title in methods.PAPER_KINDS.items() if f"_{key}" in label)
            drawn = of.loc[of["panel"] == f"{data}, {results.short(one)}", "method"]
            counts = [
                f"{methods.title(name)} {(drawn == name).sum()} points" for name in ("revs", rival)
            ]
            said = f"{results.title(one)}: {', '.join(counts)}"
            lines.append({"panel": f"`{label}`", "data": data, "ours": said})
    return pd.DataFrame(lines)
