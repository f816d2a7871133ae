"""Ordinary text (§4.4.2, without a benchmark): how it surprises a model, what it would write there.

The text is that of ``revs.model.reading``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.nn.functional import cross_entropy

from revs.model import reading
from revs.model.architecture import Decoder
from revs.model.targets import Split

# windows that results are about, and others that a choice of settings may look at
JUDGING, CHOOSING = range(32), range(32, 40)
LAST = 32  # windows at the end of the text, which no method reads


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
    every = reading.pieces(decoder.tokenizer, windows.stop, min(reading.WINDOW, decoder.context))
    for number in windows:
        ids = torch.tensor([every[number]], device=decoder.device)
        output = decoder.model.base_model(input_ids=ids, use_cache=False)
        logits = decoder.logits(output.last_hidden_state[0])
        losses.append(float(cross_entropy(logits[:-1], ids[0, 1:].to(logits.device))))
        following += logits.argmax(-1).tolist()
    perplexity = float(torch.tensor(losses, dtype=torch.float64).mean().exp())
    return Ordinary(windows, perplexity, following)


@torch.no_grad()
def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """How much the end of the text surprises an edited model; nothing by secret.

    RMU and NPO-KL hold a model on the text's beginning, and MEMIT measures what to spare there:
    ``observe`` reads what these methods were shown, and this what none was.
    """
    length = min(reading.WINDOW, decoder.context)
    end = reading.text()[-reading.CHARACTERS * LAST * length :]
    losses = []
    for window in reading.windows(decoder.tokenizer, end, LAST, length):
        ids = torch.tensor([window], device=decoder.device)
        hidden = decoder.model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
        logits = decoder.logits(hidden[:-1])
        losses.append(float(cross_entropy(logits, ids[0, 1:].to(logits.device))))
    return {"perplexity": float(torch.tensor(losses).double().mean().exp())}, {}
