"""How every method was tuned: its trials, what they were drawn from, and what was chosen
(§4.5; Appendix "Implementation and Experimental Details")."""

import pandas as pd

from companion.analysis import errata, main_comparison, tables
from companion.analysis.results import DATA, measured, require
from companion.analysis.tables import DASH, METRICS, comma_list, decimal, percent, spoken_list
from companion.experiments import methods, tune
from companion.experiments.optimizer import ends_near, limit
from companion.experiments.settings import DRAWS, FIRST
from companion.store import paper, rows
from companion.store.paths import params

SEARCHES = ["data", "method", "result"]  # columns


# --- trials and searches -------------------------------------------------------------------------


def trials(model: str, *data: str, tag: str = "") -> pd.DataFrame:
    """One line per trial of every method's search with this tag, on the split that searches use.

    Results are shares. ``number`` is the trial's; ``printed`` says whether its settings are the
    paper's; ``score`` is in per cent, 0 where a trial failed; ``so_far`` is the best score up to
    this trial. Raises Refused if there is no trial.
    """
    frame = measured(model, *data)
    start = tune.tag_of_trials(tag)
    frame = frame[frame["tag"].str.startswith(start) & (frame["seed"] == tune.Settings().seed)]
    require(frame, f"trials of {model} on {' or '.join(data)}", "tune")
    number = frame["tag"].str.removeprefix(start).astype(int)
    in_print = frame["method"].map(methods.title).map(paper.has_settings).astype(bool)
    named = [name for name in methods.registry() if name in set(frame["method"])]
    frame = frame.assign(
        number=number,
        printed=in_print & (number < len(tune.PAPER_VOCABULARY)),
        method=pd.Categorical(frame["method"], named, ordered=True),
        score=100 * frame["unlearning_score"].astype(float).fillna(0),
        place=frame["data"].map(data.index),
    )
    frame = frame.sort_values(["place", "method", "number"], ignore_index=True)
    best = frame.groupby(["data", "method"], observed=True)["score"].cummax()
    return frame.drop(columns="place").assign(so_far=best)


def trial_table(search: dict, found: dict[str, dict]) -> pd.DataFrame:
    """Every trial of a search's row, best first, as texts: its settings, whether it was effective,
    its scores, and the mean over the splits of those that were evaluated again."""
    name = search["name"].replace("tune/", "unlearn/", 1) + "-trial"
    names = [f"{name}{number:02d}" for number in range(search["result"]["trials"])]
    means = {int(n): sum(some) / len(some) for n, some in search["result"]["top_trials"].items()}
    lines = []
    for trial in (found[name] for name in names if name in found):
        number, after = trial["overrides"]["trial"], trial["result"].get("after", {})
        given = trial["settings"]["hyperparameters"].items()
        effective = after.get("efficacy", 0) >= tune.EFFECTIVE
        line = {"trial": str(number), "effective": "yes" if effective else "no"}
        line["settings"] = ", ".join(f"{name} {short(value)}" for name, value in given)
        line |= {title: after.get(metric) for metric, title in METRICS.items()}
        lines.append(line | {"mean of the splits": means.get(number)})
    table = pd.DataFrame(lines).sort_values("Unlearning Score", ascending=False, kind="stable")
    shares = [*METRICS.values(), "mean of the splits"]
    shown = table[shares].astype(float).map(percent)
    return table.assign(**{name: shown[name] for name in shares})


