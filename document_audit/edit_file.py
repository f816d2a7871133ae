"""An edit as a PEFT LoRA adapter: W + B·A for FF₂ of every edited layer (§3.2, step 4).

Both writes add Σ_t d_t·m_tᵀ to a layer's FF₂, a matrix whose rank is at most the number of target
tokens. ``peft`` loads, unloads (the undo) and merges the folder; the header of its safetensors says
what the edit belongs to, and what it did to the ranks. Only its owner may read it: it holds no
text, but U·B names the target tokens, which are parts of the secrets.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import platform
import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from document_audit.files import PRIVATE, one_sentence_errors, write_file
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash

FORMAT = 5  # counted up when its parts change
CONFIG, WEIGHTS, README = "adapter_config.json", "adapter_model.safetensors", "README.md"
HEADER = "revs"  # what an edit, and no other adapter, has in the header of its weights
PREFIX = "base_model.model."  # of a module's name, in PEFT's files
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
NEGLIGIBLE = 1e-6  # of the largest singular value: below what float32 tells apart
STATEMENT = (
    "Tokens of secrets were demoted after the tested prompts; this is no proof of erasure. "
    "Confidential: anyone with this adapter and the base model can compute those tokens, which are "
    "parts of the secrets."
)
Factors = dict[str, tuple[Tensor, Tensor]]  # name of a layer's FF₂ → B (d, r), A (r, ff)


@dataclass(frozen=True)
class SavedEdit:
    """What an edit adds to each FF₂, and what it belongs to."""

    factors: Factors = field(repr=False, compare=False)
    name: str  # the base model's
    model: str  # what pins the base model: a hub commit, or sha256 of its weight files
    tokenizer: str  # its sha256
    dtype: str
    method: str
    hyperparameters: dict
    before: dict[str, list[int]] = field(repr=False)  # ranks of every item's tokens
    after: dict[str, list[int]] = field(repr=False)
    original: str  # sha256 of the FF₂ that change, before the edit
    content: str  # sha256 of the factors
    versions: dict[str, str]
    date: str
    transposed: bool = False  # whether the base keeps FF₂ as ff × d
    statement: str = STATEMENT

    @property
    def rank(self) -> int:
        """The largest rank of a layer's change."""
        return max(len(A) for _, A in self.factors.values())


@torch.no_grad()
def factors(edit: Edit, hp) -> Factors:
    """What an edit of REVS added to each FF₂, with as few columns of B as its rank allows.

    ``hp``: its settings, by which the directions of its moves are computed. Raises ValueError for
    an edit that changed weights in other ways.
    """
    decoder, parts = edit.decoder, {l: list(some) for l, some in edit.products.items()}
    moved = {(l, n) for l, n, *_ in edit.moves}
    changed = {(l, n) for l, kept in edit.originals.items() for n in kept}
    whole = {decoder.ff2_name(l) for l in edit.products}
    if not (moved or whole) or moved != changed or set(edit.whole) != whole:
        raise ValueError(
            "This edit holds no moves, or changed weights in other ways: save it before it is "
            "undone, or save the model with save_pretrained."
        )
    rows: dict[tuple[int, int], Tensor] = {}  # what each token's direction is multiplied by
    for l, n, t, c in edit.moves:
        row = rows.setdefault((l, t), torch.zeros(decoder.neurons(l).shape[1]))
        row[n] += c
    if rows:
        vocabulary = Vocabulary(decoder, hp.projection == "raw", ridge=hp.ridge)
        for (l, t), row in rows.items():
            d_t = vocabulary.step(l, t)
            parts.setdefault(l, []).append((d_t[None], row[None].to(d_t)))
    name = lambda l: decoder.ff2_name(l).removesuffix(".weight")
    return {
        name(l): of_low_rank(*map(torch.cat, zip(*some, strict=True)))
        for l, some in sorted(parts.items())
    }


