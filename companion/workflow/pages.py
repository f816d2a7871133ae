"""Executes the light notebooks, each kernel one after the other: heavy imports and rows once.

Between two notebooks a kernel forgets every name, so that each begins as it would by itself; what
stays are imported modules and the rows that they have read. A page whose executed copy has its
present stamp is left as it is.
"""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync

from companion.store.paths import BUILD, ROOT
from companion.workflow import notebook, stamps
from companion.workflow.profile import read

SLOW = ("artefact", "walk", "examples", "diagrams")  # which begin first
FORGET = """\
import gc, matplotlib.pyplot as plt
plt.close("all"), plt.rcdefaults()
get_ipython().reset(aggressive=False)
import gc
gc.collect()
del gc"""


def current(page: str, stamp: str) -> bool:
    """Is there an executed copy that was made from the present sources?"""
    path = BUILD / "notebooks" / f"{page}.ipynb"
    if not path.is_file():
        return False
    return nbformat.read(path, as_version=4).metadata.papermill.get("stamp") == stamp


def work(todo: queue.SimpleQueue, failed: list[str]) -> None:
    """Executes pages in one kernel until none is left or one has failed anywhere."""
    kernel = AsyncKernelManager(kernel_name="python3")
    try:
        while not failed:
            page, stamp = todo.get_nowait()
            start, target = time.monotonic(), BUILD / "notebooks" / f"{page}.ipynb"
            source = ROOT / "notebooks" / f"{page}.ipynb"
            notebook.execute(source, target, {}, page, km=kernel, stamp=stamp)
            client = kernel.client()
            client.start_channels()
            run_sync(client.wait_for_ready)(timeout=60)
            run_sync(client.execute_interactive)(FORGET, silent=True, store_history=False)
            client.stop_channels()
            print(f"{page}: finished in {time.monotonic() - start:.0f} s", flush=True)
    except queue.Empty:
        pass
    except (ValueError, OSError, RuntimeError) as error:
        failed.append(f"{page}: {error}")
    finally:
        if kernel.has_kernel:
            run_sync(kernel.shutdown_kernel)(now=True)


def main() -> None:
    """The command of the rule ``pages``."""
    parser = argparse.ArgumentParser(prog="python -m companion.workflow.pages")
    parser.add_argument("--cores", type=int, default=1, help="how many kernels")
    kernels = parser.parse_args().cores
    profile, start = read("quick"), time.monotonic()
    stamp, todo, failed = stamps.of(profile), queue.SimpleQueue(), []
    for page in sorted(profile.pages, key=lambda page: page not in SLOW):
        if not current(page, stamp[page]):
            todo.put((page, stamp[page]))
    threads = [threading.Thread(target=work, args=(todo, failed)) for _ in range(kernels)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(failed[0])
    print(f"pages: finished in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
