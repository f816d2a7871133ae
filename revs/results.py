"""From rows to the frames that pages show. Nothing is computed here but means, spreads and percentages."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from revs import methods, metrics, paper, rows
from revs.load import registry
from revs.tables import DASH, METRICS, percent

PAPER_COLUMNS = {"efficacy": "Efficacy@100", "generalization": "Generalization@100", "specificity": "Specificity", "unlearning_score": "Unlearning Score"}
Means = dict[str, dict[str, tuple[float, float]]]  # method → metric → (mean, standard deviation), as shares


def title(model: str) -> str:
    """How a model is named in captions."""
    return registry().get(model, {}).get("title", model)


# --- ours ------------------------------------------------------------------------------------------------------------


def measured(model: str, data: str) -> pd.DataFrame:
    """One line for each unlearning run of a model and a data set, with the tag that its name carries."""
    lines = []
    for name, row in rows.find(kind="unlearn").items():
        settings, result = row["provenance"]["settings"], row["result"]
        if (row["provenance"]["model"]["name"], Path(settings["data"]).stem) == (model, data):
            line = {"name": name, "method": settings["method"], "seed": settings["seed"], "tag": tag_of(name), "origin": row["origin"], "row": row}
            lines.append(line | settings["hyperparameters"] | {metric: result["after"][metric] for metric in METRICS})
    return pd.DataFrame(lines, columns=None if lines else ["tag"])


def tag_of(name: str) -> str:
    """The tag in a row's name, method-seedN-tag; empty for the usual settings."""
    return re.fullmatch(r".+?-seed\d+(?:-(.+))?", name.rsplit("/", 1)[1])[1] or ""


def runs(model: str, data: str, tag: str = "") -> pd.DataFrame:
    """The runs whose name carries exactly this tag.

    Raises ValueError if there is none: a page without rows must not render.
    """
    frame = measured(model, data)
    frame = frame[frame["tag"] == tag]
    if frame.empty:
        raise ValueError(f"There are no rows of {model} on {data}" + (f" with the tag '{tag}'" if tag else "") + ": run the workflow, or look for recorded rows.")
    return frame.sort_values(["method", "seed"], ignore_index=True)


def means(frame: pd.DataFrame) -> Means:
    """Mean and standard deviation over seeds, by method; Unedited is the state before the runs of REVS."""
    found = {name: {metric: metrics.summary(part[metric].tolist()) for metric in METRICS} for name, part in frame.groupby("method")}
    before = [row["result"]["before"] for row in frame.loc[frame["method"] == "revs", "row"]]
    return {"unedited": {metric: metrics.summary([result[metric] for result in before]) for metric in METRICS}} | found


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Every run, one line."""
    return pd.DataFrame([
        {"method": methods.registry()[run["method"]]["title"], "seed": str(run["seed"])} | {title: percent(run[metric]) for metric, title in METRICS.items()}
        | {"unlearning, s": f"{run['row']['provenance']['seconds']['unlearn']:.0f}", "row": run["origin"]}
        for run in frame.to_dict("records")
    ])


def describe_seeds(frame: pd.DataFrame, method: str) -> str:
    """ "seeds 1–6" or "seeds 1, 3, 4"."""
    seeds = sorted(frame.loc[frame["method"] == method, "seed"])
    whole = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 2
    return ("seeds " if len(seeds) > 1 else "seed ") + (f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(map(str, seeds)))


def origin_sentence(frame: pd.DataFrame) -> str:
    """Which of the rows were measured in this build, and where the recorded ones were."""
    measured = frame["origin"] == "measured in this build"
    parts = [f"{measured.sum()} measured in this build"] if measured.any() else []
    machines = {row["provenance"]["hardware"]["gpu"] or row["provenance"]["hardware"]["cpu"] for row in frame.loc[~measured, "row"]}
    parts += [f"{(~measured).sum()} recorded on {' and '.join(sorted(machines))}"] if (~measured).any() else []
    return "of the runs behind it, " + " and ".join(parts)


# --- the paper's -----------------------------------------------------------------------------------------------------


def paper_core(label: str, dataset: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The paper's rows of a core table, as shares, by our names of methods and metrics."""
    printed_cells = paper.table(label)
    known = {entry["title"]: name for name, entry in methods.registry().items()}
    found: Means = {}
    for metric, column in PAPER_COLUMNS.items():
        cells = printed_cells[(printed_cells["dataset"] == dataset) & (printed_cells["column"] == column)]
        for cell in cells.to_dict("records"):
            if cell["row"] in known and cell["value"] == cell["value"]:
                spread = cell["std"] if cell["std"] is not None else float("nan")
                found.setdefault(known[cell["row"]], {})[metric] = (cell["value"] / 100, spread / 100)
    return found


