"""Writing files whole or not at all, and errors of the system as one sentence."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o600  # for the owner alone
FULL = (errno.ENOSPC, errno.EDQUOT)  # the disk, or a quota on it
REFUSED = (*FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT)
REFUSED += (errno.ENOTDIR, errno.EEXIST)


def write_file(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file whole or not at all; at no time can anyone whom ``mode`` leaves out read it.
    Lone surrogates, which a folder's name may hold, become question marks."""
    with one_sentence_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                text = isinstance(content, str)
                stream.write(content.encode(errors="replace") if text else content)
            os.chmod(scratch, mode)
            os.replace(scratch, path)
        except BaseException:
            os.unlink(scratch)
            raise


@contextlib.contextmanager
def one_sentence_errors(folder: Path) -> Iterator[None]:
    """A full disk, and a folder that may not be written to, as an OSError with one sentence."""
    try:
        yield
    except Exception as error:  # safetensors has a class of its own for what the system says
        said = [code for code in REFUSED if os.strerror(code) in str(error)]
        if not said:
            raise
        if said[0] in FULL:
            message = f"The disk, or your quota, is full at {folder}: make room, or name another."
        elif said[0] in (errno.ENOTDIR, errno.EEXIST):
            message = f"{folder} is a file, or lies in one: name a folder."
        else:
            message = f"{folder} cannot be written to: allow it, or name another folder."
        raise OSError(message) from None


@contextlib.contextmanager
def errors_without_paths() -> Iterator[None]:
    """An error of the system, which would name a path, as one that does not."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename is None:
            raise
        raise OSError(
            "The documents cannot be read: give the path of a folder or a file that is there and "
            "that you may open."
        ) from None
