"""Exercises on the vocabulary space: reading a neuron, its one direction, crossing points."""

import torch

from revs.method import schedules
from revs.method.vocabulary import Line, Vocabulary, product
from teaching import toy
from teaching.checking import compare


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- reading --------------------------------------------------------------------------------------


def read(U, gamma, FF2, j, k):
    return product(U, gamma * FF2[:, j]).topk(k).indices.tolist()


def read_cases():
    # a square FF₂: a row would be no error of shape
    square = lambda s: (random(40, 8, seed=s), random(8, seed=s + 50).exp(), random(8, 8, seed=s))
    return [(*square(s), s % 8, 4) for s in range(1, 6)]


compare(
    "read_neuron",
    "read_neuron(U (V, d), gamma (d,), FF2 (d, ff), j, k) → the k tokens that neuron j promotes",
    read_cases,
    read,
    {
        "The norm is missing: a neuron passes the final norm's scale γ before U.": (
            lambda U, gamma, FF2, j, k: (U @ FF2[:, j]).topk(k).indices.tolist()
        ),
        "You read row j of FF₂. A neuron is a column: FF2[:, j].": (
            lambda U, gamma, FF2, j, k: (U @ (gamma * FF2[j])).topk(k).indices.tolist()
        ),
        "You divide by γ. Going to the vocabulary multiplies; only the way back divides.": (
            lambda U, gamma, FF2, j, k: (U @ (FF2[:, j] / gamma)).topk(k).indices.tolist()
        ),
        "You return the tokens that it promotes least.": (
            lambda U, gamma, FF2, j, k: (-(U @ (gamma * FF2[:, j]))).topk(k).indices.tolist()
        ),
        "You return their logits: the tokens themselves were asked for (.indices).": (
            lambda U, gamma, FF2, j, k: (U @ (gamma * FF2[:, j])).topk(k).values.tolist()
        ),
    },
)

# --- direction ------------------------------------------------------------------------------------


def direction(U, gamma, t):
    return torch.linalg.solve(U.T @ U, U[t]) / gamma


def direction_cases():
    decoder = toy.model()
    U, gamma = (of.weight.detach().double() for of in (decoder.head, decoder.norm))
    some = [(random(30, 6, seed=s), random(6, seed=s + 9).exp(), s) for s in (1, 2, 3)]
    return [*some, (U, gamma, 40), (U, gamma, 200)]


def direction_of_revs(U, gamma, t):
    """The function of revs for the toy model; the formula, which a test compares, elsewhere."""
    decoder = toy.model()
    if U.shape == decoder.head.weight.shape:
        return Vocabulary(decoder).direction(t)[0]
    return direction(U, gamma, t)


compare(
    "direction",
    "direction(U (V, d), gamma (d,), t) → d_t (d,)",
    direction_cases,
    direction_of_revs,
    {
        "This is U's row, divided by γ. It moves other logits too much: solve with UᵀU first.": (
            lambda U, gamma, t: U[t] / gamma
        ),
        "The norm is missing: divide by γ at the end, which undoes the final norm's scale.": (
            lambda U, gamma, t: torch.linalg.solve(U.T @ U, U[t])
        ),
        "You multiply by γ. The way back from the vocabulary divides by it.": (
            lambda U, gamma, t: torch.linalg.solve(U.T @ U, U[t]) * gamma
        ),
        "The sign is wrong: d_t raises the logit of t, and a negative c lowers it.": (
            lambda U, gamma, t: -torch.linalg.solve(U.T @ U, U[t]) / gamma
        ),
        "You made it a unit vector. Its length matters: it is what one unit of logit costs.": (
            lambda U, gamma, t: torch.nn.functional.normalize(direction(U, gamma, t), dim=0)
        ),
    },
)

# --- crossing points and the closed form ----------------------------------------------------------


def line_cases():
    cases = []
    for seed in range(1, 5):
        A, w = random(12, seed=seed), 0.3 * random(12, seed=seed + 20).tanh()
        t = seed
        w[t], A[t] = 0.6, A.max() - 0.2
        cases.append((A, w, t))
    return cases


def points(A, w, t):
    keep = torch.arange(len(A)) != t
    return ((A - A[t]) / (w[t] - w))[keep]


compare(
    "crossing_points",
    "crossing_points(A (V,), w (V,), t) → x_j of all j ≠ t, in the order of j (V − 1,)",
    line_cases,
    points,
    {
        "The sign is wrong: A_j − A_t stands above and w_t − w_j below.": (
            lambda A, w, t: -points(A, w, t)
        ),
        "The fraction is upside down.": lambda A, w, t: 1 / points(A, w, t),
        "You divide by w_t alone: the other token moves too, by w_j.": lambda A, w, t: (
            (A - A[t]) / w[t]
        )[torch.arange(len(A)) != t],
        "You return all V tokens: leave t itself out.": lambda A, w, t: (A - A[t]) / (w[t] - w),
    },
    in_revs=False,
)


def demotion(A, w, t, r_n):
    line = Line(t, A[None], w, torch.ones(1, dtype=A.dtype))
    return float(schedules.order_statistic(line, r_n)[0])


def between(A, w, t, r_n, above=0, cap=True):
    x = torch.cat([points(A, w, t).sort(descending=True).values, torch.tensor([-1e9]).double()])
    c = float((x[r_n - 1 + above] + x[r_n + above]) / 2)
    return min(c, 0.0) if cap else c


def demotion_cases():
    three = [(*case, r) for case, r in zip(line_cases(), (2, 5, 8, 4))]
    A, w, t = line_cases()[0]
    low = A.clone()
    low[t] = A.min() - 1  # ranks last already: moving up is no demotion
    return [*three, (low, w, t, 3)]


compare(
    "demotion",
    "demotion(A (V,), w (V,), t, r_n) → the c ≤ 0 at which t has rank r_n",
    demotion_cases,
    demotion,
    {
        "Your rank is off by one: r_n points must lie above c, so that c lies between the r_n-th "
        "and the next (1-based places). Is t among your points? Its own, 0/0, sorts first.": (
            lambda A, w, t, r: between(A, w, t, r, above=-1)
        ),
        "Your rank is off by one in the other direction: the indices of a sorted list begin with "
        "0.": lambda A, w, t, r: between(A, w, t, r, above=1),
        "A neuron in which t ranks low already would be raised: only demote, c = min(0, …).": (
            lambda A, w, t, r: between(A, w, t, r, cap=False)
        ),
        "You return a crossing point itself, where two logits are equal: take the midpoint to the "
        "next one.": lambda A, w, t, r: min(
            0.0, float(points(A, w, t).sort(descending=True).values[r - 1])
        ),
        "You sorted the points upwards: moving left, the largest one is passed first.": (
            lambda A, w, t, r: min(0.0, float(points(A, w, t).sort().values[r - 1 : r + 1].mean()))
        ),
        "The sign is wrong: demoting means a negative c.": lambda A, w, t, r: -demotion(A, w, t, r),
    },
)
