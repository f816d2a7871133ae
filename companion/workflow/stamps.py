"""Stale or not is decided by content: a stamp is a hash of all that a product is made from.

File times, comments and layout of the code, and the text of a notebook, change no stamp: the pages'
text is taken from the sources when the site is staged.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

import nbformat

from companion.store import stamps
from companion.store.paths import ROOT, resolve
from companion.store.stamps import digest
from companion.workflow.profile import Job, Profile, known

HIDDEN = {"__pycache__", ".ipynb_checkpoints"}


def code(path: Path) -> list[str]:
    """The code cells of a notebook as syntax trees, without cell and line magics."""
    found = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            lines = ("" if line[:1] in ("%", "!") else line for line in cell.source.splitlines())
            found.append(ast.dump(ast.parse("\n".join(lines))))
    return found


def folder(path: Path, ending: str = "", leave_out: tuple[str, ...] = ()) -> str:
    """Hash of the names and contents of a folder's files (of those with this ending)."""
    found = {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob(f"*{ending}")
        if file.is_file() and file.name not in leave_out and not HIDDEN & set(file.parts)
    }
    return digest(found)


@functools.cache
def settings_and_data() -> list[str]:
    """Hashes of what notebooks read: params (profiles only name runs), data, paper."""
    profiles = tuple(f"{name}.yml" for name in known())
    return [
        folder(ROOT / "params", leave_out=profiles),
        folder(ROOT / "data"),
        digest((ROOT / "paper" / "tables.json").read_bytes()),
    ]


@functools.cache
def sources() -> str:
    """Hash of all of the project's code, which any page may use, and of the recorded rows."""
    files = sorted(file for name in ("revs", "companion") for file in (ROOT / name).rglob("*.py"))
    trees = {str(file): ast.dump(ast.parse(file.read_text(encoding="utf-8"))) for file in files}
    return digest([trees, folder(ROOT / "rows")])


def run_stamp(job: Job, upstream: list[Job]) -> str:
    """The stamp of a heavy notebook's run; a data set or documents of one's own are part of it.

    A file that a run before it makes is not, for it is there from the second build on only: the
    stamp of that run stands for it.
    """
    settings, more = job.settings, None
    own = resolve(settings.get("data") or settings["documents"])
    if not any(other.notebook == "curate" for other in upstream):
        more = digest(own.read_bytes()) if own.is_file() else folder(own) if own.is_dir() else None
    cells = code(ROOT / "notebooks" / f"{job.notebook}.ipynb")
    reached = stamps.reached(*stamps.entries(job.notebook, settings))
    before = sorted(run_stamp(other, []) for other in upstream)
    return digest([cells, job.parameters, before, reached, settings_and_data(), more])


def page_stamp(page: str, upstream: list[str]) -> str:
    """The stamp of a light notebook, which may read all rows and call any code."""
    cells = code(ROOT / "notebooks" / f"{page}.ipynb")
    return digest([cells, sorted(upstream), sources(), settings_and_data()])


def book_stamp(upstream: list[str]) -> str:
    """The stamp of the book: executed notebooks, their text, the other pages, the configuration."""
    single = [digest((ROOT / name).read_bytes()) for name in ("_config.yml", "_toc.yml")]
    texts = [folder(ROOT / "book"), folder(ROOT / "notebooks", ".ipynb")]
    return digest([upstream, texts, single, sources()])


def of(profile: Profile) -> dict[str, str]:
    """The stamp of every job and page of a profile, and that of the ``book``."""
    runs = {job.id: run_stamp(job, profile.upstream(job)) for job in profile.jobs.values()}
    pages = {page: page_stamp(page, list(runs.values())) for page in profile.pages}
    return runs | pages | ({"book": book_stamp(list((runs | pages).values()))} if pages else {})
