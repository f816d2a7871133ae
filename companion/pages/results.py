"""From rows to the frames that pages show. Nothing is computed here but means, spreads and percentages."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from companion.pages import paper
from companion.pages.tables import DASH, METRICS, percent
from companion.record import rows
from companion.runs import methods
from companion.runs.datasets import together
from companion.runs.models import registry
from revs.measures import metrics

PAPER_COLUMNS = {
    "efficacy": "Efficacy@100",
    "generalization": "Generalization@100",
    "specificity": "Specificity",
    "unlearning_score": "Unlearning Score",
}
Means = dict[
    str, dict[str, tuple[float, float]]
]  # method → metric → (mean, standard deviation), as shares


def title(model: str) -> str:
    """How a model is named in captions."""
    return registry().get(model, {}).get("title", model)


def short(model: str) -> str:
    """The same above a small picture."""
    return registry().get(model, {}).get("short", title(model).split(",")[0])


# --- ours ------------------------------------------------------------------------------------------------------------


def measured(model: str, *data: str, folders: Sequence[Path] = ()) -> pd.DataFrame:
    """One line for each unlearning run of a model on some data sets, with the tag that its name carries; a failed run has no numbers."""
    lines = []
    for stem, (name, row) in (
        (stem, found)
        for stem in sorted(data)
        for found in rows.find(*folders, kind="unlearn", data=stem).items()
    ):
        settings, result = row["provenance"]["settings"], row["result"]
        if row["provenance"]["model"]["name"] == model:
            line = {
                "name": name,
                "data": stem,
                "method": settings["method"],
                "seed": settings["seed"],
                "tag": tag_of(name),
                "origin": row["origin"],
                "failed": result.get("failed"),
                "row": row,
            }
            lines.append(line | settings["hyperparameters"] | numbers(result.get("after", {})))
    return pd.DataFrame(
        lines,
        columns=None
        if lines
        else ["name", "data", "method", "seed", "tag", "origin", "failed", "row", *METRICS],
    )


def tagged(model: str, data: str, tag: str) -> pd.DataFrame:
    """The runs with a tag on a data set; empty if there is none."""
    frame = measured(model, data)
    return frame[frame["tag"] == tag]


def numbers(scores: dict) -> dict[str, float]:
    """A run's metrics, nan where there is none: a failed run, or generalization where each secret has one sentence."""
    return {
        metric: math.nan if scores.get(metric) is None else scores[metric] for metric in METRICS
    }


def tag_of(name: str) -> str:
    """The tag in a row's name, method-seedN-tag; empty for the usual settings."""
    return re.fullmatch(r".+?-seed\d+(?:-(.+))?", name.rsplit("/", 1)[1])[1] or ""


def is_trial(name: str) -> bool:
    """Is this row one of the many of a search?"""
    return bool(re.search(r"-trial\d+$", name))


def runs(model: str, data: str, tag: str = "") -> pd.DataFrame:
    """The runs whose name carries exactly this tag.

    Raises ValueError if there is none: a page without rows must not render.
    """
    frame = measured(model, data)
    frame = frame[frame["tag"] == tag]
    if frame.empty:
        raise ValueError(
            f"There are no rows of {model} on {data}"
            + (f" with the tag '{tag}'" if tag else "")
            + ": run the workflow, or look for recorded rows."
        )
    return frame.sort_values(["method", "seed"], ignore_index=True)


def usual(model: str) -> dict[str, pd.DataFrame]:
    """The usual runs on each of the paper's data sets that REVS and the random edit have been measured on, by our name of it."""
    found = measured(model, *methods.PAPER_DATA)
    found = found[found["tag"] == ""]
    parts = {
        data: found[found["data"] == data].sort_values(["method", "seed"], ignore_index=True)
        for data in methods.PAPER_DATA
    }
    return {data: part for data, part in parts.items() if {"revs", "random"} <= set(part["method"])}


def frames(model: str) -> dict[str, pd.DataFrame]:
    """The same, where there must be some.

    Raises ValueError if there is none: a page without rows must not render.
    """
    if not (parts := usual(model)):
        raise ValueError(
            f"There are no rows of {model}: run the workflow, or look for recorded rows."
        )
    return parts


