"""SimNPO (Fan et al. 2024), not in the paper: NPO without a reference model, the seventh baseline.

    L = 2/β · E[ log(1 + (p_θ(t)·e^γ)^β) ]  +  kl_coefficient · KL, as in NPO-KL

A target of one token has length 1: SimNPO's normalisation by length changes nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from revs.baselines import npo_kl
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters(npo_kl.Hyperparameters):
    """NPO-KL's settings and the margin γ, 0 in most of its source's experiments."""

    gamma: float = 0.0


def objective(log_p: Tensor, beta: float, gamma: float) -> Tensor:
    """The SimNPO loss of log p_θ(t), (B,): −2/β · mean log σ(−β·(log p_θ + γ)), γ as coded."""
    return -2 / beta * logsigmoid(-beta * (log_p + gamma)).mean()


def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Unlearns all targets, in an order that ``seed`` draws. FloatingPointError if it diverges."""
    forget = lambda log_p, _: objective(log_p, hp.beta, hp.gamma)
    return npo_kl.train(decoder, targets, hp, forget, seed, progress, "SimNPO")
