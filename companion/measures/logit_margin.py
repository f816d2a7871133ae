"""How surely a model begins a secret that is to stay: its first token's logit beside all others'.

An edit may lower tokens that it was not asked to lower, and where a secret begins the next best
token, the same letter in capitals perhaps, is never far.
"""

from __future__ import annotations

import torch

from revs.model.architecture import Decoder
from revs.model.targets import Split

VERSION = 1


@torch.no_grad()
def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Means over the secrets that are to stay, and the ``margin`` of each, in logits.

    ``margin``: of the first token over the best other one; ``targets``: how far the tokens that
    were unlearned elsewhere lie above the mean of the vocabulary there; ``lost``: how many no
    longer begin; ``capitals``: how many of these begin with the same letters in another case.
    """
    tokens = sorted({target.secret_ids[p] for target in split.forget for p in target.T})
    columns, targets, capitals, lost = {}, [], 0, 0
    text = lambda token: decoder.tokenizer.decode([token]).strip().lower()
    for target in split.retain:
        ids, first = torch.tensor([target.prompt_ids], device=decoder.device), target.secret_ids[0]
        hidden = decoder.model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, -1]
        logits = decoder.logits(hidden).float()
        targets.append(float(logits[tokens].mean() - logits.mean()))
        of_first, logits[first] = float(logits[first]), -torch.inf
        columns[target.id] = {"margin": of_first - float(logits.max())}
        if columns[target.id]["margin"] < 0:
            lost += 1
            capitals += text(int(logits.argmax())) == text(first)
    means = {"margin": sum(column["margin"] for column in columns.values()) / len(columns)}
    means |= {"targets": sum(targets) / len(targets), "lost": lost, "capitals": capitals}
    return means, columns
