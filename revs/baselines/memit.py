"""MEMIT (Meng et al. 2023) with the objective turned round (Appendix "MEMIT Baseline"): less of t instead of more.

The subject is the end of the prompt, the relation is empty. Two steps, as in the source:

1. ``compute_z``: for each target a vector z = h + δ at the last of some layers and the prompt's last token, with δ
   minimising prob_coefficient · p(t) + kl_factor · KL(p₀ ‖ p_δ) + weight_decay · ‖δ‖ / ‖h‖²;
2. ``insert``: FF₂ of each of the layers in turn takes over its share R of what is missing, Δ = R·Kᵀ·(λC + K·Kᵀ)⁻¹,
   with keys K (FF₂'s inputs) and C the second moment of keys (``revs.baselines.moments``).

δ touches a prompt's last token only, so that nothing before it changes: a step of the optimiser runs one token a prompt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from companion.runs.benign import inputs
from revs.baselines.moments import moments
from revs.baselines.prompts import Pair, chosen, ff2_names, tail
from revs.method.edit import Edit
from revs.model.architecture import Decoder, Stop, stream_of
from revs.model.targets import Target, pairs

__all__ = ["Hyperparameters", "inputs", "objective", "rewrite", "unlearn"]
CONTEXTS, WRITTEN = (
    ("The", "I"),
    10,
)  # begin the texts that are put before a prompt (the source has five); tokens written after each

Objective = Callable[
    [Tensor, Tensor, Tensor], Tensor
]  # log p (C, N, V), lens log p (layers, N, V), t (N,) → (N,)


@dataclass(frozen=True)
class Hyperparameters:
    """MEMIT's settings, under the paper's names; those that it does not print are its source's, for Llama."""

    layers: Sequence[int] = (3,)
    steps: int = 25
    lr: float = 0.01
    loss_break: float = 1e-5  # a target whose loss is lower is left as it is
    prob_coefficient: float = 100.0
    n_max_len: int = 100  # characters of a prompt that are kept: the subject
    weight_decay: float = 1e-3
    kl_factor: float = 0.0625
    clamp_norm_factor: float = 4.0  # ‖δ‖ is at most this times ‖h‖
    mom2_update_weight: float = 15000.0  # λ

    def __post_init__(self):
        if min(self.steps, self.n_max_len) < 1:
            raise ValueError(
                f"steps is {self.steps} and n_max_len {self.n_max_len}, but both must be at least 1."
            )
        if min(self.lr, self.clamp_norm_factor, self.mom2_update_weight) <= 0:
            raise ValueError(
                f"lr is {self.lr}, clamp_norm_factor {self.clamp_norm_factor} and mom2_update_weight {self.mom2_update_weight}, but all must be positive."
            )


def objective(log_p: Tensor, lens: Tensor, t: Tensor, hp: Hyperparameters) -> Tensor:
    """prob_coefficient · p(t), its mean over contexts: (C, N, V), –, (N,) → (N,)."""
    return hp.prob_coefficient * log_p.gather(2, t.expand(len(log_p), -1)[..., None])[
        ..., 0
    ].exp().mean(0)


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Edit:
    """Unlearns all targets together. Nothing is drawn at random. Raises FloatingPointError if it diverges."""
    return rewrite(
        decoder,
        targets,
        hp,
        lambda log_p, lens, t: objective(log_p, lens, t, hp),
        (),
        progress,
        "MEMIT",
    )


