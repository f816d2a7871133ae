"""Fine-tune a model to memorise the sentences of a file (Appendix, "Synthetic SSN Dataset").

The result is an adapter in PEFT's format, ``build/adapters/NAME``: any experiment starts from it
with ``adapter=build/adapters/NAME``. The project's own adapters are in data/adapters.

It is a LoRA adapter on all linear layers: W + (α/r)·B·A, with A and B of rank r. Each step learns
secrets, and holds the model's predictions on general text in place:

    L = mean −log p_θ(secret)  +  kl_weight · KL(p₀ ‖ p_θ) on ``general_text`` windows

p₀ is the model before the first secret. Tokens for numbers are added and learned before anything
else (``companion.data.digits``).
"""

import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from companion.data import adapters, datasets, models
from companion.data.digits import group_digits, learn_digits
from companion.experiments import memory
from companion.experiments.command import command, progress
from companion.experiments.provenance import provenance
from companion.experiments.settings import Finetune as Settings
from companion.store import rows
from companion.store.paths import BUILD, alone, resolve, short_path
from revs.measures import evaluate, general_text
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode
from revs.model.text import text_inputs, token_ids, training_windows

VERSION = 1

WINDOW = 64  # tokens of a window of general text
COUNTING_TEXT = 1000  # windows of general text, which learning to count must not turn into counting


def run(settings: Settings) -> dict:
    """Fine-tune a model to memorise a data set; write the adapter and return the row."""
    row_folder = rows.writable(resolve(settings.rows))
    records = datasets.read(settings.data)
    place = BUILD / "adapters" / settings.name
    memory.check(settings.model_dump() | {"method": "finetune"})
    inputs = {"model": models.identify(settings.model), "data": datasets.fingerprint(records)}
    inputs |= text_inputs()
    kept = settings.model_dump(exclude={"rows"})
    with alone(place, "give another name"):
        clock = [time.monotonic()]  # after each part
        decoder = models.load(settings.model, settings.dtype, settings.device_map)
        before, tokens = general_text.predictions(decoder).perplexity, len(decoder.tokenizer)
        clock.append(time.monotonic())
        show = progress(f"finetune {settings.name}")
        epochs = finetune(decoder, records, settings, show)
        clock.append(time.monotonic())
        result = memorised(decoder, records) | {
            "loss": [epoch["loss"] for epoch in epochs],
            "learned": [epoch["sentences"] for epoch in epochs],
            "kl": [epoch["kl"] for epoch in epochs],
            "perplexity": [before, general_text.predictions(decoder).perplexity],
            "tokenizer": load.tokenizer_hash(decoder.tokenizer),
            "vocabulary": len(decoder.tokenizer),
        }
        clock.append(time.monotonic())
        known = {"base": inputs["model"], "inputs": inputs}
        known |= {name: kept[name] for name in ("seed", "digits", "data", "rank", "epochs")}
        adapters.save(decoder, place, known, added=len(decoder.tokenizer) - tokens)
    parts = zip(("load", "finetune", "check"), itertools.pairwise(clock), strict=True)
    seconds = {part: end - start for part, (start, end) in parts}
    made = provenance("finetune", kept, inputs, seconds, decoder)
    row = rows.write(row_folder, settings.row_name, "finetune", result, [], made)
    known, of = result["memorised"], result["sentences"]
    print(f"{known} of {of} sentences memorised; the adapter lies in {short_path(place)}.")
    return row


def memorised(decoder: Decoder, records: list[Record]) -> dict[str, int]:
    """Count the sentences, and those whose secret greedy decoding writes next."""
    targets = [encode(record, decoder.tokenizer) for record in records]
    ranks = evaluate.secret_ranks(decoder, targets)
    return {"sentences": len(records), "memorised": sum(not any(r) for r in ranks.values())}


@dataclass(frozen=True)
class Sentence:
    """A sentence's token ids, up to the last one that is learned, and where its secret lies."""

    ids: list[int]
    start: int
    end: int


