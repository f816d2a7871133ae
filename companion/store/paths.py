"""Where the project's files lie: in a checkout, or beside the installed package.

Sources (params, data, paper, rows) are read from the checkout that holds this package, or from the
copies that ``pip install`` puts next to it. Products go to ``build`` in the checkout, or in the
working directory without one.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from document_audit.files import one_sentence_errors

PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds revs/ and companion/
CHECKOUT = PACKAGES if (PACKAGES / "_toc.yml").is_file() else None
ROOT = CHECKOUT or PACKAGES / "companion" / "_project"
BUILD = (CHECKOUT or Path.cwd()) / "build"
LOGS, HTML = BUILD / "logs", BUILD / "_build" / "html"
CACHE = Path(os.environ.get("REVS_CACHE") or Path.home() / ".cache" / "revs")


def resolve(path: str | os.PathLike) -> Path:
    """A path as given if it exists from here, else the same path from the project's root, since
    notebooks run elsewhere. ValueError for an empty one, which would be the folder here."""
    if not str(path):
        raise ValueError("A path is empty: give one that leads somewhere.")
    path = Path(path).expanduser()
    return path if path.is_absolute() or path.exists() else (CHECKOUT or Path.cwd()) / path


def short_path(path: Path) -> str:
    """A path as a person in the project's root would type it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def products(sweep: str) -> Path:
    """The folder of a sweep's rows and executed notebooks: quick and long ones lie apart."""
    return BUILD if sweep == "quick" else BUILD / "record"


@contextlib.contextmanager
def locked(file: Path, busy: Exception):
    """Holds a file until the end, however that comes, and gives its stream; raises ``busy`` if
    another process does, OSError if it cannot be written."""
    with one_sentence_errors(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = file.open("w")
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield stream


@contextlib.contextmanager
def alone(folder: Path, remedy: str, lock: str = ".lock"):
    """Holds a folder of results, or one name in it, until the end, however that comes; OSError if
    another run does, or it cannot be written to. A new folder in which nothing was written goes."""
    new = not folder.exists()
    try:
        with locked(
            folder / lock, OSError(f"Another run writes to {folder}: wait for it, or {remedy}.")
        ):
            yield
    finally:
        if new and folder.is_dir() and os.listdir(folder) == [lock]:
            (folder / lock).unlink()
            folder.rmdir()
