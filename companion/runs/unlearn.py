"""Unlearn: one method on one data set and one split, measured before and after, in one process (§4.5).

The edited model never touches the disk. A finished run whose settings, inputs and code are unchanged is not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch

from companion.record import rows, stamps
from companion.record.paths import BUILD, resolve
from companion.runs import command, datasets, methods, models
from companion.runs.memorise import prepared
from companion.runs.memory import Peak
from companion.runs.progress import Progress
from revs.baselines import memit
from revs.measures import evaluate
from revs.method.edit import Edit
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode, split

memit.CACHE = BUILD / "cache"  # moments are computed once for a model
FAILURES = (
    FloatingPointError,
    ValueError,
    MemoryError,
    torch.OutOfMemoryError,
    torch.linalg.LinAlgError,
)  # what a method may end with


def run(
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn",  # a built-in set or a JSON Lines file
    finetune: bool
    | dict = True,  # instil the data first; settings of companion.runs.memorise, or false if the model knows them
    method: str = "revs",  # a name of params/methods.yml
    seed: int = 1,  # draws what is forgotten and what is kept
    forget: int | None = None,  # secrets to forget; None: half
    sentences: int
    | None = None,  # sentences of a secret that are measured besides the unlearned one; None: all
    T: int = 2,  # target tokens of a secret
    tokens: str = "rarest",  # how they are chosen: rarest, frequent, first, random
    score_k: int = 100,  # k of Score@k
    generate: bool = True,  # also look for retained secrets in 50 greedy tokens
    measures: list = [],  # what else is measured on the edited model, by module: attacks
    hyperparameters: dict | None = None,  # instead of those of params/hyperparameters.yml
    n_max: int | None = None,  # REVS's own, one by one
    k: int | None = None,
    r_h: int | float | None = None,
    eps_r_h: int | float | None = None,
    r_n: int | float | None = None,
    eps_r_n: int | float | None = None,
    dtype: str = "float32",
    device_map: str | None = None,
    tag: str = "",  # added to the row's name
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Unlearns half of a data set with one method and measures what that did; returns the row."""
    row = once(**locals())
    print(report(row))
    return row


def once(**settings) -> dict:
    """The row of a run: the one that is there if it is current, else a new one."""
    where = rows.writable(resolve(settings.pop("rows")))
    plan = planned(where, settings)
    return plan.current() or plan.measure(Stage(plan))


@dataclass(frozen=True)
class Plan:
    """A run whose settings are resolved: what will be written, and where."""

    where: Path
    name: str
    tag: str
    settings: dict
    method: ModuleType
    records: list[Record]
    inputs: dict
    measures: dict[str, Callable]
    hp: object = None  # the method's Hyperparameters
    folder: str = ""  # the model to unlearn from

    def current(self) -> dict | None:
        """The finished row of this very run, if there is one."""
        path = self.where / f"{self.name}.json"
        if path.is_file():
            row = rows.read(path)
            if (
                row["provenance"]["stamp"] == stamps.stamp("unlearn", self.settings, self.inputs)
                and "failed" not in row["result"]
            ):
                return row
        return None

    def varied(self, hyperparameters: dict, tag: str) -> Plan:
        """The same run with other hyperparameters, under another name."""
        name = f"{self.name.removesuffix(f'-{self.tag}')}-{tag}"
        return replace(
            self, name=name, tag=tag, settings=self.settings | {"hyperparameters": hyperparameters}
        ).ready()

    def ready(self) -> Plan:
        """With the method's hyperparameters made; impossible ones leave a row that says so, and raise ValueError."""
        try:
            return replace(self, hp=self.method.Hyperparameters(**self.settings["hyperparameters"]))
        except ValueError as error:
            self.fail(str(error), {})
            raise

    def measure(self, stage: Stage, restore: bool = False) -> dict:
        """Unlearns, measures, writes the row. A run that fails writes a row that says why, and raises FloatingPointError or MemoryError."""
        torch.manual_seed(self.settings["seed"])
        start, edit = time.monotonic(), Edit(stage.decoder)
        try:
            with Peak() as peak:
                edit = self.method.unlearn(
                    stage.decoder,
                    stage.split.forget,
                    self.hp,
                    self.settings["seed"],
                    Progress(f"{self.name.split('/', 1)[1]}", "steps"),
                )
            seconds = {"unlearn": time.monotonic() - start}
            result, items = self.after(stage, edit, seconds)
        except FAILURES as error:
            edit.undo()
            raise self.failure(error, time.monotonic() - start, stage) from None
        if restore:
            edit.undo()
        return self.write(stage, result, items, stage.seconds | seconds, peak.mb)

    def after(self, stage: Stage, edit: Edit, seconds: dict[str, float]) -> tuple[dict, list[dict]]:
        """What the edited model does: its effectiveness, then what ``measures`` asks for. ``seconds`` gets how long they took."""
        decoder, split, k, start = (
            stage.decoder,
            stage.split,
            self.settings["score_k"],
            time.monotonic(),
        )
        ranks = evaluate.secret_ranks(decoder, split.forget + split.unseen + split.retain)
        written = (
            evaluate.continuations(
                decoder, [target for target in split.retain if any(ranks[target.id])]
            )
            if self.settings["generate"]
            else None
        )
        effect, items = evaluate.effectiveness(split, ranks, k, written)
        result = {"before": stage.before, "after": effect, "edit": edit.summary()}
        seconds["evaluate_after"] = time.monotonic() - start
        for name, measure in self.measures.items():
            result[name], columns = measure(decoder, split, k)
            items = [
                item | columns.get(item["id"], dict.fromkeys(next(iter(columns.values()), {})))
                for item in items
            ]
        if self.measures:
            seconds["measures"] = time.monotonic() - start - seconds["evaluate_after"]
        return result, items

    def failure(self, error: Exception, seconds: float, stage: Stage) -> Exception:
        """The error to raise for a run that failed, whose row is written."""
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            error = MemoryError(
                f"{self.settings['method']} ran out of memory: give it a larger machine, a smaller batch, or bfloat16 weights."
            )
        elif isinstance(error, torch.linalg.LinAlgError):
            error = FloatingPointError(str(error))
        self.fail(str(error), {"unlearn": seconds}, stage)
        return error

    def fail(self, why: str, seconds: dict, stage: Stage | None = None) -> None:
        """A row that says why there is no result; it never takes the place of a row that has one."""
        path = self.where / f"{self.name}.json"
        if not path.is_file() or "failed" in rows.read(path)["result"]:
            self.write(stage, {"failed": why}, [], seconds, None)

    def write(
        self,
        stage: Stage | None,
        result: dict,
        items: list[dict],
        seconds: dict,
        extra_mb: int | None,
    ) -> dict:
        """The row of this run."""
        made = rows.provenance("unlearn", self.settings, self.inputs, seconds) | {
            "model": {
                "name": base(self.settings["model"]),
                "revision": self.inputs.get("model", "not read"),
                "dtype": self.settings["dtype"],
            },
            "tokenizer": load.tokenizer_hash(stage.decoder.tokenizer) if stage else "not read",
            "extra_memory_mb": extra_mb,
        }
        return rows.write(self.where, self.name, "unlearn", result, items, made)


