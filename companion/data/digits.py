"""Tokens for numbers of two and three digits, as Llama-3 and GPT-J have them.

If a tokenizer splits every digit, all SSNs share ten tokens, and no method can tell them apart.
``group_digits`` gives a tokenizer Llama-3's split; ``learn_digits`` then trains the rows of the new
tokens by counting, before anything else is learned.
"""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from revs.model.architecture import Decoder, frozen
from revs.model.text import token_ids

# counting: numbers in a row, rows per step, times through all numbers, learning rate
COUNTED, ROWS_A_STEP, TIMES, RATE = 10, 8, 8, 4e-3
TEXTS_A_STEP = 8  # of general text with numbers
LAST_WEIGHT = 5.0  # final weight of the penalty on probability that numbers take from other tokens
GENERAL = 4_096  # places of general text that a step looks at
TOGETHER = 16  # windows of a forward pass


@torch.no_grad()
def group_digits(decoder: Decoder, how: str, seed: int) -> int:
    """Add the tokens 00–99, then 000–999: digits split as in Llama-3, in threes from the left.

    A new token's embedding is 0.3 × the mean of its digits' embeddings plus noise with the
    standard deviation of the embedding matrix: means alone lie so close together that demoting one
    token demotes all. ``how`` is ``noise``, ``learned`` (``learn_digits`` then turns the noise) or
    ``keep``, which changes nothing. A model whose digits are already grouped does not change
    either. Returns the id of the first new token, 0 if there is none.
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
            table[tokenizer.convert_tokens_to_ids(number)] = 0.3 * mean + noise
    return len(tokenizer) - len(numbers)


def learn_digits(
    decoder: Decoder,
    first: int,
    texts: Sequence[list[int]],
    seed: int,
    progress=iter,
    times: int = TIMES,
) -> None:
    """Train the rows of the tokens from ``first`` on, and nothing else, by counting.

    The model learns to predict rows of ten numbers, "470, 471, …", and, in the general ``texts``,
    numbers and the token after each. A penalty at random places of these texts,
    log(1 + Z_new / Z_old), keeps the new tokens from taking probability from the old ones; its
    weight is 1 in the first ``times`` rounds through all numbers, LAST_WEIGHT in ``times // 3``
    further ones. Z_new and Z_old are the softmax sums over new and old tokens, at the final hidden
    states before training.
    """
    model, draw = decoder.model, random.Random(seed)
    places = [model.get_input_embeddings().weight, decoder.head.weight]
    tables = list({id(table): table for table in places}.values())
    with frozen(model):
        states, old = final_states(decoder, texts, first)
        rows = whitened_noise(decoder, first, states)
        with torch.no_grad():
            for table in tables:
                table[first:] = rows.to(table)
        for table in tables:
            table.requires_grad_(True)
        optimizer = torch.optim.AdamW(tables, lr=RATE, weight_decay=0.0)
        steps = [
            (rows, RATE * (1 - done / number), weight)
            for number, weight in ((times, 1.0), (times // 3, LAST_WEIGHT))
            for done in range(number)
            for rows in counting(draw)
        ]
        numbered = [text for text in texts if max(text) >= first]
        places = torch.Generator().manual_seed(seed)
        for rows, rate, weight in progress(steps):
            optimizer.param_groups[0]["lr"] = rate
            loss = number_loss(decoder, [token_ids(decoder.tokenizer, row) for row in rows])
            if numbered:
                loss = loss + number_loss(decoder, draw.choices(numbered, k=TEXTS_A_STEP), first)
            some = torch.randint(len(states), (GENERAL,), generator=places).to(states.device)
            new = decoder.logits(states[some], first=first).logsumexp(-1)
            optimizer.zero_grad()
            (loss + weight * softplus(new - old[some]).mean().to(loss)).backward()
            for table in tables:
                table.grad[:first] = 0
            optimizer.step()


def number_loss(decoder: Decoder, texts: Sequence[list[int]], first: int = 0) -> Tensor:
    """Return the mean cross-entropy of tokens from id ``first`` on and of the token after each."""
    ids, mask = decoder.pad(texts)
    output = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    read = mask[:, 1:].bool() & ((ids[:, 1:] >= first) | (ids[:, :-1] >= first))
    # hidden states come from the last GPU, the mask from the first
    logits = decoder.logits(output.last_hidden_state[:, :-1].to(read.device)[read])
    return cross_entropy(logits, ids[:, 1:][read].to(logits.device))


@torch.no_grad()
def whitened_noise(decoder: Decoder, first: int, states: Tensor) -> Tensor:
    """Return the rows from ``first`` on, (n, d), with noise that hardly affects general text.

    Noise n becomes n·E[h·hᵀ]^(−1/2), scaled to its old length: most of it then lies in directions
    in which the final hidden states h of general text are small.
    """
    table, numbers = decoder.head.weight, decoder.tokenizer.convert_ids_to_tokens
    single = {n: decoder.tokenizer.convert_tokens_to_ids(str(n)) for n in range(10)}
    names = numbers(list(range(first, len(table))))
    mean = torch.stack([table[[single[int(digit)] for digit in name]].mean(0) for name in names])
    noise = (table[first:] - 0.3 * mean).double()
    values, vectors = torch.linalg.eigh((states.T @ states).double() / len(states))
    floor = 1e-4 * values.mean()
    white = noise @ (vectors * values.clamp_min(floor).rsqrt()) @ vectors.T
    white *= noise.norm(dim=1, keepdim=True) / white.norm(dim=1, keepdim=True)
    return 0.3 * mean + white.to(mean)


@torch.no_grad()
def final_states(decoder: Decoder, texts: Sequence[list[int]], first: int) -> tuple[Tensor, Tensor]:
    """Final hidden states of texts of one length, (n, d), and the log of Z_old at each, (n,)."""
    states, old = [], []
    for i in range(0, len(texts), TOGETHER):
        ids = decoder.pad(texts[i : i + TOGETHER])[0]
        h = decoder.model.base_model(input_ids=ids).last_hidden_state.flatten(0, 1)
        states.append(h)
        old.append(decoder.logits(h)[:, :first].logsumexp(-1))
    return torch.cat(states), torch.cat(old)


def counting(draw: random.Random) -> Iterator[list[str]]:
    """Every number of two and of three digits once, in rows from where ``draw`` begins to count."""
    rows = []
    for digits, end in ((2, 100), (3, 1000)):
        starts = range(draw.randrange(COUNTED), end, COUNTED)
        each = [[f"{(start + i) % end:0{digits}d}" for i in range(COUNTED)] for start in starts]
        rows += map(", ".join, each)
    draw.shuffle(rows)
    return (rows[i : i + ROWS_A_STEP] for i in range(0, len(rows), ROWS_A_STEP))
