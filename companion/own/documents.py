"""Documents to search for secrets: a folder, a text file, JSON Lines, what a machine carries.

Nothing is lost silently: what cannot be read is counted by reason. A document is known by the hash
of its bytes, never by its name, which may itself hold a secret. The files of the Training Data
Extraction Challenge, which the paper searched (Appendix "Naturally Memorized Dataset"), are read
too; what a machine carries are licences, notices, metadata and headers of its packages' sources,
pinned by their versions, which a code model has read in many copies.
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
WIDE = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 begins
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

    Raises OSError if there is nothing at ``path``, ValueError if the challenge's files do not fit
    together or the tokenizer.
    """
    if str(path) == MACHINE:
        yield from machine(skipped)
        return
    folder = path.parent if path.name in CHALLENGE else path
    if all((folder / name).is_file() for name in CHALLENGE):
        yield from challenge(folder, tokenizer)
    elif path.is_dir():
        for file in files(path, skipped):
            yield from of_file(file, skipped)
    elif path.is_file():
        yield from of_file(path, skipped)
    else:
        raise FileNotFoundError(MISSING)


def noted(documents: Iterable[Document], sources: list[str]) -> Iterator[Document]:
    """The documents as they come, each noted by its hash."""
    for document in documents:
        sources.append(document.source)
        yield document


def unread(skipped: Counter) -> ValueError:
    """What to raise where no document could be read."""
    why = ", ".join(f"{n} {why}" for why, n in skipped.items()) or "nothing is there"
    return ValueError(
        f"No document could be read ({why}): give text files in UTF-8, or .jsonl files with "
        '"text" in each line.'
    )


def files(folder: Path, skipped: Counter) -> list[Path]:
    """Every file under a folder, in the order of their names; what is none is counted."""

    def closed(_: OSError) -> None:
        skipped["folders that cannot be opened"] += 1

    found = []
    for place, folders, names in os.walk(folder, onerror=closed):
        links = sum(Path(place, name).is_symlink() for name in folders)
        paths = [Path(place, name) for name in names]
        there = list(filter(os.path.isfile, paths))  # False, not an error, where it is closed
        found += there
        skipped.update({"links to a folder": links, "not a file": len(paths) - len(there)})
    for reason in [reason for reason, number in skipped.items() if not number]:
        del skipped[reason]
    return sorted(found)


def of_file(file: Path, skipped: Counter) -> Iterator[Document]:
    """The document in a file, unless it is empty, too large or no UTF-8; JSON Lines hold many."""
    if file.suffix.lower() == ".jsonl":
        yield from lines(file, skipped)
        return
    why, text = None, ""
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= HUGE else b""
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
    elif b"\0" in content and content[:2] not in WIDE:
        why = "binary"
    if why:
        skipped[why] += 1
    else:
        yield Document(hashlib.sha256(content).hexdigest(), text)


def lines(file: Path, skipped: Counter) -> Iterator[Document]:
    """The documents of a JSON Lines file: the key ``text`` of each line."""
    try:
        stream = file.open("rb")
    except OSError:
        skipped["unreadable"] += 1
        return
    with stream:
        if not os.fstat(stream.fileno()).st_size:
            skipped["empty"] += 1
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
        both = [np.load(folder / name, allow_pickle=False) for name in CHALLENGE]
    except (ValueError, EOFError):
        raise ValueError(
            f"The challenge's files {' and '.join(CHALLENGE)} cannot be read: take another copy."
        ) from None
    if any(ids.ndim != 2 or not ids.size for ids in both) or len(both[0]) != len(both[1]):
        raise ValueError(
            f"The challenge's files do not fit together: {both[0].shape} prefixes, "
            f"{both[1].shape} suffixes."
        )
    if any(not np.issubdtype(ids.dtype, np.integer) or ids.min() < 0 for ids in both):
        raise ValueError(
            "The challenge's files hold something else than token ids: take another copy."
        )
    if (
        tokenizer is None
        or max(ids.max() for ids in both) >= len(tokenizer)
        or tokenizer("hello world", add_special_tokens=False)["input_ids"] != HELLO
    ):
        raise ValueError(
            "The challenge's files are token ids of GPT-2's tokenizer: name one that has it, such "
            "as EleutherAI/gpt-j-6b, with challenge_tokenizer."
        )
    for parts in zip(*both, strict=True):
        ids = np.concatenate(parts)
        yield Document(hashlib.sha256(ids.tobytes()).hexdigest(), tokenizer.decode(ids.tolist()))


def machine(skipped: Counter) -> Iterator[Document]:
    """Every document of the Python packages, then of Debian's, by name; each text once."""
    seen: set[str] = set()
    for package, file in [*python_files(), *debian_files()]:
        for document in of_package(package, file, skipped):
            if document.source in seen:
                skipped["the same text again"] += 1
            else:
                seen.add(document.source)
                yield document


def of_package(package: str, file: Path, skipped: Counter) -> Iterator[Document]:
    """The document in a package's file; of source code its header only, known by that's hash."""
    try:
        if file.stat().st_size > LARGEST:
            skipped["large"] += 1
            return
    except OSError:
        skipped["unreadable"] += 1
        return
    for document in of_file(file, skipped):
        text = document.text[:HEAD] if file.suffix.lower() in SOURCES else document.text
        source = hashlib.sha256(text.encode()).hexdigest()
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
    versions = dict(line.split("=", 1) for line in listed)
    owner: dict[str, str] = {}
    for package in versions:
        for path in Path("/var/lib/dpkg/info").glob(f"{package}*.list"):
            if path.stem.split(":")[0] == package:
                text = path.read_text(encoding="utf-8", errors="replace")
                owner |= dict.fromkeys(text.splitlines(), package)
    below = (file for folder in DEBIAN for file in Path(folder).rglob("*"))
    return [
        (f"{owner[str(file)]}={versions[owner[str(file)]]}", file)
        for file in sorted(file for file in below if file.is_file() and not file.is_symlink())
        if wanted(file) and str(file) in owner
    ]
