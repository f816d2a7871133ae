"""Memorise: the fine-tune that instils a synthetic data set (Appendix, "Synthetic SSN Dataset").

The model is written once, under ``build/models``; its folder is named after all that it depends on.
"""

from __future__ import annotations

import itertools
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from companion.data import datasets, models
from companion.experiments import check, command, memory
from companion.experiments.finetuning import Finetune as Settings
from companion.experiments.finetuning import finetune as memorise
from companion.experiments.progress import progress
from companion.experiments.provenance import base, provenance
from companion.experiments.run_names import ending
from companion.store import rows, stamps
from companion.store.paths import BUILD, resolve, writing
from revs.measures import evaluate, general_text
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode
from revs.model.text import text_inputs, training_windows


def run(settings: Settings) -> dict:
    """Fine-tunes a model until it has memorised a data set; returns the row."""
    folder, row = memorised(settings)
    known, of = row["result"]["memorised"], row["result"]["sentences"]
    print(f"{known} of {of} sentences memorised; the model lies in {folder}.")
    return row


def before(model: str, data: str, finetune: bool | dict, rows: str) -> Settings | None:
    """The fine-tune that another run starts from; None if that takes the model as it is.

    A built-in set is memorised together with the others; ``finetune`` may hold other settings.
    """
    given = finetune if isinstance(finetune, dict) else {}
    asked = {"model": model, "data": datasets.together(data), "rows": rows} | given
    return None if finetune is False else check(asked, Settings)


def prepared(model: str, data: str, finetune: bool | dict, rows: str = "build/rows") -> str:
    """The model to unlearn from: memorised first, or as it is."""
    first = before(model, data, finetune, rows)
    return str(memorised(first)[0]) if first else model


def finetune(settings: dict) -> dict | None:
    """What the fine-tune of a run's settings depends on; None if there is none."""
    about = settings["model"], settings.get("data", "ssn"), settings.get("finetune", False)
    first = before(*about, Settings.rows)
    return first and relevant(first)


def relevant(settings: Settings) -> dict:
    """The settings by name, but for where the row goes."""
    return {name: value for name, value in asdict(settings).items() if name != "rows"}


def memorised(settings: Settings) -> tuple[Path, dict]:
    """The folder of a memorised model and its row; the fine-tune runs only if there is none."""
    where = rows.writable(resolve(settings.rows))
    records = datasets.read(settings.data)
    inputs = {"model": models.identify(settings.model), "data": datasets.fingerprint(records)}
    inputs |= text_inputs()
    model, short = base(settings.model), Path(settings.data).stem
    name = f"memorise/{short}/{model}" + ending(asdict(settings), asdict(Settings()))
    stamp = stamps.stamp("memorise", relevant(settings), inputs)
    folder = BUILD / "models" / f"{model}+{short}-{stamp[:12]}"
    if row := rows.kept(folder / "row.json"):
        result = {key: value for key, value in row["result"].items() if key != "items_sha256"}
        return folder, rows.write(where, name, "memorise", result, [], row["provenance"])
    shutil.rmtree(folder, ignore_errors=True)  # another version's, or half of one
    memory.check(asdict(settings))
    clock = [time.monotonic()]  # after each part
    decoder = models.load(settings.model, settings.dtype)
    before = general_text.predictions(decoder).perplexity
    clock.append(time.monotonic())
    show = progress(f"memorise {settings.data}")
    epochs = memorise(decoder, records, settings, training_windows, show)
    clock.append(time.monotonic())
    result = learned(decoder, records) | {
        "loss": [epoch["loss"] for epoch in epochs],
        "learned": [epoch["sentences"] for epoch in epochs],
        "kl": [epoch["kl"] for epoch in epochs],
        "perplexity": [before, general_text.predictions(decoder).perplexity],
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
        "vocabulary": len(decoder.tokenizer),
    }
    clock.append(time.monotonic())
    parts = zip(("load", "finetune", "check"), itertools.pairwise(clock), strict=True)
    seconds = {part: end - start for part, (start, end) in parts}
    made = provenance("memorise", relevant(settings), inputs, seconds, decoder)
    row = rows.write(where, name, "memorise", result, [], made)
    with writing(folder.parent):
        load.save(decoder.model, decoder.tokenizer, folder, extra={"row.json": row})
    return folder, row


def learned(decoder: Decoder, records: list[Record]) -> dict:
    """How many sentences' secrets are what greedy decoding writes next."""
    targets = [encode(record, decoder.tokenizer) for record in records]
    ranks = evaluate.secret_ranks(decoder, targets)
    return {"sentences": len(records), "memorised": sum(not any(r) for r in ranks.values())}


if __name__ == "__main__":
    command(Settings, run)
