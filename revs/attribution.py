"""Which neurons a prediction depends on, by gradient (Appendix "Alternative Neuron Selection Strategies"; Dai et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from revs.architecture import Decoder


def attributions(decoder: Decoder, ids: list[int], t: int) -> list[Tensor]:
    """a_j · ∂ log p(t | ids) / ∂a_j at the last position, for every neuron of every layer: [(ff,), …].

    The first-order term of Dai et al.'s integrated gradients: how much log p(t) would fall if neuron j were silent.
    """
    inputs: list[Tensor] = []

    def watch(_module, args):
        a = args[0] if args[0].requires_grad else args[0].detach().requires_grad_()
        inputs.append(a)
        return (a,)

    handles = [ff2.register_forward_pre_hook(watch) for ff2 in decoder.ff2]
    flags = [(parameter, parameter.requires_grad) for parameter in decoder.model.parameters()]
    try:
        decoder.model.requires_grad_(False)
        with torch.enable_grad():
            hidden = decoder.model.base_model(input_ids=torch.tensor([ids], device=decoder.device), use_cache=False).last_hidden_state[0, -1]
            log_p = decoder.head(hidden.to(decoder.head.weight.device)).float().log_softmax(-1)[t]
            gradients = torch.autograd.grad(log_p, inputs)
    finally:
        for handle in handles:
            handle.remove()
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
    return [(a[0, -1] * gradient[0, -1]).detach().float() for a, gradient in zip(inputs, gradients)]
