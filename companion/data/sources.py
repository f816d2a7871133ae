"""Reads public documents: the texts in this machine's packages, and the Training Data Extraction
Challenge, which the paper searched (Appendix "Naturally Memorized Dataset").

Packages contain licences, notices, metadata and source headers; their versions fix the texts.
"""

import hashlib
import importlib.metadata
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from document_audit.documents import Document, documents_of

PACKAGES = "machine"  # given as a path: the texts in this machine's packages
CHALLENGE = ("train_prefix.npy", "train_suffix.npy")  # token ids, documents × tokens
HELLO = [31373, 995]  # "hello world" in GPT-2's tokens
LARGEST = 400_000  # bytes of a file of a package: larger ones are data
HEAD = 6000  # characters of a source file that are read: its header
SOURCES = ".c .cc .cpp .cu .cuh .h .hh .hpp .js .m .pl .py .pyi .pyx .pxd .r .sh .tcl".split()
TEXTS = ["", ".cfg", ".md", ".rst", ".tex", ".toml", ".txt"]
NAMES = "AUTHORS CHANGES CONTRIBUTORS COPYING CREDITS INSTALLER LICENCE LICENSE METADATA".split()
NAMES += "NOTICE README THANKS copyright changelog".split()
DEBIAN = "/usr/share/doc /usr/include /usr/share/perl /usr/share/perl5 /usr/lib/python3".split()


def challenge_folder(path: Path) -> Path | None:
    """The folder with the challenge's files, if the path is it or one of them."""
    folder = path.parent if path.name in CHALLENGE else path
    return folder if all((folder / name).is_file() for name in CHALLENGE) else None


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
            "something other than token ids: take another copy."
        ) from None
    hello = tokenizer and tokenizer("hello world", add_special_tokens=False)["input_ids"]
    if hello != HELLO or ids.max() >= len(tokenizer):
        raise ValueError(
            "The challenge's files are token ids of GPT-2's tokenizer: name one that has it, such "
            "as EleutherAI/gpt-j-6b, with challenge_tokenizer."
        )
    for text in ids:
        yield Document(hashlib.sha256(text.tobytes()).hexdigest(), tokenizer.decode(text.tolist()))


def package_documents(skipped: Counter) -> Iterator[Document]:
    """Yield every document of the Python packages, then of Debian's, by name; each text once.

    For source code a document is the file's header only, identified by the header's hash.
    """
    seen: set[str] = set()
    for package, file in [*python_files(), *debian_files()]:
        try:
            large = file.stat().st_size > LARGEST
        except OSError:
            large = False  # documents_of counts unreadable files
        skipped.update(["large"] if large else [])
        for document in () if large else documents_of(file, skipped):
            text = document.text[:HEAD] if file.suffix.lower() in SOURCES else document.text
            source = hashlib.sha256(text.encode()).hexdigest()
            if source in seen:
                skipped["the same text again"] += 1
            else:
                seen.add(source)
                yield replace(document, source=source, text=text, package=package)


def is_about_people(file: Path) -> bool:
    """Is this a file that may name people: source code, or a document about its package?"""
    return file.suffix.lower() in [*SOURCES, *TEXTS] or file.stem in NAMES


def python_files() -> list[tuple[str, Path]]:
    """(name==version, file) of the installed distributions, in the order of their names."""
    distributions = importlib.metadata.distributions()
    return [
        (f"{one.metadata['Name']}=={one.version}", Path(file.locate()))
        for one in sorted(distributions, key=lambda one: (one.metadata["Name"] or "").lower())
        for file in sorted(one.files or [], key=str)
        if is_about_people(Path(file)) and not str(file).startswith("..")
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
    below = (file for folder in DEBIAN for file in Path(folder).rglob("*") if is_about_people(file))
    return [
        (owner[str(file)], file)
        for file in sorted(file for file in below if str(file) in owner)
        if file.is_file() and not file.is_symlink()
    ]
