"""Exercises on the algorithm: choosing layers, neurons and tokens, and moving neurons."""

from itertools import product

import torch

from revs.method import algorithm, least_squares, reference, selection
from revs.method.selection import LayerState
from revs.method.vocabulary import Vocabulary, rank
from revs.model import targets
from teaching import toy
from teaching.checking import compare
from teaching.geometry import random

# --- choosing -------------------------------------------------------------------------------------

RANKS = list(product((0, 3, 90, 95, 97, 100, 104, 105, 130, 2000), repeat=2))


def gate(r_mlp, r_residual, r_h, eps):
    hp = algorithm.Hyperparameters(r_h=r_h, eps_r_h=eps)
    return algorithm.passes(r_mlp, r_residual, hp)


compare(
    "gate",
    "gate(r_mlp, r_residual, r_h, eps) → True if the layer is edited",
    lambda: [(*ranks, 100, 5) for ranks in RANKS],
    gate,
    {
        "One of the two ranks is enough for you: both must be too high for an edit.": (
            lambda m, x, r_h, eps: m < r_h + eps or x < r_h - eps
        ),
        "You have the two margins the wrong way round: the stream is compared with r_h − ε, FF₂'s "
        "output with r_h + ε.": lambda m, x, r_h, eps: m < r_h - eps and x < r_h + eps,
        "You leave ε out.": lambda m, x, r_h, eps: m < r_h and x < r_h,
        "You look at FF₂'s output alone: the stream counts too.": lambda m, x, r_h, eps: (
            m < r_h + eps
        ),
        "You look at the stream alone: FF₂'s output counts too.": lambda m, x, r_h, eps: (
            x < r_h - eps
        ),
        "You use ≤: a rank that equals the margin is low enough.": lambda m, x, r_h, eps: (
            m <= r_h + eps and x <= r_h - eps
        ),
        "You answer the opposite: the gate is open where the token ranks too high, and a high "
        "rank is a small number.": lambda m, x, r_h, eps: not gate(m, x, r_h, eps),
    },
)


def chosen(U, gamma, FF2, a, t, k, n_max):
    """SelectNeuron of revs, on tensors."""
    decoder = toy.model()
    with torch.no_grad():
        decoder.head.weight.copy_(U)
        decoder.norm.weight.copy_(gamma)
    vocabulary = Vocabulary(decoder)
    nothing = torch.zeros(len(FF2))
    state = LayerState(0, FF2, a, nothing, nothing)
    hp = algorithm.Hyperparameters(k=k, n_max=n_max)
    return selection.select_neurons(vocabulary, state, t, hp)[0].tolist()


def by_rank(U, gamma, FF2, some, t, largest=False):
    ranks = torch.tensor([int(rank(U @ (gamma * FF2[:, j]), t)) for j in some])
    return [int(some[i]) for i in ranks.argsort(stable=True, descending=largest)]


def neuron_cases():
    decoder = toy.model()
    U, gamma = decoder.head.weight.detach(), random(32, seed=7).exp().float()
    cases = []
    for l, t in ((0, 50), (1, 90), (2, 130)):
        a = random(128, seed=l + 1).float()
        cases.append((U, gamma, decoder.neurons(l).detach().clone(), a, t, 30, 6))
    return cases


compare(
    "select_neurons",
    "select_neurons(U, gamma, FF2 (d, ff), a (ff,), t, k, n_max) → indices, best first",
    neuron_cases,
    chosen,
    {
        "You take the absolute activation. A negative one means that lowering t in the column "
        "raises it in the output: the paper takes the highest signed ones.": (
            lambda U, g, F, a, t, k, n: by_rank(U, g, F, a.abs().topk(k).indices, t)[:n]
        ),
        "You choose by the rank alone: only the k most activated neurons are candidates.": (
            lambda U, g, F, a, t, k, n: by_rank(U, g, F, torch.arange(len(a)), t)[:n]
        ),
        "You choose by activation alone: of the k candidates, the rank of t decides.": (
            lambda U, g, F, a, t, k, n: a.topk(n).indices.tolist()
        ),
        "You take the neurons in which t ranks lowest: rank 0 is the strongest association.": (
            lambda U, g, F, a, t, k, n: by_rank(U, g, F, a.topk(k).indices, t, True)[:n]
        ),
        "You return places among the k candidates: look up which neurons they are.": (
            lambda U, g, F, a, t, k, n: [
                a.topk(k).indices.tolist().index(j)
                for j in by_rank(U, g, F, a.topk(k).indices, t)[:n]
            ]
        ),
        "The norm is missing in the rank: a neuron passes γ before U.": (
            lambda U, g, F, a, t, k, n: by_rank(U, torch.ones_like(g), F, a.topk(k).indices, t)[:n]
        ),
    },
)


def rarest(secret_ids, T):
    ids, places = list(secret_ids), range(len(secret_ids))
    return list(targets.select(ids, list(places), T, "rarest", ""))


compare(
    "rarest",
    "rarest(secret_ids, T) → the positions of the T rarest tokens, in the secret's order",
    lambda: [([50, 9, 700, 3, 410], 2), ([900, 4, 800], 2), ([7, 7, 5], 1), ([3, 90, 12, 60], 3)],
    rarest,
    {
        "You return token ids: the positions in the secret were asked for.": lambda ids, T: sorted(
            ids, reverse=True
        )[:T],
        "You take the lowest ids. BPE merges frequent pairs first, so that high ids are rare.": (
            lambda ids, T: sorted(sorted(range(len(ids)), key=lambda i: ids[i])[:T])
        ),
        "You order them by rarity: keep the order in which the secret is written.": (
            lambda ids, T: sorted(range(len(ids)), key=lambda i: -ids[i])[:T]
        ),
        "You take the first T tokens, whatever they are.": lambda ids, T: list(range(T)),
    },
)

