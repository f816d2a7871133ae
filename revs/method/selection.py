"""SelectNeuron (§3.1.2): which neurons of a layer are edited.

REVS edits the n_max neurons in which t ranks highest, out of the k that are most active at the
secret. The paper's alternatives are here too (Appendix, "Alternative Neuron Selection Strategies").
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache

from revs.method.vocabulary import Line, Vocabulary
from revs.model.architecture import Decoder

NEURONS = ("hybrid", "activations", "rank", "gradient", "random")
BY_RANK = ("hybrid", "rank")  # criteria that ask for t's rank in a neuron
M = 20  # points of the integrated gradients, as in their source


@dataclass(frozen=True)
class LayerState:
    """What a target sees of one layer at one position, and what its neurons are chosen by."""

    l: int
    weight: Tensor  # FF₂'s, (d, ff): column j is neuron j
    a: Tensor  # FF₂'s input, (ff,)
    h: Tensor  # FF₂'s output, (d,)
    x: Tensor  # the residual stream after the layer, (d,)
    score: Tensor | None = None  # of every neuron, (ff,), where it is not the activation
    draw: torch.Generator | None = None  # where they are chosen at random


def select_neurons(vocabulary: Vocabulary, state: LayerState, t: int, hp) -> tuple[Tensor, Line]:
    """The n_max neurons in which t ranks highest, of the k most activated: indices (n,) and lines.

    They are in order of rank; ties keep the order of activation. ``hp.neurons`` may name one of the
    paper's alternatives (Appendix, "Alternative Neuron Selection Strategies").
    """
    ff = len(state.a)
    score = state.a.float() if state.score is None else state.score
    if hp.neurons == "random":
        some = torch.randperm(ff, generator=state.draw)[: hp.n_max].to(score.device)
    elif hp.neurons == "rank":
        some = torch.arange(ff, device=score.device)
    else:
        some = score.topk(min(hp.k if hp.neurons in BY_RANK else hp.n_max, ff)).indices
    line = vocabulary.neurons(state.l, state.weight[:, some].T, t)
    if hp.neurons not in BY_RANK:
        return some, line
    order = line.rank_at_rest().argsort(stable=True)[: hp.n_max]
    return some[order.to(some.device)], line.rows(order)


def attributions(decoder: Decoder, ids: list[int], t: int) -> list[Tensor]:
    """How much p(t | ids) depends on each neuron, by integrated gradients: [(ff,), …] by layer.

    Dai et al. 2022, Eq. 3, at the last position, on a layer's path from 0 to its activations a:
    Attr(a_j) = a_j / M · Σ_{s=1…M} ∂ p(t | α_s·a) / ∂a_j with α_s = s/M. A path is one batch of M
    last tokens; the tokens before them never change, and run once.
    """
    prefix = None
    if len(ids) > 1:
        with torch.no_grad():
            inputs = decoder.pad([ids[:-1]])[0]
            prefix = decoder.model.base_model(input_ids=inputs, use_cache=True).past_key_values
        prefix.batch_repeat_interleave(M)
    return [along_path(decoder, ids, t, l, prefix) for l in range(len(decoder.layers))]


def along_path(decoder: Decoder, ids: list[int], t: int, l: int, prefix: Cache | None) -> Tensor:
    """Attr of one layer's neurons: (ff,)."""
    scaled = []

    def scale(_module, args):
        alpha = torch.arange(1, M + 1, device=args[0].device) / M
        a = args[0].detach().flatten(0, -2)  # one token a copy: (M, ff)
        scaled.extend([a[0].float(), (alpha[:, None] * a).to(a).requires_grad_()])
        return (scaled[1].view_as(args[0]),)

    with decoder.ff2[l].register_forward_pre_hook(scale), torch.enable_grad():
        last = torch.full((M, 1), ids[-1], device=decoder.device)
        places = torch.full_like(last, len(ids) - 1)
        read = decoder.continue_from(prefix, input_ids=last, position_ids=places)
        hidden = read.last_hidden_state[:, -1]
        p = decoder.logits(hidden).softmax(-1)[:, t]
        (gradient,) = torch.autograd.grad(p.sum(), scaled[1])
    return scaled[0] * gradient.float().mean(0)
