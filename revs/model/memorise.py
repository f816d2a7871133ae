"""Instilling synthetic secrets: the memorising fine-tune (Appendix, "Synthetic SSN Dataset").

Llama-3 and GPT-J group digits, so that a number has tokens of its own; where every digit is split,
ten tokens are shared by all numbers, and ``group_digits`` gives a tokenizer Llama-3's split.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from revs.model.architecture import Decoder
from revs.model.targets import Record, encode


@dataclass(frozen=True)
class Finetune:
    """Settings; the paper's, for 6B and 8B, are lr 2e-6, 4 epochs, batch 1, whole sentences."""

    lr: float = 3e-4  # falls linearly, epoch by epoch
    epochs: int = 8
    batch: int = 8
    whole: bool = False  # learn the whole sentence, not only the secret in it
    leave_out: float = 0.4  # a sentence whose secret has no token above this loss, in nats, rests
    digits: str = "noise"  # new tokens for 2 and 3 digits with noise; "mean" without; "keep": none
    autocast: bool = False  # bfloat16 arithmetic; slower on a CPU without such instructions
    seed: int = 0

    def __post_init__(self):
        if self.digits not in ("noise", "mean", "keep"):
            raise ValueError(f"digits is '{self.digits}', but must be noise, mean or keep.")
        if min(self.epochs, self.batch) < 1:
            raise ValueError(f"epochs is {self.epochs} and batch {self.batch}: give 1 or more.")


@torch.no_grad()
def group_digits(decoder: Decoder, how: str, seed: int) -> None:
    """Adds the tokens 00–99, then 000–999: digits split as in Llama-3, in threes from the left.

    A new token's embedding is 0.3 × the mean of its digits' embeddings plus noise of the embedding
    matrix's own standard deviation (``noise``), or the mean itself (``mean``): so close together
    that demoting one demotes all. A model whose digits are grouped already is left alone.
    """
    model, tokenizer = decoder.model, decoder.tokenizer
    if how == "keep" or len(tokenizer("1364", add_special_tokens=False)["input_ids"]) < 4:
        return
    numbers = [f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)]
    single = {str(n): tokenizer.convert_tokens_to_ids(str(n)) for n in range(10)}
    tokenizer.add_tokens(numbers)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    draw = torch.Generator().manual_seed(seed)
    tables = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    for table in {id(table): table for table in tables}.values():  # one if tied
        std = table[: -len(numbers)].std()
        for number in numbers:
            mean = table[[single[digit] for digit in number]].mean(0)
            noise = std * torch.randn(mean.shape, generator=draw).to(mean)
            new = mean if how == "mean" else 0.3 * mean + noise
            table[tokenizer.convert_tokens_to_ids(number)] = new


@dataclass(frozen=True)
class Sentence:
    """Token ids of a sentence as far as they are learned, and where its secret lies in them."""

    ids: list[int]
    start: int
    end: int


def sentences(decoder: Decoder, records: Sequence[Record], whole: bool) -> list[Sentence]:
    """The records as token ids: to the end, or to that of their secrets, which see no further."""
    found = []
    for record in records:
        ids = decoder.tokenizer(record.text)["input_ids"]
        decoder.check_length(len(ids), record.id)
        target = encode(record, decoder.tokenizer, size=0)
        start = len(target.prompt_ids)
        end = start + len(target.secret_ids)
        found.append(Sentence(ids if whole else ids[:end], start, end))
    return found


def memorise(
    decoder: Decoder, records: Sequence[Record], settings: Finetune, progress=iter
) -> list[dict]:
    """Fine-tunes all weights with AdamW, in place, until the model knows every secret.

    Returns what each epoch did. What is known is left out of the next epochs; the last one begins
    with a look at all, for some may be forgotten. ``progress`` wraps the batches of an epoch.
    """
    torch.manual_seed(settings.seed)
    group_digits(decoder, settings.digits, settings.seed)
    texts = sentences(decoder, records, settings.whole)
    draw, todo, epochs = random.Random(settings.seed), texts, []
    optimizer = torch.optim.AdamW(
        decoder.model.parameters(), lr=settings.lr, weight_decay=0.0, fused=True
    )
    decoder.model.train()
    for epoch in range(settings.epochs):
        optimizer.param_groups[0]["lr"] = settings.lr * (1 - epoch / settings.epochs)
        if epoch and epoch == settings.epochs - 1:
            todo = []
            for batch in batches(texts, settings.batch, draw):
                with torch.no_grad():
                    todo += losses(decoder, batch, settings)[1]
        learned, unknown = [], []
        for batch in progress(batches(todo, settings.batch, draw)):
            loss, missed = losses(decoder, batch, settings)
            if not torch.isfinite(loss):
                said = f"The fine-tune diverged (the loss is {loss.item()}): lower the learning "
                raise FloatingPointError(f"{said}rate of {settings.lr}.")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(decoder.model.parameters(), 1.0)
            optimizer.step()
            learned.append(loss.item())
            unknown += missed
        epochs.append({"sentences": len(todo), "loss": sum(learned) / max(1, len(learned))})
        todo = unknown
    decoder.model.eval()
    return epochs


def batches(texts: Sequence[Sentence], size: int, draw: random.Random) -> list[list[Sentence]]:
    """Batches of sentences of similar length, in a random order."""
    order = draw.sample(texts, len(texts))
    order.sort(key=lambda text: len(text.ids) // 4)
    found = [order[i : i + size] for i in range(0, len(order), size)]
    return draw.sample(found, len(found))


def losses(
    decoder: Decoder, texts: Sequence[Sentence], settings: Finetune
) -> tuple[Tensor, list[Sentence]]:
    """Mean cross-entropy of what is learned, and the sentences whose secrets are not known yet."""
    ids, mask = decoder.pad([text.ids for text in texts])
    secret = torch.zeros_like(mask, dtype=torch.bool)
    for row, text in zip(secret, texts, strict=True):
        row[text.start - 1 : text.end - 1] = True  # where the next token is the secret's
    learned = mask[:, 1:].bool() if settings.whole else secret[:, :-1]
    with torch.autocast(decoder.device.type, torch.bfloat16, enabled=settings.autocast):
        output = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        logits = decoder.logits(output.last_hidden_state[:, :-1][learned])
    each = torch.zeros(learned.shape, device=logits.device)
    each[learned] = loss = cross_entropy(logits.float(), ids[:, 1:][learned], reduction="none")
    worst = each.detach().masked_fill(~secret[:, :-1], 0).amax(1)
    known = (worst <= settings.leave_out).tolist()
    return loss.mean(), [text for text, knows in zip(texts, known, strict=True) if not knows]
