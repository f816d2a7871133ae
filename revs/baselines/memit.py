"""MEMIT (Meng et al. 2023) with the objective turned round, and two methods that share its write.

Appendix, "MEMIT Baseline"; "Head-Projection Baseline" and "Max-Entropy Baseline" (Patil et al.
2024). Two steps, as in the source; the end of a prompt serves as the subject:

1. ``compute_z`` finds for each target a vector z = h + δ, at the prompt's last token and the last
   of the edited layers, where δ minimises

       L(δ) + kl_factor · KL(p₀ ‖ p_δ) + weight_decay · ‖δ‖ / ‖h‖²

2. ``insert`` edits FF₂ of these layers in turn, each for its share R of what is still missing,

       Δ = R·Kᵀ · (λC + K·Kᵀ)⁻¹

   with keys K (FF₂'s inputs) and C = E[a·aᵀ], their second moment over general text (Eq. 14 there).

The methods differ in L alone, ``objective``; p_ℓ is the logit lens of one of the ``patil_layers``:

``probability``  MEMIT: prob_coefficient · p(t)
``margin``       Head-Projection: that + mean_ℓ max(0, p_ℓ(t) − p_ℓ(k-th most probable token)).
                 The source also keeps t out of the bottom k; the paper leaves that out.
``entropy``      Max-Entropy: that + mean_ℓ (log V − H(p_ℓ)). The source maximises H itself, which
                 has the same gradient; log V makes L positive, so ``loss_break`` has a meaning.

δ touches only a prompt's last token. Nothing before it changes, so a step of the optimiser runs one
token per prompt.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from revs.baselines.training import tail
from revs.measures.evaluate import greedy
from revs.method.edit import Edit
from revs.method.moments import Text, general_moments, second_moments
from revs.method.settings import require, require_one_of
from revs.model.architecture import Decoder, Stop, frozen, stream_of, with_stream
from revs.model.targets import Target, pairs
from revs.model.text import special_prefix, token_ids

VERSION = 1
# begin the texts that are put before a prompt (the source has five); tokens written after each
CONTEXTS, WRITTEN = ("The", "I"), 10
# tokens of general text for each neuron, from which C is estimated (the source: 100,000 samples of
# Wikipedia); a model of more than about 8,000 neurons a layer reads the text more than once
PER_NEURON = 24


@dataclass(frozen=True)
class Hyperparameters:
    """MEMIT's settings, under the paper's names; values not printed are its source's (Llama)."""

    objective: str = "probability"
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
    patil_layers: Sequence[int] | str = "upper"  # where the logit lens looks
    k: int = 100  # of the margin

    def __post_init__(self):
        require(self, "lr", "clamp_norm_factor", "mom2_update_weight", steps=1, n_max_len=1, k=1)
        require_one_of(self, objective=OBJECTIVES)


def margin(lens: Tensor, t: Tensor, k: int) -> Tensor:
    """max(0, p(t) − p(k-th token)) in the lens, log p (layers, N, V): (layers, N)."""
    p = lens.gather(2, t.expand(len(lens), -1)[..., None])[..., 0].exp()
    kth = lens.topk(min(k, lens.shape[-1]), dim=-1).values[..., -1].exp()
    return torch.relu(p - kth)


def entropy(lens: Tensor, t: Tensor, k: int) -> Tensor:
    """log V − entropy of the lens, log p (layers, N, V): (layers, N)."""
    return math.log(lens.shape[-1]) + (lens.exp() * lens).sum(-1)


IN_LENS: dict[str, Callable[..., Tensor]] = {"margin": margin, "entropy": entropy}
OBJECTIVES = ("probability", *IN_LENS)  # MEMIT's own does not look at the lens


