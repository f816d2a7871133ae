"""The audit: every attack on every secret, and what their numbers say.

A secret is *recovered* if any attack that counts for the verdict (``endpoint``) recovers it. The
same attacks are run on a never-trained string after each secret's prompt, as a control.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from revs.audit import exposure, leak, relearning, rounding, two_checkpoints
from revs.audit.context import Context
from revs.model.architecture import Decoder
from revs.model.targets import Target

Values = dict[str, float]  # by the id of a secret


@dataclass(frozen=True)
class Attack:
    """An attack, and from which value on a secret counts as recovered."""

    title: str
    values: Callable[[Decoder, Sequence[Target], Context], Values]
    recovered: Callable[[float], bool] = lambda rank: rank == 0  # it ranks first, or is written
    endpoint: bool = True  # does it count for the verdict, or only describe?


ATTACKS = {
    "leak": Attack("leak@100", leak.attack, leak.recovered),
    "exposure": Attack("Exposure", exposure.attack),
    "relearning": Attack("Relearning", relearning.attack),
    "rounding": Attack("Rounding", rounding.attack),
    "int8": Attack("8 bits", rounding.int8, endpoint=False),
    "two_checkpoints": Attack(
        "Two checkpoints", two_checkpoints.attack, two_checkpoints.recovered, endpoint=False
    ),
}


def audit(
    decoder: Decoder,
    secrets: Sequence[Target],
    context: Context,
    progress: Callable[[Iterable], Iterable] = iter,
    attacks: Mapping[str, Attack] = ATTACKS,
) -> dict[str, Values]:
    """What each attack finds of each secret and of each control: {attack: {id: value}}.

    The model is as before at the end. Notes: ``seconds`` of each attack. ``attacks``: all, or some
    of them; relearning needs two secrets, with one secret leave it out.
    """
    every, found = [*secrets, *context.never_trained], {}
    seconds = context.notes["seconds"] = {}
    for name, attack in progress(list(attacks.items())):
        start = time.monotonic()
        found[name] = attack.values(decoder, every, context)
        seconds[name] = time.monotonic() - start
    return found