def core_table(ours: Means, theirs: dict[str, Means]) -> pd.DataFrame:
    """Method by method: ours, then each of the paper's models."""
    lines = []
    for name, entry in methods.registry().items():
        for whose, values in [("ours", ours), *((f"paper, {model}", table) for model, table in theirs.items())]:
            if name in values:
                lines.append({"method": entry["title"], "measured": whose} | {title: percent(*values[name].get(metric, (float("nan"),))) for metric, title in METRICS.items()})
    return pd.DataFrame(lines)


def headline(frame: pd.DataFrame, ours: Means, theirs: dict[str, Means]) -> dict[str, str]:
    """The strings that the landing page shows."""
    return {f"revs_{short}": percent(*ours["revs"][metric]) for short, metric in {"score": "unlearning_score", "efficacy": "efficacy", "generalization": "generalization", "specificity": "specificity"}.items()} | {
        "random_score": percent(*ours["random"]["unlearning_score"]),
        "paper_score": percent(*theirs["Llama-3-8B"]["revs"]["unlearning_score"]),
        "seeds": str((frame["method"] == "revs").sum()),
        "origin": origin_sentence(frame),
    }


# --- sweeps ----------------------------------------------------------------------------------------------------------


def sweep(model: str, data: str, tag: str) -> pd.DataFrame:
    """The runs of a sweep (tags that begin with its name), results in percent."""
    frame = measured(model, data)
    frame = frame[frame["tag"].str.startswith(tag)].sort_values(["tag", "method", "seed"], ignore_index=True)
    if frame.empty:
        raise ValueError(f"There are no rows of the sweep '{tag}': run `make record`, or look for recorded rows.")
    frame[list(METRICS)] *= 100
    return frame


