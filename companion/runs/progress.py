"""Where a run is: one line on standard output, by tqdm."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable

from tqdm import tqdm


def progress(what: str, unit: str = "steps") -> Callable[[Iterable], Iterable]:
    """What wraps the steps of a loop, ``for step in progress(steps)``, and says where it is."""
    return functools.partial(tqdm, desc=what, unit=f" {unit}", file=sys.stdout, mininterval=5.0)


Progress = progress
