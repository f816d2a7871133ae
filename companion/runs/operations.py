"""What unlearning costs by its operations: a prediction for machines and models that are not at hand.

A part of the work takes as long as its arithmetic or its traffic with memory does, whichever is longer. ``FORMULAE`` and
``operations`` say the same, one for readers and one for the machine.
"""

from __future__ import annotations

import functools

import yaml

from companion.record.paths import ROOT
from revs.method.algorithm import AT_ONCE
from revs.method.select import PIECES, WORTH
from revs.method.vocabulary import BLOCK

RANK, SELECT, EDIT = (
    4,
    4,
    26,
)  # times that a float32 row of V logits is read or written: for a rank, for a rank and its place in the order, for an edit and what it does to the layer
TIMES = {
    "once": "while the Gram factor is made",
    "after": "while tokens are unlearned",
}  # when memory is highest
PRECISION = {"once": "float64", "forward": "weights"}  # of the arithmetic; the rest is float32
FORMULAE = {  # part: operations, bytes
    "once": ("$2Vd^2$, in float64", "$Vd(b+16)$"),
    "forward": ("$2PT$", "$nPb$"),
    "direction": ("$2nVd$", "$nu$"),
    "gate": ("$4GVd$", f"$G(u + {2 * RANK * 4}V)$"),
    "candidates": ("$2E(k + 2)Vd$", "$E(u + 4(k + 2)V)$"),
    "selection": ("0", f"${SELECT * 4}EkV$"),
    "edit": ("0", f"${EDIT * 4}V(M + {AT_ONCE / 2:g}E)$"),
}


def operations(shape: dict, work: dict, tokens: int) -> dict[str, tuple[float, float]]:
    """(operations, bytes) of each part of one run, from a row's ``shape`` and ``work``."""
    d, V, P, b = (shape[name] for name in ("d", "V", "body", "bytes"))
    T, E, G, M, k = (work[name] for name in ("prompt", "layers", "gates", "moves", "k"))
    n, u = (
        tokens,
        V * d * (b + (8 if b < 4 else 0)),
    )  # u: a product with U reads it, in low precision by way of float32 blocks
    return {
        "once": (2 * V * d**2, V * d * (b + 16)),
        "forward": (2 * P * T, n * P * b),
        "direction": (2 * n * V * d, n * u),
        "gate": (4 * G * V * d, G * (u + 2 * RANK * 4 * V)),
        "candidates": (
            2 * E * (k + 2) * V * d,
            E * (u + 4 * (k + 2) * V),
        ),  # with FF₂'s output and the stream
        "selection": (0, SELECT * 4 * E * k * V),
        "edit": (0, EDIT * 4 * V * (M + E * AT_ONCE / 2)),
    }


def seconds(parts: dict[str, tuple[float, float]], rates: dict[str, float]) -> dict[str, float]:
    """How long each part takes on a machine of these rates."""
    return {
        part: max(flops / rates[PRECISION.get(part, "float32")], traffic / rates["bandwidth"])
        for part, (flops, traffic) in parts.items()
    }


def projected(k: int, n_max: int, share: float) -> float:
    """How many candidates' products with U are as much as selecting takes: a ``share`` of all of them and the lines of those that are taken, or all k where they are too few to be counted piece by piece (``revs.method.select``)."""
    return k if k < WORTH * n_max else min(k, share * k + n_max)


def alive(k: int, n_max: int) -> int:
    """Rows of V logits that an array has while a layer's neurons are selected and edited: all candidates, or, counted piece by piece, those that are taken and a piece of all."""
    return k if k < WORTH * n_max else n_max + k // PIECES


def extra(shape: dict, k: int, n_max: int, device: str = "cpu") -> dict[str, int]:
    """Memory beyond the model and undo, in bytes, at the two times when it is highest.

    ``once``: the Gram factor with the sums and the block that it is made of. ``after``: the factor with four arrays of float32 logits (``alive``), which is more than are alive at once, and a float32 block of U.
    """
    d, V = shape["d"], shape["V"]
    block = min(BLOCK[device], V) * d
    return {
        "once": 3 * 8 * d * d + 8 * block,
        "after": 8 * d * d + 4 * 4 * alive(k, n_max) * V + (4 * block if shape["bytes"] < 4 else 0),
    }


def of_config(config: dict, bytes_of_weight: int) -> dict[str, int]:
    """The shape of a Llama from its configuration (params/shapes.yml), as a row has it."""
    d, ff, L = (config[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    kept = config["num_key_value_heads"] / config["num_attention_heads"]
    return {
        "layers": L,
        "d": d,
        "ff": ff,
        "V": config["vocab_size"],
        "body": round(L * (d * d * (2 + 2 * kept) + 3 * d * ff + 2 * d)),
        "bytes": bytes_of_weight,
    }


@functools.cache
def machines() -> dict[str, dict]:
    """params/machines.yml: the rates of machines that are not at hand. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "machines.yml").read_text(encoding="utf-8"))
