"""How much memory a stage of a run takes beyond what was in use before it."""

from __future__ import annotations

import threading

import psutil
import torch

EVERY = 0.05


class Peak:
    """``with Peak() as peak: …`` then ``peak.mb``: MiB above the start, of the process or of the GPUs where there are any."""

    def __init__(self, every: float = EVERY):
        self.every = every  # seconds between two looks at the process

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
        """Bytes in use. Pages of files do not count: weights are mapped, and become resident when they are first read."""
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
