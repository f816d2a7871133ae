"""Second moments of FF₂'s inputs, E[a·aᵀ]: what MEMIT takes for the memories that must stay (Meng et al. 2023, Eq. 14).

They are averaged over benign text (``companion.runs.benign``; the source takes 100,000 samples of Wikipedia) and kept by content
under build/cache: a product that is computed once for a model.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from companion.record import rows
from companion.record.paths import BUILD
from companion.runs import benign
from revs.baselines.prompts import chunks
from revs.model.architecture import Decoder, Stop
from revs.model.load import tokenizer_hash

WINDOW, TOGETHER = 128, 16  # tokens of a window, windows of a forward pass
PER_NEURON = (
    24  # tokens for each neuron: a matrix of rank ff from fewer samples would be a poor estimate
)


@torch.no_grad()
def moments(decoder: Decoder, layers: Sequence[int]) -> dict[int, Tensor]:
    """E[a·aᵀ] of some layers at the present weights: {layer: (ff, ff)}, float32; from the cache where this very model's are there."""
    windows = -(-PER_NEURON * decoder.neurons(0).shape[1] // WINDOW)
    sums = [float(weight.double().sum()) for weight in decoder.model.parameters()]
    kept = {
        l: BUILD
        / "cache"
        / f"moment-{rows.digest([sums, l, windows, tokenizer_hash(decoder.tokenizer), benign.inputs()])[:16]}.safetensors"
        for l in layers
    }
    if absent := [l for l, file in kept.items() if not file.is_file()]:
        for l, found in measure(decoder, absent, windows).items():
            rows.write_text(kept[l], save({"moment": found.cpu()}))
    return {
        l: load_file(file)["moment"].to(decoder.ff2[l].weight.device) for l, file in kept.items()
    }


def measure(decoder: Decoder, layers: Sequence[int], windows: int) -> dict[int, Tensor]:
    """The moments, by forward passes that end at the last of the layers."""
    ff = decoder.neurons(0).shape[1]
    total, count = (
        {l: torch.zeros(ff, ff, device=decoder.ff2[l].weight.device) for l in layers},
        dict.fromkeys(layers, 0),
    )

    def adding(l: int):
        def add(_module, args):
            a = args[0].flatten(0, -2).float()
            total[l].addmm_(a.T, a)
            count[l] += len(a)
            if l == max(layers):
                raise Stop

        return add

    for some in chunks(
        benign.windows(decoder.tokenizer, windows, min(WINDOW, decoder.context)), TOGETHER
    ):
        decoder.run(
            [decoder.ff2[l].register_forward_pre_hook(adding(l)) for l in layers],
            input_ids=decoder.pad(some)[0],
        )
    return {l: total[l] / count[l] for l in layers}
