"""Own: from documents to a verified, reversible edit of a model of one's own, with a report that can be shown.

Detect → verify what is memorised → calibrate the margins → unlearn → attack → report. Writes report.html and the edit
into one folder; neither they nor the row hold a secret. Where nothing is memorised, that is the report, and nothing is edited.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import asdict
from pathlib import Path

from revs import artefact, calibrate, integrity, load, methods, own, report, rows
from revs.data import split
from revs.detect import KINDS
from revs.experiments import command
from revs.experiments.memorise import prepared
from revs.experiments.unlearn import base
from revs.memory import Peak
from revs.paths import resolve
from revs.progress import Progress

MODULES = ["revs.experiments.own"]


def run(
    documents: str = "data/documents/files",  # a folder, a text file or JSON Lines with "text"; "$NAME" takes the path from the environment; "machine": what its packages carry
    secrets: str | None = None,  # a text file with the secrets to look for, one a line; None: Presidio finds them
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    finetune: bool | dict = True,  # instil the built-in sets first, which the documents above quote; false: the model as it is
    kinds: list = list(KINDS),  # email, url, phone, ip, ssn
    limit: int | None = None,  # secrets that are tried, at most
    forget: int | None = None,  # secrets to unlearn; None: all that are memorised. The others then show what it cost
    minutes: float | int = 5,  # that calibration may take
    hyperparameters: dict | None = None,  # REVS's settings; None: calibrate
    benchmarks: bool = False,  # also MMLU and GSM8K before and after (REVS_BENCHMARKS)
    seed: int = 0,
    dtype: str = "float32",
    device_map: str | None = None,
    out: str = "build/own",  # where report.html and edit.safetensors go
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Finds what a model memorised of some documents, unlearns it, attacks the result and writes a report; returns the row."""
    row = through(**locals())
    print(*report.lines(row), f"The report: {resolve(out) / 'report.html'}", sep="\n")
    return row


def through(**asked) -> dict:
    """All steps in order."""
    place, where = resolve(asked.pop("out")), rows.writable(resolve(asked.pop("rows")))
    place.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written to is noticed now
    for old in ("report.html", "edit.safetensors"):  # an edit must not lie beside the report of another run
        (place / old).unlink(missing_ok=True)
    own.check(asked["kinds"])
    if asked["forget"] is not None and asked["forget"] < 1:
        raise ValueError(f"forget is {asked['forget']}, but at least one secret must be unlearned; None unlearns all.")
    if asked["benchmarks"]:
        integrity.benchmarks()  # are they there?
    documents, secrets = (path and os.path.expandvars(path) for path in (asked["documents"], asked["secrets"]))
    if asked["hyperparameters"] is not None:
        given = own.Hyperparameters(**methods.hyperparameters("revs", base(asked["model"]), "", asked["hyperparameters"]))
    clock = [time.monotonic()]
    folder = prepared(asked["model"], "ssn", asked["finetune"], str(where))
    decoder = load.load(folder, asked["dtype"], asked["device_map"])
    if decoder.revision == "unknown":
        raise ValueError("Nothing pins the weights of this model, so that an edit of it could not be undone elsewhere: save it to a folder as safetensors, and name that.")
    clock.append(time.monotonic())
    found = own.find_memorized(decoder, documents, secrets, asked["kinds"], asked["limit"], progress=Progress("try", "secrets"))
    clock.append(time.monotonic())
    result = {"found": found.funnel, "skipped": found.skipped, "absent": len(found.absent), "memorised": len(found.targets)}
    seconds = dict(zip(("load", "find"), [b - a for a, b in zip(clock, clock[1:])]))
    items: list[dict] = []
    if found.targets:
        unlearned, kept = parts(found.targets, asked["forget"], asked["seed"])
        calibrated = None
        if asked["hyperparameters"] is not None:
            hp = given
        elif len(found.targets) < calibrate.LEAST:  # too few to try settings on
            hp = calibrate.settings(decoder, calibrate.START)
        else:
            calibrated = own.calibrate(decoder, found.targets, asked["minutes"], asked["seed"], progress=Progress("calibrate", "settings"))
            hp = calibrated.hp
        seconds["calibrate"] = calibrated.seconds if calibrated else 0.0
        start = time.monotonic()
        before = look(decoder, unlearned, kept, asked["benchmarks"])
        began = time.monotonic()
        with Peak() as peak, own.unlearn(decoder, unlearned, hp, Progress("unlearn", "tokens")) as edit:
            seconds["unlearn"] = time.monotonic() - began
            after = look(decoder, unlearned, kept, asked["benchmarks"])
            if edit.moves:
                artefact.write(place / "edit.safetensors", artefact.of(edit, hp, ranks(before), ranks(after)))
            result |= {"calibration": calibrated.tried if calibrated else [], "settings": asdict(hp), "edit": edit.summary(), "before": before["result"], "after": after["result"] | changed(before, after)}
        seconds["look"] = time.monotonic() - start - seconds["unlearn"]
        items = [item(number, found.places[target.id], target, unlearned, before, after) for number, target in enumerate(unlearned + kept, 1)]
        edit.undo()
    inputs = {"model": load.identify(folder), "secrets": rows.digest([target.id for target in found.targets])}
    made = rows.provenance(MODULES, asked | {"documents": "", "secrets": None}, inputs, seconds) | {  # a path may hold a secret
        "model": {"name": base(asked["model"]), "revision": inputs["model"], "dtype": asked["dtype"]},
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
    } | ({"extra_memory_mb": peak.mb} if found.targets else {})
    row = rows.write(where, f"own/{place.name}/{base(asked['model'])}", "own", result, items, made)
    report.write(place / "report.html", row, items)
    return row


