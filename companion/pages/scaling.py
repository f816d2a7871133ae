"""How the workflow scales: what a profile costs on one machine and on many, and how the trial on Slurm went."""

from __future__ import annotations

import functools
import json
import sys
from statistics import median

import pandas as pd

from companion.pages.results import is_trial, short, tag_of
from companion.pages.tables import DASH
from companion.record import rows
from companion.record.paths import ROOT
from companion.record.rows import RECORDED
from companion.runs import methods

sys.path.append(str(ROOT))  # the workflow lies beside the package, in a checkout
from companion.workflow import estimate, plan, profile  # noqa: E402

MATRIX = (
    "paper",
    "pile",
)  # profiles that together are the runs behind the paper's tables of effectiveness and of extraction
WITHIN = 0.2  # off by so much at most, a time is foreseen
RUNS = {
    "unlearn": "unlearning",
    "tune": "searches",
    "curate": "curations",
    "calibrate": "calibrations",
    "own": "documents to report",
}  # whose times are foretold
FIRST, USUAL, SAME_DAY = "first on the model", "in the usual way", "repeated on the same day"
RECORD = RECORDED / "slurm.json"  # written by make slurm-try
COMPUTED = 1.0  # seconds beyond which ranks were computed: what is kept is read in hundredths


def costs(names: list[str]) -> tuple[pd.DataFrame, str]:
    """What each profile costs on plan.MACHINES, all its runs from nothing, and, if both are named, those of ``MATRIX`` together; and of how many runs nothing is known."""
    lines, unknown = [], 0
    each = {f"`{name}`": profile.read(name) for name in names}
    matrix = [one for one in each.values() if one.name in MATRIX]
    together = (
        {
            f"the paper's tables of effectiveness and extraction: {' and '.join(f'`{one.name}`' for one in matrix)}": profile.Profile(
                "", "", {name: job for one in matrix for name, job in one.jobs.items()}, []
            )
        }
        if len(matrix) == len(MATRIX)
        else {}
    )
    for title, asked in (each | together).items():
        jobs = list(asked.jobs.values())
        said, absent = plan.costs(asked, jobs)
        models = dict.fromkeys(job.settings["model"] for job in jobs)
        lines.append({"profile": title, "models": ", ".join(models), "runs": str(len(jobs))} | said)
        unknown += absent * (title in each)
    return pd.DataFrame(
        lines
    ), f"Not counted, since no row is like them: runs, {unknown}." if unknown else ""


def basis() -> str:
    """What the predictions stand on."""
    if not (rate := estimate.cpu_rate()):
        return (
            "No row of a fine-tune on a CPU says yet how fast CPUs are: nothing can be predicted."
        )
    machine = estimate.gpu()
    return (
        f"The CPUs of our rows did {rate / 1e9:.0f} thousand million operations a second in the fine-tunes, at six for each weight and token; {machine['title']} does {machine['float32'] / 1e9:,.0f} in float32 and {machine['weights'] / 1e9:,.0f} in bfloat16 at its peak, as its maker says, "
        f"{estimate.gain('float32'):,.0f} and {estimate.gain('bfloat16'):,.0f} times as many."
    )


def ratios() -> dict[tuple[str, str], list[float]]:
    """Foreseen ÷ taken by model and sort of run: each recorded run from all others of its model, as the plan does it; a usual run that was repeated on its day, when the machine was as fast, also from the rows of that day; and as if it were the first, from those of other models."""
    found: dict[tuple[str, str], list[float]] = {}
    for notebook, runs in RUNS.items():
        every = [
            row
            for row in rows.find(RECORDED, kind=notebook).values()
            if notebook != "unlearn" or "failed" not in row["result"]
        ]
        for row in every:
            model, took = estimate.name(row), taken(row)
            size = functools.partial(larger, model)
            own = [other for other in every if other is not row and size(other) == 1]
            foreign = [other for other in every if size(other) not in (None, 1)]
            same_day = (
                [other for other in own if other["provenance"]["when"] == row["provenance"]["when"]]
                if sort(row).endswith(USUAL)
                else []
            )
            same_day = same_day if any(repeats(row, other) for other in same_day) else []
            for others, which in (
                (own, sort(row)),
                (same_day, f"{sort(row)}, {SAME_DAY}"),
                (foreign, f"{runs}, {FIRST}"),
            ):
                if others:
                    found.setdefault((short(model), which), []).append(
                        estimate.foreseen(notebook, row["provenance"]["settings"], others, size)
                        / took
                    )
    return found


def repeats(row: dict, other: dict) -> bool:
    """Do two runs differ in their seed alone?"""
    one, two = (
        {name: value for name, value in each["provenance"]["settings"].items() if name != "seed"}
        for each in (row, other)
    )
    return one == two


def larger(model: str, row: dict) -> float | None:
    """How many times as many weights a model has as that of a row: 1 of its own, None where nobody knows."""
    if model == estimate.name(row):
        return 1
    sizes = estimate.parameters(model), estimate.parameters(estimate.name(row))
    return sizes[0] / sizes[1] if all(sizes) else None


