"""The other control: no edit. What attacks find in the model as it is, and what a run costs that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Target


@dataclass(frozen=True)
class Hyperparameters:
    """There is nothing to set."""


def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress: Callable[[Sequence], Iterable] = iter,
) -> Edit:
    """Changes nothing."""
    return Edit(decoder)