# --- EditNeuron, Alg. 2 ---------------------------------------------------------------------------


def edit_neuron(U, n, t, r_n, eps):
    return reference.edit_neuron(reference.Projection(toy.model(), raw=True), n, t, r_n, eps)[0]


def schedule(U, n, t, r_n, eps, put=False, onward=False, down=False, always=False):
    """Alg. 2 with the mistakes that one can make in it."""
    back, v, l, now = torch.linalg.pinv(U), U @ n, -10.0, n
    if int(rank(v, t)) >= r_n - eps and not always:
        return n
    for _ in range(100):
        changed = (U @ now if onward else v).clone()
        changed[t] = l if put else changed[t] + l
        new = back @ changed
        r = int(rank(U @ new, t))
        if abs(r - r_n) <= eps or (down and r > r_n - eps):
            return new
        now, l = new, l * (1.3 if r < r_n or down else 0.8)
    return n


def edit_cases():
    decoder = toy.model()
    U, cases = decoder.head.weight.detach(), []
    for l, j, t in ((0, 3, 60), (1, 40, 111), (2, 77, 205), (2, 5, 33), (1, 90, 180), (0, 31, 60)):
        cases.append((U, decoder.neurons(l)[:, j].detach().clone(), t, 200, 20))
    return cases


compare(
    "edit_neuron",
    "edit_neuron(U (V, d), n (d,), t, r_n, eps) → n* (d,), by Alg. 2 as released",
    edit_cases,
    edit_neuron,
    {
        "You set the target's logit to ℓ, as Alg. 2 is printed. The released code adds ℓ to it.": (
            lambda *case: schedule(*case, put=True)
        ),
        "You edit a neuron whose rank is at least r_n − ε already: return it as it is.": (
            lambda *case: schedule(*case, always=True)
        ),
        "You only ever go further down. Beyond r_n + ε, ℓ is multiplied by 0.8.": (
            lambda *case: schedule(*case, down=True)
        ),
        "You return the neuron as it was, as if no trial had succeeded. Does each trial start from "
        "n, or do you go on from the neuron that you have just edited?": (
            lambda *case: schedule(*case, onward=True)
        ),
    },
)


def neurons_needed(a, c, S):
    total = 0.0
    for K, (a_i, c_i) in enumerate(zip(a, c), 1):
        total += a_i * c_i
        if total <= S:
            return K
    return len(a)


SUMS = [
    ([2.0, 1.0, 0.5, 3.0], [-1.0, -2.0, -4.0, -1.0], -5.0),
    ([1.0, -1.0, 2.0, 4.0], [-3.0, -2.0, -1.0, -2.0], -2.5),
    ([0.5, 0.5, 0.5], [-1.0, -1.0, -1.0], -9.0),
    ([0.5, -3.0, 1.0, 4.0], [-1.0, -1.0, -1.0, -2.0], -2.5),
    ([1.0, -1.0, 2.0, 3.0], [-2.0, -2.0, -1.5, -1.0], -4.0),
    ([1.0, -2.0, 3.0, 1.0], [-2.0, -1.0, -1.0, -5.0], -3.0),
]

compare(
    "neurons_needed",
    "neurons_needed(a, c, S) → the smallest K with a₁c₁ + … + a_K c_K ≤ S, or all",
    lambda: SUMS,
    neurons_needed,
    {
        "The activations are missing: a column moves the output by a_i·c_i.": (
            lambda a, c, S: neurons_needed([1.0] * len(a), c, S)
        ),
        "K is off by one: it counts neurons, so that the first is K = 1.": lambda a, c, S: (
            neurons_needed(a, c, S) - 1
        ),
        "You compare each product by itself: neurons add up.": lambda a, c, S: next(
            (K for K, (x, y) in enumerate(zip(a, c), 1) if x * y <= S), len(a)
        ),
        "You stop where the sum of all absolute moves is enough: a negative activation moves the "
        "output the other way.": lambda a, c, S: neurons_needed([abs(x) for x in a], c, S),
        "You leave out neurons with a negative activation: they move the output the other way.": (
            lambda a, c, S: neurons_needed([max(x, 0.0) for x in a], c, S)
        ),
    },
    in_revs=False,
)

# --- the least-squares write ----------------------------------------------------------------------


def solved(K, bound):
    return torch.linalg.solve(K @ K.T + bound * torch.eye(len(K)).to(K), K)


compare(
    "write",
    "write(K (n, ff), lam) → M (n, ff), one row m_i a key",
    lambda: [
        (random(n, ff, seed=n), lam) for n, ff, lam in ((3, 8, 0.1), (5, 20, 0.01), (2, 4, 1))
    ],
    least_squares.solution,
    {
        "λ is not scaled: it is multiplied by ā, the mean of ‖a_i‖².": solved,
        "λ is missing: the keys are then hit exactly, at any price.": lambda K, lam: solved(K, 0.0),
        "ā is the mean of the squared norms: you took the mean of the norms.": lambda K, lam: (
            solved(K, lam * K.norm(dim=1).mean())
        ),
        "You return M transposed: one row per key was asked for.": lambda K, lam: (
            least_squares.solution(K, lam).T
        ),
        "You return the inverse: multiply it by the keys.": lambda K, lam: torch.linalg.inv(
            K @ K.T + lam * K.square().sum(1).mean() * torch.eye(len(K)).to(K)
        ),
        "You return the keys themselves, scaled: that is one gradient step, and overlapping keys "
        "are then moved twice.": lambda K, lam: K / K.square().sum(1, keepdim=True),
    },
)
