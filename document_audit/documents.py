"""Documents to search for secrets: a folder, a text file, JSON Lines, what a machine carries.

What cannot be read is counted by reason. A document is known by the hash of its bytes, never by its
name, which may itself hold a secret. The Training Data Extraction Challenge, which the paper
searched (Appendix "Naturally Memorized Dataset"), is read too; what a machine carries are licences,
notices, metadata and headers of its packages' sources, pinned by their versions.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

HUGE = 50_000_000  # bytes of a file that is still read
CHALLENGE = ("train_prefix.npy", "train_suffix.npy")  # token ids, documents × tokens
HELLO = [31373, 995]  # "hello world" in GPT-2's tokens
MISSING = (
    "There are no documents at the path given: name a folder, a text file, a .jsonl file, or a "
    f"folder with {' and '.join(CHALLENGE)}."  # the path may hold a secret
)

MACHINE = "machine"  # instead of a path: what this machine's packages carry
LARGEST = 400_000  # bytes of a file there: larger ones are data
HEAD = 6000  # characters of a source file there that are read: its header
SOURCES = ".c .cc .cpp .cu .cuh .h .hh .hpp .js .m .pl .py .pyi .pyx .pxd .r .sh .tcl".split()
TEXTS = ["", ".cfg", ".md", ".rst", ".tex", ".toml", ".txt"]
NAMES = "AUTHORS CHANGES CONTRIBUTORS COPYING CREDITS INSTALLER LICENCE LICENSE METADATA".split()
NAMES += "NOTICE README THANKS copyright changelog".split()
DEBIAN = "/usr/share/doc /usr/include /usr/share/perl /usr/share/perl5 /usr/lib/python3".split()


@dataclass(frozen=True)
class Document:
    """A text, the sha256 of what it came from, and the package that carries it, if one does."""

    source: str
    text: str
    package: str = ""


def read(path: Path | str, skipped: Counter, tokenizer=None) -> Iterator[Document]:
    """The documents under ``path``, in a fixed order; ``skipped`` counts by reason what is none.

    Raises OSError if there is nothing, ValueError for damaged files of the challenge.
    """
    if str(path) == MACHINE:
        yield from machine(skipped)
        return
    folder = path.parent if path.name in CHALLENGE else path
    if all((folder / name).is_file() for name in CHALLENGE):
        yield from challenge(folder, tokenizer)
    elif path.is_dir() or path.is_file():
        for file in files(path, skipped) if path.is_dir() else [path]:
            yield from of_file(file, skipped)
    else:
        raise FileNotFoundError(MISSING)


def with_sources_noted(documents: Iterable[Document], sources: list[str]) -> Iterator[Document]:
    """The documents as they come; the hash of each is added to ``sources``."""
    for document in documents:
        sources.append(document.source)
        yield document


def nothing_read_error(skipped: Counter) -> ValueError:
    """The error of a run in which no document could be read."""
    why = ", ".join(f"{n} {why}" for why, n in skipped.items()) or "nothing is there"
    return ValueError(
        f"No document could be read ({why}): give text files in UTF-8, or .jsonl files with "
        '"text" in each line.'
    )


def files(folder: Path, skipped: Counter) -> list[Path]:
    """Every file under a folder, in the order of their names; what is none is counted."""
    found, seen, closed = [], Counter(), []
    for place, folders, names in os.walk(folder, onerror=closed.append):
        paths = [Path(place, name) for name in names]
        there = list(filter(os.path.isfile, paths))  # False, not an error, where it is closed
        found += there
        seen["links to a folder"] += sum(Path(place, name).is_symlink() for name in folders)
        seen["not a file"] += len(paths) - len(there)
    seen["folders that cannot be opened"] = len(closed)
    skipped.update(+seen)
    return sorted(found)


def of_file(file: Path, skipped: Counter) -> Iterator[Document]:
    """The document in a file, unless it is empty, too large or no UTF-8; JSON Lines hold many."""
    why, text = None, ""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            if file.suffix.lower() == ".jsonl" and size:
                yield from lines(stream, skipped)
                return
            content = stream.read() if size <= HUGE else b""
        text = content.decode("utf-8-sig")
    except OSError:
        skipped["unreadable"] += 1
        return
    except UnicodeDecodeError:
        why = "not UTF-8"
    if not size:
        why = "empty"
    elif size > HUGE:
        why = f"larger than {HUGE // 1_000_000} MB"
    elif b"\0" in content and content[:2] not in (b"\xff\xfe", b"\xfe\xff"):  # that is UTF-16
        why = "binary"
    if why:
        skipped[why] += 1
    else:
        yield Document(hashlib.sha256(content).hexdigest(), text)


def lines(stream: Iterable[bytes], skipped: Counter) -> Iterator[Document]:
    """The documents of a JSON Lines file: the key ``text`` of each line."""
    for line in stream:
        try:
            text = json.loads(line)["text"]
            text.encode()  # half a character, which JSON can write, is no text
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = None
        if not isinstance(text, str) or not text:
            skipped["no text in the line"] += 1
        else:
            yield Document(hashlib.sha256(line).hexdigest(), text)


def challenge(folder: Path, tokenizer) -> Iterator[Document]:
    """The challenge's prefixes with their suffixes, decoded; they are ids of GPT-2's tokenizer."""
    try:
        parts = [np.load(folder / name, allow_pickle=False) for name in CHALLENGE]
        ids = np.hstack(parts)
        whole = ids.ndim == 2 and np.issubdtype(ids.dtype, np.integer)
        if not whole or not min(part.size for part in parts) or ids.min() < 0:
            raise ValueError
    except (ValueError, EOFError):
        raise ValueError(
            f"The challenge's files {' and '.join(CHALLENGE)} do not fit together, or hold "
            "something else than token ids: take another copy."
        ) from None
    hello = tokenizer and tokenizer("hello world", add_special_tokens=False)["input_ids"]
    if hello != HELLO or ids.max() >= len(tokenizer):
        raise ValueError(
            "The challenge's files are token ids of GPT-2's tokenizer: name one that has it, such "
            "as EleutherAI/gpt-j-6b, with challenge_tokenizer."
        )
    for text in ids:
        yield Document(hashlib.sha256(text.tobytes()).hexdigest(), tokenizer.decode(text.tolist()))


def machine(skipped: Counter) -> Iterator[Document]:
    """Every document of the Python packages, then of Debian's, by name; each text once.

    Of source code it is the header only, known by that's hash.
    """
    seen: set[str] = set()
    for package, file in [*python_files(), *debian_files()]:
        try:
            large = file.stat().st_size > LARGEST
        except OSError:
            large = False  # and unreadable, which is counted
        skipped.update(["large"] if large else [])
        for document in () if large else of_file(file, skipped):
            text = document.text[:HEAD] if file.suffix.lower() in SOURCES else document.text
            source = hashlib.sha256(text.encode()).hexdigest()
            if source in seen:
                skipped["the same text again"] += 1
            else:
                seen.add(source)
                yield replace(document, source=source, text=text, package=package)


def wanted(file: Path) -> bool:
    """A text of the sorts that name people: sources, and documents about a package."""
    return file.suffix.lower() in [*SOURCES, *TEXTS] or file.stem in NAMES


def python_files() -> list[tuple[str, Path]]:
    """(name==version, file) of the installed distributions, in the order of their names."""
    distributions = importlib.metadata.distributions()
    return [
        (f"{one.metadata['Name']}=={one.version}", Path(file.locate()))
        for one in sorted(distributions, key=lambda one: (one.metadata["Name"] or "").lower())
        for file in sorted(one.files or [], key=str)
        if wanted(Path(file)) and not str(file).startswith("..")
    ]


def debian_files() -> list[tuple[str, Path]]:
    """(package=version, file) under Debian's folders, by path; none where there is no dpkg."""
    query = ["dpkg-query", "--show", "--showformat", "${Package}=${Version}\n"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    versions, owner = {line.split("=", 1)[0]: line for line in listed}, {}
    for listing in sorted(Path("/var/lib/dpkg/info").glob("*.list")):
        if (package := listing.stem.split(":")[0]) in versions:
            text = listing.read_text(encoding="utf-8", errors="replace")
            owner |= dict.fromkeys(text.splitlines(), versions[package])
    below = (file for folder in DEBIAN for file in Path(folder).rglob("*") if wanted(file))
    return [
        (owner[str(file)], file)
        for file in sorted(file for file in below if str(file) in owner)
        if file.is_file() and not file.is_symlink()
    ]
