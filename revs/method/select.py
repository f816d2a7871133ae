"""SelectNeuron (§3.1.2): of the k most activated neurons of a layer, the n_max in which t ranks highest.

A rank is a count over the whole vocabulary, and the product it needs is nearly all that REVS costs where k is large
(the paper's 1,000). But who is among the best is decided long before every count is finished, for a count only grows:
the vocabulary is gone through piece by piece, the n_max that lead after the first piece are counted to the end, and
whoever has more than the worst of those is out. The same neurons are found, up to ties by rounding. A layer's gate
(``revs.method.algorithm``) counts in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from revs.method.vocabulary import BLOCK, Line, Vocabulary, product

PIECES = 32  # of the vocabulary
WORTH = 4  # times as many candidates as are wanted: with fewer of them, the lines of all cost less than to count and to draw those of the best
ONE_BY_ONE = (
    1,
    2,
)  # so few vectors are multiplied one by one: some processors are slow with a product that is two columns wide


def highest(vocabulary: Vocabulary, l: int, n: Tensor, t: int, wanted: int) -> Tensor:
    """Of neurons n (k, d) of layer l, the indices of those ``wanted`` in which t ranks highest, ascending: (wanted,). Of equal ones the first."""
    larger, size = counter(vocabulary, l, n, t), -(-vocabulary.V // PIECES)
    first, *others = (
        slice(start, min(start + size, vocabulary.V)) for start in range(0, vocabulary.V, size)
    )
    rest = torch.arange(len(n), device=vocabulary.U.device)
    counts = larger(rest, first)
    leads = torch.zeros_like(rest, dtype=torch.bool)
    leads[counts.argsort(stable=True)[:wanted]] = True
    leading, ranks = (
        rest[leads],
        counts[leads] + sum(larger(rest[leads], piece) for piece in others),
    )
    rest, counts = rest[~leads], counts[~leads]
    for piece in others:
        if not len(rest):
            break
        stay = counts <= ranks.max()
        rest, counts = rest[stay], counts[stay]
        counts = counts + larger(rest, piece)
    index, ranks = torch.cat([leading, rest]), torch.cat([ranks, counts])
    return index[(ranks.long() * len(n) + index).argsort()[:wanted]].sort().values


def counter(vocabulary: Vocabulary, l: int, n: Tensor, t: int) -> Callable[[Tensor, slice], Tensor]:
    """A function that counts for some of the neurons n (k, d) the tokens of a piece of the vocabulary with a larger logit than t: (some,), piece → (some,)."""
    U, B = vocabulary.U, vocabulary.B
    x = (
        n
        if vocabulary.after[l] is None
        else n.to(U.device) * vocabulary.scale_of(vocabulary.after[l])
    ).to(U.device, vocabulary.dtype)
    if vocabulary.centred:
        x = x - x.mean(-1, keepdim=True)
    y, s = vocabulary.gamma * x, (x.square().mean(-1) + vocabulary.eps).sqrt()

    def logits(some: Tensor, piece: slice) -> Tensor:
        found = (
            one_by_one(U[piece], y[some])
            if len(some) in ONE_BY_ONE
            else product(U[piece].to(vocabulary.dtype), y[some])
        )
        return found if B is None else found.addcmul(s[some, None], B[:, piece])

    of_t = logits(torch.arange(len(n), device=y.device), slice(t, t + 1))

    def larger(some: Tensor, piece: slice) -> Tensor:
        found = logits(some, piece)
        if piece.start <= t < piece.stop:
            found[
                :, t - piece.start
            ] = -torch.inf  # another product's rounding would let t be ahead of itself
        return count(found, of_t[some, 0])

    return larger


def one_by_one(U: Tensor, y: Tensor) -> Tensor:
    """U·y for each of a few vectors (n, d), block by block, each of which a CPU's cache holds for all of them: → (n, rows of U)."""
    blocks = (block.to(y.dtype) for block in U.split(BLOCK.get(U.device.type, BLOCK["cuda"])))
    return torch.cat([torch.stack([block @ vector for vector in y]) for block in blocks], -1)


def count(logits: Tensor, than: Tensor) -> Tensor:
    """How many in each row of logits (n, V) are larger than one number (n,): → (n,). Numpy counts bytes; a sum of torch's would widen each of them first, and take ten times as long on a CPU."""
    if logits.device.type != "cpu":
        return (logits > than[:, None]).sum(-1, dtype=torch.int32)
    return torch.tensor(
        [
            np.count_nonzero(row > least)
            for row, least in zip(logits.detach().numpy(), than.detach().numpy())
        ],
        dtype=torch.int32,
    )


def ranks_of(line: Line) -> Tensor:
    """``line.rank_at_rest()``, (n,), of many vectors, with the quicker ``count`` where one count is all there is to a rank."""
    return line.rank_at_rest() if line.B is not None else count(line.A, line.A[:, line.t])
