"""Gradient steps on some weights of a decoder, with an undo and without silent failures."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from revs.method.edit import Edit
from revs.model.architecture import Decoder


class Training:
    """``with Training(…) as training:`` AdamW on the named weights; everything else is frozen.

    Low-precision weights are updated through float32 copies: a step of 1e-6 would be lost in bfloat16's rounding. What
    it needs beside the model, in numbers a weight: the original, the gradient and Adam's two moments, and that copy.
    An exception puts the originals back.
    """

    def __init__(self, decoder: Decoder, names: Sequence[str], lr: float, what: str):
        self.model, self.lr, self.what = decoder.model, lr, what
        self.edit = Edit(decoder)
        self.edit.keep_whole(names)
        self.weights = [decoder.model.get_parameter(name) for name in names]

    def __enter__(self) -> Training:
        self.masters = [
            weight
            if weight.dtype in (torch.float32, torch.float64)
            else weight.detach().float().requires_grad_()
            for weight in self.weights
        ]
        self.optimizer = torch.optim.AdamW(self.masters, lr=self.lr, weight_decay=0.0, fused=True)
        self.flags = [
            (parameter, parameter.requires_grad) for parameter in self.model.parameters()
        ]  # last: nothing below can fail
        self.model.requires_grad_(False)
        for weight in self.weights:
            weight.requires_grad_(True)
        return self

    def backward(self, loss: Tensor) -> float:
        """Adds a loss's gradients; returns its value. Raises FloatingPointError if it is not a number."""
        if not torch.isfinite(loss):
            self.diverged()
        loss.backward()
        return loss.item()

    @torch.no_grad()
    def step(self) -> None:
        """One AdamW step on the gradients so far."""
        for weight, master in zip(self.weights, self.masters):
            if master is not weight and weight.grad is not None:
                master.grad = weight.grad.float()
        self.optimizer.step()
        self.written()

    @torch.no_grad()
    def clamp(self, radius: float) -> None:
        """Brings every weight back to within ± radius of its original."""
        for weight, master, original in zip(self.weights, self.masters, self.edit.whole.values()):
            master.clamp_(original.to(master) - radius, original.to(master) + radius)
        self.written()

    @torch.no_grad()
    def written(self) -> None:
        for weight, master in zip(self.weights, self.masters):
            if master is not weight:
                weight.copy_(master)

    def clear(self) -> None:
        """Forgets the gradients so far."""
        for weight in self.weights:
            weight.grad = None

    def diverged(self) -> None:
        raise FloatingPointError(
            f"{self.what} diverged (its loss or a weight is no longer a number): lower the learning rate of {self.lr:g}."
        )

    def __exit__(self, kind, *_) -> None:
        self.clear()
        for parameter, flag in self.flags:
            parameter.requires_grad_(flag)
        if kind is not None:
            self.edit.undo()
        elif not all(torch.isfinite(weight).all() for weight in self.weights):
            self.edit.undo()
            self.diverged()
