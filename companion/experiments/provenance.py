"""What a row is called, and how it came about, as every experiment says it."""

from __future__ import annotations

from companion.experiments.settings import base as base
from companion.store import rows
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash


def provenance(kind: str, settings: dict, inputs: dict, seconds: dict, decoder: Decoder) -> dict:
    """``rows.provenance``, and which tokenizer it was."""
    made = rows.provenance(kind, settings, inputs, seconds)
    return made | {"tokenizer": tokenizer_hash(decoder.tokenizer)}
