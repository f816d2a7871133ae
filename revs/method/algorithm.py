"""REVS: rank editing in the vocabulary space (§3, Alg. 1).

``unlearn`` goes through all targets; ``unlearn_token`` is Alg. 1 for one token, in one forward pass: layers are
visited in order, and each is gated, searched and edited while the pass stops by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from revs.method.attribution import attributions
from revs.method.edit import Edit
from revs.method.neuron import SCHEDULES, edit_neurons
from revs.method.select import WORTH, counter, highest, ranks_of
from revs.method.vocabulary import Line, Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

WHERE = ("mlp", "residual", "both")
NEURONS = ("hybrid", "activations", "rank", "gradient", "random")
AT_ONCE = 5  # neurons edited before the layer is looked at again
LOOKS = (
    32,
    16,
    8,
    4,
    2,
    1,
)  # the parts of the vocabulary, one in so many tokens, after which a gate may be known to be closed
LIKELY = 2  # a gate that would let through so many times as many tokens as the part that was seen suggests is taken for open


@dataclass(frozen=True)
class Hyperparameters:
    """REVS's settings, under the paper's names (Appendix, "Implementation and Experimental Details").

    Ranks and margins are 0-based counts of tokens; a float below 1 is a fraction of the vocabulary.
    """

    n_max: int = 100  # neurons edited in a layer, at most
    k: int = 100  # neurons looked at in a layer: those with the highest (signed) activation
    r_h: float = 0.015  # the rank wanted for t in a layer
    eps_r_h: float = 0.005  # ε of r_h
    r_n: float = 0.8  # the rank wanted for t in a neuron
    eps_r_n: float = 0.04  # ε of r_n
    gate: str = "both"  # what must rank too high for a layer to be edited: FF₂'s output (mlp), the residual stream, both
    stop: str = "both"  # what must rank low enough for a layer to be left
    schedule: str = "exact"  # or "paper": see revs.method.neuron
    projection: str = "norm"  # or "raw": through the final norm, or U alone
    order: str = (
        "lazy"  # a layer is chosen after the edits below it; "eager": all layers before any edit
    )
    neurons: str = (
        "hybrid"  # by activation and rank; or by one of them alone, by gradient, or at random
    )

    def __post_init__(self):
        for name, known in {
            "gate": WHERE,
            "stop": WHERE,
            "schedule": tuple(SCHEDULES),
            "projection": ("norm", "raw"),
            "order": ("lazy", "eager"),
            "neurons": NEURONS,
        }.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} is '{getattr(self, name)}', but must be one of {', '.join(known)}."
                )
        if not 1 <= self.n_max <= self.k:
            raise ValueError(
                f"n_max is {self.n_max} and k is {self.k}, but 1 ≤ n_max ≤ k must hold: neurons are edited out of the k most activated."
            )
        for name in ("r_h", "eps_r_h", "r_n", "eps_r_n"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but a rank cannot be negative.")

    def in_tokens(self, V: int) -> Hyperparameters:
        """The same settings with fractions of the vocabulary turned into whole ranks."""
        margins = {name: getattr(self, name) for name in ("r_h", "eps_r_h", "r_n", "eps_r_n")}
        counts = {
            name: round(value * V) if isinstance(value, float) and value < 1 else int(value)
            for name, value in margins.items()
        }
        for name in ("r_h", "r_n"):
            if counts[name] >= V:
                raise ValueError(
                    f"{name} is {counts[name]}, but the vocabulary has only {V} tokens: lower {name}, or give it as a fraction."
                )
        return replace(self, **counts)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[Sequence], Iterable] = iter,
) -> Edit:
    """Unlearns every token of every target's T, one after the other, in place; the Edit undoes it exactly.

    ``seed`` draws nothing unless neurons are chosen at random.
    """
    vocabulary = Vocabulary(decoder, raw=hp.projection == "raw")
    hp = hp.in_tokens(vocabulary.V)
    draw = torch.Generator().manual_seed(seed)
    for target in targets:
        decoder.check_length(
            len(target.prompt_ids) + len(target.secret_ids), f"{target.id} (prompt and secret)"
        )
    with Edit(decoder) as edit:
        for ids, t in progress(pairs(targets)):
            unlearn_token(decoder, vocabulary, ids, t, hp, edit, draw)
    return edit


def unlearn_token(
    decoder: Decoder,
    vocabulary: Vocabulary,
    ids: list[int],
    t: int,
    hp: Hyperparameters,
    edit: Edit,
    draw: torch.Generator | None = None,
) -> None:
    """Alg. 1: demotes token t after the tokens ``ids``, layer by layer, in place. ``hp`` holds whole ranks."""
    selected = select_layers(decoder, vocabulary, ids, t, hp) if hp.order == "eager" else None
    attributed = attributions(decoder, ids, t) if hp.neurons == "gradient" else None

    def at_layer(l: int, a: Tensor, h: Tensor, x: Tensor) -> Tensor | None:
        if not (
            l in selected
            if selected is not None
            else may_be_open(vocabulary, l, h[-1], x[-1], t, hp)
        ):
            return None
        return edit_layer(
            vocabulary, edit, l, a, -1, h[-1], x[-1], t, hp, attributed and attributed[l], draw
        )

    decoder.visit(ids, at_layer)


def edit_layer(
    vocabulary: Vocabulary,
    edit: Edit,
    l: int,
    a: Tensor,
    at: int,
    h: Tensor,
    x: Tensor,
    t: int,
    hp: Hyperparameters,
    attributed: Tensor | None = None,
    draw: torch.Generator | None = None,
) -> Tensor | None:
    """SelectNeuron and EditNeuron in one layer whose gate may be open, from row ``at`` of the activations a (n, ff) and FF₂'s output h and the stream x (d,) there.

    Returns what the edit adds to FF₂'s output in each of the n rows, (n, d); None if the gate is closed after all, or nothing had to be edited.
    """
    weight = edit.decoder.neurons(l)
    some = candidates(vocabulary, l, weight, a[at], t, hp, attributed, draw)
    hidden, line = lines(vocabulary, l, h, x, weight[:, some].T, t)
    if hp.order == "lazy" and not gate(hidden, hp):
        return None
    neurons, line = best(some, line, hp)
    c, unreached = edit_until_low(hidden, line, a[at, neurons], hp)
    if not len(c):
        return None
    neurons = neurons[: len(c)]
    before = weight[:, neurons].clone()
    edit.move(l, neurons, c, t, vocabulary.step(l, t))
    edit.unreached += unreached
    return (
        a[:, neurons] @ (weight[:, neurons] - before).to(a).T
    )  # (n × K) · (K × d), with the columns as rounded


def gate(hidden: Line, hp: Hyperparameters) -> bool:
    """Does t still rank too high in this layer (§3.1.1)? The released code asks ``both``: stream < r_h − ε, FF₂ < r_h + ε."""
    return passes(*hidden.rank_at_rest().tolist(), hp)


def passes(r_mlp: int, r_residual: int, hp: Hyperparameters) -> bool:
    """Are these ranks small enough to edit the layer?"""
    low, high = hp.r_h - hp.eps_r_h, hp.r_h + hp.eps_r_h
    return (hp.gate == "residual" or r_mlp < high) and (hp.gate == "mlp" or r_residual < low)


def may_be_open(
    vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, t: int, hp: Hyperparameters
) -> bool:
    """Is the gate of a layer not closed for sure? A rank is a count, so that a part of the vocabulary may already hold more tokens ahead of t than the gate lets through: most are closed after a look.

    One that is open or seems so by far (``LIKELY``) is not looked at to the end: ``edit_layer`` asks ``gate`` once it has FF₂'s output and the stream in logits, by the product that its neurons need in any case.
    """
    if (
        vocabulary.after[l] is not None or vocabulary.U.device.type != "cpu"
    ):  # FF₂'s output is seen through a norm of its own; a GPU has read all of U before it would have been asked twice
        return gate(vocabulary.hidden(l, h, x, t), hp)
    larger, both = counter(vocabulary, l, torch.stack([h, x.to(h)]), t), torch.arange(2)
    ahead, seen = torch.zeros_like(both), 0
    for look in LOOKS:
        ahead, seen = ahead + larger(both, slice(seen, vocabulary.V // look)), vocabulary.V // look
        if not passes(*ahead.tolist(), hp):
            return False
        if passes(*(LIKELY * look * ahead).tolist(), hp):
            break
    return True


def select_layers(
    decoder: Decoder, vocabulary: Vocabulary, ids: list[int], t: int, hp: Hyperparameters
) -> set[int]:
    """SelectLayers of Alg. 1 taken literally: all layers gated before any edit."""
    selected = set()

    def at_layer(l: int, a: Tensor, h: Tensor, x: Tensor) -> None:
        if gate(vocabulary.hidden(l, h[-1], x[-1], t), hp):
            selected.add(l)

    decoder.visit(ids, at_layer)
    return selected


def select_neurons(
    vocabulary: Vocabulary,
    l: int,
    weight: Tensor,
    a: Tensor,
    t: int,
    hp: Hyperparameters,
    attributed: Tensor | None = None,
    draw: torch.Generator | None = None,
) -> tuple[Tensor, Line]:
    """SelectNeuron (§3.1.2): of the k most activated neurons, the n_max in which t ranks highest, in that order.

    Returns their indices (n,) and their lines. Ties keep the order of activation. ``hp.neurons`` names the paper's
    alternatives (Appendix, "Alternative Neuron Selection Strategies"): n_max neurons by one criterion alone.
    """
    some = candidates(vocabulary, l, weight, a, t, hp, attributed, draw)
    return best(some, vocabulary.neurons(l, weight[:, some].T, t), hp)


def candidates(
    vocabulary: Vocabulary,
    l: int,
    weight: Tensor,
    a: Tensor,
    t: int,
    hp: Hyperparameters,
    attributed: Tensor | None,
    draw: torch.Generator | None,
) -> Tensor:
    """The neurons of which ``best`` takes n_max, in the order of what they were chosen by, (k,); where k is large, those n_max alone, counted piece by piece."""
    ff = len(a)
    n = min(hp.n_max, ff)
    some = {
        "hybrid": lambda: a.float().topk(min(hp.k, ff)).indices,
        "rank": lambda: torch.arange(ff, device=a.device),
        "activations": lambda: a.float().topk(n).indices,
        "gradient": lambda: attributed.topk(n).indices,
        "random": lambda: torch.randperm(ff, generator=draw)[:n].to(a.device),
    }[hp.neurons]()
    return (
        some[highest(vocabulary, l, weight[:, some].T, t, n).to(some.device)]
        if len(some) >= WORTH * n
        else some
    )


def lines(
    vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, n: Tensor, t: int
) -> tuple[Line, Line]:
    """``Vocabulary.hidden`` and ``Vocabulary.neurons``, in one product with U where both are seen through the same norm: U is read once."""
    if vocabulary.after[l] is not None:
        return vocabulary.hidden(l, h, x, t), vocabulary.neurons(l, n, t)
    columns = [
        vectors.to(vocabulary.U.device, vocabulary.dtype)
        for vectors in (n.T, h[:, None], x[:, None])
    ]
    whole = vocabulary.line(
        torch.cat(columns, 1).T, t
    )  # column by column, as neurons lie in FF₂: on the processors tried, sums are rounded as those of the neurons alone
    return whole.rows(torch.tensor([len(n), len(n) + 1], device=whole.A.device)), whole.rows(
        slice(0, len(n))
    )  # a copy of two, which does not keep all the others alive


def best(some: Tensor, line: Line, hp: Hyperparameters) -> tuple[Tensor, Line]:
    """Of some neurons (k,) and their lines, the n_max in which t ranks highest; all of them where rank is no criterion."""
    if hp.neurons not in ("hybrid", "rank"):
        return some, line
    order = ranks_of(line).argsort(stable=True)[: hp.n_max]
    return some[order.to(some.device)], line.rows(order)


def edit_until_low(hidden: Line, line: Line, a: Tensor, hp: Hyperparameters) -> tuple[Tensor, int]:
    """The loop of Alg. 1 in one layer: c of the smallest number K of neurons after which t ranks low enough, (K,).

    Editing neurons 1..K moves FF₂'s output and the stream by S_K·d_t with S_K = Σ aᵢ·cᵢ, so that every K is one
    point on two lines that are already known. S need not be monotone: every K is tested. Neurons are edited a few at
    a time, since most layers need few. Also returns how many of the K could not reach r_n.
    """
    c, reached = torch.zeros_like(line.scale), torch.ones_like(line.scale, dtype=torch.bool)
    step = (
        AT_ONCE if c.device.type == "cpu" else max(1, len(c))
    )  # a GPU is done with all of them before it would have been asked twice
    for start in range(0, len(c), step):
        some = slice(start, start + step)
        c[some], reached[some] = edit_neurons(line.rows(some), hp.r_n, hp.eps_r_n, hp.schedule)
        S = (a.to(c) * c)[: start + step].cumsum(0)
        enough = low_enough(hidden, torch.cat([S.new_zeros(1), S]) if start == 0 else S[start:], hp)
        if enough.any():
            K = int(enough.int().argmax()) + (start + 1 if start else 0)
            return c[:K], int((~reached[:K]).sum())
    return c, int((~reached).sum())


def low_enough(hidden: Line, S: Tensor, hp: Hyperparameters) -> Tensor:
    """For each of some sums S: does t then rank r_h − ε or lower in what ``stop`` names? (len(S),) bool."""
    enough = torch.ones_like(S, dtype=torch.bool)
    for row, name in ((1, "residual"), (0, "mlp")):  # the stream first, which is the last to be low
        if hp.stop in (name, "both") and enough.any():
            enough &= hidden.rows(slice(row, row + 1)).repeat(len(S)).rank(S) >= hp.r_h - hp.eps_r_h
    return enough
