"""Where a decoder keeps its parts (§2, "Background on Transformer LMs").

One row per architecture; nothing else in the project asks for a model's type.
To add a family, add a row here and a line to the conformance tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Architecture:
    """Dotted paths of the parts that REVS reads and writes."""

    layers: str  # the list of blocks, from the model
    ff2: str  # the second MLP layer, from a block; its weight is d × ff
    norm: str  # the final norm, from the model
    centred: bool  # LayerNorm (subtracts the mean) or RMSNorm


ARCHITECTURES = {
    "llama": Architecture("model.layers", "mlp.down_proj", "model.norm", centred=False),
    "gptj": Architecture("transformer.h", "mlp.fc_out", "transformer.ln_f", centred=True),
}


@dataclass(frozen=True)
class Decoder:
    """A causal language model with its tokenizer, seen through its architecture's row."""

    model: nn.Module
    tokenizer: object
    name: str = "model"
    revision: str = "unknown"  # hub commit, or sha256 of the weights file

    def __post_init__(self):
        kind = self.model.config.model_type
        if kind not in ARCHITECTURES:
            raise ValueError(
                f"The architecture '{kind}' is not supported: REVS knows {', '.join(sorted(ARCHITECTURES))}; "
                "a family is added as one row of revs/architecture.py."
            )

    @property
    def architecture(self) -> Architecture:
        return ARCHITECTURES[self.model.config.model_type]

    @cached_property
    def layers(self) -> list[nn.Module]:
        return list(self.model.get_submodule(self.architecture.layers))

    @cached_property
    def ff2(self) -> list[nn.Linear]:
        """FF₂ of every block; column j of its weight (d × ff) is neuron j."""
        return [layer.get_submodule(self.architecture.ff2) for layer in self.layers]

    @property
    def norm(self) -> nn.Module:
        return self.model.get_submodule(self.architecture.norm)

    @property
    def head(self) -> nn.Linear:
        return self.model.get_output_embeddings()

    @property
    def device(self) -> torch.device:
        """Where token ids go (the input embeddings' device)."""
        return self.model.get_input_embeddings().weight.device

    @property
    def context(self) -> int:
        """The longest input, in tokens."""
        return self.model.config.max_position_embeddings

    def check_length(self, n: int, what: str) -> None:
        if n > self.context:
            raise ValueError(f"{what} has {n} tokens, but {self.name} reads at most {self.context}: shorten the prompt.")

    def pad(self, texts: Sequence[list[int]], left: bool = False) -> tuple[Tensor, Tensor]:
        """Texts of different lengths as one batch of ids and its attention mask, both (B × T), on the model's device."""
        width, pad = max(map(len, texts)), self.tokenizer.pad_token_id or 0
        gaps = [width - len(text) for text in texts]
        ids = [[pad] * gap + text if left else text + [pad] * gap for text, gap in zip(texts, gaps)]
        mask = [[0] * gap + [1] * len(text) if left else [1] * len(text) + [0] * gap for text, gap in zip(texts, gaps)]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    @torch.no_grad()
    def visit(self, ids: list[int], at_layer: Callable[[int, Tensor, Tensor, Tensor], Tensor | None]) -> None:
        """One forward pass over ``ids`` that stops by at every block.

        ``at_layer(l, a, h, x)`` gets the block's index, FF₂'s input ``a`` (T × ff), its output ``h`` (T × d)
        and the residual stream after the block ``x`` (T × d). What it returns (T × d, or None) is added to the
        stream, so that an edit made inside is felt by all later blocks without a second pass.
        """
        self.check_length(len(ids), "A prompt")
        seen: dict[str, Tensor] = {}

        def keep(_module, inputs, output):
            seen["a"], seen["h"] = inputs[0], output

        def stop_by(layer: int):
            def hook(_module, _inputs, output):
                x = output if isinstance(output, Tensor) else output[0]
                delta = at_layer(layer, seen["a"][0], seen["h"][0], x[0])
                if delta is None:
                    return None
                x = x + delta.to(x)
                return x if isinstance(output, Tensor) else (x, *output[1:])

            return hook

        handles = [ff2.register_forward_hook(keep) for ff2 in self.ff2]
        handles += [layer.register_forward_hook(stop_by(l)) for l, layer in enumerate(self.layers)]
        try:
            self.model.base_model(input_ids=torch.tensor([ids], device=self.device), use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
