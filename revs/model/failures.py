"""What went wrong when a library could not read a part of a model, in one sentence (§4.1).

transformers, tokenizers, safetensors and the hub say it in many, and in many classes of exceptions.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from revs.model.architecture import ARCHITECTURES


@contextlib.contextmanager
def explained(name: str, where: str, part: str) -> Iterator[None]:
    """Raises what libraries say about a part of a model that they cannot read as one OSError.

    ``name``: the model's; ``where``: a folder or hub id; ``part``: configuration, tokenizer or
    weights.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except BaseException as error:
        # they have no class in common, and what Rust panics with is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise OSError(explanation(name, Path(where), part, error)) from None


EXPLANATIONS = {  # a pattern of what libraries say, upper or lower case, and one sentence for it
    "trust_remote_code": "The {part} of {name} asks to run code that comes with it, which is never "
    "done: choose a model that transformers knows without it.",
    "gguf model with architecture": "transformers cannot read an architecture like that of {name} "
    "from GGUF: take the model as safetensors.",
    "does not recognize this architecture|unrecognized model": "The architecture of {name} is none "
    "that this version of transformers knows: choose a model of {known}.",
    "headertoolarge|header too large": "The weights of {name} are no safetensors, most often "
    "because Git LFS left a pointer in their place: run git lfs pull there, or take another copy.",
    "backend tokenizer": "{name} has no tokenizer that can be read: take a complete copy, with its "
    "tokenizer.json.",
    "in several files.*model.safetensors": "{name} has weights in several files, but not the "
    "model.safetensors.index.json that lists them: take a complete copy.",
    "model.safetensors": "{name} has no weights as safetensors, and other files (.bin, .pt) are "
    "never opened, since reading a pickle can run code: take a complete copy, or save the model as "
    "safetensors where you trust it.",
    "at hand": "The {part} of {name} cannot be read ({first}): take another copy.",
    "gated|401|403": "The weights of {name} are gated: accept their licence on the hub, set "
    "HF_TOKEN in the environment, and run again (or give a local folder).",
    "": "{name} could not be read from the hub ({error}): check the name and the network, or give "
    "a local folder.",
}


def explanation(name: str, where: Path, part: str, error: BaseException) -> str:
    """One sentence, with cause and remedy, for what libraries say in many."""
    text, kind = str(error), type(error).__name__
    first = (text.strip() or kind).splitlines()[0].split(". ")[0].rstrip(" .:")
    if part == "weights" and (file := broken_file(where)) and file not in text:
        first = f"{file}: {first}"
    signs = "in several files " * any(where.glob("*.safetensors")) + text.lower()
    signs += " at hand" * where.exists()
    said = next(said for sign, said in EXPLANATIONS.items() if re.search(sign, signs, re.DOTALL))
    known = ", ".join(sorted(ARCHITECTURES))
    return said.format(part=part, name=name, known=known, first=first, error=kind)


def broken_file(folder: Path) -> str | None:
    """The first weight file that is missing or no safetensors, or an index that is none."""
    index = folder / "model.safetensors.index.json"
    file, files = index.name, {file.name for file in folder.glob("*.safetensors")}
    try:
        if index.is_file():
            files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        for file in sorted(files):
            with safe_open(folder / file, "pt"):
                pass
    except (ValueError, LookupError, TypeError, AttributeError, OSError, SafetensorError):
        return file
    return None