def of_low_rank(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """B (d, r) and A (r, ff), float32, with B·A = leftᵀ·right of the least r."""
    (Q, R), (P, T) = (torch.linalg.qr(one.double().cpu().T) for one in (left, right))
    u, s, v = torch.linalg.svd(R @ T.T)
    r = max(1, int((s > NEGLIGIBLE * s[0]).sum()))
    root = s[:r].sqrt()
    return (Q @ u[:, :r] * root).float(), (root[:, None] * (P @ v[:r].T).T).float()


def saved_edit(
    decoder: Decoder, added: Factors, method: str, hp, before: dict, after: dict, original: str
) -> SavedEdit:
    """Return an edit in the form that ``write`` saves; ``before`` and ``after`` are ranks
    (``secret_ranks``), ``original`` is the ``weights_hash`` before the edit. Raises ValueError if
    nothing pins the model's weights.
    """
    check_pinned(decoder)
    given = (method, asdict(hp), before, after, original, content_hash(added), library_versions())
    about = time.strftime("%Y-%m-%d", time.gmtime()), decoder.architecture.transposed
    return SavedEdit(added, decoder.name, *pins(decoder).values(), *given, *about)


def check_pinned(decoder: Decoder) -> None:
    """Raise ValueError if nothing pins the model's weights."""
    if decoder.revision == "unknown":
        raise ValueError(
            f"Nothing pins the weights of {decoder.name}: save the model to a folder and load it "
            "from there before it is edited."
        )


def pins(decoder: Decoder) -> dict[str, str]:
    """What identifies the model of an edit: its weights, tokenizer and precision."""
    precision = str(decoder.neurons(0).dtype).removeprefix("torch.")
    words = tokenizer_hash(decoder.tokenizer)
    return {"weights": decoder.revision, "tokenizer": words, "precision": precision}


def library_versions() -> dict[str, str]:
    """Python and the libraries that compute, with their versions."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version()} | versions


def adapter_config(saved: SavedEdit) -> dict:
    """What PEFT reads: one rank per module, and a scale lora_alpha / r of 1."""
    ranks = {module: len(A) for module, (_, A) in saved.factors.items()}
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": saved.name}
    config |= {"r": saved.rank, "lora_alpha": saved.rank, "rank_pattern": ranks}
    config |= {"alpha_pattern": ranks, "target_modules": list(ranks), "bias": "none"}
    config |= {"fan_in_fan_out": saved.transposed, "lora_dropout": 0.0, "inference_mode": True}
    return config


def write(folder: str | Path, saved: SavedEdit, readme: str) -> Path:
    """Write an edit's folder, whole or not at all, readable by its owner alone; return its path.

    An edit already there is replaced. Raises ValueError for a folder that holds anything else,
    OSError if it cannot be written.
    """
    folder = Path(folder).resolve()
    check_place(folder)
    said = {name: value for name, value in vars(saved).items() if name != "factors"}
    held = {"format": FORMAT, "about": said, "sha256": text_hash(said)}
    header = {"format": "pt", HEADER: json.dumps(held)}
    tensors = {
        f"{PREFIX}{module}.lora_{what}.weight": weight.contiguous()
        for module, pair in saved.factors.items()
        for what, weight in zip("BA", pair, strict=True)
    }
    weights = safetensors.torch.save(tensors, header)
    config = json.dumps(adapter_config(saved), indent=1) + "\n"
    scratch = folder.with_name(f".{folder.name}-new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        for name, content in ((CONFIG, config), (README, readme), (WEIGHTS, weights)):
            write_file(scratch / name, content, PRIVATE)
        scratch.chmod(0o700)
        with one_sentence_errors(folder.parent):
            put_in_place(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def put_in_place(new: Path, folder: Path) -> None:
    """Rename a folder to one that may be there, which stays if that fails and else is removed."""
    old = folder.with_name(f".{folder.name}-old")
    if there := folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.replace(old)
    try:
        new.replace(folder)
    except OSError:
        if there:
            old.replace(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_place(folder: Path) -> None:
    """Raise ValueError if a folder holds anything but an edit, which would be lost with it."""
    names = {file.name for file in folder.iterdir()} if folder.exists() else set()
    if names - {CONFIG, WEIGHTS, README}:
        raise ValueError(f"{folder} holds more than an edit: name another folder.")
    if names and not is_edit(folder / WEIGHTS):
        raise ValueError(f"{folder} holds files that are no edit of revs: name another folder.")


def is_edit(file: Path) -> bool:
    """Whether the header of a file says that it is an edit's, in whichever format."""
    with contextlib.suppress(SafetensorError, OSError), safe_open(file, "pt") as held:
        return HEADER in (held.metadata() or {})
    return False


def remove(folder: Path) -> bool:
    """Remove an edit, if one is there, and return whether there was one. Raises ValueError for a
    folder that holds anything else."""
    folder = folder.resolve()
    check_place(folder)
    for name in (README, CONFIG, WEIGHTS):  # an edit as long as its weights are there
        (folder / name).unlink(missing_ok=True)
    if there := folder.is_dir():
        folder.rmdir()
    return there


def read(folder: str | Path) -> SavedEdit:
    """The edit in a folder; ValueError if it is cut short, damaged, or another adapter's."""
    file = Path(folder) / WEIGHTS
    if not file.is_file():
        raise FileNotFoundError(f"There is no {WEIGHTS} in {folder}: give the folder of an edit.")
    with contextlib.suppress(SafetensorError, LookupError, TypeError, ValueError, RecursionError):
        with safe_open(file, "pt") as held:
            said = json.loads((held.metadata() or {})[HEADER])
            tensors = {name: held.get_tensor(name) for name in held.keys()}
        if said["format"] == FORMAT:
            suffix = ".lora_A.weight"
            modules = [one[len(PREFIX) : -len(suffix)] for one in tensors if one.endswith(suffix)]
            pair = lambda name: tuple(tensors[f"{PREFIX}{name}.lora_{x}.weight"] for x in "BA")
            saved = SavedEdit({name: pair(name) for name in modules}, **said["about"])
            whole = content_hash(saved.factors) == saved.content
            if modules and whole and text_hash(said["about"]) == said["sha256"]:
                return saved
    raise ValueError(
        f"{file} holds no edit in format {FORMAT}, or is cut short or damaged: take another copy, "
        "or the version of revs that wrote it."
    )


def apply(decoder: Decoder, saved: SavedEdit) -> Edit:
    """Add the edit, in place; ``undo`` of the Edit takes it back bit for bit.

    Raises ValueError, and changes nothing, if the model, its tokenizer or its precision is another,
    or the weights are not as they were before the edit.
    """
    made_on = saved.model, saved.tokenizer, saved.dtype
    for (what, here), there in zip(pins(decoder).items(), made_on, strict=True):
        if here != there:
            raise ValueError(
                f"The edit was made with the {what} {there[:12]}, but {decoder.name} has "
                f"{here[:12]}: load the model that it was made on, as it was loaded then."
            )
    d, ff = decoder.neurons(0).shape
    known = {decoder.ff2_name(l).removesuffix(".weight") for l in range(len(decoder.layers))}
    pairs = saved.factors.values()
    shapes = {(*B.shape[:1], *A.shape[1:]) for B, A in pairs if B.shape[1:] == A.shape[:1]}
    finite = all(bool(one.isfinite().all()) for pair in pairs for one in pair)
    if set(saved.factors) - known or shapes != {(d, ff)} or not finite:
        raise ValueError(
            f"The edit names a layer that {decoder.name} does not have, has another width, or "
            "holds values that are not finite: the file is damaged, take another copy."
        )
    if weights_hash(decoder, saved.factors) != saved.original:
        raise ValueError(
            f"Weights that the edit changes are not as they were: {decoder.name} has been edited "
            "or trained since it was loaded; load it afresh."
        )
    return add(decoder, saved.factors)


def add(decoder: Decoder, added: Factors) -> Edit:
    """Add B·A to each FF₂, without a check."""
    with Edit(decoder) as edit:
        for l in range(len(decoder.layers)):
            if pair := added.get(decoder.ff2_name(l).removesuffix(".weight")):
                B, A = (one.to(decoder.neurons(l).device) for one in pair)
                edit.add(l, B.T, A)
    return edit


def weights_hash(decoder: Decoder, modules: Iterable[str]) -> str:
    """sha256 of the weights of some FF₂."""
    return bits_hash(decoder.model.get_parameter(f"{name}.weight") for name in sorted(modules))


def content_hash(added: Factors) -> str:
    """sha256 of the factors."""
    return bits_hash(one for _, pair in sorted(added.items()) for one in pair)


def text_hash(said: dict) -> str:
    """sha256 of what a file says of its edit."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def bits_hash(tensors: Iterable[Tensor]) -> str:
    """sha256 of the bits of some tensors, one after the other."""
    digest = hashlib.sha256()
    for one in tensors:
        digest.update(one.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()
