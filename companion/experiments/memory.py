"""Checks, before weights are read, that a run fits in memory; measures what a stage takes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import threading
from pathlib import Path

import psutil
import torch
from safetensors import safe_open

from companion.data import models
from companion.store.paths import resolve
from revs.model.place import weight_files

AUDIT = "An audit"  # relearning trains all weights, beside a copy of the unedited model
PROCESS = 540 * 2**20  # bytes of the program itself: Python, torch, transformers, the tokenizer
# Extra bytes for each float32 weight that is trained: gradient, Adam's two moments and, if it is
# restored, the original. COPIED is added below float32, where float32 copies are trained.
TRAINED, COPIED = {"npo_kl": 16, AUDIT: 16}, 4
LIMIT = Path("/sys/fs/cgroup")  # where Linux says what a container or a cluster's job may have
GROUP = Path("/proc/self/cgroup")  # and in which group this process is


def check(settings: dict) -> None:
    """Raise MemoryError if the least that a run takes, process and weights, exceeds free memory.

    ``settings`` are a run's, with ``model``, ``dtype`` and ``method``. A model of unknown size is
    not refused.
    """
    path, each = resolve(settings["model"]), 4 if settings["dtype"] == "float32" else 2
    if shape := models.registry().get(settings["model"], {}).get("shape"):
        weights = shape["weights"] * each
    else:
        weights = weight_count(path) * each
    name = settings.get("method", "This run")
    beside = (TRAINED[name] + COPIED * (each < 4)) / each if name in TRAINED else 0
    beside += name == AUDIT
    if (settings.get("hyperparameters") or {}).get("layers", "all") != "all":
        beside = 0  # of a part of the weights
    needed = PROCESS + weights * (1 + beside)
    if weights and needed > (there := free_bytes(settings.get("device_map"))):
        lower = "bfloat16 weights, " * (each == 4 and not beside)
        raise MemoryError(
            f"{name} on {settings['model']} takes at least {needed / 2**30:.1f} GiB, but "
            f"{there / 2**30:.1f} GiB of memory are free: take {lower}a smaller model, or a "
            "machine with more."
        )


def weight_count(path: Path) -> int:
    """Return the number of weights in a .gguf file or a folder of safetensors, read from headers; 0
    if unknown. Files may store weights in fewer bits than a run does."""
    number = 0
    with contextlib.suppress(Exception):  # a truncated or crafted file: loading reports it
        if path.suffix == ".gguf" and path.is_file():
            from gguf import GGUFReader  # here: few machines with a GPU have it

            return sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
        for file in weight_files(path):
            with safe_open(file, framework="numpy") as held:
                number += sum(math.prod(held.get_slice(name).get_shape()) for name in held.keys())
    return number


def free_bytes(device_map: str | None = None) -> float:
    """Bytes that a run could have: of all GPUs if it goes there, else of the machine."""
    if torch.cuda.is_available() and not str(device_map).startswith("cpu"):
        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(torch.cuda.device_count()))
    there = psutil.virtual_memory().available
    with contextlib.suppress(OSError):  # no such groups
        own = LIMIT / GROUP.read_text().rpartition("0::/")[2].strip()
        for group in (own, *own.parents):
            with contextlib.suppress(OSError, ValueError):  # no limit
                used = int((group / "memory.current").read_text())
                there = min(there, int((group / "memory.max").read_text()) - used)
    return there + psutil.Process().memory_info().rss


class Peak:
    """``with Peak() as peak: …``, then ``peak.mb``: MiB above the start, of the process or GPUs."""

    every = 0.05  # seconds between two looks

    def __enter__(self) -> Peak:
        gc.collect()
        # what malloc still holds goes back to the system: reuse of it would go uncounted
        with contextlib.suppress(OSError, TypeError, AttributeError):  # only glibc has malloc_trim
            ctypes.CDLL(None).malloc_trim(0)
        self.gpus, self.done = range(torch.cuda.device_count()), threading.Event()
        for gpu in self.gpus:
            torch.cuda.reset_peak_memory_stats(gpu)
        self.start = self.highest = self.bytes_in_use()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()
        return self

    def bytes_in_use(self) -> int:
        """Return the bytes in use, without file pages, such as mapped weights when first read."""
        if self.gpus:
            return sum(map(torch.cuda.max_memory_allocated, self.gpus))
        info = psutil.Process().memory_info()
        return info.rss - getattr(info, "shared", 0)  # only Linux tells them apart

    def watch(self) -> None:
        while not self.done.wait(self.every):
            self.highest = max(self.highest, self.bytes_in_use())

    def __exit__(self, *_) -> None:
        self.done.set()
        self.watcher.join()
        self.mb = round((max(self.highest, self.bytes_in_use()) - self.start) / 2**20)
