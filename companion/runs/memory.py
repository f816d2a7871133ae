"""Memory: whether a run can fit before a weight is read, and how much a stage of it takes."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psutil
import torch

from companion.record.paths import resolve
from companion.runs import models

EVERY = 0.05  # seconds between two looks at the process
PROCESS = 540 * 2**20  # bytes of the program itself: Python, torch, transformers, the tokenizer
BYTES = {"float32": 4}  # of a weight; 2 in the other precisions
GROUP = Path("/sys/fs/cgroup")  # where Linux says what a container or a cluster's job may have


def check(settings: dict) -> None:
    """Raises MemoryError, before a weight is read, for a run that cannot fit; nothing else is foreseen.

    Counted is the least: the process, the weights, and, where all weights are trained, the original of
    each with its gradient and Adam's two moments (besides the weight, 12 bytes in all). A model of
    unknown size is not refused. ``settings`` are a run's, with ``model``, ``dtype`` and ``method``.
    """
    shape = models.registry().get(settings["model"], {}).get("shape")
    each = BYTES.get(settings["dtype"], 2)
    if shape:
        weights = shape["weights"] * each
    else:
        path = resolve(settings["model"])
        files = [path] if path.suffix == ".gguf" else path.glob("*.safetensors")
        weights = sum(file.stat().st_size for file in files if file.is_file())
    name = settings.get("method", "memorise" if "epochs" in settings else "This run")
    trained = name in ("memorise", "npo_kl", "simnpo")
    needed = PROCESS + weights * (1 + 12 / each * trained)
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
        limit = int((GROUP / "memory.max").read_text())
        there = min(there, limit - int((GROUP / "memory.current").read_text()))
    return there + psutil.Process().memory_info().rss


class Peak:
    """``with Peak() as peak: …``, then ``peak.mb``: MiB above the start, of the process or GPUs."""

    def __init__(self, every: float = EVERY):
        self.every = every

    def __enter__(self) -> Peak:
        self.gpus = range(torch.cuda.device_count())
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        self.start = self.highest = self.now()
        self.done = threading.Event()
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
