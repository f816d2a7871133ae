"""Executes the light notebooks, several in each kernel: slow imports and rows are loaded once.

Between notebooks a kernel forgets every name, and each notebook begins as in a new kernel; imported
modules and the rows that they have read stay. A page whose executed copy was made from the current
sources is skipped.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from companion.store.paths import BUILD, ROOT
from companion.store.rows import digest
from companion.workflow import notebook, sources
from companion.workflow.sweep import read

# these begin first
SLOW = ("write", "measures", "edit_file", "ban", "algorithm", "one_neuron", "problem", "choosing")
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


def execute(pages: dict[str, str], kernels: int) -> None:
    """Execute pages, given with the hashes of their sources, in so many kernels. After a failure
    no further page begins, and the error is raised."""
    order = iter(sorted(pages, key=lambda page: page not in SLOW))  # the kernels share it

    def run() -> None:
        kernel = AsyncKernelManager(kernel_name="python3")
        try:
            for page in order:
                execute_page(page, pages[page], kernel)
        finally:
            list(order)  # of a failure: what is left
            if kernel.has_kernel:
                run_sync(kernel.shutdown_kernel)(now=True)

    with ThreadPoolExecutor(kernels) as pool:
        for done in [pool.submit(run) for _ in range(kernels)]:
            done.result()


def execute_page(page: str, made_from: str, kernel: AsyncKernelManager) -> None:
    """Execute a page in a kernel, which forgets it afterwards."""
    start = time.monotonic()
    source, target = (folder / "notebooks" / f"{page}.ipynb" for folder in (ROOT, BUILD))
    try:
        notebook.execute(source, target, {}, page, km=kernel, sources=made_from)
    except (ValueError, OSError, RuntimeError) as error:
        raise type(error)(f"{page}: {error}") from None
    try:
        forget(kernel)
    except RuntimeError:
        raise RuntimeError(f"{page}: {notebook.KILLED}") from None
    print(f"{page}: finished in {time.monotonic() - start:.0f} s", flush=True)


def forget(kernel: AsyncKernelManager) -> None:
    """Make a kernel forget its names. RuntimeError if it is killed meanwhile."""
    cell = nbformat.v4.new_code_cell(FORGET)
    client = NotebookClient(nbformat.v4.new_notebook(cells=[cell]), km=kernel)
    with client.setup_kernel():
        client.execute_cell(cell, 0, store_history=False)
    client.kc.stop_channels()


def main() -> None:
    """The command of the rule ``pages``."""
    parser = argparse.ArgumentParser(prog="python -m companion.workflow.pages")
    parser.add_argument("--cores", type=int, default=1, help="how many kernels")
    kernels = parser.parse_args().cores
    # with more, kernels would wait for one another; Snakemake sets MKL's own
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    sweep, start = read("quick"), time.monotonic()
    made = [str(job.row) for job in sweep.jobs.values()]
    others = sources.content_hash(sources.files([*sources.PAGES, *sources.RUNS]) + made)
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
