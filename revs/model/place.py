"""Finds a model by folder, GGUF file or hub id, pins it, and explains why it cannot be read."""

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub import HfApi, try_to_load_from_cache


@dataclass(frozen=True)
class Place:
    """A folder or a hub id, and the file or revision of the model in it."""

    name: str  # the model's name in messages
    where: str
    gguf: str | None = None  # a file in the folder
    revision: str | None = None  # of a hub id: its commit; of a folder: what pins it, if known
    pickle: bool = False  # whether weights may be read by torch, which runs no code (weights_only)

    @property
    def options(self) -> dict[str, str]:
        """What tells transformers which file or revision is meant."""
        if self.gguf or not self.revision or Path(self.where).is_dir():
            return {"gguf_file": self.gguf} if self.gguf else {}
        return {"revision": self.revision}

    @property
    def pin(self) -> str:
        """A hub commit, or the sha256 of the weight files; empty for what nothing pins."""
        return self.revision or fingerprint(Path(self.where), self.gguf)


def locate(spec: str) -> Place:
    """The Place of a folder, a .gguf file or a hub id. Raises FileNotFoundError for any other."""
    path = Path(os.path.expanduser(spec))
    if path.is_file() and path.suffix == ".gguf":
        return Place(path.stem, str(path.parent), path.name)
    if (path / "config.json").is_file():
        return Place(path.resolve().name, str(path))
    local = spec.startswith((".", "/", "~")) or spec.lower().endswith(".gguf")
    if path.exists() or spec.count("/") != 1 or local:
        said = f"There is no model at '{spec}': give a folder with a config.json, a .gguf file or "
        raise FileNotFoundError(said + "a hub id.")
    return Place(spec, spec, revision=newest_commit(spec))


def newest_commit(spec: str) -> str | None:
    """The newest commit of a hub id, as the hub or else the local cache has it; None if neither."""
    with contextlib.suppress(Exception):  # no network, or no such model: loading will say so
        return HfApi().model_info(spec).sha
    with contextlib.suppress(ValueError):  # no hub id
        found = try_to_load_from_cache(spec, "config.json")
        return Path(found).parent.name if isinstance(found, str) else None
    return None


def fingerprint(folder: Path, gguf: str | None = None) -> str:
    """sha256 over the weight files of a local model; empty for a hub id."""
    files = [folder / gguf] if gguf else weight_files(folder)
    stats = [file.stat() for file in files]
    return sha256(
        tuple((file, s.st_size, s.st_mtime_ns) for file, s in zip(files, stats, strict=True))
    )


@functools.lru_cache(maxsize=8)
def sha256(files: tuple[tuple[Path, int, int], ...]) -> str:
    """sha256 over files, read again only once their size or time is another; empty for none."""
    digest = hashlib.sha256()
    for file, _, _ in files:
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest() if files else ""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that a folder's model is read from.

    They are those of its index, else model.safetensors, else all. Other files beside them, such as
    consolidated.safetensors, hold the same weights again. Raises OSError if the index names a file
    that is not in the folder.
    """
    index, one = folder / "model.safetensors.index.json", folder / "model.safetensors"
    files = [one] if one.is_file() else sorted(folder.glob("*.safetensors"))
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        files = [folder / name for name in sorted(set(listed))]
    if absent := [file for file in files if file.parent != folder or not file.is_file()]:
        said = f"The weights of {folder.name} are not whole ({absent[0].name} does not lie there): "
        raise OSError(said + "take another copy.")
    return files


@contextlib.contextmanager
def explained(place: Place, part: str) -> Iterator[None]:
    """Turns a library's error on reading a part of a model into an OSError of one sentence.

    ``part``: configuration, tokenizer or weights.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        kind = type(error).__name__
        first = (str(error).strip() or kind).splitlines()[0].split(". ")[0].rstrip(" .:")
        if Path(place.where).exists():
            whole = "its tokenizer.json" if part == "tokenizer" else "weights as safetensors"
            raise OSError(
                f"The {part} of {place.name} cannot be read ({first}): take another copy, "
                f"with {whole}, of a model that transformers knows without more code."
            ) from None
        raise OSError(  # without the hub's words, which may hold an address with a token
            f"{place.name} could not be read from the hub ({kind}): check its name, the network "
            "and whether its licence must be accepted there, or give a local folder."
        ) from None
