"""Curate: which secrets in some documents has a model memorised? (Appendix "Dataset Curation")

Writes data sets for ``companion.experiments.unlearn``: all secrets (NAME.jsonl), and those of each
kind (NAME-email.jsonl, …). The files contain the secrets, and are written under build/curated only.
Secrets set aside for tuning go into NAME-email-tune.jsonl instead. The row holds counts, and where
each memorised secret was found.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from companion.data import adapters, models, sources
from companion.data.ownership import secret_in_prompt, tuning_ids
from companion.experiments import memory
from companion.experiments.command import command, progress
from companion.experiments.provenance import provenance
from companion.experiments.settings import Curate as Settings
from companion.store import rows
from companion.store.paths import BUILD, alone, resolve
from document_audit import candidates
from document_audit.detection import secret_spans
from document_audit.documents import Document, nothing_read_error, read, with_sources_noted
from document_audit.files import errors_without_paths
from document_audit.memorization import existing_path
from document_audit.redaction import SIGNS
from document_audit.settings import KINDS
from revs.model.architecture import Decoder
from revs.model.targets import Record

VERSION = 3


def run(settings: Settings) -> dict:
    """Find the secrets in documents that a model has memorised."""
    where = rows.writable(resolve(settings.rows))
    place = settings.documents
    if place != sources.PACKAGES:
        with errors_without_paths():  # a path may contain a secret
            place = existing_path(resolve(place))
    with alone(BUILD / "curated", "give another name", f".{settings.name}.lock"):
        row = curated(where, place, settings)
    lines = [f"{row['result']['documents']} documents read."]
    for kind, counts in row["result"]["funnel"].items():
        found = ", ".join(f"{counts[name]} {name}" for name in ("found", "tried", "memorised"))
        lines += [f"{kind}: {found}."] if counts["found"] else []
    print(*lines, sep="\n")
    return row


def documents_at(
    place: Path | str, skipped: Counter, decoder: Decoder, settings: Settings
) -> Iterator[Document]:
    """The documents of a path, of this machine's packages, or of the challenge."""
    if place == sources.PACKAGES:
        return sources.package_documents(skipped)
    if folder := sources.challenge_folder(place):
        name = settings.challenge_tokenizer
        return sources.challenge(folder, models.tokenizer(name) if name else decoder.tokenizer)
    return read(place, skipped)


def curated(where: Path, place: Path | str, settings: Settings) -> dict:
    """The row of a curation whose settings are checked."""
    memory.check(settings.model_dump())
    folder = adapters.adapted(settings.model, settings.adapter)
    inputs = {"model": models.identify(folder)}
    require_same_model(settings.name, inputs["model"])
    decoder = models.load(folder, settings.dtype, settings.device_map)
    clock = [time.monotonic()]
    skipped, funnel, hashes = Counter(), Counter(), []
    texts = with_sources_noted(documents_at(place, skipped, decoder, settings), hashes)
    texts = progress("find", "documents")(texts)
    spans = lambda text: secret_spans(text, settings.kinds)
    every = (
        candidates.cut_to_target(candidate, decoder, settings.T, funnel)
        for candidate in candidates.secret_candidates(texts, spans, funnel, once=True)
    )
    found = limited_sample(list(filter(None, every)), settings.limit, funnel)
    if not hashes:
        raise nothing_read_error(skipped)
    clock.append(time.monotonic())
    inputs |= {
        "documents": rows.digest(sorted(set(hashes))),
        "candidates": rows.digest([candidate.record.id for candidate, _ in found]),
    }
    asked = settings.model_dump(exclude={"rows", "documents"})  # a path may hold a secret
    tried, targets = {}, [target for _, target in found]  # verdicts by id
    for first in progress("try", "batches")(range(0, len(targets), candidates.TOGETHER)):
        tried |= candidates.verdicts(decoder, targets[first : first + candidates.TOGETHER])
    clock.append(time.monotonic())
    evaluated = [(candidate, tried[candidate.record.id]) for candidate, _ in found]
    known = [one for one in evaluated if one[1]["memorised"]]
    kept = [one for one in known if settings.keep_leaked or not secret_in_prompt(one[0].record)]
    exact = [candidate.record for candidate, verdict in kept if verdict["right"] == 1]
    write_data_sets(settings.name, exact, inputs["model"], settings.tuning_share)
    result = {
        "documents": len(hashes),
        "skipped": dict(skipped),
        "funnel": {kind: funnel_line(funnel, kind, evaluated, kept) for kind in settings.kinds},
    }
    values = [
        {"kind": one.record.kind, "source": one.source, "offset": one.offset}
        | {"package": one.package, "exact": verdict["right"] == 1}
        for one, verdict in kept
    ]
    seconds = {"detect": clock[1] - clock[0], "try": clock[2] - clock[1]}
    made = provenance("curate", asked, inputs, seconds, decoder)
    return rows.write(where, settings.row_name, "curate", result, values, made)