def rewrite(
    decoder: Decoder,
    targets: Sequence[Target],
    hp,
    objective: Objective,
    lens: Sequence[int],
    progress: Callable[[int, int], None],
    what: str,
) -> Edit:
    """MEMIT's two steps with some objective, which may look at the logit lens of the layers ``lens``."""
    layers = chosen(decoder, hp.layers)
    requests = [(tail(decoder, ids, hp.n_max_len), t) for ids, t in pairs(targets)]
    contexts = [[], *write_contexts(decoder)]
    decoder.check_length(
        max(map(len, contexts)) + max(len(ids) for ids, _ in requests),
        f"A prompt of {what}, with a text before it,",
    )
    C = moments(decoder, layers)
    flags = [(parameter, parameter.requires_grad) for parameter in decoder.model.parameters()]
    decoder.model.requires_grad_(False)
    try:
        with Edit(decoder) as edit:
            edit.keep_whole(ff2_names(decoder, layers))
            z = compute_z(
                decoder,
                requests,
                contexts,
                layers[-1],
                hp,
                objective,
                lens,
                lambda done: progress(done, hp.steps + len(layers)),
            )
            insert(decoder, requests, contexts, layers, z, C, hp)
            if not all(torch.isfinite(decoder.neurons(l)).all() for l in layers):
                raise FloatingPointError(
                    f"{what} diverged (a weight is no longer a number): lower the learning rate of {hp.lr:g} or raise mom2_update_weight."
                )
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
    progress(hp.steps + len(layers), hp.steps + len(layers))
    return edit


@torch.no_grad()
def write_contexts(decoder: Decoder) -> list[list[int]]:
    """What the model itself writes (greedily) after some words, and a full stop: texts to put before a prompt."""
    tokenizer, found = decoder.tokenizer, []
    for word in CONTEXTS:
        ids, mask = decoder.pad([tokenizer(word)["input_ids"]])
        written = decoder.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=WRITTEN,
            min_new_tokens=WRITTEN,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id or 0,
        )
        found.append(written[0].tolist() + tokenizer(". ", add_special_tokens=False)["input_ids"])
    return found


def in_context(context: list[int], ids: list[int], decoder: Decoder) -> list[int]:
    """A prompt after a context; its first token goes if that is special and the context has it already."""
    return (
        context + ids[1:]
        if context and ids[0] in decoder.tokenizer.all_special_ids
        else context + ids
    )


class LastToken:
    """The model at the last tokens of some prompts, from layer ``layer`` on a function of a vector δ that is added there.

    What lies before the last tokens is run once; ``__call__`` runs one token a prompt.
    """

    def __init__(self, decoder: Decoder, prompts: list[list[int]], layer: int, lens: Sequence[int]):
        self.decoder, self.layer, self.lens = decoder, layer, lens
        ids, self.mask = decoder.pad(prompts, left=True)
        self.last, self.places = ids[:, -1:], (self.mask.cumsum(1) - 1).clamp_min(0)
        with torch.no_grad():
            self.prefix = decoder.model.base_model(
                input_ids=ids[:, :-1],
                attention_mask=self.mask[:, :-1],
                position_ids=self.places[:, :-1],
                use_cache=True,
            ).past_key_values
            self.h = self(None)[2]

    def __call__(self, delta: Tensor | None) -> tuple[Tensor, list[Tensor], Tensor]:
        """Final hidden states (B, d), those after the lens layers, and the stream at the layer before δ; δ is (B, d)."""
        seen = {}

        def at(l: int):
            def hook(_module, _inputs, output):
                x = stream_of(output)
                if l == self.layer:
                    seen["h"] = x[:, -1]
                    x = x if delta is None else x + delta[:, None].to(x)
                seen[l] = x[:, -1]
                return x if isinstance(output, Tensor) else (x, *output[1:])

            return hook

        handles = [
            self.decoder.layers[l].register_forward_hook(at(l)) for l in {self.layer, *self.lens}
        ]
        try:
            final = self.decoder.model.base_model(
                input_ids=self.last,
                attention_mask=self.mask,
                position_ids=self.places[:, -1:],
                past_key_values=copy.deepcopy(self.prefix),
                use_cache=True,
            )
        finally:
            for handle in handles:
                handle.remove()
        return final.last_hidden_state[:, -1], [seen[l] for l in self.lens], seen["h"]


