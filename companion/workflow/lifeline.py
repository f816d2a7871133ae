"""No process is left behind: whoever calls ``hold`` dies when its parent does, even if that was killed with -9.

``python -m companion.workflow.lifeline MODULE ARGUMENTS …`` runs a module that way.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
import time


def hold() -> None:
    """Ties this process to its parent: by the kernel's own means on Linux, elsewhere by looking every half second."""
    parent = os.getppid()
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1  # linux/prctl.h
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(1)
    else:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()


def watch(parent: int, every: float = 0.5) -> None:
    """Ends this process once its parent is another."""
    while os.getppid() == parent:
        time.sleep(every)
    os._exit(1)


if __name__ == "__main__":
    hold()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
