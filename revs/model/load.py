"""Loading a model from a folder, a GGUF file or a hub id, and saving it (§4.1)."""

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import find_adapter_config_file

from revs.model.architecture import ARCHITECTURES, Decoder, architecture, check_fit
from revs.model.place import Place, explained, locate
from revs.model.text import check_tokenizer

PLACES = ("auto", "balanced", "balanced_low_0", "sequential")  # how accelerate spreads a model
ADAPTER = (
    "{} has an adapter beside its weights, which is read only where peft is installed: "
    "merge it (peft's merge_and_unload) and save the model, or take a folder without it."
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(spec: str | Place, dtype: str = "float32", device_map: str | None = None) -> Decoder:
    """Loads a decoder from a local folder, a .gguf file or a hub id.

    Never runs code that comes with a model, and never opens weights saved as pickle. Raises OSError
    or ValueError if there is no model that REVS can use.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype is '{dtype}', but must be one of {', '.join(DTYPES)}.")
    place = spec if isinstance(spec, Place) else locate(spec)
    device_map = resolve_device_map(device_map)
    config = configuration(place)
    if not place.gguf and (quantised := getattr(config, "quantization_config", None)):
        kind = quantised if isinstance(quantised, dict) else vars(quantised)
        kind = kind.get("quant_method", "in a way it does not name")
        said = f"The weights of {place.name} are quantised ({kind}), and such columns cannot be "
        raise ValueError(said + "moved: take the checkpoint in bfloat16, float16 or float32.")
    revision = place.options.get("revision")
    if not place.gguf and find_adapter_config_file(place.where, revision=revision):
        raise ValueError(ADAPTER.format(place.name))
    words = tokenizer(place)
    if words.vocab_size > config.vocab_size:
        said = f"The tokenizer of {place.name} has {words.vocab_size} tokens, but its model has "
        said += f"embeddings for {config.vocab_size}: it is another model's, take both from the "
        raise ValueError(said + "same place.")
    pin = place.pin or "unknown"
    model = weights(place, dtype, device_map)
    # greedy decoding is the argmax: a checkpoint's own penalties would change what is memorised
    ends = ("bos_token_id", "eos_token_id", "pad_token_id")
    own = {name: getattr(model.generation_config, name, None) for name in ends}
    model.generation_config = GenerationConfig(use_cache=True, **own)
    decoder = Decoder(model.eval(), words, place.name, pin)
    check_fit(decoder)
    return decoder


def configuration(place: Place):
    """The configuration of a model. Raises ValueError if its architecture is not in the table."""
    with explained(place, "configuration"):
        config = AutoConfig.from_pretrained(place.where, trust_remote_code=False, **place.options)
    kind = config.model_type
    if kind not in ARCHITECTURES and config.get_text_config() is not config:
        said = f"{place.name} reads more than text ({kind}): take its text-only checkpoint, or "
        raise ValueError(said + "another model.")
    architecture(kind, place.name)
    return config


def tokenizer(place: Place):
    """The tokenizer of a model; ValueError if it cannot say which characters a token covers."""
    with explained(place, "tokenizer"):
        found = AutoTokenizer.from_pretrained(place.where, trust_remote_code=False, **place.options)
    check_tokenizer(found, place.name)
    return found


def weights(place: Place, dtype: str, device_map: str | None):
    """The model itself. Raises ValueError if weights are missing or of another shape."""
    with explained(place, "weights"):
        how = {"dtype": DTYPES[dtype], "device_map": device_map, "output_loading_info": True}
        how |= {"use_safetensors": None if place.pickle else True, "ignore_mismatched_sizes": True}
        found: Any = AutoModelForCausalLM.from_pretrained(place.where, **how, **place.options)
    model, info = found
    if unfit := sorted([*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])]):
        said = f"(missing or of another shape: {unfit[0]}{' and others' if unfit[1:] else ''}): "
        said = f"The weights of {place.name} do not fit its configuration {said}"
        raise ValueError(said + "take both from the same place.")
    return model


def resolve_device_map(device_map: str | None) -> str | None:
    """The device map to use; "auto" if none is given and there is a GPU.

    Raises ValueError if torch finds no such device, or accelerate is needed and missing.
    """
    if device_map is None and torch.cuda.is_available():
        device_map = "auto"
    if device_map and not importlib.util.find_spec("accelerate"):
        raise ValueError("To place a model, transformers needs accelerate: pip install accelerate.")
    if device_map is None or device_map in PLACES:
        return device_map
    try:
        torch.empty(1, device=device_map)
    except (RuntimeError, AssertionError):  # an unknown device, or one that torch was built without
        said = f"device_map is '{device_map}', but torch finds no such device here: leave it out, "
        raise ValueError(said + f"or give {', '.join(PLACES)} or cpu.") from None
    return device_map


def save(
    model, tokenizer, folder: Path, extra: dict[str, str] | None = None, cached: bool = False
) -> None:
    """Writes model and tokenizer to ``folder``, completely or not at all.

    ``extra``: texts of further files, by name. ``cached``: other processes may write the same model
    there; a whole one is kept, and half of one gives way. Raises ValueError if the folder holds
    anything else, or the model carries an adapter.
    """
    if hasattr(model, "peft_config"):
        said = "The model carries an adapter, which would be saved alone, or not at all: merge it "
        said += "first."
        raise ValueError(said)
    folder = folder.resolve()
    there = lambda: {file.name for file in folder.glob("*")}
    taken = f"{folder} holds a model or other files, which would be lost: move them, or name "
    taken += "another folder."
    if there() and not cached:
        raise ValueError(taken)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        # transformers refuses to save what it once read from a GGUF file, although these weights
        # are no longer quantised
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        for name, text in (extra or {}).items():
            (scratch / name).write_text(text, encoding="utf-8")
        names = {file.name for file in scratch.iterdir()}
        if cached and (found := there()):
            if names <= found:
                return
            if found - names:
                raise ValueError(taken)
            shutil.rmtree(folder, ignore_errors=True)  # half of one
        try:
            os.replace(scratch, folder)
        except OSError:
            if not (cached and names <= there()):  # else another process was first
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def tokenizer_hash(tokenizer) -> str:
    """sha256 of the tokenizer's own serialisation: results belong to token ids."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