class Stage:
    """A loaded model with its split and the ranks before the edit: several runs can share it, one after the other."""

    def __init__(self, plan: Plan, decoder: Decoder | None = None):
        settings, clock = plan.settings, [time.monotonic()]
        self.decoder = decoder or models.load(plan.folder, settings["dtype"], settings["device_map"])
        targets = [
            encode(record, self.decoder.tokenizer, settings["T"], settings["tokens"])
            for record in plan.records
        ]
        self.split = split(
            targets, settings["seed"], settings["forget"], settings["sentences"]
        )
        clock.append(time.monotonic())
        ranks = self.unedited(plan, targets)
        self.before, _ = evaluate.effectiveness(self.split, ranks, settings["score_k"])
        clock.append(time.monotonic())
        self.seconds = dict(
            zip(("load", "evaluate_before"), [b - a for a, b in zip(clock, clock[1:])])
        )

    def unedited(self, plan: Plan, targets: list[Target]) -> dict[str, list[int]]:
        """Ranks before the edit: the same for every method, seed and setting, and therefore kept by content."""
        key = rows.digest(
            [
                stamps.reached(stamps.RANKS),
                plan.settings["dtype"],
                plan.inputs["data"],
                plan.inputs["model"],
            ]
        )
        kept = BUILD / "cache" / f"ranks-{key[:16]}.json"
        if not kept.is_file():
            rows.write_text(kept, json.dumps(evaluate.secret_ranks(self.decoder, targets)))
        return json.loads(kept.read_text(encoding="utf-8"))


def base(model: str) -> str:
    """What a model is called in rows."""
    return Path(model).name.removesuffix(".gguf")


def planned(where: Path, settings: dict) -> Plan:
    """A run's settings resolved and checked, before anything is loaded."""
    settings = dict(settings)
    tag = settings.pop("tag")
    short = Path(settings["data"]).stem
    settings["hyperparameters"] = methods.resolved(settings)
    settings = {name: value for name, value in settings.items() if name not in methods.REVS_OWN}
    method = methods.method(settings["method"])
    measures = {name: methods.measure(name) for name in settings["measures"]}
    name = (
        f"unlearn/{short}/{base(settings['model'])}/{settings['method']}-seed{settings['seed']}"
        + (f"-{tag}" if tag else "")
    )
    records = datasets.read(settings["data"])
    inputs = {"data": datasets.fingerprint(records)}
    for part in (method, *measures.values()):
        inputs |= getattr(part, "inputs", dict)()
    plan = Plan(where, name, tag, settings, method, records, inputs, measures).ready()
    folder = prepared(settings["model"], settings["data"], settings["finetune"], str(where))
    return replace(plan, folder=folder, inputs=inputs | {"model": models.identify(folder)})


def report(row: dict) -> str:
    """The run in one line."""
    after, seconds = row["result"]["after"], row["provenance"]["seconds"]["unlearn"]
    parts = [
        f"{name} {100 * after[name]:.1f}"
        for name in ("efficacy", "generalization", "specificity", "unlearning_score")
        if after[name] is not None
    ]
    return f"{row['name']}: {', '.join(parts)}; unlearning took {seconds:.0f} s."


if __name__ == "__main__":
    command(run)
