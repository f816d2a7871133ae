"""GPU slots: Snakemake counts this machine's GPUs, and a run takes the first ones that no other run holds.

``python -m companion.workflow.slots 1 8 MODULE ARGUMENTS …`` runs a module with one of eight. On a cluster Slurm does that.
"""

from __future__ import annotations

import fcntl
import os
import runpy
import sys
from typing import TextIO

from companion.workflow.paths import BUILD


def take(wanted: int, total: int) -> list[TextIO]:
    """Shows ``wanted`` free GPUs to this process alone; they are free again when the files are closed, however it ends.

    Raises ValueError if fewer are free.
    """
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(total)))
    held: dict[str, TextIO] = {}
    for name in names.split(",")[:total]:
        stream = (BUILD / f".gpu-{name}").open("w")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        held[name] = stream
        if len(held) == wanted:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(held)
            return [*held.values()]
    raise ValueError(
        f"{wanted} GPUs are wanted, but only {len(held)} of {total} are free: end what holds them, or ask for fewer."
    )


if __name__ == "__main__":
    held = take(int(sys.argv[1]), int(sys.argv[2]))
    del sys.argv[:3]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
