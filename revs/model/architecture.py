"""Where a decoder keeps its parts (§2, "Background on Transformer LMs").

``ARCHITECTURES`` has one row per family; nothing else in the project asks for a model's type.
``check_fit`` tests whether a checkpoint behaves as its family's row assumes.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from revs.model.text import token_ids

TEXT = "The number of the house is one"
UNFIT = "REVS does not fit this variant of the family, choose another model."
# how far apart two compared tensors may be, as a share of their size
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass(frozen=True)
class Architecture:
    """Dotted paths to the parts that REVS reads and writes, and what is special about them."""

    layers: str  # path from the model to its list of blocks
    ff2: str  # path from a block to its second MLP layer
    norm: str  # path from the model to its final norm
    centred: bool  # LayerNorm (subtracts the mean) or RMSNorm
    transposed: bool = False  # FF₂'s weight is ff × d instead of d × ff
    after: str | None = None  # path from a block to an RMSNorm between FF₂ and the stream
    offset: float = 0.0  # what norms add to their scale before they use it


RMS = Architecture("model.layers", "mlp.down_proj", "model.norm", centred=False)
GPT = Architecture("transformer.h", "mlp.c_proj", "transformer.ln_f", centred=True)
ARCHITECTURES: dict[str, Architecture] = {  # by the model type of a configuration
    "llama": RMS,
    "mistral": RMS,
    "qwen2": RMS,
    "qwen3": RMS,
    "phi3": RMS,
    "smollm3": RMS,
    "gemma": replace(RMS, offset=1.0),
    "gemma2": replace(RMS, offset=1.0, after="post_feedforward_layernorm"),
    "gemma3_text": replace(RMS, offset=1.0, after="post_feedforward_layernorm"),
    "olmo2": replace(RMS, after="post_feedforward_layernorm"),
    "olmo3": replace(RMS, after="post_feedforward_layernorm"),
    "glm4": replace(RMS, after="post_mlp_layernorm"),
    "gptj": replace(GPT, ff2="mlp.fc_out"),
    "gpt2": replace(GPT, transposed=True),
    "gpt_neo": GPT,
    "gpt_neox": Architecture(
        "gpt_neox.layers", "mlp.dense_4h_to_h", "gpt_neox.final_layer_norm", True
    ),
    "falcon": replace(GPT, ff2="mlp.dense_4h_to_h"),
    "stablelm": replace(RMS, centred=True),
    "starcoder2": replace(RMS, ff2="mlp.c_proj", centred=True),
    "phi": Architecture("model.layers", "mlp.fc2", "model.final_layernorm", centred=True),
    "opt": Architecture("model.decoder.layers", "fc2", "model.decoder.final_layer_norm", True),
}


def architecture(kind: str, name: str) -> Architecture:
    """The row of a model type; ValueError if there is none. ``name``: the model's, for messages."""
    if kind not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        said = f"The architecture '{kind}' of {name} is not supported: choose a model of {known}"
        raise ValueError(f"{said}, or add its family as CONTRIBUTING.md says.")
    return ARCHITECTURES[kind]


@contextlib.contextmanager
def frozen(model) -> Iterator[None]:
    """Turns off the gradients of all weights inside ``with``, and restores their flags on exit."""
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


class Stop(Exception):
    """Raised by a hook that has seen enough: later layers are not run."""


def stream_of(output) -> Tensor:
    """The residual stream in a block's output, (B, T, d)."""
    return output if isinstance(output, Tensor) else output[0]


def with_stream(output, x: Tensor):
    """A block's output with another residual stream."""
    return x if isinstance(output, Tensor) else (x, *output[1:])


