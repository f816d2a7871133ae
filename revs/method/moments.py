"""Second moments C = E[a·aᵀ] of FF₂'s inputs a over texts of some kind.

MEMIT (its Eq. 14) and the least-squares write use them to affect these texts as little as possible.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from revs.model.architecture import Decoder, Stop
from revs.model.load import tokenizer_hash
from revs.model.text import WINDOW, text_inputs, training_windows

TOGETHER = 16  # texts of a forward pass
LARGEST = 4 * 2**30  # bytes of a model's moments that are kept on disk
# token ids, and either the first position that counts or a list of all positions that count
Text = tuple[list[int], int | Sequence[int]]


@dataclass(frozen=True)
class Sample:
    """Activations in rows, (m, ff), of which C = rowsᵀ·rows / m: smaller than C where m < ff."""

    rows: Tensor


def second_moments(
    decoder: Decoder, texts: Sequence[Text], layers: Sequence[int]
) -> dict[int, Tensor]:
    """E[a·aᵀ] over the positions that count in ``texts``: {layer: (ff, ff)}, float32."""
    ff = decoder.neurons(0).shape[1]
    on = {l: decoder.ff2[l].weight.device for l in layers}
    total = {l: torch.zeros(ff, ff, dtype=torch.float32, device=on[l]) for l in layers}

    def add(l: int, a: Tensor) -> None:
        total[l].addmm_(a.float().T, a.float())

    number = read_activations(decoder, texts, layers, add)
    return {l: sums / number for l, sums in total.items()}


def samples(decoder: Decoder, texts: Sequence[Text], layers: Sequence[int]) -> dict[int, Sample]:
    """The activations at the positions given with texts, by layer."""
    found: dict[int, list[Tensor]] = {l: [] for l in layers}
    read_activations(decoder, texts, layers, lambda l, a: found[l].append(a))
    return {l: Sample(torch.cat(parts)) for l, parts in found.items()}


def read_activations(
    decoder: Decoder,
    texts: Sequence[Text],
    layers: Sequence[int],
    at_layer: Callable[[int, Tensor], object],
) -> int:
    """Calls ``at_layer(l, a)`` with FF₂'s inputs a, (m, ff), at the positions that count, batch by
    batch; returns the number of positions."""
    number = 0
    for start in range(0, len(texts), TOGETHER):
        some = texts[start : start + TOGETHER]
        ids, mask = decoder.pad([text for text, _ in some])
        counted = torch.zeros_like(mask, dtype=torch.bool)
        for row, (text, first) in zip(counted, some, strict=True):
            row[list(range(first, len(text)) if isinstance(first, int) else first)] = True

        def look(l: int, a: Tensor, h: Tensor, x: Tensor, counted=counted) -> None:
            if l in layers:
                at_layer(l, a[counted.to(a.device)])
            if l == max(layers):
                raise Stop

        decoder.run_batch_by_layer(look, input_ids=ids, attention_mask=mask)
        number += int(counted.sum())
    return number


def general_moments(
    decoder: Decoder, layers: Sequence[int], tokens: int, cache: Path | None = None
) -> dict[int, Tensor]:
    """``second_moments`` over ``tokens`` tokens of general text (``revs.model.text``).

    With a folder ``cache``, the moments of this exact model are kept there, layer by layer, unless
    they are larger than LARGEST: those of Llama-3-8B take 26 GB.
    """
    length = min(WINDOW, decoder.context)
    number = -(-tokens // length)
    texts = [(ids, 0) for ids in training_windows(decoder.tokenizer, number, length)]
    ff = decoder.neurons(0).shape[1]
    if cache is None or 4 * ff**2 * len(layers) > LARGEST:
        return second_moments(decoder, texts, layers)
    sums = [float(weight.detach().double().sum()) for weight in decoder.model.parameters()]
    content = json.dumps([number, sums, tokenizer_hash(decoder.tokenizer), text_inputs()])
    key = hashlib.sha256(content.encode()).hexdigest()[:16]
    kept = {l: cache / f"moments-{key}" / f"{l}.safetensors" for l in layers}
    if missing := [l for l in layers if not kept[l].is_file()]:
        kept[missing[0]].parent.mkdir(parents=True, exist_ok=True)
        for l, C in second_moments(decoder, texts, missing).items():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:  # whole or not at all
                save_file({"C": C.cpu()}, Path(scratch, kept[l].name))
                os.replace(Path(scratch, kept[l].name), kept[l])
    return {l: load_file(kept[l])["C"].to(decoder.ff2[l].weight.device) for l in layers}
