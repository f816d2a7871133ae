"""A control that the paper lacks: a random edit of the same size in the same layers.

If REVS were only as good as noise of its own norm, locating and editing would explain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from revs.method import algorithm
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target


@torch.no_grad()
def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Undoes REVS, and moves as many random columns of each layer by its norms, anywhere."""
    edit = algorithm.unlearn(decoder, targets, hp, seed, progress)
    norms = edit.norms()
    edit.undo()
    draw = torch.Generator().manual_seed(seed)
    for layer, moved in norms.items():
        weight = decoder.neurons(layer)
        neurons = torch.randperm(weight.shape[1], generator=draw)[: len(moved)]
        step = torch.randn(weight.shape[0], len(moved), generator=draw)
        step *= torch.tensor(list(moved.values())) / step.norm(dim=0)
        columns = edit.keep(layer, neurons)
        weight[:, neurons] = (columns.float() + step.to(columns.device)).to(weight.dtype)
    return edit
