"""REVS: rank editing in the vocabulary space (§3, Alg. 1).

``unlearn_token`` is Alg. 1 in one forward pass: each layer is gated, searched and edited as the
pass reaches it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from revs.method import schedules, selection
from revs.method.edit import Edit
from revs.method.selection import LayerState
from revs.method.settings import require, require_one_of
from revs.method.vocabulary import MLP, PROJECTIONS, STREAM, Line, Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target, pairs

VERSION = 1
WHERE = ("mlp", "residual", "both")
MARGINS = ("r_h", "eps_r_h", "r_n", "eps_r_n")
PARTS = (32, 16, 8, 4, 2, 1)  # a gate is checked after 1/32 of the vocabulary, 1/16, …
AT_ONCE = 5  # neurons edited before the layer is looked at again
CHOICES = {
    "gate": WHERE,
    "stop": WHERE,
    "schedule": tuple(schedules.SCHEDULES),
    "projection": PROJECTIONS,
    "order": ("lazy", "eager"),
    "neurons": selection.NEURONS,
}


@dataclass(frozen=True)
class Hyperparameters:
    """REVS's settings, under the paper's names (Appendix, "Implementation … Details").

    Ranks and margins are 0-based counts of tokens; a float below 1 is a fraction of the vocabulary.
    """

    n_max: int = 100  # neurons edited in a layer, at most
    k: int = 100  # neurons looked at in a layer: those with the highest (signed) activation
    r_h: float = 0.015  # the rank wanted for t in a layer
    eps_r_h: float = 0.005  # ε of r_h
    r_n: float = 0.8  # the rank wanted for t in a neuron
    eps_r_n: float = 0.04  # ε of r_n
    gate: str = "both"  # what must rank too high for an edit: FF₂'s output (mlp), residual, both
    stop: str = "both"  # what must rank low enough for a layer to be left
    schedule: str = "exact"  # or "paper": see revs.method.schedules
    projection: str = "norm"  # or "raw": through the final norm, or U alone
    order: str = "lazy"  # a layer is gated after the edits below it; "eager": all before any edit
    neurons: str = "hybrid"  # by activation and rank; one of them alone; gradient, random
    layers: Sequence[int] | str = "all"  # that may be edited: "all", "upper" or some by number
    ridge: float = 0.0  # λ of the step (revs.method.vocabulary); 0: the paper's step

    def __post_init__(self):
        require_one_of(self, **CHOICES)
        require(self, ridge=0, n_max=0, k=0, **dict.fromkeys(MARGINS, 0))
        if not 1 <= self.n_max <= self.k:
            said = f"n_max is {self.n_max} and k is {self.k}, but 1 ≤ n_max ≤ k must hold: neurons "
            raise ValueError(said + "are edited out of the k most activated.")

    def in_tokens(self, V: int) -> Self:
        """The same settings with fractions of the vocabulary turned into whole ranks."""
        counts = {name: getattr(self, name) for name in MARGINS}
        for name, value in counts.items():
            fraction = isinstance(value, float) and value < 1
            counts[name] = round(value * V) if fraction else int(value)
            if name in ("r_h", "r_n") and value and not counts[name]:
                said = f"{name} is {value:g} of {V} tokens, less than one: raise it, or give a rank"
                raise ValueError(f"{said} of 1 or more.")
        for name in ("r_h", "r_n"):
            if counts[name] >= V:
                said = f"{name} is {counts[name]}, but the vocabulary has only {V} tokens: lower "
                raise ValueError(said + f"{name}, or give it as a fraction.")
            unread = name == "r_h" and self.gate == "mlp"
            if not unread and 0 < counts[name] <= counts[f"eps_{name}"]:
                said = f"{name} is {counts[name]} tokens and eps_{name} {counts[f'eps_{name}']}"
                raise ValueError(f"{said}, so that nothing would be edited: lower eps_{name}.")
        return replace(self, **counts)


def unlearn(
    decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, seed: int = 0, progress=iter
) -> Edit:
    """Unlearns the tokens T of all targets, in place; only random neurons depend on ``seed``.

    Before it changes anything, raises ValueError if settings, targets or model do not fit.
    """
    vocabulary = Vocabulary(decoder, hp.projection == "raw", ridge=hp.ridge)
    hp = hp.in_tokens(vocabulary.V)
    draw = torch.Generator().manual_seed(seed)
    for target in targets:
        length = len(target.prompt_ids + target.secret_ids)
        decoder.check_length(length, f"{target.id} (prompt and secret)")
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
    """Alg. 1: demotes t after ``ids``, layer by layer, in place; ``hp`` holds whole ranks."""
    layers = decoder.layer_indices(hp.layers)
    if hp.order == "eager":  # SelectLayers taken literally: all layers gated before any edit
        seen = decoder.activations(ids)
        layers = [l for l in layers if gate(vocabulary, l, *seen[l][1:], t, hp)]
    attributed = selection.attributions(decoder, ids, t) if hp.neurons == "gradient" else None

    def at_layer(l: int, a: Tensor, h: Tensor, x: Tensor) -> Tensor | None:
        if l not in layers:
            return None
        score = attributed[l] if attributed else None
        state = LayerState(l, decoder.neurons(l), a[-1], h[-1], x[-1], score, draw)
        if hp.order == "lazy" and not gate(vocabulary, l, h[-1], x[-1], t, hp):
            return None
        if (edited := edit_layer(vocabulary, edit, state, t, hp)) is None:
            return None
        neurons, change = edited
        return a[:, neurons] @ change.to(a).T  # what it adds to FF₂'s output, (T, d)

    decoder.run_by_layer(ids, at_layer)


def edit_layer(
    vocabulary: Vocabulary, edit: Edit, state: LayerState, t: int, hp: Hyperparameters
) -> tuple[Tensor, Tensor] | None:
    """SelectNeuron and EditNeuron in one layer whose gate is open.

    Returns the edited neurons (K,) and by how much their columns moved, as rounded: (d, K). None if
    nothing had to be edited.
    """
    hidden = vocabulary.hidden(state.l, state.h, state.x, t)
    neurons, line = selection.select_neurons(vocabulary, state, t, hp)
    c, unreached = edit_until_low(hidden, line, state.a[neurons], hp)
    if not len(c):
        return None
    neurons = neurons[: len(c)]
    before = state.weight[:, neurons].clone()
    edit.move(state.l, neurons, c, t, vocabulary.step(state.l, t))
    edit.unreached += unreached
    return neurons, state.weight[:, neurons] - before


def gate(vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, t: int, hp: Hyperparameters) -> bool:
    """Whether t ranks too high in FF₂'s output h and the stream x, (d,), so l is edited (§3.1.1).

    Most gates are closed, and nearly all of a gate's cost is the projection onto the vocabulary. A
    rank counts larger logits, so it can only grow as more tokens are read: a gate that is closed
    after a part of the vocabulary stays closed. Ranks are therefore checked after each of
    ``PARTS``, and only an open gate reads all tokens. The answer is that of the full ranks.
    """
    if vocabulary.after[l] is not None:  # FF₂'s output is seen through a norm of its own
        r_mlp, r_residual = vocabulary.hidden(l, h, x, t).rank_at_rest().tolist()
        return passes(r_mlp, r_residual, hp)
    ranks, seen = torch.zeros(2, dtype=torch.long), 0
    for part in PARTS if vocabulary.U.device.type == "cpu" else PARTS[-1:]:
        tokens = slice(seen, vocabulary.V // part)
        ranks += vocabulary.larger(torch.stack([h, x.to(h)]), t, tokens).cpu()
        if not passes(int(ranks[0]), int(ranks[1]), hp):
            return False
        seen = tokens.stop
    return True


def passes(r_mlp: int, r_residual: int, hp: Hyperparameters) -> bool:
    """Whether these ranks open a gate. As released, ``both``: stream < r_h − ε, FF₂ < r_h + ε."""
    low, high = hp.r_h - hp.eps_r_h, hp.r_h + hp.eps_r_h
    return (hp.gate == "residual" or r_mlp < high) and (hp.gate == "mlp" or r_residual < low)


def edit_until_low(hidden: Line, line: Line, a: Tensor, hp: Hyperparameters) -> tuple[Tensor, int]:
    """The loop of Alg. 1 in one layer: c of each neuron to edit until t ranks low enough.

    ``hidden``: FF₂'s output and the stream; ``line``: the neurons; a: their activations (n,).
    Editing neurons 1..K moves the output and the stream by S_K·d_t, S_K = Σ aᵢ·cᵢ, so every K is a
    point on two known lines. S need not be monotone, so every K is tested. Returns c for the
    smallest K that suffices, (K,), and how many of these neurons could not reach r_n.
    """
    c, reached = torch.zeros_like(line.scale), torch.ones_like(line.scale, dtype=torch.bool)
    if low_enough(hidden, c.new_zeros(1), hp).all():  # before any of them is edited
        return c[:0], 0
    step = AT_ONCE if c.device.type == "cpu" else max(1, len(c))
    how = int(hp.r_n), int(hp.eps_r_n), hp.schedule
    for start in range(0, len(c), step):  # few at a time: most layers are left after some of them
        some = slice(start, start + step)
        c[some], reached[some] = schedules.edit_neurons(line.rows(some), *how)
        S = (a.to(c) * c)[: some.stop].cumsum(0)[start:]
        enough = low_enough(hidden, S, hp)
        if enough.any():
            K = start + 1 + int(enough.int().argmax())
            return c[:K], int((~reached[:K]).sum())
    return c, int((~reached).sum())


def low_enough(hidden: Line, S: Tensor, hp: Hyperparameters) -> Tensor:
    """For each sum in S, whether t ranks r_h − ε or lower where ``stop`` asks for it: (len(S),)."""
    enough = torch.ones_like(S, dtype=torch.bool)
    for row, name in ((STREAM, "residual"), (MLP, "mlp")):  # first the one that is usually low last
        if hp.stop in (name, "both") and enough.any():
            enough &= hidden.rows(slice(row, row + 1)).rank(S) >= hp.r_h - hp.eps_r_h
    return enough
