"""Is a model that was loaded what its family's row says? Asked of the model itself, before anything is changed (§2).

The rows of params/architectures.yml say where the parts are. That they also do what REVS takes for granted, that FF₂'s output is added
to the stream as it is and that the head reads the stream through the final norm, depends on the checkpoint: some families multiply
either by a number of its configuration.
"""

from __future__ import annotations

import torch
from torch import Tensor

from revs.model.architecture import Decoder

TEXT = "The number of the house is one"
TOLERANCE = {
    torch.float64: 1e-6,
    torch.float32: 1e-3,
    torch.bfloat16: 5e-2,
    torch.float16: 1e-2,
}  # of the size of what is compared


@torch.no_grad()
def check(decoder: Decoder) -> None:
    """Raises ValueError if a change of FF₂'s output does not change the stream as ``Decoder.visit`` takes it to, if the logits are not those of the last stream, NaN or infinite, or the head is of another width."""
    d = decoder.neurons(0).shape[0]
    if decoder.head.weight.shape[1] != d:
        raise ValueError(
            f"The head of {decoder.name} reads {decoder.head.weight.shape[1]} numbers, but its stream has {d}: REVS does not fit this variant of the family, choose another model."
        )
    ids = decoder.tokenizer(TEXT, add_special_tokens=False)["input_ids"][:8]
    found: dict[int, tuple[Tensor, Tensor]] = {}
    decoder.visit(ids, lambda l, a, h, x: found.update({l: (h.clone(), x.clone())}))
    logits = (
        decoder.model(input_ids=torch.tensor([ids], device=decoder.device), use_cache=False)
        .logits[0]
        .float()
    )
    if not logits.isfinite().all():
        raise ValueError(
            f"{decoder.name} answers with NaN or infinity in {str(decoder.head.weight.dtype).removeprefix('torch.')}: load it in another precision, or take another copy."
        )
    last = len(decoder.layers) - 1
    if (
        apart(decoder.logits(decoder.norm(found[last][1])).to(logits.device), logits)
        > TOLERANCE[decoder.head.weight.dtype]
    ):
        raise ValueError(
            f"The logits of {decoder.name} are not what its head makes of its last stream, as in others of its family: REVS does not fit it, choose another model."
        )
    for l in {0, last // 2}:
        h, x = found[l]
        delta = (
            x.float().norm(dim=-1, keepdim=True)
            * torch.randn(d, generator=torch.Generator().manual_seed(0)).to(x.device)
            / d**0.5
        )
        after = decoder.after(l) or (lambda y: y)
        wanted = x + (after(h + delta.to(h)) - after(h)).to(x)
        if apart(pushed(decoder, ids, l, delta) - x, wanted - x) > TOLERANCE[x.dtype]:
            raise ValueError(
                f"{decoder.name} does not add what its second MLP layer writes to the stream as it is, as others of its family do: REVS does not fit it, choose another model."
            )


def pushed(decoder: Decoder, ids: list[int], l: int, delta: Tensor) -> Tensor:
    """The stream after a block whose FF₂ puts out ``delta`` more, (T × d)."""
    seen: dict[int, Tensor] = {}
    handle = decoder.ff2[l].register_forward_hook(
        lambda _module, _inputs, output: output + delta.to(output).view_as(output)
    )
    try:
        decoder.visit(
            ids, lambda layer, a, h, x: seen.update({layer: x.clone()}) if layer == l else None
        )
    finally:
        handle.remove()
    return seen[l]


def apart(one: Tensor, other: Tensor) -> float:
    """How far two tensors are from each other, as a share of the second's size."""
    return float((one.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30))
