"""What an edit changed, so that it can be described and undone exactly (§3.2, step 4)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from revs.model.architecture import Decoder


class Edit:
    """What was changed on one decoder: FF₂ columns, by moves (layer, neuron, token, c), and whole weights by name.

    Undoing restores the first original of each, bit by bit, on every architecture. ``with Edit(…) as edit:`` undoes it
    if what is inside ends with an exception.
    """

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self.moves: list[tuple[int, int, int, float]] = []
        self.originals: dict[int, dict[int, Tensor]] = {}  # layer → neuron → column
        self.whole: dict[str, Tensor] = {}  # name of a weight → weight
        self.unreached = 0  # neurons in which the wanted rank could not be reached

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            self.undo()

    @torch.no_grad()
    def move(self, layer: int, neurons: Tensor, c: Tensor, t: int, d_t: Tensor) -> None:
        """Column n of the layer's FF₂ becomes n + c·d_t, rounded once to the weights' own precision."""
        columns = self.keep(layer, neurons)
        weight = self.decoder.neurons(layer)
        moved = columns.to(d_t.dtype) + d_t.to(columns.device)[:, None] * c.to(columns.device)
        weight[:, neurons] = moved.to(weight.dtype)
        self.moves += [(layer, n, t, x) for n, x in zip(neurons.tolist(), c.tolist())]

    @torch.no_grad()
    def keep(self, layer: int, neurons: Tensor) -> Tensor:
        """The present columns (d × K) of some neurons; the first time that one is asked for, it is kept for undo."""
        columns = self.decoder.neurons(layer)[:, neurons]
        kept = self.originals.setdefault(layer, {})
        for i, n in enumerate(neurons.tolist()):
            if n not in kept:
                kept[n] = columns[:, i].clone()
        return columns

    def keep_whole(self, names: Iterable[str]) -> None:
        """Keeps whole weights for undo, by their names in the model: for methods that follow gradients."""
        for name in names:
            if name not in self.whole:
                self.whole[name] = self.decoder.model.get_parameter(name).detach().clone()

    @property
    def layers(self) -> list[int]:
        """The layers in which something was kept."""
        prefix = self.decoder.architecture.layers + "."
        return sorted(
            {
                *self.originals,
                *(
                    int(name.removeprefix(prefix).split(".")[0])
                    for name in self.whole
                    if name.startswith(prefix)
                ),
            }
        )

    @torch.no_grad()
    def norms(self) -> dict[int, dict[int, float]]:
        """‖n* − n‖₂ of every FF₂ column that was moved by itself, by layer and neuron."""
        weight = {l: self.decoder.neurons(l) for l in self.originals}
        return {
            l: {n: float((weight[l][:, n] - column).float().norm()) for n, column in kept.items()}
            for l, kept in self.originals.items()
        }

    @torch.no_grad()
    def summary(self) -> dict:
        """The size of the edit: layers, FF₂ columns and single weights touched, moves made, and the Frobenius norm of the change."""
        norms = [norm for moved in self.norms().values() for norm in moved.values()]
        columns, weights, squares = (
            len(norms),
            sum(len(column) for kept in self.originals.values() for column in kept.values()),
            sum(norm * norm for norm in norms),
        )
        in_columns = {id(ff2.weight) for ff2 in self.decoder.ff2}
        for name, original in self.whole.items():
            weight = self.decoder.model.get_parameter(name)
            changed = weight != original
            columns += (
                int(changed.any(int(self.decoder.architecture.transposed)).sum())
                if id(weight) in in_columns
                else 0
            )
            weights += int(changed.sum())
            squares += float((weight - original).double().square().sum())
        return {
            "layers": self.layers,
            "columns": columns,
            "weights": weights,
            "moves": len(self.moves),
            "unreached": self.unreached,
            "norm": squares**0.5,
        }

    @torch.no_grad()
    def undo(self) -> None:
        """Puts every original back."""
        for layer, kept in self.originals.items():
            weight = self.decoder.neurons(layer)
            for n, column in kept.items():
                weight[:, n] = column
        for name, original in self.whole.items():
            self.decoder.model.get_parameter(name).copy_(original)
        self.moves, self.originals, self.whole, self.unreached = [], {}, {}, 0
