"""The text around a secret in its documents, and the tokens that only this secret has.

An edit for one secret may spare prose from elsewhere and still break the page that holds the
secret, or other secrets of the same company. This module checks both: what the model would write at
every place of that page outside a secret, and which tokens a secret shares with the others.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch

from document_audit.candidates import Candidate
from document_audit.detection import Span
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode
from revs.model.text import begins, special_prefix

LONGEST = 256  # tokens of a passage, at most
MOST = 40  # passages that are looked at


@dataclass(frozen=True)
class Passage:
    """Token ids of a text around a secret, and the places in it that belong to no secret."""

    ids: list[int] = field(repr=False)
    places: list[int] = field(repr=False)


def passages(
    candidates: Iterable[Candidate], spans: Callable[[str], list[Span]], tokenizer
) -> list[Passage]:
    """The text around some secrets, once where it is the same; ``spans`` says where secrets are."""
    found, read = [], {}  # read: how far, by document
    for one in sorted(candidates, key=lambda one: (one.source, one.offset)):
        text, start = one.before + one.record.secret + one.after, one.offset - len(one.before)
        if one.offset < read.get(one.source, 0) or len(found) == MOST:
            continue
        read[one.source] = start + len(text)
        coded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        # of a long text what stands around the secret
        own = next(i for i, (_, end) in enumerate(coded["offset_mapping"]) if end > len(one.before))
        cut = slice(max(0, own - LONGEST * 2 // 3), own + LONGEST // 3)
        secret = bytearray(len(text))
        for span in spans(text):
            secret[span.start : span.end] = b"\1" * (span.end - span.start)
        first = [] if begins(tokenizer, coded["input_ids"][cut]) else special_prefix(tokenizer)
        pairs = enumerate(coded["offset_mapping"][cut], len(first))
        places = [i for i, (a, b) in pairs if i and not any(secret[a:b])]
        found.append(Passage(first + coded["input_ids"][cut], places))
    return found


@torch.no_grad()
def next_tokens(decoder: Decoder, some: Sequence[Passage]) -> list[int]:
    """The most probable token at every place of some passages that belongs to no secret."""
    found = []
    for passage in some:
        ids = torch.tensor([passage.ids], device=decoder.device)
        states = decoder.model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]
        before = torch.tensor(passage.places) - 1
        found += decoder.logits(states[before.to(states.device)]).argmax(-1).tolist()
    return found


def by_distinctive_tokens(
    every: Iterable[Target], some: Sequence[Passage], tokenizer
) -> Callable[[Record, Target], Target]:
    """Return a function that gives a record's target other tokens: the most specific to its secret.

    Of the eligible tokens it takes those that the fewest other secrets have; among equals, those
    rarest around the secrets; then, as the paper does, those of the highest id.
    """
    secrets = {target.group: set(target.secret_ids) for target in every}
    others = Counter(token for ids in secrets.values() for token in ids)
    beside = Counter(one.ids[place] for one in some for place in one.places)
    order = lambda token: (others[token], beside[token], -token)

    def chosen(record: Record, target: Target) -> Target:
        return replace(encode(record, tokenizer, len(target.T), order), group=target.group)

    return chosen
