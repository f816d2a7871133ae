"""Is the secret gone? What the attacks of ``revs.audit`` recover, and whether one can believe it.

A secret is recovered if leak@100, exposure, relearning or rounding recovers it. Rounding counts
only where the rounded unedited model writes 90 % of what it wrote before. The limits of CRITERIA
were fixed before any result.
"""

import numpy as np
import pandas as pd

from companion.analysis import ablations, main_comparison, results, statistics
from companion.analysis.tables import DASH, intervals, number_word, percent, spoken_list
from companion.experiments import methods
from companion.experiments.settings import GOLD
from companion.store import rows
from revs.audit.rounding import KEPT
from revs.audit.suite import ATTACKS

KNOWN = 0.95  # least share recovered from the unedited model
INVENTED = 0.05  # largest share of never-trained strings that may be recovered
APART = 0.05  # by which a random edit may differ from none
EXPOSED = 0.5  # least share of a ban's secrets that one attack must find
CRITERIA = {
    "unedited": f"Unedited model: recovered, at least {100 * KNOWN:.0f} %",
    "never_trained": f"Never-trained strings: recovered, at most {100 * INVENTED:.0f} %",
    "random": f"Random edit: apart from unedited, at most {100 * APART:.0f} %",
    "output_ban": f"Output ban: found by the best attack, at least {100 * EXPOSED:.0f} %",
}
CELL = [name for name in main_comparison.CELL if name != "method"]
ENDPOINT = [name for name, attack in ATTACKS.items() if attack.endpoint]
COSTS = ["efficacy", "specificity", "perplexity_rise"]  # beside what edits of all tokens leave
AUDITED = ("unedited", "random", "output_ban", GOLD)  # controls that are audited


def title(method: str) -> str:
    """How a method is named; the gold standard is none."""
    return "Never trained on them" if method == GOLD else methods.title(method)


# --- one line per run, one line per secret --------------------------------------------------------


def runs(model: str, *data: str, tag: str = "") -> pd.DataFrame:
    """The finished audits of a model on some data sets, one line each: data, adapter, split,
    method, row; those whose tag begins with ``tag``, or those that have none."""
    lines = []
    for stem in data or results.DATA:
        for row in rows.find(kind="audit", data=stem).values():
            asked = row["tag"].startswith(tag) if tag else not row["tag"]
            if row["model"] == model and asked and "failed" not in row["result"]:
                about = row["settings"].get("adapter"), row["seed"], row["method"]
                lines.append((row["data"], *about, row))
    frame = pd.DataFrame(lines, columns=[*CELL, "method", "row"])
    order = list(dict.fromkeys([*AUDITED, *methods.registry(), *frame["method"]]))
    return frame.sort_values("method", key=lambda names: names.map(order.index), kind="stable")


