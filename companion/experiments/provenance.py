"""How a row came about: versions, settings, inputs, commit, environment, time and memory."""

import functools
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import psutil
import torch

from companion.store import versions
from companion.store.paths import ROOT
from document_audit.edit_file import library_versions
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash


def provenance(kind: str, settings: dict, inputs: dict, seconds: dict, decoder: Decoder) -> dict:
    """Return ``about_run`` with the hash of the tokenizer."""
    made = about_run(kind, settings, inputs, seconds)
    return made | {"tokenizer": tokenizer_hash(decoder.tokenizer)}


def about_run(kind: str, settings: dict, inputs: dict, seconds: dict) -> dict:
    """How a row came about: versions, settings, inputs, commit, environment, time, memory."""
    return {
        "versions": versions.current(kind, settings),
        "settings": settings,
        "inputs": inputs,
        "commit": commit(),
        "environment": environment(),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "peak_memory_mb": peak_memory_mb(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def environment() -> dict:
    """Python, the libraries that compute, and the machine of this run."""
    gpu = torch.cuda.is_available()
    return {
        **library_versions(),
        "device": "cuda" if gpu else "cpu",
        "processor": torch.cuda.get_device_name() if gpu else cpu(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
    }


@functools.cache
def commit() -> str | None:
    """Return REVS_COMMIT, for a copy without history, or the code's commit, with ``-dirty`` at its
    end if files differ; None if neither is known."""
    if known := os.environ.get("REVS_COMMIT"):
        return known
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    except OSError:  # there is no git
        return None
    return done.stdout.strip() or None


def cpu() -> str:
    """The processor's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def peak_memory_mb() -> int:
    """The process's highest resident memory, or the GPU's highest allocation where there is one."""
    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))
