"""Documents to search for secrets: a folder, a text file, JSON Lines, or the files of the Training Data Extraction Challenge.

Nothing is lost silently: what cannot be read is counted by reason. A document is known by the hash of its bytes, never by
its name, which may itself hold a secret.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HUGE = 50_000_000  # bytes of a file that is still read
TOO_LARGE = f"larger than {HUGE // 1_000_000} MB"
WIDE = (b"\xff\xfe", b"\xfe\xff")  # how UTF-16 begins
MACHINE = "machine"  # instead of a path: what this machine carries (companion.own.corpus)
HELLO = [31373, 995]  # "hello world" in GPT-2's tokens
CHALLENGE = ("train_prefix.npy", "train_suffix.npy")  # token ids, documents × tokens


@dataclass(frozen=True)
class Document:
    """A text, the sha256 of the bytes or of the line that it came from, and the package that carries it, if one does."""

    source: str
    text: str
    package: str = ""


def read(path: Path | str, skipped: Counter, tokenizer=None) -> Iterator[Document]:
    """The documents under ``path``, in a fixed order; ``skipped`` counts by reason what is none.

    Raises OSError if there is nothing at ``path``, ValueError if the challenge's files do not fit together or the tokenizer.
    """
    if str(path) == MACHINE:
        from companion.own.corpus import machine

        yield from machine(skipped)
    elif all(
        ((folder := path.parent if path.name in CHALLENGE else path) / name).is_file()
        for name in CHALLENGE
    ):
        yield from challenge(folder, tokenizer)
    elif path.is_dir():
        for file in files(path, skipped):
            yield from of_file(file, skipped)
    elif path.is_file():
        yield from of_file(path, skipped)
    else:
        raise missing()


def counted(documents: Iterable[Document], sources: Counter) -> Iterator[Document]:
    """The documents as they come, each noted by its hash."""
    for document in documents:
        sources[document.source] += 1
        yield document


def missing() -> FileNotFoundError:
    """What to raise where there is nothing at a path, which is not named: it may hold a secret."""
    return FileNotFoundError(
        "There are no documents at the path given: name a folder, a text file, a .jsonl file, or a folder with "
        + " and ".join(CHALLENGE)
        + "."
    )


def unread(skipped: Counter) -> ValueError:
    """What to raise where no document could be read."""
    return ValueError(
        f'No document could be read ({", ".join(f"{n} {why}" for why, n in skipped.items()) or "nothing is there"}): give text files in UTF-8, or .jsonl files with "text" in each line.'
    )


def files(folder: Path, skipped: Counter) -> list[Path]:
    """Every file under a folder, in the order of their names; folders that may not be opened, links to folders and to nothing, and what is no file are counted."""

    def closed(_: OSError) -> None:
        skipped["folders that cannot be opened"] += 1

    found = []
    for place, folders, names in os.walk(folder, onerror=closed):
        skipped["links to a folder"] += sum(Path(place, name).is_symlink() for name in folders)
        for path in (Path(place, name) for name in names):
            if os.path.isfile(path):  # False, not an error, where a folder on the way is closed
                found.append(path)
            else:
                skipped["not a file"] += 1
    for reason in [reason for reason, number in skipped.items() if not number]:
        del skipped[reason]
    return sorted(found)


def of_file(file: Path, skipped: Counter) -> Iterator[Document]:
    """The document in one file, unless it is empty, too large, binary or not UTF-8; of JSON Lines one from each line."""
    if file.suffix.lower() == ".jsonl":
        yield from lines(file, skipped)
        return
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= HUGE else b""
    except OSError:
        skipped["unreadable"] += 1
        return
    reason = (
        "empty"
        if not size
        else TOO_LARGE
        if size > HUGE
        else "not UTF-8"
        if content[:2] in WIDE
        else "binary"
        if b"\0" in content
        else None
    )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        reason = reason or "not UTF-8"
    if reason:
        skipped[reason] += 1
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
    """The challenge's prefixes with their suffixes, decoded; they are ids of GPT-Neo's tokenizer, which is GPT-2's and GPT-J's."""
    try:
        prefixes, suffixes = (np.load(folder / name, allow_pickle=False) for name in CHALLENGE)
    except (ValueError, EOFError):
        raise ValueError(
            f"The challenge's files {' and '.join(CHALLENGE)} cannot be read: take another copy."
        ) from None
    if (
        prefixes.ndim != 2
        or suffixes.ndim != 2
        or len(prefixes) != len(suffixes)
        or not prefixes.size
        or not suffixes.size
    ):
        raise ValueError(
            f"The challenge's files do not fit together: {prefixes.shape} prefixes, {suffixes.shape} suffixes."
        )
    if any(
        not np.issubdtype(ids.dtype, np.integer) or ids.min() < 0 for ids in (prefixes, suffixes)
    ):
        raise ValueError(
            "The challenge's files hold something else than token ids: take another copy."
        )
    if (
        tokenizer is None
        or max(prefixes.max(), suffixes.max()) >= len(tokenizer)
        or tokenizer("hello world", add_special_tokens=False)["input_ids"] != HELLO
    ):
        raise ValueError(
            "The challenge's files are token ids of GPT-2's tokenizer: name one that has it, such as EleutherAI/gpt-j-6b, with challenge_tokenizer."
        )
    for prefix, suffix in zip(prefixes, suffixes):
        ids = np.concatenate([prefix, suffix])
        yield Document(hashlib.sha256(ids.tobytes()).hexdigest(), tokenizer.decode(ids.tolist()))
