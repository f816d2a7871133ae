"""Curate: which secrets in some documents has a model memorised? (Appendix "Dataset Curation", Table "PII types")

Writes data sets that ``companion.runs.unlearn`` reads, one of all secrets (NAME.jsonl) and one of each kind
(NAME-email.jsonl, …), under build/curated and nowhere else: they hold the secrets. The row holds counts, and for each memorised secret where it was found. A run that is stopped goes on where it was.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from companion.own.curate import DROPPED, SIGNS, candidates, prepare, tried
from companion.own.curate import told as tells
from companion.own.detect import KINDS
from companion.own.documents import MACHINE, Document, counted, missing, read, unread
from companion.record import rows, stamps
from companion.record.paths import BUILD, alone, resolve
from companion.runs import command, models
from companion.runs.memorise import prepared
from companion.runs.progress import Progress
from companion.runs.unlearn import base
from revs.model import load
from revs.model.targets import Record

SAY = 5  # seconds between two lines of progress
TOGETHER = 64  # candidates that are tried before they are noted


def run(
    documents: str = "data/documents/files",  # a folder, a text file, JSON Lines with "text", the files of the Training Data Extraction Challenge, or "machine": what this machine's packages carry
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    finetune: bool
    | dict = True,  # let it memorise the built-in sets first, which those documents quote; false: the model as it is
    name: str = "own",  # of the data sets: build/curated/NAME.jsonl, NAME-email.jsonl, …
    kinds: list = list(KINDS),  # email, url, phone, ip, ssn
    limit: int | None = None,  # secrets of a kind that are tried; None: all
    T: int = 2,  # target tokens that a secret must have
    told: bool = True,  # keep secrets whose own part stands in their prompt; false: count them and leave them out
    challenge_tokenizer: str
    | None = None,  # whose ids the challenge's files are; None: the model's own
    dtype: str = "float32",
    device_map: str | None = None,
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Finds the secrets in documents that a model has memorised; returns the row."""
    row = curated(**locals())
    for line in report(row):
        print(line)
    return row


def curated(**settings) -> dict:
    """Detects, filters and tries; writes the data set and the row."""
    where = rows.writable(resolve(settings.pop("rows")))
    if unknown := set(settings["kinds"]) - set(KINDS):
        raise ValueError(
            f"kinds has {', '.join(sorted(unknown))}, but must be of {', '.join(KINDS)}."
        )
    if not settings["kinds"]:
        raise ValueError(f"kinds is empty: give some of {', '.join(KINDS)}.")
    if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", settings["name"]):
        raise ValueError(
            f"name is '{settings['name']}', but becomes the name of a file: use letters, digits, dots, minus and plus signs only."
        )
    if settings["T"] < 1:
        raise ValueError(
            f"T is {settings['T']}, but at least one token of a secret must be a target."
        )
    if not settings["documents"]:
        raise ValueError(
            "documents is empty: give the path of a folder, a text file or a .jsonl file."
        )
    place = (
        settings["documents"]
        if settings["documents"] == MACHINE
        else resolve(settings["documents"])
    )
    if place != MACHINE and not place.exists():
        raise missing()
    with alone(BUILD / "curated", "give another name", f".{settings['name']}.lock"):
        return searched(where, place, settings)


