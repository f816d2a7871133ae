"""What makes REVS quick and changes no result: a rank is a count, and most counts can end early.

The product of vectors with the whole unembedding U is nearly all that REVS costs. A part of the
vocabulary may say already that a layer's gate is closed (``may_be_open``: looks) or that a neuron
is not among the best (``highest``: pieces). Neurons are edited a few at a time (``portions``), and
U is read once for all vectors of a layer (``lines``). A GPU is done before it is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from revs.method.vocabulary import BLOCK, Line, Vocabulary, product

AT_ONCE = 5  # neurons edited before the layer is looked at again
LOOKS = (32, 16, 8, 4, 2, 1)  # parts of the vocabulary, one in so many, after which a gate is asked
LIKELY = 2  # a gate that passes so many times the tokens that a part suggests is taken for open
PIECES = 32  # of the vocabulary, in which neurons are counted
WORTH = 4  # times as many candidates as wanted: with fewer, all lines cost less than counting
ONE_BY_ONE = (1, 2)  # so few vectors alone: some processors are slow with two columns at once


def may_be_open(
    vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, t: int, passes: Callable[[int, int], bool]
) -> bool:
    """Is a gate not closed for sure, at FF₂'s output h and the stream x, (d,)?

    ``passes`` says whether their ranks open it. One that is open, or seems so by far (``LIKELY``),
    is not looked at to the end: whoever edits the layer draws its lines in any case.
    """
    if vocabulary.after[l] is not None or vocabulary.U.device.type != "cpu":
        # FF₂'s output is seen through a norm of its own; or on a GPU
        return passes(*vocabulary.hidden(l, h, x, t).rank_at_rest().tolist())
    larger, both = counter(vocabulary, l, torch.stack([h, x.to(h)]), t), torch.arange(2)
    ahead, seen = torch.zeros_like(both), 0
    for look in LOOKS:
        ahead, seen = ahead + larger(both, slice(seen, vocabulary.V // look)), vocabulary.V // look
        if not passes(*ahead.tolist()):
            return False
        if passes(*(LIKELY * look * ahead).tolist()):
            break
    return True


def highest(vocabulary: Vocabulary, l: int, n: Tensor, t: int, wanted: int) -> Tensor:
    """Of neurons n (k, d) of layer l, those ``wanted`` in which t ranks highest, ascending.

    Of equal ones the first. Those that lead after the first piece of the vocabulary are counted to
    the end, and whoever has more than the worst of them is out: as by full counts, up to rounding.
    """
    larger, size = counter(vocabulary, l, n, t), -(-vocabulary.V // PIECES)
    starts = range(0, vocabulary.V, size)
    first, *others = (slice(start, min(start + size, vocabulary.V)) for start in starts)
    rest = torch.arange(len(n), device=vocabulary.U.device)
    counts = larger(rest, first)
    leads = torch.zeros_like(rest, dtype=torch.bool)
    leads[counts.argsort(stable=True)[:wanted]] = True
    leading = rest[leads]
    ranks = counts[leads] + sum(larger(leading, piece) for piece in others)
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
    """A function that counts larger logits than t's, of some of n (k, d) in a piece of U's rows."""
    U, B, after = vocabulary.U, vocabulary.B, vocabulary.after[l]
    x = n if after is None else n.to(U.device) * vocabulary.scale_of(after)
    x = x.to(U.device, vocabulary.dtype)
    if vocabulary.centred:
        x = x - x.mean(-1, keepdim=True)
    y, s = vocabulary.gamma * x, (x.square().mean(-1) + vocabulary.eps).sqrt()

    def logits(some: Tensor, piece: slice) -> Tensor:
        if len(some) in ONE_BY_ONE:
            found = one_by_one(U[piece], y[some])
        else:
            found = product(U[piece].to(vocabulary.dtype), y[some])
        return found if B is None else found.addcmul(s[some, None], B[:, piece])

    of_t = logits(torch.arange(len(n), device=y.device), slice(t, t + 1))

    def larger(some: Tensor, piece: slice) -> Tensor:
        found = logits(some, piece)
        if piece.start <= t < piece.stop:
            # another product's rounding would let t be ahead of itself
            found[:, t - piece.start] = -torch.inf
        return count(found, of_t[some, 0])

    return larger


def one_by_one(U: Tensor, y: Tensor) -> Tensor:
    """U·y for each of a few vectors (n, d), block by block of U, which a cache holds: → (n, V)."""
    blocks = (block.to(y.dtype) for block in U.split(BLOCK.get(U.device.type, BLOCK["cuda"])))
    return torch.cat([torch.stack([block @ vector for vector in y]) for block in blocks], -1)


def count(logits: Tensor, than: Tensor) -> Tensor:
    """How many in each row of logits (n, V) are larger than one number (n,): → (n,)."""
    if logits.device.type != "cpu":
        return (logits > than[:, None]).sum(-1, dtype=torch.int32)
    # numpy counts bytes; a sum of torch's would widen each first, and take ten times as long
    rows = zip(logits.detach().numpy(), than.detach().numpy(), strict=True)
    counts = [np.count_nonzero(row > least) for row, least in rows]
    return torch.tensor(counts, dtype=torch.int32)


def ranks_of(line: Line) -> Tensor:
    """``line.rank_at_rest()``, (n,), of many vectors, by ``count`` where one count is all of it."""
    return line.rank_at_rest() if line.B is not None else count(line.A, line.A[:, line.t])


def lines(
    vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, n: Tensor, t: int
) -> tuple[Line, Line]:
    """``Vocabulary.hidden`` and ``Vocabulary.neurons`` in one product with U, where that can be."""
    if vocabulary.after[l] is not None:  # they are not seen through the same norm
        return vocabulary.hidden(l, h, x, t), vocabulary.neurons(l, n, t)
    vectors = (n.T, h[:, None], x[:, None])
    columns = [some.to(vocabulary.U.device, vocabulary.dtype) for some in vectors]
    # column by column, as neurons lie in FF₂: on the processors tried, sums are rounded as those
    # of the neurons alone
    whole = vocabulary.line(torch.cat(columns, 1).T, t)
    # a copy of two, which does not keep all the others alive
    hidden = whole.rows(torch.tensor([len(n), len(n) + 1], device=whole.A.device))
    return hidden, whole.rows(slice(0, len(n)))


def portions(c: Tensor) -> Iterator[slice]:
    """The neurons of a layer, one number c each, as many at a time as are edited at once."""
    step = AT_ONCE if c.device.type == "cpu" else max(1, len(c))
    return (slice(start, start + step) for start in range(0, len(c), step))