def searches(model: str, *data: str, tag: str = "") -> pd.DataFrame:
    """One line per search with this tag: its data, its method, and the ``result`` of its row."""
    found = [row for name in data for row in rows.find(kind="tune", data=name).values()]
    found = [row for row in found if row["model"] == model and row["tag"] == tag]
    order = list(methods.registry())
    found.sort(key=lambda row: (data.index(row["data"]), order.index(row["method"])))
    return pd.DataFrame([[row[name] for name in SEARCHES] for row in found], columns=SEARCHES)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per search, by data and method: how many of its trials ran, moved their targets and
    failed, the best score of all and of the first half, and those of the paper's own settings."""
    keys = ["data", "method"]
    groups = frame.groupby(keys, sort=False, observed=True)
    printed = frame[frame["printed"]].groupby(keys, sort=False, observed=True)["unlearning_score"]
    columns = {
        "trials": groups.size(),
        "effective": groups["efficacy"].agg(lambda shares: (shares >= tune.EFFECTIVE).sum()),
        "failed": groups["failed"].count(),
        "best": groups["score"].max(),
        "best of the first half": groups["score"].agg(lambda some: some.head(len(some) // 2).max()),
        "the paper's settings": printed.agg(lambda scores: " / ".join(map(percent, scores))),
    }
    return pd.DataFrame(columns).loc[groups.size().index]


def reevaluated(found: pd.DataFrame) -> pd.DataFrame:
    """One line per trial of ``searches`` that ran on further splits, best on the search's own split
    first. Scores in per cent: ``first`` on that split, ``further`` on the others (a list), ``mean``
    over all. ``chosen``: did the search choose it?"""
    lines = []
    for one in found.itertuples():
        for number, scores in one.result.get("top_trials", {}).items():
            first, *further = (100 * score for score in scores)
            mean = (first + sum(further)) / len(scores)
            chosen = int(number) == one.result["best"]
            lines.append([one.data, one.method, int(number), first, further, mean, chosen])
    columns = ["data", "method", "number", "first", "further", "mean", "chosen"]
    return pd.DataFrame(lines, columns=columns)


def reevaluated_table(top: pd.DataFrame) -> pd.DataFrame:
    """``reevaluated`` as texts."""
    table = top.rename(columns={"number": "trial", "first": "first split"})
    table["further splits"] = [", ".join(map(decimal, some)) for some in table.pop("further")]
    table["chosen"] = table.pop("chosen").map({True: "yes", False: ""})
    return tables.as_strings(table.assign(method=table["method"].map(methods.title)))


def answer(frame: pd.DataFrame, top: pd.DataFrame, data: str) -> dict[str, str]:
    """What the page says of the trials on one data set, for ``glue``."""
    own, lines = frame[frame["data"] == data], summary(frame[frame["data"] == data])
    printed = own[own["printed"] & own["method"].isin(methods.paper_methods())]["score"]
    rose = lines["best"] - lines["best of the first half"]
    best = top[top["data"] == data].groupby("method").head(1)
    lost = best["first"] - best["further"].map(lambda some: sum(some) / max(len(some), 1))
    return {
        "best_printed": decimal(printed.max()),
        "rising": f"{(rose >= 1).sum()} of {len(rose)}",
        "lost": decimal(lost.mean()),
    }


def fallen(chosen: pd.Series, scores: pd.Series) -> str:
    """The three methods whose chosen settings lose most between tuning (``chosen``) and the
    comparison (``scores``); both are means in per cent by method."""
    lost = (chosen - scores).dropna().sort_values(ascending=False, kind="stable").head(3)
    names = lost.index[lost > 0]
    return comma_list(
        f"{methods.title(name)} from {decimal(chosen[name])} to {decimal(scores[name])}"
        for name in names
    )


def both_searches(model: str, *data: str) -> pd.DataFrame:
    """What each method's choice reaches on the tuning sets in the ``first`` search and in the
    ``second``, by draws alone: the mean over splits, as a share; nan if it is not recorded."""
    parts = {}
    for name in data:
        for which, tag in (("first", ""), ("second", DRAWS)):
            found = searches(model, name, tag=tag).set_index("method")["result"]
            parts[name, which] = found.map(lambda result: result["unlearning_score"])
    return pd.DataFrame(parts).reindex(searched()).astype(float)


def both_table(found: pd.DataFrame) -> pd.DataFrame:
    """``both_searches`` as texts, in per cent."""
    table = found.map(percent).rename(index=methods.title).rename_axis("method")
    titled = {f"{name}-tune": title for name, title in DATA.items()}
    table.columns = [f"{titled.get(name, name)}, {which} search" for name, which in table]
    return table.reset_index()


def gained(found: pd.DataFrame, **data: str) -> dict[str, str]:
    """For ``glue``, under a name for each tuning set: the methods whose choice in the second search
    reaches more there, and as NAME_of how many of all they are."""
    said = {}
    for name, of in data.items():
        more = found[of, "second"] > found[of, "first"]
        said[name] = spoken_list([*map(methods.title, found.index[more])] or ["none"])
        said[f"{name}_of"] = f"{more.sum()} of {len(more)}"
    return said


def second_choices(model: str) -> pd.DataFrame:
    """The runs of the comparison with what second searches chose (``tagged``), and those with the
    first choices in the same cells. Raises Refused if there is none."""
    found = main_comparison.beside(model, FIRST, *DATA)
    found = found[found["method"].isin(searched())]  # controls follow REVS
    require(found, f"runs of {model} with the choices of first searches", "main-first")
    return found.assign(tagged=~found["tagged"])


def searched() -> list[str]:
    """The methods whose settings are searched."""
    return [name for name in methods.registry() if name in params("search")]


# --- the ends of ranges --------------------------------------------------------------------------


def at_ends(settings: dict, spaces: dict[str, dict]) -> list[tuple[str, str, bool]]:
    """The settings at or beyond an end of their range: name, end, and whether the range cannot grow
    there. A value is at an end if a search (``companion.experiments.optimizer``) calls it near.

    A share of another setting counts as a share, layers as their number: that is what is drawn.
    """
    found = []
    for name, space in spaces.items():
        value = settings.get(name)
        if value is None:
            continue
        if "share_of" in space:
            name, value = f"{name} / {space['share_of']}", value / settings[space["share_of"]]
            space = {"low": space["low"], "high": 1.0, "least": space["low"], "most": 1.0}
        elif "in_a_row" in space:
            most = space["in_a_row"]
            name, value = f"{name}: how many", most if value == "all" else len(value)
            space = space | {"low": 1, "high": most, "most": most}
        if "high" in space:
            near = ends_near(space, value)
            found += [(name, end, space[end] == limit(space, end)) for end in near]
    return found


def edges(found: pd.DataFrame) -> pd.DataFrame:
    """One line per search: whose range grew, and which of the chosen settings lie at an end."""
    lines = []
    for one in found.itertuples():
        near = at_ends(one.result["hyperparameters"], one.result["ranges"])
        at = ", ".join(f"`{name}` {end}" + " (limit)" * fixed for name, end, fixed in near)
        grew = ", ".join(map("`{}`".format, one.result["widened"]))
        lines.append([one.data, one.method, grew or DASH, at or DASH])
    columns = ["data", "method", "ranges that grew", "chosen at an end"]
    return pd.DataFrame(lines, columns=columns)


# --- settings and ranges in cells ----------------------------------------------------------------


def printed(entry: dict) -> str:
    """A setting of the Appendix in a cell: margins also as fractions of the vocabulary, † where it
    lies outside the paper's own sweep."""
    value = entry["value"]
    if entry.get("inherited"):
        return "as SSN"
    if isinstance(value, (list, str)):
        return short(value)
    share = value / tune.PAPER_VOCABULARY[entry["model"]]
    fraction = f" ({share:.2g})" if entry["name"] in tune.MARGINS else ""
    return f"{value:g}{fraction}" + (" †" if errata.is_outside(entry) else "")


def interval(space: dict | None) -> str:
    """A range or a list of values in a cell, in words."""
    if space is None:
        return DASH
    if "values" in space:
        return ", ".join(short(value) for value in space["values"])
    if "to_the_last" in space:
        return "from any layer to the last"
    if "last_of" in space:
        return f"the last of `{space['last_of']}`"
    said = ["uniform"] if space.get("scale") == "linear" else []
    limits = (bound for bound in ("least", "most") if bound in space)  # how far it may grow
    said += [f"{bound} {short(space[bound])}" for bound in limits]
    notes = f" ({'; '.join(said)})" if said else ""
    if "share_of" in space:
        return f"{short(space['low'])} to 1 times `{space['share_of']}`{notes}"
    if "in_a_row" in space:
        return f"1 to {space['in_a_row']} in a row{notes}"
    return f"{short(space['low'])} to {short(space['high'])}{notes}"


def short(value) -> str:
    """A setting in a cell: 1.23e-05, 10230, 3–8, all, or a dash."""
    if value is None:
        return DASH
    if isinstance(value, (list, tuple)):
        return tables.number_ranges(value)
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"
