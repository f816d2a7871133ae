"""The values that sentences of pages show, by the name that glues them: one function a page.

A page calls ``glue_all`` with what its function returns; no page computes between its sentences.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from myst_nb import glue
from scipy.stats import binomtest

from companion.analysis import abilities, ablations, errata, results, tuning
from companion.analysis.tables import comma_list, decimal, number_ranges, percent, ranking
from companion.experiments import methods, optimizer, tune
from companion.experiments.notebook import Refused
from companion.measures import replacement
from companion.store import paper, versions

Values = dict[str, float | int | str]
RIVALS = ("ft_l", "memit")  # of the paper's trade-off figures


def glue_all(values: Mapping[str, float | int | str]) -> None:
    """Makes every value available to the sentences of this book."""
    for name, value in values.items():
        glue(name, value, display=False)


def require(frame: pd.DataFrame, what: str, sweep: str) -> pd.DataFrame:
    """The frame itself; Refused, in one sentence, if it has no line."""
    if frame.empty:
        command = f"`make run SWEEP={sweep}`"
        raise Refused(f"There are no rows of {what}: run {command} first, or take another set.")
    return frame


def best_alternatives(table: pd.DataFrame) -> Values:
    """The best alternative of ``ablations.beside`` and its ``score`` on each data set, and the
    paper's."""
    ours = table["measured"].str.startswith("ours")
    key = table["measured"].str.split(", ").str[1].where(ours, "paper")
    best = table.assign(key=key)
    best = best.loc[best.groupby("key")["score"].idxmax()].set_index("key")
    found: Values = {f"best_{key}": name for key, name in best["alternative"].items()}
    return found | {f"score_{key}": f"{score:.1f}" for key, score in best["score"].items()}


def neurons(table: pd.DataFrame, model: str) -> Values:
    """How neurons are chosen: the best way, gradients, and ways that ignore the activation."""
    ours = table["measured"].str.startswith("ours")
    idle = ours & table["alternative"].isin(["random", "rank"])
    found = best_alternatives(table) | {"idle": float(table.loc[idle, "score"].max())}
    key = table["measured"].str.split(", ").str[1].where(ours, "paper")
    gradient = table["alternative"] == "gradient"
    scores = zip(key[gradient], table.loc[gradient, "score"])
    found |= {f"gradient_{of}": float(score) for of, score in scores}
    for data in ("ssn", "emails"):
        base = ablations.scores(model, data).loc["base"]
        found |= {f"{name}_{data}": f"{base[name]:.0f}" for name in ("n_max", "k")}
    return found


def curves(curves: Mapping[str, pd.DataFrame]) -> Values:
    """By how many points each setting moves the Unlearning Score and specificity; the best run."""
    moved = {name: np.ptp(curve["unlearning_score"]) for name, curve in curves.items()}
    lost = {name: np.ptp(curve["specificity"]) for name, curve in curves.items()}
    found: Values = {f"moves_{name}": f"{points:.0f}" for name, points in moved.items()}
    found |= {f"kept_{name}": f"{points:.0f}" for name, points in lost.items()}
    every = pd.concat(curves.values()).drop_duplicates("name").set_index("tag")
    score = every["unlearning_score"]
    changed = every.loc[score.idxmax(), "changed"].items()
    return found | {
        "decides": max(lost, key=lost.get),
        "moves_most": max(moved, key=moved.get),
        "usual": f"{score['base']:.1f}",
        "best": f"{score.max():.1f}",
        "gain": f"{score.max() - score['base']:.1f}",
        "best_at": ", ".join(f"{name} = {value:g}" for name, value in changed),
    }


def ridge(means: pd.DataFrame) -> Values:
    """The ridge with the highest Unlearning Score of the means by ridge, and the paper's step."""
    score = means["unlearning_score"]
    return {
        "best": f"{score.idxmax():g}",
        "best_score": float(score.max()),
        "paper_score": float(score[0.0]),
        "shorter": float(means.loc[0.0, "norm"] / means.loc[score.idxmax(), "norm"]),
    }


