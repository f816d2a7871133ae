"""Own: from documents to a verified, reversible edit of a model of one's own, with a report that can be shown.

Detect → verify what is memorised → calibrate the margins → unlearn → attack → report. Writes report.html and the edit
into one folder; neither they nor the row hold a secret. Where nothing is memorised, that is the report, and nothing is edited.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from companion.own import artefact, calibrate
from companion.own import export as exporting
from companion.own import steps as own
from companion.own import undo as undoing
from companion.own.detect import KINDS
from companion.record import rows
from companion.record.paths import alone, resolve
from companion.runs import check, command, integrity, methods, models
from companion.runs.memorise import prepared
from companion.runs.memory import Peak
from companion.runs.progress import Progress
from companion.runs.unlearn import base
from revs.measures import ordinary
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model import load
from revs.model.targets import split

BUILT_IN = "smollm2-135m"  # the model that the synthetic secrets are instilled into for the project's own documents


def run(
    documents: str = "data/documents/files",  # a folder, a text file or JSON Lines with "text"; "$NAME" takes the path from the environment; "machine": what its packages carry
    secrets: str
    | None = None,  # a text file with the secrets to look for, one a line; None: Presidio finds them
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    finetune: bool
    | dict = True,  # instil the built-in sets first, which the documents above quote; false: the model as it is
    kinds: list = list(KINDS),  # email, url, phone, ip, ssn
    limit: int | None = None,  # secrets that are tried, at most
    forget: int
    | None = None,  # secrets to unlearn; None: all that are memorised. The others then show what it cost
    minutes: float | int = 5,  # that calibration may take
    hyperparameters: dict | None = None,  # REVS's settings; None: calibrate
    benchmarks: bool = False,  # also MMLU and GSM8K before and after (REVS_BENCHMARKS)
    seed: int = 0,
    dtype: str = "float32",
    device_map: str | None = None,
    out: str = "build/own",  # where report.html and edit.safetensors go
    undo: bool = False,  # also undo.safetensors, the original columns, for a time when the base model is not at hand
    export: str | None = None,  # a new folder for the edited model with its model card; None: none
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Finds what a model memorised of some documents, unlearns it, attacks the result and writes a report; returns the row."""
    row = through(**locals())
    print(*reporting().lines(row), f"The report: {resolve(out) / 'report.html'}", sep="\n")
    return row


def through(**asked) -> dict:
    """All steps in order."""
    place, where = resolve(asked.pop("out")), rows.writable(resolve(asked.pop("rows")))
    documents, secrets, given, exported = planned(asked)
    with alone(place, "name another folder with out"):
        clock = [time.monotonic()]
        folder = prepared(asked["model"], "ssn", asked["finetune"], str(where))
        pinned = models.identify(folder)
        if pinned.startswith(load.UNPINNED):
            raise ValueError(
                "Nothing pins the weights of this model, so that an edit of it could not be undone elsewhere: check the network, or save it to a folder as safetensors and name that."
            )
        decoder = models.load(folder, asked["dtype"], asked["device_map"])
        Vocabulary(
            decoder, raw=True
        )  # a head that has no inverse is refused before hours of searching
        clock.append(time.monotonic())
        found = own.find_memorized(
            decoder,
            documents,
            secrets,
            asked["kinds"],
            asked["limit"],
            progress=Progress("try", "secrets"),
        )
        clock.append(time.monotonic())
        seconds = dict(zip(("load", "find"), [b - a for a, b in zip(clock, clock[1:])]))
        if found.targets:
            unlearned, kept = parts(found.targets, asked["forget"], asked["seed"])
            calibrated = None
            if (
                given is None and len({target.group for target in unlearned}) >= calibrate.LEAST
            ):  # on what is unlearned: what is kept has not been seen by the choice
                calibrated = own.calibrate(
                    decoder,
                    unlearned,
                    asked["minutes"],
                    asked["seed"],
                    progress=Progress("calibrate", "settings"),
                )
            hp = given or (
                calibrated.hp
                if calibrated
                else calibrate.settings(decoder.neurons(0).shape[1], calibrate.START)
            )
            seconds["calibrate"] = calibrated.seconds if calibrated else 0.0
            start = time.monotonic()
            before = own.observe(decoder, unlearned, kept, asked["benchmarks"])
            began = time.monotonic()
            with (
                Peak() as peak,
                own.unlearn(decoder, unlearned, hp, Progress("unlearn", "tokens")) as edit,
            ):
                seconds["unlearn"] = time.monotonic() - began
                after = own.observe(decoder, unlearned, kept, asked["benchmarks"])
                result, items = own.outcome(found, before, after, edit, hp, calibrated)
                seconds["look"] = time.monotonic() - start - seconds["unlearn"]
                made_of = (
                    artefact.of(edit, hp, before.ranks(), after.ranks()) if edit.moves else None
                )
                if made_of and exported:
                    exporting.export(decoder, exported, made_of)
                keep(place, made_of, edit if asked["undo"] else None)
            edit.undo()
        else:
            result, items = own.outcome(found)
            keep(place)
        inputs = {
            "model": pinned,
            "secrets": rows.digest([target.id for target in found.targets]),
        } | ordinary.inputs()
        made = (
            rows.provenance("own", asked | {"documents": "", "secrets": None}, inputs, seconds)
            | {  # a path may hold a secret
                "model": {
                    "name": base(asked["model"]),
                    "revision": pinned,
                    "dtype": asked["dtype"],
                },
                "tokenizer": load.tokenizer_hash(decoder.tokenizer),
            }
            | ({"extra_memory_mb": peak.mb} if found.targets else {})
        )
        row = rows.write(
            where, f"own/{place.name}/{base(asked['model'])}", "own", result, items, made
        )
        reporting().write(place / "report.html", row, items)
        return row


