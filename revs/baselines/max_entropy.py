"""Max-Entropy (Patil et al. 2024; App. "Max-Entropy Baseline"): the logit lens says nothing.

MEMIT with another objective; the lens is the logit lens of the ``patil_layers``, L of them:

    1/L · Σ_ℓ (log V − H(p_ℓ))  +  prob_coefficient · p(t)

The source maximises the entropy H itself, which has the same gradient; log V makes the loss
positive, so that ``loss_break`` has a meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from revs.baselines import memit
from revs.method.edit import Edit
from revs.method.moments import Text
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters(memit.Hyperparameters):
    """MEMIT's settings and the layers of the logit lens, under the paper's names."""

    layers: Sequence[int] = (3, 4, 5)
    patil_layers: Sequence[int] | str = "upper"


def objective(log_p: Tensor, lens: Tensor, t: Tensor, hp: Hyperparameters) -> Tensor:
    """log V − entropy of the lens (layers, N, V), its mean over layers, and MEMIT's: (N,)."""
    entropy = -(lens.exp() * lens).sum(-1)
    return (math.log(lens.shape[-1]) - entropy).mean(0) + memit.objective(log_p, lens, t, hp)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress=iter,
    protect: Sequence[Text] = (),
    cache: Path | None = None,
) -> Edit:
    """Unlearns all targets together; draws nothing. ``protect``, ``cache``: as of ``memit``.

    Raises FloatingPointError if it diverges.
    """
    lens = decoder.layer_indices(hp.patil_layers)
    return memit.rewrite(
        decoder, targets, hp, objective, lens, progress, "Max-Entropy", protect, cache
    )
