"""Where the time goes: seconds and calls of a run's parts, each without the parts inside it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest import mock

import torch


def clock() -> float:
    """Seconds on a monotonic clock, once the GPU, if there is one, is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(do: Callable, *arguments) -> tuple[float, object]:
    """Seconds, and what was returned."""
    start = clock()
    made = do(*arguments)
    return clock() - start, made


class Stopwatch:
    """``with stopwatch.part("a"): …`` charges time to a; a part inside it is charged alone."""

    def __init__(self):
        self.seconds: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()  # of functions, by part and name
        self.open: list[str] = []
        self.since = 0.0

    @contextmanager
    def part(self, name: str):
        self.turn()
        self.open.append(name)
        try:
            yield
        finally:
            self.turn()
            self.open.pop()

    def turn(self) -> None:
        """Charges what has passed to the innermost part that is open."""
        now = clock()
        if self.open:
            self.seconds[self.open[-1]] += now - self.since
        self.since = now

    @contextmanager
    def watching(self, rest: str, functions: Iterable[tuple[object, str, str]]):
        """Charges calls of (module or class, name, part) to a part, all else to ``rest``."""
        with ExitStack() as stack:
            for owner, name, part in functions:
                stack.enter_context(
                    mock.patch.object(owner, name, self.watched(getattr(owner, name), part))
                )
            stack.enter_context(self.part(rest))
            yield

    def watched(self, function: Callable, part: str) -> Callable:
        @wraps(function)
        def timed(*arguments, **named):
            self.calls[part, function.__name__] += 1
            with self.part(part):
                return function(*arguments, **named)

        return timed
