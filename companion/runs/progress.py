"""How far a run is: a bar of tqdm on standard output."""

from __future__ import annotations

import sys
from functools import partial

from tqdm import tqdm


def Progress(what: str, unit: str):
    """Wraps the steps of a run; a call with two numbers, done and total, shows nothing."""
    bar = partial(tqdm, desc=what, unit=unit, file=sys.stdout, mininterval=5)
    return lambda steps, *more: iter(()) if isinstance(steps, int) else bar(steps)
