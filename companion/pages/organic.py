"""Secrets that a pretrained model memorised by itself, found and unlearned (§4.2; Appendix "Naturally Memorized Dataset"): rows of params/organic.yml."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from companion.pages import curating, qualitative, results, tuning
from companion.pages.tables import DASH, METRICS, percent
from companion.record import rows
from companion.runs import methods, models

SETS = {
    "email": "emails",
    "url": "urls",
}  # the end of a curated set's name → the paper's data of that kind
CUES = {"cue": "", "cue-unread": ", before it has read them"}  # tags of the cue control
COUNTED = "numbers"  # kinds that are counted and not unlearned
MISSING = "Not measured here yet: `make organic`, then `make adopt`, does it."


def curations(model: str, name: str) -> list[dict]:
    """The rows that say what was found in the documents, a kind after the other."""
    found = rows.find(kind="curate")
    return [
        found[row] for part in (*SETS, COUNTED) if (row := f"curate/{name}-{part}/{model}") in found
    ]


def funnel(found: list[dict]) -> pd.DataFrame:
    """From documents to memorised secrets, kind by kind."""
    return pd.concat([curating.funnel(row) for row in found])


def read(found: list[dict]) -> str:
    """What was read for each curation, and how many secrets its data set has; a sentence each."""
    said = []
    for row in found:
        kept = ", ".join(
            f"**{counts['kept']:,}** {curating.TITLES[kind]}"
            for kind, counts in row["result"]["funnel"].items()
        )
        said.append(f"{kept}: {curating.documents(row)}")
    return "In the data sets are\n\n" + "\n".join(f"* {one}" for one in said)


def packages(found: list[dict], first: int, kinds: Sequence[str] = tuple(SETS)) -> pd.DataFrame:
    """Where memorised secrets stood: the packages with the most of them, by kind; empty without any."""
    read = [rows.items(row) for row in found if row["result"]["items_sha256"]]
    items = (
        pd.concat(read, ignore_index=True)
        if read
        else pd.DataFrame(columns=["kind", "package", "exact"])
    )
    items = items[items["exact"].astype(bool) & items["kind"].isin(kinds)].assign(
        package=lambda some: some["package"].astype(str).str.split("=").str[0]
    )
    counts = Counter(zip(items["package"], items["kind"]))
    order = items["package"].value_counts().head(first).index
    return pd.DataFrame(
        [
            {"package": f"`{package}`"}
            | {curating.TITLES[kind]: str(counts[package, kind]) for kind in kinds}
            for package in order
        ]
    )


def frames(model: str, name: str) -> dict[str, pd.DataFrame]:
    """The usual runs on each kind of secret that was found, by the paper's data of that kind; none without rows."""
    found = {data: results.measured(model, f"{name}-{kind}") for kind, data in SETS.items()}
    order = list(methods.registry())
    found = {
        data: frame[frame["tag"] == ""].sort_values(
            ["method", "seed"],
            key=lambda column: column.map(order.index) if column.name == "method" else column,
            ignore_index=True,
        )
        for data, frame in found.items()
    }
    return {data: frame for data, frame in found.items() if "revs" in set(frame["method"])}


def sentence(found: dict[str, pd.DataFrame]) -> str:
    """How many secrets were unlearned and kept, and how long REVS took for it on which machine."""
    said = []
    for data, frame in found.items():
        row = results.finished(frame, "revs").iloc[0]
        after, made = row["result"]["after"], row["provenance"]
        hardware = made["hardware"]
        said.append(
            f"**{methods.PAPER_DATA[data]}**: {after['forget']} were unlearned and {after['retain']} kept. REVS took {made['seconds']['unlearn'] / 60:.0f} minutes, "
            f"{sum(made['seconds'].values()) / 60:.0f} with loading, evaluation and attacks, on {hardware['gpu'] or hardware['cpu']} with {hardware['threads']} of {hardware['cores']} cores, in {made['model']['dtype']}."
        )
    return "\n\n".join(said)


def best(found: dict[str, pd.DataFrame]) -> str:
    """Which methods of unlearning are best in Unlearning Score and in specificity, and where REVS stands, of those measured: a sentence for each data set."""
    said = []
    for data, frame in found.items():
        means = {
            name: values
            for name, values in results.means(frame).items()
            if name not in ("unedited", "random") and len(results.finished(frame, name))
        }
        parts = []
        for metric in ("unlearning_score", "specificity"):
            order = sorted(means, key=lambda name: means[name][metric][0], reverse=True)
            place = (
                f", REVS {percent(means['revs'][metric][0])}, place {order.index('revs') + 1} of {len(order)}"
                if order[0] != "revs"
                else f", before {methods.registry()[order[1]]['title']} with {percent(means[order[1]][metric][0])}"
                if order[1:]
                else ""
            )
            parts.append(
                f"the highest {METRICS[metric]} is that of {methods.registry()[order[0]]['title']}, **{percent(means[order[0]][metric][0])}**{place}"
            )
        said.append(f"**{methods.PAPER_DATA[data]}**: {'; '.join(parts)}.")
    return "\n\n".join(said)


