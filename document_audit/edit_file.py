"""An edit of REVS as a small file: which neurons moved, for which token, how far (§3.2, step 4).

n* = n + c·d_t: the file holds the moves (layer, neuron, token, c) in their order, one direction d_t
for each token, and no column. Applied to the model that it was made on, it gives the same bits as
the run did, on another machine too. To take it back, load the base model, which *is* the model
without the edit.

The file is confidential: it holds no text, but the tokens are the rarest of the secrets, in the
secrets' order. Only its owner may read it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from document_audit.files import PRIVATE, write_file
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash

FORMAT = 3  # of the file, counted up when its parts change
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
INDICES = ("layers", "neurons", "tokens")  # of moves; besides c, a double, which holds it exactly
EVERY = -1  # instead of a layer: a token's direction is the same in all without a norm after FF₂
STATEMENT = (
    "Tokens of secrets were demoted after the tested prompts; this is no proof of erasure. "
    "Confidential: the tokens are parts of the secrets."
)


@dataclass(frozen=True)
class SavedEdit:
    """The moves of an edit and what they belong to."""

    moves: list[tuple[int, int, int, float]] = field(repr=False)
    # (layer or EVERY, token) → d_t, (d,)
    directions: dict[tuple[int, int], Tensor] = field(repr=False, compare=False)
    model: str  # what pins the base model: a hub commit, or sha256 of its weight files
    tokenizer: str  # its sha256
    dtype: str
    hyperparameters: dict  # REVS's settings
    before: dict[str, list[int]] = field(repr=False)  # ranks of every item's tokens
    after: dict[str, list[int]] = field(repr=False)
    original: str  # sha256 of the moved columns before the edit
    edited: str  # and after it
    versions: dict[str, str]
    date: str
    statement: str = STATEMENT

    @property
    def pins(self) -> dict[str, str]:
        """What another model must have in common with this edit's."""
        return {"weights": self.model, "tokenizer": self.tokenizer, "precision": self.dtype}

    @property
    def columns(self) -> dict[int, list[int]]:
        """The neurons that are moved, by layer, both in ascending order."""
        places = sorted({(l, n) for l, n, *_ in self.moves})
        return {l: [n for _, n in group] for l, group in groupby(places, lambda place: place[0])}

    def direction(self, l: int, t: int) -> Tensor:
        """Along what neurons of a layer moved for a token."""
        return self.directions[(l, t) if (l, t) in self.directions else (EVERY, t)]


def saved_edit(edit: Edit, hp: Hyperparameters, before: dict, after: dict) -> SavedEdit:
    """An edit of REVS as a file holds it, with the ranks (``secret_ranks``) before and after it.

    Raises ValueError for an edit that is not made of moves, or for a model that nothing pins.
    """
    decoder = edit.decoder
    moved = {(l, n) for l, n, *_ in edit.moves}
    changed = {(l, n) for l, kept in edit.originals.items() for n in kept}
    if edit.whole or not moved or moved != changed:
        raise ValueError(
            "This edit holds no moves, or changed weights in other ways: save it before it is "
            "undone, or save the model with save_pretrained."
        )
    if decoder.revision == "unknown":
        raise ValueError(
            f"Nothing pins the weights of {decoder.name}: save the model to a folder and load it "
            "from there before it is edited."
        )
    vocabulary, directions = Vocabulary(decoder, hp.projection == "raw", ridge=hp.ridge), {}
    for l, _, t, _ in edit.moves:
        place = (EVERY if vocabulary.after[l] is None else l, t)
        if place not in directions:
            directions[place] = vocabulary.step(l, t).cpu()
    columns = {l: sorted(kept) for l, kept in sorted(edit.originals.items()) if kept}
    return SavedEdit(
        edit.moves.copy(),
        directions,
        decoder.revision,
        tokenizer_hash(decoder.tokenizer),
        str(decoder.neurons(0).dtype).removeprefix("torch."),
        asdict(hp),
        before,
        after,
        columns_hash(
            torch.stack([edit.originals[l][n] for n in some]) for l, some in columns.items()
        ),
        columns_hash(current_columns(decoder, columns)),
        library_versions(),
        time.strftime("%Y-%m-%d", time.gmtime()),
    )


