"""NPO-KL, negative preference optimisation with a KL term (Zhang et al. 2024; Appendix "NPO-KL Baseline").

    L = 2/β · E[ log(1 + (p_θ(t)/p_ref(t))^β) ]  +  kl_coefficient · E[ KL(p_ref ‖ p_θ) on benign text ]

The paper's Appendix words the first term as its opposite; the formula is its source's. All weights are trained.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import kl_div, logsigmoid

from companion.runs import benign
from companion.runs.benign import inputs
from revs.baselines.prompts import chunks, log_p, tail
from revs.baselines.training import Training
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

__all__ = ["Hyperparameters", "inputs", "objective", "train", "unlearn"]
WINDOW = 32  # tokens of benign text beside each target


@dataclass(frozen=True)
class Hyperparameters:
    """NPO-KL's settings, under the paper's names."""

    lr: float = 1e-5
    epochs: int = 2
    beta: float = 0.1
    kl_coefficient: float = 1.0
    n_max_len: int = 100  # characters of a prompt that are kept
    batch: int = 4

    def __post_init__(self):
        if not (self.lr > 0 and self.beta > 0) or self.kl_coefficient < 0:
            raise ValueError(
                f"lr is {self.lr}, beta {self.beta} and kl_coefficient {self.kl_coefficient}, but lr and beta must be positive and kl_coefficient not negative."
            )
        if min(self.epochs, self.batch, self.n_max_len) < 1:
            raise ValueError(
                f"epochs is {self.epochs}, batch {self.batch} and n_max_len {self.n_max_len}, but each must be at least 1."
            )


def objective(log_p: Tensor, reference: Tensor, beta: float) -> Tensor:
    """The NPO loss of log p_θ(t) and log p_ref(t), both (B,): −2/β · mean log σ(−β·(log p_θ − log p_ref))."""
    return -2 / beta * logsigmoid(-beta * (log_p - reference)).mean()


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """Unlearns all targets, in an order that ``seed`` draws. Raises FloatingPointError if it diverges."""
    return train(
        decoder,
        targets,
        hp,
        lambda log_p, reference: objective(log_p, reference, hp.beta),
        seed,
        progress,
        "NPO-KL",
    )


def train(
    decoder: Decoder,
    targets: Sequence[Target],
    hp,
    forget: Callable[[Tensor, Tensor], Tensor],
    seed: int,
    progress: Callable[[int, int], None],
    what: str,
) -> Edit:
    """Epochs over the targets, each batch with as many windows of benign text: forget(log p_θ, log p_ref) + KL."""
    todo = [(tail(decoder, ids, hp.n_max_len), t) for ids, t in pairs(targets)]
    texts = benign.windows(decoder.tokenizer, len(todo), WINDOW)
    with torch.no_grad():
        head = copy.deepcopy(decoder.head)
        before = torch.cat([log_p(decoder, some) for some in chunks(todo, hp.batch)])
        hidden = torch.cat([states(decoder, some) for some in chunks(texts, hp.batch)])
    order, draw = list(range(len(todo))), random.Random(seed)
    steps, done = hp.epochs * -(-len(todo) // hp.batch), 0
    with Training(
        decoder, [name for name, _ in decoder.model.named_parameters()], hp.lr, what
    ) as training:
        for _ in range(hp.epochs):
            draw.shuffle(order)
            for some in chunks(order, hp.batch):
                progress(done, steps)
                training.clear()
                training.backward(forget(log_p(decoder, [todo[i] for i in some]), before[some]))
                if hp.kl_coefficient:
                    with torch.no_grad():
                        wanted = decoder.logits(hidden[some], head).log_softmax(-1)
                    training.backward(
                        hp.kl_coefficient
                        * divergence(
                            wanted,
                            decoder.logits(states(decoder, [texts[i] for i in some])).log_softmax(
                                -1
                            ),
                        )
                    )
                training.step()
                done += 1
    progress(steps, steps)
    return training.edit


def states(decoder: Decoder, texts: Sequence[list[int]]) -> Tensor:
    """Final hidden states of texts of equal length: (B, T, d)."""
    return decoder.model.base_model(
        input_ids=decoder.pad(texts)[0], use_cache=False
    ).last_hidden_state


def divergence(reference: Tensor, present: Tensor) -> Tensor:
    """KL(p_ref ‖ p_θ) of log-probabilities (…, V), its mean over positions."""
    return kl_div(
        present.flatten(0, -2), reference.flatten(0, -2), reduction="batchmean", log_target=True
    )
