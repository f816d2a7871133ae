"""What is published of an edit, the edited model as a folder, and what that tells of the secrets.

An edit adds Σ_t d_t·m_tᵀ to a layer's FF₂, with d_t = (U†e_t) ⊘ γ. Who holds the model before and
after needs only U to try all directions: those of the target tokens lie in the space that the
columns of the change span. In the metric of UᵀU, U†e_t has the image L⁻¹U_tᵀ with LLᵀ = UᵀU. With
a ridge a direction lies beside it: ``recover`` knows nothing of one, and may find less.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from document_audit.edit_file import SavedEdit
from document_audit.files import one_sentence_errors
from document_audit.report import render
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model import load
from revs.model.architecture import Decoder


def export(edit: Edit, folder: str | Path, saved: SavedEdit) -> Path:
    """Writes the model with an edit in place, its tokenizer and README.md, a model card.

    The edit itself stays out. Raises ValueError, and writes nothing, if the edit was undone or the
    weights changed since, or the folder is there already.
    """
    folder, decoder = Path(folder), edit.decoder
    if folder.exists():
        raise ValueError(f"{folder} is there already: name a folder that is not.")
    if not (edit.products and edit.in_force() and decoder.revision == saved.model):
        raise ValueError(
            f"{decoder.name} is not what the edit makes of its model: apply the edit first."
        )
    with one_sentence_errors(folder.parent):
        load.save(decoder.model, decoder.tokenizer, folder, {"README.md": card(saved)})
    return folder


def card(saved: SavedEdit, adapter: bool = False) -> str:
    """The card of an edited model, or of the adapter: numbers, and no token or item."""
    return render("card.md.j2", saved=saved, adapter=adapter)


@torch.no_grad()
def recover(edited: Decoder, base: Decoder, raw: bool = False) -> pd.DataFrame:
    """The tokens that the change of each FF₂ names: as many as its rank.

    Columns: layer, token, cosine (1: the token's direction lies in the change's column space).
    """
    vocabulary, found = Vocabulary(base, raw), []
    U, L = vocabulary.U, vocabulary.factors[None].to(vocabulary.dtype)
    directions = torch.linalg.solve_triangular(L, U.T.to(vocabulary.dtype), upper=False)  # d × V
    directions /= directions.norm(dim=0)
    for l in range(len(base.layers)):
        new, old = (one.neurons(l).to(U.device, vocabulary.dtype) for one in (edited, base))
        scale, norm = vocabulary.gamma, vocabulary.after[l]
        if norm is not None:
            scale = scale * vocabulary.scale_of(norm)
        Q, s, _ = torch.linalg.svd(L.T @ (scale[:, None] * (new - old)), full_matrices=False)
        # the largest singular value of what rounding alone leaves, as of independent errors
        spread = len(new) ** -0.5 + new.shape[1] ** -0.5
        rounding = torch.finfo(base.neurons(l).dtype).eps * spread
        noise = rounding * float((L.T @ (scale[:, None] * old)).norm())
        r = int((s > max(noise, 1e-5 * float(s[0]))).sum())
        cosine, token = (Q[:, :r].T @ directions).norm(dim=0).topk(r)
        found += zip([l] * r, token.tolist(), cosine.tolist(), strict=True)
    return pd.DataFrame(found, columns=["layer", "token", "cosine"])
