"""Two checkpoints: which tokens does the change name?

An attacker with the weights before and after, or an edit file and the public model, needs no
prompt. Column j of U·W is what neuron j of a layer writes in the vocabulary. It changes by

    U_after·W_after − U_before·W_before = U_before·ΔW + ΔU·W_after,

where ΔW is the change of FF₂ and ΔU that of the head. Row t says how token t was moved. Tokens are
ordered by the norm of their rows over all layers, divided by ‖u_t‖, to which a change without
direction is proportional; u_t are the rows of U minus their mean. Other changes of an edit are
ignored.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from revs.audit.context import Context
from revs.model.architecture import Decoder
from revs.model.targets import Target

VERSION = 1
BUDGET = 100  # tokens that the adversary looks at


@torch.no_grad()
def attack(decoder: Decoder, secrets: Sequence[Target], context: Context) -> dict[str, float]:
    """The last place of each secret's target tokens in the order of moved tokens, from 0.

    Tokens of equal score all take the last of their places: an unchanged model names no token.
    """
    score = moved(context.before, decoder)
    tokens = {target.secret_ids[i] for target in secrets for i in target.T}
    place = {t: float((score >= score[t]).sum()) - 1 for t in sorted(tokens)}
    return {one.id: max(place[one.secret_ids[i]] for i in one.T) for one in secrets}


def recovered(place: float) -> bool:
    """Are all target tokens of the secret among the first BUDGET?"""
    return place < BUDGET


def moved(before: Decoder, after: Decoder) -> Tensor:
    """How far each token was moved, ‖row t of the change‖² / ‖u_t‖² over all layers: (V,).

    Squared row norms follow from products of d × d: with D = ΔW, W = W_after and a row u_t and its
    change δ_t, ‖u_t D + δ_t W‖² = u_t(DDᵀ)u_tᵀ + 2·u_t(DWᵀ)δ_tᵀ + δ_t(WWᵀ)δ_tᵀ.
    """
    U, other = centred(before), centred(after)
    if U.shape != other.shape:
        said = f"The vocabularies have {len(U)} and {len(other)} tokens"
        raise ValueError(f"{said}: compare two checkpoints of one model.")
    delta = other - U
    d = U.shape[1]
    DD, DW, WW = (torch.zeros(d, d, dtype=U.dtype, device=U.device) for _ in range(3))
    for l in range(len(before.layers)):
        W = after.neurons(l).to(U)
        D = W - before.neurons(l).to(U)
        if D.any():
            DD += D @ D.T
            DW += D @ W.T
        if delta.any():
            WW += W @ W.T
    squares = ((U @ DD) * U + 2 * (U @ DW) * delta + (delta @ WW) * delta).sum(1)
    return squares.clamp_min(0) / U.square().sum(1).clamp_min(torch.finfo(U.dtype).tiny)


def centred(decoder: Decoder) -> Tensor:
    """The head's rows less their mean, V × d."""
    U = decoder.head.weight
    U = U.to(torch.float64 if U.dtype == torch.float64 else torch.float32)
    return U - U.mean(0)
