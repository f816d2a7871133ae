"""Recorded rows as data frames: one line per run, and means over seeds.

``measured`` and ``runs`` have one line per run, its metrics as shares. ``scores`` and ``printed``
have one line a mean, ours and the paper's in one shape: data, method, measured, metric, mean, std,
the last two in per cent.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from companion.analysis.tables import DASH, METRICS, as_strings, number_ranges
from companion.data.models import registry
from companion.experiments import methods
from companion.experiments.notebook import Refused
from companion.store import paper, rows, versions
from revs.measures import metrics

PRINTED = (*METRICS.values(), "Logit-Lens", "Delta", "Perturbation", "Resistance Score")
DATA = methods.PAPER_DATA | methods.SHARED  # data sets by title, in the order of the tables
CONTROLS = ("unedited", "output_ban", "random", "other_tokens")  # no methods of unlearning
FEW = 2  # adapters, at most, that a caption names; more it counts


def title(model: str) -> str:
    """How a model is named in captions."""
    return registry().get(model, {}).get("title", model)


def short(model: str) -> str:
    """How a model is named above a small picture."""
    return registry().get(model, {}).get("short", title(model).split(",")[0])


def require(frame: pd.DataFrame, what: str, sweep: str) -> pd.DataFrame:
    """Return the frame; raise Refused, naming the sweep to run, if it is empty."""
    if frame.empty:
        command = f"`make run SWEEP={sweep}`"
        raise Refused(f"There are no rows of {what}: run {command} first, or take another set.")
    return frame


# --- runs ----------------------------------------------------------------------------------------


def measured(model: str, *data: str) -> pd.DataFrame:
    """One line per run of unlearning on some data sets.

    Columns: ``name``, ``data``, ``model``, ``method``, ``seed``, ``tag``, ``origin`` · ``failed``
    (why, or None), ``processor``, ``finetune`` (begin of the hash of the weights), ``adapter``,
    ``seconds`` of unlearning, ``memory`` (MiB beyond the loaded model), the whole ``row`` · of the
    edit ``columns``, ``weights``, ``norm`` · one per setting · one per metric of METRICS, in
    [0, 1], nan where there is none.
    """
    found = [rows.find(kind="unlearn", data=stem).values() for stem in data]
    lines = [line(row) for part in found for row in part if row["model"] == model]
    nothing = ["name", "data", "method", "seed", "tag", "adapter", "origin", "failed", "finetune"]
    nothing += ["processor", "seconds", "memory"]
    return pd.DataFrame(lines, columns=None if lines else [*nothing, "row", *METRICS])


def line(row: dict) -> dict:
    """A run as one line of a frame."""
    result = row["result"]
    names = ("name", "data", "model", "method", "seed", "tag", "origin")
    about = {
        "failed": result.get("failed"),
        "processor": row["environment"]["processor"],
        "finetune": row["inputs"]["model"][:8],
        "adapter": row["settings"].get("adapter"),
        "seconds": row["seconds"]["unlearn"],
        "memory": row.get("extra_memory_mb"),  # MiB beyond the loaded model
        "row": row,
    }
    edit = {name: result.get("edit", {}).get(name) for name in ("columns", "weights", "norm")}
    # generalization is nan where each secret has one sentence
    scores = pd.Series(result.get("after", {}), list(METRICS), dtype=float).to_dict()
    settings = row["settings"]["hyperparameters"]
    return {name: row[name] for name in names} | about | edit | settings | scores


def having(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The runs of a frame whose results have a measure, such as "attacks"."""
    return frame[frame["row"].map(lambda row: measure in row["result"]).astype(bool)]


def runs(model: str, *data: str, sweep: str = "main") -> pd.DataFrame:
    """The runs without a tag, in the order of the data sets; Refused if there is none, with the
    sweep that makes them."""
    frame = measured(model, *data)
    frame = frame[frame["tag"] == ""].reset_index(drop=True)
    return require(frame, f"{model} on {' or '.join(data)}", sweep)


def target_ranks(row: dict) -> list[list[int]]:
    """The ranks of each unlearned secret's target tokens at the output, from 0."""
    items = rows.per_example(row, "part", "ranks", "T").query("part == 'forget'")
    return [[ranks[t] for t in T] for ranks, T in zip(items["ranks"], items["T"], strict=True)]


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per token that was unlearned: its run's data, method and seed, and its ``rank``."""
    done = frame[frame["failed"].isna()]
    found = done[["data", "method", "seed"]].assign(rank=done["row"].map(target_ranks))
    found = found.explode("rank").explode("rank", ignore_index=True)  # of each secret, each token
    return titled(found.astype({"rank": int}))


def depth_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How far down each method pushes its targets, as texts: shares of tokens below some ranks, the
    median rank, and the secrets that are still exact."""
    targets, keys = ranks(frame), ["data", "method"]
    rank = targets.groupby(keys, observed=True)["rank"]
    kept = titled(frame).groupby(keys, observed=True)["specificity"].mean()
    found = {
        "no longer first": rank.agg(lambda r: 100 * (r > 0).mean()),
        "not in the first 10": rank.agg(lambda r: 100 * (r >= 10).mean()),
        "not in the first 100": rank.agg(lambda r: 100 * (r >= 100).mean()),
        "median rank": rank.median().map("{:,.0f}".format),
        "kept secrets still exact": 100 * kept,
    }
    return as_strings(pd.DataFrame(found).reset_index())


def on_full_processor(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs on the processor that ran every method of the frame, since times on two cannot be
    compared; of several the one with the most runs. All runs if no processor did."""
    ran = frame.groupby("processor")["method"].transform("nunique")
    full = frame[ran == frame["method"].nunique()]
    return frame if full.empty else full[full["processor"] == full["processor"].mode()[0]]


