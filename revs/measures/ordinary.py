"""Ordinary text, which has nothing to do with the secrets: how surprising it is to a model, and what the model would write there (§4.4.2, without a benchmark)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.nn.functional import cross_entropy

from companion.runs import benign
from companion.runs.benign import (
    inputs as inputs,
)  # the hash of the text, for rows: a look at another text is another result
from revs.model.architecture import Decoder

WINDOW = 128  # tokens of a window of benign text, or a model's context
JUDGING, CHOOSING = (
    range(32),
    range(32, 40),
)  # windows that results are about, and others that a choice of settings may look at


@dataclass(frozen=True)
class Ordinary:
    """What a model makes of some windows: exp of the mean cross-entropy in nats a token, and the most probable next token at every place."""

    windows: range
    perplexity: float
    next: list[int] = field(repr=False)

    def changed(self, after: Ordinary) -> float:
        """The share of next tokens, between 0 and 1, that are others in a later look at the same windows; ValueError if it was at other windows."""
        if self.windows != after.windows or len(self.next) != len(after.next):
            raise ValueError(
                "These are looks at different texts: compare one text before and after."
            )
        return sum(a != b for a, b in zip(self.next, after.next)) / len(self.next)


@torch.no_grad()
def observe(decoder: Decoder, windows: range = JUDGING) -> Ordinary:
    """Reads some windows of benign text (``companion.runs.benign``), one forward pass each, without the tokens that a tokenizer puts before a text.

    ``windows`` are the numbers of the windows. The perplexity of weights that overflow is inf or nan. Raises ValueError
    where the whole text is shorter than one window.

    >>> before = observe(decoder, windows=range(2))
    >>> before.changed(before)
    0.0
    """
    losses, following = [], []
    every = benign.windows(decoder.tokenizer, windows.stop, min(WINDOW, decoder.context))
    for number in windows:
        ids = torch.tensor([every[number]], device=decoder.device)
        logits = decoder.logits(
            decoder.model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
        )
        losses.append(float(cross_entropy(logits[:-1], ids[0, 1:].to(logits.device))))
        following += logits.argmax(-1).tolist()
    return Ordinary(
        windows, float(torch.tensor(losses, dtype=torch.float64).mean().exp()), following
    )