@dataclass(frozen=True)
class Decoder:
    """A causal language model with its tokenizer.

    Raises ValueError if the model lacks a part that its row of ``ARCHITECTURES`` names.
    """

    model: Any  # a transformers model for causal language modelling
    tokenizer: Any  # a fast tokenizer
    name: str = "model"
    revision: str = "unknown"  # hub commit, or sha256 of the weights file

    def __post_init__(self):
        row, kind = self.architecture, self.model.config.model_type
        inner = [f"{row.layers}.0.{part}" for part in (row.ff2, row.after) if part]
        for path in (row.layers, row.norm, *inner):
            try:
                self.model.get_submodule(path)
            except AttributeError:
                raise ValueError(f"{self.name} is a '{kind}' without {path}: {UNFIT}") from None

    @property
    def architecture(self) -> Architecture:
        return architecture(self.model.config.model_type, self.name)

    @cached_property
    def layers(self) -> list[nn.Module]:
        return list(self.model.get_submodule(self.architecture.layers))

    @cached_property
    def ff2(self) -> list[Any]:
        """FF₂ of every block."""
        return [layer.get_submodule(self.architecture.ff2) for layer in self.layers]

    def neurons(self, l: int) -> Tensor:
        """FF₂'s weight of one block, d × ff: column j is neuron j. A view: it can be written to."""
        weight = self.ff2[l].weight
        return weight.T if self.architecture.transposed else weight

    def ff2_name(self, l: int) -> str:
        """The name of one block's FF₂ weight."""
        return f"{self.architecture.layers}.{l}.{self.architecture.ff2}.weight"

    def ff2_names(self, layers: Sequence[int] | str) -> list[str]:
        """The names of some layers' FF₂ weights."""
        return [self.ff2_name(l) for l in self.layer_indices(layers)]

    def layer_indices(self, layers: Sequence[int] | str) -> list[int]:
        """The layer numbers that "all", "upper" (the upper half) or a list of numbers stands for.

        Raises ValueError for anything else.
        """
        there = len(self.layers)
        if isinstance(layers, str):
            if layers not in ("all", "upper"):
                raise ValueError(f"layers are '{layers}', but must be all, upper or some numbers.")
            return list(range(0 if layers == "all" else there // 2, there))
        if not layers or min(layers) < 0 or max(layers) >= there:
            said = f"layers are {list(layers)}, but {self.name} has the layers 0 to {there - 1}: "
            raise ValueError(said + "choose among those.")
        return sorted(set(layers))

    def after(self, l: int) -> Any:
        """The norm between FF₂ of one block and the residual stream, if the family has one."""
        path = self.architecture.after
        return self.layers[l].get_submodule(path) if path else None

    @property
    def norm(self) -> Any:
        return self.model.get_submodule(self.architecture.norm)

    @property
    def head(self) -> nn.Linear:
        return self.model.get_output_embeddings()

    def logits(self, hidden: Tensor, head: nn.Linear | None = None, first: int = 0) -> Tensor:
        """The logits of states after the final norm, in float32: (…, d) → (…, V).

        ``head`` replaces the model's own; the logits are of the tokens from ``first`` on.
        """
        head = head or self.head
        hidden = hidden.to(head.weight.device)
        if first:
            bias = None if head.bias is None else head.bias[first:]
            logits = nn.functional.linear(hidden, head.weight[first:], bias).float()
        else:
            logits = head(hidden).float()
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
            said = f"{what} has {n} tokens, but {self.name} reads at most {self.context}"
            raise ValueError(f"{said}: shorten it.")

    def check_ids(self, ids: Sequence[int]) -> None:
        """Raises ValueError if a text has a token that the model does not know."""
        rows = self.model.get_input_embeddings().weight.shape[0]
        if (highest := max(ids, default=0)) >= rows:
            said = f"A text has the token {highest}, but {self.name} has embeddings for {rows}: "
            raise ValueError(said + "take the tokenizer that came with the model.")

    def pad(self, texts: Sequence[list[int]], left: bool = False) -> tuple[Tensor, Tensor]:
        """Texts of different lengths as a batch of ids and its mask, both (B × T)."""
        self.check_ids([max(text, default=0) for text in texts])
        rows = self.model.get_input_embeddings().weight.shape[0]
        pad = self.tokenizer.pad_token_id or 0
        pad = pad if pad < rows else 0  # a token that was added without an embedding: masked anyway
        each = [torch.tensor(text, dtype=torch.long) for text in texts]
        side = "left" if left else "right"
        ids = pad_sequence(each, True, pad, side)
        mask = pad_sequence([torch.ones_like(text) for text in each], True, 0, side)
        return ids.to(self.device), mask.to(self.device)

    def continue_from(self, cache, times: int = 1, **inputs):
        """Runs a forward pass that continues ``cache``, with its batch repeated ``times`` times.

        The cache itself does not change; None is empty. transformers 5.24 renames the argument.
        """
        names = inspect.signature(self.model.base_model.forward).parameters
        name, cache = "cache" if "cache" in names else "past_key_values", copy.deepcopy(cache)
        if times > 1:
            cache.batch_repeat_interleave(times)
        return self.model.base_model(**inputs, **{name: cache}, use_cache=True)

    def run_by_layer(
        self, ids: list[int], at_layer: Callable[[int, Tensor, Tensor, Tensor], Tensor | None]
    ) -> None:
        """Runs one forward pass over ``ids`` and calls ``at_layer`` after every block.

        ``at_layer(l, a, h, x)`` gets FF₂'s input a (T × ff), its output h (T × d) and the stream
        x (T × d) after the block. It returns the change that it made to h (or None), which is
        passed on to the stream: later blocks see an edit made here, without a second pass.
        """
        self.check_length(len(ids), "A prompt")
        self.check_ids(ids)
        of_text = lambda l, a, h, x: at_layer(l, a[0], h[0], x[0])
        self.run_batch_by_layer(of_text, input_ids=torch.tensor([ids], device=self.device))

    def activations(self, ids: list[int]) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        """Layer → FF₂'s input (ff,), its output (d,) and the stream after the block (d,), at the
        last position of a text."""
        seen: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self.run_by_layer(ids, lambda l, a, h, x: seen.update({l: (a[-1], h[-1], x[-1])}))
        return seen

    @torch.no_grad()
    def run_batch_by_layer(
        self, at_layer: Callable[[int, Tensor, Tensor, Tensor], Tensor | None], **inputs
    ) -> None:
        """``run_by_layer`` for a batch of texts: a is (B × T × ff), h and x are (B × T × d)."""
        seen: dict[str, Tensor] = {}

        def keep(_module, inputs, output):
            # a copy of h, since Falcon adds attention to FF₂'s output in place
            seen["a"], seen["h"] = inputs[0], output.clone()

        def stop_by(l: int):
            def hook(_module, _inputs, output):
                x, after = stream_of(output), self.after(l)
                # some families flatten what FF₂ reads
                a, h = (seen[name].reshape(*x.shape[:2], -1) for name in ("a", "h"))
                delta = at_layer(l, a, h, x)
                if delta is None:
                    return None
                if after is not None:
                    delta = after(h + delta.to(h)) - after(h)
                return with_stream(output, x + delta.to(x))

            return hook

        with contextlib.ExitStack() as hooks:
            hooks.enter_context(contextlib.suppress(Stop))
            for l, layer in enumerate(self.layers):
                hooks.enter_context(self.ff2[l].register_forward_hook(keep))
                hooks.enter_context(layer.register_forward_hook(stop_by(l)))
            self.model.base_model(**inputs, use_cache=False)


@torch.no_grad()
def check_fit(decoder: Decoder) -> None:
    """Raises ValueError if a model does not work as its family's row says.

    Runs it on a few tokens, with FF₂'s output unchanged and then changed: some families multiply
    what FF₂ adds to the stream, or what the head reads.
    """
    check_weights(decoder)
    for part in (decoder.model.base_model, *decoder.layers):
        if hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None):
            said = f"Parts of {decoder.name} are compiled, and their layers cannot be seen: "
            raise ValueError(said + "compile the whole model, or nothing.")
    name, d, dtype = decoder.name, decoder.neurons(0).shape[0], decoder.head.weight.dtype
    if (width := decoder.head.weight.shape[1]) != d:
        said = f"The head of {name} reads {width} numbers, but its stream has {d}"
        raise ValueError(f"{said}: {UNFIT}")
    ids = token_ids(decoder.tokenizer, TEXT)[:8]
    found: dict[int, tuple[Tensor, Tensor]] = {}

    def look(l: int, a: Tensor, h: Tensor, x: Tensor) -> None:
        found[l] = h.clone(), x.clone()
        written = a @ decoder.neurons(l).T
        if (bias := getattr(decoder.ff2[l], "bias", None)) is not None:
            written = written + bias
        if apart(written, h) > TOLERANCE[dtype]:
            said = f"FF₂ of layer {l} of {name} does not compute W·a + b with its weight W: "
            raise ValueError(said + "load the plain model, without wrappers.")

    decoder.run_by_layer(ids, look)
    logits = decoder.model(input_ids=decoder.pad([ids])[0], use_cache=False).logits[0].float()
    if not logits.isfinite().all():
        said = f"{name} answers with NaN or infinity in {str(dtype).split('.')[1]}: load it in "
        raise ValueError(said + "another precision, or take another copy of its weights.")
    last = len(decoder.layers) - 1
    read = decoder.logits(decoder.norm(found[last][1])).to(logits.device)
    if apart(read, logits) > TOLERANCE[dtype]:
        said = f"The logits of {name} are not what its head makes of its last stream"
        raise ValueError(f"{said}: {UNFIT}")
    for l in {0, last // 2}:
        h, x = found[l]
        noise = torch.randn(d, generator=torch.Generator().manual_seed(0)).to(x.device)
        delta = x.float().norm(dim=-1, keepdim=True) * noise / d**0.5
        after = decoder.after(l) or (lambda y: y)
        wanted = x + (after(h + delta.to(h)) - after(h)).to(x)
        if apart(pushed(decoder, ids, l, delta) - x, wanted - x) > TOLERANCE[x.dtype]:
            said = f"{name} does not add what its second MLP layer writes as it is"
            raise ValueError(f"{said}: {UNFIT}")


def check_weights(decoder: Decoder) -> None:
    """Raises ValueError if the head, or a weight that REVS edits, cannot be read and written."""
    name = decoder.name
    for ff2 in [*decoder.ff2, decoder.head]:
        parts, weight = {part for part, _ in ff2.named_parameters()}, getattr(ff2, "weight", None)
        if any("lora" in part.lower() or part.startswith("base_layer") for part in parts):
            said = f"{name} carries an adapter on the weights that are edited: merge it first, "
            raise ValueError(said + "model = model.merge_and_unload().")
        if not isinstance(weight, Tensor) or weight.dtype not in TOLERANCE:
            bits = f" ({weight.dtype})" if isinstance(weight, Tensor) else ""
            said = f"The weights of {name} are held in few bits{bits}, and such columns cannot be "
            raise ValueError(said + "moved: load it in bfloat16, float16 or float32.")
        if weight.is_meta:
            said = f"Weights of {name} are not in memory, but offloaded: load it without a "
            raise ValueError(said + "device_map, on a machine that holds it.")
        if weight.device.type == "mps":
            said = f"{name} is on Apple's GPU (mps), which cannot count in float64: move it, "
            raise ValueError(said + 'model.to("cpu").')
        if weight.is_inference() and not torch.is_inference_mode_enabled():
            said = f"Weights of {name} were made inside torch.inference_mode(), which forbids to "
            raise ValueError(said + "change them: load it outside.")
        if parts - {"weight", "bias"}:
            said = f"{name} computes an edited weight from other weights ({min(parts)}): load it "
            raise ValueError(said + "without wrappers.")


def pushed(decoder: Decoder, ids: list[int], l: int, delta: Tensor) -> Tensor:
    """The stream after a block whose FF₂ puts out ``delta`` more, (T × d)."""
    seen: dict[int, Tensor] = {}
    push = lambda _module, _inputs, output: output + delta.to(output).view_as(output)
    with decoder.ff2[l].register_forward_hook(push):
        decoder.run_by_layer(ids, lambda layer, a, h, x: seen.update({layer: x.clone()}))
    return seen[l]


def apart(one: Tensor, other: Tensor) -> float:
    """How far two tensors are from each other, as a share of the second's size."""
    return float((one.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30))
