"""What a model says after prompts of different lengths, with gradients, and which of its parts a baseline may change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from revs.model.architecture import Decoder

Pair = tuple[list[int], int]  # token ids, and the token t after them that is to be forgotten


def last_hidden(decoder: Decoder, prompts: Sequence[list[int]]) -> Tensor:
    """The final hidden state at each prompt's last token, after the final norm: (B, d).

    A prompt with which another begins is not run: a token sees only those before it, so that it can be read off there.
    """
    texts: list[list[int]] = []
    row = {}
    for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
        row[i] = next(
            (r for r, text in enumerate(texts) if text[: len(prompts[i])] == prompts[i]), len(texts)
        )
        texts += [prompts[i]] if row[i] == len(texts) else []
    ids, mask = decoder.pad(texts)
    hidden = decoder.model.base_model(
        input_ids=ids, attention_mask=mask, use_cache=False
    ).last_hidden_state
    return hidden[[row[i] for i in range(len(prompts))], [len(ids) - 1 for ids in prompts]]


def log_p(decoder: Decoder, pairs: Sequence[Pair]) -> Tensor:
    """log p(t) of each pair: (B,)."""
    scores = decoder.logits(last_hidden(decoder, [ids for ids, _ in pairs])).log_softmax(-1)
    return scores.gather(1, torch.tensor([[t] for _, t in pairs], device=scores.device))[:, 0]


def chunks(items: Sequence, size: int) -> Iterator[Sequence]:
    """Consecutive pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def tail(decoder: Decoder, ids: list[int], characters: int) -> list[int]:
    """The last tokens that cover this many characters (n_max_len), after the text's first token if that is special."""
    special = ids[:1] if ids[0] in decoder.tokenizer.all_special_ids else []
    body, kept = ids[len(special) :], 1
    while kept < len(body) and len(decoder.tokenizer.decode(body[-kept:])) < characters:
        kept += 1
    return special + body[-kept:]


def chosen(decoder: Decoder, layers: Sequence[int] | str) -> list[int]:
    """Layers by number, or "all", or "upper" for the upper half. Raises ValueError for one that the model does not have."""
    there = len(decoder.layers)
    if isinstance(layers, str):
        if layers not in ("all", "upper"):
            raise ValueError(f"layers are '{layers}', but must be all, upper or a list of numbers.")
        return list(range(0 if layers == "all" else there // 2, there))
    if not layers or min(layers) < 0 or max(layers) >= there:
        raise ValueError(
            f"layers are {list(layers)}, but {decoder.name} has the layers 0 to {there - 1}: choose among those."
        )
    return sorted(layers)


def ff2_names(decoder: Decoder, layers: Sequence[int]) -> list[str]:
    """The names of some layers' FF₂ weights."""
    parts = decoder.architecture
    return [f"{parts.layers}.{l}.{parts.ff2}.weight" for l in layers]
