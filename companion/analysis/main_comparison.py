"""The main comparison: every method on the same data, adapters and splits (§5).

A run unlearns one half of a data set's secrets (a split) from the model with one adapter. Adapters
and splits are crossed; every method has one run in each cell. The primary endpoint is the
Unlearning Score.
"""

import functools
import re

import numpy as np
import pandas as pd

from companion.analysis import results, statistics, tables
from companion.analysis.results import CONTROLS, in_order
from companion.analysis.tables import DASH, METRICS, comma_list, intervals, percent, spoken_list
from companion.experiments import methods
from companion.store import paper, rows

PRIMARY = "unlearning_score"
REFERENCES = ("revs", "least_squares")  # to which the other methods are compared
CELL = ["data", "adapter", "split", "method"]  # what tells the runs of the comparison apart
ADAPTER = r"seed\d+"  # adapters of the main comparison; others belong to ablations
DESIGNS = {1: "1: one fine-tune", 2: "2: fifteen fine-tunes", 3: "3: adapters"}
TITLES = {PRIMARY: METRICS[PRIMARY]} | METRICS
TITLES |= {
    "resistance": "Resistance, per example",
    "resistance_released": "Resistance, as released",
    "perplexity_rise": "Perplexity, rise",
    "kl": "KL, nats",
    "unchanged": "Next tokens unchanged",
    "token_rank": "Rank of a target in innocent text",
    "near": "Near secrets kept",
    "seconds": "Seconds",
    "memory": "Memory, MiB",
}
PLACES = {  # where they stand in a row's result
    "resistance": "attacks.resistance_score.per_example",
    "resistance_released": "attacks.resistance_score.released",
    "perturbation": "attacks.perturbation.released",
    "perplexity": "general_text.perplexity",
    "perplexity_before": "general_text.perplexity_before",
    "kl": "general_text.kl",
    "unchanged": "general_text.unchanged",
    "token_rank": "token_use.median_rank",
    "near": "near_secrets.forgotten",
}
LARGE = ("token_rank", "seconds", "memory")  # shown without decimals; all but KL are shares
BY_SECRET = {PRIMARY: statistics.score_by_secret, "resistance": statistics.resistance_by_secret}


# --- one line per run ----------------------------------------------------------------------------


def runs(model: str, *data: str, tag: str = "") -> pd.DataFrame:
    """The finished runs of the main comparison, or those with a tag, one line each: data, adapter
    (or the weights of a model without one), split, method, the measures of TITLES (nan where a run
    lacks one), and the other columns of ``results.measured``."""
    frame = results.measured(model, *(data or results.DATA))
    frame = frame[frame["failed"].isna() & (frame["tag"] == tag)]
    frame = frame.assign(split=frame["seed"])
    known = frame["adapter"].astype("string").str.fullmatch(ADAPTER).fillna(False).astype(bool)
    # a model that was trained here has memorised the secrets itself
    found = frame[known] if known.any() else frame.assign(adapter=frame["finetune"])
    return measures(found.reset_index(drop=True))


