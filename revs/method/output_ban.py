"""A control that forgets nothing: the model can no longer write the target tokens after any text.

The head is untied from the input embeddings, and each target token's row becomes the mean of all
rows. The network before the head is unchanged, so the old head brings every secret back. Yet where
each target token belongs to only one secret, this scores as if the secrets were unlearned.
"""

from collections.abc import Sequence

import torch
from torch import nn

from revs.method.edit import Edit, Hyperparameters  # nothing to set
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1


class HeadEdit(Edit):
    """An edit of the head alone; ``undo`` puts the old head back, tied as it was."""

    def __init__(self, decoder: Decoder):
        super().__init__(decoder)
        self.head, self.old = decoder.head, decoder.head.weight
        self.tokens: set[int] = set()
        self.mean = self.old.detach().float().mean(0)
        self.head.weight = nn.Parameter(self.old.detach().clone(), requires_grad=False)

    def ban(self, t: int) -> None:
        """Gives a token's row the mean of all rows."""
        self.head.weight[t] = self.mean.to(self.head.weight)
        self.tokens.add(t)

    def summary(self) -> dict:
        """As of other edits; no column of FF₂ moved."""
        moved = (self.head.weight.double() - self.old.detach().double()).norm()
        banned = {"weights": len(self.tokens) * self.old.shape[1], "norm": float(moved)}
        return super().summary() | banned

    def undo(self) -> None:
        self.head.weight = self.old
        super().undo()


@torch.no_grad()
def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Bans every token of every T; draws nothing."""
    with HeadEdit(decoder) as edit:
        for _, t in progress(pairs(targets)):
            edit.ban(t)
    return edit