def planned(asked: dict) -> tuple[str, str | None, own.Hyperparameters | None, Path | None]:
    """(documents, secrets, settings if given, folder of the edited model); what is wrong is said before a model is read."""
    check(asked | {"out": "", "rows": ""}, run)
    own.check(asked["kinds"])
    if asked["benchmarks"]:
        integrity.benchmarks()  # are they there?
    if asked["finetune"] is not False and asked["model"] != BUILT_IN:
        raise ValueError(
            "finetune would first instil the project's synthetic secrets into your model: set it to False."
        )
    folder = asked.pop("export")
    if folder and resolve(folder).exists():
        raise ValueError("The folder that export names is there already: name one that is not.")
    documents, secrets = (expanded(name, asked[name]) for name in ("documents", "secrets"))
    given = asked["hyperparameters"]
    return (
        documents,
        secrets,
        given
        if given is None
        else own.Hyperparameters(
            **methods.hyperparameters("revs", base(asked["model"]), "", given)
        ),
        folder and resolve(folder),
    )


def reporting():
    """The page that shows a run: imported when it is asked for, since it draws."""
    from companion.own import report

    return report


def expanded(name: str, path: str | None) -> str | None:
    """A path, or what the variable of the environment holds that stands for it."""
    if path and path.startswith("$") and os.path.expandvars(path) == path:
        raise ValueError(
            f"The environment has no such variable as {name} names: export it, or give the path."
        )
    return path and os.path.expandvars(path)


def parts(targets: list, forget: int | None, seed: int) -> tuple[list, list]:
    """What is unlearned, every place of each secret, and what is kept to be looked at: nothing, if all is to be forgotten."""
    if forget is None or forget >= len({target.group for target in targets}):
        return targets, []
    drawn = split(targets, seed, forget)
    return drawn.forget + drawn.unseen, drawn.retain


def keep(place: Path, made_of: artefact.Artefact | None = None, edit: Edit | None = None) -> None:
    """Writes this run's edit, and what undoes it, in the place of an earlier run's; its report goes first, since no edit may lie beside the report of another run."""
    for old in ("report.html", "edit.safetensors", "undo.safetensors"):
        (place / old).unlink(missing_ok=True)
    if made_of:
        artefact.write(place / "edit.safetensors", made_of)
        if edit:
            undoing.save(place / "undo.safetensors", edit)


if __name__ == "__main__":
    command(run)
