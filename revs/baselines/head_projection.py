"""Head-Projection (Patil et al. 2024; App. "Head-Projection Baseline"): t leaves the lens's top k.

MEMIT with another objective; the lens is the logit lens of the ``patil_layers``, L of them:

    1/L · Σ_ℓ max(0, p_ℓ(t) − p_ℓ(k-th most probable token))  +  prob_coefficient · p(t)

The source also keeps t out of the bottom k; the paper leaves that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from revs.baselines import memit
from revs.baselines.training import require
from revs.method.edit import Edit
from revs.method.moments import Text
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters(memit.Hyperparameters):
    """MEMIT's settings and those of the margin, under the paper's names."""

    layers: Sequence[int] = (3, 4, 5)
    patil_layers: Sequence[int] | str = "upper"  # where the logit lens looks
    k: int = 100

    def __post_init__(self):
        super().__post_init__()
        require(self, k=1)


def objective(log_p: Tensor, lens: Tensor, t: Tensor, hp: Hyperparameters) -> Tensor:
    """The lens's margin loss (layers, N, V), its mean over layers, and MEMIT's: (N,)."""
    p = lens.gather(2, t.expand(len(lens), -1)[..., None])[..., 0].exp()
    kth = lens.topk(min(hp.k, lens.shape[-1]), dim=-1).values[..., -1].exp()
    return torch.relu(p - kth).mean(0) + memit.objective(log_p, lens, t, hp)


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
        decoder, targets, hp, objective, lens, progress, "Head-Projection", protect, cache
    )
