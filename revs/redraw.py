"""Redraw: a curated data set from its row's manifest, without asking the model again (Appendix "Naturally Memorized Dataset").

The row of a curation says of each secret that the model has memorised in which package it stood, the hash of the text, and
the secret's first character. Where the same packages are installed, that is enough to cut the secrets out again, in
minutes instead of hours. ``python -m revs.redraw rows/curate/NAME/MODEL.json``
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from revs import load, rows
from revs.architecture import Decoder
from revs.curate import candidates, prepare
from revs.data import Record
from revs.documents import MACHINE, Document, read
from revs.experiments import MISTAKES
from revs.experiments.curate import write
from revs.experiments.memorise import prepared
from revs.paths import BUILD, resolve


def redraw(row: dict, documents: Iterable[Document], decoder: Decoder) -> tuple[list[Record], list[str]]:
    """The records of the data set that the row's curation wrote, as far as its documents are here, and the packages of those that are not."""
    manifest = rows.read_items(row["path"]).query("exact")
    places = dict(zip(zip(manifest["source"], manifest["offset"]), manifest["package"].astype(object).fillna("")))
    sources, settings = set(manifest["source"]), row["provenance"]["settings"]
    again = [document for document in documents if document.source in sources]
    found = {(candidate.source, candidate.offset): candidate for candidate in candidates(again, settings["kinds"], Counter())}
    cut = {place: prepare(found[place], decoder, settings["T"], Counter()) for place in places.keys() & found.keys()}
    records = sorted((ready[0].record for ready in cut.values() if ready), key=lambda record: record.id)
    return records, sorted({package for place, package in places.items() if package and not cut.get(place)})


def main() -> None:
    """Writes build/curated/NAME.jsonl and its parts by kind, and says what is missing."""
    parser = argparse.ArgumentParser(prog="python -m revs.redraw", description="Draws a curated data set again from its row, without asking the model.")
    parser.add_argument("row", help="the row of a curation: rows/curate/NAME/MODEL.json")
    parser.add_argument("--documents", default=MACHINE, help=f"what was searched then: a path, or '{MACHINE}' for the packages of this machine (default)")
    try:
        asked = parser.parse_args()
        row = rows.read(resolve(asked.row)) | {"path": resolve(asked.row)}
        if row["kind"] != "curate" or not row["result"]["items_sha256"]:
            raise ValueError(f"{Path(asked.row).name} has no manifest: give the row of a curation that found something, rows/curate/NAME/MODEL.json.")
        made = row["provenance"]
        decoder = load.load(prepared(made["settings"]["model"], "ssn", made["settings"]["finetune"]), made["settings"]["dtype"])
        place = asked.documents if asked.documents == MACHINE else resolve(asked.documents)
        reader = load.tokenizer(made["settings"]["challenge_tokenizer"]) if made["settings"]["challenge_tokenizer"] else decoder.tokenizer
        records, missing = redraw(row, read(place, Counter(), reader), decoder)
        if not records:
            raise ValueError("None of the row's documents is here: install the packages that its items name, in their versions.")
        there = BUILD / "curated" / f"{made['settings']['name']}.jsonl"
        if there.is_file() and len(there.read_text(encoding="utf-8").splitlines()) > len(records):
            raise ValueError(f"Only {len(records)} secrets were found again, but {there.name} has more: move it away first, or install the packages that are missing{': ' + ', '.join(missing) if missing else ''}.")
        write(made["settings"]["name"], records, made["settings"]["kinds"])
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")
    total = sum(counts["both"] for counts in row["result"]["funnel"].values())
    print(f"{len(records)} of {total} secrets were found again." + (f" Without theirs: {', '.join(missing)}." if missing else ""))


if __name__ == "__main__":
    main()
