"""RMU, representation misdirection for unlearning (Li et al. 2024; Appendix "RMU Baseline").

At one layer, the last token's stream is steered to a random direction u, the stream on benign text is held:

    L = ‖x_θ(P) − c·u‖² / d  +  α · ‖x_θ(benign) − x₀(benign)‖² / d        with c the steering coefficient

FF₂ of the layers up to it is trained.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from companion.runs import benign
from companion.runs.benign import inputs
from revs.baselines.prompts import chosen, chunks, ff2_names
from revs.baselines.training import Training
from revs.method.edit import Edit
from revs.model.architecture import Decoder, Stop, stream_of
from revs.model.targets import Target, pairs

__all__ = ["Hyperparameters", "inputs", "objective", "unlearn"]
WINDOW = 32  # tokens of benign text beside each target


@dataclass(frozen=True)
class Hyperparameters:
    """RMU's settings, under the paper's names."""

    lr: float = 5e-5
    epochs: int = 2
    alpha: float = 100.0
    steering_coefficient: float = 20.0
    layer_id: int = 7  # where the stream is steered and held
    layers: Sequence[int] = (5, 6, 7)  # whose FF₂ is trained
    batch: int = 4

    def __post_init__(self):
        if not self.lr > 0 or self.alpha < 0:
            raise ValueError(
                f"lr is {self.lr} and alpha {self.alpha}, but lr must be positive and alpha not negative."
            )
        if min(self.epochs, self.batch) < 1:
            raise ValueError(
                f"epochs is {self.epochs} and batch {self.batch}, but each must be at least 1."
            )
        if not self.layers:
            raise ValueError(
                "layers are [], but FF₂ of at least one layer must be trained: name some that the model has."
            )
        if max(self.layers) > self.layer_id:
            raise ValueError(
                f"layers are {list(self.layers)} and layer_id is {self.layer_id}, but a layer above layer_id has no gradient: leave it out."
            )


def stream(decoder: Decoder, texts: Sequence[list[int]], layer: int) -> tuple[Tensor, Tensor]:
    """The residual stream after a layer, (B, T, d), and the place of each text's last token; later layers are not run."""
    found = []

    def stop(_module, _inputs, output):
        found.append(stream_of(output).float())
        raise Stop

    ids, mask = decoder.pad(texts)
    decoder.run(
        [decoder.layers[layer].register_forward_hook(stop)], input_ids=ids, attention_mask=mask
    )
    return found[0], mask.sum(1) - 1


def objective(last: Tensor, wanted: Tensor, held: Tensor, frozen: Tensor, alpha: float) -> Tensor:
    """The RMU loss of last tokens' streams (B, d) against c·u (d,), and of benign streams (B, T, d) against frozen ones."""
    return mse_loss(last, wanted.expand_as(last)) + alpha * mse_loss(held, frozen)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """Unlearns all targets; ``seed`` draws u and their order. Raises FloatingPointError if it diverges."""
    chosen(decoder, [hp.layer_id])
    todo = [ids for ids, _ in pairs(targets)]
    texts = benign.windows(decoder.tokenizer, len(todo), WINDOW)
    with torch.no_grad():
        frozen = torch.cat(
            [stream(decoder, some, hp.layer_id)[0] for some in chunks(texts, hp.batch)]
        )
    u = torch.rand(frozen.shape[-1], generator=torch.Generator().manual_seed(seed)).to(frozen)
    wanted = hp.steering_coefficient * u / u.norm()
    order, draw = list(range(len(todo))), random.Random(seed)
    steps, done = hp.epochs * -(-len(todo) // hp.batch), 0
    with Training(
        decoder, ff2_names(decoder, chosen(decoder, hp.layers)), hp.lr, "RMU"
    ) as training:
        for _ in range(hp.epochs):
            draw.shuffle(order)
            for some in chunks(order, hp.batch):
                progress(done, steps)
                training.clear()
                x, last = stream(decoder, [todo[i] for i in some], hp.layer_id)
                held, _ = stream(decoder, [texts[i] for i in some], hp.layer_id)
                training.backward(
                    objective(
                        x[torch.arange(len(some)), last], wanted, held, frozen[some], hp.alpha
                    )
                )
                training.step()
                done += 1
    progress(steps, steps)
    return training.edit