def variants(table: pd.DataFrame) -> Values:
    """Efficacy with some options, and the cost of the paper's schedule over the default's."""
    of = table.set_index("option")
    ratios = of.loc["schedule = paper"] / of.loc["default"]
    options = {"usual": "default", "text": "gate = mlp, stop = mlp", "raw": "projection = raw"}
    found: Values = {name: f"{of.loc[option, 'Efficacy']:.1f}" for name, option in options.items()}
    return found | {
        f"ratio_{name}": f"{ratios[name]:.2f}" for name in ("columns", "norm", "seconds")
    }


def spreads(scores: pd.DataFrame) -> dict[str, float]:
    """The standard deviation of a table's means by column (``way``) and by line (``method``), and
    of what is left of its cells after both."""
    columns, lines = scores.mean(), scores.mean(axis=1)
    rest = scores.sub(columns).sub(lines, axis=0) + columns.mean()
    found = {"way": columns.std(), "method": lines.std(), "both": rest.stack().std()}
    return {name: float(value) for name, value in found.items()}


def digits(runs: pd.DataFrame, means: pd.DataFrame) -> Values:
    """Methods with each way to read a number, and what differs between ways and methods."""
    scores, ways = means["unlearning_score"], list(means["unlearning_score"])
    found: Values = {f"by_{name}": spread for name, spread in spreads(scores).items()}
    two = spreads(scores[["noise", "learned"]])
    found |= {f"two_{name}": spread for name, spread in two.items()}
    for way in ways:
        found[f"mean_{way}"] = float(scores[way].mean())
        found[f"order_{way}"] = ranking(scores[way].rename(methods.title))
    kept = means["specificity"].loc["revs"]
    found |= {f"kept_{way}": float(kept[way]) for way in ("keep", "learned")}
    return found | {"most_keep": float(scores["keep"].max()), "methods": len(scores)}


def integrity(asked: pd.DataFrame, came: pd.DataFrame, able: pd.DataFrame) -> Values:
    """Benchmarks and perplexity: of edited models, of the model as it came, of one that is able."""
    before, original, revs = asked.loc["unedited"], came.loc["unedited"], able.loc["revs"]
    found: Values = {}
    for one in abilities.BENCHMARKS:
        lost, won = int(revs[f"{one} lost"]), int(revs[f"{one} won"])
        found |= {
            one: float(100 * before[one]),
            f"{one}_items": str(asked[f"{one} items"].iloc[0]),
            f"came_{one}": float(100 * original[one]),
            f"able_{one}": float(100 * able.loc["unedited", one]),
            f"able_{one}_items": str(revs[f"{one} items"]),
            f"able_{one}_lost": str(lost),
            f"able_{one}_won": str(won),
            f"able_{one}_p": float(binomtest(lost, lost + won).pvalue),
            f"able_{one}_least": float(binomtest(0, lost + won).pvalue),
        }
    after = asked["perplexity"].drop("unedited")
    return found | {
        "perplexity_least": float(after.min()),
        "perplexity_most": float(after.max()),
        "perplexity_begins": float(before["perplexity"]),
        "perplexity_came": float(original["perplexity"]),
    }


def tradeoffs(
    candidates: pd.DataFrame, strength: pd.DataFrame, targets: pd.DataFrame, model: str
) -> Values:
    """Where REVS leads with more guesses, and harder edits; what more secrets cost it."""
    of_model = results.short(model)
    guesses, harder, more = (
        some[some["panel"].str.endswith(of_model)] for some in (candidates, strength, targets)
    )
    left = guesses.pivot(index=["panel", "|C|"], columns="method", values="efficacy")
    ahead = {f"ahead_{rival}": int((left["revs"] > left[rival]).sum()) for rival in RIVALS}
    best = harder.groupby(["method", "panel"], sort=False)["unlearning_score"].max()
    tops = {f"best_{name}": comma_list(best[name].map(decimal)) for name in ("revs", *RIVALS)}
    kept = harder[harder["tuned"] & (harder["method"] == "memit")]["specificity"]
    ssn = more[more["panel"].str.startswith("SSN") & (more["method"] == "revs")]
    ssn = ssn.set_index("targets")["unlearning_score"].sort_index()
    return (
        {"sizes": len(left), "kept_memit": comma_list(kept.map(decimal))}
        | ahead
        | tops
        | {
            "few": float(ssn.iloc[0]),
            "many": float(ssn.iloc[-1]),
            "fewest": int(ssn.index[0]),
            "largest": int(ssn.index[-1]),
        }
        | {f"more_{rival}": where_higher(targets, rival) for rival in RIVALS}
    )