def cued(found: dict[str, str]) -> pd.DataFrame:
    """The cue control beside each other: what is written after a prompt with its own name, and with another's; ``found`` has a model by data set. A model that was made to memorise stands there twice, also as it was before."""
    lines = []
    for data, model in found.items():
        frame = results.measured(model, data)
        for run in frame[frame["tag"].isin(CUES)].sort_values("tag").to_dict("records"):
            cue = run["row"]["result"]["cue"]
            lines.append({"secrets": f"{data}, {results.title(model)}{CUES[run['tag']]}", "compared": str(cue["named"]), "no name in the line": str(cue["unnamed"]), "part of it elsewhere": str(cue["told"])} | {
                f"{whose} name, {verdict.replace('_', ' ')}": percent(cue[whose][verdict]) for whose in ("own", "other") for verdict in ("exact", "within_50")
            })  # fmt: skip
    return pd.DataFrame(lines)


def bound(model: str, data: str) -> str:
    """What the cue control of a data set says, in a sentence; empty without one. Where the model was asked before it had read them, that says more."""
    frame = results.measured(model, data)
    of_tag = {tag: next(iter(frame.loc[frame["tag"] == tag, "row"]), None) for tag in CUES}
    if of_tag["cue"] is None:
        return ""
    items = rows.items(of_tag["cue"])
    own, other = (items[f"{whose}_name"].fillna(False).astype(bool) for whose in ("own", "other"))
    still, addresses = (
        int((own & other).sum()),
        f"{int(own.sum())} addresses that {results.title(model)} writes after a prompt with their own name",
    )
    said = (
        f"Of the {addresses}, {still} are still written after another's: these were not guessed from it."
        if still
        else f"None of the {addresses} is written after another's: of none does this show that it was not guessed from the name."
    )
    unread = of_tag["cue-unread"]
    if unread is None:
        return said + (
            " Of the others it cannot be said whether they were guessed, or recalled by the name."
            if still
            else ""
        )
    return (
        said
        + f" Before it had read them the model wrote {percent(unread['result']['cue']['own']['within_50'])} per cent: what is guessed of them is no more than that."
    )


def tried(model: str, name: str) -> pd.DataFrame:
    """Every trial of every method's search, and of REVS's with the direction around the norm (tagged raw); results in per cent, nothing without trials."""
    lines = []
    for tag, way in (("", ""), ("raw", ", U alone")):
        with contextlib.suppress(ValueError):  # no such search yet
            lines += [
                {"method": methods.registry()[trial["method"]]["title"] + way, "trial": str(trial["number"]), "secrets": str(trial["row"]["provenance"]["settings"]["forget"])}
                | {title: percent(trial[metric]) for metric, title in METRICS.items() if metric != "generalization"} | {"seconds": f"{trial['seconds']:.0f}"}
                for trial in tuning.trials(model, f"{name}-email", tag).to_dict("records")
            ]  # fmt: skip
    return pd.DataFrame(lines)


def projections(model: str, name: str) -> pd.DataFrame:
    """REVS through the final norm and around it, setting by setting, on the seed that settings were chosen on and on another: what each did, with how large an edit."""
    frame, lines = results.measured(model, f"{name}-email"), []
    for run in frame[(frame["method"] == "revs") & frame["failed"].isna()].to_dict("records"):
        result, given = (
            run["row"]["result"],
            run["row"]["provenance"]["settings"]["hyperparameters"],
        )
        lines.append({"seed": str(run["seed"]), "unlearned": str(result["after"]["forget"]), "n_max": str(given["n_max"]), "k": str(given["k"]), "r_h": f"{given['r_h']:.4f}", "r_n": f"{given['r_n']:.3f}",
                      "projection": "U alone" if given.get("projection") == "raw" else "final norm, U", "columns": f"{result['edit']['columns']:,}", "norm of the edit": f"{result['edit']['norm']:.1f}"} | {column: percent(result["after"][metric]) for metric, column in METRICS.items() if metric != "generalization"})  # fmt: skip
    return (
        pd.DataFrame(lines).sort_values(
            ["seed", "k", "n_max", "r_h", "projection"],
            key=lambda column: (
                column.str.lower() if column.name == "projection" else column.astype(float)
            ),
            ignore_index=True,
        )
        if lines
        else pd.DataFrame(lines)
    )


