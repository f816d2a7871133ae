"""The control that forgets nothing: target tokens can no longer be written, by anybody.

The head is untied from the input embeddings, and each target token's row becomes the mean of all
rows. The network before it is as it was: the old head brings every secret back. Where each target
token belongs to one secret alone, this scores as if the secrets were unlearned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1


@dataclass(frozen=True)
class Hyperparameters:
    """There is nothing to set for the control."""


class HeadEdit(Edit):
    """An edit of the head alone; ``undo`` puts the old head back, tied as it was."""

    def __init__(self, decoder: Decoder, tokens: Sequence[int]):
        super().__init__(decoder)
        self.head, self.old, self.tokens = decoder.head, decoder.head.weight, sorted(set(tokens))

    def ban(self) -> None:
        """Gives the tokens' rows the mean of all rows."""
        weight = self.old.detach().clone()
        weight[self.tokens] = weight.float().mean(0).to(weight)
        self.head.weight = nn.Parameter(weight, requires_grad=False)

    def summary(self) -> dict:
        """As of other edits; no column of FF₂ moved."""
        moved = (self.head.weight.double() - self.old.double()).norm()
        banned = {"weights": len(self.tokens) * self.old.shape[1], "norm": float(moved.detach())}
        return super().summary() | banned

    def undo(self) -> None:
        self.head.weight = self.old
        super().undo()


@torch.no_grad()
def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Bans every token of every T; draws nothing."""
    edit = HeadEdit(decoder, [t for _, t in pairs(targets)])
    edit.ban()
    return edit
