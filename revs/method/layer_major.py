"""Another order: layer after layer, and in each target after target, in one batched forward pass.

A variant, not the paper's method: every text goes through the model once, side by side. A layer
shows each target the edits for the others in the layers below, also of targets that come later; the
paper's order shows it all layers' edits of the targets that came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from revs.method import algorithm
from revs.method.edit import Edit
from revs.method.neuron import Seen
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder, stream_of
from revs.model.targets import Target, pairs


@dataclass(frozen=True)
class Hyperparameters(algorithm.Hyperparameters):
    """REVS's own, but for options that ask for passes of their own."""

    def __post_init__(self):
        super().__post_init__()
        if self.order == "eager" or self.neurons in ("gradient", "selective"):
            said = f"order is {self.order} and neurons is {self.neurons}, but layer by layer there "
            raise ValueError(said + "is one pass: choose order lazy, and hybrid neurons.")


@torch.no_grad()
def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Unlearns every token of every target's T, layer after layer; the Edit undoes it exactly."""
    # each layer asks for the directions of all targets
    vocabulary = Vocabulary(decoder, hp.projection == "raw", keep=True, ridge=hp.ridge)
    hp, layers = hp.in_tokens(vocabulary.V), decoder.numbered(hp.layers)
    draw = torch.Generator().manual_seed(seed)
    algorithm.check_lengths(decoder, targets)
    texts, tokens = zip(*pairs(targets), strict=True)
    ids, mask = decoder.pad(texts)
    rows, last = torch.arange(len(texts), device=ids.device), mask.sum(1) - 1
    steps = iter(progress(range(len(decoder.layers))))
    seen: dict[str, Tensor] = {}

    def keep(_module, inputs, output):
        # (texts, T, ff), (texts, T, d); a copy: Falcon adds attention to FF₂'s output in place
        seen["a"] = inputs[0].reshape(*ids.shape, -1)
        seen["h"] = output.reshape(*ids.shape, -1).clone()

    def stop_by(l: int):
        def hook(_module, _inputs, output):
            next(steps)
            if l not in layers:
                return None
            x, add = stream_of(output), decoder.after(l) or (lambda h: h)
            a, h, at = seen["a"], seen["h"], (rows.to(x.device), last.to(x.device))
            batch = Seen(l, decoder.neurons(l), a[at], h[at], x[at], draw=draw)
            if not edit_layer(vocabulary, edit, batch, tokens, hp):
                return None
            x = x + (add(decoder.ff2[l].forward(a)) - add(h))
            return x if isinstance(output, Tensor) else (x, *output[1:])

        return hook

    with Edit(decoder) as edit:
        handles = [ff2.register_forward_hook(keep) for ff2 in decoder.ff2]
        each = enumerate(decoder.layers)
        handles += [layer.register_forward_hook(stop_by(l)) for l, layer in each]
        decoder.run(handles, input_ids=ids, attention_mask=mask)
        next(steps, None)
    return edit


def edit_layer(
    vocabulary: Vocabulary, edit: Edit, batch: Seen, tokens: Sequence[int], hp: Hyperparameters
) -> int:
    """One layer for all targets in turn, at a (texts, ff), h and x (texts, d); the number of moves.

    What an edit changes for the targets after it is added to their h.
    """
    l, add = batch.l, edit.decoder.after(batch.l) or (lambda h: h)
    a, h, x = (value.to(vocabulary.dtype) for value in (batch.a, batch.h, batch.x))
    beside, moves = x - add(h), len(edit.moves)
    for row, t in enumerate(tokens):
        stream = beside[row] + add(h[row])
        seen = Seen(l, batch.weight, a[row], h[row], stream, draw=batch.draw)
        if not algorithm.may_be_open(vocabulary, seen, t, hp):
            continue
        if (change := algorithm.edit_layer(vocabulary, edit, seen, t, hp)) is not None:
            h = h + algorithm.felt(a, *change)
    return len(edit.moves) - moves
