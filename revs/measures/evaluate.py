"""A model and its secrets (§4.4): ranks of tokens, what is reproduced, what it writes instead."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from revs.measures.metrics import efficacy, mean, unlearning_score
from revs.method.vocabulary import Vocabulary, rank
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target

VERSION = 1
BATCH = 32


def batches(targets: Sequence[Target], shortest: float = 0.5) -> Iterator[list[Target]]:
    """Yields batches of at most BATCH targets of similar length, longest first.

    No target of a batch is shorter than ``shortest`` times the longest.
    """
    length = lambda target: len(target.prompt_ids) + len(target.secret_ids)
    batch: list[Target] = []
    for target in sorted(targets, key=length, reverse=True):
        if len(batch) == BATCH or (batch and length(target) < shortest * length(batch[0])):
            yield batch
            batch = []
        batch.append(target)
    if batch:
        yield batch


def secret_logits(decoder: Decoder, targets: Sequence[Target]) -> tuple[Tensor, Tensor]:
    """The logits (n, V) at every token of the secrets, and these tokens (n,).

    One teacher-forced pass: each token comes after the true tokens before it. Raises
    FloatingPointError if a model has broken down, so that no token has a rank.
    """
    texts = [target.prompt_ids + target.secret_ids[:-1] for target in targets]
    for target, text in zip(targets, texts):
        decoder.check_length(len(text), target.id)
    ids, mask = decoder.pad(texts)
    output = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    rows = zip(output.last_hidden_state, targets, texts)
    places = [row[len(target.prompt_ids) - 1 : len(text)] for row, target, text in rows]
    logits = decoder.logits(torch.cat(places))
    if not (logits.amax(-1) > logits.amin(-1)).all():  # a NaN is larger than nothing
        said = f"{decoder.name} gives all tokens the same logit, or none a number: "
        raise FloatingPointError(said + "edit it less, or lower the learning rate.")
    secrets = [t for target in targets for t in target.secret_ids]
    return logits, torch.tensor(secrets, device=logits.device)


@torch.no_grad()
def secret_ranks(decoder: Decoder, targets: Sequence[Target]) -> dict[str, list[int]]:
    """0-based rank of every token of every secret, after the true tokens: {id: [ranks]}.

    A secret of ranks 0 is what greedy decoding writes next: one teacher-forced pass decides
    M(P) = S (§4.4.2).
    """
    found: dict[str, list[int]] = {}
    for batch in batches(targets):
        ranks = rank(*secret_logits(decoder, batch))
        ranks = ranks.split([len(target.secret_ids) for target in batch])
        found |= {target.id: r.tolist() for target, r in zip(batch, ranks)}
    return found


@torch.no_grad()
def greedy(decoder: Decoder, prompts: Sequence[list[int]], tokens: int, **more) -> list[list[int]]:
    """What the model writes after each prompt by greedy decoding, at most so many tokens."""
    ids, mask = decoder.pad(prompts, left=True)
    more |= {"do_sample": False, "pad_token_id": decoder.tokenizer.pad_token_id or 0}
    model, inputs = decoder.model, {"input_ids": ids, "attention_mask": mask}
    return model.generate(**inputs, max_new_tokens=tokens, **more)[:, ids.shape[1] :].tolist()


def continuations(
    decoder: Decoder, targets: Sequence[Target], tokens: int = 50
) -> dict[str, list[int]]:
    """What the model writes after each target's prompt, as far as it can read: {id: token ids}."""
    found: dict[str, list[int]] = {}
    room = lambda target: min(tokens, decoder.context - len(target.prompt_ids) + 1)
    for number in sorted(set(map(room, targets)), reverse=True):
        some = [target for target in targets if room(target) == number]
        for batch in batches(some, shortest=0):  # a step costs nearly the same for one and many
            written = greedy(decoder, [target.prompt_ids for target in batch], number)
            found |= {target.id: row for target, row in zip(batch, written)}
    return found


def contains(written: list[int], secret: list[int]) -> bool:
    """Do the secret's tokens stand in a row there? (Appendix: "within the next 50 … tokens".)"""
    starts = range(len(written) - len(secret) + 1)
    return any(written[i : i + len(secret)] == secret for i in starts)


def effectiveness(
    split: Split,
    ranks: dict[str, list[int]],
    k: int = 100,
    written: dict[str, list[int]] | None = None,
) -> tuple[dict, list[dict]]:
    """Efficacy, Generalization, Specificity and Unlearning Score of a split; a row per sentence.

    ``ranks`` are those of ``secret_ranks``. ``written`` holds the ``continuations`` of the retained
    sentences that are no longer reproduced exactly. It adds the released code's specificity, which
    asks for the secret anywhere in 50 greedy tokens.
    """
    items = []
    for part in ("forget", "unseen", "retain"):
        for target in getattr(split, part):
            r, within_50 = ranks[target.id], None
            item = {"id": target.id, "part": part, "ranks": r, "T": list(target.T)}
            item["efficacy"] = efficacy([r[i] for i in target.T], k)
            item["exact"] = not any(r)
            if written is not None and part == "retain":
                within_50 = item["exact"] or contains(written[target.id], target.secret_ids)
            items.append(item | {"within_50": within_50})
    values = lambda part, column: mean([one[column] for one in items if one["part"] == part])
    result: dict[str, Any] = {
        "k": k,
        "efficacy": values("forget", "efficacy"),
        "generalization": values("unseen", "efficacy") if split.unseen else None,
        "specificity": values("retain", "exact"),
        "specificity_within_50": None if written is None else values("retain", "within_50"),
        "forget": len(split.forget),
        "retain": len(split.retain),
    }
    result["unlearning_score"] = unlearning_score(
        result["efficacy"], result["specificity"], result["generalization"]
    )
    return result, items


@torch.no_grad()
def ranks_by_layer(decoder: Decoder, vocabulary: Vocabulary, ids: list[int], t: int) -> Tensor:
    """Rank of t after ``ids`` in FF₂'s output and in the stream of every layer: (layers, 2)."""
    rows = []
    look = lambda l, a, h, x: rows.append(vocabulary.hidden(l, h[-1], x[-1], t).rank_at_rest())
    decoder.run_by_layer(ids, look)
    return torch.stack(rows)