def sweep_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The settings that vary and the metrics, best first."""
    varied = [column for column in ("r_h", "r_n", "n_max", "k") if frame[column].nunique() > 1]
    shown = frame.sort_values("unlearning_score", ascending=False)
    return pd.DataFrame({column: [f"{value:g}" for value in shown[column]] for column in varied} | {title: [f"{value:.1f}" for value in shown[metric]] for metric, title in METRICS.items()})


def variants(model: str, data: str) -> tuple[pd.DataFrame, dict[str, float]]:
    """One option changed at a time, beside the setting of the core results on the same split.

    The numbers with it are the paper's schedule ÷ ours, and the efficacy, in per cent, of the two readings of the paper's text.
    """
    usual = methods.hyperparameters("revs", model, data, {})
    grid = sweep(model, data, "margins")
    base = grid[(grid["r_h"] == usual["r_h"]) & (grid["r_n"] == usual["r_n"]) & (grid["n_max"] == usual["n_max"])]
    frame = pd.concat([base, sweep(model, data, "variants")], ignore_index=True)
    frame["option"] = ["as in the core results", *(", ".join(f"{key} = {value}" for key, value in row["provenance"]["settings"]["hyperparameters"].items() if usual.get(key) != value) for row in frame["row"][1:])]
    edits = pd.DataFrame([row["result"]["edit"] | {"seconds": row["provenance"]["seconds"]["unlearn"]} for row in frame["row"]])
    table = pd.DataFrame({"option": frame["option"]} | {title: [f"{value:.1f}" for value in frame[metric]] for metric, title in METRICS.items()}
                         | {"columns": [f"{value:,}" for value in edits["columns"]], "norm": [f"{value:.1f}" for value in edits["norm"]], "seconds": [f"{value:.0f}" for value in edits["seconds"]]})  # fmt: skip
    paper_schedule = edits[frame["option"] == "schedule = paper"].iloc[0]
    efficacy = dict(zip(frame["option"], frame["efficacy"]))
    return table, {key: paper_schedule[key] / edits.iloc[0][key] for key in ("columns", "norm", "seconds")} | {"text": efficacy["gate = mlp, stop = mlp"], "raw": efficacy["projection = raw"]}


def digits(model: str, data: str) -> tuple[pd.DataFrame, dict[str, dict[str, float]]]:
    """REVS under three tokenisations: the table, and by tokenisation what was memorised and the mean scores, in per cent.

    A tokenisation under which too little was memorised has no runs, and dashes in their place.
    """
    lines, scores = [], {}
    names = {"keep": "single digits", "mean": "grouped, mean", "noise": "grouped, noise"}
    learnt = {row["provenance"]["settings"]["digits"]: row["result"] for row in rows.find(kind="memorise").values() if row["provenance"]["model"]["name"] == model}
    for how, name in names.items():
        memorised = learnt[how]["memorised"] / learnt[how]["sentences"]
        scores[how], line = {"memorised": 100 * memorised}, {"digits": name, "memorised": percent(memorised)}
        try:
            frame = runs(model, data, "" if how == "noise" else f"digits-{how}")
        except ValueError:
            lines.append(line | {"seeds": DASH} | {title: DASH for title in METRICS.values()})
            continue
        values = means(frame)
        scores[how] |= {metric: 100 * value for metric, (value, _) in values["revs"].items()} | {"before": 100 * values["unedited"]["specificity"][0]}
        lines.append(line | {"seeds": describe_seeds(frame, "revs").split(" ", 1)[1]} | {title: percent(*values["revs"][metric]) for metric, title in METRICS.items()})
    return pd.DataFrame(lines), scores


# --- provenance ------------------------------------------------------------------------------------------------------


def provenance_table(found: dict[str, dict]) -> pd.DataFrame:
    """One line for each row; machines are numbered as in ``machines``."""
    known = [*dict.fromkeys(map(machine, found.values()))]
    return pd.DataFrame([
        {
            "row": name,
            "origin": row["origin"],
            "when": row["provenance"]["when"],
            "machine": str(1 + known.index(machine(row))),
            "seconds": f"{sum(row['provenance']['seconds'].values()):.0f}",
            "MiB": f"{row['provenance']['peak_memory_mb']:,}",
            "stamp": f"`{row['provenance']['stamp'][:12]}`",
        }
        for name, row in found.items()
    ])


def machine(row: dict) -> tuple[tuple[str, str], ...]:
    """The machine and the versions that a row was measured with."""
    made = row["provenance"]
    hardware = {"processor": made["hardware"]["gpu"] or made["hardware"]["cpu"], "cores": str(made["hardware"]["cores"]), "memory, GiB": str(made["hardware"]["memory_gb"]), "system": made["hardware"]["system"]}
    return tuple((hardware | made["versions"]).items())


def machines(found: dict[str, dict]) -> pd.DataFrame:
    """The distinct machines and versions, numbered."""
    known = dict.fromkeys(map(machine, found.values()))
    return pd.DataFrame([{"machine": str(number)} | dict(one) for number, one in enumerate(known, 1)])


def dictionary() -> pd.DataFrame:
    """The data dictionary: every described field of rows/schema.json."""
    lines = []

    def walk(node: dict, prefix: str) -> None:
        for name, field in node.get("properties", {}).items():
            if "description" in field:
                kind = field.get("type", "")
                lines.append({"field": f"`{prefix}{name}`", "type": " or ".join(kind) if isinstance(kind, list) else kind or DASH, "meaning": field["description"]})
            walk(field, f"{prefix}{name}.")

    walk(rows.schema(), "")
    for rule in rows.schema()["allOf"]:
        kind = rule["if"]["properties"]["kind"]["const"]
        walk({"properties": rule["then"]["properties"]["result"]["properties"]}, f"{kind}: result.")
    return pd.DataFrame(lines).drop_duplicates("field")
