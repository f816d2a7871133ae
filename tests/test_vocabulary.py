"""The geometry that the closed form rests on (§2, §3.2, Alg. 2): one direction per token, one
scalar per neuron.

A decoder's own norm and head modules are the measure throughout: ``reference.Projection``.
"""

import copy

import pytest
import torch
from conftest import build, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revs.method import reference
from revs.method import vocabulary as module
from revs.method.schedules import edit_neurons, order_statistic
from revs.method.vocabulary import Line, Vocabulary

seeds = st.integers(0, 10_000)
either = pytest.mark.parametrize("raw", [False, True], ids=["norm", "raw"])


def vectors(decoder, n: int, seed: int) -> Tensor:
    weight, draw = decoder.head.weight, torch.Generator().manual_seed(seed)
    found = torch.randn(n, weight.shape[1], generator=draw, dtype=torch.float64)
    return found.to(weight.dtype)


@torch.no_grad()
def logits(decoder, x: Tensor, raw: bool = False) -> Tensor:
    return reference.Projection(decoder, raw)(x)


def assert_rank(r: int, logits: Tensor, t: int, blur: float = 1e-5) -> None:
    """r is t's rank, if logits nearer to t's than the single precision inside a norm may fall on
    either side."""
    scale = blur * float(logits.abs().max())
    assert int((logits > logits[t] + scale).sum()) <= r <= int((logits > logits[t] - scale).sum())


@either
@examples
@given(seed=seeds, t=st.integers(0, 299), delta=st.floats(-200, 200))
def test_adding_to_a_logit_and_mapping_back_is_a_step_along_one_direction(
    decoder, raw, seed, t, delta
):
    """§3.2, steps 1–3. U† of the changed logits, with the norm inverted exactly, is n +
    δ·s(n)·d_t."""
    vocabulary, project = Vocabulary(decoder, raw), reference.Projection(decoder, raw)
    n = vectors(decoder, 1, seed)[0]
    with torch.no_grad():
        v = project(n)
        v[t] += delta
        n_star = project.back(v, n)
    c = delta * vocabulary.line(n[None], t).scale
    torch.testing.assert_close(n + c * vocabulary.direction(t)[0], n_star, rtol=1e-5, atol=1e-4)


@either
@examples
@given(seed=seeds, t=st.integers(0, 299), delta=st.floats(-500, 500))
def test_the_rank_along_the_line_is_the_rank_of_the_moved_neuron(decoder, raw, seed, t, delta):
    """Line.rank(c) is the rank of t in n + c·d_t as the model itself projects it, for a LayerNorm
    and a head bias too."""
    vocabulary, x = Vocabulary(decoder, raw), vectors(decoder, 3, seed)
    line = vocabulary.line(x, t)
    c = delta * line.scale
    for vector, r in zip(x + c[:, None] * vocabulary.direction(t)[0], line.rank(c).tolist()):
        assert_rank(r, logits(decoder, vector, raw), t)


def test_biases_of_zero_leave_logits_linear():
    """A LayerNorm model whose biases are zero needs no search; its ranks are the model's own."""
    decoder = build("gptj")
    assert Vocabulary(decoder).B is not None
    with torch.no_grad():
        decoder.norm.bias.zero_()
        decoder.head.bias.zero_()
    vocabulary, x = Vocabulary(decoder), vectors(decoder, 3, seed=0)
    line = vocabulary.line(x, t=5)
    assert line.B is None
    c, reached = edit_neurons(line, 200, 0, "exact")
    wanted = line.rank_at_rest().clamp_min(200).tolist()
    for vector, r in zip(x + c[:, None] * vocabulary.direction(5)[0], wanted):
        assert_rank(r, logits(decoder, vector), 5)
    assert reached.all() and (c < 0).any()


# The order statistic ------------------------------------------------------------------------------


