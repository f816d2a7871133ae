"""An edit of REVS as a small file: which neurons moved, for which token, how far (§3.2, step 4).

n* = n + c·d_t: the file holds the moves (layer, neuron, token, c) in their order, one direction d_t
for each token, and no column. Applied to the model that it was made on, it gives the same bits as
the run did, on another machine too. ``save_columns`` keeps the original columns instead, for who
has not the base model, which *is* the model without the edit.

Both files are confidential: they hold no text, but the tokens are the rarest of the secrets, in the
secrets' order. Only their owner may read them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from companion.record import rows
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash

EDIT, COLUMNS = "an edit", "the columns of an edit"  # what a file may hold
FORMATS = {EDIT: 2, COLUMNS: 1}  # counted up when their parts change
INDICES = ("layers", "neurons", "tokens")  # of moves; besides c, a double, which holds it exactly
EVERY = -1  # instead of a layer: a token's direction is the same in all without a norm after FF₂
STATEMENT = (
    "Tokens of secrets were demoted after the tested prompts; this is no proof of erasure. "
    "Confidential: the tokens are parts of the secrets."
)


@dataclass(frozen=True)
class Artefact:
    """The moves of an edit and what they belong to."""

    moves: list[tuple[int, int, int, float]] = field(repr=False)
    # (layer or EVERY, token) → d_t, (d,)
    directions: dict[tuple[int, int], Tensor] = field(repr=False, compare=False)
    model: str  # what pins the base model: a hub commit, or sha256 of its weight files
    tokenizer: str  # its sha256
    dtype: str
    hyperparameters: list[dict]  # REVS's settings, of each edit that was combined
    before: dict[str, list[int]] = field(repr=False)  # ranks of every item's tokens
    after: dict[str, list[int]] = field(repr=False)
    original: str | None  # sha256 of the moved columns; None: combined, nobody has seen them yet
    edited: str | None
    shared: int  # columns that several of the combined edits move
    versions: dict[str, str]
    date: str
    statement: str = STATEMENT

    @property
    def pins(self) -> dict[str, str]:
        """What another model, or another edit, must have in common with this one."""
        projection = self.hyperparameters[0]["projection"]
        pins = {"weights": self.model, "tokenizer": self.tokenizer}
        return pins | {"precision": self.dtype, "projection": projection}

    @property
    def columns(self) -> dict[int, list[int]]:
        """The neurons that are moved, by layer, both in ascending order."""
        places = sorted({(l, n) for l, n, *_ in self.moves})
        return {l: [n for _, n in group] for l, group in groupby(places, lambda place: place[0])}

    def direction(self, l: int, t: int) -> Tensor:
        """Along what neurons of a layer moved for a token."""
        return self.directions[(l, t) if (l, t) in self.directions else (EVERY, t)]


def of(edit: Edit, hp: Hyperparameters, before: dict, after: dict) -> Artefact:
    """The artefact of an edit of REVS, with the ranks (``secret_ranks``) before and after it.

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
    vocabulary, directions = Vocabulary(decoder, raw=hp.projection == "raw"), {}
    for l, _, t, _ in edit.moves:
        place = (EVERY if vocabulary.after[l] is None else l, t)
        if place not in directions:
            directions[place] = vocabulary.step(l, t).cpu()
    made = Artefact(
        edit.moves.copy(),
        directions,
        decoder.revision,
        tokenizer_hash(decoder.tokenizer),
        str(decoder.neurons(0).dtype).removeprefix("torch."),
        [asdict(hp)],
        before,
        after,
        hashed(kept for _, kept in stacked(edit)),
        edited=None,
        shared=0,
        **now(),
    )
    return replace(made, edited=hashed(present(decoder, made.columns)))


def write(path: str | Path, artefact: Artefact) -> Path:
    """Writes the file, whole or not at all."""
    *places, c = zip(*artefact.moves, strict=True)
    tensors = {
        name: torch.tensor(values, dtype=torch.int32)
        for name, values in zip((*INDICES, "of"), (*places, list(artefact.directions)), strict=True)
    }
    tensors["c"] = torch.tensor(c, dtype=torch.float64)
    tensors["directions"] = torch.stack(list(artefact.directions.values()))
    about = vars(artefact).items()
    about = {name: value for name, value in about if name not in ("moves", "directions")}
    return pack(path, EDIT, tensors, about)