def objective(log_p: Tensor, seen: Tensor, t: Tensor, hp: Hyperparameters) -> Tensor:
    """L of each request, (N,): log p after contexts (C, N, V), what IN_LENS gives
    (layers, N), t (N,)."""
    of_t = log_p.gather(2, t.expand(len(log_p), -1)[..., None])[..., 0]
    loss = hp.prob_coefficient * of_t.exp().mean(0)
    return loss + seen.mean(0) if len(seen) else loss


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress=iter,
    protect: Sequence[Text] = (),
    cache: Path | None = None,
) -> Edit:
    """Unlearns all targets together; draws nothing.

    The second moments of ``protect`` count as much as those of general text. ``cache``: the folder
    in which C is kept (``revs.method.moments``).

    Raises FloatingPointError if it diverges.
    """
    layers = decoder.layer_indices(hp.layers)
    lens = [] if hp.objective == "probability" else decoder.layer_indices(hp.patil_layers)
    prompts, t = zip(*((tail(decoder, ids, hp.n_max_len), t) for ids, t in pairs(targets)))
    special = frozenset(decoder.tokenizer.all_special_ids)
    requests = Requests(prompts, t, [[], *write_contexts(decoder)], special)
    longest = max(map(len, requests.contexts)) + max(map(len, requests.prompts))
    decoder.check_length(longest, "A prompt of MEMIT, with a text before it,")
    C = general_moments(decoder, layers, PER_NEURON * decoder.neurons(0).shape[1], cache)
    if protect:
        N = second_moments(decoder, protect, layers)
        C = {l: C[l] + N[l] for l in layers}
    with frozen(decoder.model), Edit(decoder) as edit:
        edit.keep_whole(decoder.ff2_names(layers))
        model = LastToken(decoder, requests.in_contexts(), layers[-1], lens)
        z = compute_z(model, requests, hp, progress)
        insert(decoder, requests, z, C, hp)
        if not all(torch.isfinite(decoder.neurons(l)).all() for l in layers):
            said = "MEMIT's write diverged (a weight is no longer a number): lower the learning "
            raise FloatingPointError(f"{said}rate of {hp.lr:g} or raise mom2_update_weight.")
    return edit


@dataclass(frozen=True)
class Requests:
    """What is asked for: N prompts, the token t after each, and texts to put before a prompt."""

    prompts: Sequence[list[int]]
    t: Sequence[int]
    contexts: Sequence[list[int]]  # the first is empty
    special: frozenset[int] = frozenset()  # tokens that stand at the beginning of a text only

    def after(self, context: list[int]) -> list[list[int]]:
        """The prompts after a context; a special first token goes if the context has it already."""
        begins = lambda ids: bool(context) and ids[0] in self.special
        return [context + ids[begins(ids) :] for ids in self.prompts]

    def in_contexts(self) -> list[list[int]]:
        """The prompts after the first context, then after the second …"""
        return [text for context in self.contexts for text in self.after(context)]


def write_contexts(decoder: Decoder) -> list[list[int]]:
    """What the model itself writes (greedily) after some words, and a full stop."""
    words = [token_ids(decoder.tokenizer, word) for word in CONTEXTS]
    stop = token_ids(decoder.tokenizer, ". ")[len(special_prefix(decoder.tokenizer)) :]
    write = lambda ids: greedy(decoder, [ids], WRITTEN, min_new_tokens=WRITTEN)[0]
    return [ids + write(ids) + stop for ids in words]


class LastToken:
    """The model at some prompts' last tokens, as a function of a vector δ added after a layer.

    What lies before the last tokens is run once; ``__call__`` runs one token a prompt.
    """

    def __init__(self, decoder: Decoder, prompts: list[list[int]], layer: int, lens: Sequence[int]):
        self.decoder, self.layer, self.lens = decoder, layer, lens
        ids, mask = decoder.pad(prompts, left=True)
        places = (mask.cumsum(1) - 1).clamp_min(0)
        inputs: dict[str, Any] = {"input_ids": ids[:, :-1], "attention_mask": mask[:, :-1]}
        inputs |= {"position_ids": places[:, :-1], "use_cache": True}
        self.last: dict[str, Any] = {"input_ids": ids[:, -1:], "attention_mask": mask}
        self.last["position_ids"] = places[:, -1:]
        with torch.no_grad():
            self.prefix = decoder.model.base_model(**inputs).past_key_values
            _, streams, self.h = self(None)
        # δ does not reach the layers below its own: they look the same at every step
        self.below = [x for l, x in zip(lens, streams) if l < layer]
        self.lens = [l for l in lens if l >= layer]

    def __call__(self, delta: Tensor | None) -> tuple[Tensor, list[Tensor], Tensor]:
        """Final hidden states, those after the lens layers, the stream before δ; all (B, d)."""
        seen = {}

        def at(l: int):
            def hook(_module, _inputs, output):
                x = stream_of(output)
                if l == self.layer:
                    seen["h"] = x[:, -1]
                    x = x if delta is None else x + delta[:, None].to(x)
                seen[l] = x[:, -1]
                return with_stream(output, x)

            return hook

        with contextlib.ExitStack() as hooks:
            for l in {self.layer, *self.lens}:
                hooks.enter_context(self.decoder.layers[l].register_forward_hook(at(l)))
            final = self.decoder.continue_from(self.prefix, **self.last)
        return final.last_hidden_state[:, -1], [seen[l] for l in self.lens], seen["h"]


