"""From documents to a verified, reversible edit of a model of one's own, with a report.

Detect → verify what is memorised → choose settings → unlearn → judge and attack → report. It ends
in one of three ways: nothing is memorised; unlearned, at a cost within the limits; no setting was
found that forgets and keeps, and nothing is written but the report. Neither report, edit nor row
hold a secret.
"""

from __future__ import annotations

import os
import time
from dataclasses import fields
from pathlib import Path

from companion.data import models
from companion.experiments import memory, methods
from companion.experiments.command import command, progress
from companion.experiments.provenance import base, provenance
from companion.experiments.settings import Documents as Settings
from companion.store import rows
from companion.store.paths import alone, resolve
from document_audit import audit, edit_file, report
from document_audit.export import export
from document_audit.memorization import check, lines_of, there
from document_audit.settings_search import Limits
from revs.method.selection import mean_activation
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import split
from revs.model.text import text_inputs

VERSION = 1

FILES = ("report.html", "edit.safetensors")


def run(settings: Settings) -> dict:
    """Finds what a model memorised of some documents, unlearns it and writes a report."""
    asked, place = settings.model_dump(), resolve(settings.out)
    where = rows.writable(resolve(settings.rows))
    given, limits = checked_settings(settings)
    with alone(place, "name another folder with out"):
        start = time.monotonic()
        folder = models.adapted(settings.model, settings.adapter)
        decoder = loaded(folder, settings)
        inputs = {"model": decoder.revision}
        seconds = {"load": time.monotonic() - start}
        found = audit.find_memorized(
            decoder,
            *(expanded(name, asked[name]) for name in ("documents", "secrets")),
            settings.kinds,
            settings.limit,
            tokens=settings.tokens,
            progress=progress("try", "batches"),
        )
        seconds["find"] = time.monotonic() - start - seconds["load"]
        result, items, made, more = *audit.outcome(found), None, {}
        print(report.found(result), flush=True)
        if found.targets:
            result, items, made, more = edited(decoder, found, settings, given, limits, seconds)
        inputs |= {"secrets": rows.digest([target.id for target in found.targets])}
        asked |= {"documents": "", "secrets": None}  # a path may hold a secret
        kept = {name: asked[name] for name in asked if name not in ("out", "export", "rows")}
        how = provenance("documents", kept, inputs | text_inputs(), seconds, decoder) | more
        name = f"documents/{place.resolve().name}/{base(settings.model)}"
        row = rows.write(where, name, "documents", result, items, how)
        keep(place, made)
        report.write(place / "report.html", row, items)
    print(report.verdict(row["result"]), f"The report: {place / 'report.html'}", sep="\n")
    return row


def checked_settings(settings: Settings) -> tuple[audit.Hyperparameters | None, Limits]:
    """REVS's settings, if given, and the limits; what is wrong is said before a model is read."""
    check(settings.kinds, settings.tokens)
    if settings.export:
        folder = resolve(settings.export).resolve()
        if folder.exists():
            raise ValueError("The folder that export names is there already: name one that is not.")
        if folder in (out := resolve(settings.out).resolve(), *out.parents):
            raise ValueError("export names the folder of out, or one around it: name another.")
        rows.writable(folder.parent)
    documents, secrets = (
        expanded(name, getattr(settings, name)) for name in ("documents", "secrets")
    )
    there(documents)
    if secrets:
        lines_of(secrets)
    memory.check(settings.model_dump())
    limits = Limits(**{one.name: getattr(settings, one.name) for one in fields(Limits)})
    fixed = settings.fixed or {}
    room = {"n_max": 1, "k": 10**9}  # for any of the two that is held alone
    tried = methods.hyperparameters("revs", base(settings.model), "", room | fixed)
    audit.Hyperparameters(**tried)
    if settings.hyperparameters is None:
        return None, limits
    given = methods.hyperparameters("revs", base(settings.model), "", settings.hyperparameters)
    return audit.Hyperparameters(**given), limits


