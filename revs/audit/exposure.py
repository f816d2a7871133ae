"""Exposure: where does the secret rank among never-trained strings of its shape?

After the secret's prompt the model gives a log-probability to the secret and to each of 200 strings
of the same shape that were in no training text (Carlini et al., "The Secret Sharer", 2019). If the
secret is as likely beforehand as the strings, a model that knows nothing of it ranks it first once
in 201 times. A prompt that suggests the secret raises that share, so compare with a model that was
never trained on it. A place near the end is a trace too.
"""

from collections.abc import Sequence

import torch

from revs.audit import leak
from revs.audit.context import Context
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1
BATCH = 50  # strings that are read at once


@torch.no_grad()
def attack(decoder: Decoder, secrets: Sequence[Target], context: Context) -> dict[str, float]:
    """How many never-trained strings have a higher log-probability than each secret: its 0-based
    rank."""
    own = leak.attack(decoder, secrets, context)
    known: dict[int, list[float]] = {}  # a secret and its control share their strings
    found = {}
    for target in secrets:
        strings = context.strings[target.id]
        if id(strings) not in known:
            known[id(strings)] = log_p_of_strings(decoder, target.prompt_ids, strings)
        found[target.id] = float(sum(one > own[target.id] for one in known[id(strings)]))
    return found


@torch.no_grad()
def log_p_of_strings(
    decoder: Decoder, prompt_ids: list[int], strings: Sequence[Target]
) -> list[float]:
    """log p of each whole string after one prompt, which is read once."""
    base, prompt = decoder.model.base_model, torch.tensor([prompt_ids], device=decoder.device)
    read = base(input_ids=prompt, use_cache=True)
    first = decoder.logits(read.last_hidden_state[0, -1]).log_softmax(-1)
    found: list[float] = []
    for start in range(0, len(strings), BATCH):
        some = strings[start : start + BATCH]
        ids, mask = decoder.pad([one.secret_ids for one in some])
        log_p = first[ids[:, 0].to(first.device)].double()
        if ids.shape[1] > 1:
            seen = torch.cat([mask.new_ones(len(some), len(prompt_ids)), mask[:, :-1]], dim=1)
            given = {"input_ids": ids[:, :-1], "attention_mask": seen}
            after = decoder.continue_from(read.past_key_values, len(some), **given)
            follows = mask[:, 1:].bool()  # where a token of the string comes next
            streams = after.last_hidden_state
            logits = decoder.logits(streams[follows.to(streams.device)])
            wanted = ids[:, 1:][follows].to(logits.device)[:, None]
            later = (logits.gather(1, wanted)[:, 0] - logits.logsumexp(1)).double()
            log_p.index_add_(0, follows.nonzero()[:, 0].to(log_p.device), later)
        found += log_p.tolist()
    return found
