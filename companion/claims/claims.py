"""The paper's main claims, one plain function each.

A function gets its evidence, with one line or entry per method, and returns whether the claim
holds and what was seen. ``companion.claims.ledger`` gives it our numbers, the paper's own, and ours
with the methods' names permuted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from companion.analysis.statistics import p_text, signed_rank

Answer = tuple[bool, str]  # does it hold, and what was seen
SYNTHETIC, EMAILS = ("ssn", "emails", "urls"), ("emails",)
FAR, CLOSE, HIGH = 10, 5, 80  # points that "far", "close" and "high" are read as
DOUBLE = 1.9  # times


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: what it says, where, of which data sets, and what decides it.

    ``evidence``: "means" of methods, curves over "strength", "targets" or "candidates",
    "ablations", "benchmarks", "perturbations" or "scores" of single runs.
    """

    says: str
    place: str
    evidence: str
    data: tuple[str, ...]
    decide: Callable[..., Answer | None]
    has_room: Callable[..., bool] = lambda found: True  # could our numbers show it at all?


CLAIMS: list[Claim] = []


def claim(says: str, place: str, evidence: str = "means", data=SYNTHETIC, **more):
    """Adds a function to the claims."""

    def add(decide: Callable[..., Answer | None]):
        CLAIMS.append(Claim(says, place, evidence, data, decide, **more))
        return decide

    return add


def methods_only(means: pd.DataFrame) -> pd.DataFrame:
    """The paper's methods without the unedited model."""
    return means.drop(index="unedited", errors="ignore")


def best_of(values: pd.Series, choice: str = "revs") -> Answer | None:
    """Has REVS, or another choice, the highest value? With its lead over the best other."""
    values = values.dropna()
    if choice not in values or len(values) < 2:
        return None
    ahead = values[choice] - values.drop(choice).max()
    return bool(ahead > 0), f"{values[choice]:.1f}, {ahead:+.1f} to the best other"


@claim("REVS has the highest Unlearning Score", "§5; Abstract, §1, §7")
def highest_score(means):
    return best_of(methods_only(means)["unlearning_score"])


@claim("REVS has the best efficacy", "§5 Effectiveness", data=("ssn", "urls"))
def best_efficacy(means):
    return best_of(methods_only(means)["efficacy"])


@claim("REVS generalises best to other prompts", "§5 Effectiveness", data=("ssn",))
def best_generalization(means):
    return best_of(methods_only(means)["generalization"])


@claim("REVS keeps the most of the other secrets", "§5 Model Integrity", data=("ssn", "emails"))
def best_specificity(means):
    return best_of(methods_only(means)["specificity"])


@claim("REVS has the highest Resistance Score", "§5 Extraction Resistance", data=("ssn", "urls"))
def highest_resistance(means):
    return best_of(methods_only(means)["resistance_released"])


@claim(
    "REVS's Resistance Score is a close second, here: at most five points behind",
    "§5 Extraction Resistance",
    data=EMAILS,
)
def close_second_resistance(means):
    values = methods_only(means)["resistance_released"].dropna()
    if "revs" not in values or len(values) < 2:
        return None
    higher, behind = (values > values["revs"]).sum(), values.max() - values["revs"]
    return bool(higher < 2 and behind <= CLOSE), f"{higher} higher, {behind:.1f} points behind"


@claim(
    f"with REVS the resistance to perturbed prompts doubles, here: at least {DOUBLE} times",
    "App.",
    # is the unedited model's low enough to be doubled?
    has_room=lambda means: DOUBLE * means["perturbation"].get("unedited", math.nan) <= 100,
)
def perturbation_doubles(means):
    values = means["perturbation"].dropna()
    if not {"revs", "unedited"} <= set(values.index):
        return None
    said = f"{values['unedited']:.1f} before, {values['revs']:.1f} after"
    return bool(values["revs"] >= DOUBLE * values["unedited"]), said


@claim("methods that are more effective resist more, here: ρ ≥ 0.5", "§5 Extraction Resistance")
def effective_methods_resist(means):
    values = methods_only(means)[["efficacy", "resistance_released"]].dropna()
    if len(values) < 3:
        return None
    rho = float(spearmanr(values).statistic)
    return bool(rho >= 0.5), f"ρ = {rho:.2f} over {len(values)} methods"


@claim("REVS changes a small subset of neurons, here: at most ten per cent", "Abstract, §3.1")
def small_subset(means):
    share = means["columns"].get("revs", math.nan)
    said = f"{share:.1f} per cent of the columns of FF₂"
    return None if math.isnan(share) else (bool(share <= 10), said)


@claim(
    "the model stays intact, here: REVS raises perplexity on general text by at most five per cent",
    "Abstract, §5 Model Integrity",
)
def intact_text(means):
    rise = means["perplexity_rise"].get("revs", math.nan)
    return None if math.isnan(rise) else (bool(rise <= 5), f"{rise:+.1f} per cent")


@claim(
    "MMLU stays as it was for all methods, here: within two points",
    "§5 Model Integrity",
    "benchmarks",
    EMAILS,
)
def mmlu_stable(accuracy):
    return unchanged(accuracy, "mmlu")


