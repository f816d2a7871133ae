"""How the workflow scales: what a profile costs on one machine and on many, and how the trial on Slurm went."""

from __future__ import annotations

import json
import sys
from statistics import median

import pandas as pd

from revs import rows
from revs.paths import ROOT
from revs.results import is_trial, tag_of, title
from revs.rows import RECORDED

sys.path.append(str(ROOT))  # the workflow lies beside the package, in a checkout
from flow import estimate, plan, profile  # noqa: E402

WITHIN = 0.2  # off by so much at most, a time is foreseen
RECORD = RECORDED / "slurm.json"  # written by make slurm-try


def costs(names: list[str]) -> tuple[pd.DataFrame, str]:
    """What each profile costs on plan.MACHINES, all its runs from nothing; and of how many runs nothing is known."""
    lines, unknown = [], 0
    for asked in map(profile.read, names):
        jobs = list(asked.jobs.values())
        said, absent = plan.costs(asked, jobs)
        models = dict.fromkeys(job.settings["model"] for job in jobs)
        lines.append({"profile": f"`{asked.name}`", "models": ", ".join(models), "runs": str(len(jobs))} | said)
        unknown += absent
    return pd.DataFrame(lines), f"{unknown} of the runs are not counted, since nothing is known of them yet." if unknown else ""


def basis() -> str:
    """What the predictions stand on."""
    if not (rate := estimate.cpu_rate()):
        return "No row of a fine-tune on a CPU says yet how fast CPUs are: nothing can be predicted."
    machine = estimate.gpu()
    return (
        f"The CPUs of our rows did {rate / 1e9:.0f} thousand million operations a second in the fine-tunes, at six for each weight and token; {machine['title']} does {machine['float32'] / 1e9:,.0f} in float32, as its maker says, "
        f"{estimate.gain():,.0f} times as many."
    )


def foretold() -> pd.DataFrame:
    """How well times are foreseen: each recorded run of unlearning from all others of its model, as the plan does it."""
    every = list(rows.find(RECORDED, kind="unlearn").values())
    every = [row for row in every if "failed" not in row["result"]]
    errors: dict[tuple[str, str], list[float]] = {}
    for row in every:
        others = [other for other in every if other is not row and estimate.name(other) == estimate.name(row)]
        if others:
            foreseen = estimate.by_stage(row["provenance"]["settings"], others)
            kind = "trials of a search" if is_trial(row["name"]) else "in another way" if tag_of(row["name"]) else "in the usual way"
            errors.setdefault((title(estimate.name(row)), kind), []).append(abs(foreseen / sum(row["provenance"]["seconds"].get(stage, 0.0) for stage in estimate.STAGES) - 1))
    return pd.DataFrame([{"model": model, "runs": kind, "number": str(len(off)), f"off by {WITHIN:.0%} at most": f"{sum(each <= WITHIN for each in off) / len(off):.0%}", "off by, median": f"{median(off):.0%}"} for (model, kind), off in sorted(errors.items())])


def tried() -> tuple[pd.DataFrame, str]:
    """What happened in the trial, second by second, and on what; an empty table and the command without a record."""
    if not RECORD.is_file():
        return pd.DataFrame({"second": [], "what happened": []}), "Not tried yet: `make slurm-try`, as root on Debian."
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    versions, hardware = record["versions"], record["hardware"]
    return pd.DataFrame([{"second": str(each["second"]), "what happened": each["what"]} for each in record["said"]]), (
        f"Tried {record['when']} on {hardware['cores']} cores ({hardware['cpu']}), with Slurm {versions['slurm']}, Snakemake {versions['snakemake']} and its plugin {versions['snakemake-executor-plugin-slurm']}: {record['runs']} runs in {record['seconds']} s."
    )
