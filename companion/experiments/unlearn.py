"""Unlearn: one method on one data set and one split, measured before and after (§4.5).

All in one process: the edited model never touches the disk. A finished run whose settings, inputs
and code are unchanged is not repeated.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import ModuleType

import torch

from companion.data import datasets, models
from companion.experiments import command, memory, methods
from companion.experiments.finetune import prepared
from companion.experiments.progress import progress
from companion.experiments.provenance import base, provenance
from companion.store import rows, stamps
from companion.store.paths import BUILD, resolve
from revs.measures import evaluate
from revs.method.edit import Edit
from revs.model import load
from revs.model.targets import Record, Target, encode, select, split
from revs.model.text import text_inputs

MOMENTS = BUILD / "cache"  # MEMIT's are computed once for a model
OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
FAILURES = (FloatingPointError, ValueError, torch.linalg.LinAlgError, *OUT_OF_MEMORY)


@dataclass(frozen=True)
class Settings:
    """What is unlearned, of which model, by which method, and what is measured."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn"  # a built-in set or a JSON Lines file
    finetune: bool | dict = True  # memorise first (settings of that); False: the model knows them
    method: str = "revs"  # a name of params/methods.yml
    seed: int = 1  # draws what is forgotten and what is kept
    forget: int | None = None  # secrets to forget; None: half
    sentences: int | None = None  # of a secret, measured besides the unlearned one; None: all
    T: int = 2  # target tokens of a secret
    tokens: str = "rarest"  # how they are chosen: rarest, frequent, first, random
    score_k: int = 100  # k of Score@k
    generate: bool = True  # also look for retained secrets in 50 greedy tokens
    measures: list[str] = field(default_factory=list)  # what else is measured, such as attacks
    hyperparameters: dict | None = None  # laid over those of params/hyperparameters.yml
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    tag: str = ""  # added to the row's name
    varied: dict | None = None  # what a profile varies, for the row
    rows: str = "build/rows"  # where the result row goes


def run(settings: Settings) -> dict:
    """Unlearns half of a data set with one method and measures what that did; returns the row."""
    plan = planned(settings)
    row = plan.current() or plan.measure(Stage(plan))
    print(report(row))
    return row


def report(row: dict) -> str:
    """The run in one line."""
    after, seconds = row["result"]["after"], row["provenance"]["seconds"]["unlearn"]
    names = ("efficacy", "generalization", "specificity", "unlearning_score")
    scores = [f"{name} {100 * after[name]:.1f}" for name in names if after[name] is not None]
    return f"{row['name']}: {', '.join(scores)}; unlearning took {seconds:.0f} s."


@dataclass(frozen=True)
class Plan:
    """A run whose settings are resolved: what will be done, and what row that makes."""

    where: Path
    name: str
    tag: str
    varied: dict
    settings: dict  # as the row has them
    method: ModuleType
    hp: object  # the method's Hyperparameters
    measures: dict[str, Callable]
    records: list[Record]
    inputs: dict
    folder: str = ""  # the model to unlearn from

    def trial(self, number: int, hyperparameters: dict) -> Plan:
        """The same run with other hyperparameters, under a name and tag with a number."""
        return replace(
            self,
            name=f"{self.name}{number:02d}",
            tag=f"{self.tag}{number:02d}",
            varied={"trial": number},
            settings=self.settings | {"hyperparameters": hyperparameters},
            hp=self.method.Hyperparameters(**hyperparameters),
        )

    def options(self) -> dict:
        """What a method takes beside its settings: a folder in which MEMIT's moments are kept."""
        takes = inspect.signature(self.method.unlearn).parameters
        return {"cache": MOMENTS} if "cache" in takes else {}

    def existing(self) -> dict | None:
        """The row of this name that has a result."""
        row = rows.kept(self.where / f"{self.name}.json")
        return row if row and "failed" not in row["result"] else None

    def current(self) -> dict | None:
        """The finished row of this very run, if there is one."""
        row, stamp = self.existing(), stamps.stamp("unlearn", self.settings, self.inputs)
        return row if row and row["provenance"]["stamp"] == stamp else None

    def measure(self, stage: Stage, restore: bool = False) -> dict:
        """Unlearns, measures, writes the row; ``restore`` puts the model back after that.

        A run that fails leaves a row that says why, unless there is one with a result, and raises
        ValueError, FloatingPointError or MemoryError.
        """
        torch.manual_seed(self.settings["seed"])
        edit, seconds, start = Edit(stage.decoder), {}, time.monotonic()
        about = stage.split.forget, self.hp, self.settings["seed"]
        try:
            with memory.Peak() as peak:
                shown = progress(self.name.split("/", 1)[1])
                edit = self.method.unlearn(stage.decoder, *about, shown, **self.options())
            seconds["unlearn"] = time.monotonic() - start
            result, items = effect(self, stage, edit, seconds)
        except FAILURES as error:
            edit.undo()
            said = failure(error, self.settings["method"])
            if not self.existing():
                seconds = {"unlearn": time.monotonic() - start}
                self.write(stage, {"failed": str(said)}, [], seconds, None)
            raise said from None
        if restore:
            edit.undo()
        return self.write(stage, result, items, stage.seconds | seconds, peak.mb)

    def write(self, stage: Stage, result: dict, items: list, seconds: dict, mb: int | None) -> dict:
        """The row of this run."""
        made = provenance("unlearn", self.settings, self.inputs, seconds, stage.decoder)
        made |= {"extra_memory_mb": mb}
        about = self.where, self.name, "unlearn"
        return rows.write(*about, result, items, made, self.tag, self.varied)


