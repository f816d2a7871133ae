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
    """What is searched (``document_audit.optimizer`` says how a range is written), what is tried
    first, its own settings, and three functions."""

    ranges: dict[str, dict]
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
        "r_h": {"low": 0.003, "high": 0.5, "most": 0.9},
        "n_max": {"low": 15, "high": 150, "least": 1, "most": 1000},
        "k": {"low": 1.0, "high": 4.0},
        "r_n": {"low": 0.6, "high": 0.97, "scale": "linear", "least": 0.05, "most": 0.99},
        "ridge": {"low": 0.03, "high": 3.0},
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
