"""Max-Entropy (Patil et al. 2024; Appendix "Max-Entropy Baseline"): MEMIT that makes the logit lens say nothing.

    Σ over ``patil_layers`` of (log V − H(p_ℓ)) / their number  +  prob_coefficient · p(t)

The source maximises the entropy H itself, which has the same gradient; log V makes the loss positive, so that
``loss_break`` has a meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        "Max-Entropy",
    )
