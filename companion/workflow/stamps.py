"""Stale or not is decided by content: a stamp is a hash of everything that a product is made from, never a file time.

Comments, docstrings and layout of the code, and the text of a notebook, change no stamp: the pages' text is taken
from the sources when the site is staged.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

import nbformat

from companion.record import rows
from companion.record.paths import resolve
from companion.runs import methods
from companion.workflow.paths import ROOT
from companion.workflow.profile import Job, Profile, known


def code(path: Path) -> list[str]:
    """The code cells of a notebook, without cell and line magics."""
    cells = nbformat.read(path, as_version=4).cells
    return [
        "\n".join("" if line.startswith(("%", "!")) else line for line in cell.source.splitlines())
        for cell in cells
        if cell.cell_type == "code"
    ]


def folder(path: Path, ending: str = "", leave_out: tuple[str, ...] = ()) -> str:
    """Hash of the names and contents of a folder's files (of those with this ending)."""
    hidden = ("__pycache__", ".ipynb_checkpoints")
    found = sorted(
        p
        for p in path.rglob(f"*{ending}")
        if p.is_file() and p.name not in leave_out and not set(hidden) & set(p.parts)
    )
    return rows.digest(
        {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}
    )


@functools.cache
def settings_and_data() -> dict[str, str]:
    """Hashes of what notebooks read: params (without the profiles, which name runs but do not change them), data, paper."""
    return {
        "params": folder(ROOT / "params", leave_out=tuple(f"{name}.yml" for name in known())),
        "data": folder(ROOT / "data"),
        "paper": rows.digest((ROOT / "paper" / "tables.json").read_bytes()),
    }


def notebook_stamp(
    notebook: Path,
    parameters: dict,
    upstream: list[str],
    modules: list[str],
    bookkeeping: bool = False,
    more=None,
) -> str:
    """Hash of a notebook's code, its parameters, the stamps before it, and the modules, settings and data that it uses.

    ``modules`` are used besides those that the notebook imports; ``bookkeeping`` adds the ones that show rows but do
    not change them, which matter to a page.
    """
    cells = code(notebook)
    hashes = rows.closure(*modules, *(name for cell in cells for name in rows.imports(cell)))
    if bookkeeping:
        hashes |= {name: rows.code_hash(name) for name in rows.BOOKKEEPING}
    trees = [ast.dump(ast.parse(cell)) for cell in cells]
    return rows.digest([trees, parameters, sorted(upstream), hashes, settings_and_data(), more])


def run_stamp(job: Job, upstream: list[str]) -> str:
    """The stamp of a heavy notebook's run; a data set of one's own is part of it."""
    own = resolve(job.settings["data"] if "data" in job.settings else job.settings["documents"])
    more = (
        rows.digest(own.read_bytes())
        if own.is_file()
        else folder(own)
        if "documents" in job.settings and own.is_dir()
        else None
    )
    method = [methods.method(job.settings["method"]).__name__] if "method" in job.settings else []
    modules = [f"companion.runs.{job.notebook}", *method]
    return notebook_stamp(
        ROOT / "notebooks" / f"{job.notebook}.ipynb", job.parameters, upstream, modules, more=more
    )


def page_stamp(page: str, upstream: list[str]) -> str:
    """The stamp of a light notebook, which reads the rows of all runs and the recorded ones and may use any method."""
    modules = [entry["module"] for entry in methods.registry().values() if "module" in entry]
    plan = [
        rows.digest((ROOT / "companion.workflow" / name).read_bytes())
        for name in ("estimate.py", "plan.py", "profile.py")
    ]  # companion.pages.scaling shows what they say
    return notebook_stamp(
        ROOT / "notebooks" / f"{page}.ipynb",
        {},
        upstream,
        modules,
        bookkeeping=True,
        more=[folder(ROOT / "rows"), plan],
    )


def book_stamp(upstream: list[str]) -> str:
    """The stamp of the book: its executed notebooks, the notebooks' text, the other pages and the configuration."""
    single = [
        rows.digest((ROOT / name).read_bytes())
        for name in ("_config.yml", "_toc.yml", "companion.workflow/site.py")
    ]
    return rows.digest(
        [upstream, folder(ROOT / "book"), folder(ROOT / "notebooks", ".ipynb"), single]
    )


def stamps(profile: Profile) -> dict[str, str]:
    """The stamp of every job and page of a profile, and that of the ``book``."""
    runs = {
        job.id: run_stamp(job, [run_stamp(other, []) for other in profile.upstream(job)])
        for job in profile.jobs.values()
    }
    pages = {page: page_stamp(page, list(runs.values())) for page in profile.pages}
    return runs | pages | ({"book": book_stamp(list((runs | pages).values()))} if pages else {})
