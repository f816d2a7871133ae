"""General text before and after an edit (§4.4.2, without a benchmark): perplexity, KL, next tokens.

The text is the evaluation part of ``revs.model.text``, which no method reads.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from revs.model.architecture import Decoder
from revs.model.targets import Split
from revs.model.text import WINDOW, evaluation_windows

VERSION = 2
# windows that results are about, and others that a choice of settings may look at
TEST, TUNING = range(40), range(80, 120)


@dataclass(frozen=True)
class Predictions:
    """What a model predicts in some windows; ``hidden`` and ``head`` only where a KL is wanted."""

    windows: range
    perplexity: float  # exp of the mean cross-entropy in nats a token
    next: list[int] = field(repr=False)  # the most probable next token at every place
    hidden: list[Tensor] = field(default_factory=list, repr=False)  # final states of each window
    head: nn.Linear | None = field(default=None, repr=False)  # a copy: some methods change it

    def share_changed(self, after: "Predictions") -> float:
        """The share of next tokens, in [0, 1], that differ in the predictions ``after``.

        Raises ValueError if these are of other windows.
        """
        if self.windows != after.windows or len(self.next) != len(after.next):
            raise ValueError("These predict different texts: compare one text before and after.")
        pairs = zip(self.next, after.next, strict=True)
        return sum(a != b for a, b in pairs) / len(self.next)


@torch.no_grad()
def predictions(decoder: Decoder, windows: range = TEST, keep: bool = False) -> Predictions:
    """What the model predicts in the windows with these numbers, one forward pass each.

    ``keep`` keeps what ``measure`` needs: d numbers per token and a copy of the head. If weights
    overflow, the perplexity is inf or nan. Raises ValueError if the whole text is shorter than one
    window.
    """
    losses, following, states = [], [], []
    for ids, hidden in hidden_states(decoder, windows):
        logits = decoder.logits(hidden)
        losses.append(float(cross_entropy(logits[:-1], ids[1:].to(logits.device))))
        following += logits.argmax(-1).tolist()
        states += [hidden] if keep else []
    perplexity = float(torch.tensor(losses, dtype=torch.float64).mean().exp())
    head = copy.deepcopy(decoder.head) if keep else None
    return Predictions(windows, perplexity, following, states, head)


@torch.no_grad()
def measure(
    decoder: Decoder, split: Split | None, k: int = 100, *, before: Predictions
) -> tuple[dict[str, float], dict[str, dict]]:
    """Compares an edited model with ``predictions(…, keep=True)`` of the unedited one.

    Returns perplexity after and before, the mean of KL(p_before ‖ p_after) in nats per token, and
    the share of unchanged next tokens, in [0, 1]. Ignores split and k: no value is by secret.
    """
    losses, divergences, same = [], [], 0
    pairs = zip(hidden_states(decoder, before.windows), before.hidden, strict=True)
    for (ids, hidden), was in pairs:
        log_p = decoder.logits(hidden).log_softmax(-1)
        log_p0 = decoder.logits(was, before.head).log_softmax(-1).to(log_p.device)
        losses.append(float(-log_p[:-1].gather(1, ids[1:, None].to(log_p.device)).mean()))
        divergences.append(float(kl_div(log_p, log_p0, reduction="batchmean", log_target=True)))
        same += int((log_p.argmax(-1) == log_p0.argmax(-1)).sum())
    mean = lambda values: float(torch.tensor(values, dtype=torch.float64).mean())
    return {
        "perplexity": float(torch.tensor(mean(losses), dtype=torch.float64).exp()),
        "perplexity_before": before.perplexity,
        "kl": mean(divergences),
        "unchanged": same / len(before.next),
    }, {}


def hidden_states(decoder: Decoder, windows: range) -> Iterator[tuple[Tensor, Tensor]]:
    """Each window's ids (T,) and the final hidden states at its tokens, (T, d)."""
    length = min(WINDOW, decoder.context)
    every = evaluation_windows(decoder.tokenizer, windows.stop, length)
    for number in windows:
        ids = torch.tensor(every[number], device=decoder.device)
        output = decoder.model.base_model(input_ids=ids[None], use_cache=False)
        yield ids, output.last_hidden_state[0]
