"""What the difference of two checkpoints tells about an edit: the tokens that it demoted.

REVS moves a column by Σ c_t·d_t with d_t = (U†e_t) ⊘ γ. Who holds the model before and after needs only U to try all directions. In the
metric of UᵀU, in which U†e_t has the image L⁻¹U_tᵀ with LLᵀ = UᵀU, a column that moved for one token lies exactly on its direction.
"""

from __future__ import annotations

import pandas as pd
import torch

from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder


@torch.no_grad()
def recover(edited: Decoder, base: Decoder, raw: bool = False) -> pd.DataFrame:
    """The token along whose direction each changed column of FF₂ was moved away most: layer, neuron, token, cosine (1: along it alone).

    >>> from companion.own import steps as own
    >>> from revs.model import load
    >>> edit = own.unlearn(decoder, found.targets, hp)
    >>> len(recover(decoder, load.load(model))) == edit.summary()["columns"]
    True
    """
    vocabulary, found = Vocabulary(base, raw), []
    directions = torch.linalg.solve_triangular(
        vocabulary.factor.to(vocabulary.dtype), vocabulary.U.T.to(vocabulary.dtype), upper=False
    )  # d × V
    directions /= directions.norm(dim=0)
    for l in range(len(base.layers)):
        change = edited.neurons(l).to(vocabulary.U.device, vocabulary.dtype) - base.neurons(l).to(
            vocabulary.U.device, vocabulary.dtype
        )  # d × ff
        changed = change.any(0).nonzero()[:, 0]
        scale = (
            vocabulary.gamma
            if vocabulary.after[l] is None
            else vocabulary.gamma * vocabulary.scale_of(vocabulary.after[l])
        )
        y = vocabulary.factor.T.to(vocabulary.dtype) @ (scale[:, None] * change[:, changed])
        cosine, token = (directions.T @ (-y / y.norm(dim=0))).max(
            0
        )  # V × columns: REVS demotes, c < 0
        found += zip([l] * len(changed), changed.tolist(), token.tolist(), cosine.tolist())
    return pd.DataFrame(found, columns=["layer", "neuron", "token", "cosine"])
