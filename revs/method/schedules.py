"""EditNeuron (§3.2, Alg. 2): how far a neuron moves along d_t, so that t gets the rank r_n in it.

Two schedules choose c of n* = n + c·d_t:

``paper``  a change of logit of −10, then ×1.3 while t ranks too high, ×0.8 while too low, until the
           rank is within ε of r_n, at most 100 steps, each starting from the original neuron.
``exact``  the demotion midway along the first step that has rank r_n: an order statistic of the
           points where other tokens overtake t. Under a LayerNorm, logits are not linear in c: a
           search.

Both only demote (c ≤ 0) and leave a neuron in which t already ranks r_n − ε or lower as it is.
"""

import numpy as np
import torch
from torch import Tensor

from revs.method.reference import LOWER, RAISE, START, STEPS
from revs.method.vocabulary import Line

# a search goes OVER times as far as it expects r_n, at most FURTHEST times as far as before
OVER, FURTHEST = 1.05, 16.0


def edit_neurons(line: Line, r_n: int, eps: int, schedule: str) -> tuple[Tensor, Tensor]:
    """c for each of the line's n neurons, and whether t's rank reached r_n: (n,), (n,) bool.

    A neuron in which the rank cannot be reached gets c = 0 and is reported, never moved half way.
    """
    there = line.rank_at_rest() >= r_n - eps
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
    """The first demotion to rank r_n; where ties make that impossible, to the next rank."""
    return search(line, r_n, eps) if line.B is not None else order_statistic(line, r_n)


def order_statistic(line: Line, r_n: int) -> Tensor:
    """The c midway between the crossing points around rank r_n, if logits are linear in c.

    Token j overtakes t below its crossing point x_j = (A_j − A_t) / (w_t − w_j).
    """
    t, w = line.t, line.w
    slope = w[t] - w
    if (slope < 0).any():
        return sweep(line, slope, r_n)
    # t itself, and tokens whose row of U equals t's: ahead for ever, or behind
    never = (slope == 0).nonzero()[:, 0]
    ahead = (line.A[:, never] > line.A[:, t : t + 1]).sum(-1)
    x = (line.A - line.A[:, t : t + 1]).div_(slope)
    x[:, never] = -torch.inf
    c = torch.zeros_like(line.scale)
    for need in (r_n - ahead).unique().tolist():  # one value, but for rows with such tokens ahead
        rows = r_n - ahead == need
        if need <= line.A.shape[1] - len(never):
            c[rows] = between(*around(x if rows.all() else x[rows], need))[:, 0]
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


def between(point: Tensor, below: Tensor) -> Tensor:
    """A value of c just past a crossing point: midway to the next, or beyond without one."""
    return torch.where(below == -torch.inf, point - point.abs().clamp_min(1.0), (point + below) / 2)


def sweep(line: Line, slope: Tensor, r_n: int) -> Tensor:
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
    c = between(x.gather(-1, first), after.gather(-1, first))[:, 0]
    return torch.where(hit.any(-1), c, 0.0)


def search(line: Line, r_n: int, eps: int) -> Tensor:
    """A value of c ≤ 0 at which t's rank is r_n; 0 where it does not come within ε of it.

    A rank, as a normal score, is nearly linear in c: the line through the last two values gives the
    next guess. If it leaves the interval that holds r_n, and at every fourth step, the middle of
    the interval is taken instead.
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
