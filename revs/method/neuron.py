"""SelectNeuron (§3.1.2) and EditNeuron (§3.2, Alg. 2): which neurons move, and how far along d_t.

EditNeuron brings t's rank in a neuron to r_n; two schedules choose c of n* = n + c·d_t:

``paper``  a change of logit of −10, then ×1.3 while t ranks too high, ×0.8 while too low, until the
           rank is within ε of r_n, at most 100 steps, each starting from the original neuron.
``exact``  the smallest demotion that brings the rank to r_n: an order statistic of the points where
           other tokens overtake t; under a LayerNorm, where those are not linear in c, a search.

Both only demote (c ≤ 0) and leave a neuron in which t already ranks r_n − ε or lower as it is.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import Cache

from revs.method import quick
from revs.method.vocabulary import Line, Vocabulary
from revs.model import reading
from revs.model.architecture import Decoder

NEURONS = ("hybrid", "selective", "activations", "rank", "gradient", "random")
# Alg. 2; the bound on the steps is the released code's
START, LOWER, RAISE, STEPS = -10.0, 1.3, 0.8, 100
# a search goes a little beyond where it expects r_n, and at most so many times as far as before
OVER, FURTHEST = 1.05, 16.0
ALPHAS = 20  # m of the integrated gradients, as in their source
USUAL = range(40, 56)  # windows of ordinary text, which judge and choose nothing
LEAST = 1e-3  # of a layer's mean σ: a neuron that never speaks is not infinitely selective


@dataclass(frozen=True)
class Seen:
    """What a target sees of one layer at one position, and what its neurons are chosen by."""

    l: int
    weight: Tensor  # FF₂'s, (d, ff): column j is neuron j
    a: Tensor  # FF₂'s input, (ff,)
    h: Tensor | None = None  # FF₂'s output, (d,)
    x: Tensor | None = None  # the residual stream after the layer, (d,)
    attributed: Tensor | None = None  # of every neuron, (ff,), where they are chosen by gradient
    draw: torch.Generator | None = None  # where they are chosen at random
    usual: Tensor | None = None  # how active each is elsewhere, (ff,), where they are selective


def select_neurons(vocabulary: Vocabulary, seen: Seen, t: int, hp) -> tuple[Tensor, Line]:
    """Of the k most activated neurons, the n_max in which t ranks highest: indices (n,) and lines.

    In that order; ties keep that of activation. ``hp.neurons`` names the paper's alternatives, one
    criterion alone (Appendix, "Alternative Neuron Selection Strategies"), or ``selective``, which
    is not the paper's (``usual``).
    """
    some = candidates(vocabulary, seen, t, hp)
    return best(some, vocabulary.neurons(seen.l, seen.weight[:, some].T, t), hp)


def candidates(vocabulary: Vocabulary, seen: Seen, t: int, hp) -> Tensor:
    """The neurons of which ``best`` takes n_max, (k,); where k is large, those n_max alone."""
    a, ff = seen.a, len(seen.a)
    n = min(hp.n_max, ff)
    some = {
        "hybrid": lambda: a.float().topk(min(hp.k, ff)).indices,
        "selective": lambda: (a.float() / seen.usual).topk(min(hp.k, ff)).indices,
        "rank": lambda: torch.arange(ff, device=a.device),
        "activations": lambda: a.float().topk(n).indices,
        "gradient": lambda: seen.attributed.topk(n).indices,
        "random": lambda: torch.randperm(ff, generator=seen.draw)[:n].to(a.device),
    }[hp.neurons]()
    if len(some) < quick.WORTH * n:
        return some
    found = quick.highest(vocabulary, seen.l, seen.weight[:, some].T, t, n)
    return some[found.to(some.device)]


def best(some: Tensor, line: Line, hp) -> tuple[Tensor, Line]:
    """Of some neurons (k,), the n_max in which t ranks highest; all where rank is no criterion."""
    if hp.neurons not in ("hybrid", "selective", "rank"):
        return some, line
    order = quick.ranks_of(line).argsort(stable=True)[: hp.n_max]
    return some[order.to(some.device)], line.rows(order)


@torch.no_grad()
def usual(decoder: Decoder) -> list[Tensor]:
    """How active neurons are in ordinary text, layer by layer: [(ff,), …], in float32.

    Not the paper's. The k most activated neurons at a secret are also those that are active
    everywhere, and whoever moves such a column is felt by every text. ``selective`` takes the k of
    largest a_j / σ_j instead, σ_j = √(mean over ordinary text of a_j²), and of these, as the paper
    does, the n_max in which t ranks highest.
    """
    length = min(reading.WINDOW, decoder.context)
    texts = reading.pieces(decoder.tokenizer, USUAL.stop, length)[USUAL.start :]
    squares: list[Tensor | float] = [0.0] * len(decoder.layers)

    def adding(l: int):
        def add(_module, args):
            squares[l] = squares[l] + args[0].flatten(0, -2).float().square().sum(0)

        return add

    for ids in texts:
        handles = [ff2.register_forward_pre_hook(adding(l)) for l, ff2 in enumerate(decoder.ff2)]
        decoder.run(handles, input_ids=decoder.pad([ids])[0])
    found = [(total / (len(texts) * length)).sqrt() for total in squares]
    return [sigma.clamp_min(LEAST * sigma.mean()) for sigma in found]


def attributions(decoder: Decoder, ids: list[int], t: int, m: int = ALPHAS) -> list[Tensor]:
    """Which neurons p(t | ids) depends on, by integrated gradients, layer by layer: [(ff,), …].

    Dai et al. 2022, Eq. 3, at the last position, on a layer's path from silence to activations a:
    Attr(a_j) = a_j / m · Σ_{s=1…m} ∂ p(t | α_s·a) / ∂a_j with α_s = s/m. A path is one batch of m
    last tokens; the tokens before them, which nothing changes, run once.
    """
    prefix = None
    if len(ids) > 1:
        with torch.no_grad():
            inputs = decoder.pad([ids[:-1]])[0]
            prefix = decoder.model.base_model(input_ids=inputs, use_cache=True).past_key_values
        prefix.batch_repeat_interleave(m)
    return [along_path(decoder, ids, t, l, prefix, m) for l in range(len(decoder.layers))]


def along_path(
    decoder: Decoder, ids: list[int], t: int, l: int, prefix: Cache | None, m: int
) -> Tensor:
    """Attr of one layer's neurons: (ff,)."""
    scaled = []

    def scale(_module, args):
        alpha = torch.arange(1, m + 1, device=args[0].device) / m
        a = args[0].detach().flatten(0, -2)  # one token a copy: (m, ff)
        scaled.extend([a[0].float(), (alpha[:, None] * a).to(a).requires_grad_()])
        return (scaled[1].view_as(args[0]),)

    handle = decoder.ff2[l].register_forward_pre_hook(scale)
    try:
        with torch.enable_grad():
            last = torch.full((m, 1), ids[-1], device=decoder.device)
            hidden = decoder.model.base_model(
                input_ids=last,
                position_ids=torch.full_like(last, len(ids) - 1),
                past_key_values=copy.deepcopy(prefix),
                use_cache=True,
            ).last_hidden_state[:, -1]
            p = decoder.logits(hidden).softmax(-1)[:, t]
            (gradient,) = torch.autograd.grad(p.sum(), scaled[1])
    finally:
        handle.remove()
    return scaled[0] * gradient.float().mean(0)


