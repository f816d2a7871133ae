"""Exercises on what is measured: memorisation, ranks, scores, attacks, statistics."""

import math
import random
from itertools import pairwise

import torch

from revs.audit import leak
from revs.measures import attacks, metrics
from revs.method import vocabulary
from teaching.checking import compare

# --- memorised ------------------------------------------------------------------------------------


def memorised(logits, secret_ids, start):
    before = logits[start - 1 : start - 1 + len(secret_ids)]
    return not vocabulary.rank(before, torch.tensor(secret_ids)).any()


def memorised_cases():
    draw = torch.Generator().manual_seed(1)
    cases = []
    for wrong in ((), (), (0,), (1,), (2,), (0, 1), (0, 1, 2)):  # tokens that are not written
        logits = torch.randn(7, 12, generator=draw)
        secret = torch.randperm(12, generator=draw)[:3].tolist()
        for i, t in enumerate(secret):
            second, first = logits[3 + i].sort().values[-2:]
            logits[3 + i, t] = second - 0.1 if i in wrong else first + 0.1
        cases.append((logits, secret, 4))
    logits = torch.zeros(5, 5)  # a secret that is written one place too late
    logits[2, 4], logits[3, 1], logits[4, 2] = 9.0, 9.0, 9.0
    return [*cases, (logits, [1, 2], 3)]


compare(
    "memorised",
    "memorised(logits (tokens, V), secret_ids, start) → True or False",
    memorised_cases,
    memorised,
    {
        "You read the logits where the secret's token stands. They say what comes after it: the "
        "token at place i is predicted at place i − 1.": lambda logits, s, start: (
            logits.argmax(-1)[start : start + len(s)].tolist() == s
        ),
        "You look at the first token of the secret alone.": lambda logits, s, start: (
            int(logits[start - 1].argmax()) == s[0]
        ),
        "You look at the last token of the secret alone.": lambda logits, s, start: (
            int(logits[start + len(s) - 2].argmax()) == s[-1]
        ),
        "One token of the secret is enough for you: all of them must be written.": (
            lambda logits, s, start: any(
                int(logits[start - 1 + i].argmax()) == t for i, t in enumerate(s)
            )
        ),
    },
)

# --- rank -----------------------------------------------------------------------------------------


def rank_cases():
    draw = torch.Generator().manual_seed(2)
    cases = [(torch.randn(9, generator=draw), t) for t in range(4)]
    ties = torch.tensor([1.0, 3.0, 3.0, 0.0, 3.0, 5.0])
    return [*cases, (ties, 1), (ties, 2), (ties, 5), (ties, 3)]


compare(
    "rank",
    "rank(logits (V,), t) → the 0-based rank of token t",
    rank_cases,
    lambda logits, t: int(vocabulary.rank(logits, t)),
    {
        "Your ranks are 1-based: the most likely token has rank 0 here.": lambda v, t: (
            int((v > v[t]).sum()) + 1
        ),
        "You count the tokens below t. Its rank is the number of tokens above it.": lambda v, t: (
            int((v < v[t]).sum())
        ),
        "You count tokens with an equal logit too: only a strictly larger one is ahead of t.": (
            lambda v, t: int((v >= v[t]).sum()) - 1
        ),
        "You count t itself, and its ties: use > and not ≥.": lambda v, t: int((v >= v[t]).sum()),
        "You return the t-th best token. Return the place of token t instead.": lambda v, t: int(
            v.argsort(descending=True, stable=True)[t]
        ),
        "You return the logit of t, not its rank.": lambda v, t: float(v[t]),
    },
)

# --- efficacy, score ------------------------------------------------------------------------------

EFFICACY = [([0, 0], 100), ([3, 40], 100), ([500, 2], 100), ([20, 10], 40), ([7], 10), ([9, 5], 5)]

compare(
    "efficacy",
    "efficacy(ranks, k) → Efficacy@k of one secret",
    lambda: EFFICACY,
    metrics.efficacy,
    {
        "You take the smallest score. The secret is safe as soon as one token cannot be found: "
        "take the largest.": lambda r, k: min(metrics.score(x, k) for x in r),
        "You take the mean over the tokens: Eq. 3 takes the largest score.": lambda r, k: (
            sum(metrics.score(x, k) for x in r) / len(r)
        ),
        "Your score exceeds 1: a rank of k or more counts as 1.": lambda r, k: max(r) / k,
        "You answer in per cent: scores lie between 0 and 1.": lambda r, k: (
            100 * metrics.efficacy(r, k)
        ),
        "You only ask whether a token is outside the first k: below k the score is r/k.": (
            lambda r, k: float(max(r) >= k)
        ),
    },
)

