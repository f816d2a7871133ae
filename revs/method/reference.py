"""The paper's procedure as printed (§3, Alg. 1 and 2): slow, to be read in one sitting.

Nothing is rearranged. Every look at a layer is a full forward pass, every projection goes through
the model's own norm and head, every trial edit is made in its weights. ``revs.method.algorithm``
does the same in one pass and in closed form, and is tested against this file. Where the printed
text leaves a choice, the released code decides (``too_high``, ``edit_neuron``).

Ranks are 0-based; ``hp`` are ``revs.method.algorithm.Hyperparameters`` in tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from revs.model.architecture import Decoder, stream_of

START, LOWER, RAISE, STEPS = -10.0, 1.3, 0.8, 100  # of Alg. 2; the bound is the released code's
Edited = list[tuple[int, int, Tensor]]  # layer, neuron, its new column


# --- Alg. 1, UnlearnToken -------------------------------------------------------------------------


@torch.no_grad()
def unlearn_token(decoder: Decoder, ids: list[int], t: int, hp) -> tuple[Edited, int]:
    """Alg. 1: demotes t after ``ids``, in place.

    Returns the edited neurons in order, and how many of them missed r_n.
    """
    project, layers = Projection(decoder, hp.projection == "raw"), range(len(decoder.layers))
    high = lambda l: too_high(token_rank(decoder, project, ids, t, l), hp)
    selected = [l for l in layers if high(l)] if hp.order == "eager" else None
    edited: Edited = []
    missed = 0
    for l in layers:
        if l in selected if selected is not None else high(l):
            more, beyond = edit_layer(decoder, project, ids, t, hp, l)
            edited, missed = edited + more, missed + beyond
    return edited, missed


@torch.no_grad()
def edit_layer(
    decoder: Decoder, project: Projection, ids: list[int], t: int, hp, l: int
) -> tuple[Edited, int]:
    """The inner loop of Alg. 1, in place: neuron after neuron until t ranks low enough."""
    weight, g = decoder.neurons(l), scale_after(decoder, l)
    a, _, _ = observe(decoder, ids, l)
    neurons = select_neurons(project, g[:, None] * weight, a, t, hp.k, hp.n_max)
    edited: Edited = []
    missed = 0
    while neurons and not low_enough(token_rank(decoder, project, ids, t, l), hp):
        j = neurons.pop(0)
        n_star, reached = edit_neuron(project, g * weight[:, j], t, hp.r_n, hp.eps_r_n)
        weight[:, j] = n_star / g
        edited.append((l, j, weight[:, j].clone()))
        missed += not reached
    return edited, missed


def token_rank(
    decoder: Decoder, project: Projection, ids: list[int], t: int, l: int
) -> dict[str, int]:
    """TokenRank: t's rank in what a layer's FF₂ adds to the stream, and in the stream after it."""
    _, h, x = observe(decoder, ids, l)
    return {"mlp": rank(project(h), t), "residual": rank(project(x), t)}


def too_high(r: dict[str, int], hp) -> bool:
    """SelectLayers (§3.1.1): is a layer with these ranks to be edited?"""
    margin = {"mlp": hp.r_h + hp.eps_r_h, "residual": hp.r_h - hp.eps_r_h}
    return all(r[where] < margin[where] for where in r if hp.gate in (where, "both"))


def low_enough(r: dict[str, int], hp) -> bool:
    """Is a layer with these ranks to be left?"""
    return all(r[where] >= hp.r_h - hp.eps_r_h for where in r if hp.stop in (where, "both"))


def select_neurons(
    project: Projection, weight: Tensor, a: Tensor, t: int, k: int, n_max: int
) -> list[int]:
    """SelectNeuron (§3.1.2): of the k most activated neurons, the n_max in which t ranks highest.

    ``weight`` is (d, ff), a is (ff,). Ties keep the order of activation.
    """
    active = a.topk(min(k, len(a))).indices.tolist()
    return sorted(active, key=lambda j: rank(project(weight[:, j]), t))[:n_max]


# --- Alg. 2, EditNeuron ---------------------------------------------------------------------------


def edit_neuron(project: Projection, n: Tensor, t: int, r_n: int, eps: int) -> tuple[Tensor, bool]:
    """Alg. 2: the edited neuron n*, and whether it reached r_n. n is returned unchanged if t ranks
    low in it already or r_n is never reached. As released, each pass starts from n, adding l to
    t's logit."""
    v = project(n)
    if rank(v, t) >= r_n - eps:
        return n, True
    l = START
    for _ in range(STEPS):
        changed = v.clone()
        changed[t] += l
        n_star = project.back(changed, n)
        r = rank(project(n_star), t)
        if abs(r - r_n) <= eps:
            return n_star, True
        l *= LOWER if r < r_n else RAISE
    return n, False


# --- the vocabulary space, and a look at a layer --------------------------------------------------


def rank(logits: Tensor, t: int) -> int:
    """Eq. 1, 0-based: the number of tokens with a strictly larger logit."""
    return int((logits > logits[t]).sum())


class Projection:
    """Hidden space to logits through the final norm and the head, and back with the pseudo-inverse
    U†; raw: U alone."""

    def __init__(self, decoder: Decoder, raw: bool = False):
        self.norm, self.head, self.raw = decoder.norm, decoder.head, raw
        self.offset = decoder.architecture.offset
        self.U_pinv = torch.linalg.pinv(decoder.head.weight.detach())

    def __call__(self, x: Tensor) -> Tensor:
        return self.head.weight @ x if self.raw else self.head(self.norm(x))

    def back(self, v: Tensor, n: Tensor) -> Tensor:
        """The vector whose logits are nearest to v; the norm is inverted with n's statistics."""
        if self.raw:
            return self.U_pinv @ v
        y = self.U_pinv @ (v if self.head.bias is None else v - self.head.bias)
        if isinstance(self.norm, nn.LayerNorm):
            deviation = (n.var(unbiased=False) + self.norm.eps).sqrt()
            return (y - self.norm.bias) / self.norm.weight * deviation + n.mean()
        eps = getattr(self.norm, "variance_epsilon", None) or self.norm.eps
        return y / (self.norm.weight + self.offset) * (n.square().mean() + eps).sqrt()


def observe(decoder: Decoder, ids: list[int], l: int) -> tuple[Tensor, Tensor, Tensor]:
    """FF₂'s input a (ff,), what it adds to the stream h (d,), and the stream after the layer x
    (d,), at the last position, from a fresh pass."""
    found: dict[str, Tensor] = {}

    def at_ff2(_module, inputs, output):
        found["a"], h = inputs[0].flatten(0, -2)[-1].clone(), output.flatten(0, -2)[-1].clone()
        after = decoder.after(l)
        found["h"] = h if after is None else after(h)

    def at_block(_module, _inputs, output):
        found["x"] = stream_of(output)[0, -1].clone()

    seen_ff2 = decoder.ff2[l].register_forward_hook(at_ff2)
    with seen_ff2, decoder.layers[l].register_forward_hook(at_block):
        decoder.model(input_ids=torch.tensor([ids], device=decoder.device))
    return found["a"], found["h"], found["x"]


def scale_after(decoder: Decoder, l: int) -> Tensor:
    """What a layer's neurons are multiplied by on their way to the stream: the scale of a norm
    after FF₂, (d,), or 1."""
    after = decoder.after(l)
    return torch.ones(1) if after is None else after.weight + decoder.architecture.offset