def edit_neurons(line: Line, r_n: int, eps: int, schedule: str) -> tuple[Tensor, Tensor]:
    """c for each of the line's n neurons, and whether t's rank reached r_n: (n,), (n,) bool.

    A neuron in which the rank cannot be reached gets c = 0 and is reported, never moved half way.
    """
    there = quick.ranks_of(line) >= r_n - eps
    c = torch.zeros_like(line.scale)
    todo = ~there
    if todo.any():
        c[todo] = SCHEDULES[schedule](line if todo.all() else line.rows(todo), r_n, eps)
    return c, there | (c < 0)


def paper_schedule(line: Line, r_n: int, eps: int) -> Tensor:
    """Alg. 2's factors on the change of logit l, for n neurons; 0 where it does not converge."""
    l = torch.full_like(line.scale, START)
    done = torch.zeros_like(line.scale, dtype=torch.bool)
    for _ in range(STEPS):
        open_ = (~done).nonzero()[:, 0]
        if not len(open_):
            break
        r = line.rows(open_).rank(l[open_] * line.scale[open_])
        close = (r - r_n).abs() <= eps
        done[open_[close]] = True
        factor = torch.where(r < r_n, LOWER, RAISE).to(l)
        l[open_] = torch.where(close, l[open_], l[open_] * factor)
    return torch.where(done, l * line.scale, 0.0)


def exact_schedule(line: Line, r_n: int, eps: int) -> Tensor:
    """The smallest demotion to rank r_n; where ties make that impossible, to the next rank."""
    return search(line, r_n, eps) if line.B is not None else order_statistic(line, r_n)


