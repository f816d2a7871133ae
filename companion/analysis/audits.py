"""What document audits reached, as frames and pictures."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from companion.analysis import results
from companion.analysis.extraction import TITLES
from companion.analysis.tables import DASH, decimal, number_word, percent
from companion.store import rows

LIMITS = {
    "forgotten": "forgotten",
    "kept": "others kept",
    "nearby_text": "nearby text",
    "next_word_agreement": "general text",
    "perplexity": "perplexity, rise",
}
DEVELOPED = "thirty documents"  # on which the tool was developed
PACKAGES = "packages"  # whose authors a model may know without a fine-tune
SETS = {  # a run's name → the documents that it searched
    "files": DEVELOPED,
    "office": "office",
    "machine": PACKAGES,
    "columns": DEVELOPED,
}
WRITES = {"least_squares": "least squares", "revs": "columns"}
AXES = {"share": (60, 100), "perplexity": (-2, 10)}  # per cent
COUNTS = ["found", "tried", "another place of a secret, tried too", "memorised", "written later"]
AGGREGATIONS = {"per_example": "per example", "token_wise": "token wise"}


# --- one run -------------------------------------------------------------------------------------


def found(result: dict) -> pd.DataFrame:
    """By kind, how many secrets were found, tried, memorised, and left out for which reason."""
    listed = lambda some: "; ".join(f"{n:.0f} {why}" for why, n in some.dropna().items()) or DASH
    frame = pd.DataFrame(result["found"]).T.rename_axis("kind")
    counts = frame.reindex(columns=COUNTS).fillna(0).map("{:,.0f}".format)
    counts["left out"] = frame.drop(columns=COUNTS, errors="ignore").apply(listed, axis="columns")
    return counts.reset_index()


def limits(result: dict) -> pd.DataFrame:
    """One line per limit: what was asked for, what the run reached, and the verdict."""
    verdict = {True: "within", False: "missed"}
    return pd.DataFrame(
        {"": LIMITS[name], "wanted": "at most" if name == "perplexity" else "at least"}
        | {"limit, %": percent(one["limit"]), "reached, %": percent(one["value"])}
        | {"verdict": DASH if one["value"] is None and one["within"] else verdict[one["within"]]}
        for name, one in result["reached"].items()
    )


def secrets(items: list[dict], most: int = 12) -> pd.DataFrame:
    """The first secrets, redacted, one line per place."""
    first = pd.DataFrame(items).head(most)
    count = "{:,}".format
    columns = {
        "": first["number"],
        "kind": first["kind"],
        "secret": "`" + first["shown"] + "`",
        "document": first["document"].astype(str) + " @ " + first["offset"].map(count),
        "was": first["part"],
        "rank before": first["lowest_before"].map(count),
        "rank after": first["lowest_after"].map(count),
        "still written": first["written_after"].map({True: "yes", False: "no"}),
    }
    return pd.DataFrame(columns)


def resistance(result: dict) -> pd.DataFrame:
    """Resistance of the unlearned secrets by attack and aggregation, before and after."""
    columns = {}
    for name, title in AGGREGATIONS.items():
        for when in ("before", "after"):
            attacks = result[when]["attacks"]
            black_box = attacks["black_box"] if name == "per_example" else None
            values = [*(attacks[attack][name] for attack in TITLES), black_box]
            columns[f"{title}, {when}"] = map(percent, values)
    index = pd.Index([*TITLES.values(), "Perturbation, in what is written"], name="attack")
    return pd.DataFrame(columns, index=index).reset_index()


def cost(result: dict) -> pd.DataFrame:
    """General text before and after an edit."""
    both = {when: result[when]["general_text"]["perplexity"] for when in ("before", "after")}
    lines = {"perplexity": {when: decimal(value, digits=2) for when, value in both.items()}}
    changed = percent(result["after"]["changed"], digits=2)
    lines["next tokens that are different, per cent"] = {"before": DASH, "after": changed}
    return pd.DataFrame(lines).T.rename_axis("").reset_index()


def trials(result: dict) -> pd.DataFrame:
    """One line per trial: its settings, what it kept, in per cent, and its cost."""
    tried = result["trials"]
    text = lambda one: ", ".join(f"{name} {value:.3g}" for name, value in one.items())
    frame = pd.DataFrame({"settings": [text(one["settings"]) for one in tried]})
    for name, title in LIMITS.items():
        frame[f"{title}, %"] = [percent(one["shares"][name]) for one in tried]
    frame["cost"] = [DASH if one["cost"] is None else f"{one['cost']:.2f}" for one in tried]
    return frame.assign(chosen=["yes" if one["chosen"] else "" for one in tried])


# --- recorded runs -------------------------------------------------------------------------------


def reached(model: str | None = None) -> pd.DataFrame:
    """One line a recorded run with an edit: the run, its model, the outcome, what was reached by
    limit (shares), whether it is within, the seconds, on how many cores, the precision, and the
    row. Refused if there is none."""
    lines = []
    for row in rows.find(rows.RECORDED, kind="documents").values():
        result = row["result"]
        if "reached" not in result or model not in (None, row["model"]):
            continue  # no edit, or another model
        line = {"run": row["data"], "model": results.title(row["model"]).split(",")[0]}
        line |= {"documents": SETS.get(row["data"], row["data"]), "write": WRITES[row["method"]]}
        line |= {name: result[name] for name in ("outcome", "unlearned", "memorised")}
        line |= {"seconds": sum(row["seconds"].values()), "row": row}
        line |= {"precision": row["settings"]["dtype"], "cores": row["environment"]["threads"]}
        for name, one in result["reached"].items():
            line |= {name: one["value"], f"{name} within": one["within"]}
            line[f"{name} limit"] = one["limit"]
        lines.append(line)
    what = f"documents with {model or 'any model'}"
    return results.require(pd.DataFrame(lines), what, "documents")


def table(frame: pd.DataFrame, *first: str) -> pd.DataFrame:
    """The runs of ``reached`` as texts; what is beyond a limit stands in italics."""
    texts = frame[list(first)].copy()
    counts = zip(frame["forgotten"], frame["unlearned"], strict=True)
    said = {"forgotten, of": [f"{round(share * n)} of {n}" for share, n in counts]}
    for name, title in list(LIMITS.items())[1:]:
        said[f"{title}, %"] = [percent(value) for value in frame[name]]
    for name, (title, cells) in zip(LIMITS, said.items(), strict=True):
        within = frame[f"{name} within"]
        texts[title] = [text if ok else f"*{text}*" for text, ok in zip(cells, within)]
    texts["seconds"] = [
        f"{seconds:.0f}"
        + (f", {precision}" if precision != "float32" else "")
        + (f", {number_word(cores)} cores" if cores > 1 else "")
        for seconds, precision, cores in zip(frame["seconds"], frame["precision"], frame["cores"])
    ]
    return texts


def panels(frame: pd.DataFrame, names: list[str]) -> Figure:
    """One panel per limit (dashed), one line per run: filled within the limit, else hollow; an
    arrow marks a value outside the panel."""
    size = {"figsize": (9, 0.9 + 0.4 * len(frame)), "layout": "constrained"}
    fig, axes = plt.subplots(1, len(LIMITS), sharey=True, **size)
    for ax, (name, title) in zip(axes, LIMITS.items(), strict=True):
        least, most = AXES["perplexity" if name == "perplexity" else "share"]
        for y, (_, one) in enumerate(frame.iterrows()):
            fill = "C0" if one[f"{name} within"] else "none"
            value = 100 * one[name] if pd.notna(one[name]) else float("nan")
            marker = "<" if value < least else ">" if value > most else "o"
            look = {"color": "C0", "markerfacecolor": fill, "markersize": 7, "clip_on": False}
            ax.plot(min(max(value, least), most), y, marker, **look)
        ax.axvline(100 * frame[f"{name} limit"].iloc[0], color="C1", linestyle="--")
        ax.set(title=title, ylim=(len(frame) - 0.5, -0.5), xlabel="per cent")
        ax.set_xlim(least, most + (most - least) / 20)
    axes[0].set_yticks(range(len(names)), names)
    return fig


def untuned_values(frame: pd.DataFrame) -> dict[str, str]:
    """What the page on models that nobody tuned for says of the runs of ``reached``."""
    own = frame[frame["write"] == "least squares"]
    missed = own[own["outcome"] != "unlearned"]
    said = {"missed": ", ".join(missed["model"] + " (" + missed["documents"] + ")") or "no run"}
    taught = own[own["documents"] != PACKAGES]
    developed = taught["documents"] == DEVELOPED
    for name, part in (("unseen", taught[~developed]), ("seen", taught[developed])):
        said[name] = number_word(len(part))
        said[f"{name}_within"] = number_word(int((part["outcome"] == "unlearned").sum()))
    return said


def packages_values(frame: pd.DataFrame) -> dict[str, str]:
    """What the page says of the run on addresses that a model knew by itself: a dash for each
    number if it is not among the runs of ``reached``."""
    names = ["known", "tried", "asked", "forgotten", "others", "kept", "general"]
    runs = frame[frame["documents"] == PACKAGES]
    if runs.empty:
        return dict.fromkeys(names, DASH)
    (run,) = runs.to_dict("records")
    result = run["row"]["result"]
    tried = sum(counts["tried"] for counts in result["found"].values())
    asked, others = result["unlearned"], result["kept"]
    forgotten, kept = round(run["forgotten"] * asked), round(run["kept"] * others)
    counts = [result["memorised"], tried, asked, forgotten, others, kept]
    texts = [*map(number_word, counts), percent(run["next_word_agreement"])]
    return dict(zip(names, texts, strict=True))
