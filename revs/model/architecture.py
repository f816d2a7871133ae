"""Where a decoder keeps its parts (§2, "Background on Transformer LMs").

``params/architectures.yml`` has one row a family; nothing else in the project asks for a model's type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import yaml
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from companion.record.paths import ROOT


@dataclass(frozen=True)
class Architecture:
    """Dotted paths of the parts that REVS reads and writes, and what is special about them."""

    layers: str  # the list of blocks, from the model
    ff2: str  # the second MLP layer, from a block
    norm: str  # the final norm, from the model
    centred: bool  # LayerNorm (subtracts the mean) or RMSNorm
    transposed: bool = False  # FF₂'s weight is ff × d instead of d × ff
    after: str | None = None  # an RMSNorm between FF₂ and the residual stream, from a block
    offset: float = 0.0  # what norms add to their scale


@functools.cache
def architectures() -> dict[str, Architecture]:
    """The table, by the model type of a configuration."""
    table = yaml.safe_load((ROOT / "params" / "architectures.yml").read_text(encoding="utf-8"))
    return {kind: Architecture(**row) for kind, row in table.items()}


def architecture(kind: str, name: str) -> Architecture:
    """The row of a model type. Raises ValueError if there is none; ``name`` is the model's, for the message."""
    if kind not in architectures():
        raise ValueError(
            f"The architecture '{kind}' of {name} is not supported: choose a model of {', '.join(sorted(architectures()))}, or add its family as CONTRIBUTING.md says."
        )
    return architectures()[kind]


class Stop(Exception):
    """Raised by a hook that has seen enough: later layers are not run."""


def stream_of(output) -> Tensor:
    """The residual stream in a block's output, (B, T, d)."""
    return output if isinstance(output, Tensor) else output[0]


@dataclass(frozen=True)
class Decoder:
    """A causal language model with its tokenizer, seen through its architecture's row.

    Raises ValueError if the model's family is not in the table, or a part is not where the table says.
    """

    model: nn.Module
    tokenizer: object
    name: str = "model"
    revision: str = "unknown"  # hub commit, or sha256 of the weights file

    def __post_init__(self):
        row, kind = self.architecture, self.model.config.model_type
        for path in (
            row.layers,
            row.norm,
            f"{row.layers}.0.{row.ff2}",
            *([f"{row.layers}.0.{row.after}"] if row.after else []),
        ):
            try:
                self.model.get_submodule(path)
            except AttributeError:
                raise ValueError(
                    f"{self.name} is a '{kind}' without {path}: REVS does not fit this variant of the family, choose another model."
                ) from None

    @property
    def architecture(self) -> Architecture:
        return architecture(self.model.config.model_type, self.name)

    @cached_property
    def layers(self) -> list[nn.Module]:
        return list(self.model.get_submodule(self.architecture.layers))

    @cached_property
    def ff2(self) -> list[nn.Module]:
        """FF₂ of every block."""
        return [layer.get_submodule(self.architecture.ff2) for layer in self.layers]

    def neurons(self, l: int) -> Tensor:
        """FF₂'s weight of one block, d × ff: column j is neuron j. A view: what is written to it is written to the model."""
        weight = self.ff2[l].weight
        return weight.T if self.architecture.transposed else weight

    def after(self, l: int) -> nn.Module | None:
        """The norm between FF₂ of one block and the residual stream, if the family has one."""
        return (
            self.layers[l].get_submodule(self.architecture.after)
            if self.architecture.after
            else None
        )

    @property
    def norm(self) -> nn.Module:
        return self.model.get_submodule(self.architecture.norm)

    @property
    def head(self) -> nn.Linear:
        return self.model.get_output_embeddings()

    def logits(self, hidden: Tensor, head: nn.Linear | None = None) -> Tensor:
        """What the model takes the softmax of, in float32: (…, d) → (…, V); by its own head, or by a copy kept from before an edit."""
        head = head or self.head
        logits = head(hidden.to(head.weight.device)).float()
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return cap * (logits / cap).tanh() if cap else logits

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
            raise ValueError(
                f"{what} has {n} tokens, but {self.name} reads at most {self.context}: shorten the prompt."
            )

    def pad(self, texts: Sequence[list[int]], left: bool = False) -> tuple[Tensor, Tensor]:
        """Texts of different lengths as one batch of ids and its attention mask, both (B × T), on the model's device."""
        width, pad = max(map(len, texts)), self.tokenizer.pad_token_id or 0
        if (highest := max(max(text, default=0) for text in texts)) >= (
            rows := self.model.get_input_embeddings().weight.shape[0]
        ):
            raise ValueError(
                f"A text has the token {highest}, but {self.name} has embeddings for {rows}: take the tokenizer that came with the model."
            )
        gaps = [width - len(text) for text in texts]
        ids = [[pad] * gap + text if left else text + [pad] * gap for text, gap in zip(texts, gaps)]
        mask = [
            [0] * gap + [1] * len(text) if left else [1] * len(text) + [0] * gap
            for text, gap in zip(texts, gaps)
        ]
        return torch.tensor(ids, device=self.device), torch.tensor(mask, device=self.device)

    def run(self, handles: Sequence[RemovableHandle], **inputs) -> None:
        """A forward pass for the sake of its hooks, which are removed after it; one of them may end it with Stop."""
        try:
            self.model.base_model(**inputs, use_cache=False)
        except Stop:
            pass
        finally:
            for handle in handles:
                handle.remove()

    @torch.no_grad()
    def visit(
        self, ids: list[int], at_layer: Callable[[int, Tensor, Tensor, Tensor], Tensor | None]
    ) -> None:
        """One forward pass over ``ids`` that stops by at every block.

        ``at_layer(l, a, h, x)`` gets the block's index, FF₂'s input ``a`` (T × ff), its output ``h`` (T × d)
        and the residual stream after the block ``x`` (T × d). It returns by how much it changed ``h`` (T × d, or None),
        and the stream is changed accordingly, so that an edit made inside is felt by all later blocks without a second pass.
        """
        self.check_length(len(ids), "A prompt")
        seen: dict[str, Tensor] = {}

        def keep(_module, inputs, output):
            # a copy of h, since Falcon adds attention to FF₂'s output in place
            seen["a"], seen["h"] = inputs[0].flatten(0, -2), output.flatten(0, -2).clone()

        def stop_by(l: int):
            def hook(_module, _inputs, output):
                x, after = stream_of(output), self.after(l)
                delta = at_layer(l, seen["a"], seen["h"], x[0])
                if delta is None:
                    return None
                if after is not None:
                    delta = after(seen["h"] + delta.to(seen["h"])) - after(seen["h"])
                x = x + delta.to(x)
                return x if isinstance(output, Tensor) else (x, *output[1:])

            return hook

        handles = [ff2.register_forward_hook(keep) for ff2 in self.ff2]
        handles += [layer.register_forward_hook(stop_by(l)) for l, layer in enumerate(self.layers)]
        self.run(handles, input_ids=torch.tensor([ids], device=self.device))
