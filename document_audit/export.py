"""What is published of an edit, the edited model as a folder, and what that tells of the secrets.

REVS moves a column by Σ c_t·d_t with d_t = (U†e_t) ⊘ γ. Who holds the model before and after needs
only U to try all directions. In the metric of UᵀU, in which U†e_t has the image L⁻¹U_tᵀ with
LLᵀ = UᵀU, a column that moved for one token lies exactly on its direction. With a ridge, which the
tool's own settings have, it lies beside it: ``recover`` knows nothing of one, and may find less.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from document_audit.edit_file import SavedEdit, columns_hash, current_columns
from document_audit.files import one_sentence_errors
from document_audit.report import render
from revs.method.vocabulary import Vocabulary
from revs.model import load
from revs.model.architecture import Decoder


def export(decoder: Decoder, folder: str | Path, saved: SavedEdit) -> Path:
    """Writes the model that the edit was applied to, its tokenizer and README.md, a model card.

    The edit file itself stays out. Raises ValueError, and writes nothing, if the model is not what
    the edit made, or the folder is there already.
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder} is there already: name a folder that is not.")
    here = columns_hash(current_columns(decoder, saved.columns))
    if decoder.revision != saved.model or saved.edited != here:
        raise ValueError(
            f"{decoder.name} is not what the edit makes of its model: apply the edit first."
        )
    with one_sentence_errors(folder.parent):
        extra = {"README.md": card(decoder.name, saved)}
        load.save(decoder.model, decoder.tokenizer, folder, extra)
    return folder


def card(name: str, saved: SavedEdit) -> str:
    """The model card: numbers, and no token or item."""
    return render("card.md.j2", name=name, saved=saved)


@torch.no_grad()
def recover(edited: Decoder, base: Decoder, raw: bool = False) -> pd.DataFrame:
    """The token that each changed column of FF₂ names, the one that it was moved away from most.

    Columns: layer, neuron, token, cosine (1: the change lies on that token's direction alone).
    """
    vocabulary, found = Vocabulary(base, raw), []
    U, L = vocabulary.U, vocabulary.factors[None].to(vocabulary.dtype)
    directions = torch.linalg.solve_triangular(L, U.T.to(vocabulary.dtype), upper=False)  # d × V
    directions /= directions.norm(dim=0)
    for l in range(len(base.layers)):
        new, old = (one.neurons(l).to(U.device, vocabulary.dtype) for one in (edited, base))
        change = new - old  # d × ff
        neurons = change.any(0).nonzero()[:, 0]
        scale, norm = vocabulary.gamma, vocabulary.after[l]
        if norm is not None:
            scale = scale * vocabulary.scale_of(norm)
        y = L.T @ (scale[:, None] * change[:, neurons])
        # V × columns: REVS demotes, c < 0
        cosine, token = (directions.T @ (-y / y.norm(dim=0))).max(0)
        layer = [l] * len(neurons)
        found += zip(layer, neurons.tolist(), token.tolist(), cosine.tolist(), strict=True)
    return pd.DataFrame(found, columns=["layer", "neuron", "token", "cosine"])
