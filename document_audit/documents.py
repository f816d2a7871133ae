"""Documents to search for secrets: a folder or a file of text, JSON, tables, mails, web pages.

Texts inside another format are decoded before anything is looked for, and records are documents of
their own. What cannot be read is counted by reason. A document is known by the hash of its bytes,
never by its name, which may itself hold a secret.
"""

import contextlib
import csv
import email.policy
import hashlib
import html
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HUGE = 50_000_000  # bytes of a file that is still read
MAILS = (".eml", ".mbox")
WORDS = 5  # of a text inside another format that is a document of its own
BYTE_ORDERS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
CLOSED = (b"%PDF", b"{\\rtf", b"PK\3\4")  # what begins so has its text in another format
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[\"\\/bfnrt])")


@dataclass(frozen=True)
class Document:
    """A text, the sha256 of what it came from, and the package that carries it, if one does."""

    source: str
    text: str
    package: str = ""


def read(path: Path, skipped: Counter) -> Iterator[Document]:
    """Yield the documents under ``path``, in a fixed order; ``skipped`` counts others by reason."""
    for file in files(path, skipped) if path.is_dir() else [path]:
        yield from documents_of(file, skipped)


def with_sources_noted(documents: Iterable[Document], sources: list[str]) -> Iterator[Document]:
    """The documents as they come; the hash of each is added to ``sources``."""
    for document in documents:
        sources.append(document.source)
        yield document


def nothing_read_error(skipped: Counter) -> ValueError:
    """The error of a run in which no document could be read."""
    why = ", ".join(f"{n} {why}" for why, n in skipped.items()) or "nothing is there"
    return ValueError(
        f"No document could be read ({why}): give text files in UTF-8, or .json, .jsonl, .csv, "
        ".eml or .html files; of other formats save the text."
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


def documents_of(file: Path, skipped: Counter) -> Iterator[Document]:
    """The documents in a file, unless it is empty, too large or no text."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            if file.suffix.lower() == ".jsonl" and size:
                yield from json_lines(stream, skipped)
                return
            content = stream.read() if size <= HUGE else b""
        encoding = BYTE_ORDERS.get(content[:2], "utf-8-sig")
        errors = "surrogateescape" if file.suffix.lower() in MAILS else "strict"
        text = content.decode(encoding, errors)  # each mail says itself how it is encoded
    except OSError:
        skipped["unreadable"] += 1
        return
    except UnicodeDecodeError:
        text = None
    wrong = {"empty": not size, f"larger than {HUGE // 1_000_000} MB": size > HUGE}
    wrong |= {"PDF, RTF, Office or zip": content.startswith(CLOSED)}
    wrong |= {"binary": b"\0" in content if text is None else "\0" in text}
    if why := [one for one, there in (wrong | {"not UTF-8": text is None}).items() if there]:
        skipped[why[0]] += 1
        return
    json_like = text.lstrip()[:1] in ("{", "[")  # JSON, whatever the file is called
    decode = FORMATS.get(file.suffix.lower(), json_texts if json_like else lambda text: [text])
    try:
        texts = [plain(one) for one in decode(text) if one.strip()]
    except Exception:  # not what its name says, or Python's parser of mails fails: a text
        texts = [plain(text)]
    skipped.update([] if texts else ["empty"])
    for one in texts:
        of = content if len(texts) == 1 else one.encode()
        yield Document(hashlib.sha256(of).hexdigest(), one)


def plain(text: str) -> str:
    """A text with line ends as in training data, wherever it was saved, and without half characters
    (lone surrogates), which JSON can encode but no tokenizer reads."""
    return text.encode(errors="replace").decode().replace("\r\n", "\n").replace("\r", "\n")


def json_lines(stream: Iterable[bytes], skipped: Counter) -> Iterator[Document]:
    """The documents of a JSON Lines file: the key ``text`` of each line, else all texts in it."""
    for line in stream:
        texts, why = [], "no text in the line"
        try:
            text = line.decode("utf-8-sig")
            value = json.loads(text)
            there = isinstance(value, dict) and "text" in value
            texts = [value["text"]] if there else json_texts(text)
            texts = [one for one in map(plain, texts) if re.search(r"\w", one)]
        except UnicodeDecodeError:
            why = "not UTF-8"
        except (ValueError, TypeError, AttributeError, RecursionError):
            texts = []
        skipped.update([] if texts else [why])
        for one in texts:
            yield Document(hashlib.sha256(line if there else one.encode()).hexdigest(), one)


def json_texts(text: str) -> list[str]:
    """The texts inside JSON, or JSON in every line, and what is left of it, without escapes."""
    found: list[str] = []

    def short(value):
        if isinstance(value, dict):
            return {key: short(one) for key, one in value.items()}
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            if all(one.endswith("\n") for one in value[:-1]):  # lines, as in a notebook
                return short("".join(value))
        if isinstance(value, list):
            return [short(one) for one in value]
        if isinstance(value, str) and len(value.split()) >= WORDS:
            found.append(value)
            return ""
        return value

    try:
        held = json.loads(text)
    except ValueError:
        held = [json.loads(line) for line in text.split("\n") if line.strip()]
    rest = json.dumps(short(held), ensure_ascii=False, indent=1)
    return [*found, ESCAPE.sub(lambda match: json.loads(f'"{match[0]}"'), rest)]


def table_texts(text: str) -> list[str]:
    """The texts in the cells of a table, and its other cells, a row per line."""
    found, rest = [], []
    separator = max(",;\t", key=text.partition("\n")[0].count)
    for row in csv.reader(io.StringIO(text), delimiter=separator):
        long = [cell for cell in row if len(cell.split()) >= WORDS]
        found += long
        rest.append(separator.join(cell for cell in row if cell not in long))
    return [*found, "\n".join(rest)]


def mail_texts(text: str) -> list[str]:
    """The texts of a mail, decoded, and its headers."""
    content = text.encode(errors="surrogateescape")
    mail = email.message_from_bytes(content, policy=email.policy.default)
    parts = [part for part in mail.walk() if part.get_content_maintype() == "text"]
    headers = "\n".join(f"{name}: {value}" for name, value in mail.items())
    return [*map(mail_text, parts), headers]


def mail_text(part) -> str:
    """The text of a part of a mail, even if its declared encoding is unknown or wrong."""
    content = part.get_payload(decode=True)
    for charset in (part.get_content_charset("utf-8"), "utf-8", "latin-1"):  # the last fits always
        with contextlib.suppress(LookupError, ValueError):
            text = content.decode(charset)
            break
    return html.unescape(text) if part.get_content_subtype() == "html" else text


def mailbox_texts(text: str) -> list[str]:
    """The texts of every mail in a mailbox."""
    mails = filter(str.strip, re.split(r"(?m)^From .*\n", text))
    return [one for mail in mails for one in mail_texts(mail)]


FORMATS: dict[str, Callable[[str], list[str]]] = {
    **dict.fromkeys((".json", ".ndjson", ".ipynb"), json_texts),
    **dict.fromkeys((".csv", ".tsv"), table_texts),
    **dict.fromkeys((".html", ".htm", ".xml"), lambda text: [html.unescape(text)]),
    ".eml": mail_texts,
    ".mbox": mailbox_texts,
}
