"""Instilling synthetic secrets: the memorising fine-tune (Appendix, "Synthetic SSN Dataset") and its check.

Whether unlearning a number can be local at all is decided by the tokenizer. Llama-3 and GPT-J group digits, so that
a number has tokens of its own; SmolLM2 splits every digit, and ten tokens are shared by all numbers. ``group_digits``
gives a tokenizer Llama-3's split before the fine-tune.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from revs.architecture import Decoder
from revs.data import Record


@dataclass(frozen=True)
class Finetune:
    """Settings of the fine-tune. The paper's, for 6B and 8B models, are lr 2e-6, 4 epochs, batch 1."""

    lr: float = 3e-4
    epochs: int = 6
    batch: int = 16
    weight_decay: float = 0.0
    digits: str = "noise"  # tokens for two and three digits, embedded with noise; "mean" without; "keep": the tokenizer's own
    autocast: bool = False  # bfloat16 arithmetic; slower on a CPU without such instructions
    seed: int = 0

    def __post_init__(self):
        if self.digits not in ("noise", "mean", "keep"):
            raise ValueError(f"digits is '{self.digits}', but must be noise, mean or keep.")


@torch.no_grad()
def group_digits(decoder: Decoder, how: str, seed: int) -> None:
    """Adds the tokens 00–99, then 000–999, so that digits split as in Llama-3: three at a time from the left.

    A new token's embedding is 0.3 × the mean of its digits' embeddings plus noise of the embedding matrix's own
    standard deviation (``noise``), or the mean itself (``mean``): then the new tokens lie so close together that
    demoting one demotes all. Only embeddings and head change; a model whose digits are grouped already is left alone.
    """
    model, tokenizer = decoder.model, decoder.tokenizer
    if how == "keep" or len(tokenizer("1364", add_special_tokens=False)["input_ids"]) < 4:
        return
    numbers = [f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)]
    single = {str(n): tokenizer.convert_tokens_to_ids(str(n)) for n in range(10)}
    tokenizer.add_tokens(numbers)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    draw = torch.Generator().manual_seed(seed)
    tables = {id(m.weight): m.weight for m in (model.get_input_embeddings(), model.get_output_embeddings())}  # one if tied
    for table in tables.values():
        std = table[: -len(numbers)].std()
        for number in numbers:
            mean = table[[single[digit] for digit in number]].mean(0)
            noise = std * torch.randn(mean.shape, generator=draw).to(mean)
            table[tokenizer.convert_tokens_to_ids(number)] = mean if how == "mean" else 0.3 * mean + noise


def memorise(decoder: Decoder, records: list[Record], settings: Finetune, progress: Callable[[int, int, float], None] = lambda *_: None) -> list[float]:
    """Fine-tunes all weights on the sentences with AdamW, in place; returns the mean loss of each epoch.

    Raises FloatingPointError if the loss is no longer a number.
    """
    torch.manual_seed(settings.seed)
    group_digits(decoder, settings.digits, settings.seed)
    model, tokenizer = decoder.model, decoder.tokenizer
    texts = [tokenizer(record.text)["input_ids"] for record in records]
    for record, ids in zip(records, texts):
        decoder.check_length(len(ids), record.id)
    order = random.Random(settings.seed)
    total, losses = settings.epochs * -(-len(texts) // settings.batch), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total)
    model.train()
    for _ in range(settings.epochs):
        order.shuffle(texts)
        seen = []
        for start in range(0, len(texts), settings.batch):
            loss = batch_loss(decoder, texts[start : start + settings.batch], settings.autocast)
            if not torch.isfinite(loss):
                raise FloatingPointError(f"The fine-tune diverged (the loss is {loss.item()}): lower the learning rate of {settings.lr}.")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            seen.append(loss.item())
            progress(len(losses) * -(-len(texts) // settings.batch) + len(seen), total, seen[-1])
        losses.append(sum(seen) / len(seen))
    model.eval()
    return losses


def batch_loss(decoder: Decoder, texts: list[list[int]], autocast: bool) -> Tensor:
    """Next-token cross-entropy of some texts, right-padded; the padding has no loss."""
    ids, mask = decoder.pad(texts)
    with torch.autocast(decoder.device.type, torch.bfloat16, enabled=autocast):
        return decoder.model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
