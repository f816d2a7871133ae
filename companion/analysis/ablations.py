"""One thing changed at a time: REVS on seed 0 beside the paper's tables (§5; Appendix "Ablations").

Every run is compared with the run tagged ``base``; single digits and the first layer of the
least-squares write are read on split 1, without one. Results are in per cent.
"""

import pandas as pd

from companion.analysis import main_comparison
from companion.analysis.results import measured, require
from companion.analysis.tables import METRICS
from companion.experiments import methods
from companion.experiments.settings import ADAPTER
from companion.store import paper

RESISTANCE = "Resistance"  # the Resistance Score as the released code reads it
PAPER = {"Efficacy@100": "Efficacy", "Resistance Score": RESISTANCE}  # the paper's words

# the rows of the paper's tables: our tag, our words, the paper's words
NEURONS = [
    ("neurons-random", "random", "Random"),
    ("neurons-gradient", "gradient", "Gradient-based"),
    ("neurons-rank", "rank", "Rank"),
    ("neurons-activations", "activations", "Activations"),
    ("base", "hybrid", "Rank & Activations (hybrid)"),
]
ZEROING = [(f"zeroing-{n}", f"zeroing, n = {n}", f"ZERO (n={n})") for n in (5, 2, 1)]
TOKENS = [
    ("selection-tokensfrequent", "most frequent", "Most Frequent"),
    ("selection-tokensfirst", "first", "First"),
    ("selection-tokensrandom", "random", "Random"),
    ("base", "rarest", "Rarest"),
]
ALL = {
    "neurons": ("tab:ablation_neuron_selection", NEURONS),
    "zeroing": ("tab:method_results", [*ZEROING, ("base", "REVS", "REVS")]),
    "tokens": ("tab:ablation_token_method", TOKENS),
}


def scores(model: str, data: str) -> pd.DataFrame:
    """The runs of seed 0 by tag; ``changed`` are the settings in which each differs from the base.

    Refused if there is no base.
    """
    frame = main_comparison.measures(measured(model, data).query("seed == 0"))
    frame = frame.set_index("tag", drop=False).sort_index()
    require(frame[frame.index == "base"], f"the base of {model} on {data}", "ablations")
    frame[list(METRICS)] *= 100
    frame["resistance"] = 100 * frame["resistance_released"]
    given = frame["row"].map(lambda row: row["settings"]["hyperparameters"])
    usual = given["base"]
    frame["changed"] = [{n: v for n, v in one.items() if usual.get(n) != v} for one in given]
    return frame


WAYS = {"digits": "digits", "digits-protect": "digits, texts spared", "": "groups"}  # by tag
SINGLE = "seed1-keep"  # the adapter whose model reads single digits


def digit_ways(model: str, data: str) -> pd.DataFrame:
    """Runs by the ``way`` in which the model reads digits: one token per digit, the same with other
    texts to protect, or one token per group. Only splits that have single-digit runs."""
    runs = measured(model, data)
    runs = runs[runs["failed"].isna() & runs["adapter"].isin([ADAPTER, SINGLE])]
    runs = runs[runs["tag"].isin(WAYS) & (runs["method"] != "unedited")]
    single = runs[runs["adapter"] == SINGLE]
    runs = runs[runs["seed"].isin(single["seed"]) & runs["method"].isin(single["method"])]
    runs = runs.sort_values("tag", key=lambda tags: tags.map(list(WAYS).index), kind="stable")
    return main_comparison.measures(runs.assign(way=runs["tag"].map(WAYS)))


def curve(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """The base run of ``scores``, and the runs that differ from it in this setting alone."""
    alone = runs["tag"].str.startswith("curve") & runs["changed"].map(set).eq({name})
    return runs[alone | (runs["tag"] == "base")].sort_values(name)


def by_first_layer(model: str, data: str) -> pd.DataFrame:
    """The least-squares write from a ``first`` layer to the last, one line per run: its Unlearning
    Score, its resistance per example and its rise of perplexity, in per cent."""
    runs = measured(model, data)
    runs = runs[(runs["method"] == "least_squares") & runs["tag"].str.startswith("layers-")]
    first = runs["layers"].map(lambda layers: 0 if layers == "all" else min(layers))
    found = main_comparison.measures(runs[runs["failed"].isna()])
    columns = ["unlearning_score", "resistance", "perplexity_rise"]
    return (100 * found[columns]).assign(first=first).sort_values("first", ignore_index=True)


def data_sets(which: str, model: str) -> list[str]:
    """The data sets on which alternatives of one of the tables were run, beside the base."""
    tags = {tag for tag, *_ in ALL[which][1]}
    return [one for one in methods.PAPER_DATA if {"base"} < tags & set(measured(model, one)["tag"])]


def bases(which: str, model: str) -> pd.DataFrame:
    """The run on each data set that the alternatives of one of the tables are compared with;
    Refused if there is none."""
    found = [scores(model, data).loc[["base"]] for data in data_sets(which, model)]
    whole = pd.concat([pd.DataFrame(), *found], ignore_index=True)
    return require(whole, f"ablations of {model}", "ablations")


def beside(which: str, model: str) -> pd.DataFrame:
    """One of the paper's ablation tables: for each alternative our run on each data set that has
    one, as numbers, and the paper's line, as printed."""
    label, entries = ALL[which]
    words = {tag: ours for tag, ours, _ in entries}
    titles = [*METRICS.values(), RESISTANCE]
    found = []
    for data in data_sets(which, model):
        part = scores(model, data).query("tag in @words")[[*METRICS, "resistance", "columns"]]
        part = part.set_axis([*titles, "columns"], axis="columns").rename(index=words)
        found.append(part.assign(measured=f"ours, {methods.PAPER_DATA[data]}"))
    table = paper.table(label).replace({"column": PAPER})
    printed = table.pivot(index="row", columns="column", values="printed").reindex(columns=titles)
    printed = printed.rename(index={theirs: ours for _, ours, theirs in entries}).astype(object)
    whole = pd.concat([*found, printed.assign(measured="paper, Emails")]).rename_axis("alternative")
    whole = whole.reindex(columns=["measured", *titles, "columns"])
    return whole.loc[list(words.values())].reset_index()


def score_by_choice(which: str, model: str, data: str) -> pd.Series:
    """The Unlearning Scores of an ablation's alternatives, in per cent, by our words for them."""
    words = {tag: ours for tag, ours, _ in ALL[which][1]}
    frame = measured(model, data).query("seed == 0 and tag in @words").set_index("tag")
    return 100 * frame["unlearning_score"].rename(index=words).astype(float)