def read(path: str | Path) -> Artefact:
    """The artefact in a file; ValueError for a file that is cut short, or of another kind."""
    tensors, about = unpack(path, EDIT)
    try:
        moves = zip(*(tensors[name].tolist() for name in (*INDICES, "c")), strict=True)
        directions = zip(tensors["of"].tolist(), tensors["directions"], strict=True)
        return Artefact(list(moves), {(l, t): d_t for (l, t), d_t in directions}, **about)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} lacks a part of {EDIT}: take another copy.") from None


def apply(decoder: Decoder, artefact: Artefact, exact: bool = True) -> Edit:
    """Makes the moves again, in place; the Edit undoes them exactly.

    Raises ValueError, and changes nothing, if the model, its tokenizer or its precision is another,
    or the columns have been edited or do not come out with the bits that they had. ``exact=False``
    takes the columns as they are and as they come out.
    """
    check(decoder, artefact)
    if exact and artefact.original not in (None, hashed(present(decoder, artefact.columns))):
        raise ValueError(
            f"Columns that the edit moves are not as they were: {decoder.name} has been edited "
            "since it was loaded; load it afresh, or combine the edits."
        )
    with Edit(decoder) as edit:
        for l, t, moved in runs(artefact.moves):
            d_t = artefact.direction(l, t)
            c = torch.tensor(list(moved.values()), dtype=d_t.dtype)
            edit.move(l, torch.tensor(list(moved)), c, t, d_t)
        if exact and artefact.edited not in (None, hashed(present(decoder, artefact.columns))):
            raise ValueError(
                "The columns came out with other bits than in the run: this machine rounds "
                "otherwise, or the file is damaged; exact=False takes them as they are."
            )
    return edit


def check(decoder: Decoder, artefact: Artefact) -> None:
    """Raises ValueError if the edit does not belong to this model, or is damaged."""
    weights = decoder.neurons(0)
    dtype = str(weights.dtype).removeprefix("torch.")
    pins = {"weights": decoder.revision, "tokenizer": tokenizer_hash(decoder.tokenizer)}
    for what, here in (pins | {"precision": dtype}).items():
        if (made_with := artefact.pins[what]) != here:
            raise ValueError(
                f"The edit was made with the {what} {made_with[:12]}, but {decoder.name} has "
                f"{here[:12]}: load the model that it was made on, as it was loaded then."
            )
    sizes = (len(decoder.layers), weights.shape[1], len(decoder.head.weight))
    there = all(
        0 <= place < size
        for move in artefact.moves
        for place, size in zip(move, sizes, strict=False)
    )
    known = all({(l, t), (EVERY, t)} & artefact.directions.keys() for l, _, t, _ in artefact.moves)
    if not (
        there and known and {len(d_t) for d_t in artefact.directions.values()} == {len(weights)}
    ):
        raise ValueError(
            f"The edit names a layer, a neuron or a token that {decoder.name} does not have, or "
            "lacks a direction: the file is damaged, take another copy."
        )


def combine(artefacts: Sequence[Artefact]) -> Artefact:
    """Several edits of the same model as one: all moves, in the order given.

    A column is rounded once for each of its moves: the result equals applying one edit after the
    other, bit for bit. It is not what one run over all secrets gives, since no edit has seen those
    before it: the ranks after it are left out, and must be measured.
    """
    if not artefacts:
        raise ValueError("There is nothing to combine: give at least one edit.")
    first = artefacts[0]
    for number, other in enumerate(artefacts[1:], 2):
        both = other.directions.keys() & first.directions.keys()
        wrong = [what for what, pin in first.pins.items() if other.pins[what] != pin]
        if not all(torch.equal(other.directions[at], first.directions[at]) for at in both):
            wrong.append("directions")  # as another machine rounds them
        if wrong:
            raise ValueError(
                f"Edit {number} has not the {wrong[0]} of the first: combine edits of one model, "
                "or apply one after the other, with exact=False."
            )
    moved = Counter(place for one in artefacts for place in {(l, n) for l, n, *_ in one.moves})
    return replace(
        first,
        moves=[move for one in artefacts for move in one.moves],
        directions={at: d_t for one in artefacts for at, d_t in one.directions.items()},
        hyperparameters=[hp for one in artefacts for hp in one.hyperparameters],
        before={item: ranks for one in artefacts for item, ranks in one.before.items()},
        after={},
        original=None,
        edited=None,
        shared=sum(count > 1 for count in moved.values()),
        **now(),
    )


