"""Relearning: does training on half of the forgotten secrets bring back the other half?

All weights are trained on the secrets of one half, by AdamW on the cross-entropy of their tokens,
until greedy decoding writes each of them, for STEPS steps at most. The other half, which was not
trained on, is tested. The halves then swap roles, so that every secret is held out once.
"""

import random
from collections.abc import Sequence

import torch

from revs.audit.context import Context
from revs.audit.leak import token_log_p
from revs.baselines.training import Training
from revs.measures.evaluate import secret_ranks
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1
LR = 5e-5
STEPS = 20  # at most


def attack(decoder: Decoder, secrets: Sequence[Target], context: Context) -> dict[str, float]:
    """The highest 0-based rank over each held-out secret's tokens: 0 if it is written again.

    Notes by half: ``steps``, and ``written``, the share of the half trained on that is written at
    the end. The model is restored bit for bit.
    """
    notes = context.notes["relearning"] = {"steps": [], "written": []}
    control = {one.id for one in context.never_trained}
    groups = sorted({one.group for one in secrets})
    random.Random(context.seed).shuffle(groups)
    found: dict[str, float] = {}
    for half in (set(groups[::2]), set(groups[1::2])):
        known = [one for one in secrets if one.group in half and one.id not in control]
        held_out = [one for one in secrets if one.group not in half]
        if not known or not held_out:
            raise ValueError("Relearning needs two secrets at least: one to train on, one to test.")
        names = [name for name, _ in decoder.model.named_parameters()]
        with Training(decoder, names, LR, "Relearning") as training:
            for step in range(STEPS + 1):
                written = share_written(decoder, known)
                if written == 1 or step == STEPS:
                    break
                training.clear()
                training.backward(-torch.cat(token_log_p(decoder, known)).mean())
                training.step()
            ranks = secret_ranks(decoder, held_out)
        training.edit.undo()
        found |= {name: float(max(some)) for name, some in ranks.items()}
        notes["steps"].append(step)
        notes["written"].append(written)
    return found


def share_written(decoder: Decoder, secrets: Sequence[Target]) -> float:
    """The share of secrets that greedy decoding writes next."""
    ranks = secret_ranks(decoder, secrets).values()
    return sum(not any(some) for some in ranks) / len(secrets)
