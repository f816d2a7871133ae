"""NPO-KL, negative preference optimisation with a KL term (Zhang et al. 2024; App. "NPO-KL …").

    L = 2/β · E[ log(1 + (p_θ(t)/p_ref(t))^β) ]
        + kl_coefficient · E[ KL(p_ref ‖ p_θ) on general text ]

The paper's Appendix words the first term as its opposite; the formula is its source's. All weights
are trained, or those of some blocks.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import kl_div, logsigmoid

from revs.baselines.training import Training, chunks, epochs, log_p, retained, tail
from revs.method.edit import Edit
from revs.method.moments import Text
from revs.method.settings import require
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters:
    """NPO-KL's settings, under the paper's names."""

    lr: float = 1e-5
    epochs: int = 2
    beta: float = 0.1
    kl_coefficient: float = 1.0
    n_max_len: int = 100  # characters of a prompt that are kept
    batch: int = 4
    layers: Sequence[int] | str = "all"  # "all": every weight; else those of some blocks

    def __post_init__(self):
        require(self, "lr", "beta", epochs=1, batch=1, n_max_len=1, kl_coefficient=0)


def objective(log_p: Tensor, reference: Tensor, beta: float) -> Tensor:
    """The NPO loss of log p_θ(t) and log p_ref(t), both (B,).

    −2/β · mean log σ(−β·(log p_θ − log p_ref))
    """
    return -2 / beta * logsigmoid(-beta * (log_p - reference)).mean()


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress=iter,
    protect: Sequence[Text] = (),
) -> Edit:
    """Unlearns all targets, in an order that ``seed`` draws; the KL is also taken on ``protect``.

    Raises FloatingPointError if it diverges.
    """
    todo = [(tail(decoder, ids, hp.n_max_len), t) for ids, t in pairs(targets)]
    texts = retained(decoder, len(todo), protect)
    with torch.no_grad():
        head = copy.deepcopy(decoder.head)
        before = torch.cat([log_p(decoder, some) for some in chunks(todo, hp.batch)])
        hidden = torch.cat([states(decoder, some) for some in chunks(texts, hp.batch)])
    names = [name for name, _ in decoder.model.named_parameters()]
    if hp.layers != "all":
        blocks = [f"{decoder.architecture.layers}.{l}." for l in decoder.layer_indices(hp.layers)]
        names = [name for name in names if name.startswith(tuple(blocks))]
    with Training(decoder, names, hp.lr, "NPO-KL") as training:
        for some in progress(epochs(hp.epochs, len(todo), hp.batch, seed)):
            training.clear()
            present = log_p(decoder, [todo[i] for i in some])
            training.backward(objective(present, before[some], hp.beta))
            if hp.kl_coefficient:
                with torch.no_grad():
                    wanted = decoder.logits(hidden[some], head).log_softmax(-1)
                present = decoder.logits(states(decoder, [texts[i] for i in some])).log_softmax(-1)
                pair = present.flatten(0, -2), wanted.flatten(0, -2)
                divergence = kl_div(*pair, reduction="batchmean", log_target=True)
                training.backward(hp.kl_coefficient * divergence)
            training.step()
    return training.edit


def states(decoder: Decoder, texts: Sequence[list[int]]) -> Tensor:
    """Final hidden states of texts of equal length: (B, T, d)."""
    ids, _ = decoder.pad(texts)
    return decoder.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
