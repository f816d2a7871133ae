"""What a row is called, and how it came about, as every experiment says it."""

from __future__ import annotations

from pathlib import Path

from companion.experiments.settings import ADAPTER
from companion.store import rows
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash


def base(model: str) -> str:
    """What a model is called in rows."""
    return Path(model).name.removesuffix(".gguf")


def ending(adapter: str | None, tag: str) -> str:
    """The end of a run's name: its adapter, if it is another than the usual one, and the tag."""
    other = adapter and adapter != ADAPTER and f"adapter-{Path(adapter).name}"
    return "".join(f"-{part}" for part in (other, tag) if part)


def provenance(kind: str, settings: dict, inputs: dict, seconds: dict, decoder: Decoder) -> dict:
    """``rows.provenance``, and which tokenizer it was."""
    made = rows.provenance(kind, settings, inputs, seconds)
    return made | {"tokenizer": tokenizer_hash(decoder.tokenizer)}
