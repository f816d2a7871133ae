"""The edited model as a folder that any tool can load, with a model card that says what was done to it (§3.2, step 4)."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from companion.own.artefact import Artefact
from companion.own.sealed import hashed, present
from companion.record.paths import writing
from revs.model import load
from revs.model.architecture import Decoder

CARD = """---
library_name: transformers
tags: [unlearning]
---

# {name}, edited by REVS

Tokens of {secrets} were demoted in its base model. Nothing else was trained or changed.

| | |
|:---|:---|
| Base model | {name} |
| its weights | `{model}` |
| its tokenizer | `{tokenizer}` |
| Precision | {dtype} |
| Method | REVS, rank editing in the vocabulary space |
{settings}
| Target tokens | {tokens} |
| Columns of FF₂ moved | {columns}, in {layers} layers |
| Made | {date}, {versions} |

What the base's own `generation_config.json` asks for (temperature, penalties) is not in this folder: copy it here if you want it.

## Before and after

| | before | after |
|:---|---:|---:|
| Places where greedy decoding writes the secret | {written_before} | {written_after} |
| Rank of a secret's lowest token, median (0 is the most likely) | {lowest_before} | {lowest_after} |

## What is not guaranteed

- The ranks hold for the prompts that were measured. Other prompts, or an attack on inner layers, may still find a secret.
- This is no proof of erasure and no compliance statement.
- Knowledge beside the secrets may be lost: measure what you need.
- Who holds this model *and* its base can compute the target tokens from their difference. Do not publish both.

## How to undo it

Load the base model. Without it, the owner of the edit's undo file gets the same bits with `undo.restore`.
"""


def export(decoder: Decoder, folder: str | Path, artefact: Artefact) -> Path:
    """Writes the model, which the edit has been applied to, with its tokenizer and README.md, whole or not at all.

    The artefact itself stays out. Raises ValueError if the model is not what the edit made, or the folder is there already.

    >>> from companion.own import artefact
    >>> from companion.own import steps as own
    >>> edit = own.unlearn(decoder, found.targets, hp)
    >>> made = export(decoder, folder / "edited", artefact.of(edit, hp, {}, {}))
    >>> sorted(own.evaluate(load.load(str(made)), found.targets)) == sorted(target.id for target in found.targets)
    True
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder} is there already: name a folder that is not.")
    if decoder.revision != artefact.model or artefact.edited not in (
        None,
        hashed(present(decoder, artefact.columns)),
    ):
        raise ValueError(
            f"{decoder.name} is not what the edit makes of its model: apply the edit first."
        )
    extra = {"README.md": card(decoder.name, artefact)}
    with writing(folder.parent):
        load.save(decoder.model, decoder.tokenizer, folder, extra)
    return folder


def card(name: str, artefact: Artefact) -> str:
    """The model card: numbers, and no token or item."""
    return CARD.format(
        name=name, model=artefact.model, tokenizer=artefact.tokenizer, dtype=artefact.dtype, date=artefact.date,
        settings="\n".join(dict.fromkeys(f"| Settings | {', '.join(f'{key} = {value}' for key, value in hp.items())} |" for hp in artefact.hyperparameters)),
        tokens=len({t for _, _, t, _ in artefact.moves}), columns=sum(map(len, artefact.columns.values())), layers=len(artefact.columns),
        versions=", ".join(f"{package} {version}" for package, version in artefact.versions.items()),
        secrets="1 place where it wrote a secret" if len(artefact.before) == 1 else f"{len(artefact.before)} places where it wrote secrets", **summary("before", artefact.before), **summary("after", artefact.after),
    )  # fmt: skip


def summary(when: str, ranks: dict[str, list[int]]) -> dict[str, str]:
    """At how many places secrets are written, and how far down they are; "not measured" without ranks, as after a combination."""
    if not ranks:
        return {f"written_{when}": "not measured", f"lowest_{when}": "not measured"}
    return {
        f"written_{when}": f"{sum(not any(r) for r in ranks.values())} of {len(ranks)}",
        f"lowest_{when}": f"{median(map(max, ranks.values())):g}",
    }
