"""Memory: whether a run can fit, before a weight is read, and how much a stage of it takes."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psutil
import torch

from companion.record.paths import resolve
from companion.runs import models

PROCESS = 540 * 2**20  # bytes of the program itself: Python, torch, transformers, the tokenizer
TRAINED = ("memorise", "npo_kl", "simnpo")  # three times more: gradient, Adam's two moments
LIMIT = Path("/sys/fs/cgroup")  # where Linux says what a container or a cluster's job may have


def check(settings: dict) -> None:
    """Raises MemoryError for a run that cannot fit by the least it takes: process and weights.

    ``settings`` are a run's, with ``model``, ``dtype`` and ``method``. A model of unknown size is
    not refused.
    """
    path, each = resolve(settings["model"]), 4 if settings["dtype"] == "float32" else 2
    if shape := models.registry().get(settings["model"], {}).get("shape"):
        weights = shape["weights"] * each
    else:
        files = [path] if path.suffix == ".gguf" else path.glob("*.safetensors")
        weights = sum(file.stat().st_size for file in files if file.is_file())
    name = settings.get("method", "memorise" if "epochs" in settings else "This run")
    held = bool(settings.get("ordinary") and settings.get("hold"))  # the model before, beside it
    needed = PROCESS + weights * (1 + held + 3 * (name in TRAINED))
    if weights and needed > (there := free(settings.get("device_map"))):
        raise MemoryError(
            f"{name} on {settings['model']} takes at least {needed / 2**30:.1f} GiB, but "
            f"{there / 2**30:.1f} GiB of memory are free: take bfloat16 weights, a smaller model, "
            "or a machine with more."
        )


def free(device_map: str | None = None) -> float:
    """Bytes that a run could have: of all GPUs if it goes there, else of the machine."""
    if torch.cuda.is_available() and not str(device_map).startswith("cpu"):
        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))
    there = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # no limit, or no such groups
        used = int((LIMIT / "memory.current").read_text())
        there = min(there, int((LIMIT / "memory.max").read_text()) - used)
    return there + psutil.Process().memory_info().rss


class Peak:
    """``with Peak() as peak: …``, then ``peak.mb``: MiB above the start, of the process or GPUs."""

    def __init__(self, every: float = 0.05):
        self.every = every  # seconds between two looks

    def __enter__(self) -> Peak:
        self.gpus, self.done = range(torch.cuda.device_count()), threading.Event()
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        self.start = self.highest = self.now()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        return self

    def now(self) -> int:
        """Bytes in use; pages of files, which are mapped weights when first read, do not count."""
        if self.gpus:
            return sum(map(torch.cuda.max_memory_allocated, self.gpus))
        info = psutil.Process().memory_info()
        return info.rss - getattr(info, "shared", 0)  # only Linux tells them apart

    def watch(self) -> None:
        while not self.done.wait(self.every):
            self.highest = max(self.highest, self.now())

    def __exit__(self, *_) -> None:
        self.done.set()
        self.watcher.join()
        self.mb = round((max(self.highest, self.now()) - self.start) / 2**20)