def parts(targets: list, forget: int | None, seed: int) -> tuple[list, list]:
    """What is unlearned, and what is kept to be looked at: nothing, if all is to be forgotten."""
    if forget is None or forget >= len(targets):
        return targets, []
    drawn = split(targets, seed, forget)
    return drawn.forget, drawn.retain


def look(decoder, unlearned: list, kept: list, benchmarks: bool) -> dict:
    """Everything that is measured before and after: by secret, by attack, and elsewhere."""
    attacked, depths = own.attack(decoder, unlearned)
    secrets = own.evaluate(decoder, unlearned + kept)
    perplexity = own.perplexity(decoder)
    elsewhere = {"perplexity": perplexity if math.isfinite(perplexity) else None} | ({name: part for name, part in integrity.measure(decoder, None)[0].items() if name != "perplexity"} if benchmarks else {})
    result = {"written": sum(secrets[target.id]["within_50"] for target in unlearned), "kept": sum(secrets[target.id]["exact"] for target in kept), "attacks": attacked, "elsewhere": elsewhere}
    return {"secrets": secrets, "depths": depths, "next": own.next_tokens(decoder), "result": result}


def changed(before: dict, after: dict) -> dict:
    """The share of places in a benign text at which the most probable next token is another now."""
    return {"changed": sum(a != b for a, b in zip(before["next"], after["next"])) / len(before["next"])}


def ranks(state: dict) -> dict[str, list[int]]:
    """By id, the ranks of a secret's tokens."""
    return {id: one["ranks"] for id, one in state["secrets"].items()}


def item(number: int, place: dict, target, unlearned: list, before: dict, after: dict) -> dict:
    """One secret's line in the row, redacted."""
    states = {"before": before, "after": after}
    found = {"number": number, **place, "part": "unlearned" if target in unlearned else "kept", "tokens": len(target.T)}
    found |= {f"{name}_{when}": state["secrets"][target.id][name] for name in ("lowest", "exact", "within_50") for when, state in states.items()}
    return found | {f"logit_lens_{when}": state["depths"].get(target.id, {}).get("logit_lens") for when, state in states.items()}


if __name__ == "__main__":
    command(run)
