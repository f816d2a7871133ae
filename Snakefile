"""The way of a number: profile → runs (rows) → pages → book. `make book` calls this; so can a cluster.

snakemake --cores 2 --rerun-triggers params [--config profile=core jupyter=false]
snakemake --workflow-profile profiles/slurm --config profile=paper jupyter=false [gpus=2]

A run takes one GPU, or as many as ``gpus`` says.

Everything is made in build/, and no rule writes into rows/: recorded rows are adopted by a command of their own.
Whether a job is stale is decided by its stamp, a hash of content, never by a file time.
"""

import json
import shlex
import sys

sys.path.insert(0, workflow.basedir)

from companion.workflow import estimate, profile, stamps
from companion.workflow.paths import BUILD, ROOT, products


workdir: str(BUILD)


PROFILE = profile.read(config.get("profile", "quick"))
STAMPS = stamps.stamps(PROFILE)
JUPYTER = str(config.get("jupyter", True)).lower() not in ("false", "no", "0")
PLACE = "" if products(PROFILE.name) == BUILD else f"{products(PROFILE.name).name}/"
CORES = None if workflow.remote_exec else workflow.resource_settings.cores  # None on a cluster: its machines may have more than a job is given
SLOTS = workflow.global_resources["gpu"].value if "gpu" in workflow.global_resources else 0  # this machine's GPUs, if they are shared out
GPUS = int(config.get("gpus", 1))
THREADS = CORES * GPUS // max(SLOTS, GPUS) if CORES else config.get("threads", 8)  # of a run that has its part of the machine for itself
HERE = f"cd {shlex.quote(str(ROOT))} && exec {shlex.quote(sys.executable)} -m"
SLOT = f"companion.workflow.slots {GPUS} {SLOTS}" if SLOTS else ""


def job(wildcards):
    return PROFILE.jobs[wildcards.job]


def command(wildcards):
    """How a run is called: its notebook by the runner, or its experiment without Jupyter."""
    if JUPYTER:
        target = f"build/{PLACE}notebooks/{wildcards.job}.ipynb"
        parts = ["companion.workflow.notebook", f"notebooks/{job(wildcards).notebook}.ipynb", target, "--name", wildcards.job, "-y", json.dumps(job(wildcards).parameters)]
    else:
        parts = ["companion.workflow.lifeline", f"companion.runs.{job(wildcards).notebook}"]
        parts += [part for name, value in job(wildcards).parameters.items() for part in (f"--{name}", json.dumps(value))]
    return shlex.join(parts)


def made(name):
    """What a run makes: its row, and its executed notebook."""
    return [f"{PLACE}rows/{name}.json"] + ([f"{PLACE}notebooks/{name}.ipynb"] if JUPYTER else [])


wildcard_constraints:
    job=f"({'|'.join(profile.EXPERIMENTS)})/.+",
    page="[^/]+",


rule all:
    input:
        ["_build/html/index.html"] if PROFILE.pages else [],
        [made(name) for name in PROFILE.jobs],  # also where the book is there: a row that was deleted is made again


rule run:
    input:
        lambda wildcards: [f"{PLACE}rows/{other.id}.json" for other in PROFILE.upstream(job(wildcards))],
    output:
        update(PLACE + "rows/{job}.json"),  # a current row is kept by the run itself: it must not be deleted first
        ([PLACE + "notebooks/{job}.ipynb"] if JUPYTER else []),
    params:
        stamp=lambda wildcards: STAMPS[wildcards.job],
        command=command,
    log:
        "logs/" + PLACE + "{job}.log",
    threads: lambda wildcards: max(1, THREADS // job(wildcards).abreast)
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards: estimate.memory_mb(job(wildcards)),
    shell:
        "log=$PWD/{log}; {HERE} {SLOT} {params.command} 2> $log"


rule page:
    input:
        [f"{PLACE}rows/{name}.json" for name in PROFILE.jobs],
    output:
        "notebooks/{page}.ipynb",
    params:
        stamp=lambda wildcards: STAMPS[wildcards.page],
    log:
        "logs/{page}.log",
    resources:
        mem_mb=3000,
    shell:
        "log=$PWD/{log}; {HERE} companion.workflow.notebook notebooks/{wildcards.page}.ipynb build/{output} 2> $log"


rule book:
    input:
        [f"notebooks/{page}.ipynb" for page in PROFILE.pages],
        [f"notebooks/{run.id}.ipynb" for run in PROFILE.samples().values()],
    output:
        update("_build/html/index.html"),
    params:
        stamp=STAMPS.get("book"),
    log:
        "logs/book.log",
    threads: CORES or 1
    shell:
        "log=$PWD/{log}; {HERE} companion.workflow.site 2> $log"
