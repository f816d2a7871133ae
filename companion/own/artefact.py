"""An edit of REVS as a small file: which neurons moved, for which token, how far, and on which model (§3.2, step 4).

n* = n + c·d_t: the file holds the moves (layer, neuron, token, c) in their order, one direction d_t for each token, and no column, so
that it is a small part of what it changes. Applied to the model that it was made on, it gives the same bits as the run did, on another machine too.

The file is confidential. It holds no text, but its tokens are the rarest of the secrets, in the secrets' order, and the tokenizer
turns them into text; it also holds the items' ids and their ranks. Only its owner may read it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

import torch

from companion.own.sealed import hashed, pack, present, unpack
from companion.record import rows
from revs.method.algorithm import Hyperparameters
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.load import tokenizer_hash

KIND = "an edit"
PARTS = {
    "layers": torch.int32,
    "neurons": torch.int32,
    "tokens": torch.int32,
    "c": torch.float64,
}  # a double holds every c exactly
EVERY = -1  # instead of a layer: a token has one direction in all of them, but for layers with a norm after FF₂


@dataclass(frozen=True)
class Artefact:
    """The moves of an edit and what they belong to. ``original`` and ``edited`` are sha256 of the moved columns, before and after."""

    moves: list[tuple[int, int, int, float]] = field(repr=False)
    directions: dict[tuple[int, int], torch.Tensor] = field(
        repr=False, compare=False
    )  # (layer or EVERY, token) → d_t, (d,)
    model: str  # what pins the base model: a hub commit, or sha256 of its weight files
    tokenizer: str  # its sha256
    dtype: str
    hyperparameters: list[dict]  # REVS's settings, of each edit that was combined
    before: dict[str, list[int]] = field(repr=False)  # ranks of every item's tokens
    after: dict[str, list[int]] = field(repr=False)
    original: str | None  # None: edits were combined, and nobody has seen the columns yet
    edited: str | None
    shared: int  # columns that several of the combined edits move
    versions: dict[str, str]
    date: str
    statement: str = "Tokens of secrets were demoted after the tested prompts; this is no proof of erasure. Confidential: the tokens are parts of the secrets."

    @property
    def pins(self) -> dict[str, str]:
        """What another model, or another edit, must have in common with this one."""
        return {
            "weights": self.model,
            "tokenizer": self.tokenizer,
            "precision": self.dtype,
            "projection": self.hyperparameters[0]["projection"],
        }

    @property
    def columns(self) -> dict[int, list[int]]:
        """The neurons that are moved, by layer, both in ascending order."""
        places = sorted({(l, n) for l, n, *_ in self.moves})
        return {
            layer: [n for _, n in group] for layer, group in groupby(places, lambda place: place[0])
        }

    def direction(self, l: int, t: int) -> torch.Tensor:
        """Along what neurons of a layer moved for a token. Raises ValueError if the file lacks it."""
        for place in ((l, t), (EVERY, t)):
            if place in self.directions:
                return self.directions[place]
        raise ValueError(
            "The edit lacks the direction of one of its tokens: the file is damaged, take another copy."
        )


def of(
    edit: Edit, hp: Hyperparameters, before: dict[str, list[int]], after: dict[str, list[int]]
) -> Artefact:
    """The artefact of an edit that ``revs.method.algorithm.unlearn`` made, with the ranks that ``revs.measures.evaluate.secret_ranks`` found.

    Raises ValueError for an edit that is not made of moves, or for a model that nothing pins.

    >>> from companion.own import steps as own
    >>> before, edit = own.observe(decoder, found.targets), own.unlearn(decoder, found.targets, hp)
    >>> made = of(edit, hp, before.ranks(), own.observe(decoder, found.targets).ranks())
    >>> edit.undo()
    >>> made.moves == read(write(folder / "edit.safetensors", made)).moves
    True
    """
    decoder = edit.decoder
    if edit.whole or {(l, n) for l, n, *_ in edit.moves} != {
        (l, n) for l, kept in edit.originals.items() for n in kept
    }:
        raise ValueError(
            "This edit changed weights in other ways than REVS moves neurons: its weights can be saved with save_pretrained."
        )
    if not edit.moves:
        raise ValueError("This edit holds no moves: save it before it is undone.")
    if decoder.revision == "unknown":
        raise ValueError(
            f"Nothing pins the weights of {decoder.name}: save the model to a folder and load it from there before it is edited."
        )
    originals = (
        torch.stack([kept[n] for n in sorted(kept)]) for _, kept in sorted(edit.originals.items())
    )
    vocabulary = Vocabulary(decoder, raw=hp.projection == "raw")
    directions = {}
    for l, _, t, _ in edit.moves:
        place = (EVERY if vocabulary.after[l] is None else l, t)
        if place not in directions:
            directions[place] = vocabulary.step(l, t).cpu()
    pinned = Artefact(
        edit.moves.copy(),
        directions,
        decoder.revision,
        tokenizer_hash(decoder.tokenizer),
        precision(decoder),
        [asdict(hp)],
        before,
        after,
        hashed(originals),
        None,
        0,
        **now(),
    )
    return replace(pinned, edited=hashed(present(decoder, pinned.columns)))


def write(path: str | Path, artefact: Artefact) -> Path:
    """Writes the file, whole or not at all."""
    about = {
        name: value for name, value in vars(artefact).items() if name not in ("moves", "directions")
    }
    moves = {
        name: torch.tensor(values, dtype=dtype)
        for (name, dtype), values in zip(PARTS.items(), zip(*artefact.moves))
    }
    return pack(
        path,
        KIND,
        moves
        | {
            "of": torch.tensor(list(artefact.directions), dtype=torch.int32),
            "directions": torch.stack(list(artefact.directions.values())),
        },
        about,
    )


def read(path: str | Path) -> Artefact:
    """The artefact in a file. Raises ValueError for a file that is cut short, of another kind, or of another format."""
    tensors, about = unpack(path, KIND)
    try:
        directions = {
            (l, t): d_t
            for (l, t), d_t in zip(tensors["of"].tolist(), tensors["directions"], strict=True)
        }
        return Artefact(
            list(zip(*(tensors[name].tolist() for name in PARTS), strict=True)), directions, **about
        )
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} lacks a part of {KIND}: take another copy.") from None


def apply(decoder: Decoder, artefact: Artefact, exact: bool = True) -> Edit:
    """Makes the moves again, in place; the Edit undoes them exactly.

    Raises ValueError, and changes nothing, if the model, its tokenizer or its precision is another, or the columns have been edited or
    do not come out with the bits that they had. ``exact=False`` takes the columns as they are and as they come out.

    >>> from companion.own import steps as own
    >>> edit = own.unlearn(decoder, found.targets, hp)
    >>> made = of(edit, hp, {}, {})
    >>> edit.undo()
    >>> apply(decoder, made).undo()
    """
    check(decoder, artefact)
    if exact and artefact.original not in (None, hashed(present(decoder, artefact.columns))):
        raise ValueError(
            f"Columns that the edit moves are not as they were: {decoder.name} has been edited since it was loaded; load it afresh, or combine the edits."
        )
    with Edit(decoder) as edit:
        for l, t, moved in runs(artefact.moves):
            d_t = artefact.direction(l, t)
            edit.move(
                l,
                torch.tensor(list(moved)),
                torch.tensor(list(moved.values()), dtype=d_t.dtype),
                t,
                d_t,
            )
        if exact and artefact.edited not in (None, hashed(present(decoder, artefact.columns))):
            raise ValueError(
                "The columns came out with other bits than in the run: this machine rounds otherwise, or the file is damaged; exact=False takes them as they are."
            )
    return edit


def check(decoder: Decoder, artefact: Artefact) -> None:
    """Raises ValueError if the edit does not belong to this model."""
    for (what, made_with), here in zip(
        artefact.pins.items(),
        (decoder.revision, tokenizer_hash(decoder.tokenizer), precision(decoder)),
    ):
        if made_with != here:
            raise ValueError(
                f"The edit was made with the {what} {made_with[:12]}, but {decoder.name} has {here[:12]}: load the model that it was made on, as it was loaded then."
            )
    sizes = (len(decoder.layers), decoder.neurons(0).shape[1], decoder.head.weight.shape[0])
    if not all(0 <= place < size for move in artefact.moves for place, size in zip(move, sizes)):
        raise ValueError(
            f"The edit names a layer, a neuron or a token that {decoder.name} does not have: the file is damaged, take another copy."
        )
    if any(d_t.shape != decoder.neurons(0).shape[:1] for d_t in artefact.directions.values()):
        raise ValueError(
            f"The edit's directions are of another width than {decoder.name}: the file is damaged, take another copy."
        )


def combine(artefacts: Sequence[Artefact]) -> Artefact:
    """Several edits of the same model as one: all moves, in the order given.

    A column is rounded once for each of its moves: the result equals applying one edit after the other, bit for bit. It is not what one
    run over all secrets gives, since no edit has seen those before it: the ranks after it are left out, and must be measured.

    >>> from companion.own import steps as own
    >>> parts = []
    >>> for target in found.targets[:2]:
    ...     with own.unlearn(decoder, [target], hp) as edit:
    ...         parts.append(of(edit, hp, {}, {}))
    ...     edit.undo()
    >>> len(combine(parts).moves) == sum(len(part.moves) for part in parts)
    True
    """
    if not artefacts:
        raise ValueError("There is nothing to combine: give at least one edit.")
    first = artefacts[0]
    for number, other in enumerate(artefacts[1:], 2):
        for what, pin in first.pins.items():
            if other.pins[what] != pin:
                raise ValueError(
                    f"Edit {number} has not the {what} of the first: only edits of the same model can be combined."
                )
        for place in other.directions.keys() & first.directions.keys():
            if not torch.equal(other.directions[place], first.directions[place]):
                raise ValueError(
                    f"Edit {number} has another direction for a token than the first, as another machine rounds it: apply one after the other, with exact=False."
                )
    moved = Counter(place for one in artefacts for place in {(l, n) for l, n, *_ in one.moves})
    return replace(
        first, moves=[move for one in artefacts for move in one.moves], directions={place: d_t for one in artefacts for place, d_t in one.directions.items()}, hyperparameters=[hp for one in artefacts for hp in one.hyperparameters],
        before={item: ranks for one in artefacts for item, ranks in one.before.items()}, after={}, original=None, edited=None, shared=sum(count > 1 for count in moved.values()), **now(),
    )  # fmt: skip


def runs(
    moves: Sequence[tuple[int, int, int, float]],
) -> Iterator[tuple[int, int, dict[int, float]]]:
    """(layer, token, {neuron: c}) of moves that can be made at once: each neuron once, so that it is rounded after each of its moves."""
    place, moved = None, {}
    for l, n, t, c in moves:
        if moved and ((l, t) != place or n in moved):
            yield *place, moved
            moved = {}
        place, moved[n] = (l, t), c
    yield *place, moved


def precision(decoder: Decoder) -> str:
    """Of the weights that are edited."""
    return str(decoder.neurons(0).dtype).removeprefix("torch.")


def now() -> dict:
    """Versions and date."""
    return {
        "versions": rows.machine()["versions"],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
