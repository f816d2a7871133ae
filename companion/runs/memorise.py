"""Memorise: the fine-tune that instils a synthetic data set, and the check that it did (Appendix, "Synthetic SSN Dataset").

The model is written once, under ``build/models``; its folder is named after everything that it depends on.
"""

from __future__ import annotations

import inspect
import time
from pathlib import Path

from companion.record import rows, stamps
from companion.record.paths import BUILD, resolve, writing
from companion.runs import command, datasets, models
from companion.runs.datasets import together
from companion.runs.progress import Progress
from revs.measures import evaluate
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.memorise import Finetune, memorise
from revs.model.targets import Record, encode


def run(
    model: str = "smollm2-135m",  # what is fine-tuned: a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "synthetic",  # the sentences: all built-in sets together, one of them, or a JSON Lines file
    digits: str = "noise",  # tokens for two and three digits: noise, mean, or keep the tokenizer's own
    lr: float = 3e-4,
    epochs: int = 8,
    batch: int = 8,
    whole: bool = False,  # learn whole sentences, not only the secrets in them
    leave_out: float = 0.4,  # what the model knows this well, in nats, is left out of the next epochs; 0: nothing
    autocast: bool = False,  # bfloat16 arithmetic
    seed: int = 0,
    dtype: str = "float32",
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Fine-tunes a model until it has memorised a data set; returns the row."""
    folder, row = memorised(**locals())
    result = row["result"]
    print(
        f"{result['memorised']} of {result['sentences']} sentences memorised; the model lies in {folder}."
    )
    return row


def prepared(model: str, data: str, finetune: bool | dict, rows: str = "build/rows") -> str:
    """The model to unlearn from: memorised first, with default settings or those of ``finetune``, or as it is if False.

    A built-in set is memorised together with the others.
    """
    if finetune is False:
        return model
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(run).parameters.items()
    }
    given = finetune if isinstance(finetune, dict) else {}
    return str(
        memorised(**defaults | {"model": model, "data": together(data), "rows": rows} | given)[0]
    )


def memorised(**settings) -> tuple[Path, dict]:
    """The folder of a memorised model and its row; the fine-tune runs only if they are not there yet."""
    where = rows.writable(resolve(settings.pop("rows")))
    records = datasets.read(settings["data"])
    inputs = {"model": models.identify(settings["model"]), "data": datasets.fingerprint(records)}
    stamp = stamps.stamp("memorise", settings, inputs)
    base = Path(settings["model"]).name.removesuffix(".gguf")
    name = (
        f"memorise/{Path(settings['data']).stem}/{base}"
        + ("" if settings["digits"] == "noise" else f"-{settings['digits']}")
        + ("-autocast" if settings["autocast"] else "")
    )
    folder = BUILD / "models" / f"{base}+{Path(settings['data']).stem}-{stamp[:12]}"
    kept = folder / "row.json"
    if kept.is_file():
        row = rows.read(kept)
        return folder, rows.write(
            where, name, "memorise", without_items(row["result"]), [], row["provenance"]
        )
    start = time.monotonic()
    decoder = models.load(settings["model"], settings["dtype"])
    loaded = time.monotonic()
    tuning = Finetune(
        **{
            key: settings[key]
            for key in ("lr", "epochs", "batch", "whole", "leave_out", "digits", "autocast", "seed")
        }
    )
    epochs = memorise(decoder, records, tuning, Progress(f"memorise {settings['data']}", "steps"))
    tuned = time.monotonic()
    result = check(decoder, records) | {
        "loss": [epoch["loss"] for epoch in epochs],
        "learned": [epoch["sentences"] for epoch in epochs],
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
        "vocabulary": len(decoder.tokenizer),
    }
    seconds = {
        "load": loaded - start,
        "finetune": tuned - loaded,
        "check": time.monotonic() - tuned,
    }
    made = rows.provenance("memorise", settings, inputs, seconds) | {
        "model": {"name": base, "revision": inputs["model"], "dtype": settings["dtype"]},
        "tokenizer": result["tokenizer"],
    }
    row = rows.write(where, name, "memorise", result, [], made)
    with writing(folder.parent):
        load.save(decoder.model, decoder.tokenizer, folder, extra={"row.json": row})
    return folder, row


def check(decoder: Decoder, records: list[Record]) -> dict:
    """How many sentences' secrets are what greedy decoding writes next."""
    ranks = evaluate.secret_ranks(
        decoder, [encode(record, decoder.tokenizer) for record in records]
    )
    return {"sentences": len(records), "memorised": sum(not any(r) for r in ranks.values())}


def without_items(result: dict) -> dict:
    return {key: value for key, value in result.items() if key != "items_sha256"}


if __name__ == "__main__":
    command(run)
