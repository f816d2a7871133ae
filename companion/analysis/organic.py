"""Secrets that a pretrained model memorised by itself, found and unlearned (§4.2; Appendix
"Naturally Memorized Dataset"): rows of params/sweeps/organic.yml."""

from collections.abc import Callable

import pandas as pd

from companion.analysis import curation, main_comparison, results, tuning
from companion.analysis.tables import DASH, comma_list, percent, spoken_list
from companion.experiments import methods
from companion.store import rows

SETS = {"email": "emails", "url": "urls"}  # end of a curated set's name → the paper's data
COUNTED = "numbers"  # kinds that are counted and not unlearned
WAYS = {"": "", "raw": ", U alone"}  # tag of a search → what its method's title ends with


def curations(model: str, name: str) -> list[dict]:
    """The rows that say what was found in the documents: one for all kinds, or a kind after the
    other."""
    found = rows.find(kind="curate")
    parts = [name, *(f"{name}-{part}" for part in (*SETS, COUNTED))]
    names = [f"curate/{part}/{model}" for part in parts]
    return [found[row] for row in names if row in found]


def runs(model: str, name: str) -> pd.DataFrame:
    """The usual runs on each kind of secret that was found, by the paper's data of that kind."""
    sets = {f"{name}-{kind}": data for kind, data in SETS.items()}
    return results.runs(model, *sets, sweep="organic").replace({"data": sets})


def in_both_ways(of: Callable, model: str, data: str) -> pd.DataFrame:
    """``tuning.trials`` or ``tuning.searches`` on a set, methods by their titles; REVS has a search
    through the final norm and one with U alone, which its titles tell apart."""
    parts = [of(model, data, tag=tag).assign(way=way) for tag, way in WAYS.items()]
    found = pd.concat(parts, ignore_index=True)
    return found.assign(method=found["method"].astype(str).map(methods.title) + found["way"])


def chosen(model: str, data: str) -> pd.DataFrame:
    """One line per search on a set, each cell a string: how many trials, how many of them moved
    their targets, the minutes they took, the mean score of the chosen one over the splits it ran
    on, and its settings."""
    spent = in_both_ways(tuning.trials, model, data).groupby("method")["row"].agg(minutes)
    lines = []
    for one in in_both_ways(tuning.searches, model, data).itertuples():
        given = one.result["hyperparameters"].items()
        line = {"method": one.method}
        line |= {name: str(one.result[name]) for name in ("trials", "effective")}
        line["minutes"] = f"{spent[one.method]:.0f}"
        line["chosen, mean of its splits"] = percent(one.result["unlearning_score"])
        line["settings"] = ", ".join(f"{key} {tuning.short(value)}" for key, value in given) or DASH
        lines.append(line)
    return pd.DataFrame(lines)


def minutes(trials: pd.Series) -> float:
    """The minutes that some trials took, not counting the loading of the model."""
    spent = [row["seconds"] for row in trials]
    return sum(one["unlearn"] + one.get("evaluate_after", 0) for one in spent) / 60


def name_swap_table(model: str, data: str, embedded: str) -> pd.DataFrame:
    """Shares of secrets still written after their owner's name and after another person's, as
    texts: for a model's own secrets, and for synthetic ones."""
    asked = pd.concat([results.measured(model, data), results.measured(embedded, "emails")])
    asked = asked[asked["tag"].isin(["cue", "cue-unread"])]
    found = pd.json_normalize([row["result"]["name_swap"] for row in asked["row"]])
    shares = found.filter(like=".").map(percent)
    shares.columns = [name.replace(".", " name, ").replace("_", " ") for name in shares]
    unread = asked["tag"].map({"cue": "", "cue-unread": ", before it has read them"})
    secrets = asked["data"] + ", " + asked["model"].map(results.title) + unread
    table = pd.DataFrame({"secrets": list(secrets), "compared": found["named"]})
    table["no name in the line"] = found["unnamed"]
    return table.assign(**{"part of it elsewhere": found["leaked"]}).join(shares).astype(str)


def addresses(found: list[dict]) -> pd.Series:
    """The line of addresses in the funnel of some curations, as texts; dashes if none was asked for
    them."""
    lines = curation.counted(curation.funnel(*found)).set_index("kind")
    return lines.reindex([curation.TITLES["email"]]).fillna(DASH).iloc[0]


def found_answer(found: list[dict]) -> dict[str, str]:
    """What the page says of the addresses that were found, for ``glue``."""
    names = {"tried": "tried", "memorised": "memorised", "leaked": curation.COUNTS["leaked"]}
    return {name: addresses(found)[column] for name, column in names.items()}


def answer(found: list[dict], evaluated: pd.DataFrame) -> dict[str, str]:
    """What the page says of the comparison, for ``glue``."""
    model, data = evaluated[["model", "data"]].iloc[0]
    side = main_comparison.sides(main_comparison.differences(evaluated))
    said = {"known_emails": addresses(found)[curation.COUNTS["kept"]]}
    for key, name in (("above", "higher"), ("below", "lower"), ("undecided", "undecided")):
        said[f"apart_{name}"] = comma_list(side.index[side == key].map(methods.title))
    asked = results.measured(model, data).query("tag == 'cue'")["row"]
    leaked = asked.iloc[0]["result"]["prompt_leakage"] if len(asked) else {}
    first = main_comparison.runs(model, data, tag="half")  # of REVS's first search
    said["first_choice"] = percent(first["unlearning_score"].mean())
    both = pd.concat([evaluated.query("method != 'revs'"), first], ignore_index=True)
    before = main_comparison.sides(main_comparison.differences(both))
    lower = side.index[(before == "below") & (side != "below")]
    said["first_lower"] = spoken_list([*lower.map(methods.title)] or ["none"])
    said["apart_secrets"] = str(leaked.get("secrets", DASH))
    return said | {"prompt_leaked": str(leaked.get("leaked", DASH))}
