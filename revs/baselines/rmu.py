"""RMU, representation misdirection for unlearning (Li et al. 2024; Appendix "RMU Baseline").

At one layer, the last token's stream is steered to a random direction u; general text's is held:

    L = ‖x_θ(P) − c·u‖² / d  +  α · ‖x_θ(general) − x₀(general)‖² / d,   c: steering_coefficient

FF₂ of the layers up to it is trained.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from revs.baselines.training import Training, chunks, epochs, retained
from revs.method.edit import Edit
from revs.method.moments import Text
from revs.method.settings import require
from revs.model.architecture import Decoder, Stop, stream_of
from revs.model.targets import Target, pairs

VERSION = 1


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
        require(self, "lr", epochs=1, batch=1, alpha=0)
        if not self.layers or max(self.layers) > self.layer_id:
            said = f"layers are {list(self.layers)}, but must be some up to layer_id, which is "
            raise ValueError(f"{said}{self.layer_id}: those above have no gradient.")


def stream(decoder: Decoder, texts: Sequence[list[int]], layer: int) -> tuple[Tensor, Tensor]:
    """The stream after a layer, (B, T, d), and each text's last place; later layers are not run."""
    found = []

    def stop(_module, _inputs, output):
        found.append(stream_of(output).float())
        raise Stop

    ids, mask = decoder.pad(texts)
    with contextlib.suppress(Stop), decoder.layers[layer].register_forward_hook(stop):
        decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    return found[0], (mask.sum(1) - 1).to(found[0].device)


def objective(last: Tensor, wanted: Tensor, held: Tensor, frozen: Tensor, alpha: float) -> Tensor:
    """The loss of last tokens' streams (B, d) against c·u (d,), and of general ones (B, T, d)."""
    return mse_loss(last, wanted.expand_as(last)) + alpha * mse_loss(held, frozen)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress=iter,
    protect: Sequence[Text] = (),
) -> Edit:
    """Unlearns all targets; ``seed`` draws u and the targets' order. The streams of ``protect`` are
    held like those of general text. Raises FloatingPointError if it diverges."""
    at = decoder.layer_indices([hp.layer_id])[0]
    todo = [ids for ids, _ in pairs(targets)]
    texts = retained(decoder, len(todo), protect)
    with torch.no_grad():
        frozen = torch.cat([stream(decoder, some, at)[0] for some in chunks(texts, hp.batch)])
    u = torch.rand(frozen.shape[-1], generator=torch.Generator().manual_seed(seed)).to(frozen)
    wanted = hp.steering_coefficient * u / u.norm()
    with Training(decoder, decoder.ff2_names(hp.layers), hp.lr, "RMU") as training:
        for some in progress(epochs(hp.epochs, len(todo), hp.batch, seed)):
            training.clear()
            x, last = stream(decoder, [todo[i] for i in some], at)
            held, _ = stream(decoder, [texts[i] for i in some], at)
            steered = x[torch.arange(len(some), device=x.device), last]
            training.backward(objective(steered, wanted, held, frozen[some], hp.alpha))
            training.step()
    return training.edit