def library_versions() -> dict[str, str]:
    """Python and the libraries that compute, with their versions."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"python": platform.python_version()} | versions


def write(path: str | Path, saved: SavedEdit) -> Path:
    """Writes the file, whole or not at all, for its owner alone."""
    *places, c = zip(*saved.moves, strict=True)
    tensors = {
        name: torch.tensor(values, dtype=torch.int32)
        for name, values in zip((*INDICES, "of"), (*places, list(saved.directions)), strict=True)
    }
    tensors["c"] = torch.tensor(c, dtype=torch.float64)
    tensors["directions"] = torch.stack(list(saved.directions.values()))
    about = vars(saved).items()
    about = {name: value for name, value in about if name not in ("moves", "directions")}
    said = json.dumps({"kind": "an edit", "format": FORMAT, "about": dict(about)})
    write_file(Path(path), safetensors.torch.save(tensors, {"revs": said}), PRIVATE)
    return Path(path)


def read(path: str | Path) -> SavedEdit:
    """The edit in a file; ValueError for a file that is cut short, or of another kind."""
    try:
        with safe_open(path, "pt") as file:
            said = json.loads((file.metadata() or {}).get("revs", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError:
        raise ValueError(
            f"{path} is cut short, or is no safetensors file: take another copy."
        ) from None
    if (said.get("kind"), said.get("format")) != ("an edit", FORMAT):
        raise ValueError(
            f"{path} does not hold an edit in format {FORMAT}: give another file, or use the "
            "version of revs that wrote it."
        )
    try:
        moves = zip(*(tensors[name].tolist() for name in (*INDICES, "c")), strict=True)
        directions = zip(tensors["of"].tolist(), tensors["directions"], strict=True)
        found = {(l, t): d_t for (l, t), d_t in directions}
        return SavedEdit(list(moves), found, **said["about"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} lacks a part of an edit: take another copy.") from None


def apply(decoder: Decoder, saved: SavedEdit, exact: bool = True) -> Edit:
    """Makes the moves again, in place; the Edit undoes them exactly.

    Raises ValueError, and changes nothing, if the model, its tokenizer or its precision is another,
    or the columns have been edited or do not come out with the bits that they had. ``exact=False``
    takes the columns as they are and as they come out.
    """
    check_model(decoder, saved)
    if exact and saved.original != columns_hash(current_columns(decoder, saved.columns)):
        raise ValueError(
            f"Columns that the edit moves are not as they were: {decoder.name} has been edited "
            "since it was loaded; load it afresh, or pass exact=False."
        )
    with Edit(decoder) as edit:
        for l, t, moved in joint_moves(saved.moves):
            d_t = saved.direction(l, t)
            c = torch.tensor(list(moved.values()), dtype=d_t.dtype)
            edit.move(l, torch.tensor(list(moved)), c, t, d_t)
        if exact and saved.edited != columns_hash(current_columns(decoder, saved.columns)):
            raise ValueError(
                "The columns came out with other bits than in the run: this machine rounds "
                "otherwise, or the file is damaged; exact=False takes them as they are."
            )
    return edit


def check_model(decoder: Decoder, saved: SavedEdit) -> None:
    """Raises ValueError if the edit does not belong to this model, or is damaged."""
    weights = decoder.neurons(0)
    pins = {"weights": decoder.revision, "tokenizer": tokenizer_hash(decoder.tokenizer)}
    pins["precision"] = str(weights.dtype).removeprefix("torch.")
    for what, here in pins.items():
        if (made_with := saved.pins[what]) != here:
            raise ValueError(
                f"The edit was made with the {what} {made_with[:12]}, but {decoder.name} has "
                f"{here[:12]}: load the model that it was made on, as it was loaded then."
            )
    sizes = (len(decoder.layers), weights.shape[1], len(decoder.head.weight))
    there = all(
        0 <= place < size for move in saved.moves for place, size in zip(move, sizes, strict=False)
    )
    known = all({(l, t), (EVERY, t)} & saved.directions.keys() for l, _, t, _ in saved.moves)
    if not (there and known and {len(d_t) for d_t in saved.directions.values()} == {len(weights)}):
        raise ValueError(
            f"The edit names a layer, a neuron or a token that {decoder.name} does not have, or "
            "lacks a direction: the file is damaged, take another copy."
        )


def joint_moves(moves: Sequence[tuple]) -> Iterator[tuple[int, int, dict[int, float]]]:
    """(layer, token, {neuron: c}) of moves that can be made at once: each neuron once."""
    place, moved = None, {}
    for l, n, t, c in moves:
        if moved and ((l, t) != place or n in moved):
            yield *place, moved
            moved = {}
        place, moved[n] = (l, t), c
    yield *place, moved


def current_columns(decoder: Decoder, columns: dict[int, list[int]]) -> Iterator[Tensor]:
    """Columns of FF₂ as they are now, (K × d) for each layer."""
    return (decoder.neurons(l).detach()[:, neurons].T for l, neurons in columns.items())


def columns_hash(columns: Iterable[Tensor]) -> str:
    """sha256 of the columns' bits, one after the other."""
    digest = hashlib.sha256()
    for some in columns:
        digest.update(some.contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()