def compute_z(model: LastToken, requests: Requests, hp: Hyperparameters, progress=iter) -> Tensor:
    """Step 1: z of each request, (N, d). Each has its own δ and stops by itself, as if alone."""
    decoder, C, N = model.decoder, len(requests.contexts), len(requests.t)
    t = torch.tensor(requests.t, device=decoder.head.weight.device)
    h = model.h[:N].float()
    delta = torch.zeros_like(h, requires_grad=True)
    optimizer = torch.optim.Adam([delta], lr=hp.lr)
    first, active = None, torch.ones(N, dtype=torch.bool, device=h.device)

    def look(streams: Sequence[Tensor]) -> Tensor:
        """L's part of each lens layer and request: (layers, N)."""
        if not streams:
            return torch.zeros(0, N, device=t.device)
        normed = [decoder.norm(x[:N].to(decoder.norm.weight.device)) for x in streams]
        lens = torch.stack([decoder.logits(x).log_softmax(-1) for x in normed])  # (layers, N, V)
        return IN_LENS[hp.objective](lens, t, hp.k)

    below = look(model.below).detach()
    for step in progress(range(hp.steps)):
        final, streams, _ = model(delta.repeat(C, 1))
        log_p = decoder.logits(final).log_softmax(-1).unflatten(0, (C, N))
        first = log_p[0].detach() if first is None else first
        seen = torch.cat([below, look(streams)])
        kl = kl_div(log_p[0], first, reduction="none", log_target=True).sum(-1)
        loss = (objective(log_p, seen, t, hp) + hp.kl_factor * kl).to(h.device)
        loss = loss + hp.weight_decay * delta.norm(dim=1) / h.norm(dim=1) ** 2
        if not torch.isfinite(loss).all():
            said = "The search for z diverged (its loss is no longer a number)"
            raise FloatingPointError(f"{said}: lower the learning rate of {hp.lr:g}.")
        active &= loss.detach() >= hp.loss_break
        if not active.any() or step == hp.steps - 1:
            break
        optimizer.zero_grad()
        loss.sum().backward()
        stay = delta.detach().clone()
        optimizer.step()
        with torch.no_grad():
            radius = hp.clamp_norm_factor * h.norm(dim=1)
            shrink = (radius / delta.norm(dim=1).clamp_min(1e-12)).clamp_max(1)
            delta.copy_(torch.where(active[:, None], delta * shrink[:, None], stay))
    return h + delta.detach()


@torch.no_grad()
def insert(
    decoder: Decoder, requests: Requests, z: Tensor, C: dict[int, Tensor], hp: Hyperparameters
) -> None:
    """Step 2: spreads z over the layers of C, lowest first, from what the model says by then."""
    layers = sorted(C)
    for number, l in enumerate(layers):
        K, present = keys_and_values(decoder, requests, l, layers[-1])
        R = (z.to(present) - present).double().T / (len(layers) - number)  # (d, N)
        K = K.double().T  # (ff, N)
        solved = torch.linalg.solve(hp.mom2_update_weight * C[l].to(K) + K @ K.T, K)
        weight = decoder.neurons(l)
        weight += (R.to(K) @ solved.T).to(weight)


def keys_and_values(
    decoder: Decoder, requests: Requests, layer: int, z_layer: int
) -> tuple[Tensor, Tensor]:
    """Keys (N, ff) at one layer and the streams (N, d) after another, at the last tokens.

    As in the source, half of a key is that of the prompt alone, half the mean over its contexts.
    """
    keys, values = [], []

    def look(l: int, a: Tensor, h: Tensor, x: Tensor) -> None:
        if l == layer:
            keys.append(a[:, -1].float())
        if l == z_layer:
            values.append(x[:, -1].float())
            raise Stop

    for context in requests.contexts:
        ids, mask = decoder.pad(requests.after(context), left=True)
        places = (mask.cumsum(1) - 1).clamp_min(0)
        decoder.run_batch_by_layer(look, input_ids=ids, attention_mask=mask, position_ids=places)
    return (keys[0] + torch.stack(keys[1:]).mean(0)) / 2, values[0]
