"""Second moments of FF₂'s inputs, E[a·aᵀ]: what MEMIT takes for the memories that must stay (Meng et al. 2023, Eq. 14).

They are averaged over benign text (``revs.benign``; the source takes 100,000 samples of Wikipedia) and kept by content
under build/cache: a product that is computed once for a model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from revs import benign, rows
from revs.architecture import Decoder, Stop
from revs.baselines.prompts import chunks
from revs.load import tokenizer_hash
from revs.paths import BUILD

WINDOW, TOGETHER = 128, 16  # tokens of a window, windows of a forward pass
PER_NEURON = 24  # tokens for each neuron: a matrix of rank ff from fewer samples would be a poor estimate


def moments(decoder: Decoder, layers: Sequence[int]) -> dict[int, Tensor]:
    """E[a·aᵀ] of some layers at the present weights: {layer: (ff, ff)}, float32."""
    return {l: moment(decoder, l) for l in layers}


@torch.no_grad()
def moment(decoder: Decoder, layer: int) -> Tensor:
    """One layer's, from the cache if this very model's is there."""
    windows = -(-PER_NEURON * decoder.neurons(layer).shape[1] // WINDOW)
    sums = [float(weight.double().sum()) for weight in decoder.model.parameters()]
    kept = BUILD / "cache" / f"moment-{rows.digest([sums, layer, windows, tokenizer_hash(decoder.tokenizer), benign.inputs()])[:16]}.safetensors"
    if not kept.is_file():
        rows.write_text(kept, save({"moment": measure(decoder, layer, windows).cpu()}))
    return load_file(kept)["moment"].to(decoder.ff2[layer].weight.device)


def measure(decoder: Decoder, layer: int, windows: int) -> Tensor:
    """The moment, by forward passes that end at the layer."""
    ff = decoder.neurons(layer).shape[1]
    total, count = torch.zeros(ff, ff, device=decoder.ff2[layer].weight.device), 0

    def add(_module, args):
        nonlocal count
        a = args[0].flatten(0, -2).float()
        total.addmm_(a.T, a)
        count += len(a)
        raise Stop

    for some in chunks(benign.windows(decoder.tokenizer, windows, min(WINDOW, decoder.context)), TOGETHER):
        decoder.run([decoder.ff2[layer].register_forward_pre_hook(add)], input_ids=decoder.pad(some)[0])
    return total / count