def expanded(name: str, path: str | None) -> str | None:
    """A path, or what the variable of the environment holds that stands for it."""
    if path and path.startswith("$") and os.path.expandvars(path) == path:
        raise ValueError(
            f"The environment has no such variable as {name} names: export it, or give the path."
        )
    if path and not os.path.expandvars(path):
        raise ValueError(
            f"The variable of the environment that {name} names is empty: set it to the path."
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
    found: audit.Found,
    settings: Settings,
    hp: audit.Hyperparameters | None,
    limits: Limits,
    seconds: dict,
) -> tuple[dict, list[dict], edit_file.Artefact | None, dict]:
    """Unlearns what was found; what that changed, and the edit, if it is a success or asked for.

    Where every secret is to be unlearned, the second half says what the first one's unlearning
    costs, before its own turn. Half of what is kept has a part in choosing, and half has none.
    """
    first, second, kept = parts(found.targets, settings.forget, settings.seed)
    start, chosen = time.monotonic(), None
    if hp is None:
        retain, _ = halves(kept or second, settings.seed)
        about = limits, settings.minutes, settings.trials, settings.seed, settings.fixed
        chosen = audit.calibrate(
            decoder, first, retain, found.near, *about, progress("choose", "settings")
        )
        hp = chosen.hp
        if not (chosen.reached or settings.anyway):
            seconds["calibrate"] = time.monotonic() - start
            return *audit.outcome(found, calibration=chosen), None, {}
    seconds["calibrate"] = time.monotonic() - start
    start = time.monotonic()
    print("judge: before …", flush=True)
    before = audit.observe(decoder, first + second, kept, found.near)
    began, halfway = time.monotonic(), None
    how = {"progress": progress("unlearn", "tokens")}
    how |= {"mean_activation": mean_activation(decoder)} if hp.neurons == "selective" else {}
    with memory.Peak() as peak, audit.unlearn(decoder, first, hp, **how) as edit:
        if second:
            looks = before.secrets, audit.evaluate(decoder, second)
            wrote = [{one.group for one in second if look[one.id]["exact"]} for look in looks]
            halfway = tuple(map(len, wrote))
            edit.take(audit.unlearn(decoder, second, hp, **how))
        seconds["unlearn"] = time.monotonic() - began
        print("judge: after …", flush=True)
        after = audit.observe(decoder, first + second, kept, found.near)
        change = audit.Change(before, after, edit, hp, chosen, limits, halfway)
        result, items = audit.outcome(found, change)
        seconds["look"] = time.monotonic() - start - seconds["unlearn"]
        made = None
        if edit.moves and (settings.anyway or result["outcome"] == audit.UNLEARNED):
            made = edit_file.of(edit, hp, before.ranks(), after.ranks())
        if made and settings.export:
            export(decoder, resolve(settings.export), made)
    edit.undo()
    return result | {"written": bool(made)}, items, made, {"extra_memory_mb": peak.mb}


def parts(targets: list, forget: int | None, seed: int) -> tuple[list, list, list]:
    """What is unlearned, first and then, and what is kept: every place of each secret."""
    groups = {target.group for target in targets}
    if forget is None or forget >= len(groups):
        return *halves(targets, seed), []
    drawn = split(targets, seed, forget)
    return drawn.forget + drawn.unseen, [], drawn.retain


def halves(targets: list, seed: int) -> tuple[list, list]:
    """All places of half of the secrets, of the larger half if there are two, and of the others."""
    groups = len({target.group for target in targets})
    if groups < 2:
        return targets, []
    drawn = split(targets, seed, -(-groups // 2))
    return drawn.forget + drawn.unseen, drawn.retain


def keep(place: Path, made: edit_file.Artefact | None) -> None:
    """Writes this run's edit in the place of an earlier run's, of which nothing is left.

    Its report goes first, since no edit may lie beside the report of another run.
    """
    report_, edit = (place / name for name in FILES)
    report_.unlink(missing_ok=True)
    if made:
        edit_file.write(edit, made)
    elif edit.exists():
        edit.unlink()
        print(f"{edit}, an earlier run's, is removed: this run made none.")


if __name__ == "__main__":
    command(Settings, run)
