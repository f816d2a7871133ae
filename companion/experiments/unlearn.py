"""Unlearn: one method on one data set and one split, measured before and after (§4.5).

All in one process: the edited model never touches the disk. A finished run whose settings, inputs
and versions are unchanged is not repeated.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import torch

from companion.data import adapters, datasets, models
from companion.experiments import memory, methods
from companion.experiments.command import command, progress
from companion.experiments.provenance import provenance
from companion.experiments.settings import Unlearn as Settings
from companion.experiments.settings import base
from companion.store import rows
from companion.store.paths import BUILD, resolve
from revs.measures import evaluate, general_text
from revs.method.edit import Edit
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode, select, split
from revs.model.text import text_inputs, token_ids

VERSION = 1

OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
FAILURES = (FloatingPointError, ValueError, torch.linalg.LinAlgError, *OUT_OF_MEMORY)


def run(settings: Settings) -> dict:
    """Unlearn half of a data set with one method, measure the effect and return the row."""
    resolved = resolve_run(settings)
    row = resolved.finished_row() or resolved.measure(LoadedModel(resolved))
    print(summary(row))
    return row


def summary(row: dict) -> str:
    """The run in one line, with what the model knew before."""
    after, seconds = row["result"]["after"], row["seconds"]["unlearn"]
    known = 100 * row["result"]["before"]["specificity"]
    names = ("efficacy", "generalization", "specificity", "unlearning_score")
    scores = [f"{name} {100 * after[name]:.1f}" for name in names if after[name] is not None]
    said = f"{row['name']}: {', '.join(scores)}; unlearning took {seconds:.0f} s"
    return f"{said}; before it the model wrote {known:.0f} per cent of the secrets to keep."


@dataclass(frozen=True)
class Run:
    """A run with resolved settings: what it will do, and which row it will write."""

    kind: str  # of the row
    folder: Path
    name: str
    tag: str
    overrides: dict
    settings: dict  # as the row has them, hyperparameters included
    method: ModuleType
    hp: object  # the method's Hyperparameters
    measures: dict[str, Callable]
    records: list[Record]
    inputs: dict
    model: str  # what is loaded: a name or a folder

    def trial(self, number: int, hyperparameters: dict) -> Run:
        """The same run with other hyperparameters, under a name and tag with a number."""
        hyperparameters = methods.fixed_settings(self.settings["method"]) | hyperparameters
        return replace(
            self,
            name=f"{self.name}{number:02d}",
            tag=f"{self.tag}{number:02d}",
            overrides={"trial": number},
            settings=self.settings | {"hyperparameters": hyperparameters},
            hp=self.method.Hyperparameters(**hyperparameters),
        )

    def arguments(self, decoder: Decoder) -> dict:
        """Return a method's optional arguments: the folder of its cache, and the texts to protect.
        ValueError if there are texts to protect and the method cannot."""
        takes, given = inspect.signature(self.method.unlearn).parameters, {}
        if "cache" in takes:
            given["cache"] = BUILD / "cache"
        if self.settings["protect"]:
            if "protect" not in takes:
                said = f"{self.settings['method']} cannot spare texts: leave protect out."
                raise ValueError(said)
            records = datasets.read(self.settings["protect"])
            given["protect"] = [(token_ids(decoder.tokenizer, one.text), 0) for one in records]
        return given

    def finished_row(self) -> dict | None:
        """Return the row of this run if it is finished and current, else None."""
        path = self.folder / f"{self.name}.json"
        return rows.current(path, self.kind, self.settings, self.inputs)

    def measure(self, loaded: LoadedModel, restore: bool = False) -> dict:
        """Unlearn, measure, write and return the row; ``restore`` then undoes the edit.

        A run that fails leaves a row with the reason, unless there is one with a result, and raises
        ValueError, FloatingPointError or MemoryError.
        """
        torch.manual_seed(self.settings["seed"])
        edit, seconds, start = Edit(loaded.decoder), {}, time.monotonic()
        about = loaded.split.forget, self.hp, self.settings["seed"]
        try:
            more = self.arguments(loaded.decoder)
            with memory.Peak() as peak:
                show = progress(self.name.split("/", 1)[1])
                edit = self.method.unlearn(loaded.decoder, *about, show, **more)
            seconds["unlearn"] = time.monotonic() - start
            result, values = effects(self, loaded, edit, seconds)
        except FAILURES as error:
            edit.undo()
            self.fail(loaded.decoder, error, {"unlearn": time.monotonic() - start})
        if restore:
            edit.undo()
        return self.write(loaded.decoder, result, values, loaded.seconds | seconds, peak.mb)

    def fail(self, decoder: Decoder, error: Exception, seconds: dict) -> NoReturn:
        """Write a row that says why the run failed, unless there is one with a result; raise it."""
        if isinstance(error, OUT_OF_MEMORY):
            remedy = "give it a larger machine, a smaller batch, or bfloat16 weights"
            error = MemoryError(f"{self.settings['method']} ran out of memory: {remedy}.")
        elif isinstance(error, torch.linalg.LinAlgError):
            error = FloatingPointError(str(error))
        earlier = rows.kept(self.folder / f"{self.name}.json")
        if not earlier or "failed" in earlier["result"]:
            self.write(decoder, {"failed": str(error)}, [], seconds, None)
        raise error from None

    def write(
        self, decoder: Decoder, result: dict, values: list, seconds: dict, mb: int | None
    ) -> dict:
        """Write the row of this run and return it."""
        made = provenance(self.kind, self.settings, self.inputs, seconds, decoder)
        made |= {"extra_memory_mb": mb}
        about = self.folder, self.name, self.kind
        return rows.write(*about, result, values, made, self.tag, self.overrides)


def resolve_run(settings: Settings) -> Run:
    """Resolve and check a run's settings, before its model is loaded."""
    kept = settings.model_dump()
    tag, overrides, folder = kept.pop("tag"), kept.pop("overrides") or {}, kept.pop("rows")
    folder, data, model = rows.writable(resolve(folder)), Path(settings.data).stem, settings.model
    given = settings.hyperparameters or {}
    kept["hyperparameters"] = methods.hyperparameters(settings.method, base(model), data, given)
    method = methods.method(settings.method)
    hp = method.Hyperparameters(**kept["hyperparameters"])
    measures = {name: methods.measure(name) for name in settings.measures}
    records = datasets.read(settings.data)
    split(records, settings.seed, settings.forget, settings.sentences, datasets.kept(records))
    select([], [], 0, settings.tokens, seed="")
    inputs = {"data": datasets.fingerprint(records)} | text_inputs()
    if settings.protect:
        inputs["protect"] = datasets.fingerprint(datasets.read(settings.protect))
    for measured in settings.measures:
        inputs |= methods.measure_inputs(measured)
    memory.check(kept)
    prepared = adapters.adapted(model, settings.adapter)
    inputs |= {"model": models.identify(prepared)}
    if settings.adapter:
        inputs |= {"adapter": adapters.fingerprint(settings.adapter)}
    return Run(
        kind="unlearn",
        folder=folder,
        name=settings.row_name,
        tag=tag,
        overrides=overrides,
        settings=kept,
        method=method,
        hp=hp,
        measures=measures,
        records=records,
        inputs=inputs,
        model=prepared,
    )