def by_data(
    table: Callable[[pd.DataFrame], pd.DataFrame], found: dict[str, pd.DataFrame]
) -> pd.DataFrame:
    """One table after the other, the data set in the first column."""
    parts = [table(frame) for frame in found.values()]
    return pd.concat(
        [
            part.assign(data=methods.PAPER_DATA[data])[["data", *part]]
            for data, part in zip(found, parts)
        ]
    )


def means(frame: pd.DataFrame) -> Means:
    """Mean and standard deviation over seeds, by method; Unedited is the state before the runs of REVS."""
    found = {
        name: {metric: metrics.summary(part[metric].tolist()) for metric in METRICS}
        for name, part in frame.groupby("method")
    }
    before = [numbers(row["result"]["before"]) for row in finished(frame, "revs")]
    return {
        "unedited": {
            metric: metrics.summary([result[metric] for result in before]) for metric in METRICS
        }
    } | found


def finetunes(model: str, data: str) -> list[dict]:
    """The rows of a model's fine-tunes on the sentences among which a data set's are memorised."""
    return [
        row
        for row in rows.find(kind="memorise").values()
        if row["provenance"]["model"]["name"] == model
        and row["provenance"]["settings"]["data"] == together(data)
    ]


def finished(frame: pd.DataFrame, method: str) -> pd.Series:
    """The rows of a method's runs that did not fail."""
    return frame.loc[(frame["method"] == method) & frame["failed"].isna(), "row"]


def by_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Every run, one line."""
    return pd.DataFrame(
        [
            {"method": methods.registry()[run["method"]]["title"], "seed": str(run["seed"])}
            | {title: percent(run[metric]) for metric, title in METRICS.items()}
            | {
                "unlearning, s": f"{run['row']['provenance']['seconds']['unlearn']:.0f}",
                "row": run["origin"],
            }
            for run in frame.to_dict("records")
        ]
    )


def describe_seeds(frame: pd.DataFrame, method: str) -> str:
    """The seeds of a method's finished runs: "seeds 1–6" or "seeds 1, 3, 4"."""
    return listed(frame.loc[(frame["method"] == method) & frame["failed"].isna(), "seed"])


def listed(numbers: Iterable[int]) -> str:
    """Seeds in order, each once."""
    some = sorted(set(numbers))
    whole = len(some) > 2 and some == list(range(some[0], some[-1] + 1))
    return ("seeds " if len(some) > 1 else "seed ") + (
        f"{some[0]}–{some[-1]}" if whole else ", ".join(map(str, some)) or DASH
    )


def seeds(frame: pd.DataFrame) -> str:
    """The seeds of most methods, those of REVS if as many have others, and the methods that have other ones by name; finished runs only."""
    by_seeds: dict[str, list[str]] = {}
    for name in methods.registry():
        if (frame["method"] == name).any():
            by_seeds.setdefault(describe_seeds(frame, name), []).append(name)
    most = max(by_seeds, key=lambda some: (len(by_seeds[some]), "revs" in by_seeds[some]))
    others = [
        f"{some} of {', '.join(methods.registry()[name]['title'] for name in names)}"
        for some, names in by_seeds.items()
        if some != most
    ]
    return most + (f" ({', '.join(others)})" if others else "")


def origin_sentence(frame: pd.DataFrame) -> str:
    """Which of the rows were measured in this build, and where the recorded ones were."""
    measured = frame["origin"] == "measured in this build"
    parts = [f"{measured.sum()} measured in this build"] if measured.any() else []
    machines = {
        row["provenance"]["hardware"]["gpu"] or row["provenance"]["hardware"]["cpu"]
        for row in frame.loc[~measured, "row"]
    }
    parts += (
        [f"{(~measured).sum()} recorded on {' and '.join(sorted(machines))}"]
        if (~measured).any()
        else []
    )
    return (
        f"of {'all methods’ runs' if frame['method'].nunique() > 1 else 'the runs behind it'}, "
        + " and ".join(parts)
    )


