"""The values that sentences of pages show, by the name that glues them: one function per page.

A page calls ``glue_all`` with what its function returns; no page computes between its sentences.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from myst_nb import glue
from scipy.stats import binomtest

from companion.analysis import errata, main_comparison, results
from companion.analysis.tables import comma_list, decimal, percent, spoken_list
from companion.experiments import methods, tune
from companion.measures import replacement
from companion.store import paper, versions

Values = dict[str, float | int | str]
RIVALS = ("ft_l", "memit")  # of the paper's trade-off figures


def glue_all(values: Mapping[str, float | int | str]) -> None:
    """Makes every value available to the sentences of this book."""
    for name, value in values.items():
        glue(name, value, display=False)


def best_alternatives(table: pd.DataFrame) -> Values:
    """Which alternative of ``ablations.beside`` scores highest on each of our data sets and in the
    paper, as a clause that names each alternative once."""
    ours = table["measured"].str.startswith("ours")
    key = table["measured"].str.split(", ").str[1].where(ours, "paper")
    best = table.set_index("alternative").groupby(key.to_numpy())["score"].idxmax()
    places: dict[str, list[str]] = {}
    named = {"SSN": "on SSNs", "Emails": "on Emails", "paper": "in the paper"}
    for of in (of for of in named if of in best):
        places.setdefault(best[of], []).append(named[of])
    said = [f"“{name}” {spoken_list(where)}" for name, where in places.items()]
    return {"best": ", ".join(said).replace("” ", "” scores highest ", 1)}


def curves(curves: Mapping[str, pd.DataFrame]) -> Values:
    """By how many points each setting moves the Unlearning Score and specificity."""
    moved = {name: np.ptp(curve["unlearning_score"]) for name, curve in curves.items()}
    lost = {name: np.ptp(curve["specificity"]) for name, curve in curves.items()}
    found: Values = {f"moves_{name}": f"{points:.0f}" for name, points in moved.items()}
    found |= {f"kept_{name}": f"{points:.0f}" for name, points in lost.items()}
    return found | {"decides": max(lost, key=lost.get), "moves_most": max(moved, key=moved.get)}


def ridge(means: pd.DataFrame) -> Values:
    """The ridge with the highest Unlearning Score of the means by ridge, and that without one."""
    score, shorter = means["unlearning_score"], means.drop(index=0.0)
    best = shorter["unlearning_score"].idxmax()
    return {
        "best": f"{best:g}",
        "best_score": float(score[best]),
        "paper_score": float(score[0.0]),
        "shorter": float(means.loc[0.0, "norm"] / means.loc[best, "norm"]),
    }


def variants(table: pd.DataFrame) -> Values:
    """Efficacy with some options."""
    of = table.set_index("option")["Efficacy"]
    options = {"usual": "default", "text": "gate = mlp, stop = mlp", "raw": "projection = raw"}
    options |= {"schedule": "schedule = paper"}
    return {name: f"{of[option]:.1f}" for name, option in options.items()}


def digits(runs: pd.DataFrame) -> Values:
    """For each way to read a number, the highest Unlearning Score, the output ban's left out; where
    texts are spared, also which method reaches it, and its specificity; and what the ban costs with
    single digits."""
    of = runs.set_index(["tag", "method"])
    scores = of["unlearning_score"].drop("output_ban", level="method")
    highest, spared = 100 * scores.groupby("tag").max(), of.loc["digits-protect"]
    best = spared["unlearning_score"].idxmax()
    return {
        "most_digits": float(highest["digits"]),
        "most_spared": float(highest["digits-protect"]),
        "most_groups": float(highest[""]),
        "best_spared": methods.title(best),
        "kept_spared": float(100 * spared.loc[best, "specificity"]),
        "ban_rise": float(100 * of.loc[("digits", "output_ban"), "perplexity_rise"]),
    }


def integrity(runs: pd.DataFrame, small: pd.DataFrame, able: pd.DataFrame) -> Values:
    """By how many per cent REVS and its least-squares write raise the perplexity, on average over
    the paper's data sets; what a small model answers on MMLU, and which method changes the answers
    of a larger one most."""
    change = able["mmlu won"] - able["mmlu lost"]
    most = change.abs().idxmax()
    lost, won = (int(able.loc[most, f"mmlu {which}"]) for which in ("lost", "won"))
    rise = 100 * main_comparison.over_data_sets(runs, "perplexity_rise")
    return {
        "rise_revs": float(rise["revs"]),
        "rise_least_squares": float(rise["least_squares"]),
        "mmlu": float(100 * small.loc["unedited", "mmlu"]),
        "able_most": methods.title(most),
        "able_mmlu_lost": str(lost),
        "able_mmlu_won": str(won),
        "able_mmlu_p": float(binomtest(lost, max(1, lost + won)).pvalue),
    }


def tradeoffs(candidates: pd.DataFrame, model: str, runs: pd.DataFrame) -> Values:
    """At how many sizes of the candidate set REVS is more effective than each rival, and the mean
    specificity of all three over the data sets of the comparison."""
    guesses = candidates[candidates["panel"].str.endswith(results.short(model))]
    left = guesses.pivot(index=["panel", "|C|"], columns="method", values="efficacy")
    ahead = {f"ahead_{rival}": int((left["revs"] > left[rival]).sum()) for rival in RIVALS}
    kept = 100 * main_comparison.over_data_sets(runs, "specificity")
    kept_by = {f"kept_{name}": decimal(kept.get(name)) for name in ("revs", *RIVALS)}
    return ahead | kept_by | {"sizes": len(left)}


def gptj(runs: pd.DataFrame) -> Values:
    """The mean Unlearning Scores of REVS and of its least-squares write, and the mean Resistance
    Score of the second, per example, in per cent."""
    means = runs.groupby("method")[["unlearning_score", "resistance"]].mean()
    means = means.reindex(["revs", "least_squares"])
    scored = {name: percent(of) for name, of in means["unlearning_score"].items()}
    return scored | {"resisted": percent(means.loc["least_squares", "resistance"])}


def cost(runs: pd.DataFrame) -> Values:
    """REVS's least seconds on each processor that ran it, and the median of all methods' but the
    controls'; its largest memory."""
    rivals = runs[~runs["method"].isin(results.CONTROLS)]
    seconds = rivals.groupby(["processor", "method"])["seconds"].min().unstack("method")
    seconds = seconds[seconds["revs"].notna()]
    return {
        "revs_seconds": spoken_list([*seconds["revs"].map("{:.0f}".format)]),
        "all_seconds": spoken_list([*seconds.median(axis=1).map("{:.0f}".format)]),
        "revs_memory": f"{runs.loc[runs['method'] == 'revs', 'memory'].max():,.0f}",
    }