def cost_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds and memory on each processor, weights and norm by method as texts, with the paper's
    minutes and GPUs: of seconds the least over runs, since other work on the machine only adds to
    them, of memory the largest."""
    hardware, frame = paper.tables()["hardware"], titled(frame)
    costs = frame.groupby("method", observed=True)[["weights", "norm"]].median()
    columns = {"method": costs.index}
    for processor, part in frame.groupby("processor"):
        on = part.groupby("method", observed=True)[["seconds", "memory"]]
        on = on.agg({"seconds": "min", "memory": "max"}).reindex(costs.index)
        columns[f"seconds, {processor}"] = on["seconds"].map("{:.0f}".format, na_action="ignore")
        columns[f"extra MiB, {processor}"] = on["memory"].map("{:,.0f}".format, na_action="ignore")
    columns |= {
        "weights changed": costs["weights"].map("{:,.0f}".format),
        "norm of the edit": costs["norm"].map("{:.1f}".format, na_action="ignore"),
        "paper, minutes": [hardware["runtime_minutes"].get(name, DASH) for name in costs.index],
        "paper, GPUs": [hardware["gpus"].get(name, DASH) for name in costs.index],
    }
    return pd.DataFrame(columns).fillna(DASH)


# --- over seeds ----------------------------------------------------------------------------------


def scores(frame: pd.DataFrame, *by: str, of: Mapping[str, str] = METRICS) -> pd.DataFrame:
    """Mean and standard deviation over seeds, in per cent, of some columns of shares.

    One line per data set, method (a value of ``by``) and metric; ``of`` has the columns' titles.
    """
    keys, lines = ["data", "method", *by], []
    for group, part in frame.groupby(keys, sort=False):
        for column, name in of.items():
            mean, std = metrics.summary(part[column].tolist())
            about = {"measured": "ours", "metric": name, "mean": 100 * mean, "std": 100 * std}
            lines.append(dict(zip(keys, group, strict=True)) | about)
    return titled(pd.DataFrame(lines))


def printed(labels: Mapping[str, str] = paper.CORE) -> pd.DataFrame:
    """The paper's numbers in the shape of ``scores``, from tables (model → label)."""
    names = {"dataset": "data", "row": "method", "column": "metric", "value": "mean"}
    found = [paper.table(of).assign(measured=f"paper, {model}") for model, of in labels.items()]
    frame = pd.concat(found).rename(columns=names)
    frame["metric"] = frame["metric"].str.removesuffix("@100").replace("Perturb", "Perturbation")
    known = frame["method"].isin([entry["title"] for entry in methods.registry().values()])
    frame = frame[known & frame["metric"].isin(PRINTED) & frame["mean"].notna()]
    for column in ("mean", "std"):  # by way of a share, like ours: it decides how 59.65 is rounded
        frame[column] = 100 * (frame[column].astype(float) / 100)
    return titled(frame[["data", "method", "measured", "metric", "mean", "std"]])


def titled(frame: pd.DataFrame) -> pd.DataFrame:
    """Data sets and methods by their titles, in the order of the paper and of the registry."""
    known = {name: entry["title"] for name, entry in methods.registry().items()}
    found = {}
    for column, titles in (("data", DATA), ("method", known)):
        values = frame[column].astype(str).replace(titles)
        order = dict.fromkeys([*titles.values(), *values])
        found[column] = pd.Categorical(values, list(order), ordered=True)
    return frame.assign(**found)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Data sets and methods by name in the order of the paper and of the registry."""
    order = list(dict.fromkeys([*DATA, *methods.registry(), *frame["data"], *frame["method"]]))
    place = lambda names: names.map(order.index)
    return frame.sort_values(["data", "method"], key=place, ignore_index=True)


def best_first(frame: pd.DataFrame) -> str:
    """The methods of a frame of scores by their means, best first; equals stand as equals."""
    controls = [methods.title(name) for name in CONTROLS]
    frame = frame[~frame["method"].isin(controls) & frame["mean"].notna()]
    alike = frame.groupby("mean")["method"].agg(lambda names: " = ".join(names.astype(str)))
    return ", ".join(alike.sort_index(ascending=False)) or DASH


# --- what runs were made on ----------------------------------------------------------------------


def measured_on(model: str, frame: pd.DataFrame) -> str:
    """For a caption: the model, the seeds, and the adapters of some runs, by name where they are
    few; of a model without an adapter, the weights."""
    done = frame[frame["failed"].isna()]
    kind, known = "adapter", list(dict.fromkeys(done["adapter"].dropna()))
    if not known:
        kind, known = "weights", list(dict.fromkeys(done["finetune"]))
    kind += "s" * (len(known) > 1 and kind != "weights")
    seeds = set(done["seed"])
    numbered = "seed" + "s" * (len(seeds) > 1) + f" {number_ranges(seeds) if seeds else DASH}"
    which = f"{kind} {' and '.join(known)}" if len(known) <= FEW else f"{len(known)} {kind}"
    return f"{title(model)}, {numbered}, {which}{older_mark(done['row'])}"


def older_mark(some: Iterable[dict]) -> str:
    """For a caption: how many of some rows were made before code or data last changed, if any."""
    old = [bool(versions.older(row)) for row in some]
    said = f", {sum(old)} of {len(old)} runs made before code or data last changed"
    return said if any(old) else ""
