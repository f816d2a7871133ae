"""Texts that this machine carries anyway: what its Python packages and Debian packages say of their authors.

Licences, notices, package metadata and the headers of source files are what a code model has read in many copies. The
packages are pinned by their versions, and a document by its hash, so that a finding can be looked up again without
being written down.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from companion.own.documents import Document, of_file

LARGEST = 400_000  # bytes of a file: larger ones are data
HEAD = 6000  # characters of a source file that are read: its header
SOURCES = (
    ".c",
    ".cc",
    ".cpp",
    ".cu",
    ".cuh",
    ".h",
    ".hh",
    ".hpp",
    ".js",
    ".m",
    ".pl",
    ".py",
    ".pyi",
    ".pyx",
    ".pxd",
    ".r",
    ".sh",
    ".tcl",
)
TEXTS = ("", ".cfg", ".md", ".rst", ".tex", ".toml", ".txt")
NAMES = (
    "AUTHORS",
    "CHANGES",
    "CONTRIBUTORS",
    "COPYING",
    "CREDITS",
    "INSTALLER",
    "LICENCE",
    "LICENSE",
    "METADATA",
    "NOTICE",
    "README",
    "THANKS",
    "copyright",
    "changelog",
)
DEBIAN = (
    Path("/usr/share/doc"),
    Path("/usr/include"),
    Path("/usr/share/perl"),
    Path("/usr/share/perl5"),
    Path("/usr/lib/python3"),
)


def machine(skipped: Counter) -> Iterator[Document]:
    """Every document of the installed Python packages, then of Debian's, in the order of their names; each text once."""
    seen: set[str] = set()
    for package, file in [*python_files(), *debian_files()]:
        for document in of_package(package, file, skipped):
            if document.source in seen:
                skipped["the same text again"] += 1
            else:
                seen.add(document.source)
                yield document


def of_package(package: str, file: Path, skipped: Counter) -> Iterator[Document]:
    """The document in a package's file; of source code its header only, known by the header's hash."""
    try:
        if file.stat().st_size > LARGEST:
            skipped["large"] += 1
            return
    except OSError:
        skipped["unreadable"] += 1
        return
    for document in of_file(file, skipped):
        text = document.text[:HEAD] if file.suffix.lower() in SOURCES else document.text
        yield replace(
            document, source=hashlib.sha256(text.encode()).hexdigest(), text=text, package=package
        )


def wanted(file: Path) -> bool:
    """A text of the sorts that name people: sources, and documents about a package."""
    return file.suffix.lower() in SOURCES or file.suffix.lower() in TEXTS or file.stem in NAMES


def python_files() -> list[tuple[str, Path]]:
    """(name==version, file) of the installed distributions, in the order of their names."""
    found = []
    for distribution in sorted(
        importlib.metadata.distributions(), key=lambda one: (one.metadata["Name"] or "").lower()
    ):
        package = f"{distribution.metadata['Name']}=={distribution.version}"
        found += [
            (package, Path(file.locate()))
            for file in sorted(distribution.files or [], key=str)
            if wanted(Path(file)) and not str(file).startswith("..")
        ]
    return found


def debian_files() -> list[tuple[str, Path]]:
    """(package=version, file) under Debian's folders, in the order of their paths; none where there is no dpkg."""
    try:
        listed = subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${Package}=${Version}\n"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    versions = dict(line.split("=", 1) for line in listed)
    owner: dict[str, str] = {}
    for package in versions:
        for path in Path("/var/lib/dpkg/info").glob(f"{package}*.list"):
            if path.stem.split(":")[0] == package:
                owner |= dict.fromkeys(
                    path.read_text(encoding="utf-8", errors="replace").splitlines(), package
                )
    files = sorted(
        file
        for folder in DEBIAN
        if folder.is_dir()
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink() and wanted(file)
    )
    return [
        (f"{owner[str(file)]}={versions[owner[str(file)]]}", file)
        for file in files
        if str(file) in owner
    ]