SCORES = [(0.9, 0.6), (0.0, 0.5, 0.5), (1.0, 0.2, 0.7), (0.8, 0.0), (0.3, 0.9, 0.0)]

compare(
    "unlearning_score",
    "unlearning_score(efficacy, specificity, generalization=None) → a number",
    lambda: SCORES,
    metrics.unlearning_score,
    {
        "You take the arithmetic mean: the harmonic mean punishes the smallest part.": (
            lambda *parts: metrics.mean(parts)
        ),
        "You take the geometric mean: the paper takes the harmonic mean.": (
            lambda *parts: math.prod(parts) ** (1 / len(parts))
        ),
        "You take the smallest part: the paper takes the harmonic mean.": lambda *parts: min(parts),
        "You leave generalization out where it is given.": (
            lambda e, s, g=None: metrics.unlearning_score(e, s)
        ),
        "You divide by zero where a part is 0: the score is 0 then.": (
            lambda *parts: len(parts) / sum(1 / x for x in parts)
        ),
        "Your sum of reciprocals is right, but divide the number of parts by it, not 1.": (
            lambda *parts: 0.0 if 0 in parts else 1 / sum(1 / x for x in parts)
        ),
    },
)

# --- over seeds -----------------------------------------------------------------------------------

SEEDS = [([70.0, 78.5, 65.6],), ([89.0, 90.5],), ([1.0, 2.0, 4.0, 8.0],)]


def sd(values, less):
    return math.sqrt(sum((v - metrics.mean(values)) ** 2 for v in values) / (len(values) - less))


