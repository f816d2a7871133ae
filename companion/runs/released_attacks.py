"""Evaluation and attacks as the released code makes them: a whole pass for each token and attack, a projection for each vector.

What it finds for the residual stream is what ``revs.measures.evaluate`` and ``revs.measures.attacks`` find in a few batches; it looks at FF₂'s
output and at attention's in the same way, though no table shows them. This is what those batches are timed against.
"""

from __future__ import annotations

import torch
from torch import Tensor

from revs.measures import evaluate
from revs.measures.attacks import Depths, perturb
from revs.method.vocabulary import rank
from revs.model.architecture import Decoder, stream_of
from revs.model.data import Split, Target


@torch.no_grad()
def measure(
    decoder: Decoder, split: Split
) -> tuple[dict[str, list[int]], dict[str, dict[str, Depths]], dict[str, list[int]]]:
    """Ranks of the target tokens of the sentences that are to be forgotten, seen and unseen, the attacks' depths, and 50 greedy tokens of the others.

    The ranks are those of the last layer's stream, which Logit-Lens looks at too: the two share their passes.
    """
    found = {"logit_lens": {}, "delta": {}, "perturbation": {}}
    for target in split.forget:
        perturbed = decoder.tokenizer(perturb(target.prompt, target.id))["input_ids"]
        found["logit_lens"][target.id] = by_token(decoder, target, target.prompt_ids, logit_lens)
        found["delta"][target.id] = by_token(decoder, target, target.prompt_ids, delta)
        found["perturbation"][target.id] = by_token(decoder, target, perturbed, logit_lens)
    ranks = {
        target.id: by_token(decoder, target, target.prompt_ids, logit_lens)[-1]
        for target in split.unseen
    }
    ranks |= {name: depths[-1] for name, depths in found["logit_lens"].items()}
    return ranks, found, evaluate.continuations(decoder, split.retain)


def by_token(decoder: Decoder, target: Target, prompt: list[int], attack) -> Depths:
    """What an attack finds for each target token of a secret, after a pass of its own: layer by layer."""
    each = [
        attack(
            decoder,
            vectors(decoder, prompt + target.secret_ids[:position]),
            target.secret_ids[position],
        )
        for position in target.T
    ]
    return [list(layer) for layer in zip(*each)]


def vectors(decoder: Decoder, ids: list[int]) -> list[tuple[Tensor, Tensor, Tensor]]:
    """After every layer, at the last position: the stream, what attention added to it, and what FF₂ added."""
    seen: list[list[Tensor]] = []
    handles = [
        ff2.register_forward_hook(
            lambda _module, _inputs, output: seen.append([output.flatten(0, -2)[-1].clone()])
        )
        for ff2 in decoder.ff2
    ]
    handles += [
        layer.register_forward_hook(
            lambda _module, inputs, output: seen[-1].extend(
                [inputs[0][0, -1], stream_of(output)[0, -1]]
            )
        )
        for layer in decoder.layers
    ]
    try:
        decoder.model(input_ids=torch.tensor([ids], device=decoder.device))
    finally:
        for handle in handles:
            handle.remove()
    return [(after, after - before - h, h) for h, before, after in seen]


def logits(decoder: Decoder, x: Tensor) -> Tensor:
    """One vector through the final norm and the head, (V,)."""
    return decoder.logits(decoder.norm(x))


def logit_lens(decoder: Decoder, layers: list[tuple[Tensor, Tensor, Tensor]], t: int) -> list[int]:
    """Depth of t in each layer's stream, from the nearer end of the vocabulary."""
    found = []
    for parts in layers:
        each = [logits(decoder, part) for part in parts]
        found.append([int(torch.minimum(rank(v, t), rank(-v, t))) for v in each][0])
    return found


def delta(decoder: Decoder, layers: list[tuple[Tensor, Tensor, Tensor]], t: int) -> list[int]:
    """Depth of t among the logits that change most from one layer's stream to the next; both are projected for each pair."""
    found = []
    for before, after in zip(layers, layers[1:]):
        found.append(
            [
                int(rank((logits(decoder, b) - logits(decoder, a)).abs(), t))
                for a, b in zip(before, after)
            ][0]
        )
    return found
