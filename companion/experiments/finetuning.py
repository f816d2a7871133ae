"""Instilling synthetic secrets: the memorising fine-tune (Appendix, "Synthetic SSN Dataset").

Llama-3 and GPT-J group digits, so that a number has tokens of its own; where every digit is split,
ten tokens are shared by all numbers, and ``group_digits`` gives a tokenizer Llama-3's split. Their
rows alone are then learned by counting (``learn_digits``).

Each step of the fine-tune learns secrets, and holds what the model predicts in ordinary text:

    L = mean −log p_θ(secret)  +  hold · KL(p₀ ‖ p_θ) on ``ordinary`` windows, different ones

p₀ is the model before the first secret.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, softplus

from revs.model import text
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode

DIGITS = ("learned", "noise", "mean", "keep")
# counting: numbers in a row, rows a step, times through all numbers, learning rate
COUNTED, ABREAST, TIMES, RATE = 10, 8, 6, 2e-3
WINDOW = 64  # tokens of a window of ordinary text
QUIET = 200  # windows in which a model that learns to count shall not begin to
JUDGED = 80  # windows at the beginning of the text, which are for judging
Texts = Callable[..., list[list[int]]]  # (tokenizer, number, length) → windows of ordinary text


@dataclass(frozen=True)
class Finetune:
    """What a model is made to know, and how; the paper's settings, for 6B and 8B, are lr 2e-6, 4
    epochs, batch 1, whole sentences."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "synthetic"  # all built-in sets together, one of them, or a JSON Lines file
    digits: str = "learned"  # tokens for 2 and 3 digits: learned, noise, mean; keep: none
    lr: float = 3e-4  # learning rate, falling linearly
    epochs: int = 8  # passes over what is not known yet
    batch: int = 8  # sentences a step
    ordinary: int = 2  # windows of ordinary text beside the secrets of a step; 0: none
    hold: float = 1.0  # how much what the model predicts there is held
    whole: bool = False  # learn whole sentences, not only the secrets in them
    leave_out: float = 0.4  # nats: what is known this well rests for the next epochs; 0: nothing
    autocast: bool = False  # bfloat16 arithmetic: slower on most CPUs
    seed: int = 0  # order of the sentences, noise of the new embeddings
    dtype: str = "float32"  # precision of the weights
    rows: str = "build/rows"  # where the result row goes

    def __post_init__(self):
        if self.digits not in DIGITS:
            known = f"{', '.join(DIGITS[:-1])} or {DIGITS[-1]}"
            raise ValueError(f"digits is '{self.digits}', but must be {known}.")
        if self.dtype != "float32":
            raise ValueError(
                f"dtype is {self.dtype}, in which rounding swallows the steps of a fine-tune: "
                "memorise in float32; the run that starts from it has a dtype of its own."
            )


@torch.no_grad()
def group_digits(decoder: Decoder, how: str, seed: int) -> int:
    """Adds the tokens 00–99, then 000–999: digits split as in Llama-3, in threes from the left.

    A new token's embedding is 0.3 × the mean of its digits' embeddings plus noise of the embedding
    matrix's own standard deviation (``noise``; ``learned`` begins so), or the mean itself
    (``mean``): so close together that demoting one demotes all. A model whose digits are grouped
    already is left alone. Returns the id of the first new token, 0 if there is none.
    """
    model, tokenizer = decoder.model, decoder.tokenizer
    if how == "keep" or len(tokenizer("1364", add_special_tokens=False)["input_ids"]) < 4:
        return 0
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
    return len(tokenizer) - len(numbers)


def learn_digits(
    decoder: Decoder, first: int, texts: Sequence[list[int]], seed: int, progress=iter
) -> None:
    """Learns the rows of the tokens from ``first`` on, and nothing else, by counting.

    Rows of ten numbers, "470, 471, …", are predicted; in ordinary ``texts`` the new tokens shall
    take no probability from the others: log(1 + Z_new / Z_old), what they add to the loss there,
    is learned down. Z are the sums of softmax, at the final hidden states as they are before.
    """
    model, draw = decoder.model, random.Random(seed)
    places = [model.get_input_embeddings().weight, decoder.head.weight]
    tables = list({id(table): table for table in places}.values())
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    with torch.no_grad():
        some = (decoder.pad(texts[i : i + 8])[0] for i in range(0, len(texts), 8))
        states = [model.base_model(input_ids=ids).last_hidden_state for ids in some]
        old = torch.cat([decoder.logits(h)[..., :first].logsumexp(-1).flatten() for h in states])
        states = torch.cat([h.flatten(0, 1) for h in states])
    for table in tables:
        table.requires_grad_(True)
    optimizer = torch.optim.AdamW(tables, lr=RATE, weight_decay=0.0)
    steps = [rows for _ in range(TIMES) for rows in counting(draw)]
    for rows in progress(steps):
        ids, mask = decoder.pad([text.token_ids(decoder.tokenizer, row) for row in rows])
        output = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        read = mask[:, 1:].bool()  # on the first GPU, where hidden states come from the last
        logits = decoder.logits(output.last_hidden_state[:, :-1].to(read.device)[read])
        loss = cross_entropy(logits, ids[:, 1:][read].to(logits.device))
        new = decoder.logits(states, first=first).logsumexp(-1)
        optimizer.zero_grad()
        (loss + softplus(new - old).mean().to(loss)).backward()
        for table in tables:
            table.grad[:first] = 0
        optimizer.step()
    for parameter, flag in flags:
        parameter.requires_grad_(flag)


