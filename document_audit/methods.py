"""The methods that an audit may edit with: what is searched, first settings from soft to hard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from revs.method import algorithm, least_squares
from revs.method.edit import Edit
from revs.method.moments import Sample, Text, samples, second_moments
from revs.model.architecture import Decoder
from revs.model.text import WINDOW, training_windows

GENERAL, PROTECTED = 1024, 1024  # tokens whose activations are spared: of each kind, at most
SMALL = 0.1  # a scale of a norm, by the median of its scales


@dataclass(frozen=True)
class Method:
    """A method as the search sees it: ranges of settings, what is tried first, how to call it."""

    ranges: dict[str, tuple[float, float]]
    first: Sequence[dict]
    Hyperparameters: type
    hyperparameters: Callable[[Decoder, dict], object]  # from searched settings
    measured: Callable[[Decoder], dict]  # arguments of ``unlearn`` measured once on the model
    spared: Callable[[Decoder, Sequence[Text]], dict]  # arguments that protect texts
    unlearn: Callable[..., Edit]


def activations(decoder: Decoder, texts: Sequence[Text]) -> dict:
    """The activations of texts to protect, by layer: their second moments or, where FF₂ is so wide
    that moments would be larger, a sample of the activations themselves."""
    layers = range(len(decoder.layers))
    if decoder.neurons(0).shape[1] <= 2 * (GENERAL + PROTECTED):
        by_length = sorted(texts, key=lambda one: len(one[0]))  # less padding
        return second_moments(decoder, by_length, layers)
    some = samples(decoder, texts, layers)
    return {
        l: Sample(one.rows[:: -(-len(one.rows) // (PROTECTED // 2))]) for l, one in some.items()
    }


def general_activations(decoder: Decoder) -> dict:
    """``activations`` of general text."""
    length = min(WINDOW, decoder.context)
    windows = training_windows(decoder.tokenizer, -(-GENERAL // length), length)
    return {"general": activations(decoder, [(ids, 0) for ids in windows])}


def least_squares_hyperparameters(
    decoder: Decoder, searched: dict
) -> least_squares.Hyperparameters:
    """The least-squares settings. r_h is a share of the vocabulary, at least one rank. Where a norm
    has a small scale the paper's step is long, so a ridge is used. Without ν nothing is protected.
    """
    given = {"tokens": GENERAL, "ridge": 1.0 if has_small_scales(decoder) else 0.0, "nu": None}
    r_h = max(searched["r_h"], 1 / len(decoder.head.weight))
    return least_squares.Hyperparameters(**given | searched | {"r_h": r_h})


def has_small_scales(decoder: Decoder) -> bool:
    """Is a scale of a norm between FF₂ and the head far smaller than its others?"""
    after = [decoder.after(l) for l in range(len(decoder.layers))]
    scales = [
        (norm.weight.detach().float() + decoder.architecture.offset).abs()
        for norm in [decoder.norm, *after]
        if norm is not None
    ]
    return any(bool(one.min() < SMALL * one.median()) for one in scales)


LEAST_SQUARES = Method(
    ranges={"r_h": (0.001, 0.2), "mu": (0.003, 3.0), "nu": (0.003, 3.0), "lam": (0.0003, 0.1)},
    first=[
        {"r_h": r_h, "mu": 0.3, "nu": 0.1, "lam": lam}
        for r_h, lam in ((0.004, 0.01), (0.015, 0.01), (0.05, 0.003))
    ],
    Hyperparameters=least_squares.Hyperparameters,
    hyperparameters=least_squares_hyperparameters,
    measured=general_activations,
    spared=lambda decoder, texts: {"protect": activations(decoder, texts)} if texts else {},
    unlearn=lambda *given, **more: least_squares.unlearn(*given, **more),
)


def revs_hyperparameters(decoder: Decoder, searched: dict) -> algorithm.Hyperparameters:
    """REVS's settings: k is searched as a multiple of n_max, and is no more than a layer has
    neurons; margins are shares of the vocabulary."""
    k = min(decoder.neurons(0).shape[1], round(searched["k"] * searched["n_max"]))
    sizes = {"k": k, "n_max": min(searched["n_max"], k)}
    more = {"projection": "norm", "eps_r_h": 0.0, "eps_r_n": 0.02}
    return algorithm.Hyperparameters(**searched | sizes | more)


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
    measured=lambda decoder: {},
    spared=lambda *_: {},
    unlearn=lambda *given, **more: algorithm.unlearn(*given, **more),
)
METHODS = {"least_squares": LEAST_SQUARES, "revs": REVS}