def runs(moves: Sequence[tuple]) -> Iterator[tuple[int, int, dict[int, float]]]:
    """(layer, token, {neuron: c}) of moves that can be made at once: each neuron once."""
    place, moved = None, {}
    for l, n, t, c in moves:
        if moved and ((l, t) != place or n in moved):
            yield *place, moved
            moved = {}
        place, moved[n] = (l, t), c
    yield *place, moved


def save_columns(path: str | Path, edit: Edit) -> Path:
    """Writes the original of every column that an edit changed, to undo it without its process.

    Raises ValueError for an edit of whole weights, or of none.
    """
    if edit.whole or not edit.originals:
        raise ValueError(
            "This edit did not change single columns: save the base model with save_pretrained, "
            "and load it to undo the edit."
        )
    columns = {l: sorted(kept) for l, kept in sorted(edit.originals.items()) if kept}
    about = {"columns": columns, "edited": hashed(present(edit.decoder, columns))}
    return pack(path, COLUMNS, {str(l): kept for l, kept in stacked(edit)}, about)


@torch.no_grad()
def restore(decoder: Decoder, path: str | Path) -> None:
    """Puts the original columns back into the edited model, bit by bit; ValueError on another."""
    tensors, about = unpack(path, COLUMNS)
    columns = {int(l): neurons for l, neurons in about["columns"].items()}
    try:
        edited = hashed(present(decoder, columns))
    except IndexError:
        edited = None
    if edited != about["edited"]:
        raise ValueError(
            f"{decoder.name} is not the model that the edit left: load the edited model, in the "
            "precision of the edit."
        )
    for l, neurons in columns.items():
        decoder.neurons(l)[:, neurons] = tensors[str(l)].T.to(decoder.neurons(l).device)


def stacked(edit: Edit) -> Iterator[tuple[int, Tensor]]:
    """(layer, its original columns (K × d) in ascending order) of an edit."""
    for l, kept in sorted(edit.originals.items()):
        if kept:
            yield l, torch.stack([kept[n] for n in sorted(kept)])


def present(decoder: Decoder, columns: dict[int, list[int]]) -> Iterator[Tensor]:
    """Columns of FF₂ as they are now, (K × d) for each layer."""
    return (decoder.neurons(l).detach()[:, neurons].T for l, neurons in columns.items())


def hashed(columns: Iterable[Tensor]) -> str:
    """sha256 of the columns' bits, one after the other."""
    digest = hashlib.sha256()
    for some in columns:
        digest.update(some.contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


def pack(path: str | Path, kind: str, tensors: dict[str, Tensor], about: dict) -> Path:
    """Writes a safetensors file that says what it is, whole or not at all, for its owner alone."""
    said = json.dumps({"kind": kind, "format": FORMATS[kind], "about": about})
    rows.write_text(Path(path), safetensors.torch.save(tensors, {"revs": said}), mode=0o600)
    return Path(path)


def unpack(path: str | Path, kind: str) -> tuple[dict[str, Tensor], dict]:
    """What ``pack`` wrote."""
    try:
        with safe_open(path, "pt") as file:
            said = json.loads((file.metadata() or {}).get("revs", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError:
        raise ValueError(
            f"{path} is cut short, or is no safetensors file: take another copy."
        ) from None
    if (said.get("kind"), said.get("format")) != (kind, FORMATS[kind]):
        raise ValueError(
            f"{path} does not hold {kind} in format {FORMATS[kind]}: give another file, or use the "
            "version of revs that wrote it."
        )
    return tensors, said["about"]


def now() -> dict:
    """Versions and date."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"versions": rows.machine()["versions"], "date": date}
