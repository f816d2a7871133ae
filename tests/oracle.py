"""The paper's procedure written plainly (§3, Alg. 1 and 2): what the fast one is held against.

Nothing is rearranged here. Whatever is asked of the model is asked of the model: every look at a
layer is a full forward pass, every projection goes through the model's own norm and head, every
trial edit is made in its weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

START, LOWER, RAISE, STEPS = -10.0, 1.3, 0.8, 100


def rank(logits: Tensor, t: int) -> int:
    """Eq. 1, 0-based: the number of tokens with a strictly larger logit."""
    return int((logits > logits[t]).sum())


def look(decoder, ids: list[int], l: int) -> tuple[Tensor, Tensor, Tensor]:
    """FF₂'s input a, what it adds to the stream h, and the stream x after layer l, at the last
    position, from a fresh pass.
    """
    seen = {}

    def at_ff2(_module, inputs, output):
        seen["a"], h = inputs[0].flatten(0, -2)[-1].clone(), output.flatten(0, -2)[-1].clone()
        seen["h"] = h if decoder.after(l) is None else decoder.after(l)(h)

    def at_block(_module, _inputs, output):
        seen["x"] = (output if isinstance(output, Tensor) else output[0])[0, -1].clone()

    handles = [
        decoder.ff2[l].register_forward_hook(at_ff2),
        decoder.layers[l].register_forward_hook(at_block),
    ]
    decoder.model(input_ids=torch.tensor([ids]))
    for handle in handles:
        handle.remove()
    return seen["a"], seen["h"], seen["x"]


class Projection:
    """Hidden space to logits through the final norm and the head, and back with the pseudo-inverse
    U†; raw: U alone.
    """

    def __init__(self, decoder, raw: bool = False):
        self.norm, self.head, self.raw, self.offset = (
            decoder.norm,
            decoder.head,
            raw,
            decoder.architecture.offset,
        )
        self.U_pinv = torch.linalg.pinv(decoder.head.weight.detach())

    def __call__(self, x: Tensor) -> Tensor:
        return self.head.weight @ x if self.raw else self.head(self.norm(x))

    def back(self, v: Tensor, n: Tensor) -> Tensor:
        """The vector whose logits are nearest to v, the norm inverted exactly with the statistics
        of the original n.
        """
        if self.raw:
            return self.U_pinv @ v
        y = self.U_pinv @ (v if self.head.bias is None else v - self.head.bias)
        if isinstance(self.norm, nn.LayerNorm):
            return (y - self.norm.bias) / self.norm.weight * (
                n.var(unbiased=False) + self.norm.eps
            ).sqrt() + n.mean()
        eps = (
            self.norm.variance_epsilon if hasattr(self.norm, "variance_epsilon") else self.norm.eps
        )
        return y / (self.norm.weight + self.offset) * (n.square().mean() + eps).sqrt()


def scale_after(decoder, l: int) -> Tensor:
    """What a layer's neurons are multiplied by on their way to the stream, (d, 1).

    The scale of a norm after FF₂, or 1.
    """
    after = decoder.after(l)
    return (
        torch.ones(1, 1) if after is None else (after.weight + decoder.architecture.offset)[:, None]
    )


def edit_neuron(project: Projection, n: Tensor, t: int, r_n: int, eps: int) -> tuple[Tensor, bool]:
    """Alg. 2: (n*, was the rank reached).

    A neuron in which t is low already, or never gets there, stays.
    """
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


def select_neurons(
    project: Projection, weight: Tensor, a: Tensor, t: int, k: int, n_max: int
) -> list[int]:
    """§3.1.2.

    Of the k most activated neurons, the n_max in which t ranks highest; ties in the order of
    activation.
    """
    active = a.topk(min(k, len(a))).indices.tolist()
    return sorted(active, key=lambda j: rank(project(weight[:, j]), t))[:n_max]


def ranks(decoder, project: Projection, ids: list[int], t: int, l: int) -> dict[str, int]:
    """Of t in what a layer's FF₂ adds to the stream, and in the stream after it."""
    _, h, x = look(decoder, ids, l)
    return {"mlp": rank(project(h), t), "residual": rank(project(x), t)}


def too_high(r: dict[str, int], hp) -> bool:
    """Is a layer with these ranks to be edited?"""
    margin = {"mlp": hp.r_h + hp.eps_r_h, "residual": hp.r_h - hp.eps_r_h}
    return all(r[where] < margin[where] for where in r if hp.gate in (where, "both"))


def low_enough(r: dict[str, int], hp) -> bool:
    """Is it to be left?"""
    return all(r[where] >= hp.r_h - hp.eps_r_h for where in r if hp.stop in (where, "both"))


@torch.no_grad()
def edit_layer(
    decoder, project: Projection, ids: list[int], t: int, hp, l: int
) -> tuple[list[tuple[int, int, Tensor]], int]:
    """The loop of Alg. 1 in one layer, in place.

    The edited neurons in order, as (layer, neuron, n*), and how many of them missed r_n.
    """
    weight, g = decoder.neurons(l), scale_after(decoder, l)
    a, _, _ = look(decoder, ids, l)
    neurons = select_neurons(project, g * weight, a, t, hp.k, hp.n_max)
    edited, missed = [], 0
    while neurons and not low_enough(ranks(decoder, project, ids, t, l), hp):
        j = neurons.pop(0)
        n_star, reached = edit_neuron(project, g[:, 0] * weight[:, j], t, hp.r_n, hp.eps_r_n)
        weight[:, j] = n_star / g[:, 0]
        edited.append((l, j, weight[:, j].clone()))
        missed += not reached
    return edited, missed


@torch.no_grad()
def unlearn_token(decoder, ids: list[int], t: int, hp) -> tuple[list[tuple[int, int, Tensor]], int]:
    """Alg. 1 in place: the edited neurons in order, and how many of them missed r_n."""
    project, layers = Projection(decoder, hp.projection == "raw"), range(len(decoder.layers))
    high = lambda l: too_high(ranks(decoder, project, ids, t, l), hp)
    selected = [l for l in layers if high(l)] if hp.order == "eager" else None
    edited, missed = [], 0
    for l in layers:
        if l in selected if selected is not None else high(l):
            more, beyond = edit_layer(decoder, project, ids, t, hp, l)
            edited, missed = edited + more, missed + beyond
    return edited, missed


@torch.no_grad()
def unlearn_layer_major(
    decoder, steps: list[tuple[list[int], int]], hp
) -> list[tuple[int, int, int]]:
    """The variant.

    Layer after layer, in each target after target, all in place: the edited neurons in order, as
    (layer, neuron, token).
    """
    project = Projection(decoder)
    edited = []
    for l in range(len(decoder.layers)):
        for ids, t in steps:
            if too_high(ranks(decoder, project, ids, t, l), hp):
                edited += [(l, j, t) for _, j, _ in edit_layer(decoder, project, ids, t, hp, l)[0]]
    return edited