def errata_counts(claims: pd.DataFrame) -> Values:
    """How many printed numbers and claims of the paper break a rule, what its text says in one of
    two places, and how many addresses Llama-3-8B memorised and keeps if all that are not unlearned
    count."""
    said = paper.tables()["in_prose"]
    pii = paper.table("tab:pii-distribution").set_index(["row", "column"])["value"]
    emails = int(pii["Email addresses", "Memorized"])
    return {
        "emails": emails,
        "emails_kept": emails - said["forget_emails"],
        "kept_share": said["retained"],
        "tuned_extent": said["tuned"]["extent"],
        "tuned_data": spoken_list(said["tuned"]["data"]),
        "errata_scores": len(errata.above_its_harmonic_mean()),
        "errata_settings": len(errata.outside_their_sweep()),
        "errata_claims": len(claims),
    }


def protected(runs: pd.DataFrame) -> Values:
    """By how many points some mean Unlearning Scores on SSN change with text to protect."""
    means = runs[runs["data"] == "ssn"].groupby(["method", "tagged"])["unlearning_score"].mean()
    gained = 100 * means.unstack().reindex(columns=[False, True]).diff(axis=1)[True]
    some = ("memit", "least_squares")
    return {f"gain_{name}": f"{gained.get(name, np.nan):.0f}".replace("-", "−") for name in some}