def where_higher(targets: pd.DataFrame, rival: str) -> str:
    """The numbers of secrets with which a method scores higher than REVS, in words, by panel."""
    place = ["panel", "targets"]
    scored = targets.pivot(index=place, columns="method", values="unlearning_score")
    higher = scored.index[scored[rival] > scored["revs"]].to_frame(index=False)
    each = higher.groupby("panel", sort=False)["targets"].agg(number_ranges)
    return "; ".join(f"{numbers} ({panel})" for panel, numbers in each.items()) or "none"


def gptj(scores: pd.DataFrame, model: str) -> Values:
    """Unlearning Scores on each data set, REVS's and the highest, what the unedited model keeps,
    and what was memorised."""
    found: Values = {}
    text = scores.assign(text=list(map(decimal, scores["mean"], scores["std"])))
    for data, part in text[text["metric"] == "Unlearning Score"].groupby("data", observed=True):
        part = part.set_index("method")
        most = part["mean"].idxmax()
        found |= {f"score_{data}": part.loc["REVS", "text"], f"most_{data}": most}
        found |= {f"best_{data}": part.loc[most, "text"]}
    ceiling = text[(text["metric"] == "Specificity") & (text["method"] == "Unedited")]
    found |= {f"most_{data}_kept": kept for data, kept in zip(ceiling["data"], ceiling["text"])}
    learned = results.finetunes(model, "ssn")[0]["result"]
    return found | {name: learned[kept] for name, kept in KNOWN.items()}


KNOWN = {"known": "memorised", "sentences": "sentences"}


def gptj_attacks(attacked: pd.DataFrame, runs: pd.DataFrame) -> Values:
    """Resistance of REVS by data set, who resists most, and efficacy beside it."""
    mean = attacked[attacked["aggregation"] == "per example"]
    mean = mean.set_index(["metric", "method", "data"])["mean"]
    efficacy = 100 * runs[runs["method"] == "revs"].groupby("data")["efficacy"].mean()
    found: Values = {}
    for data in ("ssn", "emails"):
        name = methods.PAPER_DATA[data]
        found |= {
            f"inside_{name}": float(mean["Resistance Score", "REVS", name]),
            f"resists_{name}": mean["Resistance Score"][:, name].idxmax(),
            f"lens_{name}": float(mean["Logit-Lens", "REVS", name]),
            f"efficacy_{name}": float(efficacy[data]),
        }
    return found


def cost(costs: pd.DataFrame) -> Values:
    """Seconds and memory of REVS beside all methods, and the paper's machine."""
    hardware = paper.tables()["hardware"]
    rivals = costs.drop(index=list(results.CONTROLS), errors="ignore")
    return {
        "revs_seconds": float(costs.loc["REVS", "seconds"]),
        "all_seconds": float(rivals["seconds"].median()),
        "revs_memory": f"{costs.loc['REVS', 'memory']:,}",
        "most_memory": f"{costs['memory'].max():,}",
        "paper_cpu": hardware["cpu"],
        "paper_gpu": hardware["gpu"],
        "paper_gb": str(hardware["vram_gb"]),
    }


def errata_counts(claims: pd.DataFrame) -> Values:
    """How many printed numbers and claims of the paper break a rule."""
    return {
        "errata_scores": len(errata.above_its_harmonic_mean()),
        "errata_settings": len(errata.outside_their_sweep()),
        "errata_claims": len(claims),
    }