def planned(settings: Settings) -> Plan:
    """A run's settings resolved and checked before anything is loaded; then its model memorised."""
    kept = asdict(settings)
    tag, varied, where = kept.pop("tag"), kept.pop("varied") or {}, kept.pop("rows")
    where, short, model = rows.writable(resolve(where)), Path(settings.data).stem, settings.model
    given = settings.hyperparameters or {}
    kept["hyperparameters"] = methods.hyperparameters(settings.method, base(model), short, given)
    method = methods.method(settings.method)
    hp = method.Hyperparameters(**kept["hyperparameters"])
    measures = {name: methods.measure(name) for name in settings.measures}
    name = f"unlearn/{short}/{base(model)}/{settings.method}-seed{settings.seed}-{tag}".rstrip("-")
    records = datasets.read(settings.data)
    split(records, settings.seed, settings.forget, settings.sentences, datasets.kept(records))
    select([], [], 0, settings.tokens, seed="")
    inputs = {"data": datasets.fingerprint(records)} | text_inputs()
    memory.check(kept)
    folder = prepared(model, settings.data, settings.finetune, str(where))
    inputs |= {"model": models.identify(folder)}
    return Plan(where, name, tag, varied, kept, method, hp, measures, records, inputs, folder)


class Stage:
    """A loaded model, its split and the ranks before the edit; several runs can share it."""

    def __init__(self, plan: Plan):
        settings, clock = plan.settings, [time.monotonic()]
        self.decoder = models.load(plan.folder, settings["dtype"], settings["device_map"])
        how = self.decoder.tokenizer, settings["T"], settings["tokens"]
        targets = [encode(record, *how) for record in plan.records]
        drawn = (settings[name] for name in ("seed", "forget", "sentences"))
        self.split = split(targets, *drawn, keep=datasets.kept(plan.records))
        clock.append(time.monotonic())
        ranks = self.unedited(plan, targets)
        self.before, _ = evaluate.effectiveness(self.split, ranks, settings["score_k"])
        clock.append(time.monotonic())
        self.seconds = {"load": clock[1] - clock[0], "evaluate_before": clock[2] - clock[1]}

    def unedited(self, plan: Plan, targets: list[Target]) -> dict[str, list[int]]:
        """Ranks before the edit: the same for every method, seed and setting, and so kept."""
        code = stamps.reached(stamps.RANKS, "revs.model.targets:encode")
        about = plan.settings["dtype"], plan.inputs["data"], plan.inputs["model"]
        key = rows.digest([code, *about, load.tokenizer_hash(self.decoder.tokenizer)])
        kept = BUILD / "cache" / f"ranks-{key[:16]}.json"
        if not kept.is_file():
            rows.write_text(kept, json.dumps(evaluate.secret_ranks(self.decoder, targets)))
        return json.loads(kept.read_text(encoding="utf-8"))


def effect(plan: Plan, stage: Stage, edit: Edit, seconds: dict) -> tuple[dict, list[dict]]:
    """What the edited model does, and how many ``seconds`` it took to see.

    Its effectiveness first, then what ``measures`` asks for.
    """
    decoder, split, k = stage.decoder, stage.split, plan.settings["score_k"]
    start = time.monotonic()
    ranks = evaluate.secret_ranks(decoder, split.forget + split.unseen + split.retain)
    inexact = [target for target in split.retain if any(ranks[target.id])]
    written = evaluate.continuations(decoder, inexact) if plan.settings["generate"] else None
    after, items = evaluate.effectiveness(split, ranks, k, written)
    result = {"before": stage.before, "after": after, "edit": edit.summary()}
    seconds["evaluate_after"] = time.monotonic() - start
    for name, measure in plan.measures.items():
        result[name], columns = measure(decoder, split, k)
        nothing = dict.fromkeys(next(iter(columns.values()), {}))
        items = [item | columns.get(item["id"], nothing) for item in items]
    if plan.measures:
        seconds["measures"] = time.monotonic() - start - seconds["evaluate_after"]
    return rows.finite(result), items


def failure(error: Exception, method: str) -> Exception:
    """The error to raise for what a method ended with."""
    if isinstance(error, OUT_OF_MEMORY):
        mend = "give it a larger machine, a smaller batch, or bfloat16 weights"
        return MemoryError(f"{method} ran out of memory: {mend}.")
    singular = isinstance(error, torch.linalg.LinAlgError)
    return FloatingPointError(str(error)) if singular else error


if __name__ == "__main__":
    command(Settings, run)
