"""The flow of data: sweep → runs (rows) → pages → book. `make book` calls this; so can a cluster.

snakemake --cores 2 [--config sweep=main jupyter=false]
snakemake --workflow-profile profiles/slurm --config sweep=paper jupyter=false [gpus=2]

Everything is made in build/; only `make promote` writes into rows/. Snakemake's triggers decide what
to redo, from the files that ``companion/workflow/sources.py`` lists.
"""

import json
import shlex
import sys
from pathlib import Path

sys.path.insert(0, workflow.basedir)

from companion.store.paths import BUILD, HTML, ROOT, products
from companion.workflow import build, plan, sources, sweep


workdir: str(BUILD)


SWEEP = sweep.read(config.get("sweep", "quick"))
JUPYTER = str(config.get("jupyter", True)).lower() not in ("false", "no", "0")
PLACE = "" if products(SWEEP.name) == BUILD else f"{products(SWEEP.name).name}/"
# None on a cluster: its machines may have more cores than a job is given
CORES = None if workflow.remote_exec else workflow.resource_settings.cores
THREADS = CORES or config.get("threads", 8)
GPUS = int(config.get("gpus", 1))
HERE = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join([*build.TIED, sys.executable])} -m"
RUNS = {name: sources.of_run(name) for name in {job.experiment for job in SWEEP.jobs.values()}}


def command(wildcards):
    """Return a run's command: its notebook through the runner or, without Jupyter, its experiment."""
    job = SWEEP.jobs[wildcards.job]
    if not JUPYTER:
        return shlex.join([f"companion.experiments.{job.experiment}", *sweep.options(job.parameters)])
    source = f"notebooks/{job.experiment}.ipynb"
    target = f"build/{PLACE}notebooks/{job.id}.ipynb"
    more = ["--name", job.id, "-y", json.dumps(job.parameters)]
    return shlex.join(["companion.workflow.notebook", source, target, *more])


def ended(name):
    """Return the file that marks a run as finished: its executed notebook, or an empty file."""
    return f"{PLACE}notebooks/{name}.ipynb" if JUPYTER else f"{PLACE}ended/{name}"


# Rows and pages are not outputs: Snakemake would delete new ones, or restore older ones, if a later
# step failed. A finished job runs again if its files were deleted.
PAGES, BOOK = "ended/pages", "ended/book"
MADE = {ended(name): [job.row] for name, job in SWEEP.jobs.items()}
MADE[PAGES] = [BUILD / "notebooks" / f"{page}.ipynb" for page in SWEEP.pages]
MADE[BOOK] = [HTML / "index.html"]
for mark, files in MADE.items():
    if workflow.is_main_process and not all(map(Path.is_file, files)):
        (BUILD / mark).unlink(missing_ok=True)


wildcard_constraints:
    job=f"({'|'.join(sweep.EXPERIMENTS)})/.+",


rule all:
    input:
        [BOOK] if SWEEP.pages else [],
        [ended(name) for name in SWEEP.jobs],


rule run:
    input:
        lambda wildcards: [
            ended(other.id) for other in SWEEP.upstream(SWEEP.jobs[wildcards.job])
        ],
        lambda wildcards: RUNS[SWEEP.jobs[wildcards.job].experiment],
    output:
        ended("{job}") if JUPYTER else touch(ended("{job}")),
    params:
        command=command,
    log:
        "logs/" + PLACE + "{job}.log",
    threads: lambda wildcards: max(1, THREADS // SWEEP.jobs[wildcards.job].parallel)
    resources:
        gpu=GPUS,
        mem_mb=lambda wildcards: plan.memory_mb(SWEEP.jobs[wildcards.job]),
    shell:
        "log=$PWD/{log}; {HERE} {params.command} 2> \"$log\""


rule pages:
    input:
        [ended(name) for name in SWEEP.jobs],
        sources.files([*sources.PAGES, *(f"notebooks/{page}.ipynb" for page in SWEEP.pages)]),
        str(ROOT / "companion/workflow/pages.py"),  # skips pages whose sources have not changed
    output:
        touch(PAGES),
    log:
        "logs/pages.log",
    threads: CORES or 1
    shell:
        "log=$PWD/{log}; {HERE} companion.workflow.pages --cores {threads} 2> \"$log\""


rule book:
    input:
        PAGES,
        [ended(run.id) for run in SWEEP.samples().values()],
        sources.files(sources.BOOK),
    output:
        touch(BOOK),
    log:
        "logs/book.log",
    threads: CORES or 1
    shell:
        "log=$PWD/{log}; {HERE} companion.workflow.site 2> \"$log\""