def learned_again(model: str, data: str) -> pd.DataFrame:
    """Runs of the core table beside the same runs on a fine-tune in bfloat16 arithmetic (tag ``autocast``): means and standard deviations, in per cent; empty without rows.

    The share of memorised secrets among those of each fine-tune stands with it, its hash and the seeds. Both have the same text, order and settings.
    """
    frame = measured(model, data)
    learned = {
        row["provenance"]["settings"]["autocast"]: row["result"]
        for row in finetunes(model, data)
        if row["provenance"]["settings"]["digits"] == "noise"
    }
    lines = []
    for name in methods.registry():
        of_method = frame[frame["method"] == name]
        second = of_method[of_method["tag"] == "autocast"]
        first = of_method[(of_method["tag"] == "") & of_method["seed"].isin(second["seed"])]
        for half, part in ((False, first), (True, second)) if len(first) and len(second) else ():
            memorised = (
                percent(learned[half]["memorised"] / learned[half]["sentences"])
                if half in learned
                else DASH
            )
            values = {
                label: percent(*means(part)[name][metric]) for metric, label in METRICS.items()
            }
            weights = ", ".join(
                sorted({row["provenance"]["model"]["revision"][:8] for row in part["row"]})
            )
            lines.append(
                {
                    "method": methods.registry()[name]["title"],
                    "learned in": "bfloat16" if half else "float32",
                    "fine-tune": weights,
                    "seeds": listed(part["seed"]).split(" ", 1)[1],
                    "memorised": memorised,
                }
                | values
            )
    return pd.DataFrame(lines)


def elsewhere(model: str, data: str) -> list[tuple[dict, dict]]:
    """Runs of the core table, each with one of the same settings that another processor made, on a fine-tune that it made too.

    Both fine-tunes have the same text, order, arithmetic and settings: what differs is how a processor rounds.
    """
    frame = measured(model, data)
    frame = frame[frame["failed"].isna()].sort_values(
        "method", key=lambda column: column.map(list(methods.registry()).index)
    )
    asked = lambda run: {
        name: value
        for name, value in run["row"]["provenance"]["settings"].items()
        if name not in ("measures", "generate")
    }  # what is looked at changes no edit
    usual, others = (
        frame[frame["tag"].eq("") == is_usual].to_dict("records") for is_usual in (True, False)
    )
    return [
        (run, other)
        for run in usual
        for other in others
        if all(one != two for one, two in zip(learner(run), learner(other)))
        and asked(run) == asked(other)
    ]


def learner(run: dict) -> tuple[str, str]:
    """The processor that a run was made on, and the fine-tune that it began with."""
    made = run["row"]["provenance"]
    return made["hardware"]["gpu"] or made["hardware"][
        "cpu"
    ], f"fine-tune {made['model']['revision'][:8]}"


def elsewhere_table(pairs: list[tuple[dict, dict]], ours: Means) -> pd.DataFrame:
    """Their Unlearning Scores in per cent, beside mean and standard deviation over the seeds of the core table."""
    lines = [
        {
            "method": methods.registry()[run["method"]]["title"],
            "mean ± sd over seeds": percent(*ours[run["method"]]["unlearning_score"]),
            "seed": run["seed"],
        }
        | {", ".join(learner(one)): percent(one["unlearning_score"]) for one in (run, other)}
        for run, other in pairs
    ]
    return pd.DataFrame(lines).fillna(DASH)


def elsewhere_sentence(pairs: list[tuple[dict, dict]], ours: Means) -> str:
    """How far scores went apart between processors: the method that moved most, REVS, and for whom it is more than two standard deviations of a difference of two seeds."""
    apart = {
        run["method"]: abs(run["unlearning_score"] - other["unlearning_score"])
        for run, other in pairs
    }
    spread = {name: math.sqrt(2) * ours[name]["unlearning_score"][1] for name in apart}
    most, known = (
        max(apart, key=apart.__getitem__),
        [name for name in apart if not math.isnan(spread[name])],
    )
    beyond = ", ".join(
        methods.registry()[name]["title"] for name in known if apart[name] > 2 * spread[name]
    )
    said = (
        f"Between the two processors {methods.registry()[most]['title']} moves by {percent(apart[most])} points of Unlearning Score"
        + (f", REVS by {percent(apart['revs'])}." if "revs" in apart and most != "revs" else ".")
    )
    return said + (
        f" That is more than two standard deviations of what two seeds differ by for {beyond or 'no method'}."
        if known
        else ""
    )


# --- the paper's -----------------------------------------------------------------------------------------------------


