"""Undoing an edit without the process that made it: the original columns as a local file (§3.2, step 4).

Who has the base model needs no such file: it *is* the model without the edit, and ``companion.own.artefact.apply`` on it gives an Edit to save
here at any time. The file is as confidential as the edit: beside the edited model it tells the difference (``companion.own.difference``).
"""

from __future__ import annotations

from pathlib import Path

import torch

from companion.own.sealed import hashed, pack, present, unpack
from revs.method.edit import Edit
from revs.model.architecture import Decoder

KIND = "the columns of an edit"


def save(path: str | Path, edit: Edit) -> Path:
    """Writes the original of every column that an edit changed. Raises ValueError for an edit of whole weights, or of none.

    >>> from companion.own import steps as own
    >>> edit = own.unlearn(decoder, found.targets, hp)
    >>> file = save(folder / "undo.safetensors", edit)
    >>> restore(decoder, file)
    >>> {one["exact"] for one in own.evaluate(decoder, found.targets).values()}
    {True}
    """
    if edit.whole or not edit.originals:
        raise ValueError(
            "This edit did not change single columns: save the base model with save_pretrained, and load it to undo the edit."
        )
    columns = {l: sorted(kept) for l, kept in sorted(edit.originals.items()) if kept}
    tensors = {
        str(l): torch.stack([edit.originals[l][n] for n in neurons])
        for l, neurons in columns.items()
    }
    return pack(
        path, KIND, tensors, {"columns": columns, "edited": hashed(present(edit.decoder, columns))}
    )


@torch.no_grad()
def restore(decoder: Decoder, path: str | Path) -> None:
    """Puts the original columns back into the edited model, bit by bit. Raises ValueError, and changes nothing, on another model."""
    tensors, about = unpack(path, KIND)
    columns = {int(l): neurons for l, neurons in about["columns"].items()}
    try:
        edited = hashed(present(decoder, columns))
    except IndexError:
        edited = None
    if edited != about["edited"]:
        raise ValueError(
            f"{decoder.name} is not the model that the edit left: load the edited model, in the precision of the edit."
        )
    for l, neurons in columns.items():
        decoder.neurons(l)[:, neurons] = tensors[str(l)].T.to(decoder.neurons(l).device)