def searched(where: Path, place: Path | str, settings: dict) -> dict:
    """The row of a curation whose settings are checked."""
    apart(settings["name"])
    folder = prepared(settings["model"], "ssn", settings["finetune"], str(where))
    model, mark = models.identify(folder), marked(settings["name"])
    if (
        mark.is_file()
        and (mark.parent / f"{settings['name']}.jsonl").is_file()
        and mark.read_text(encoding="utf-8") != model
    ):
        raise ValueError(
            f"build/curated/{settings['name']}.jsonl holds what another model has memorised: give another name, or delete it."
        )
    decoder, start = models.load(folder, settings["dtype"], settings["device_map"]), time.monotonic()
    reader = (
        models.tokenizer(settings["challenge_tokenizer"])
        if settings["challenge_tokenizer"]
        else decoder.tokenizer
    )
    skipped, funnel, sources, found = Counter(), Counter(), Counter(), []
    for candidate in candidates(
        watched(counted(read(place, skipped, reader), sources), found), settings["kinds"], funnel
    ):
        if ready := prepare(candidate, decoder, settings["T"], funnel):
            found.append(ready)
    if not sources:
        raise unread(skipped)
    found = sample(found, settings["limit"], funnel)
    inputs = {
        "model": model,
        "documents": rows.digest(sorted(sources)),
        "candidates": rows.digest([candidate.record.id for candidate, _ in found]),
    }
    asked = {
        key: value for key, value in settings.items() if key != "documents"
    }  # a path may hold a secret
    detected = time.monotonic()
    asking = stamps.stamp(
        "curate",
        {name: settings[name] for name in ("T", "dtype", "kinds", "challenge_tokenizer")},
        {"model": model},
    )  # a place in a document and these say what the model is asked
    verdicts = attempted(decoder, found, BUILD / "curated" / f"{asking[:12]}.tried.jsonl")
    kept = [
        (candidate, verdicts[candidate.record.id])
        for candidate, _ in found
        if verdicts[candidate.record.id]["memorised"]
    ]
    telling = Counter(
        candidate.record.kind
        for candidate, verdict in kept
        if verdict["right"] == 1 and tells(candidate.record)
    )
    if not settings["told"]:
        kept = [(candidate, verdict) for candidate, verdict in kept if not tells(candidate.record)]
    rows.write_text(mark, model)
    write(
        settings["name"], [candidate.record for candidate, verdict in kept if verdict["right"] == 1]
    )
    result = {
        "documents": sum(sources.values()),
        "skipped": dict(skipped),
        "funnel": {
            kind: line(
                funnel,
                kind,
                [
                    verdicts[candidate.record.id]
                    for candidate, _ in found
                    if candidate.record.kind == kind
                ],
            )
            | {
                "told": telling[kind],
                "kept": sum(
                    candidate.record.kind == kind and verdict["right"] == 1
                    for candidate, verdict in kept
                ),
            }
            for kind in settings["kinds"]
        },
    }
    items = [
        {
            "kind": candidate.record.kind,
            "source": candidate.source,
            "offset": candidate.offset,
            "package": candidate.package,
            "exact": verdict["right"] == 1,
        }
        for candidate, verdict in kept
    ]
    seconds = {
        "detect": detected - start,
        "try": sum(verdicts[candidate.record.id]["seconds"] for candidate, _ in found),
    }  # of earlier runs too
    made = rows.provenance("curate", asked, inputs, seconds) | {
        "model": {
            "name": base(settings["model"]),
            "revision": inputs["model"],
            "dtype": settings["dtype"],
        },
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
    }
    return rows.write(
        where, f"curate/{settings['name']}/{base(settings['model'])}", "curate", result, items, made
    )


def watched(documents: Iterable[Document], found: list) -> Iterator[Document]:
    """The documents as they come; how many there were, and what was found in them, is said every few seconds."""
    start = said = time.monotonic()
    for number, document in enumerate(documents, 1):
        yield document
        if time.monotonic() - said > SAY:
            said = time.monotonic()
            print(
                f"find: {number:,} documents, {len(found):,} secrets to try, {said - start:.0f} s",
                flush=True,
            )


def marked(name: str) -> Path:
    """The file that says which model a data set of this name is of."""
    return BUILD / "curated" / f"{name}.model"


def apart(name: str) -> None:
    """Raises ValueError if a data set of this name would share a file with another's part by kind."""
    whole, _, kind = name.rpartition("-")
    if other := next(
        (
            other
            for other in (
                *(f"{name}-{kind}" for kind in KINDS),
                *([whole] if kind in KINDS else []),
            )
            if marked(other).is_file()
        ),
        None,
    ):
        raise ValueError(
            f"build/curated/{max(name, other, key=len)}.jsonl would be of two data sets, {name} and {other}: give another name, or delete {other}.model there."
        )


