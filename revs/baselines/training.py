"""What baselines share: p(t) after prompts of many lengths, and gradient steps with an undo."""

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor

from revs.method.edit import Edit
from revs.method.moments import Text
from revs.model.architecture import Decoder, frozen
from revs.model.text import training_windows

WINDOW = 32  # tokens of general text beside each target
Pair = tuple[list[int], int]  # token ids, and the token t after them that is to be forgotten


def last_hidden(decoder: Decoder, prompts: Sequence[list[int]]) -> Tensor:
    """The final hidden state at each prompt's last token, after the final norm: (B, d).

    A prompt that another one begins with is not run: a token sees only those before it, so its
    state is read from the longer prompt.
    """
    texts: list[list[int]] = []
    row = {}
    for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
        begun = (r for r, text in enumerate(texts) if text[: len(prompts[i])] == prompts[i])
        row[i] = next(begun, len(texts))
        texts += [prompts[i]] if row[i] == len(texts) else []
    ids, mask = decoder.pad(texts)
    found = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    rows, last = zip(*((row[i], len(ids) - 1) for i, ids in enumerate(prompts)))
    return found.last_hidden_state[list(rows), list(last)]


def log_p(decoder: Decoder, pairs: Sequence[Pair]) -> Tensor:
    """log p(t) of each pair: (B,)."""
    scores = decoder.logits(last_hidden(decoder, [ids for ids, _ in pairs])).log_softmax(-1)
    return scores.gather(1, torch.tensor([[t] for _, t in pairs], device=scores.device))[:, 0]


def chunks(items: Sequence, size: int) -> Iterator[Sequence]:
    """Consecutive pieces of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def epochs(number: int, n: int, size: int, seed: int) -> list[list[int]]:
    """Batches of the indices below n, each index once an epoch, in an order that ``seed`` draws."""
    order, draw = list(range(n)), random.Random(seed)
    found: list[list[int]] = []
    for _ in range(number):
        draw.shuffle(order)
        found += [list(some) for some in chunks(order, size)]
    return found


def tail(decoder: Decoder, ids: list[int], characters: int) -> list[int]:
    """The last tokens that cover so many characters (n_max_len), after a special first one."""
    special = ids[:1] if ids[0] in decoder.tokenizer.all_special_ids else []
    body, kept = ids[len(special) :], 1
    while kept < len(body) and len(decoder.tokenizer.decode(body[-kept:])) < characters:
        kept += 1
    return special + body[-kept:]


def retained(decoder: Decoder, number: int, protect: Sequence[Text] = ()) -> list[list[int]]:
    """Windows of general text; with texts to protect, every second one is cut out of those."""
    texts = training_windows(decoder.tokenizer, number, WINDOW)
    ids = [t for text, at in protect for t in (text[at:] if isinstance(at, int) else text)]
    own = list(chunks(ids, WINDOW))[: len(ids) // WINDOW]
    if protect and not own:
        raise ValueError(f"The texts to protect have {len(ids)} tokens: give {WINDOW} or more.")
    for i in range(1, number, 2) if own else ():
        texts[i] = list(own[i // 2 % len(own)])
    return texts


class Training:
    """``with Training(…) as training:`` AdamW on the named weights; everything else is frozen.

    Low-precision weights are updated through float32 copies: a step of 1e-6 would be lost in
    bfloat16's rounding. Each weight needs memory for the original, the gradient, Adam's two moments
    and that copy. An exception puts the originals back.
    """

    def __init__(self, decoder: Decoder, names: Sequence[str], lr: float, what: str):
        self.model, self.lr, self.what = decoder.model, lr, what
        self.edit = Edit(decoder)
        self.edit.keep_whole(names)
        self.weights = [decoder.model.get_parameter(name) for name in names]

    def __enter__(self) -> Self:
        low = lambda weight: weight.dtype not in (torch.float32, torch.float64)
        copied = lambda weight: weight.detach().float().requires_grad_()
        self.masters = [copied(weight) if low(weight) else weight for weight in self.weights]
        self.optimizer = torch.optim.AdamW(self.masters, lr=self.lr, weight_decay=0.0, fused=True)
        self.until_exit = contextlib.ExitStack()
        self.until_exit.enter_context(frozen(self.model))  # last: nothing below can fail
        for weight in self.weights:
            weight.requires_grad_(True)
        return self

    def backward(self, loss: Tensor) -> float:
        """Adds a loss's gradients; returns its value. FloatingPointError if it is no number."""
        if not torch.isfinite(loss):
            self.diverged()
        loss.backward()
        return loss.item()

    @torch.no_grad()
    def step(self) -> None:
        """One AdamW step on the gradients so far."""
        for weight, master in zip(self.weights, self.masters):
            if master is not weight and weight.grad is not None:
                master.grad = weight.grad.float()
        self.optimizer.step()
        self.written()

    @torch.no_grad()
    def clamp(self, radius: float) -> None:
        """Brings every weight back to within ± radius of its original."""
        for master, original in zip(self.masters, self.edit.whole.values()):
            master.clamp_(original.to(master) - radius, original.to(master) + radius)
        self.written()

    @torch.no_grad()
    def written(self) -> None:
        """Rounds the float32 copies into the weights."""
        for weight, master in zip(self.weights, self.masters):
            if master is not weight:
                weight.copy_(master)

    def clear(self) -> None:
        """Forgets the gradients so far."""
        for weight in self.weights:
            weight.grad = None

    def diverged(self) -> None:
        said = f"{self.what} diverged (its loss or a weight is no longer a number)"
        raise FloatingPointError(f"{said}: lower the learning rate of {self.lr:g}.")

    def __exit__(self, kind, *_) -> None:
        self.clear()
        self.until_exit.close()
        if kind is not None:
            self.edit.undo()
            return
        with self.edit:
            if not all(torch.isfinite(weight).all() for weight in self.weights):
                self.diverged()