def taken(row: dict) -> float:
    """Seconds of a recorded run, of unlearning those of the stages that are foreseen."""
    return (
        sum(row["provenance"]["seconds"].get(stage, 0.0) for stage in estimate.STAGES)
        if row["kind"] == "unlearn"
        else estimate.seconds(row)
    )


def sort(row: dict) -> str:
    """What sort of run a row is of."""
    runs = RUNS[row["kind"]]
    if row["kind"] != "unlearn":
        return runs
    return (
        f"{runs}, trials of a search"
        if is_trial(row["name"])
        else f"{runs}, in another way"
        if tag_of(row["name"])
        else f"{runs}, {USUAL}"
    )


def foretold() -> pd.DataFrame:
    """How well times are foreseen."""
    lines = []
    for (model, kind), found in sorted(ratios().items()):
        off = [abs(ratio - 1) for ratio in found]
        lines.append(
            {
                "model": model,
                "runs": kind,
                "number": str(len(off)),
                f"off by {WITHIN:.0%} at most": f"{sum(each <= WITHIN for each in off) / len(off):.0%}",
                "off by, median": f"{median(off):.0%}",
                "foreseen ÷ taken, lowest": f"{min(found):.2f}",
                "highest": f"{max(found):.2f}",
            }
        )
    return pd.DataFrame(lines)


def kept() -> pd.DataFrame:
    """What is computed once and kept by content, by model: how many recorded runs of unlearning need it, how many different ones these are, and the hours that all the others save."""
    runs: dict[str, list[dict]] = {}
    for row in rows.find(RECORDED, kind="unlearn").values():
        if "failed" not in row["result"]:
            runs.setdefault(estimate.name(row), []).append(row)
    return pd.DataFrame(
        [
            line
            for model, found in sorted(runs.items())
            for line in (
                of_finetunes(model, found),
                of_ranks(model, found),
                of_factors(model, found),
            )
            if line
        ]
    )


def of_finetunes(model: str, runs: list[dict]) -> dict | None:
    """The line of the fine-tunes that a model's runs start from."""
    taught = [row for row in runs if row["provenance"]["settings"]["finetune"]]
    seconds = [
        estimate.seconds(row)
        for row in rows.find(RECORDED, kind="memorise").values()
        if estimate.name(row) == model
    ]
    return saved(
        model,
        "fine-tune",
        len(taught),
        {row["provenance"]["inputs"]["model"] for row in taught},
        seconds,
    )


def of_ranks(model: str, runs: list[dict]) -> dict | None:
    """The line of the ranks before an edit."""
    seconds = [
        spent
        for row in runs
        if (spent := row["provenance"]["seconds"].get("evaluate_before", 0.0)) > COMPUTED
    ]
    return saved(
        model,
        "ranks before the edit",
        len(runs),
        {
            (
                *(row["provenance"]["inputs"][name] for name in ("model", "data")),
                row["provenance"]["settings"]["dtype"],
            )
            for row in runs
        },
        seconds,
    )


def of_factors(model: str, runs: list[dict]) -> dict | None:
    """The line of the heads' Gram factors, which the methods with REVS's settings need."""
    known = methods.registry()
    ours = [
        row
        for row in runs
        if "revs"
        in (name := row["provenance"]["settings"]["method"], known[name].get("settings_of"))
    ]
    seconds = [
        row["result"]["once"]["ours"]
        for row in rows.find(RECORDED, kind="bench").values()
        if estimate.name(row) == model and row["result"]["what"] == "floor"
    ]
    return saved(
        model,
        "Gram factor",
        len(ours),
        {
            (row["provenance"]["inputs"]["model"], row["provenance"]["settings"]["dtype"])
            for row in ours
        },
        seconds,
    )


def saved(model: str, what: str, runs: int, different: set, seconds: list[float]) -> dict | None:
    """A line: runs that need something, different ones of it, seconds for one in the median, and what is saved; None if no run needs it."""
    if not different:
        return None
    each = median(seconds) if seconds else None
    return {
        "model": short(model),
        "what": what,
        "runs that need it": str(runs),
        "different ones": str(len(different)),
        "one takes, s": f"{each:.1f}" if seconds else DASH,
        "hours saved": f"{(runs - len(different)) * each / 3600:.1f}" if seconds else DASH,
    }


def tried() -> tuple[pd.DataFrame, str]:
    """What happened in the trial, second by second, and on what; an empty table and the command without a record."""
    if not RECORD.is_file():
        return pd.DataFrame(
            {"second": [], "what happened": []}
        ), "Not tried yet: `make slurm-try`, as root on Debian."
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    versions, hardware = record["versions"], record["hardware"]
    return pd.DataFrame(
        [{"second": str(each["second"]), "what happened": each["what"]} for each in record["said"]]
    ), (
        f"Tried {record['when']} on {hardware['cores']} cores ({hardware['cpu']}), with Slurm {versions['slurm']}, Snakemake {versions['snakemake']} and its plugin {versions['snakemake-executor-plugin-slurm']}: {record['runs']} runs in {record['seconds']} s."
    )
