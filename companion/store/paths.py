"""Where the project's files lie: in a checkout, or beside the installed package.

Sources (params, data, paper, rows) are read from the checkout that holds this package, or from the
copies that ``pip install`` puts next to it. Products go to ``build`` in the checkout or, without
one, in the working directory.
"""

import contextlib
import fcntl
import functools
import os
from pathlib import Path

import yaml

from document_audit.files import one_sentence_errors

PACKAGES = Path(__file__).resolve().parents[2]  # the folder that holds revs/ and companion/
CHECKOUT = PACKAGES if (PACKAGES / "_toc.yml").is_file() else None
ROOT = CHECKOUT or PACKAGES / "companion" / "_project"
BUILD = (CHECKOUT or Path.cwd()) / "build"
LOGS, HTML = BUILD / "logs", BUILD / "_build" / "html"
CACHE = Path(os.environ.get("REVS_CACHE") or Path.home() / ".cache" / "revs")


@functools.cache
def params(name: str) -> dict:
    """What params/NAME.yml says. Shared by all who ask for it: do not change it."""
    return yaml.safe_load((ROOT / "params" / f"{name}.yml").read_text(encoding="utf-8"))


def resolve(path: str | os.PathLike) -> Path:
    """Return a path as given if it exists from here, else from the project's root, since notebooks
    run elsewhere. ValueError for an empty path, which would mean the current folder."""
    if not str(path):
        raise ValueError("A path is empty: give one that leads somewhere.")
    path = Path(os.path.expanduser(path))
    return path if path.is_absolute() or path.exists() else (CHECKOUT or Path.cwd()) / path


def short_path(path: Path) -> str:
    """A path as a person in the project's root would type it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def products(sweep: str) -> Path:
    """Return the folder for a sweep's rows and notebooks: build/ for quick, else build/record/."""
    return BUILD if sweep == "quick" else BUILD / "record"


@contextlib.contextmanager
def locked(file: Path, busy: Exception):
    """Lock a file until the block ends, however it ends, and yield its stream; raise ``busy`` if
    another process holds it, OSError if it cannot be written."""
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
    """Lock a folder of results, or one name in it, until the block ends, however it ends; OSError
    if another run holds it or it cannot be written to. A new folder left empty is removed."""
    new = not folder.exists()
    busy = OSError(f"Another run writes to {folder}: wait for it, or {remedy}.")
    with locked(folder / lock, busy):
        try:
            yield
        finally:
            if new and os.listdir(folder) == [lock]:
                (folder / lock).unlink()
                with contextlib.suppress(OSError):  # another run has begun
                    folder.rmdir()
