"""How active neurons are in ordinary text: what a selective choice of neurons compares with.

Not the paper's. The k most activated neurons at a secret are also those that are active everywhere,
and whoever moves such a column is felt by every text. ``neurons: selective`` takes the k of largest

    a_j / σ_j,  σ_j = √(mean over ordinary text of a_j²)

instead, neurons that are far more active at the secret than they usually are; of these it takes the
n_max in which t ranks highest, as the paper does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from revs.measures import ordinary
from revs.model.architecture import Decoder

WINDOWS = range(40, 56)  # of ordinary text, which judge and choose nothing
LEAST = 1e-3  # of a layer's mean σ: a neuron that never speaks is not infinitely selective


@torch.no_grad()
def usual(decoder: Decoder) -> list[Tensor]:
    """σ of every neuron, layer by layer: [(ff,), …], in float32."""
    length = min(ordinary.WINDOW, decoder.context)
    texts = ordinary.pieces(decoder.tokenizer, WINDOWS.stop, length)[WINDOWS.start :]
    squares: list[Tensor | float] = [0.0] * len(decoder.layers)

    def adding(l: int):
        def add(_module, args):
            squares[l] = squares[l] + args[0].flatten(0, -2).float().square().sum(0)

        return add

    for ids in texts:
        handles = [ff2.register_forward_pre_hook(adding(l)) for l, ff2 in enumerate(decoder.ff2)]
        decoder.run(handles, input_ids=decoder.pad([ids])[0])
    found = [(total / (len(texts) * length)).sqrt() for total in squares]
    return [sigma.clamp_min(LEAST * sigma.mean()) for sigma in found]