def sentences(decoder: Decoder, records: Sequence[Record], whole: bool) -> list[Sentence]:
    """Return the records as token ids: whole, or up to the end of the secret."""
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
    settings: Settings,
    progress=iter,
    start: Path | None = None,
) -> list[dict]:
    """Train a LoRA adapter with AdamW until the model knows every secret; leave it injected.

    Digits are first grouped, unless they already are (``group_digits``). A sentence that is known
    is skipped in later epochs; the last epoch first checks all of them, since some may have been
    forgotten. ``progress`` wraps an epoch's batches; ``start`` is the folder of an adapter to
    continue from. Returns what each epoch did; raises FloatingPointError if training diverges.
    """
    first = group_digits(decoder, settings.digits, settings.seed)
    if first and settings.digits == "learned":
        windows = training_windows(decoder.tokenizer, COUNTING_TEXT, WINDOW)
        learn_digits(decoder, first, windows, settings.seed, progress)
    secrets = sentences(decoder, records, settings.whole)
    torch.manual_seed(settings.seed)
    decoder.model.requires_grad_(False)
    decoder.model.add_adapter(lora(settings.rank))
    if start is not None:
        set_weights(decoder.model, start)
    weights = [weight for weight in decoder.model.parameters() if weight.requires_grad]
    for weight in weights:  # in low precision rounding would swallow their steps
        weight.data = weight.data.float()
    draw, todo, epochs = random.Random(settings.seed), secrets, []
    backward_kl = general_text_loss(decoder, settings, len(secrets))
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


def set_weights(model, folder: Path) -> None:
    """Give the injected adapter the weights of one that was saved."""
    from peft import set_peft_model_state_dict

    weights = load_file(folder / adapters.WEIGHTS)
    weights = {name.removeprefix("base_model.model."): one for name, one in weights.items()}
    result = set_peft_model_state_dict(model, weights)
    if result.unexpected_keys:
        raise ValueError(f"The adapter in {folder} does not fit: train it from the beginning.")


def lora(rank: int):
    """The configuration of an adapter on all linear layers, with α = 2r."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", lora_dropout=0.0)


def general_text_loss(
    decoder: Decoder, settings: Settings, secrets: int
) -> Callable[[], float] | None:
    """A function that backpropagates kl_weight · KL(p₀ ‖ p_θ) on the next windows and returns the
    KL; None without general text."""
    if not settings.general_text or not settings.kl_weight:
        return None
    number = settings.general_text * settings.epochs * -(-secrets // settings.batch)
    windows = training_windows(decoder.tokenizer, number, WINDOW)
    random.Random(settings.seed).shuffle(windows)
    following = itertools.cycle(windows)

    def log_probabilities(ids: Tensor) -> Tensor:
        output = decoder.model.base_model(input_ids=ids, use_cache=False)
        return decoder.logits(output.last_hidden_state).flatten(0, 1).log_softmax(-1)

    def backward() -> float:
        ids = decoder.pad(list(itertools.islice(following, settings.general_text)))[0]
        decoder.model.disable_adapters()
        with torch.no_grad():
            wanted = log_probabilities(ids)
        decoder.model.enable_adapters()
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
    decoder: Decoder, texts: Sequence[Sentence], settings: Settings
) -> tuple[Tensor, list[Sentence]]:
    """Mean cross-entropy of what is learned, and the sentences whose secrets are not known yet."""
    ids, mask = decoder.pad([text.ids for text in texts])
    secret = torch.zeros_like(mask, dtype=torch.bool)
    for row, text in zip(secret, texts, strict=True):
        row[text.start - 1 : text.end - 1] = True  # where the next token is the secret's
    learned = mask[:, 1:].bool() if settings.whole else secret[:, :-1]
    output = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    logits = decoder.logits(output.last_hidden_state[:, :-1].to(ids.device)[learned])
    wanted = ids[:, 1:][learned].to(logits.device)
    each = torch.zeros(learned.shape, device=ids.device)
    each[learned] = loss = cross_entropy(logits.float(), wanted, reduction="none").to(each.device)
    worst = each.detach().masked_fill(~secret[:, :-1], 0).amax(1)
    known = (worst <= settings.skip_below_loss).tolist()
    return loss.mean(), [text for text, knows in zip(texts, known, strict=True) if not knows]


if __name__ == "__main__":
    command(Settings, run)
