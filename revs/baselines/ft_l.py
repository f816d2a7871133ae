"""FT-L, constrained fine-tuning (Zhu et al. 2020; Appendix "FT-L Baseline").

FF₂ of every layer is trained to lower the targets' probability, within an L∞ ball:

    min_θ  1/N Σᵢ p_θ(tᵢ | Pᵢ)   subject to   ‖θ − θ₀‖_∞ ≤ norm_constraint
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from revs.baselines.training import Pair, Training, chunks, log_p
from revs.method.edit import Edit
from revs.method.settings import require
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1
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
        require(self, "lr", "norm_constraint", steps=1, batch=1)


def objective(log_p: Tensor) -> Tensor:
    """Σᵢ p(tᵢ), of log-probabilities (B,)."""
    return log_p.exp().sum()


def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Unlearns all targets together; draws nothing. FloatingPointError if it diverges."""
    todo = pairs(sorted(targets, key=lambda target: len(target.prompt_ids)))  # saves padding
    with Training(decoder, decoder.ff2_names(hp.layers), hp.lr, "FT-L") as training:
        for _ in progress(range(hp.steps)):
            parts = chunks(todo, hp.batch)
            p = sum(descend(decoder, batch, hp, training) * len(batch) for batch in parts)
            if p / len(todo) < hp.loss_break:
                break
    return training.edit


def descend(
    decoder: Decoder, batch: Sequence[Pair], hp: Hyperparameters, training: Training
) -> float:
    """One step on a batch, unless its mean probability (returned) is low enough already."""
    training.clear()
    loss = lambda some: objective(log_p(decoder, some)) / len(batch)
    p = sum(training.backward(loss(some)) for some in chunks(batch, TOGETHER))
    if p >= hp.loss_break:
        training.step()
        training.clamp(hp.norm_constraint)
    return p
