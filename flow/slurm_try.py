"""`make slurm-try`: a small profile through Snakemake's Slurm profile, on a Slurm of its own on the loopback. Debian and root.

A run fails and is made again, and slurmd is killed and started again while runs go on; in the end every row must be there. A copy
of this checkout works in a scratch folder with tiny random models, so that nothing here changes but rows/slurm.json, the record.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import torch
import yaml
from transformers.utils.logging import disable_progress_bar

from flow import profile
from flow.conformance import SUITE
from flow.paths import ROOT, shown
from revs import load, rows
from revs.scaling import RECORD

NEEDED = {"munge": ["munged"], "slurm-wlm": ["slurmctld", "slurmd", "sbatch", "srun", "squeue"]}  # Debian's packages
PLUGIN = "snakemake-executor-plugin-slurm"
LATE = "late"  # a model whose folder is away until a run has failed for want of it
LEARN = {"data": "ssn", "digits": "keep", "epochs": 1}
RUN = {"data": "ssn", "forget": 2, "sentences": 1, "generate": False}
PROFILE = {
    "title": "Tiny random models, to try a scheduler",
    "runs": [
        {"notebook": "unlearn", "parameters": RUN | {"model": LATE, "finetune": False, "method": "random"}},
        {"notebook": "memorise", "parameters": LEARN | {"model": "tiny"}},
        {"notebook": "unlearn", "parameters": RUN | {"model": "tiny", "finetune": LEARN}, "over": {"method": ["revs", "random"], "seed": [1, 2]}},
    ],
}
OPTIONS = [  # beside those of profiles/slurm: a cluster without accounts and accounting, and small
    "--slurm-no-account", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "3",
    "--jobs", "2", "--latency-wait", "5", "--set-resources", "run:mem_mb=1000", "--config", "profile=try", "jupyter=false", "threads=1",
]  # fmt: skip
CONFIGURATION = """
ClusterName=try
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=2000 Gres=gpu:2
PartitionName=try Nodes=ALL Default=YES
"""


def refuse() -> None:
    """Ends with one sentence where it cannot work; nothing is installed unasked."""
    if os.geteuid() or not sys.platform.startswith("linux"):
        sys.exit("make slurm-try starts daemons of its own: run it as root, on Linux.")
    if absent := [package for package, programs in NEEDED.items() if not all(map(shutil.which, programs))]:
        sys.exit(f"Slurm is not here: apt-get install -y --no-install-recommends {' '.join(absent)}")
    if not importlib.util.find_spec(PLUGIN.replace("-", "_")):
        sys.exit(f"Snakemake's plugin is not here: {sys.executable} -m pip install -r profiles/slurm/requirements.txt")


class Try:
    """A Slurm in a scratch folder, and what happened by the clock."""

    def __init__(self, place: Path, stack: ExitStack):
        self.place, self.stack, self.start, self.said, self.daemons = place, stack, time.monotonic(), [], {}
        place.chmod(0o755)  # munge's socket must be reached
        with socket.socket() as one, socket.socket() as other:
            for each in (one, other):
                each.bind(("127.0.0.1", 0))
            ports = [each.getsockname()[1] for each in (one, other)]
        for folder in ("state", "spool", "bin"):
            (place / folder).mkdir()
        (place / "slurm.conf").write_text(CONFIGURATION.format(host=socket.gethostname().split(".")[0], ports=ports, place=place, cpus=min(2, os.cpu_count())))
        (place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n" if Path("/sys/fs/cgroup/cgroup.controllers").is_file() else "CgroupPlugin=cgroup/v1\n")
        (place / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        (place / "munge.key").write_bytes(os.urandom(64))
        (place / "munge.key").chmod(0o400)
        self.environment = os.environ | {"SLURM_CONF": str(place / "slurm.conf"), "PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
        (place / "bin" / "srun").write_text(f'#!/bin/sh\nSLURM_CONF={place}/slurm.conf exec {shutil.which("srun")} "$@"\n')  # the plugin takes that variable from its jobs
        (place / "bin" / "srun").chmod(0o755)

    def say(self, what: str) -> None:
        """One line of what happened."""
        self.said.append({"second": round(time.monotonic() - self.start), "what": what})
        print(f"{self.said[-1]['second']:4d} s  {what}", flush=True)

    def daemon(self, program: str, *options: str) -> None:
        """Starts a daemon in the foreground, its words in a file of its name."""
        with (self.place / f"{program}.log").open("a") as log:
            self.daemons[program] = subprocess.Popen([shutil.which(program), *options], env=self.environment, stdout=log, stderr=log)

    def up(self) -> None:
        """Starts all three, and waits until the node is idle."""
        files = [f"--{name}={self.place}/{file}" for name, file in (("socket", "munge.socket"), ("key-file", "munge.key"), ("pid-file", "munged.pid"), ("seed-file", "munge.seed"))]
        self.daemon("munged", "--foreground", *files)
        self.until(lambda: (self.place / "munge.socket").exists(), "munged to answer")
        self.daemon("slurmctld", "-D")
        self.daemon("slurmd", "-D")
        self.until(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), "the node to be idle")

    def until(self, true, what: str, seconds: float = 60) -> None:
        """Waits for something to become true; RuntimeError if it does not, or if a daemon ends."""
        limit = time.monotonic() + seconds
        while not true():
            if time.monotonic() > limit or any(daemon.poll() is not None for daemon in self.daemons.values()):
                raise RuntimeError(f"Waited in vain for {what} (logs: {self.place}).")
            time.sleep(0.5)

    def ask(self, *command: str) -> str:
        """What one of Slurm's commands says."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True).stdout

    def jobs(self) -> dict[str, tuple[str, str]]:
        """Slurm's jobs by number: state, and the run that each makes."""
        lines = [line.split("|") for line in self.ask("squeue", "--states=all", "-h", "-o", "%i|%T|%k").splitlines()]
        return {number: (state, comment.removeprefix("rule_run_wildcards_")) for number, state, comment in lines}

    def down(self) -> None:
        """Ends what was started, jobs first."""
        self.ask("scancel", "--full", "--user=root")
        try:
            self.until(lambda: not self.ask("squeue", "-h"), "all jobs to end")
        finally:
            for daemon in reversed(self.daemons.values()):
                daemon.terminate()
                daemon.wait()