def order_statistic(line: Line, r_n: int) -> Tensor:
    """Token j overtakes t below x_j = (A_j − A_t) / (w_t − w_j); c lies midway around r_n."""
    t, w = line.t, line.w
    slope = w[t] - w
    if (slope < 0).any():
        return _sweep(line, slope, r_n)
    # t itself, and tokens whose row of U equals t's: ahead for ever, or behind
    never = (slope == 0).nonzero()[:, 0]
    ahead = (line.A[:, never] > line.A[:, t : t + 1]).sum(-1)
    x = (line.A - line.A[:, t : t + 1]).div_(slope)
    x[:, never] = -torch.inf
    c = torch.zeros_like(line.scale)
    for need in (r_n - ahead).unique().tolist():  # one value, but for rows with such tokens ahead
        rows = r_n - ahead == need
        if need <= line.A.shape[1] - len(never):
            c[rows] = _between(*around(x if rows.all() else x[rows], need))[:, 0]
    return c.clamp_max(0.0)


def around(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n-th largest value of each row (rows, V) and the largest below it: → (rows, 1) twice."""
    place = x.shape[1] - n
    if x.is_cuda:
        point, rest = x.kthvalue(place + 1, keepdim=True).values, x
    else:
        # what stands before the place is not larger
        parted = torch.from_numpy(np.partition(x.numpy(), place, axis=1))
        point, rest = parted[:, place : place + 1], parted[:, :place]
        if (below := rest.amax(-1, keepdim=True)).lt(point).all():
            return point, below
    return point, torch.where(rest < point, rest, -torch.inf).amax(-1, keepdim=True)


def _between(point: Tensor, below: Tensor) -> Tensor:
    """A value of c just past a crossing point: midway to the next, or beyond without one."""
    return torch.where(below == -torch.inf, point - point.abs().clamp_min(1.0), (point + below) / 2)


def _sweep(line: Line, slope: Tensor, r_n: int) -> Tensor:
    """The first c below 0 with rank ≥ r_n when some tokens move faster than t itself.

    Passing a point downwards costs t a rank if w_j < w_t and gains it one if w_j > w_t.
    """
    lead = line.A - line.A[:, line.t : line.t + 1]
    moving = slope != 0
    x, order = (lead[:, moving] / slope[moving]).sort(dim=-1, descending=True)
    step = slope[moving].sign().int()[order]
    # the rank just below each point
    r = (lead[:, ~moving] > 0).sum(-1, keepdim=True) + (slope < 0).sum() + step.cumsum(-1)
    after = torch.cat([x[:, 1:], torch.full_like(x[:, :1], -torch.inf)], -1)
    hit = (r >= r_n) & (x < 0) & (after < x)  # of points that coincide, the last one knows the rank
    first = hit.int().argmax(-1, keepdim=True)
    c = _between(x.gather(-1, first), after.gather(-1, first))[:, 0]
    return torch.where(hit.any(-1), c, 0.0)


def search(line: Line, r_n: int, eps: int) -> Tensor:
    """A value of c ≤ 0 at which t's rank is r_n; 0 where it does not come within ε of it.

    A rank, as a normal score, is nearly linear in c: the line through the last two values says what
    is next. Where it leaves the interval that holds r_n, and at every fourth, that is halved.
    """
    near, far = torch.zeros_like(line.scale), START * line.scale
    r_near, r_far = line.rank_at_rest(), line.rank(far)

    def score(r: Tensor) -> Tensor:
        return torch.special.ndtri((r + 0.5) / line.A.shape[1])

    wanted = score(torch.full_like(r_far, r_n))

    def ahead(last: Tensor, r_last: Tensor, now: Tensor, r_now: Tensor) -> Tensor:
        return now + (wanted - score(r_now)) * (now - last) / (score(r_now) - score(r_last))

    for _ in range(STEPS):
        short = r_far < r_n
        if not short.any():
            break
        expected = OVER * ahead(near, r_near, far, r_far)
        further = torch.minimum(2 * far, torch.maximum(FURTHEST * far, expected))
        near, r_near = torch.where(short, far, near), torch.where(short, r_far, r_near)
        far = torch.where(short, further, far)
        r_far = line.rank(far)
    last, r_last, now, r_now = near, r_near, far, r_far
    for step in range(1, STEPS):
        middle = (near + far) / 2
        open_ = (r_far > r_n) & (middle != near) & (middle != far)
        if not open_.any():
            break
        guess = ahead(last, r_last, now, r_now)
        inside = (guess < near) & (guess > far) & (step % 4 > 0)
        last, r_last, now = now, r_now, torch.where(inside, guess, middle)
        r_now = line.rank(now)
        short = r_now < r_n
        near = torch.where(open_ & short, now, near)
        far = torch.where(open_ & ~short, now, far)
        r_far = torch.where(open_ & ~short, r_now, r_far)
    return torch.where((r_far - r_n).abs() <= eps, far, 0.0)


SCHEDULES = {"paper": paper_schedule, "exact": exact_schedule}
