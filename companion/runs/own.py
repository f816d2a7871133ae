"""Own: from documents to a verified, reversible edit of a model of one's own, with a report.

Detect → verify what is memorised → calibrate the margins → unlearn → attack → report. Writes
report.html and the edit into one folder; neither they nor the row hold a secret. Where nothing is
memorised, that is the report, and nothing is edited.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from companion.own import artefact, calibrate, report, steps
from companion.own.detect import KINDS
from companion.own.export import export
from companion.record import rows
from companion.record.paths import alone, resolve
from companion.runs import command, memory, methods, models
from companion.runs.made import base, provenance
from companion.runs.memorise import prepared
from companion.runs.progress import progress
from revs.measures import ordinary
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import split

BUILT_IN = "smollm2-135m"  # which the project's own documents are for
FILES = ("report.html", "edit.safetensors")


@dataclass(frozen=True)
class Settings:
    """Which model and documents, what is unlearned, and what is left of it."""

    documents: str = "data/documents/files"  # folder, text file, JSON Lines, "machine" or "$NAME"
    secrets: str | None = None  # a text file with what to look for, one a line; None: Presidio
    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    finetune: bool | dict = True  # instil what the documents above quote; False: the model as it is
    kinds: list[str] = field(default_factory=lambda: list(KINDS))  # what is looked for
    limit: int | None = None  # secrets that are tried, at most
    forget: int | None = None  # secrets to unlearn; None: all; the others then show what it cost
    minutes: float = 5  # that calibration may take
    hyperparameters: dict | None = None  # REVS's settings; None: calibrate
    seed: int = 0  # draws what calibration unlearns, and what forget takes
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    out: str = "build/own"  # where report.html and edit.safetensors go
    export: str | None = None  # a new folder for the edited model with its card; None: none
    rows: str = "build/rows"  # where the result row goes


def run(settings: Settings) -> dict:
    """Finds what a model memorised of some documents, unlearns it and writes a report."""
    asked, place = asdict(settings), resolve(settings.out)
    where = rows.writable(resolve(settings.rows))
    given = planned(settings)
    with alone(place, "name another folder with out"):
        start = time.monotonic()
        folder = prepared(settings.model, "ssn", settings.finetune, str(where))
        inputs, decoder = {"model": models.identify(folder)}, loaded(folder, settings)
        seconds = {"load": time.monotonic() - start}
        found = steps.find_memorized(
            decoder,
            *(expanded(name, asked[name]) for name in ("documents", "secrets")),
            settings.kinds,
            settings.limit,
            progress=progress("try", "batches"),
        )
        seconds["find"] = time.monotonic() - start - seconds["load"]
        if found.targets:
            result, items, peak = edited(decoder, found, settings, given, place, seconds)
            more = {"extra_memory_mb": peak.mb}
        else:
            (result, items), more = steps.outcome(found), {}
            keep(place)
        inputs |= {"secrets": rows.digest([target.id for target in found.targets])}
        asked |= {"documents": "", "secrets": None}  # a path may hold a secret
        kept = {name: asked[name] for name in asked if name not in ("out", "export", "rows")}
        made = provenance("own", kept, inputs | ordinary.inputs(), seconds, decoder) | more
        name = f"own/{place.name}/{base(settings.model)}"
        row = rows.write(where, name, "own", result, items, made)
        report.write(place / "report.html", row, items)
    print(report.summary(row), f"The report: {place / 'report.html'}", sep="\n")
    return row


def planned(settings: Settings) -> steps.Hyperparameters | None:
    """The settings of REVS, if given; what is wrong is said before a model is read."""
    steps.check(settings.kinds)
    if settings.finetune is not False and settings.model != BUILT_IN:
        raise ValueError(
            "finetune would first instil the project's synthetic secrets into your model: set it "
            "to False."
        )
    if settings.export and resolve(settings.export).exists():
        raise ValueError("The folder that export names is there already: name one that is not.")
    for name in ("documents", "secrets"):
        expanded(name, getattr(settings, name))
    memory.check(asdict(settings))
    if settings.hyperparameters is None:
        return None
    given = methods.hyperparameters("revs", base(settings.model), "", settings.hyperparameters)
    return steps.Hyperparameters(**given)


def expanded(name: str, path: str | None) -> str | None:
    """A path, or what the variable of the environment holds that stands for it."""
    if path and path.startswith("$") and os.path.expandvars(path) == path:
        raise ValueError(
            f"The environment has no such variable as {name} names: export it, or give the path."
        )
    return path and os.path.expandvars(path)


def loaded(folder: str, settings: Settings) -> Decoder:
    """The model; what could not be edited, or not undone, is refused before hours of searching."""
    if models.identify(folder).startswith(models.UNPINNED):
        raise ValueError(
            "Nothing pins the weights of this model, so that an edit of it could not be undone "
            "elsewhere: check the network, or save it to a folder as safetensors and name that."
        )
    decoder = models.load(folder, settings.dtype, settings.device_map)
    Vocabulary(decoder, raw=True)  # a head that has no inverse
    return decoder


def edited(
    decoder: Decoder,
    found: steps.Found,
    settings: Settings,
    hp: steps.Hyperparameters | None,
    place: Path,
    seconds: dict,
) -> tuple[dict, list[dict], memory.Peak]:
    """Unlearns what was found, says what that changed, and undoes it; ``place`` keeps the edit.

    Settings are chosen on what is unlearned: the choice has not seen what is kept.
    """
    unlearned, kept = parts(found.targets, settings.forget, settings.seed)
    chosen = None
    if hp is None and len({target.group for target in unlearned}) >= calibrate.LEAST:
        about = settings.minutes, settings.seed
        bar = progress("calibrate", "settings")
        chosen = steps.calibrate(decoder, unlearned, *about, progress=bar)
        hp = chosen.hp
    hp = hp or calibrate.settings(decoder.neurons(0).shape[1], calibrate.START)
    seconds["calibrate"] = chosen.seconds if chosen else 0.0
    start = time.monotonic()
    before = steps.observe(decoder, unlearned, kept)
    began = time.monotonic()
    with (
        memory.Peak() as peak,
        steps.unlearn(decoder, unlearned, hp, progress=progress("unlearn", "tokens")) as edit,
    ):
        seconds["unlearn"] = time.monotonic() - began
        after = steps.observe(decoder, unlearned, kept)
        change = steps.Change(before, after, edit, hp, chosen)
        result, items = steps.outcome(found, change)
        seconds["look"] = time.monotonic() - start - seconds["unlearn"]
        made = artefact.of(edit, hp, before.ranks(), after.ranks()) if edit.moves else None
        if made and settings.export:
            export(decoder, resolve(settings.export), made)
        keep(place, made)
    edit.undo()
    return result, items, peak


def parts(targets: list, forget: int | None, seed: int) -> tuple[list, list]:
    """What is unlearned, every place of each secret, and what is kept to be looked at."""
    if forget is None or forget >= len({target.group for target in targets}):
        return targets, []
    drawn = split(targets, seed, forget)
    return drawn.forget + drawn.unseen, drawn.retain


def keep(place: Path, made: artefact.Artefact | None = None) -> None:
    """Writes this run's edit in the place of an earlier run's.

    Its report goes first, since no edit may lie beside the report of another run.
    """
    for old in FILES:
        (place / old).unlink(missing_ok=True)
    if made:
        artefact.write(place / "edit.safetensors", made)


if __name__ == "__main__":
    command(Settings, run)
