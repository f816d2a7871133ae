"""Executes the light notebooks, each kernel one after the other: heavy imports and rows once.

Between two notebooks a kernel forgets every name, so that each begins as it would by itself; what
stays are imported modules and the rows that they have read. A page whose executed copy is of the
present sources is left as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync

from companion.store.paths import BUILD, ROOT
from companion.store.rows import digest
from companion.workflow import notebook, sources
from companion.workflow.sweep import read

SLOW = ("edit_file", "walk", "examples", "diagrams")  # which begin first
FORGET = """\
import gc, matplotlib.pyplot as plt
plt.close("all"), plt.rcdefaults()
get_ipython().reset(aggressive=False)
import gc
gc.collect()
del gc"""


def source_hash(page: str, others: str) -> str:
    """The hash of what a page shows: its notebook's code, all other sources, and rows."""
    cells = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    return digest([code, others])


def executed_from(page: str) -> str | None:
    """The hash of what the executed copy was made from; None if there is none."""
    path = BUILD / "notebooks" / f"{page}.ipynb"
    if not path.is_file():
        return None
    return nbformat.read(path, as_version=4).metadata.papermill.get("sources")


def work(todo: queue.SimpleQueue) -> None:
    """Executes pages in one kernel until none is left; empties the queue and raises if one fails,
    so that other kernels end, too."""
    kernel = AsyncKernelManager(kernel_name="python3")
    try:
        while True:
            page, made_from = todo.get_nowait()
            start, target = time.monotonic(), BUILD / "notebooks" / f"{page}.ipynb"
            source = ROOT / "notebooks" / f"{page}.ipynb"
            try:
                notebook.execute(source, target, {}, page, km=kernel, sources=made_from)
            except (ValueError, OSError, RuntimeError) as error:
                raise type(error)(f"{page}: {error}") from None
            client = kernel.client()
            client.start_channels()
            run_sync(client.wait_for_ready)(timeout=60)
            run_sync(client.execute_interactive)(FORGET, silent=True, store_history=False)
            client.stop_channels()
            print(f"{page}: finished in {time.monotonic() - start:.0f} s", flush=True)
    except queue.Empty:
        pass
    except BaseException:
        with contextlib.suppress(queue.Empty):
            while True:
                todo.get_nowait()
        raise
    finally:
        if kernel.has_kernel:
            run_sync(kernel.shutdown_kernel)(now=True)


def execute(pages: dict[str, str], kernels: int) -> None:
    """Executes pages, given with the hashes of their sources; raises what the first of them that
    fails does."""
    todo: queue.SimpleQueue = queue.SimpleQueue()
    for page in sorted(pages, key=lambda page: page not in SLOW):
        todo.put((page, pages[page]))
    with ThreadPoolExecutor(kernels) as pool:
        for future in [pool.submit(work, todo) for _ in range(kernels)]:
            future.result()


def main() -> None:
    """The command of the rule ``pages``."""
    parser = argparse.ArgumentParser(prog="python -m companion.workflow.pages")
    parser.add_argument("--cores", type=int, default=1, help="how many kernels")
    kernels = parser.parse_args().cores
    sweep, start = read("quick"), time.monotonic()
    made = [str(job.row) for job in sweep.jobs.values()]
    others = sources.content(sources.files([*sources.PAGES, *sources.RUNS]) + made)
    pages = {page: source_hash(page, others) for page in sweep.pages}
    pages = {
        page: made_from for page, made_from in pages.items() if executed_from(page) != made_from
    }
    try:
        execute(pages, kernels)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(str(error))
    print(f"pages: finished in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