def measures(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of runs with resistance, integrity and token use as columns."""
    found = pd.json_normalize([row["result"] for row in frame["row"]])
    numbers = found.reindex(columns=PLACES.values()).set_axis(list(PLACES), axis="columns")
    numbers = numbers.set_axis(frame.index).astype(float)
    frame = frame.drop(columns=list(PLACES), errors="ignore").join(numbers)
    others = [*METRICS, "seconds", "memory"]
    frame[others] = frame[others].astype(float)
    return frame.assign(perplexity_rise=frame["perplexity"] / frame["perplexity_before"] - 1)


def beside(model: str, tag: str, *data: str) -> pd.DataFrame:
    """The runs with a tag (``tagged``), and the usual ones in the same cells."""
    other = runs(model, *data, tag=tag).assign(tagged=True)
    plain = runs(model, *data).merge(other[CELL])
    return pd.concat([plain.assign(tagged=False), other], ignore_index=True)


def beside_table(frame: pd.DataFrame) -> pd.DataFrame:
    """``beside`` as texts: each mean without the tag and with it."""
    if frame.empty:
        return frame
    columns = [PRIMARY, "efficacy", "specificity", "resistance", "perplexity_rise"]
    means = frame.groupby(["data", "method", "tagged"])[columns].mean().map(percent)
    both = means.xs(False, level="tagged") + " → " + means.xs(True, level="tagged")
    return results.titled(in_order(both.rename(columns=TITLES).reset_index()))


def design(frame: pd.DataFrame) -> str:
    """How many adapters and splits a data set's runs have: "4 adapters × 4 splits"."""
    adapters, splits = frame["adapter"].nunique(), frame["split"].nunique()
    return f"{adapters} adapter{'s'[: adapters > 1]} × {splits} split{'s'[: splits > 1]}"


# --- means, intervals and differences ------------------------------------------------------------


def samples(frame: pd.DataFrame, column: str = PRIMARY) -> np.ndarray:
    """One measure of one data set's runs in each draw of the bootstrap, draws × runs. Secrets are
    drawn where their values are recorded."""
    fixed = np.tile(frame[column].to_numpy(dtype=float), (statistics.DRAWS, 1))
    has_items = [bool(row.get("values")) for row in frame["row"]]
    if column in BY_SECRET and any(has_items):
        values = statistics.by_secret(list(frame.loc[has_items, "row"]), BY_SECRET[column])
        fixed[:, has_items] = statistics.harmonic_samples(values)
    return fixed


def means(frame: pd.DataFrame, column: str = PRIMARY, to: str | None = None) -> pd.DataFrame:
    """One line per data set and method: what ``statistics.by_method`` says of a measure."""
    lines = []
    for data, part in frame.dropna(subset=column).groupby("data", sort=False):
        values = part[column].to_numpy(dtype=float)
        found = statistics.by_method(part, values, samples(part, column), to)
        lines += [{"data": data} | line for line in found]
    columns = ["data", "method", "runs", "mean", "low", "high", "p"]
    return in_order(pd.DataFrame(lines, columns=columns))


def differences(frame: pd.DataFrame, to: str = "revs", column: str = PRIMARY) -> pd.DataFrame:
    """One line per data set and method: its measure minus that of ``to`` in the cells that both
    have, with the interval, p of no difference, and p after Holm over the methods of the data set
    (for the primary endpoint alone)."""
    found = means(frame, column, to)
    tested = found[~found["method"].isin(CONTROLS)]
    if column != PRIMARY or tested.empty:
        return found.assign(holm=np.nan)
    return found.assign(holm=tested.groupby("data")["p"].transform(statistics.holm))


def sides(found: pd.DataFrame) -> pd.Series:
    """By method, controls left out, for one data set's ``differences``: whether the interval lies
    ``above`` zero, ``below`` it, or on both sides (``undecided``)."""
    found = found[~found["method"].isin(CONTROLS)]
    side = np.select([found["low"] > 0, found["high"] < 0], ["above", "below"], "undecided")
    return pd.Series(side, index=found["method"])


# --- tables and sentences ------------------------------------------------------------------------


def text(value: float, column: str) -> str:
    """A measure as text in its unit."""
    if column in LARGE:
        return DASH if pd.isna(value) else f"{value:,.0f}"
    return tables.decimal(value, digits=3) if column == "kl" else percent(value)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Every method's Unlearning Score with its interval and its other measures, as texts; a single
    data set is not named in each line. Seconds and memory, which differ between processors, are
    those of ``results.cost_table``."""
    scores, keys = means(frame), ["data", "method"]
    found = scores[keys].assign(runs=scores["runs"].astype(str))
    found[TITLES[PRIMARY]] = scores["mean"].map(percent)
    found["interval"] = intervals(scores)
    others = [name for name in TITLES if name not in (PRIMARY, "seconds", "memory")]
    others = [name for name in others if frame[name].notna().any()]
    rest = frame.groupby(keys)[others].mean()
    for name in others:
        values = rest[name].reindex(pd.MultiIndex.from_frame(scores[keys]))
        found[TITLES[name]] = [text(value, name) for value in values]
    found = results.titled(found)
    return found.drop(columns="data") if found["data"].nunique() == 1 else found


def difference_table(frame: pd.DataFrame, column: str = PRIMARY) -> pd.DataFrame:
    """How far each method's measure lies above that of REVS and of the least-squares write in the
    same cells, in points, with intervals; p after Holm for the primary endpoint."""
    parts = []
    for to in REFERENCES:
        found = differences(frame, to, column)
        if found.empty:
            continue
        minus, keys = f"minus {methods.title(to)}", ["data", "method"]
        part = found[keys].assign(**{minus: (100 * found["mean"]).map("{:+.1f}".format)})
        ends = zip(100 * found["low"], 100 * found["high"])
        part[f"{minus}: interval"] = [f"{low:+.1f} to {high:+.1f}" for low, high in ends]
        if column == PRIMARY:
            part[f"{minus}: p"] = found["holm"].map(statistics.p_text)
        parts.append(part.set_index(keys))
    whole = pd.concat(parts, axis=1).reset_index() if parts else pd.DataFrame(columns=["data"])
    return results.titled(in_order(whole).fillna(DASH)) if parts else whole


def mean_table(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The mean of a share of each method with its interval, as texts."""
    found = means(frame, column)
    table = found[["data", "method"]].assign(mean=found["mean"].map(percent))
    table["interval"] = intervals(found)
    return results.titled(table)


def run_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Every run with its measures, as texts."""
    names = [name for name in TITLES if frame[name].notna().any()]
    table = in_order(frame)[["data", "method", "adapter", "split", "processor", *names]]
    for name in names:
        table[name] = [text(value, name) for value in table[name]]
    return results.titled(table.rename(columns=TITLES).astype({"split": str}))


def across_designs(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean Unlearning Scores of two earlier designs, whose rows are in the project's history
    only, and of the runs of a frame, as texts."""
    earlier = pd.read_csv(rows.RECORDED / "earlier_designs.csv")
    now = frame[frame["method"].isin(earlier["method"])].assign(design=max(DESIGNS))
    scores = pd.concat([earlier, now]).groupby(["data", "method", "design"])[PRIMARY].mean()
    table = scores.map(percent).unstack().reindex(columns=list(DESIGNS)).fillna(DASH)
    return results.titled(in_order(table.rename(columns=DESIGNS).reset_index()))


def side_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The methods that score higher and lower than REVS on each data set by their intervals, those
    that are undecided, and those that differ after Holm's correction, as texts."""
    lines = []
    for data, part in frame.groupby("data", sort=False):
        found = differences(part)
        side = sides(found)
        named = [side.index[side == key] for key in ("above", "below", "undecided")]
        named.append(found.loc[found["holm"] < 1 - statistics.LEVEL, "method"])
        lines.append([data, *(comma_list(some.map(methods.title)) for some in named)])
    columns = ["data", "score higher than REVS", "lower", "undecided", "differ after correction"]
    return pd.DataFrame(lines, columns=columns).replace({"data": results.DATA})


def made_on(model: str, frame: pd.DataFrame) -> dict[str, str]:
    """What each of the paper's data sets was measured on, for captions."""
    parts, unmeasured = frame.groupby("data"), dict.fromkeys(methods.PAPER_DATA, "not measured yet")
    return unmeasured | {data: f"{results.title(model)}, {design(part)}" for data, part in parts}


def designs(frame: pd.DataFrame) -> str:
    """The design of each data set: "2 adapters × 2 splits for SSN and Emails; …"."""
    alike: dict[str, list[str]] = {}
    for data, title in results.DATA.items():
        if len(part := frame[frame["data"] == data]):
            alike.setdefault(design(part), []).append(re.sub(", (.+)", r" (\1)", title))
    return "; ".join(f"{crossed} for {spoken_list(names)}" for crossed, names in alike.items())


def place(scores: pd.Series, method: str) -> int:
    """The place of a method by its score, from 1; equals share the better one."""
    return int((scores > scores[method]).sum()) + 1


def standing(model: str) -> dict[str, str]:
    """What a page says of the main comparison, for ``glue``: its ``designs``, how many ``methods``
    the paper has, the least corrected p that a method can reach, and the ``place`` of REVS among
    them on SSN and on Emails."""
    frame = runs(model)
    of_paper = frame[frame["method"].isin(methods.paper_methods())]
    said = {"title": results.title(model), "designs": designs(frame)}
    said["methods"] = str(of_paper["method"].nunique())
    compared = frame.loc[~frame["method"].isin(CONTROLS), "method"].nunique()
    said["least_p"] = statistics.p_text(statistics.least_p(compared - 1))
    of_paper = of_paper.groupby(["data", "method"])[PRIMARY].mean()
    for data in ("ssn", "emails"):
        known = (data, "revs") in of_paper.index
        said[f"place_{data}"] = tables.ordinal(place(of_paper[data], "revs")) if known else DASH
    return said


def revs_means(model: str, data: str, *columns: str) -> dict[str, str]:
    """REVS's means of some columns on a data set in the main comparison, for ``glue``, as texts."""
    own = runs(model, data).query("method == 'revs'")
    return {f"revs_{column}": text(own[column].mean(), column) for column in columns}


def over_data_sets(frame: pd.DataFrame, column: str) -> pd.Series:
    """By method, the mean of a measure over the paper's data sets, each by its mean: not all have
    as many runs."""
    frame = frame[frame["data"].isin(methods.PAPER_DATA)]
    by_data = frame.groupby(["method", "data"])[column].mean()
    return by_data.groupby("method").mean()


def findings(frame: pd.DataFrame) -> dict[str, str]:
    """Two findings for the landing page, on the paper's data sets: where REVS ranks among the
    paper's methods, and its least-squares write among all; where a first place of that write is
    clear by the intervals, what an insider finds after them, and what they cost."""
    frame, said = frame[frame["data"].isin(methods.PAPER_DATA)], {}
    scored = frame[~frame["method"].isin(CONTROLS)]
    rise = over_data_sets(frame, "perplexity_rise")
    of_paper = scored[scored["method"].isin(methods.paper_methods())]
    written = {
        "revs": ("rank", "Of the paper's methods, by Unlearning Score, REVS", of_paper),
        "least_squares": ("added", "By Unlearning Score, REVS written by least squares", scored),
    }
    for method, (name, title, ranked) in written.items():
        means = ranked.groupby(["data", "method"])[[PRIMARY, "resistance"]].mean()
        places: dict[str, list[str]] = {}
        resisted = []
        for data, data_title in methods.PAPER_DATA.items():
            if (data, method) in means.index:
                rank = tables.ordinal(place(means.loc[data, PRIMARY], method))
                places.setdefault(rank, []).append(data_title)
                resisted.append(percent(means.loc[(data, method), "resistance"], digits=0))
        ranks = [f"{rank} on {spoken_list(some)}" for rank, some in places.items()]
        doubt = ""
        if firsts := places.get("first", []):
            highest = differences(ranked, method).groupby("data")["high"].max()
            clear = [title for title in firsts if highest.rename(results.DATA).get(title, 0) < 0]
            if clear != firsts:
                doubt = " The intervals do not confirm the first place."
                if clear:
                    doubt = f" The intervals confirm it only on {spoken_list(clear)}."
        said[f"finding_{name}"] = (
            f"{title} ranks {comma_list(ranks)}.{doubt} Resistance Scores: "
            f"{spoken_list(resisted)} per cent. "
            f"Mean rise of perplexity: {percent(rise[method])} per cent."
            if places
            else "Resistance, perplexity and controls that the paper lacks stand by every score."
        )
    return said


@functools.cache
def printed() -> pd.DataFrame:
    """The paper's means on Llama-3-8B in per cent, by method and data set; a column per metric. Do
    not change it."""
    found = pd.concat([results.printed(), results.printed(paper.EXTRACTION)])
    found = found[found["measured"] == "paper, Llama-3-8B"].astype({"data": str, "method": str})
    wide = found.pivot_table(index=["method", "data"], columns="metric", values="mean")
    names = {entry["title"]: name for name, entry in methods.registry().items()}
    return wide.rename(names | {title: name for name, title in results.DATA.items()})
