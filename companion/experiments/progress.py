"""Where a run is: one line on standard output, by tqdm."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable

from tqdm import tqdm


def progress(what: str, unit: str = "steps") -> Callable[[Iterable], Iterable]:
    """What wraps the steps of a loop, ``for step in progress(steps)``, and says where it is."""
    look = {"desc": what, "unit": f" {unit}", "mininterval": 5.0, "disable": False}
    return functools.partial(tqdm, file=sys.stdout, **look)
