"""Fine-tuning a model to memorise synthetic secrets (Appendix, "Synthetic SSN Dataset").

What is learned is a LoRA adapter on all linear layers: W + (α/r)·B·A, with A and B of rank r. Each
step learns secrets, and keeps what the model predicts in general text:

    L = mean −log p_θ(secret)  +  kl_weight · KL(p₀ ‖ p_θ) on ``general_text`` windows

p₀ is the model before the first secret. Llama-3 and GPT-J group digits, so that an SSN has tokens
of its own; where every digit is split, ten tokens are shared by all SSNs, and ``group_digits``
gives a tokenizer Llama-3's split. The rows of the new tokens are learned first, by counting
(``learn_digits``).
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, softplus

from revs.model.architecture import Decoder
from revs.model.targets import Record, encode
from revs.model.text import token_ids

DIGITS = ("learned", "noise", "mean", "keep")
# counting: numbers in a row, rows a step, times through all numbers, learning rate
COUNTED, ABREAST, TIMES, RATE = 10, 8, 6, 2e-3
WINDOW = 64  # tokens of a window of general text
COUNTING_TEXT = 200  # windows in which a model that learns to count shall not begin to
EVALUATED = 80  # windows at the beginning of the text, which are for evaluation
Texts = Callable[..., list[list[int]]]  # (tokenizer, number, length) → windows of general text


@dataclass(frozen=True)
class Finetune:
    """What a model memorises, and how. The paper's settings, for 6B and 8B and all weights, are lr
    2e-6, 4 epochs, batch 1, whole sentences."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "synthetic"  # all built-in sets together, one of them, or a JSON Lines file
    digits: str = "learned"  # tokens for 2 and 3 digits: learned, noise, mean; keep: none
    rank: int = 8  # r of the adapter
    lr: float = 2e-3  # learning rate, falling linearly
    epochs: int = 8  # passes over what is not known yet
    batch: int = 8  # sentences a step
    general_text: int = 2  # windows of general text beside the secrets of a step; 0: none
    kl_weight: float = 1.0  # of the KL divergence there
    whole: bool = False  # learn whole sentences, not only the secrets in them
    skip_below_loss: float = 0.4  # nats: what is known this well rests in the next epochs; 0: none
    autocast: bool = False  # bfloat16 arithmetic: slower on most CPUs
    seed: int = 1  # order of the sentences, start of the adapter, noise of new embeddings
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

    Rows of ten numbers, "470, 471, …", are predicted; in general ``texts`` the new tokens shall
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
        ids, mask = decoder.pad([token_ids(decoder.tokenizer, row) for row in rows])
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
        ids = token_ids(decoder.tokenizer, record.text)
        decoder.check_length(len(ids), record.id)
        target = encode(record, decoder.tokenizer, size=0)
        start = len(target.prompt_ids)
        end = start + len(target.secret_ids)
        found.append(Sentence(ids if whole else ids[:end], start, end))
    return found


def finetune(
    decoder: Decoder,
    records: Sequence[Record],
    settings: Finetune,
    texts: Texts,
    progress=iter,
) -> list[dict]:
    """Trains a LoRA adapter with AdamW until the model knows every secret; it stays injected.

    Digits are grouped before (``group_digits``), where they are not yet. Returns what each epoch
    did. A sentence that is known rests in the next epochs; the last one begins with a look at all,
    for some may be forgotten. ``texts`` gives general text, ``progress`` wraps an epoch's batches.
    Raises FloatingPointError if it diverges.
    """
    first = group_digits(decoder, settings.digits, settings.seed)
    if first and settings.digits == "learned":
        windows = unseen_windows(decoder, texts, COUNTING_TEXT)
        learn_digits(decoder, first, windows, settings.seed, progress)
    secrets = sentences(decoder, records, settings.whole)
    torch.manual_seed(settings.seed)
    decoder.model.requires_grad_(False)
    decoder.model.add_adapter(lora(settings.rank))
    weights = [weight for weight in decoder.model.parameters() if weight.requires_grad]
    draw, todo, epochs = random.Random(settings.seed), secrets, []
    backward_kl = general_text_loss(decoder, settings, texts, len(secrets))
    optimizer = torch.optim.AdamW(weights, lr=settings.lr, weight_decay=0.0)
    decoder.model.train()
    for epoch in range(settings.epochs):
        optimizer.param_groups[0]["lr"] = settings.lr * (1 - epoch / settings.epochs)
        if epoch and epoch == settings.epochs - 1:
            todo = []
            for batch in batches(secrets, settings.batch, draw):
                with torch.no_grad():
                    todo += losses(decoder, batch, settings)[1]
        learned, divergences, unknown = [], [], []
        for batch in progress(batches(todo, settings.batch, draw)):
            loss, missed = losses(decoder, batch, settings)
            if not torch.isfinite(loss):
                said = f"The fine-tune diverged (the loss is {loss.item()}): lower the learning "
                raise FloatingPointError(f"{said}rate of {settings.lr}.")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if backward_kl:
                divergences.append(backward_kl())
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            learned.append(loss.item())
            unknown += missed
        mean = lambda values: sum(values) / max(1, len(values))
        epochs.append({"sentences": len(todo), "loss": mean(learned), "kl": mean(divergences)})
        todo = unknown
    decoder.model.eval()
    return epochs


def lora(rank: int):
    """The configuration of an adapter on all linear layers, with α = 2r."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0)


@contextlib.contextmanager
def without_adapter(model):
    """The model as it was before its adapter."""
    model.disable_adapters()
    try:
        yield
    finally:
        model.enable_adapters()


def unseen_windows(decoder: Decoder, texts: Texts, number: int) -> list[list[int]]:
    """At most so many different windows of general text, none of which is for evaluation."""
    windows = list(map(tuple, texts(decoder.tokenizer, EVALUATED + number, WINDOW)))
    evaluated = set(windows[:EVALUATED])
    return [list(window) for window in dict.fromkeys(windows) if window not in evaluated]


def general_text_loss(
    decoder: Decoder, settings: Finetune, texts: Texts, secrets: int
) -> Callable[[], float] | None:
    """A function that backpropagates kl_weight · KL(p₀ ‖ p_θ) on the next windows and returns the
    KL; None without general text."""
    if not settings.general_text or not settings.kl_weight:
        return None
    number = settings.general_text * settings.epochs * -(-secrets // settings.batch)
    windows = unseen_windows(decoder, texts, number)
    random.Random(settings.seed).shuffle(windows)
    following = itertools.cycle(windows)

    def log_probabilities(ids: Tensor) -> Tensor:
        output = decoder.model.base_model(input_ids=ids, use_cache=False)
        return decoder.logits(output.last_hidden_state).flatten(0, 1).log_softmax(-1)

    def backward() -> float:
        ids = decoder.pad(list(itertools.islice(following, settings.general_text)))[0]
        with torch.no_grad(), without_adapter(decoder.model):
            wanted = log_probabilities(ids)
        kl = kl_div(log_probabilities(ids), wanted, reduction="batchmean", log_target=True)
        (settings.kl_weight * kl).backward()
        return kl.item()

    return backward


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
    known = (worst <= settings.skip_below_loss).tolist()
    return loss.mean(), [text for text, knows in zip(texts, known, strict=True) if not knows]
