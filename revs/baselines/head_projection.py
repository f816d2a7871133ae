"""Head-Projection (Patil et al. 2024; Appendix "Head-Projection Baseline"): MEMIT that keeps t out of the top k of the logit lens.

    Σ over ``patil_layers`` of max(0, p_ℓ(t) − p_ℓ(k-th most probable token)) / their number  +  prob_coefficient · p(t)

The source also keeps t out of the bottom k; the paper leaves that out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.runs.benign import inputs
from revs.baselines import memit
from revs.baselines.prompts import chosen
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target

__all__ = ["Hyperparameters", "inputs", "objective", "unlearn"]


@dataclass(frozen=True)
class Hyperparameters(memit.Hyperparameters):
    """MEMIT's settings and those of the margin, under the paper's names."""

    layers: Sequence[int] = (3, 4, 5)
    patil_layers: Sequence[int] | str = "upper"  # where the logit lens looks
    k: int = 100

    def __post_init__(self):
        super().__post_init__()
        if self.k < 1:
            raise ValueError(
                f"k is {self.k}, but must be at least 1: t is kept out of the k most probable tokens."
            )


def objective(log_p: Tensor, lens: Tensor, t: Tensor, hp: Hyperparameters) -> Tensor:
    """The margin loss of the lens (layers, N, V), its mean over layers, and MEMIT's: (N,)."""
    p = lens.gather(2, t.expand(len(lens), -1)[..., None])[..., 0].exp()
    kth = lens.topk(min(hp.k, lens.shape[-1]), dim=-1).values[..., -1].exp()
    return torch.relu(p - kth).mean(0) + memit.objective(log_p, lens, t, hp)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """Unlearns all targets together. Nothing is drawn at random. Raises FloatingPointError if it diverges."""
    return memit.rewrite(
        decoder,
        targets,
        hp,
        lambda log_p, lens, t: objective(log_p, lens, t, hp),
        chosen(decoder, hp.patil_layers),
        progress,
        "Head-Projection",
    )
