"""Ordinary text (§4.4.2, without a benchmark): how it surprises a model, what it would write there.

Methods that want text which has nothing to do with the secrets read the same (the paper takes
Wikipedia). It is the reference of the Python language that every interpreter carries: technical
English with code. What it lacks are names and numbers, so that statistics from it say less about
those than Wikipedia's would.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field

import torch
from torch.nn.functional import cross_entropy

from revs.model import reading
from revs.model.architecture import Decoder

CHARACTERS = 12  # of text that are tokenised for each token wanted: more than any tokenizer needs
WINDOW = 128  # tokens of a window that is observed, or a model's context
# windows that results are about, and others that a choice of settings may look at
JUDGING, CHOOSING = range(32), range(32, 40)


@functools.cache
def text() -> str:
    """All topics of Python's reference, in the order of their names."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def inputs() -> dict[str, str]:
    """The hash of the text, for rows: another version of Python has another text."""
    return {"benign": hashlib.sha256(text().encode()).hexdigest()}


def pieces(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of ``length`` tokens, as the model reads a text from its beginning."""
    return reading.windows(tokenizer, text()[: CHARACTERS * number * length], number, length)


@dataclass(frozen=True)
class Ordinary:
    """What a model makes of some windows."""

    windows: range
    perplexity: float  # exp of the mean cross-entropy in nats a token
    next: list[int] = field(repr=False)  # the most probable next token at every place

    def changed(self, after: Ordinary) -> float:
        """The share of next tokens, in [0, 1], that are others in a later look at the same text.

        Raises ValueError if it was at other windows.
        """
        if self.windows != after.windows or len(self.next) != len(after.next):
            raise ValueError(
                "These are looks at different texts: compare one text before and after."
            )
        pairs = zip(self.next, after.next)
        return sum(a != b for a, b in pairs) / len(self.next)


@torch.no_grad()
def observe(decoder: Decoder, windows: range = JUDGING) -> Ordinary:
    """Reads the windows of these numbers, one forward pass each.

    The perplexity of weights that overflow is inf or nan. Raises ValueError where the whole text is
    shorter than one window.

    >>> before = observe(decoder, windows=range(2))
    >>> before.changed(before)
    0.0
    """
    losses, following = [], []
    every = pieces(decoder.tokenizer, windows.stop, min(WINDOW, decoder.context))
    for number in windows:
        ids = torch.tensor([every[number]], device=decoder.device)
        output = decoder.model.base_model(input_ids=ids, use_cache=False)
        logits = decoder.logits(output.last_hidden_state[0])
        losses.append(float(cross_entropy(logits[:-1], ids[0, 1:].to(logits.device))))
        following += logits.argmax(-1).tolist()
    perplexity = float(torch.tensor(losses, dtype=torch.float64).mean().exp())
    return Ordinary(windows, perplexity, following)