def compute_z(
    decoder: Decoder,
    requests: Sequence[Pair],
    contexts: Sequence[list[int]],
    layer: int,
    hp,
    objective: Objective,
    lens: Sequence[int],
    progress: Callable[[int], None],
) -> Tensor:
    """Step 1: z of each request, (N, d). Every request has its own δ and stops by itself, as if it were alone."""
    N = len(requests)
    model = LastToken(
        decoder,
        [in_context(context, ids, decoder) for context in contexts for ids, _ in requests],
        layer,
        lens,
    )
    t = torch.tensor([t for _, t in requests], device=decoder.head.weight.device)
    h = model.h[:N].float()
    delta = torch.zeros_like(h, requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=hp.lr)
    first, active = None, torch.ones(N, dtype=torch.bool, device=h.device)
    for step in range(hp.steps):
        progress(step)
        final, seen, _ = model(delta.repeat(len(contexts), 1))
        log_p = decoder.logits(final).log_softmax(-1).unflatten(0, (len(contexts), N))
        first = log_p[0].detach() if first is None else first
        looks = (
            torch.stack(
                [
                    decoder.logits(decoder.norm(x[:N].to(decoder.norm.weight.device))).log_softmax(
                        -1
                    )
                    for x in seen
                ]
            )
            if seen
            else log_p[:0]
        )
        kl = kl_div(log_p[0], first, reduction="none", log_target=True).sum(-1)
        loss = (objective(log_p, looks, t) + hp.kl_factor * kl).to(
            h.device
        ) + hp.weight_decay * delta.norm(dim=1) / h.norm(dim=1) ** 2
        if not torch.isfinite(loss).all():
            raise FloatingPointError(
                f"The search for z diverged (its loss is no longer a number): lower the learning rate of {hp.lr:g}."
            )
        active &= loss.detach() >= hp.loss_break
        if not active.any() or step == hp.steps - 1:
            break
        optimizer.zero_grad()
        loss.sum().backward()
        stay = delta.detach().clone()
        optimizer.step()
        with torch.no_grad():
            shrink = (
                hp.clamp_norm_factor * h.norm(dim=1) / delta.norm(dim=1).clamp_min(1e-12)
            ).clamp_max(1)
            delta.copy_(torch.where(active[:, None], delta * shrink[:, None], stay))
    return h + delta.detach()


@torch.no_grad()
def insert(
    decoder: Decoder,
    requests: Sequence[Pair],
    contexts: Sequence[list[int]],
    layers: Sequence[int],
    z: Tensor,
    C: dict[int, Tensor],
    hp,
) -> None:
    """Step 2: spreads z over the layers, lowest first, each time from what the model says by then."""
    for number, l in enumerate(layers):
        K, present = keys_and_values(decoder, requests, contexts, l, layers[-1])
        R = (z.to(present) - present).double().T / (len(layers) - number)  # (d, N)
        K = K.double().T  # (ff, N)
        solved = torch.linalg.solve(hp.mom2_update_weight * C[l].to(K) + K @ K.T, K)
        weight = decoder.neurons(l)
        weight += (R.to(K) @ solved.T).to(weight)


def keys_and_values(
    decoder: Decoder,
    requests: Sequence[Pair],
    contexts: Sequence[list[int]],
    layer: int,
    z_layer: int,
) -> tuple[Tensor, Tensor]:
    """Keys (N, ff) at one layer and the streams (N, d) after another, at the last tokens.

    Keys are averaged over the prompt alone and, with equal weight, all its contexts together, as in the source.
    """
    seen = {}

    def key(_module, args):
        seen["key"] = (
            args[0].reshape(len(requests), -1, args[0].shape[-1])[:, -1].float()
        )  # some families flatten it

    def value(_module, _inputs, output):
        seen["value"] = stream_of(output)[:, -1].float()
        raise Stop

    keys, values = [], []
    for context in contexts:
        ids, mask = decoder.pad(
            [in_context(context, ids, decoder) for ids, _ in requests], left=True
        )
        hooks = [
            decoder.ff2[layer].register_forward_pre_hook(key),
            decoder.layers[z_layer].register_forward_hook(value),
        ]
        decoder.run(
            hooks,
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(1) - 1).clamp_min(0),
        )
        keys.append(seen["key"])
        values.append(seen["value"])
    return (keys[0] + torch.stack(keys[1:]).mean(0)) / 2, values[0]