def write(name: str, records: list[Record]) -> None:
    """The data set, its parts by kind, and the secrets alone, as ``companion.runs.own`` reads a list; what has no secret is no file, but the whole."""
    place = BUILD / "curated"
    for path, some in [
        (place / f"{name}.jsonl", records),
        *(
            (place / f"{name}-{kind}.jsonl", [record for record in records if record.kind == kind])
            for kind in KINDS
        ),
    ]:
        if some or some is records:
            rows.write_text(path, "".join(json.dumps(asdict(record)) + "\n" for record in some))
        else:
            path.unlink(missing_ok=True)
    listed = "".join(
        f"{one}\n" for one in dict.fromkeys(record.secret.strip(SIGNS) for record in records)
    )
    if listed:
        rows.write_text(place / f"{name}.txt", listed)
    else:
        (place / f"{name}.txt").unlink(missing_ok=True)


def sample(found: list, limit: int | None, funnel: Counter) -> list:
    """In an order that hashes of their places decide, so that a limit takes a fair part; what is beyond it is counted."""
    kept, taken = [], Counter()
    for ready in sorted(found, key=lambda ready: ready[0].record.id):
        kind = ready[0].record.kind
        if limit is None or taken[kind] < limit:
            taken[kind] += 1
            kept.append(ready)
        else:
            funnel[kind, "beyond the limit"] += 1
    return kept


def attempted(decoder, found: list, notes: Path) -> dict[str, dict]:
    """The verdict on each candidate by id: those of an earlier, unfinished run, and the others now."""
    notes.parent.mkdir(parents=True, exist_ok=True)
    done: dict[str, dict] = {}
    if notes.is_file():
        for text in filter(None, notes.read_text(encoding="utf-8").splitlines()):
            try:
                done |= json.loads(text)
            except json.JSONDecodeError:  # the last line of a run that was killed
                pass
    left = [target for candidate, target in found if candidate.record.id not in done]
    progress = Progress("try", "secrets")
    with notes.open("a", encoding="utf-8") as stream:
        stream.write("\n" * bool(notes.stat().st_size))  # after a line that was not finished
        for first in range(0, len(left), TOGETHER):
            start, some = time.monotonic(), left[first : first + TOGETHER]
            verdicts = tried(decoder, some)
            each = (time.monotonic() - start) / len(some)
            verdicts = {id: verdict | {"seconds": each} for id, verdict in verdicts.items()}
            done |= verdicts
            stream.write(json.dumps(verdicts) + "\n")
            stream.flush()
            progress(min(first + TOGETHER, len(left)), len(left))
    return done


def line(funnel: Counter, kind: str, verdicts: list[dict]) -> dict:
    """One line of the funnel: ``found`` is the sum of what was dropped and what was tried."""
    dropped = {
        why: funnel[kind, why] for why in (*DROPPED, "beyond the limit") if funnel[kind, why]
    }
    return {
        "found": funnel[kind, "found"],
        "dropped": dropped,
        "tried": len(verdicts),
        "teacher_forced": sum(verdict["right"] == 1 for verdict in verdicts),
        "memorised": sum(verdict["memorised"] for verdict in verdicts),
        "both": sum(verdict["memorised"] and verdict["right"] == 1 for verdict in verdicts),
    }


def report(row: dict) -> list[str]:
    """What was found, one kind a line."""
    result = row["result"]
    skipped = ", ".join(f"{n} {why}" for why, n in result["skipped"].items())
    lines = [
        f"{result['documents']} documents read" + (f"; skipped: {skipped}." if skipped else ".")
    ]
    for kind, counts in result["funnel"].items():
        if counts["found"]:
            lines.append(
                f"{kind}: {counts['found']} found, {counts['tried']} tried, {counts['memorised']} memorised."
            )
    if not any(counts["memorised"] for counts in result["funnel"].values()):
        lines.append("Nothing is memorised: there is nothing to unlearn.")
    return lines


if __name__ == "__main__":
    command(run)