def random_line(seed: int, V: int, n: int, fastest: bool, ties: bool) -> Line:
    """A random line in which no token moves faster than t (``fastest``) or some do. ``ties``: one
    token is identical to t, one as fast as t, and there are a pair and a triple of identical
    ones."""
    draw = torch.Generator().manual_seed(seed)
    t = int(torch.randint(V, (), generator=draw))
    A = torch.randn(n, V, generator=draw, dtype=torch.float64)
    w = torch.rand(V, generator=draw, dtype=torch.float64)
    w[t] = 1.5 if fastest else 0.7
    if ties:
        others = [j for j in torch.randperm(V, generator=draw).tolist() if j != t]
        w[others[6]] = w[t]
        same = {0: t, 1: others[2], 3: others[4], 5: others[4]}
        for twin, token in ((others[i], token) for i, token in same.items()):
            A[:, twin], w[twin] = A[:, token], w[token]
    return Line(t, A, w, torch.ones(n, dtype=torch.float64))


def scan(A: Tensor, w: Tensor, t: int, r_n: int) -> tuple[float, float, int] | None:
    """By brute force. The interval of c < 0 nearest to 0 in which t ranks r_n or lower, and its
    rank; None without one."""
    crossings = ((A - A[t]) / (w[t] - w))[w != w[t]].tolist()
    points = [0.0, *sorted({x for x in crossings if x < 0}, reverse=True), -1e6]
    like_t = (A == A[t]) & (w == w[t])
    for high, low in zip(points, points[1:]):
        logits = A + (high + low) / 2 * w
        r = int(((logits > logits[t]) & ~like_t).sum())
        if r >= r_n:
            return low, high, r
    return None


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("fastest", [True, False], ids=["kth-largest", "sweep"])
@settings(examples, max_examples=60)
@given(seed=seeds, r_n=st.integers(1, 23))
def test_exact_is_the_smallest_demotion(fastest, ties, seed, r_n):
    """The order statistic finds what a scan of all intervals finds, with ties and with tokens
    faster than t."""
    line = random_line(seed, 24, 4, fastest, ties)
    line = line.rows(line.rank_at_rest() < r_n)
    c = order_statistic(line, r_n)
    for A, x, r in zip(line.A, c.tolist(), line.rank(c).tolist()):
        found = scan(A, line.w, line.t, r_n)
        if found is None:
            assert x == 0
        else:
            assert found[0] < x < found[1] and r == found[2]


@pytest.mark.parametrize("r_n", [40, 1000, 1960])
def test_a_search_comes_to_r_n_with_few_looks(monkeypatch, r_n):
    """Under a LayerNorm: halving alone, down to the last bit of c, would take sixty."""
    draw = torch.Generator().manual_seed(0)
    A, w, B = (torch.randn(n, 2000, generator=draw) for n in (5, 1, 1))
    A[:, 7], w[0, 7] = 4.0, 5.0
    q = torch.ones(5), torch.zeros(5), torch.tensor(0.2)
    line = Line(7, A, w[0], torch.ones(5), 0.3 * B, q)
    looks, rank = [], Line.rank
    monkeypatch.setattr(Line, "rank", lambda self, c: looks.append(c) or rank(self, c))
    c, reached = edit_neurons(line, r_n, 0, "exact")
    assert reached.all() and (c < 0).all() and len(looks) <= 24
    assert rank(line, c).tolist() == [r_n] * 5 and (rank(line, 0.9 * c) < r_n).all()


@pytest.mark.parametrize("schedule", ["paper", "exact"])
def test_schedules_only_demote_and_report_what_they_miss(decoder, schedule):
    """A neuron in which t is low already stays, one that cannot be brought to r_n stays and is
    reported."""
    vocabulary, x = Vocabulary(decoder), vectors(decoder, 60, 4)
    line = vocabulary.line(x, 11)
    at_rest = line.rank_at_rest()
    eps = 0 if schedule == "paper" else 10
    c, reached = edit_neurons(line, r_n=200, eps=eps, schedule=schedule)
    r, low = line.rank(c), at_rest >= 200 - eps
    assert low.any() and (c[low] == 0).all() and reached[low].all()
    assert (c <= 0).all() and (r >= at_rest).all()
    moved = reached & ~low
    assert (c[~reached] == 0).all() and (c[moved] < 0).all() and (r[moved] == 200).all()
    # ×1.3 and ×0.8 cannot hit a single rank in every neuron
    assert bool(reached.all()) == (schedule == "exact")