def counting(draw: random.Random) -> Iterator[list[str]]:
    """Every number of two and of three digits once, in rows from where ``draw`` begins to count."""
    rows = []
    for digits, end in ((2, 100), (3, 1000)):
        starts = range(draw.randrange(COUNTED), end, COUNTED)
        each = [[f"{(start + i) % end:0{digits}d}" for i in range(COUNTED)] for start in starts]
        rows += map(", ".join, each)
    draw.shuffle(rows)
    return (rows[i : i + ABREAST] for i in range(0, len(rows), ABREAST))


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
        ids = text.token_ids(decoder.tokenizer, record.text)
        decoder.check_length(len(ids), record.id)
        target = encode(record, decoder.tokenizer, size=0)
        start = len(target.prompt_ids)
        end = start + len(target.secret_ids)
        found.append(Sentence(ids if whole else ids[:end], start, end))
    return found


def memorise(
    decoder: Decoder,
    records: Sequence[Record],
    settings: Finetune,
    texts: Texts,
    progress=iter,
) -> list[dict]:
    """Fine-tunes all weights with AdamW, in place, until the model knows every secret.

    Returns what each epoch did. What is known is left out of the next epochs; the last one begins
    with a look at all, for some may be forgotten. ``texts`` gives ordinary text, ``progress`` wraps
    the batches of an epoch.
    """
    torch.manual_seed(settings.seed)
    first = group_digits(decoder, settings.digits, settings.seed)
    if first and settings.digits == "learned":
        learn_digits(decoder, first, read(decoder, texts, QUIET), settings.seed, progress)
    secrets = sentences(decoder, records, settings.whole)
    draw, todo, epochs = random.Random(settings.seed), secrets, []
    hold = holding(decoder, settings, texts, len(secrets))
    optimizer = torch.optim.AdamW(
        decoder.model.parameters(), lr=settings.lr, weight_decay=0.0, fused=True
    )
    decoder.model.train()
    for epoch in range(settings.epochs):
        optimizer.param_groups[0]["lr"] = settings.lr * (1 - epoch / settings.epochs)
        if epoch and epoch == settings.epochs - 1:
            todo = []
            for batch in batches(secrets, settings.batch, draw):
                with torch.no_grad():
                    todo += losses(decoder, batch, settings)[1]
        learned, held, unknown = [], [], []
        for batch in progress(batches(todo, settings.batch, draw)):
            loss, missed = losses(decoder, batch, settings)
            if not torch.isfinite(loss):
                said = f"The fine-tune diverged (the loss is {loss.item()}): lower the learning "
                raise FloatingPointError(f"{said}rate of {settings.lr}.")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if hold:
                held.append(hold())
            torch.nn.utils.clip_grad_norm_(decoder.model.parameters(), 1.0)
            optimizer.step()
            learned.append(loss.item())
            unknown += missed
        mean = lambda values: sum(values) / max(1, len(values))
        epochs.append({"sentences": len(todo), "loss": mean(learned), "kl": mean(held)})
        todo = unknown
    decoder.model.eval()
    return epochs


def read(decoder: Decoder, texts: Texts, number: int) -> list[list[int]]:
    """At most so many different windows of ordinary text, none of which is for judging."""
    windows = list(map(tuple, texts(decoder.tokenizer, JUDGED + number, WINDOW)))
    judged = set(windows[:JUDGED])
    return [list(window) for window in dict.fromkeys(windows) if window not in judged]


def holding(
    decoder: Decoder, settings: Finetune, texts: Texts, secrets: int
) -> Callable[[], float] | None:
    """A function that goes back through hold · KL(p₀ ‖ p_θ) on the next windows and returns the KL;
    None where nothing is held. The model as it is now is p₀."""
    if not settings.ordinary or not settings.hold:
        return None
    reference = replace(decoder, model=copy.deepcopy(decoder.model).eval())
    number = settings.ordinary * settings.epochs * -(-secrets // settings.batch)
    windows = read(decoder, texts, number)
    random.Random(settings.seed).shuffle(windows)
    following = itertools.cycle(windows)

    def predicted(of: Decoder, ids: Tensor) -> Tensor:
        output = of.model.base_model(input_ids=ids, use_cache=False)
        return of.logits(output.last_hidden_state).flatten(0, 1).log_softmax(-1)

    def hold() -> float:
        ids = decoder.pad(list(itertools.islice(following, settings.ordinary)))[0]
        with torch.no_grad():
            wanted = predicted(reference, ids)
        kl = kl_div(predicted(decoder, ids), wanted, reduction="batchmean", log_target=True)
        (settings.hold * kl).backward()
        return kl.item()

    return hold


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
        logits = decoder.logits(output.last_hidden_state[:, :-1].to(ids.device)[learned])
    wanted = ids[:, 1:][learned].to(logits.device)
    each = torch.zeros(learned.shape, device=ids.device)
    each[learned] = loss = cross_entropy(logits.float(), wanted, reduction="none").to(each.device)
    worst = each.detach().masked_fill(~secret[:, :-1], 0).amax(1)
    known = (worst <= settings.leave_out).tolist()
    return loss.mean(), [text for text, knows in zip(texts, known, strict=True) if not knows]
