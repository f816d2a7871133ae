"""Fine-tune a model to memorise the sentences of a file (Appendix, "Synthetic SSN Dataset").

What is learned is an adapter, ``build/adapters/NAME``, in PEFT's format: a run of any experiment
begins with it by ``adapter=build/adapters/NAME``. The adapters of the project lie in data/adapters.
"""

from __future__ import annotations

import itertools
import time

from companion.data import adapters, datasets, models
from companion.experiments import memory
from companion.experiments.command import command, progress
from companion.experiments.finetuning import finetune
from companion.experiments.provenance import provenance
from companion.experiments.settings import Finetune as Settings
from companion.store import rows
from companion.store.paths import BUILD, alone, resolve, short_path
from revs.measures import evaluate, general_text
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode
from revs.model.text import text_inputs

VERSION = 1


def run(settings: Settings) -> dict:
    """Fine-tunes a model until it has memorised a data set; writes the adapter, returns the row."""
    row_folder = rows.writable(resolve(settings.rows))
    records = datasets.read(settings.data)
    place = BUILD / "adapters" / settings.name
    memory.check(settings.model_dump() | {"method": "finetune"})
    inputs = {"model": models.identify(settings.model), "data": datasets.fingerprint(records)}
    inputs |= text_inputs()
    kept = settings.model_dump(exclude={"rows"})
    with alone(place, "give another name"):
        clock = [time.monotonic()]  # after each part
        decoder = models.load(settings.model, settings.dtype, settings.device_map)
        before, tokens = general_text.predictions(decoder).perplexity, len(decoder.tokenizer)
        clock.append(time.monotonic())
        show = progress(f"finetune {settings.name}")
        epochs = finetune(decoder, records, settings, show)
        clock.append(time.monotonic())
        result = memorised(decoder, records) | {
            "loss": [epoch["loss"] for epoch in epochs],
            "learned": [epoch["sentences"] for epoch in epochs],
            "kl": [epoch["kl"] for epoch in epochs],
            "perplexity": [before, general_text.predictions(decoder).perplexity],
            "tokenizer": load.tokenizer_hash(decoder.tokenizer),
            "vocabulary": len(decoder.tokenizer),
        }
        clock.append(time.monotonic())
        known = {"base": inputs["model"], "inputs": inputs}
        known |= {name: kept[name] for name in ("seed", "digits", "data", "rank", "epochs")}
        adapters.save(decoder, place, known, added=len(decoder.tokenizer) - tokens)
    parts = zip(("load", "finetune", "check"), itertools.pairwise(clock), strict=True)
    seconds = {part: end - start for part, (start, end) in parts}
    made = provenance("finetune", kept, inputs, seconds, decoder)
    row = rows.write(row_folder, settings.row_name, "finetune", result, [], made)
    known, of = result["memorised"], result["sentences"]
    print(f"{known} of {of} sentences memorised; the adapter lies in {short_path(place)}.")
    return row


def memorised(decoder: Decoder, records: list[Record]) -> dict[str, int]:
    """How many sentences' secrets are what greedy decoding writes next."""
    targets = [encode(record, decoder.tokenizer) for record in records]
    ranks = evaluate.secret_ranks(decoder, targets)
    return {"sentences": len(records), "memorised": sum(not any(r) for r in ranks.values())}


if __name__ == "__main__":
    command(Settings, run)