compare(
    "summary",
    "summary(values) → (mean, standard deviation)",
    lambda: SEEDS,
    metrics.summary,
    {
        "You divide by n: a few seeds are a sample, so divide by n − 1.": lambda v: (
            metrics.mean(v),
            sd(v, 0),
        ),
        "You give the standard error. The paper's ± is the standard deviation over seeds.": (
            lambda v: (metrics.mean(v), sd(v, 1) / math.sqrt(len(v)))
        ),
        "You give the variance: take its square root.": lambda v: (metrics.mean(v), sd(v, 1) ** 2),
        "You take the median for the mean.": lambda v: (sorted(v)[len(v) // 2], sd(v, 1)),
    },
)

FLIPS = [("1101", "1011"), ("1111", "0000"), ("10101010", "11100000"), ("0001", "0001")]

compare(
    "flips",
    "flips(before, after) → (lost, won), for answers such as '1101'",
    lambda: FLIPS,
    lambda before, after: tuple(metrics.flips(before, after).values()),
    {
        "You have lost and won the wrong way round: lost is right before and wrong after.": (
            lambda b, a: tuple(metrics.flips(a, b).values())
        ),
        "You compare the two accuracies. Answers that changed both ways cancel there: count them "
        "one by one.": lambda b, a: (
            max(0, b.count("1") - a.count("1")),
            max(0, a.count("1") - b.count("1")),
        ),
    },
)

# --- trade-off ------------------------------------------------------------------------------------


def pareto(points):
    better = lambda p, q: p[0] >= q[0] and p[1] >= q[1] and p != q
    return [i for i, q in enumerate(points) if not any(better(p, q) for p in points)]


POINTS = [
    ([(0.9, 0.2), (0.5, 0.5), (0.4, 0.4), (0.1, 0.9)],),
    ([(0.9, 0.2), (0.9, 0.3), (0.7, 0.3), (0.2, 0.3), (0.1, 0.8)],),
    ([(0.5, 0.5), (0.5, 0.5), (0.2, 0.6), (0.2, 0.5)],),
]

compare(
    "pareto",
    "pareto(points) → the indices of (efficacy, specificity) that no other point dominates",
    lambda: POINTS,
    pareto,
    {
        "You return the dominated points: the others were asked for.": lambda points: [
            i for i in range(len(points)) if i not in pareto(points)
        ],
        "You drop points only where both numbers are worse. Equal in one and worse in the other is "
        "dominated too.": lambda points: [
            i for i, q in enumerate(points) if not any(p[0] > q[0] and p[1] > q[1] for p in points)
        ],
        "Two equal points, or a point and itself, dominate each other in your test: something must "
        "be strictly better.": lambda points: [
            i
            for i, q in enumerate(points)
            if not any(p[0] >= q[0] and p[1] >= q[1] for j, p in enumerate(points) if j != i)
        ],
        "A point dominates itself in your test, so that none is left: something must be strictly "
        "better.": lambda points: [
            i
            for i, q in enumerate(points)
            if not any(p[0] >= q[0] and p[1] >= q[1] for p in points)
        ],
        "You keep only the best in each number: a compromise between them may be undominated.": (
            lambda points: [
                i
                for i, q in enumerate(points)
                if q[0] == max(p[0] for p in points) or q[1] == max(p[1] for p in points)
            ]
        ),
    },
    in_revs=False,
)

# --- attacks --------------------------------------------------------------------------------------


def resistance_cases():
    draw = random.Random(3)
    some = lambda layers: [[draw.randrange(160), draw.randrange(160)] for _ in range(layers)]
    apart = [[50, 20], [10, 5], [90, 90]]  # the first layer, the weakest, the last
    return [(some(n), 100) for n in (3, 4, 5, 6)] + [([[0, 90], [90, 0]], 100), (apart, 100)]


def scored(ranks, k):
    return [[metrics.score(r, k) for r in layer] for layer in ranks]


compare(
    "resistance",
    "resistance(ranks (layers, tokens of T), k) → Attack Resistance@k of one secret",
    resistance_cases,
    lambda ranks, k: attacks.per_example([ranks], k),
    {
        "You take the minimum over layers first and the maximum over tokens last: Eq. 5 asks in "
        "each layer for all tokens.": lambda r, k: attacks.union([r], k),
        "You take the minimum over tokens: the attacker needs all tokens, so take the maximum.": (
            lambda r, k: attacks.token_wise([r], k)
        ),
        "You take the mean over layers: one layer that gives the secret away is enough.": (
            lambda r, k: metrics.mean([max(layer) for layer in scored(r, k)])
        ),
        "You take the best layer for the defender: the attacker picks the worst one.": (
            lambda r, k: max(max(layer) for layer in scored(r, k))
        ),
        "You look at the last layer alone.": lambda r, k: max(scored(r, k)[-1]),
    },
)


def delta(v, k):
    return set().union(*(((b - a).abs().topk(k).indices.tolist()) for a, b in pairwise(v)))


def delta_cases():
    draw = torch.Generator().manual_seed(4)
    return [(torch.randn(n, 30, generator=draw), k) for n, k in ((2, 3), (4, 2), (5, 4))]


compare(
    "delta_candidates",
    "delta_candidates(v (layers, V), k) → the set of candidate tokens C_DA",
    delta_cases,
    delta,
    {
        "You leave the absolute value out: a logit that falls gives a token away as well.": (
            lambda v, k: set().union(*((b - a).topk(k).indices.tolist() for a, b in pairwise(v)))
        ),
        "You take the change from the first to the last layer: the attack looks at every step.": (
            lambda v, k: set((v[-1] - v[0]).abs().topk(k).indices.tolist())
        ),
        "You look at the last step alone: take the union over all layers.": (
            lambda v, k: set((v[-1] - v[-2]).abs().topk(k).indices.tolist())
        ),
        "You take the largest logits, which is the Logit-Lens attack: take the largest changes.": (
            lambda v, k: set().union(*(row.topk(k).indices.tolist() for row in v))
        ),
    },
)

compare(
    "leak",
    "leak(log_p, k) → the probability that k samples hold the secret, of log-probability log_p",
    lambda: [(-1.0, 1), (-5.0, 100), (-12.0, 1000), (-45.0, 1000), (-0.1, 3)],
    leak.leak,
    {
        "Your small probabilities round to 0: compute (1 − p)^k with log1p, and 1 minus it with "
        "expm1.": lambda log_p, k: 1 - (1 - math.exp(log_p)) ** k,
        "This is the probability that no sample holds it: subtract it from 1.": lambda log_p, k: (
            1 - leak.leak(log_p, k)
        ),
        "You multiply p by k: chances of several draws do not add up.": lambda log_p, k: (
            k * math.exp(log_p)
        ),
        "This is the probability of one sample, whatever k is.": lambda log_p, k: math.exp(log_p),
    },
)
