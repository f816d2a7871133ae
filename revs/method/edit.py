"""Records what an edit changes, so that it can be described and undone exactly (§3.2, step 4).

As a method, this module is the control ``unedited``. It shows what attacks find in the model as it
is, and what a run costs without an edit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1


class Edit:
    """The changes made to one decoder: FF₂ columns, by moves, and whole weights, by name.

    A move is (layer, neuron, token, c). A product is a pair (left, right): leftᵀ·right was added to
    a layer's FF₂. ``with Edit(…) as edit:`` undoes the edit if an exception is raised.
    """

    def __init__(self, decoder: Decoder):
        self.decoder = decoder
        self.moves: list[tuple[int, int, int, float]] = []
        self.originals: dict[int, dict[int, Tensor]] = {}  # layer → neuron → column
        self.whole: dict[str, Tensor] = {}  # name of a weight → weight
        self.products: dict[int, list[tuple[Tensor, Tensor]]] = {}  # by layer: (n, d), (n, ff)
        self.checksums: dict[int | str, int] | None = None  # when the edit was complete
        self.unreached = 0  # neurons in which the wanted rank could not be reached
        self.secrets = 0  # how many it was made for, if known

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            self.undo()
        elif self.checksums is None:
            self.checksums = self.current_checksums()

    def __repr__(self) -> str:
        missed = f"; the wanted rank was out of reach {self.unreached} times" * bool(self.unreached)
        if not self.originals and not self.whole:
            return f"<Edit of {self.decoder.name}: nothing is changed{missed}>"
        size = self.summary()
        tokens = len({t for _, _, t, _ in self.moves})
        return (
            f"<Edit of {self.decoder.name}: {self.secrets or 'some'} secrets, "
            f"{tokens or 'some'} tokens; {size['columns']:,} columns of FF₂ in "
            f"{len(size['layers'])} layers moved by {size['norm']:.3g} in all (Frobenius norm)"
            f"{missed}; undo() restores it bit by bit>"
        )

    @torch.no_grad()
    def move(self, layer: int, neurons: Tensor, c: Tensor, t: int, d_t: Tensor) -> None:
        """Column n of the layer's FF₂ becomes n + c·d_t, rounded once to the weights' precision."""
        columns = self.keep(layer, neurons)
        weight = self.decoder.neurons(layer)
        moved = columns.to(d_t.dtype) + d_t.to(columns.device)[:, None] * c.to(columns.device)
        weight[:, neurons] = moved.to(weight.dtype)
        self.moves += [(layer, n, t, x) for n, x in zip(neurons.tolist(), c.tolist(), strict=True)]

    @torch.no_grad()
    def keep(self, layer: int, neurons: Tensor) -> Tensor:
        """The present columns (d × K) of some neurons; the first of each is kept for undo."""
        columns = self.decoder.neurons(layer)[:, neurons]
        kept = self.originals.setdefault(layer, {})
        for i, n in enumerate(neurons.tolist()):
            if n not in kept:
                kept[n] = columns[:, i].clone()
        return columns

    @torch.no_grad()
    def add(self, layer: int, left: Tensor, right: Tensor) -> None:
        """Adds leftᵀ·right, of (n, d) and (n, ff), to FF₂ of a layer, rounded once."""
        self.keep_whole([self.decoder.ff2_name(layer)])
        weight = self.decoder.neurons(layer)
        weight.copy_((weight.to(right) + left.T @ right).to(weight.dtype))
        self.products.setdefault(layer, []).append((left, right))

    def keep_whole(self, names: Iterable[str]) -> None:
        """Keeps whole weights for undo, by name: for methods that follow gradients."""
        for name in names:
            if name not in self.whole:
                self.whole[name] = self.decoder.model.get_parameter(name).detach().clone()

    @property
    def layers(self) -> list[int]:
        """The layers whose columns or weights were kept for undo."""
        prefix = self.decoder.architecture.layers + "."
        inside = [name.removeprefix(prefix) for name in self.whole if name.startswith(prefix)]
        return sorted({*self.originals, *(int(name.split(".")[0]) for name in inside)})

    @torch.no_grad()
    def norms(self) -> dict[int, dict[int, float]]:
        """‖n* − n‖₂, by layer and neuron, of FF₂ columns not kept as part of a whole weight."""
        weight = {l: self.decoder.neurons(l) for l in self.originals}
        return {
            l: {n: float((weight[l][:, n] - column).float().norm()) for n, column in kept.items()}
            for l, kept in self.originals.items()
        }

    @torch.no_grad()
    def summary(self) -> dict:
        """The size of the edit: what was touched, the moves made, the change's Frobenius norm."""
        norms = [norm for moved in self.norms().values() for norm in moved.values()]
        kept = [column for columns in self.originals.values() for column in columns.values()]
        columns, weights, squares = len(norms), sum(map(len, kept)), sum(n * n for n in norms)
        in_columns = {id(ff2.weight) for ff2 in self.decoder.ff2}
        for name, original in self.whole.items():
            weight = self.decoder.model.get_parameter(name)
            changed = weight != original
            if id(weight) in in_columns:
                columns += int(changed.any(int(self.decoder.architecture.transposed)).sum())
            weights += int(changed.sum())
            squares += float((weight - original).double().square().sum())
        counts = {"columns": columns, "weights": weights, "moves": len(self.moves)}
        counts["unreached"] = self.unreached
        return {"layers": self.layers, **counts, "norm": squares**0.5}

    def current_checksums(self) -> dict[int | str, int]:
        """Checksums of what this edit changed, by layer or name: the sum of its bits as numbers."""
        changed: dict[int | str, Tensor] = {
            layer: self.decoder.neurons(layer)[:, list(kept)]
            for layer, kept in self.originals.items()
        }
        changed |= {name: self.decoder.model.get_parameter(name) for name in self.whole}
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return {
            what: int(weight.detach().view(bits[weight.element_size()]).sum(dtype=torch.int64))
            for what, weight in changed.items()
        }

    def in_force(self) -> bool:
        """Are the weights that this edit changed still as it left them?"""
        return self.checksums is None or self.checksums == self.current_checksums()

    @torch.no_grad()
    def undo(self) -> None:
        """Puts every weight back as it was before this edit.

        Raises ValueError, and changes nothing, if these weights have changed since, for example by
        a newer edit. Undo the newest of several edits first.
        """
        if not self.in_force():
            said = "Weights have changed since this edit, by a newer edit or by training"
            raise ValueError(f"{said}: undo what is newer first, or load the model again.")
        for layer, kept in self.originals.items():
            weight = self.decoder.neurons(layer)
            for n, column in kept.items():
                weight[:, n] = column
        for name, original in self.whole.items():
            self.decoder.model.get_parameter(name).copy_(original)
        self.moves, self.originals, self.whole, self.products = [], {}, {}, {}
        self.unreached, self.checksums = 0, None


@dataclass(frozen=True)
class Hyperparameters:
    """The settings of this control: none."""


def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """The control: changes nothing."""
    return Edit(decoder)
