"""FT-L, constrained fine-tuning (Zhu et al. 2020; Appendix "FT-L Baseline").

FF₂ of every layer follows the gradient that lowers the targets' probability, and stays within an L∞ ball:

    min_θ  1/N Σᵢ p_θ(tᵢ | Pᵢ)   subject to   ‖θ − θ₀‖_∞ ≤ norm_constraint
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from revs.baselines.prompts import Pair, chosen, chunks, ff2_names, log_p
from revs.baselines.training import Training
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

TOGETHER = 16  # prompts of one forward pass: gradients add up to the batch's


@dataclass(frozen=True)
class Hyperparameters:
    """FT-L's settings, under the paper's names."""

    lr: float = 1e-5
    steps: int = 10  # passes over all targets, at most
    loss_break: float = 1e-2  # stop when the targets' mean probability is lower
    norm_constraint: float = 1e-3  # the ball's radius, in units of a weight
    layers: Sequence[int] | str = "all"
    batch: int = 64  # targets of one step

    def __post_init__(self):
        if not (self.lr > 0 and self.norm_constraint > 0):
            raise ValueError(
                f"lr is {self.lr} and norm_constraint {self.norm_constraint}, but both must be positive."
            )
        if self.steps < 1 or self.batch < 1:
            raise ValueError(
                f"steps is {self.steps} and batch {self.batch}, but both must be at least 1."
            )


def objective(log_p: Tensor) -> Tensor:
    """Σᵢ p(tᵢ), of log-probabilities (B,)."""
    return log_p.exp().sum()


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """Unlearns all targets together. Nothing is drawn at random. Raises FloatingPointError if it diverges."""
    todo = pairs(
        sorted(targets, key=lambda target: len(target.prompt_ids))
    )  # neighbours of one length waste no padding
    with Training(
        decoder, ff2_names(decoder, chosen(decoder, hp.layers)), hp.lr, "FT-L"
    ) as training:
        for step in range(hp.steps):
            progress(step, hp.steps)
            if (
                sum(
                    descend(decoder, batch, hp, training) * len(batch)
                    for batch in chunks(todo, hp.batch)
                )
                / len(todo)
                < hp.loss_break
            ):
                break
    progress(hp.steps, hp.steps)
    return training.edit


def descend(
    decoder: Decoder, batch: Sequence[Pair], hp: Hyperparameters, training: Training
) -> float:
    """One step on one batch, if its mean probability (returned) is not low enough already."""
    training.clear()
    p = sum(
        training.backward(objective(log_p(decoder, some)) / len(batch))
        for some in chunks(batch, TOGETHER)
    )
    if p >= hp.loss_break:
        training.step()
        with torch.no_grad():
            training.clamp(hp.norm_constraint)
    return p