@claim("GSM8K stays as it was, here: within two points", "§5 Model Integrity", "benchmarks", EMAILS)
def gsm8k_stable(accuracy):
    return unchanged(accuracy, "gsm8k")


def unchanged(accuracy: pd.DataFrame, benchmark: str) -> Answer | None:
    """Is every method within two points of the unedited model? None where a method was not asked,
    or where a single answer is worth more than that."""
    values = accuracy.get(benchmark, pd.Series(dtype=float))
    if values.empty or values.isna().any() or 100 / accuracy[f"{benchmark} items"].max() > 2:
        return None
    change = 100 * (values.drop("unedited") - values["unedited"])
    largest = change[change.abs().idxmax()]
    return bool(abs(largest) <= 2), f"{largest:+.1f} points at most"


@claim("the lead of REVS is significant (Wilcoxon, p < 0.05)", "§5", "scores")
def significant_lead(scores):
    tests = []
    for other in scores.columns.drop("revs", errors="ignore") if "revs" in scores else ():
        pairs = scores[["revs", other]].dropna()
        p = signed_rank(list(pairs["revs"]), list(pairs[other]))
        if p is not None:
            tests.append((bool(pairs["revs"].mean() > pairs[other].mean()) and p < 0.05, p))
    if not tests:
        return None
    won = sum(higher for higher, _ in tests)
    largest = p_text(max(p for _, p in tests))
    return won == len(tests), f"against {won} of {len(tests)} methods; largest p {largest}"


@claim("REVS Pareto-dominates FT-L (the paper: in all but one experiment)", "§5.1", "strength")
def dominates(curves):
    """A point of FT-L is left out if it has more efficacy than any of REVS, or less efficacy and
    more specificity than any: REVS was not turned as far."""
    if not {"revs", "ft_l"} <= set(curves):
        return None
    columns = ["efficacy", "specificity"]
    mine, theirs = (curves[name][columns].to_numpy() for name in ("revs", "ft_l"))
    most, least, theirs = mine.max(axis=0), mine.min(axis=0), np.unique(theirs, axis=0)
    gentler = (theirs[:, 0] < least[0]) & (theirs[:, 1] > most[1])
    within = theirs[(theirs[:, 0] <= most[0]) & ~gentler]
    beaten = sum(((mine >= x).all(axis=1) & (mine > x).any(axis=1)).any() for x in within)
    return bool(beaten == len(within) > 0), f"{beaten} of {len(within)} points"


@claim(  # on Emails and URLs the paper prints less than 80 for REVS as tuned
    "REVS keeps a high specificity as it edits more strongly, here: 80",
    "§5.1",
    "strength",
    ("ssn",),
)
def keeps_specificity(curves):
    if "revs" not in curves:
        return None
    least = curves["revs"]["specificity"].min()
    return bool(least >= HIGH), f"{least:.1f} at least"


@claim("REVS stays better than FT-L as the candidate set grows", "§5.1, §7", "candidates")
def better_at_every_size(curves):
    if not {"revs", "ft_l"} <= set(curves):
        return None
    mine, theirs = (curves[name]["efficacy"].to_numpy() for name in ("revs", "ft_l"))
    lower = int((mine < theirs).sum())
    return bool(lower == 0 and (mine > theirs).any()), f"lower at {lower} of {len(mine)} sizes"


@claim(
    "REVS's score is stable over the number of targets, FT-L's is not, here: within ten points",
    "§5.1, §7",
    "targets",
    ("ssn",),
)
def stable_over_targets(curves):
    if not {"revs", "ft_l"} <= set(curves):
        return None
    spread = {name: curve["unlearning_score"] for name, curve in curves.items()}
    mine, theirs = (spread[name].max() - spread[name].min() for name in ("revs", "ft_l"))
    return bool(mine <= FAR and mine < theirs), f"{mine:.1f} against {theirs:.1f} points"


@claim("choosing neurons by rank and activation is best", "App.", "ablations", EMAILS)
def hybrid_neurons(scores):
    return best_of(scores["neurons"], "hybrid")


@claim("unlearning the rarest tokens is best", "App.", "ablations", EMAILS)
def rarest_tokens(scores):
    return best_of(scores["tokens"], "rarest")


@claim("setting neurons to zero is far worse, here: by ten points", "App.", "ablations", EMAILS)
def zeroing_worse(scores):
    values = scores["zeroing"].dropna()
    if "REVS" not in values or len(values) < 2:
        return None
    ahead = values["REVS"] - values.drop("REVS").max()
    return bool(ahead >= FAR), f"{ahead:+.1f} points"


@claim("ten spaces inside a prompt and one behind it weaken REVS most", "App.", "perturbations")
def ten_spaces_weakest(resistance):
    values = resistance.drop(index="none", errors="ignore")
    if values.nunique() < 2:
        return None
    weakest = values.index[values == values.min()]
    said = f"{' and '.join(weakest)} ({values.min():.1f})"
    return "10 spaces, one behind" in weakest, said
