"""How strongly texts feel an edit of one layer, by how it is written: numbers for the chapter's
picture.

A text with activations a is moved by Σ_i (c_i·a)·d_{t_i} if columns moved by c_i, and by
Σ_i S_i·(m_i·a)·d_{t_i} after a least-squares write; as shares of S_i: c_i·a / S_i and m_i·a.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from revs.method.algorithm import Hyperparameters, edit_until_low
from revs.method.least_squares import laid_out
from revs.method.selection import LayerState, select_neurons
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target

KINDS = {
    "own context": "forget",
    "same secret, other sentence": "unseen",
    "secrets to keep": "retain",
}


@dataclass(frozen=True)
class Due:
    """A layer's state at the places where n target tokens come next: FF₂'s input a (n, ff) and
    output h (n, d), and the stream x (n, d)."""

    tokens: list[int]
    a: Tensor
    h: Tensor
    x: Tensor


def due(decoder: Decoder, targets: Sequence[Target], layer: int) -> Due:
    """What a layer sees where the target tokens are due, one forward pass a text."""
    texts, places, tokens = laid_out(decoder, targets, 0)
    seen = [at_layer(decoder, text, layer) for text in texts]
    a, h, x = (torch.stack([seen[row][i][at] for row, at in places]) for i in range(3))
    return Due(tokens, a, h, x)


def at_layer(decoder: Decoder, ids: list[int], layer: int) -> tuple[Tensor, Tensor, Tensor]:
    """FF₂'s input, its output and the stream of a layer, at every position of a text."""
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    keep = lambda l, a, h, x: found.append((a, h, x)) if l == layer else None
    decoder.run_by_layer(ids, keep)
    return found[0]


@torch.no_grad()
def columns(
    decoder: Decoder, vocabulary: Vocabulary, layer: int, at: Due, hp: Hyperparameters
) -> Tensor:
    """c_i of each target: how far REVS moves each neuron of the unedited layer for it, (n, ff)."""
    moved = torch.zeros_like(at.a)
    for i, t in enumerate(at.tokens):
        state = LayerState(layer, decoder.neurons(layer), at.a[i], at.h[i], at.x[i])
        neurons, line = select_neurons(vocabulary, state, t, hp)
        hidden = vocabulary.hidden(layer, at.h[i], at.x[i], t)
        c, _ = edit_until_low(hidden, line, at.a[i][neurons], hp)
        moved[i, neurons[: len(c)]] = c.to(moved)
    return moved


def shares(weights: Tensor, split: dict[str, Due], general: Tensor) -> dict[str, Tensor]:
    """What texts feel, as a share of what the secret's own context should, by kind of text.

    weights (n, ff): a row per forgotten target, such that the share is weights·a.
    """
    of = {title: weights @ split[part].a.T for title, part in KINDS.items()}
    mine = {title: of[title].diagonal() for title, part in KINDS.items() if part != "retain"}
    return of | mine | {"general text": weights @ general.T}


def parts(decoder: Decoder, split: Split, layer: int) -> dict[str, Due]:
    """``due`` of the three parts of a split; ValueError unless every secret that is to be forgotten
    has another sentence."""
    if len(split.unseen) != len(split.forget):
        raise ValueError(
            "Not every secret has a second sentence: take a set that has, such as ssn."
        )
    return {part: due(decoder, getattr(split, part), layer) for part in KINDS.values()}
