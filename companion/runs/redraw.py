"""Redraw: a curated data set from its row's manifest, without asking the model again (Appendix "Naturally Memorized Dataset").

The row of a curation says of each secret that the model has memorised in which package it stood, the hash of the text, and
the secret's first character. Where the same packages are installed, that is enough to cut the secrets out again, in
minutes instead of hours; ``--fetch`` gets those that are missing in their versions. A part is kept under a name of its
own, so that no run takes it for the whole. ``python -m companion.runs.redraw rows/curate/NAME/MODEL.json``
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from companion.own.corpus import of_package, wanted
from companion.own.curate import candidates, prepare
from companion.own.documents import MACHINE, Document, read
from companion.record import rows
from companion.record.paths import resolve
from companion.runs import MISTAKES
from companion.runs.curate import apart, marked, write
from companion.runs.memorise import prepared
from revs.model import data, load
from revs.model.architecture import Decoder
from revs.model.data import Record


def redraw(
    row: dict, documents: Iterable[Document], decoder: Decoder
) -> tuple[list[Record], list[str]]:
    """The records of the data set that the row's curation wrote, as far as its documents are here, and the packages of those that are not."""
    manifest = rows.read_items(row["path"]).query("exact")
    places = dict(
        zip(
            zip(manifest["source"], manifest["offset"]),
            manifest["package"].astype(object).fillna(""),
        )
    )
    sources, settings = set(manifest["source"]), row["provenance"]["settings"]
    again = [document for document in documents if document.source in sources]
    found = {
        (candidate.source, candidate.offset): candidate
        for document in again
        for candidate in candidates([document], settings["kinds"], Counter())
    }  # each by itself: here they may come in another order
    cut = {
        place: prepare(found[place], decoder, settings["T"], Counter())
        for place in places.keys() & found.keys()
    }
    records = sorted(
        (ready[0].record for ready in cut.values() if ready), key=lambda record: record.id
    )
    return records, sorted(
        {package for place, package in places.items() if package and not cut.get(place)}
    )


def fetched(packages: Sequence[str], skipped: Counter) -> Iterator[Document]:
    """The documents of packages that are not installed, of pip (name==version) or Debian (name=version); one that cannot be had in this version is named."""
    for package in packages:
        with TemporaryDirectory() as folder:
            get = (
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "--only-binary=:all:",
                    "--",
                    package,
                ]
                if "==" in package
                else ["apt-get", "download", "--", package]
            )
            try:
                subprocess.run(get, cwd=folder, check=True, capture_output=True)
                archive = next(Path(folder).iterdir())
                unpack = (
                    [sys.executable, "-m", "zipfile", "-e", archive, "inside"]
                    if archive.suffix == ".whl"
                    else ["dpkg-deb", "-x", archive, "inside"]
                )
                subprocess.run(unpack, cwd=folder, check=True, capture_output=True)
            except (OSError, StopIteration, subprocess.CalledProcessError):
                print(f"{package} could not be fetched.", flush=True)
                continue
            for file in sorted(Path(folder, "inside").rglob("*")):
                if file.is_file() and not file.is_symlink() and wanted(file):
                    yield from of_package(package, file, skipped)


def same_as(records: list[Record], name: str) -> str:
    """Whether recorded runs on a set of this name read the very same one; empty where there are none."""
    recorded = {
        row["provenance"]["inputs"]["data"]
        for row in rows.find(rows.RECORDED, kind="unlearn").values()
        if Path(row["provenance"]["settings"]["data"]).stem == name
    }
    return (
        ""
        if not recorded
        else " It is the set of the recorded runs."
        if recorded == {data.fingerprint(records)}
        else " It is NOT the set of the recorded runs."
    )


def main() -> None:
    """Writes build/curated/NAME.jsonl and its parts by kind; or NAME-part.jsonl, and ends with what is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.runs.redraw",
        description="Draws a curated data set again from its row, without asking the model.",
    )
    parser.add_argument("row", help="the row of a curation: rows/curate/NAME/MODEL.json")
    parser.add_argument(
        "--documents",
        default=MACHINE,
        help=f"what was searched then: a path, or '{MACHINE}' for the packages of this machine (default)",
    )
    parser.add_argument(
        "--fetch",
        action="store_true",
        help="get the packages that are missing, with pip and apt-get",
    )
    try:
        asked = parser.parse_args()
        row = rows.read(resolve(asked.row)) | {"path": resolve(asked.row)}
        if row["kind"] != "curate" or not row["result"]["items_sha256"]:
            raise ValueError(
                f"{Path(asked.row).name} has no manifest: give the row of a curation that found something, rows/curate/NAME/MODEL.json."
            )
        made = row["provenance"]
        decoder = load.load(
            prepared(made["settings"]["model"], "ssn", made["settings"]["finetune"]),
            made["settings"]["dtype"],
        )
        place = asked.documents if asked.documents == MACHINE else resolve(asked.documents)
        reader = (
            load.tokenizer(made["settings"]["challenge_tokenizer"])
            if made["settings"]["challenge_tokenizer"]
            else decoder.tokenizer
        )
        records, missing = redraw(row, read(place, Counter(), reader), decoder)
        if missing and asked.fetch:
            records, missing = redraw(
                row, chain(read(place, Counter(), reader), fetched(missing, Counter())), decoder
            )
        if not records:
            raise ValueError(
                "None of the row's documents is here: install the packages that its items name, in their versions, or say --fetch."
            )
        total = sum(counts["kept"] for counts in row["result"]["funnel"].values())
        name = made["settings"]["name"] + ("" if len(records) == total else "-part")
        apart(name)
        write(name, records)
        rows.write_text(marked(name), made["inputs"]["model"])
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")
    said = f"{len(records)} of {total} secrets were found again: build/curated/{name}.jsonl."
    if len(records) < total:
        sys.exit(
            f"{said} It is a part, and runs on it are no repetition."
            + (
                f" Without theirs: {', '.join(missing)}{'' if asked.fetch else '; try --fetch'}."
                if missing
                else ""
            )
        )
    print(said + same_as(records, name))


if __name__ == "__main__":
    main()