def paper_core(label: str, dataset: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The paper's rows of a core table, as shares, by our names of methods and metrics."""
    printed_cells = paper.table(label)
    known = {entry["title"]: name for name, entry in methods.registry().items()}
    found: Means = {}
    for metric, column in PAPER_COLUMNS.items():
        cells = printed_cells[
            (printed_cells["dataset"] == dataset) & (printed_cells["column"] == column)
        ]
        for cell in cells.to_dict("records"):
            if cell["row"] in known and cell["value"] == cell["value"]:
                spread = cell["std"] if cell["std"] is not None else float("nan")
                found.setdefault(known[cell["row"]], {})[metric] = (
                    cell["value"] / 100,
                    spread / 100,
                )
    return found


def paper_cores() -> dict[str, dict[str, Means]]:
    """Both core tables of the paper: data set → the paper's model → method → metric."""
    return {
        data: {name: paper_core(label, printed) for name, label in paper.CORE.items()}
        for data, printed in methods.PAPER_DATA.items()
    }


def core_table(ours: Means, theirs: dict[str, Means]) -> pd.DataFrame:
    """Method by method: ours, then each of the paper's models. A method of which a run failed has no mean, and says so."""
    lines = []
    for name, entry in methods.registry().items():
        for whose, values in [
            ("ours", ours),
            *((f"paper, {model}", table) for model, table in theirs.items()),
        ]:
            if name in values:
                cells = {
                    title: percent(*values[name].get(metric, (math.nan,)))
                    for metric, title in METRICS.items()
                }
                failed = whose == "ours" and set(cells.values()) == {DASH}
                lines.append(
                    {"method": entry["title"], "measured": whose + (" (failed)" if failed else "")}
                    | cells
                )
    return pd.DataFrame(lines)


def points(found: dict[str, Means]) -> pd.DataFrame:
    """Means and standard deviations of several data sets as numbers, in per cent, one line each."""
    return pd.DataFrame(
        [
            {
                "data": methods.PAPER_DATA[data],
                "method": methods.registry()[name]["title"],
                "metric": METRICS[metric],
                "mean": 100 * mean,
                "std": 100 * std,
            }
            for data, values in found.items()
            for name, of_method in values.items()
            for metric, (mean, std) in of_method.items()
        ]
    )


def unlearned_ranks(items: pd.DataFrame) -> pd.Series:
    """The ranks at the output of all tokens that were unlearned, sentence by sentence, from the items of runs."""
    forget = items[items["part"] == "forget"]
    return pd.Series([r[i] for r, T in zip(forget["ranks"], forget["T"]) for i in T])


def depth_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How far down each method pushes the tokens it unlearns: shares of target tokens by rank, over all seeds."""
    lines = []
    for name, entry in methods.registry().items():
        part = finished(frame, name)
        if part.empty:
            continue
        items = pd.concat(
            [rows.items(row, "part", "ranks", "T", "exact") for row in part]
        )
        ranks = unlearned_ranks(items)
        lines.append({
            "method": entry["title"],
            "no longer first": percent((ranks > 0).mean()),
            "not in the first 10": percent((ranks >= 10).mean()),
            "not in the first 100": percent((ranks >= 100).mean()),
            "median rank": f"{ranks.median():,.0f}",
            "kept secrets still exact": percent(items.loc[items["part"] == "retain", "exact"].mean()),
        })  # fmt: skip
    return pd.DataFrame(lines)


def ranking(values: Means) -> list[str]:
    """The methods that were unlearned with, best Unlearning Score first; those that failed are left out."""
    scores = {
        name: metric["unlearning_score"][0]
        for name, metric in values.items()
        if name not in ("unedited", "random")
    }
    return sorted(
        (name for name, score in scores.items() if score == score), key=lambda name: -scores[name]
    )


def orders(ours: dict[str, dict[str, Means]], theirs: dict[str, dict[str, Means]]) -> pd.DataFrame:
    """The methods from best to worst on our models and the paper's, data set by data set; models by name, those without runs on a set are left out."""
    lines = []
    for data, title in methods.PAPER_DATA.items():
        of_model = {
            f"here, {short(model)}": of_data[data]
            for model, of_data in ours.items()
            if data in of_data
        } | {f"the paper, {model}": values for model, values in theirs.get(data, {}).items()}
        lines += [
            {"data": title, "measured": whose, "best first": in_order(values) or DASH}
            for whose, values in of_model.items()
        ]
    return pd.DataFrame(lines)


def in_order(values: Means) -> str:
    """The methods from best to worst; those with one score stand as equals."""
    alike = itertools.groupby(ranking(values), key=lambda name: values[name]["unlearning_score"][0])
    return ", ".join(
        " = ".join(methods.registry()[name]["title"] for name in names) for _, names in alike
    )


def fine_tunes(frame: pd.DataFrame) -> str:
    """The fine-tune that most finished runs stand on, by the start of its hash, and the runs that stand on another, with the machine they were made on."""
    done = frame[frame["failed"].isna()]
    if done.empty:
        return ""
    labels = [
        methods.registry()[run["method"]]["title"]
        + (f" ({run['tag']})" if done["tag"].nunique() > 1 else "")
        for run in done.to_dict("records")
    ]
    done = done.assign(
        label=labels,
        revision=[row["provenance"]["model"]["revision"] for row in done["row"]],
        machine=[
            row["provenance"]["hardware"]["gpu"] or row["provenance"]["hardware"]["cpu"]
            for row in done["row"]
        ],
    )
    what = (
        "fine-tune" if done["row"].iloc[0]["provenance"]["settings"].get("finetune") else "weights"
    )
    usual = done["revision"].mode().iloc[0]
    said = f"{what} {usual[:8]}"
    for (revision, machine), part in done[done["revision"] != usual].groupby(
        ["revision", "machine"], sort=False
    ):
        by_seeds: dict[str, list[str]] = {}
        for label, runs in part.groupby("label", sort=False):
            by_seeds.setdefault(
                ""
                if len(runs) == (done["label"] == label).sum()
                else f"{listed(runs['seed'])} of ",
                [],
            ).append(label)
        said += f"; {what} {revision[:8]} ({machine}): " + " and ".join(
            some + ", ".join(names) for some, names in by_seeds.items()
        )
    return said


def measured_on(
    model: str,
    found: dict[str, pd.DataFrame],
    *of_data: str,
    how: str = "`make tune adopt` and `make core adopt` do it",
) -> str:
    """The model, the seeds and the fine-tunes of the runs on some data sets, on all without a name; or how to make them."""
    by_words: dict[str, list[str]] = {}
    for data, frame in found.items():
        if not of_data or data in of_data:
            by_words.setdefault(f"{seeds(frame)}, {fine_tunes(frame)}", []).append(
                methods.PAPER_DATA[data]
            )
    if not by_words:
        return f"not measured yet, {how}"
    return (
        f"{title(model)}, {next(iter(by_words))}"
        if len(of_data) == 1
        else ". ".join(
            [title(model), *(f"{', '.join(names)}: {words}" for words, names in by_words.items())]
        )
    )


def core_caption(model: str, found: dict[str, pd.DataFrame], data: str) -> str:
    """What a core table shows and what it was measured on."""
    return f"Unlearning effectiveness on {methods.PAPER_DATA[data]}, in per cent, mean ± standard deviation over seeds. Ours: {measured_on(model, found, data)}; the paper: six seeds, as printed. The models differ, so the columns are to be compared in kind, not digit by digit."


def core_sentence(frame: pd.DataFrame, ours: Means, theirs: dict[str, Means], data: str) -> str:
    """What one core table says about REVS, noise, and the paper."""
    score, noise, printed = (
        values["unlearning_score"]
        for values in (ours["revs"], ours["random"], theirs["Llama-3-8B"]["revs"])
    )
    return (
        f"**{methods.PAPER_DATA[data]}**: REVS reaches an Unlearning Score of **{percent(*score)}** on this model, the paper reports {percent(*printed)} on Llama-3-8B. "
        f"A random edit of the same norm in the same layers reaches **{percent(*noise)}**: {percent(score[0] - noise[0])} points are of the direction and the place of REVS's edit, not of its size ({origin_sentence(frame)})."
    )


def missing_sentence(ours: dict[str, Means]) -> str:
    """Which methods have no rows yet on which data, and how to make them; empty if all have."""
    tuned = [
        name
        for name, entry in methods.registry().items()
        if "module" in entry and "settings_of" not in entry
    ]
    missing = {
        data: [
            methods.registry()[name]["title"] for name in tuned if name not in ours.get(data, {})
        ]
        for data in methods.PAPER_DATA
    }
    said = "; ".join(
        f"on {methods.PAPER_DATA[data]} {', '.join(names) if data in ours else 'every method'}"
        for data, names in missing.items()
        if names
    )
    return (
        f"\n\nNot measured here yet: {said}. `make tune adopt`, then `make core adopt`, measures them: as many trials as the others had, then the seeds of these tables."
        if said
        else ""
    )


def headline(frame: pd.DataFrame, ours: Means, theirs: dict[str, Means]) -> dict[str, str]:
    """The strings that the landing page shows; ``other`` is the best method besides REVS."""
    others = [name for name in ranking(ours) if name != "revs"]
    return {
        f"revs_{short}": percent(*ours["revs"][metric])
        for short, metric in {
            "score": "unlearning_score",
            "efficacy": "efficacy",
            "generalization": "generalization",
            "specificity": "specificity",
        }.items()
    } | {
        "random_score": percent(*ours["random"]["unlearning_score"]),
        "other": methods.registry()[others[0]]["title"] if others else DASH,
        "other_score": percent(*ours[others[0]]["unlearning_score"]) if others else DASH,
        "paper_score": percent(*theirs["Llama-3-8B"]["revs"]["unlearning_score"]),
        "seeds": str(len(finished(frame, "revs"))),
        "origin": origin_sentence(frame),
    }


# --- cost ------------------------------------------------------------------------------------------------------------


def cost_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds (the median) and memory of unlearning, method by method, beside the paper's minutes and GPUs; of memory the highest, since a process that keeps some of a run before takes less."""
    hardware, lines = paper.tables()["hardware"], []
    for name, entry in methods.registry().items():
        part = finished(frame, name)
        if len(part) and name != "unedited":
            made, edits = (
                [row["provenance"] for row in part],
                [row["result"]["edit"] for row in part],
            )
            lines.append({
                "method": entry["title"],
                "seconds": f"{statistics.median(one['seconds']['unlearn'] for one in made):.0f}",
                "extra memory, MiB": f"{max(one['extra_memory_mb'] for one in made):,}",
                "weights changed": f"{statistics.median(edit['weights'] for edit in edits):,.0f}",
                "norm of the edit": f"{statistics.median(edit['norm'] for edit in edits):.1f}",
                "paper, minutes": str(hardware["runtime_minutes"].get(entry["title"], DASH)),
                "paper, GPUs": str(hardware["gpus"].get(entry["title"], DASH)),
            })  # fmt: skip
    return pd.DataFrame(lines)


# --- provenance ------------------------------------------------------------------------------------------------------


def provenance_table(found: dict[str, dict]) -> pd.DataFrame:
    """One line for each row; machines are numbered as in ``machines``."""
    known = [*dict.fromkeys(map(machine, found.values()))]
    return pd.DataFrame(
        [
            {
                "row": name,
                "origin": row["origin"],
                "when": row["provenance"]["when"],
                "machine": str(1 + known.index(machine(row))),
                "seconds": f"{sum(row['provenance']['seconds'].values()):.0f}",
                "MiB": f"{row['provenance']['peak_memory_mb']:,}",
                "stamp": f"`{row['provenance']['stamp'][:12]}`",
                "file": f"../rows/{name}.json",
            }
            for name, row in found.items()
        ]
    )


def machine(row: dict) -> tuple[tuple[str, str], ...]:
    """The machine and the versions that a row was measured with."""
    made = row["provenance"]
    hardware = {
        "processor": made["hardware"]["gpu"] or made["hardware"]["cpu"],
        "cores": str(made["hardware"]["cores"]),
        "memory, GiB": str(made["hardware"]["memory_gb"]),
        "system": made["hardware"]["system"],
    }
    return tuple((hardware | made["versions"]).items())


def machines(found: dict[str, dict]) -> pd.DataFrame:
    """The distinct machines and versions, numbered."""
    known = dict.fromkeys(map(machine, found.values()))
    return pd.DataFrame(
        [{"machine": str(number)} | dict(one) for number, one in enumerate(known, 1)]
    )


def dictionary() -> pd.DataFrame:
    """The data dictionary: every described field of rows/schema.json."""
    lines = []

    def walk(node: dict, prefix: str) -> None:
        for name, field in node.get("properties", {}).items():
            if "description" in field:
                kind = field.get("type", "")
                lines.append(
                    {
                        "field": f"`{prefix}{name}`",
                        "type": " or ".join(kind) if isinstance(kind, list) else kind or DASH,
                        "meaning": field["description"],
                    }
                )
            walk(field, f"{prefix}{name}.")

    walk(rows.schema(), "")
    for rule in rows.schema()["allOf"]:
        kind = rule["if"]["properties"]["kind"]["const"]
        walk({"properties": rule["then"]["properties"]["result"]["properties"]}, f"{kind}: result.")
    return pd.DataFrame(lines).drop_duplicates("field")