def unedited_rows(unedited: pd.DataFrame) -> Values:
    """Blocks of result tables without an unedited row, and marks that such rows have."""
    blocks = errata.spreads()[["table", "dataset"]].drop_duplicates()
    starts = set(zip(unedited["table"], unedited["dataset"]))
    without = [", ".join(block) for block in blocks.values if tuple(block) not in starts]
    marked = unedited[unedited["mark"] == "bold"]
    marked = marked["table"] + ", " + marked["dataset"] + ": " + marked["column"]
    lists = {"errata_without": without, "errata_marked": marked}
    return {name: "; ".join(some).replace("`", "") for name, some in lists.items()}


def replacements(became: pd.DataFrame) -> Values:
    """What stands where REVS unlearned a secret, by data set and in all."""
    ours = became["data"].isin(methods.PAPER_DATA.values())
    revs = became[(became["method"] == "REVS") & ours].set_index("data")[list(replacement.BECAME)]
    others = [replacement.AT_THE_HOST, replacement.ELSEWHERE]
    found: Values = {
        f"other_{data}": f"{line[others].sum()} of {line.sum()}" for data, line in revs.iterrows()
    }
    total = revs.sum()
    return found | {
        "forgotten": str(total.sum()),
        "same": str(total[replacement.SAME]),
        "other": str(total[others].sum()),
    }


def one_run(row: dict) -> Values:
    """Of a run its score, its settings, how large its edit was, what it took."""
    edit, seconds = row["result"]["edit"], row["seconds"]
    found: Values = {name: f"{edit[name]:,}" for name in ("columns", "weights", "moves")}
    settings = row["settings"]["hyperparameters"].items()
    return found | {
        "layers": str(len(edit["layers"])),
        "seconds": f"{seconds['unlearn']:.0f}",
        "others": f"{sum(seconds.values()) - seconds['unlearn']:.0f}",
        "memory": f"{row['extra_memory_mb']:,}",
        "settings": ", ".join(f"{name} = {value}" for name, value in settings),
        "score": percent(row["result"]["after"]["unlearning_score"]),
    }


def search(row: dict, trials: int, top_trials: int, seed: int) -> Values:
    """Of a search what was asked of it, and what it chose."""
    result = row["result"]
    chosen = result["hyperparameters"].items()
    return {
        "on": row["data"],
        "best": str(result["best"]),
        "top_trials": str(top_trials),
        "first_seed": str(seed),
        "tried": str(result["trials"]),
        "asked": str(trials),
        "most": str(tune.MOST),
        "grows_after": str(optimizer.FIRST),
        "moved_from": f"{100 * tune.EFFECTIVE:g}",
        "moved": str(result["effective"]),
        "grew": comma_list(result["widened"]),
        "score": percent(result["unlearning_score"]),
        "settings": ", ".join(f"{name} = {tuning.short(value)}" for name, value in chosen),
    }


def curation(row: dict, funnel: pd.DataFrame) -> Values:
    """Of a curation how many documents and secrets there were, and which were not read."""
    skipped = row["result"]["skipped"].items()
    return {
        "documents": f"{row['result']['documents']:,}",
        "skipped": comma_list(f"{number:,} {why}" for why, number in skipped),
        "found": f"{funnel['found'].sum():,}",
        "kept": f"{funnel['in the data set'].sum():,}",
    }


def provenance(found: Mapping[str, dict]) -> Values:
    """How many rows there are, by origin, and how many are older than the code."""
    origin = pd.Series([row["origin"] for row in found.values()]).value_counts()
    recorded = [row for row in found.values() if row["origin"] == "recorded"]
    return {
        "rows-all": str(len(found)),
        "rows-build": str(origin.get("measured in this build", 0)),
        "rows-recorded": str(len(recorded)),
        "rows-older": str(sum(bool(versions.older(row)) for row in recorded)),
    }
