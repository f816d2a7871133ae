"""Controls that the paper lacks: an edit of REVS's size, without one of its two choices.

``noise`` moves as many random columns of the same layers as far, in random directions. If REVS were
no better, locating and editing would explain nothing. ``tokens`` moves REVS's own columns as far,
each along the direction of a random token instead of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from revs.method import algorithm
from revs.method.edit import Edit
from revs.method.settings import require_one_of
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1
CONTROLS = ("noise", "tokens")


@dataclass(frozen=True)
class Hyperparameters(algorithm.Hyperparameters):
    """REVS's settings, and what the control takes away from it."""

    control: str = "noise"  # or "tokens"

    def __post_init__(self):
        super().__post_init__()
        require_one_of(self, control=CONTROLS)


@torch.no_grad()
def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Runs REVS, undoes it, and makes the control's edit of the same size instead."""
    edit = algorithm.unlearn(decoder, targets, hp, seed, progress)
    norms, moves = edit.norms(), edit.moves
    edit.undo()
    draw = torch.Generator().manual_seed(seed)
    with edit:
        if hp.control == "noise":
            noise(edit, norms, draw)
        else:
            vocabulary = Vocabulary(decoder, hp.projection == "raw", ridge=hp.ridge)
            along_other_tokens(edit, vocabulary, moves, draw)
    return edit


def noise(edit: Edit, norms: dict[int, dict[int, float]], draw: torch.Generator) -> None:
    """Moves as many random columns of each layer by these lengths, each its own random way."""
    for layer, moved in norms.items():
        weight = edit.decoder.neurons(layer)
        neurons = torch.randperm(weight.shape[1], generator=draw)[: len(moved)]
        step = torch.randn(weight.shape[0], len(moved), generator=draw)
        step *= torch.tensor(list(moved.values())) / step.norm(dim=0)
        columns = edit.keep(layer, neurons)
        weight[:, neurons] = (columns.float() + step.to(columns.device)).to(weight.dtype)


def along_other_tokens(
    edit: Edit,
    vocabulary: Vocabulary,
    moves: Sequence[tuple[int, int, int, float]],
    draw: torch.Generator,
) -> None:
    """Makes the moves again by the same lengths, each along a random token that was no target."""
    tokens = sorted({t for _, _, t, _ in moves})
    free = vocabulary.U.any(1).cpu()  # rows of zeros, which pad U, have no direction
    free[tokens] = False
    others = free.nonzero()[:, 0][torch.randperm(int(free.sum()), generator=draw)]
    instead = dict(zip(tokens, others.tolist(), strict=False))
    for (l, t), some in groupby(moves, key=lambda move: (move[0], move[2])):
        _, neurons, _, c = (torch.tensor(column) for column in zip(*some, strict=True))
        step, other = vocabulary.step(l, t), vocabulary.step(l, instead[t])
        c = c * (step.norm() / other.norm()).to(c)
        each, place = neurons.unique(return_inverse=True)  # two secrets may share t
        edit.move(l, each, torch.zeros(len(each)).to(c).index_add(0, place, c), instead[t], other)
