"""Reads, merges and writes LoRA adapters in PEFT's format, with grouped digits (data/adapters/).

A folder holds what PEFT writes (adapter_config.json, adapter_model.safetensors in float16) and
``about.json``: the base model, the seed, how digits are tokenised, the data sets memorised, what
was left out, and the sha256 of the merged weights. The adapters of data/adapters share the
embeddings of the tokens 00–999 in ``digits-learned.safetensors``; an adapter of another model keeps
its own in its folder.
"""

import hashlib
import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from companion.data import models
from companion.data.digits import group_digits
from companion.store.paths import CACHE, ROOT, one_sentence_errors, resolve
from companion.store.suggestions import hint
from revs.model import load
from revs.model.architecture import Decoder

FOLDER = ROOT / "data" / "adapters"
ABOUT, OWN_DIGITS = "about.json", "digits.safetensors"
WEIGHTS = "adapter_model.safetensors"
EXACT_BELOW = 500_000_000  # weights: smaller models are merged in float64, free of rounding


def available() -> dict[str, Path]:
    """The adapters of data/adapters by name."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob(f"*/{ABOUT}"))}


def locate(adapter: str) -> Path:
    """The folder of an adapter, by name or path. Raises FileNotFoundError if there is none."""
    known = available()
    folder = known.get(adapter) or resolve(adapter)
    if not (folder / "adapter_config.json").is_file():
        said = f"There is no adapter '{adapter}'"
        raise FileNotFoundError(said + hint(adapter, known, "give the folder of one, or"))
    if not (folder / WEIGHTS).is_file():
        raise FileNotFoundError(
            f"The adapter '{adapter}' has no adapter_model.safetensors, and pickle is not read: "
            "save it again with a current version of peft."
        )
    return folder


def about(adapter: str) -> dict:
    """Return an adapter's about.json: base model, seed, digits, data sets, left_out; or {}."""
    file = locate(adapter) / ABOUT
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def fingerprint(adapter: str) -> str:
    """The sha256 over an adapter's weights and those of its digits."""
    digest = hashlib.sha256((locate(adapter) / WEIGHTS).read_bytes())
    if (file := digits_file(about(adapter).get("digits", "keep"), locate(adapter))) is not None:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def digits_file(digits: str, folder: Path = FOLDER) -> Path | None:
    """Return the file with the embeddings of the tokens 00–999: the folder's own, or the one that
    all adapters share. None for ``keep``, which adds no tokens."""
    own = folder / OWN_DIGITS
    if digits == "keep" or own.is_file():
        return None if digits == "keep" else own
    return FOLDER / f"digits-{digits}.safetensors"


def adapted(model: str, adapter: str | None) -> str:
    """Return what to load: the model itself, or the folder of a copy with the adapter merged, which
    is made once, in the cache.

    The sum is taken in float64, where products of float16 numbers are exact: every machine gets
    the same weights. Raises ValueError if the adapter belongs to another model.
    """
    if adapter is None:
        return model
    known, pinned = about(adapter), models.identify(model)
    if known.get("base", pinned) not in (pinned, model):
        said = f"The adapter '{adapter}' was trained on other weights than those of {model}: "
        raise ValueError(said + "take the model that it was trained on, or None as adapter.")
    key = hashlib.sha256(f"{pinned} {fingerprint(adapter)}".encode()).hexdigest()[:12]
    folder = CACHE / "models" / f"{Path(model).name}+{Path(adapter).name}-{key}"
    if not (folder / "config.json").is_file():
        with one_sentence_errors(folder.parent):
            decoder = models.load(model, device_map="cpu")
            merge(decoder, adapter)
            load.save(decoder.model, decoder.tokenizer, folder, cached=True)
    return str(folder)


def merge(decoder: Decoder, adapter: str) -> None:
    """Merge an adapter into a model in memory, with the digit tokens that it was trained with."""
    from peft import PeftModel, get_peft_model_state_dict

    restore_digits(decoder, about(adapter).get("digits", "keep"), locate(adapter))
    exact = sum(weight.numel() for weight in decoder.model.parameters()) < EXACT_BELOW
    dtype = decoder.model.dtype
    base = decoder.model.double() if exact else decoder.model
    weights = locate(adapter) / WEIGHTS
    try:
        whole = PeftModel.from_pretrained(base, locate(adapter), autocast_adapter_dtype=False)
        read = get_peft_model_state_dict(whole, save_embedding_layers=False)
        fits = read.keys() == load_file(weights).keys() and hasattr(whole, "merge_and_unload")
    except (ValueError, RuntimeError):  # other modules, other shapes
        fits = False
    if not fits:  # peft warns of keys that it does not find, and leaves the model as it was
        raise ValueError(
            f"The adapter '{adapter}' is no LoRA adapter of this model, or its weights have other "
            "names or shapes: take the model that it was trained on, and save it by peft."
        )
    if exact:
        whole = whole.double()
    whole.merge_and_unload()
    decoder.model.to(dtype)
    decoder.model.requires_grad_(True)


@torch.no_grad()
def restore_digits(decoder: Decoder, digits: str, folder: Path = FOLDER) -> None:
    """Add the tokens 00–99 and 000–999 with their stored embeddings."""
    file = digits_file(digits, folder)
    if file is None or not (first := group_digits(decoder, digits, 0)):
        return
    rows = load_file(file)
    for name, table in (
        ("head", decoder.head.weight),
        ("rows", decoder.model.get_input_embeddings().weight),
    ):
        table[first:] = rows.get(name, rows["rows"]).to(table)


def save(decoder: Decoder, folder: Path, known: dict, added: int = 0) -> None:
    """Write the adapter injected into a model, in float16, with ``known`` as its about.json.

    ``added``: the number of digit tokens whose embeddings no other adapter shares.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).unlink(missing_ok=True)  # comes last: without it nothing is read
    if added:
        tables = {"rows": decoder.model.get_input_embeddings().weight, "head": decoder.head.weight}
        own = {name: table.detach()[-added:].half().cpu() for name, table in tables.items()}
        save_file({name: rows.clone() for name, rows in own.items()}, folder / OWN_DIGITS)
    from peft import get_peft_model_state_dict

    decoder.model.peft_config["default"].save_pretrained(folder)
    weights = get_peft_model_state_dict(decoder.model, save_embedding_layers=False)
    weights = {f"base_model.model.{name}": weight.half() for name, weight in weights.items()}
    weights = {name: weight.cpu().contiguous() for name, weight in weights.items()}
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    config |= {"base_model_name_or_path": known["base"], "inference_mode": True}
    config["target_modules"] = sorted(config["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    (folder / ABOUT).write_text(json.dumps(known, indent=1) + "\n")
    save_file(weights, folder / f"{WEIGHTS}.new", metadata={"format": "pt"})
    os.replace(folder / f"{WEIGHTS}.new", folder / WEIGHTS)


def weights_hash(model) -> str:
    """The sha256 over all weights of a model in memory, in the order of their names."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode() + weight.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()