def second_choices(runs: pd.DataFrame) -> Values:
    """Some methods' mean Unlearning Scores by data set and settings of either search."""
    means = runs.groupby(["method", "data", "tagged"])["unlearning_score"].mean()
    named = means.drop(["npo_kl", "rmu"], level="method")
    names = {True: "second", False: "first"}
    found = {
        f"{name}_{data}_{names[of]}": mean
        for (name, data, of), mean in named.items()
        if data in methods.PAPER_DATA
    }
    for name in ("head_projection", "max_entropy"):
        found[f"{name}_shared"] = means[name, "ssn-shared", True]
    return {name: percent(mean) for name, mean in found.items()}


def run_ranges(runs: pd.DataFrame) -> Values:
    """How far apart a method's Unlearning Scores lie at most, in points: for REVS, as the median
    over methods, and for the method whose runs lie furthest apart."""
    runs = runs[~runs["method"].isin(results.CONTROLS)]
    ranges = 100 * runs.groupby("method")["unlearning_score"].agg(np.ptp)
    found: Values = {"range_revs": f"{ranges['revs']:.0f}", "range": f"{ranges.median():.0f}"}
    widest = methods.title(ranges.idxmax())
    return found | {"widest": widest, "range_widest": f"{ranges.max():.0f}"}


def replacements(became: pd.DataFrame) -> Values:
    """What stands where REVS unlearned a secret, over all data sets."""
    ours = became["data"].isin(methods.PAPER_DATA.values())
    total = became.loc[(became["method"] == "REVS") & ours, list(replacement.BECAME)].sum()
    others = [replacement.AT_THE_HOST, replacement.ELSEWHERE]
    return {
        "forgotten": str(total.sum()),
        "same": str(total[replacement.SAME]),
        "other": str(total[others].sum()),
    }


def one_run(row: dict) -> Values:
    """A run's score, the size of its edit, and the time and memory that it took."""
    edit = row["result"]["edit"]
    return {
        "columns": f"{edit['columns']:,}",
        "layers": str(len(edit["layers"])),
        "seconds": f"{row['seconds']['unlearn']:.0f}",
        "memory": f"{row['extra_memory_mb']:,}",
        "score": percent(row["result"]["after"]["unlearning_score"]),
    }


def search(row: dict) -> Values:
    """How many of a search's trials counted, and what it chose."""
    result = row["result"]
    return {
        "best": str(result["best"]),
        "tried": str(result["trials"]),
        "moved_from": f"{100 * tune.EFFECTIVE:g}",
        "moved": str(result["effective"]),
        "score": percent(result["unlearning_score"]),
    }


def curation(row: dict, funnel: pd.DataFrame) -> Values:
    """How many documents and secrets a curation had, and what it skipped."""
    skipped = row["result"]["skipped"].items()
    return {
        "documents": f"{row['result']['documents']:,}",
        "skipped": comma_list(f"{number:,} {why}" for why, number in skipped),
        "found": f"{funnel['found'].sum():,}",
        "kept": f"{funnel['in the data set'].sum():,}",
    }


def provenance(found: Mapping[str, dict]) -> Values:
    """How many rows there are, how many of this build, and how many older than the code."""
    recorded = [row for row in found.values() if row["origin"] == "recorded"]
    return {
        "rows_all": f"{len(found):,}",
        "rows_build": f"{len(found) - len(recorded):,}",
        "rows_older": f"{sum(bool(versions.older(row)) for row in recorded):,}",
    }


def shared_tokens(runs: pd.DataFrame) -> Values:
    """The mean Unlearning Scores of some methods on the plain sets and on those whose secrets share
    their tokens, as METHOD_DATA, in per cent; a dash for those that were not run."""
    means = 100 * runs.groupby(["method", "data"])["unlearning_score"].mean()
    shown = {"output_ban": ["ssn"], "revs": ["ssn"], "least_squares": ["ssn", "emails"]}
    return {
        f"{method}_{data}".replace("-", "_"): decimal(means.get((method, data)), digits=0)
        for method, plain in shown.items()
        for data in (*plain, *(f"{name}-shared" for name in plain))
    }