class LoadedModel:
    """A loaded model, its split and the ranks before the edit; several runs can share it."""

    def __init__(self, resolved: Run):
        settings, clock = resolved.settings, [time.monotonic()]
        self.decoder = models.load(resolved.model, settings["dtype"], settings["device_map"])
        how = self.decoder.tokenizer, settings["T"], settings["tokens"]
        targets = [encode(record, *how) for record in resolved.records]
        drawn = (settings[name] for name in ("seed", "forget", "sentences"))
        self.split = split(targets, *drawn, keep=datasets.kept(resolved.records))
        clock.append(time.monotonic())
        ranks = self.ranks_before(resolved, targets)
        self.before, _ = evaluate.effectiveness(self.split, ranks, settings["score_k"])
        self.predictions = None
        if "general_text" in resolved.measures:
            self.predictions = general_text.predictions(self.decoder, keep=True)
        clock.append(time.monotonic())
        self.seconds = {"load": clock[1] - clock[0], "evaluate_before": clock[2] - clock[1]}

    def ranks_before(self, resolved: Run, targets: list[Target]) -> dict[str, list[int]]:
        """Return the ranks before the edit, cached: every method, seed and setting has the same."""
        about = [VERSION, resolved.settings["dtype"], str(self.decoder.device)]
        about += [resolved.inputs["data"], resolved.inputs["model"]]
        key = rows.digest([*about, load.tokenizer_hash(self.decoder.tokenizer)])
        kept = BUILD / "cache" / f"ranks-{key[:16]}.json"
        if not kept.is_file():
            rows.write_file(kept, json.dumps(evaluate.secret_ranks(self.decoder, targets)))
        return json.loads(kept.read_text(encoding="utf-8"))


def effects(
    resolved: Run, loaded: LoadedModel, edit: Edit, seconds: dict
) -> tuple[dict, list[dict]]:
    """Measure the edited model, effectiveness first: return the result and the values by example,
    and add the time of each to ``seconds``."""
    decoder, split, k = loaded.decoder, loaded.split, resolved.settings["score_k"]
    start = time.monotonic()
    ranks = evaluate.secret_ranks(decoder, split.forget + split.unseen + split.retain)
    inexact = [target for target in split.retain if any(ranks[target.id])]
    generate = resolved.settings["generate"]
    written = evaluate.continuations(decoder, inexact) if generate else None
    after, values = evaluate.effectiveness(split, ranks, k, written)
    result = {"before": loaded.before, "after": after, "edit": edit.summary()}
    seconds["evaluate_after"] = time.monotonic() - start
    for name, measure in resolved.measures.items():
        needs_before = "before" in inspect.signature(measure).parameters
        more = {"before": loaded.predictions} if needs_before else {}
        result[name], columns = measure(decoder, split, k, **more)
        nothing = dict.fromkeys(next(iter(columns.values()), {}))
        values = [one | columns.get(one["id"], nothing) for one in values]
    if resolved.measures:
        seconds["measures"] = time.monotonic() - start - seconds["evaluate_after"]
    return rows.finite(result), values


if __name__ == "__main__":
    command(Settings, run)
