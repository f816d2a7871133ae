"""The way of a number: profile → runs (rows) → pages → book. `make book` calls this; so can a cluster.

snakemake --cores 2 --rerun-triggers params [--config profile=core jupyter=false]
snakemake --workflow-profile profiles/slurm --config profile=paper jupyter=false [gpus=2]

Everything is made in build/, and no rule writes into rows/: recorded rows are adopted by a command.
Whether a job is stale is decided by its stamp, a hash of content, never by a file time.
"""

import json
import shlex
import sys

sys.path.insert(0, workflow.basedir)

from companion.workflow import plan, profile, stamps
from companion.workflow.paths import BUILD, ROOT, products


workdir: str(BUILD)


PROFILE = profile.read(config.get("profile", "quick"))
STAMPS = stamps.of(PROFILE)
JUPYTER = str(config.get("jupyter", True)).lower() not in ("false", "no", "0")
PLACE = "" if products(PROFILE.name) == BUILD else f"{products(PROFILE.name).name}/"
# None on a cluster: its machines may have more cores than a job is given
CORES = None if workflow.remote_exec else workflow.resource_settings.cores
THREADS = CORES or config.get("threads", 8)
HERE = f"cd {shlex.quote(str(ROOT))} && exec {shlex.quote(sys.executable)} -m"


def command(wildcards):
    """How a run is called: its notebook by the runner, or its experiment without Jupyter."""
    job = PROFILE.jobs[wildcards.job]
    if not JUPYTER:
        return shlex.join([f"companion.runs.{job.notebook}", *profile.options(job.parameters)])
    source = f"notebooks/{job.notebook}.ipynb"
    target = f"build/{PLACE}notebooks/{job.id}.ipynb"
    more = ["--name", job.id, "-y", json.dumps(job.parameters)]
    return shlex.join(["companion.workflow.notebook", source, target, *more])


def made(name):
    """What a run makes: its row, and its executed notebook."""
    return [f"{PLACE}rows/{name}.json"] + ([f"{PLACE}notebooks/{name}.ipynb"] if JUPYTER else [])


wildcard_constraints:
    job=f"({'|'.join(profile.EXPERIMENTS)})/.+",


rule all:
    input:
        ["_build/html/index.html"] if PROFILE.pages else [],
        [made(name) for name in PROFILE.jobs],  # a row that was deleted is made again


rule run:
    input:
        lambda wildcards: [
            f"{PLACE}rows/{other.id}.json"
            for other in PROFILE.upstream(PROFILE.jobs[wildcards.job])
        ],
    output:
        update(PLACE + "rows/{job}.json"),  # a current row is kept by the run itself
        ([PLACE + "notebooks/{job}.ipynb"] if JUPYTER else []),
    params:
        stamp=lambda wildcards: STAMPS[wildcards.job],
        command=command,
    log:
        "logs/" + PLACE + "{job}.log",
    threads: lambda wildcards: max(1, THREADS // PROFILE.jobs[wildcards.job].abreast)
    resources:
        gpu=int(config.get("gpus", 1)),
        mem_mb=lambda wildcards: plan.memory_mb(PROFILE.jobs[wildcards.job]),
    shell:
        "log=$PWD/{log}; {HERE} {params.command} 2> $log"


rule pages:
    input:
        [f"{PLACE}rows/{name}.json" for name in PROFILE.jobs],
    output:
        update([f"notebooks/{page}.ipynb" for page in PROFILE.pages]),  # those that are current stay
    params:
        stamp=[STAMPS[page] for page in PROFILE.pages],
    log:
        "logs/pages.log",
    threads: CORES or 1
    shell:
        "log=$PWD/{log}; {HERE} companion.workflow.pages --cores {threads} 2> $log"


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
