"""Which neurons a prediction depends on, by integrated gradients (Appendix "Alternative Neuron Selection Strategies").

Dai et al. 2022, Eq. 3, for all neurons of a layer along one path from silence to their activations a:

    Attr(a_j) = a_j / m · Σ_{s=1…m} ∂ p(t | α_s·a) / ∂a_j        with α_s = s/m, all of a layer's neurons scaled together
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import Cache

from revs.model.architecture import Decoder

STEPS = 20  # m, as in the source


def attributions(decoder: Decoder, ids: list[int], t: int, steps: int = STEPS) -> list[Tensor]:
    """Attr of every neuron of every layer for p(t | ids), at the last position: [(ff,), …].

    A layer's path is one batch of ``steps`` last tokens; the tokens before them, which nothing changes, are run once.
    """
    flags = [(parameter, parameter.requires_grad) for parameter in decoder.model.parameters()]
    try:
        decoder.model.requires_grad_(False)
        prefix = before_last(decoder, ids, steps)
        return [
            along_path(decoder, ids[-1], len(ids) - 1, t, l, prefix, steps)
            for l in range(len(decoder.layers))
        ]
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


@torch.no_grad()
def before_last(decoder: Decoder, ids: list[int], copies: int) -> Cache | None:
    """Keys and values of all tokens but the last, ``copies`` times; none for a single token."""
    if len(ids) < 2:
        return None
    past = decoder.model.base_model(
        input_ids=decoder.pad([ids[:-1]])[0], use_cache=True
    ).past_key_values
    past.batch_repeat_interleave(copies)
    return past


def along_path(
    decoder: Decoder, last: int, place: int, t: int, l: int, prefix: Cache | None, steps: int
) -> Tensor:
    """Attr of one layer's neurons: (ff,)."""
    scaled = []

    def scale(_module, args):
        alpha = torch.arange(1, steps + 1, device=args[0].device) / steps
        a = args[0].detach().flatten(0, -2)  # one token a copy: (steps, ff)
        scaled.extend([a[0].float(), (alpha[:, None] * a).to(a).requires_grad_()])
        return (scaled[1].view_as(args[0]),)

    handle = decoder.ff2[l].register_forward_pre_hook(scale)
    try:
        with torch.enable_grad():
            ids = torch.full((steps, 1), last, device=decoder.device)
            hidden = decoder.model.base_model(
                input_ids=ids,
                position_ids=torch.full_like(ids, place),
                past_key_values=copy.deepcopy(prefix),
                use_cache=True,
            ).last_hidden_state[:, -1]
            p = decoder.logits(hidden).softmax(-1)[:, t]
            (gradient,) = torch.autograd.grad(p.sum(), scaled[1])
    finally:
        handle.remove()
    return scaled[0] * gradient.float().mean(0)
