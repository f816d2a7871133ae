"""The released procedure for one token, rendered from how it behaves: what the closed form is timed against (Alg. 1 and 2).

Every layer is looked at in a whole forward pass. In one that promotes the token, a number of neurons are taken through
U and, after each change of the target's logit, back through U† and through U again, side by side, until all of them lie
within r_n ± ε or STEPS times; then FF₂'s output is computed anew, and another number is tried, from the original neurons
again. A neuron in which t ranks beyond r_n + ε at rest never comes within it: the loop then goes to its end.

One thing is ours, so that the edits can be compared: the norm is inverted exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.method.neuron import LOWER, RAISE, START, STEPS
from revs.method.vocabulary import epsilon, rank
from revs.model.architecture import Decoder, stream_of

FIRST, MORE, LESS = (
    5,
    1.6,
    0.8,
)  # how many neurons are tried first, and by what that number is multiplied


@dataclass
class Counts:
    """What the procedure did for one token."""

    forwards: int = 0  # passes of the whole model
    projections: int = 0  # vectors taken through the final norm and U
    returns: int = 0  # vectors taken back through U†
    steps: int = 0  # changes of the target's logit in Alg. 2, each of all neurons side by side
    trials: int = 0  # numbers of neurons that were tried
    layers: int = 0  # layers that were edited


class Projection:
    """Hidden space to logits, through the final norm and U, and back, through U† and the norm's inverse; ``counts`` keeps count.

    Made once for a model: U† is the pseudo-inverse itself, d × V. Raises ValueError for what the released code has no way for.
    """

    def __init__(self, decoder: Decoder):
        if (
            decoder.head.weight.dtype not in (torch.float32, torch.float64)
            or decoder.after(0) is not None
        ):
            raise ValueError(
                f"The released procedure needs float32 and a family without a norm after FF₂: load {decoder.name} in float32, or choose a model like Llama or GPT-J."
            )
        self.norm, self.head, self.row = decoder.norm, decoder.head, decoder.architecture
        self.inverse = torch.linalg.pinv(decoder.head.weight.detach())
        self.counts = Counts()

    def __call__(self, x: Tensor) -> Tensor:
        """(n, d) → (n, V)."""
        self.counts.projections += len(x)
        return self.head(self.norm(x))

    def back(self, v: Tensor, n: Tensor) -> Tensor:
        """(n, V) → (n, d), with the statistics of the neurons as they were."""
        self.counts.returns += len(v)
        y = (v if self.head.bias is None else v - self.head.bias) @ self.inverse.T
        if self.row.centred:
            return (y - self.norm.bias) / self.norm.weight * (
                n.var(-1, unbiased=False) + epsilon(self.norm)
            ).sqrt()[:, None] + n.mean(-1, keepdim=True)
        return (
            y
            / (self.norm.weight + self.row.offset)
            * (n.square().mean(-1) + epsilon(self.norm)).sqrt()[:, None]
        )


@torch.no_grad()
def unlearn_token(
    decoder: Decoder, project: Projection, ids: list[int], t: int, hp: Hyperparameters, edit: Edit
) -> Counts:
    """Demotes token t after the tokens ``ids``, in place. Of ``hp``, which holds whole ranks, the margins, k and n_max are used."""
    project.counts = counts = Counts()
    low, high = hp.r_h - hp.eps_r_h, hp.r_h + hp.eps_r_h
    for l in range(len(decoder.layers)):
        a, h, x = look(decoder, ids, l)
        counts.forwards += 1
        r_mlp, r_residual = rank(project(torch.stack([h, x])), t).tolist()
        if r_residual >= low or r_mlp >= high:
            continue
        weight, bias = decoder.neurons(l).clone(), decoder.ff2[l].bias
        candidates = a.topk(min(hp.k, len(a))).indices
        neurons = candidates[
            rank(project(weight[:, candidates].T), t)
            .topk(min(hp.n_max, len(candidates)), largest=False)
            .indices
        ]
        number, tried = min(FIRST, len(neurons)), set()
        for _ in range(STEPS):
            counts.trials += 1
            some = neurons[:number]
            columns = weight[:, some]
            delta = change(project, columns.T, t, hp.r_n - hp.eps_r_n, hp.r_n + hp.eps_r_n).T
            weight[:, some] = columns + delta
            edited = weight @ a if bias is None else weight @ a + bias
            weight[:, some] = columns
            r_mlp, r_residual = rank(project(torch.stack([edited, x - h + edited])), t).tolist()
            number = after(number, r_mlp, r_residual, low, high, len(neurons))
            if number is None or number in tried:
                break
            tried.add(number)
        edit.keep(l, some)
        decoder.neurons(l)[:, some] = columns + delta
        counts.layers += 1
    return counts


def look(decoder: Decoder, ids: list[int], l: int) -> tuple[Tensor, Tensor, Tensor]:
    """FF₂'s input and output and the stream after layer l, at the last position, by a pass of the whole model."""
    seen: list[Tensor] = []
    handles = [
        decoder.ff2[l].register_forward_hook(
            lambda _module, inputs, output: seen.extend(
                [inputs[0].flatten(0, -2)[-1], output.flatten(0, -2)[-1]]
            )
        ),
        decoder.layers[l].register_forward_hook(
            lambda _module, _inputs, output: seen.append(stream_of(output)[0, -1])
        ),
    ]
    try:
        decoder.model(input_ids=torch.tensor([ids], device=decoder.device))
    finally:
        for handle in handles:
            handle.remove()
    return tuple(seen)


def change(project: Projection, n: Tensor, t: int, low: int, high: int) -> Tensor:
    """Alg. 2 for the neurons n (K, d) side by side: by how much each changes, (K, d)."""
    v = project(n)
    at_rest = v[:, t].clone()
    l = torch.where(rank(v, t) < low, START, 0.0).to(v)
    for _ in range(STEPS):
        project.counts.steps += 1
        v[:, t] = at_rest + l
        edited = project.back(v, n)
        r = rank(project(edited), t)
        l = torch.where(r < low, l * LOWER, torch.where(r > high, l * RAISE, l))
        if ((low <= r) & (r <= high)).all():
            break
    return edited - n


def after(number: int, r_mlp: int, r_residual: int, low: int, high: int, most: int) -> int | None:
    """How many neurons are tried after ``number`` of them; None if t now ranks between low and high in FF₂'s output and in the stream."""
    if r_mlp < low:
        return min(int(number * MORE), most)
    if r_mlp > high:
        return min(max(int(number * LESS), 2), most)
    if r_residual < low:
        return min(number + 1, most)
    return max(number - 1, 1) if r_residual > high else None
