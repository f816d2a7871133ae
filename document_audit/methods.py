"""The methods that an audit may edit with: what is searched, and how each is called.

A method is one entry of ``METHODS``: the ranges of its settings, the settings that are tried first,
from soft to hard, and what turns both into its ``Hyperparameters``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from revs.method import algorithm
from revs.method.edit import Edit
from revs.method.selection import mean_activation
from revs.model.architecture import Decoder


@dataclass(frozen=True)
class Method:
    """Which settings are searched, from where to where, what is tried first, and how to call it."""

    ranges: dict[str, tuple[float, float]]
    first: Sequence[dict]
    Hyperparameters: type
    hyperparameters: Callable[[Decoder, dict, dict], object]  # of searched and fixed settings
    measured: Callable[[Decoder], dict]  # of the model, once: arguments of ``unlearn``
    unlearn: Callable[..., Edit]


def revs_hyperparameters(
    decoder: Decoder, searched: dict, fixed: dict
) -> algorithm.Hyperparameters:
    """REVS's settings, of ``searched`` and ``fixed`` ones: k is a multiple of n_max there, and no
    more than a layer has neurons; margins are shares of the vocabulary."""
    neurons = decoder.neurons(0).shape[1]
    given = {"projection": "norm", "neurons": "selective", "eps_r_h": 0.0, "eps_r_n": 0.02}
    given |= searched | fixed
    if "k" not in fixed:
        given["k"] = round(searched["k"] * given["n_max"])
    given["k"] = min(neurons, given["k"])
    given["n_max"] = min(given["n_max"], given["k"])
    return algorithm.Hyperparameters(**given)


REVS = Method(
    ranges={
        "r_h": (0.003, 0.9),
        "n_max": (1, 1000),
        "k": (1.0, 4.0),
        "r_n": (0.05, 0.99),
        "ridge": (0.03, 3.0),
    },
    first=[
        {"n_max": 45, "k": 1.0, "ridge": 1.0, "r_h": r_h, "r_n": r_n}
        for r_h, r_n in ((0.02, 0.8), (0.06, 0.9), (0.18, 0.95), (0.45, 0.97))
    ],
    Hyperparameters=algorithm.Hyperparameters,
    hyperparameters=revs_hyperparameters,
    measured=lambda decoder: {"mean_activation": mean_activation(decoder)},
    unlearn=lambda *given, **more: algorithm.unlearn(*given, **more),
)
METHODS = {"revs": REVS}