# The ridge: a step that is not long where a scale or U is small -----------------------------------


# each way to stand to a norm
STANDING = ("llama-tied", "gptj", "gemma2", "olmo2", "glm4", "falcon")


def seen_from(decoder, vocabulary, l: int) -> torch.Tensor:
    """U·D: what the logits gain from a step of a neuron of layer l (V × d)."""
    scale = torch.ones_like(vocabulary.gamma)
    if vocabulary.after[l] is not None:
        scale = vocabulary.scale_of(vocabulary.after[l])
    d = len(scale)
    centre = torch.eye(d).double() - (1 / d if vocabulary.centred else 0)
    return decoder.head.weight.detach() @ torch.diag(vocabulary.gamma) @ centre @ torch.diag(scale)


@pytest.mark.parametrize("kind", STANDING)
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_the_step_is_the_least_of_what_it_is_said_to_be(kind, ridge):
    """min ‖U·D·s − e_t‖² + λ·m·‖s‖², solved as least squares of a stacked matrix."""
    decoder = build(kind)
    vocabulary, t = Vocabulary(decoder, ridge=ridge), 23
    for l in (0, 2):
        UD = seen_from(decoder, vocabulary, l)
        weight = (ridge * (UD.T @ UD).diagonal().mean()).sqrt()
        stacked = torch.cat([UD, weight * torch.eye(UD.shape[1]).double()])
        wanted = torch.zeros(len(stacked), 1).double()
        wanted[t] = 1
        step = torch.linalg.lstsq(stacked, wanted).solution[:, 0]
        torch.testing.assert_close(vocabulary.step(l, t), step, rtol=1e-6, atol=1e-8)
        moved = UD @ step
        torch.testing.assert_close(vocabulary.direction(t, l)[1], moved, rtol=1e-6, atol=1e-8)


@torch.no_grad()
def test_with_a_ridge_a_scale_of_zero_leaves_the_other_directions(refused):
    """As in Gemma-3-270M, where rounding made some: the step is 0 there, and is what any small
    scale in its place would give."""
    decoder = build("gemma2")
    norm = decoder.after(0).weight
    norm[3] = -decoder.architecture.offset
    with refused("scale of zero"):
        Vocabulary(decoder).step(0, 7)
    step = Vocabulary(decoder, ridge=1.0).step(0, 7)
    norm[3] += 1e-7
    torch.testing.assert_close(step, Vocabulary(decoder, ridge=1.0).step(0, 7))
    assert step[3] == 0 and step.abs().max() > 0


# Refusals, precision ------------------------------------------------------------------------------


def test_a_norm_without_an_inverse_is_refused(decoder, refused):
    """A zero in γ loses a hidden direction; without the norm there is nothing to lose."""
    with torch.no_grad():
        decoder.norm.weight[3] = 0
    with refused("scale of zero"):
        Vocabulary(decoder)
    Vocabulary(decoder, raw=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_head_without_full_column_rank_is_refused(decoder, dtype, refused):
    """If two hidden directions have the same logits, U† is no inverse of U."""
    decoder.model.to(dtype)
    with torch.no_grad():
        decoder.head.weight[:, 5] = -2 * decoder.head.weight[:, 2]
    with refused("full column rank"):
        Vocabulary(decoder)


@either
def test_low_precision_weights_are_ranked_in_single_precision(decoder, raw, monkeypatch):
    """A bfloat16 U gives the ranks of its float32 copy, although it is upcast block by block."""
    monkeypatch.setattr(module, "BLOCK", {"cpu": 64, "cuda": 64})
    decoder.model.bfloat16()
    exact = copy.deepcopy(decoder)
    exact.model.float()
    low, high = Vocabulary(decoder, raw), Vocabulary(exact, raw)
    assert low.U.dtype == torch.bfloat16 and low.V == 300
    x = vectors(exact, 50, 6)
    for t in (2, 130, 299):
        a, b = low.line(x, t), high.line(x, t)
        assert a.A.dtype == torch.float32
        for delta in (0.0, -4.0, -40.0):
            assert torch.equal(a.rank(delta * a.scale), b.rank(delta * b.scale))