def require_same_model(name: str, model: str) -> None:
    """Raise ValueError if a data set of this name holds what another model memorised."""
    mark = BUILD / "curated" / f"{name}.model"
    there = mark.is_file() and mark.with_name(f"{name}.jsonl").is_file()
    if there and mark.read_text(encoding="utf-8") != model:
        raise ValueError(
            f"build/curated/{name}.jsonl holds what another model has memorised: give another "
            "name, or delete it."
        )


def write_data_sets(name: str, records: list[Record], model: str, tuning_share: float) -> None:
    """Write the data set, its parts by kind, a list of the secrets alone, and the model's identity.

    ``tuning_share`` of each kind goes into a separate part. A part without a secret gets no file.
    """
    rows.write_file(BUILD / "curated" / f"{name}.model", model)
    secrets = dict.fromkeys(record.secret.strip(SIGNS) for record in records)
    parts = {kind: [record for record in records if record.kind == kind] for kind in KINDS}
    first = {id for some in parts.values() for id in tuning_ids(some, tuning_share)}
    lines = {f"{name}.jsonl": [one for one in records if one.id not in first]}
    for kind, some in parts.items():
        lines[f"{name}-{kind}.jsonl"] = [one for one in some if one.id not in first]
        lines[f"{name}-{kind}-tune.jsonl"] = [one for one in some if one.id in first]
    texts = {
        file: "".join(json.dumps(asdict(record)) + "\n" for record in some)
        for file, some in lines.items()
    }
    texts[f"{name}.txt"] = "".join(f"{secret}\n" for secret in secrets)
    for file, text in texts.items():
        if text or file == f"{name}.jsonl":
            rows.write_file(BUILD / "curated" / file, text, mode=0o600)  # the secrets, in clear
        else:
            (BUILD / "curated" / file).unlink(missing_ok=True)


def limited_sample(found: list, limit: int | None, funnel: Counter) -> list:
    """Return at most ``limit`` candidates of each kind: a fair sample, by hashes of places."""
    kept, taken = [], Counter()
    for ready in sorted(found, key=lambda ready: ready[0].record.id):
        kind = ready[0].record.kind
        taken[kind] += 1
        if limit and taken[kind] > limit:
            funnel[kind, candidates.BEYOND] += 1
        else:
            kept.append(ready)
    return kept


def funnel_line(funnel: Counter, kind: str, evaluated: list, kept: list) -> dict:
    """Return one kind's line of the funnel, in which ``found`` is dropped plus tried."""
    verdicts = [verdict for one, verdict in evaluated if one.record.kind == kind]
    both = [one for one, v in evaluated if one.record.kind == kind and v["right"] == 1]
    return {
        "found": funnel[kind, "found"],
        "dropped": {why: funnel[kind, why] for why in candidates.DROPPED if funnel[kind, why]},
        "tried": len(verdicts),
        "teacher_forced": sum(verdict["right"] == 1 for verdict in verdicts),
        "memorised": sum(verdict["memorised"] for verdict in verdicts),
        "both": len(both),
        "leaked": sum(secret_in_prompt(one.record) for one in both),
        "kept": sum(one.record.kind == kind and v["right"] == 1 for one, v in kept),
    }


if __name__ == "__main__":
    command(Settings, run)
