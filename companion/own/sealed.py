"""A safetensors file that says what it holds, and the hash of columns that it belongs to: for edits and what undoes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from companion.record import rows
from revs.model.architecture import Decoder

FORMATS = {
    "an edit": 2,
    "the columns of an edit": 1,
}  # of what is packed, counted up when its parts change


def present(decoder: Decoder, columns: dict[int, list[int]]) -> Iterator[Tensor]:
    """Columns of FF₂ as they are now, (K × d) for each layer."""
    return (decoder.neurons(l).detach()[:, neurons].T for l, neurons in columns.items())


def hashed(columns: Iterable[Tensor]) -> str:
    """sha256 of the columns' bits, one after the other."""
    digest = hashlib.sha256()
    for some in columns:
        digest.update(some.contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


def pack(path: str | Path, kind: str, tensors: dict[str, Tensor], about: dict) -> Path:
    """Writes a safetensors file that says what it is, whole or not at all: the same bytes for the same content, for its owner alone."""
    rows.write_text(
        path := Path(path),
        safetensors.torch.save(
            tensors, {"revs": json.dumps({"kind": kind, "format": FORMATS[kind], "about": about})}
        ),
        mode=0o600,
    )
    return path


def unpack(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict]:
    """What ``pack`` wrote."""
    try:
        with safe_open(path, "pt") as file:
            said, tensors = (
                json.loads((file.metadata() or {}).get("revs", "{}")),
                {name: file.get_tensor(name) for name in file.keys()},
            )
    except SafetensorError:
        raise ValueError(
            f"{path} is cut short, or is no safetensors file: take another copy."
        ) from None
    if said.get("kind") != kind:
        raise ValueError(f"{path} does not hold {kind} that revs saved: give another file.")
    if said["format"] != FORMATS[kind]:
        raise ValueError(
            f"{path} is of format {said['format']}, but this version reads format {FORMATS[kind]}: use the version of revs that wrote it."
        )
    return tensors, said["about"]
