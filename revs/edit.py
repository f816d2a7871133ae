"""What an edit changed, so that it can be described and undone exactly (§3.2, step 4)."""

from __future__ import annotations

import torch
from torch import Tensor

from revs.architecture import Decoder


class Edit:
    """The moves of FF₂ columns made on one decoder, in order: (layer, neuron, token, c).

    Undoing restores the first original of each column, bit by bit, on every architecture.
    """

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self.moves: list[tuple[int, int, int, float]] = []
        self.originals: dict[int, dict[int, Tensor]] = {}
        self.unreached = 0  # neurons in which the wanted rank could not be reached

    @torch.no_grad()
    def move(self, layer: int, neurons: Tensor, c: Tensor, t: int, d_t: Tensor) -> None:
        """Column n of the layer's FF₂ becomes n + c·d_t, rounded once to the weights' own precision."""
        columns = self.keep(layer, neurons)
        weight = self.decoder.ff2[layer].weight
        moved = columns.to(d_t.dtype) + d_t.to(columns.device)[:, None] * c.to(columns.device)
        weight[:, neurons] = moved.to(weight.dtype)
        self.moves += [(layer, int(n), t, float(x)) for n, x in zip(neurons, c)]

    @torch.no_grad()
    def keep(self, layer: int, neurons: Tensor) -> Tensor:
        """The present columns (d × K) of some neurons; the first time that one is asked for, it is kept for undo."""
        columns = self.decoder.ff2[layer].weight[:, neurons]
        kept = self.originals.setdefault(layer, {})
        for i, n in enumerate(neurons.tolist()):
            if n not in kept:
                kept[n] = columns[:, i].clone()
        return columns

    @property
    def layers(self) -> list[int]:
        return sorted(self.originals)

    @torch.no_grad()
    def norms(self) -> dict[int, dict[int, float]]:
        """‖n* − n‖₂ of every edited column, by layer and neuron."""
        weight = {l: self.decoder.ff2[l].weight for l in self.layers}
        return {l: {n: float((weight[l][:, n] - column).float().norm()) for n, column in kept.items()} for l, kept in self.originals.items()}

    def summary(self) -> dict:
        """The size of the edit: layers and columns touched, moves made, and the Frobenius norm of the change."""
        norms = [norm for moved in self.norms().values() for norm in moved.values()]
        return {
            "layers": self.layers,
            "columns": len(norms),
            "moves": len(self.moves),
            "unreached": self.unreached,
            "norm": sum(norm * norm for norm in norms) ** 0.5,
        }

    @torch.no_grad()
    def undo(self) -> None:
        """Puts every original column back."""
        for layer, kept in self.originals.items():
            weight = self.decoder.ff2[layer].weight
            for n, column in kept.items():
                weight[:, n] = column
        self.moves, self.originals, self.unreached = [], {}, 0