def checkout(place: Path) -> Path:
    """A copy of this checkout with the profile and two tiny random models, one of them away."""
    target = place / "checkout"
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(".git", ".venv", "build", ".snakemake", "__pycache__"))
    (target / "params" / "try.yml").write_text(yaml.safe_dump(PROFILE))
    disable_progress_bar()
    sys.path.insert(0, str(SUITE.parent))
    from conftest import build

    for seed, name in enumerate(("tiny", f"{LATE}.away")):
        decoder = build("llama-tied", seed, torch.float32, max_position_embeddings=256)
        load.save(decoder.model, decoder.tokenizer, target / name)
    return target


def attempt(trial: Try, root: Path, paths: dict[str, Path]) -> None:
    """Makes the rows that lie at these paths, with both mishaps; RuntimeError if anything is not as promised."""
    command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm", *OPTIONS]
    called = {run.replace("/", "_"): run for run in paths}
    now = lambda *states: {number: called[run] for number, (state, run) in trial.jobs().items() if state in states}
    with (trial.place / "snakemake.log").open("w") as log:
        process = subprocess.Popen(command, cwd=root, env=trial.environment, stdout=log, stderr=log)
    trial.stack.callback(process.kill)
    trial.until(lambda: now("FAILED") or process.poll() is not None, "the run without its model to fail", 300)
    (root / f"{LATE}.away").rename(root / LATE)
    trial.say(f"{', '.join(now('FAILED').values())} failed: its model's folder was away. It is back.")
    trial.until(lambda: now("COMPLETED") and now("RUNNING") or process.poll() is not None, "some runs to have ended while others go on", 300)
    running = now("RUNNING")
    trial.daemons["slurmd"].kill()
    trial.daemons["slurmd"].wait()
    trial.say(f"slurmd was killed while {' and '.join(running.values())} ran.")
    time.sleep(5)
    trial.daemon("slurmd", "-D")
    trial.say("slurmd was started again.")
    trial.until(lambda: process.poll() is not None, "Snakemake to end", 600)
    jobs = trial.jobs()
    times = Counter(called[run] for _, run in jobs.values())
    trial.say(f"Snakemake ended with status {process.returncode}, after {len(jobs)} jobs of Slurm for {len(paths)} runs; made again: {', '.join(run for run in times if times[run] > 1)}.")
    for number, run in running.items():
        trial.say(f"{run}, which ran when slurmd was killed: {jobs[number][0].lower()}.")
    absent = [run for run, path in paths.items() if not path.is_file() or "failed" in rows.read(path)["result"]]
    if process.returncode or absent or not running or not any(f"/{LATE}/" in run for run in times if times[run] > 1):
        raise RuntimeError(f"Not as promised; rows that are not there: {', '.join(absent) or 'none'} (logs: {trial.place}).")
    again = subprocess.run([*command, "--dry-run"], cwd=root, env=trial.environment, capture_output=True, text=True)
    if "Nothing to be done" not in again.stdout + again.stderr:
        raise RuntimeError(f"A second call would do something (logs: {trial.place}): {again.stderr[-1000:]}")
    trial.say("Every row is there, and a second call has nothing to do.")


def main() -> None:
    """Tries it, and writes the record if all went as promised."""
    refuse()
    place = Path(tempfile.mkdtemp(prefix="slurm-try-"))
    with ExitStack() as stack:
        trial = Try(place, stack)
        stack.callback(trial.down)
        try:
            trial.up()
            version = trial.ask("sinfo", "--version").split()[-1]
            trial.say(f"Slurm {version} answers on the loopback.")
            root = checkout(place)
            jobs = profile.build("try", PROFILE).jobs.values()
            attempt(trial, root, {job.id: root / job.rows / f"{job.id}.json" for job in jobs})
        except RuntimeError as error:
            sys.exit(str(error))
    versions = {"slurm": version} | {name: importlib.metadata.version(name) for name in ("snakemake", PLUGIN)}
    machine = rows.machine()
    record = {"when": time.strftime("%Y-%m-%d", time.gmtime()), "seconds": trial.said[-1]["second"], "versions": machine["versions"] | versions, "hardware": machine["hardware"], "runs": len(jobs), "said": trial.said}
    rows.write_text(RECORD, json.dumps(record, indent=1) + "\n")
    shutil.rmtree(place)
    print(f"{shown(RECORD)} says so.")


if __name__ == "__main__":
    main()