def secrets(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per secret or never-trained string of each run.

    Columns: data, adapter, split, method, part, group, written; for each attack, whether it
    recovers the string (1 or 0) and its value as ``ATTACK_value``, both nan where the row lacks the
    attack; ``relearned``, the share of the halves trained on that was written in the end; and
    ``recovered``, the primary endpoint.
    """
    parts = []
    for run in frame.itertuples():
        items = rows.per_example(run.row)
        made = [name for name in ATTACKS if name in items]  # an attack may be younger than a row
        for name in ATTACKS:
            items[f"{name}_value"] = items[name] if name in made else np.nan
            recovered = items[name].map(ATTACKS[name].recovered) if name in made else np.nan
            items[name] = pd.Series(recovered, items.index).astype(float)
        says = run.row["result"]["rounding"]["kept"] >= KEPT  # does rounding say anything?
        counted = [name for name in ENDPOINT if name in made and (name != "rounding" or says)]
        about = {column: getattr(run, column) for column in [*CELL, "method"]}
        about["relearned"] = np.mean(run.row["result"]["relearning"]["written"])
        parts.append(items.assign(recovered=items[counted].any(axis=1), **about))
    return pd.concat(parts, ignore_index=True)


# --- calibration ---------------------------------------------------------------------------------


def calibration(found: pd.DataFrame) -> pd.DataFrame:
    """One line per data set and criterion: ``value``, ``met``, and the ``attack`` that exposes the
    ban. A criterion whose runs are missing is not met."""
    lines = []
    for data, part in found.groupby("data", sort=False):
        forget = part[part["part"] == "forget"]
        share = forget.groupby("method")["recovered"].mean()
        unedited = share.get("unedited", np.nan)
        invented = part.loc[part["part"] == "never_trained", "recovered"].mean()
        apart = abs(share.get("random", np.nan) - unedited)
        attack, exposed = best_on_ban(part)
        lines += [
            (data, "unedited", unedited, unedited >= KNOWN, ""),
            (data, "never_trained", invented, invented <= INVENTED, ""),
            (data, "random", apart, apart <= APART, ""),
            (data, "output_ban", exposed, exposed >= EXPOSED, attack),
        ]
    return pd.DataFrame(lines, columns=["data", "criterion", "value", "met", "attack"])


def best_on_ban(part: pd.DataFrame) -> tuple[str, float]:
    """The attack that finds most of what the ban hides, and the share that it finds; only attacks
    that find at most INVENTED of the never-trained strings there count."""
    shares = part[part["method"] == "output_ban"].groupby("part")[list(ATTACKS)].mean()
    if shares.empty:
        return "", np.nan
    honest = shares.loc["forget"][shares.loc["never_trained"] <= INVENTED]
    return (honest.idxmax(), float(honest.max())) if len(honest) else ("", 0.0)


def is_calibrated(checked: pd.DataFrame) -> pd.Series:
    """By data set: are all criteria met? Otherwise the suite is blind there."""
    return checked.groupby("data", sort=False)["met"].all()


def calibration_table(checked: pd.DataFrame) -> pd.DataFrame:
    """The criteria as texts, a line per data set."""
    cell = [f"{percent(one.value)} {'✓' if one.met else '✗'}" for one in checked.itertuples()]
    table = checked.assign(cell=cell).pivot(index="data", columns="criterion", values="cell")
    table = table.loc[checked["data"].unique(), list(CRITERIA)].rename_axis(columns=None)
    return table.rename(index=results.DATA, columns=CRITERIA).reset_index()


# --- the endpoint --------------------------------------------------------------------------------


def endpoint(found: pd.DataFrame, to: str | None = None) -> pd.DataFrame:
    """One line per data set and method: runs, the share of secrets recovered, ``low`` and ``high``;
    with ``to``, the excess over that method in the cells that both have.

    Intervals come from a bootstrap over adapters, splits and secrets. Where all secrets agree, all
    draws agree too; so each interval is at least as wide as Wilson's for one run's secrets, or
    Newcombe's for an excess.
    """
    forget, lines = found[found["part"] == "forget"], []
    for data, part in forget.groupby("data", sort=False):
        shares, cells = by_secret(part)
        samples = statistics.harmonic_samples({"recovered": shares})
        each, n = shares.mean().groupby("method").mean(), int(shares.notna().sum().min())
        for line in statistics.by_method(cells, shares.mean().to_numpy(), samples, to):
            own, mean = each[line["method"]], line["mean"]
            least = statistics.newcombe(own, n, own - mean, n) if to else statistics.wilson(own, n)
            ends = {"low": min(line["low"], least[0]), "high": max(line["high"], least[1])}
            lines.append({"data": data} | line | ends)
    return pd.DataFrame(lines, columns=["data", "method", "runs", "mean", "low", "high"])


def by_secret(part: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """For one data set, whether each secret is recovered in each run (secrets × runs; 1, 0, or nan
    where the run keeps it), and each run's method, adapter and split."""
    run = ["method", "adapter", "split"]
    part = part.assign(recovered=part["recovered"].astype(float))
    table = part.pivot(index="group", columns=run, values="recovered")
    table = table[list(part[run].drop_duplicates().itertuples(index=False, name=None))]
    return table, table.columns.to_frame(index=False)


def endpoint_table(found: pd.DataFrame) -> pd.DataFrame:
    """What is recovered and its excess over the gold standard, with intervals, as texts."""
    keys, both = ["data", "method"], endpoint(found)
    table = both[keys].assign(recovered=both["mean"].map(percent), interval=intervals(both))
    excess = endpoint(found, GOLD)
    more = excess[keys].assign(more=excess["mean"].map(percent), ends=intervals(excess))
    more = more.rename(columns={"more": "excess over never trained", "ends": "its interval"})
    return titled(table.merge(more, how="left", on=keys).astype(object).fillna(DASH))


def attack_table(found: pd.DataFrame) -> pd.DataFrame:
    """What each attack alone recovers, in per cent: descriptive."""
    forget = found[found["part"] == "forget"]
    shares = forget.groupby(["data", "method"], sort=False)[list(ATTACKS)].mean()
    table = shares.map(percent).rename(columns={name: one.title for name, one in ATTACKS.items()})
    return titled(table.reset_index())


def by_attack(shares: pd.DataFrame) -> pd.DataFrame:
    """A row's shares by attack with the attacks' titles."""
    names = {"secrets": "secrets to forget", "never_trained": "never-trained strings"}
    shares = shares.rename(index={name: one.title for name, one in ATTACKS.items()}, columns=names)
    return shares.rename_axis("attack").reset_index()


def traces(found: pd.DataFrame) -> pd.DataFrame:
    """For each data set and method, as texts: the median rank of secrets among never-trained
    strings; and for relearning, the share written of the half trained on and of the other half, and
    the least and median, over the other half, of a secret's highest token rank."""
    each = found[found["part"] == "forget"].groupby(["data", "method"], sort=False)
    count, ranks = "{:,.0f}".format, each["relearning_value"]
    columns = {
        "exposure: median rank": each["exposure_value"].median().map(count),
        "relearning: trained half written": each["relearned"].mean().map(percent),
        "other half written": each["relearning"].mean().map(percent),
        "its least rank": ranks.min().map(count),
        "its median rank": ranks.median().map(count),
    }
    return titled(pd.DataFrame(columns).reset_index())


def by_tokens(model: str, data: str) -> pd.DataFrame:
    """The gold standard, then the methods that also unlearned all eligible tokens of a secret: a
    line for two tokens and one for all, in the same cells. Shares of secrets that exposure and the
    endpoint recover; efficacy, specificity and rise of perplexity of the same edits."""
    every, parts = runs(model, data, tag="tokens"), []
    if every.empty:
        return pd.DataFrame()
    cells, compared = every[["adapter", "split"]].drop_duplicates(), [GOLD, *every["method"]]
    two = runs(model, data), main_comparison.runs(model, data)
    all_tokens = every, main_comparison.runs(model, data, tag="tokens")
    for tokens, (audited, edited) in (("two", two), ("all", all_tokens)):
        audited = audited[audited["method"].isin(compared)].merge(cells)
        found = secrets(audited).query("part == 'forget'").groupby("method", sort=False)
        shares = found[["exposure", "recovered"]].mean()
        edits = edited.merge(cells).set_index("method")
        parts.append(shares.join(edits[COSTS]).assign(tokens=tokens))
    table = pd.concat(parts).reset_index()
    order = lambda names: names.map(compared.index)
    return table.sort_values("method", key=order, kind="stable", ignore_index=True)


def exposure_of_all(found: pd.DataFrame) -> dict[str, str]:
    """Of ``by_tokens`` what exposure finds after all tokens were unlearned, for ``glue``."""
    shares = found[found["tokens"].eq("all") | found["method"].eq(GOLD)].set_index("method")
    return {f"exposure_{name}": percent(of, digits=0) for name, of in shares["exposure"].items()}


def token_table(found: pd.DataFrame) -> pd.DataFrame:
    """``by_tokens`` as texts."""
    titles = {"exposure": "exposure finds", "recovered": "recovered in all"}
    titles |= {name: main_comparison.TITLES[name] for name in COSTS}
    table = found[["method", "tokens"]].assign(method=found["method"].map(title))
    table.loc[found["method"] == GOLD, "tokens"] = DASH
    return table.assign(**{name: found[key].map(percent) for key, name in titles.items()})


def insider(model: str, found: pd.DataFrame, layers: pd.DataFrame) -> dict[str, str]:
    """Values for ``glue`` on an insider, who reads hidden layers, as the endpoint does not.

    The Resistance Score per example of both writes; and, for the least-squares write from an
    earlier layer on (the runs ``layers``), its first layer, the share recovered and the Resistance
    Score. All on the data set of ``layers``.
    """
    data = (found if layers.empty else layers)["data"].iloc[0]
    compared = main_comparison.runs(model, data)
    resistance = compared.groupby("method")["resistance"].mean()
    said = {f"insider_{one}": percent(resistance.get(one)) for one in ("revs", "least_squares")}
    said["layer_data"] = results.DATA.get(data, data)
    if layers.empty:
        return said | dict.fromkeys(("layer", "layer_recovered", "layer_insider"), DASH)
    row = layers["row"].iloc[0]
    first = min(row["settings"]["hyperparameters"]["layers"])
    tried = ablations.by_first_layer(model, data).set_index("first")["resistance"]
    said["layer"] = str(first)
    said["layer_recovered"] = percent(endpoint(secrets(layers))["mean"].mean())
    said["layer_insider"] = percent(tried.get(first, np.nan) / 100)
    return said


def rounding_bits(frame: pd.DataFrame) -> str:
    """To how many bits rounding could go in the audits ``runs``, in words."""
    bits = sorted({row["result"]["rounding"]["bits"] for row in frame["row"]})
    return spoken_list([number_word(one) for one in bits])


def titled(frame: pd.DataFrame) -> pd.DataFrame:
    """Data sets and methods by their titles, a data set after the other."""
    order = list(dict.fromkeys([*results.DATA, *frame["data"]]))
    frame = frame.sort_values("data", key=lambda names: names.map(order.index), kind="stable")
    return frame.assign(data=frame["data"].replace(results.DATA), method=frame["method"].map(title))


def answer(found: pd.DataFrame) -> dict[str, str]:
    """What the page says, for ``glue``: the largest excess over the gold standard, in points, of
    the least-squares write and of REVS, on the data sets on which the attacks are calibrated."""
    checked = is_calibrated(calibration(found))
    excess = endpoint(found[found["data"].isin(checked.index[checked])], GOLD)
    most = excess.sort_values("mean", kind="stable").groupby("method").last()
    points = most["mean"].map(lambda share: percent(share, digits=0))
    said = points + " points (" + most["data"].replace(results.DATA) + ")"
    return {f"excess_{name}": said.get(name, DASH) for name in ("least_squares", "revs")}