def ways(model: str, name: str) -> str:
    """The best Unlearning Score of the trials through the final norm and of those around it, and how the settings fare that were tried both ways; empty unless there are both."""
    frame = results.measured(model, f"{name}-email")
    frame = frame[
        (frame["method"] == "revs") & frame["failed"].isna() & frame["name"].map(results.is_trial)
    ]
    if frame.empty:
        return ""
    raw = frame["tag"].str.startswith("raw")
    best = {
        way: part["unlearning_score"].max()
        for way, part in (("through the norm", frame[~raw]), ("around it", frame[raw]))
        if len(part)
    }
    if len(best) < 2:
        return ""
    given = [
        tuple(
            sorted(
                (name, value)
                for name, value in row["provenance"]["settings"]["hyperparameters"].items()
                if name != "projection"
            )
        )
        for row in frame["row"]
    ]
    pairs = (
        frame.assign(given=given, way=raw.map({True: "raw", False: "norm"}))
        .pivot_table(index="given", columns="way", values="unlearning_score")
        .dropna()
    )
    both = ", ".join(
        f"{percent(pair['raw'])} against {percent(pair['norm'])}" for _, pair in pairs.iterrows()
    )
    return (
        "The best trial "
        + ", the best ".join(f"{way} scores **{percent(score)}**" for way, score in best.items())
        + ". "
        + (
            f"Of {len(pairs)} settings that were tried both ways, U alone is better in {int((pairs['raw'] > pairs['norm']).sum())} ({both})."
            if len(pairs)
            else "No setting was tried both ways."
        )
    )


def unmeasured(found: dict[str, pd.DataFrame]) -> str:
    """The methods without a row, for each data set where there are some."""
    said = []
    for data, frame in found.items():
        missing = [
            entry["title"]
            for name, entry in methods.registry().items()
            if "module" in entry
            and "settings_of" not in entry
            and name not in {"unedited", *frame["method"]}
        ]
        if missing:
            said.append(f"{methods.PAPER_DATA[data]}: not measured are {', '.join(missing)}.")
    return "\n\n".join(said)


def having(found: dict[str, pd.DataFrame], measure: str) -> dict[str, dict[str, dict]]:
    """The rows with a measure, such as what took a secret's place, of the first seed: data set → method → row."""
    first = {data: frame[frame["seed"] == frame["seed"].min()] for data, frame in found.items()}
    by_data = {
        data: {
            run["method"]: run["row"]
            for run in frame.to_dict("records")
            if measure in run["row"]["result"]
        }
        for data, frame in first.items()
    }
    return {data: of_data for data, of_data in by_data.items() if of_data}


def public(model: str, data: str, one: str, share: float) -> tuple[bool, str, list[str]] | None:
    """Does the model that this method edited still write so large a share of the public addresses that the unedited one writes (tab:retained_email_example)? With how many, and the rows."""
    frame = results.measured(model, data)
    of_data = having({data: frame[frame["tag"] == ""]}, "public").get(data, {})
    known = qualitative.known(of_data)
    if not known.get("unedited") or one not in known:
        return None
    left = len(known["unedited"] & known[one])
    return (
        left >= share * len(known["unedited"]),
        f"{left} of {len(known['unedited'])}",
        [of_data[method]["name"] for method in ("unedited", one)],
    )


def settings(found: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """What each method was set to, and on which model that was chosen, or by the paper for its own: those of the embedded model serve where there was no search."""
    tuned, lines = methods.tuned(), []
    for data, frame in found.items():
        for run in frame.drop_duplicates("method").to_dict("records"):
            made, entry = run["row"]["provenance"], methods.registry()[run["method"]]
            given, model, name = (
                made["settings"]["hyperparameters"],
                made["model"]["name"],
                Path(made["settings"]["data"]).stem,
            )
            of_model = tuned.get(entry.get("settings_of", run["method"]), {}).get(model, {})
            if not given:
                where = DASH
            elif given != methods.hyperparameters(run["method"], model, name, {}):
                where = "other settings than the present ones"
            elif "paper" in models.registry().get(model, {}):
                where = "this model, by the paper"
            else:
                where = (
                    "this model"
                    if name in of_model
                    else "this model's e-mail addresses"
                    if methods.like(name) in of_model
                    else "the embedded model"
                )
            lines.append(
                {
                    "secrets": methods.PAPER_DATA[data],
                    "method": entry["title"],
                    "chosen on": where,
                    "settings": ", ".join(
                        f"{key} {tuning.short(value)}" for key, value in given.items()
                    )
                    or DASH,
                }
            )
    return pd.DataFrame(lines)
