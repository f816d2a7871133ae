"""Where a run is, on one line of standard output: done, total, seconds spent, seconds left."""

from __future__ import annotations

import time


class Progress:
    """Prints at most one line in ``every`` seconds, and the last one."""

    def __init__(self, what: str, unit: str, every: float = 5.0):
        self.what, self.unit, self.every = what, unit, every
        self.start = self.last = time.monotonic()

    def __call__(self, done: int, total: int, *_) -> None:
        now = time.monotonic()
        if done and (done == total or now - self.last >= self.every):
            spent = now - self.start
            left = spent * (total - done) / done
            print(
                f"{self.what}: {done}/{total} {self.unit}, {spent:.0f} s, about {left:.0f} s left",
                flush=True,
            )
            self.last = now
