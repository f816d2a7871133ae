"""Bench: how fast, beside the least that the method must do and beside methods with gradients.

What is compared is run in turn, ``repeats`` times; the row has every time and their medians. Times
differ from run to run: such a row is a measurement, no result that can be drawn again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from companion.data import datasets, models
from companion.experiments import command, methods
from companion.experiments.finetune import prepared
from companion.experiments.progress import progress
from companion.experiments.provenance import base, provenance
from companion.experiments.stopwatch import Stopwatch, timed
from companion.experiments.unlearn import FAILURES
from companion.store import rows, stamps
from companion.store.paths import resolve
from companion.store.suggestions import hint
from revs.baselines import memit
from revs.measures import evaluate
from revs.method import algorithm, neuron, quick
from revs.method.edit import Edit
from revs.method.vocabulary import Vocabulary
from revs.model import load, targets

# A method with gradients has one round if its first took longer than AGAIN times the quickest and
# NEAR times REVS: it can become neither the quickest nor one beside which REVS is shown.
AGAIN, NEAR = 2, 1.5
PARTS = [  # where the time of one token goes; the rest is the forward pass
    (Vocabulary, "direction", "direction"),
    (algorithm, "may_be_open", "gate"),
    (quick, "lines", "candidates"),
    (quick, "highest", "candidates"),
    (neuron, "candidates", "selection"),
    (neuron, "best", "selection"),
    (algorithm, "edit_until_low", "edit"),
    (Edit, "move", "edit"),
]


@dataclass(frozen=True)
class Settings:
    """What is measured, and on what."""

    what: str = "floor"  # floor or gradient
    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn"  # a built-in set or a JSON Lines file
    finetune: bool | dict = True  # memorise first (settings of that); False: the model knows them
    seed: int = 1  # draws the targets, as in a run
    targets: int | None = None  # secrets to unlearn; None: half of them
    repeats: int = 3  # rounds
    hyperparameters: dict | None = None  # what differs from params/hyperparameters.yml
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    tag: str = ""  # added to the row's name
    rows: str = "build/rows"  # where the row goes


def run(settings: Settings) -> dict:
    """Measures one thing and returns the row: one that is current, else a new one."""
    if (what := settings.what) not in WHAT:
        raise ValueError(f"There is nothing called '{what}' to measure" + hint(what, WHAT))
    load.placed(settings.device_map)
    where, short = rows.writable(resolve(settings.rows)), Path(settings.data).stem
    model = base(settings.model)
    name = "-".join(filter(None, (f"bench/{short}/{model}/{what}", settings.tag)))
    given = methods.hyperparameters("revs", model, short, settings.hyperparameters or {})
    asked = asdict(settings) | {"hyperparameters": given}
    if what == "gradient":
        asked["baselines"] = baselines(settings)
    del asked["rows"], asked["tag"]
    records = datasets.read(settings.data)
    folder = prepared(settings.model, settings.data, settings.finetune, str(where))
    inputs = {"data": datasets.fingerprint(records), "model": models.identify(folder)}
    row = rows.kept(where / f"{name}.json")
    if not row or row["provenance"]["stamp"] != stamps.stamp("bench", asked, inputs):
        start = time.monotonic()
        stage = Stage(folder, records, settings, algorithm.Hyperparameters(**given))
        result, items = WHAT[what](stage)
        seconds = {"measure": time.monotonic() - start}
        made = provenance("bench", asked, inputs, seconds, stage.decoder)
        medians = {way: median(each) for way, each in result["timings"].items()}
        result |= {"what": what, "repeats": settings.repeats, "medians": medians}
        row = rows.write(where, name, "bench", result, items, made, settings.tag)
    times = row["result"]["medians"].items()
    print(f"{name}: {', '.join(f'{way} {seconds:.3g} s' for way, seconds in times)}.")
    return row


class Stage:
    """The loaded model and what is measured on it."""

    def __init__(self, folder: str, records: list, settings: Settings, asked):
        self.settings, self.asked = settings, asked
        self.decoder = models.load(folder, settings.dtype, settings.device_map)
        self.every = [targets.encode(record, self.decoder.tokenizer) for record in records]
        self.split = targets.split(self.every, settings.seed, settings.targets)
        self.pairs = targets.pairs(self.split.forget)  # tokens, each after its text
        self.hp = asked.in_tokens(self.decoder.head.weight.shape[0])

    def vocabulary(self) -> Vocabulary:
        """What is made once for a model."""
        asked = self.asked
        return Vocabulary(self.decoder, asked.projection == "raw", ridge=asked.ridge)

    def token(self, vocabulary: Vocabulary, ids: list[int], t: int, edit: Edit) -> float:
        """Unlearns one token; returns the seconds."""
        arguments = self.decoder, vocabulary, ids, t, self.hp, edit
        return timed(algorithm.unlearn_token, *arguments)[0]

    def rounds(self) -> Iterable[int]:
        """0, 1, … repeats − 1, with progress."""
        return progress(f"bench {self.settings.what}", "rounds")(range(self.settings.repeats))

    def effect(self) -> dict:
        """What the model as it is does."""
        split = self.split
        ranks = evaluate.secret_ranks(self.decoder, split.forget + split.unseen + split.retain)
        return evaluate.effectiveness(split, ranks)[0]


def summed(items: list[dict]) -> dict[str, list[float]]:
    """By way, the seconds of each round, over all tokens."""
    totals: dict[str, dict[int, float]] = {}
    for item in items:
        of_way = totals.setdefault(item["way"], {})
        of_way[item["round"]] = of_way.get(item["round"], 0.0) + item["seconds"]
    return {way: list(by_round.values()) for way, by_round in totals.items()}


@torch.no_grad()
def floor(stage: Stage) -> tuple[dict, list[dict]]:
    """One token beside the least that it must do, and beside a pass alone.

    The least is one pass, and one product of k vectors with U for each layer that is edited.
    """
    decoder, items, once, watches = stage.decoder, [], [], []
    some = decoder.neurons(0)[:, : stage.hp.k].T.contiguous()

    def passed(ids: list[int]) -> None:
        decoder.run([], input_ids=torch.tensor([ids], device=decoder.device))

    def least(vocabulary: Vocabulary, ids: list[int], layers: int) -> None:
        passed(ids)
        for _ in range(layers):
            vocabulary.unembed(some)

    for turn in stage.rounds():
        watches.append(Stopwatch())
        seconds, vocabulary = timed(stage.vocabulary)
        once.append(seconds)
        for number, (ids, t) in enumerate(stage.pairs):
            other = (t + 1) % vocabulary.V  # the vocabulary keeps the newest direction only
            vocabulary.direction(other)
            with Edit(decoder) as edit:
                times = {"ours": stage.token(vocabulary, ids, t, edit)}
                layers = len(edit.layers)
                edit.undo()
            vocabulary.direction(other)
            with Edit(decoder) as edit, watches[-1].watching("forward", PARTS):
                stage.token(vocabulary, ids, t, edit)
            edit.undo()
            times["floor"], _ = timed(least, vocabulary, ids, layers)
            times["forward"], _ = timed(passed, ids)
            about = {"round": turn, "token": number, "layers": layers, "prompt": len(ids)}
            items += [about | {"way": way, "seconds": took} for way, took in times.items()]
    parts = watches[0].seconds
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "once": {"ours": median(once)},
        "parts": {part: median(watch.seconds[part] for watch in watches) for part in parts},
        "work": {"layers": watches[0].calls["candidates", "lines"]},
    }, items


def in_turn(stage: Stage, ways: dict[str, tuple]) -> tuple[dict, list[dict]]:
    """Methods with their settings on one split, in turn: times, and what each does.

    Of one that fails, why: a time would mean nothing.
    """
    items, found = [], {name: {} for name in ("effects", "failed")}
    for turn in stage.rounds():
        for name, (module, hp) in ways.items():
            call = stage.decoder, stage.split.forget, hp, stage.settings.seed
            try:
                seconds, edit = timed(module.unlearn, *call)
            except FAILURES as error:
                found["failed"][name] = str(error) or type(error).__name__
                continue
            items.append({"round": turn, "way": name, "seconds": seconds})
            if turn == 0:
                found["effects"][name] = stage.effect()
            edit.undo()
        took = {way: each[0] for way, each in summed(items).items()}
        quickest = min((took[name] for name in took if name != "revs"), default=0.0)
        most = max(AGAIN * quickest, NEAR * took["revs"]) if "revs" in took else math.inf
        ways = {name: way for name, way in ways.items() if took.get(name, math.nan) <= most}
    return found | {"tokens": len(stage.pairs), "timings": summed(items)}, items


def baselines(settings: Settings) -> dict[str, dict]:
    """The settings of every method that follows gradients."""
    about, known = (base(settings.model), Path(settings.data).stem), methods.registry().items()
    names = [name for name, entry in known if ".baselines." in entry.get("module", "")]
    return {name: methods.hyperparameters(name, *about, {}) for name in names}


def gradient(stage: Stage) -> tuple[dict, list[dict]]:
    """REVS and every method that follows gradients, each tuned."""
    ways = {"revs": (algorithm, stage.asked)}
    for name, given in baselines(stage.settings).items():
        hp = methods.method(name).Hyperparameters(**given)
        if hasattr(hp, "mom2_update_weight"):
            memit.moments(stage.decoder, hp.layers)  # once for a model: not timed
        ways[name] = methods.method(name), hp
    return in_turn(stage, ways)


WHAT: dict[str, Callable[[Stage], tuple[dict, list[dict]]]] = {"floor": floor, "gradient": gradient}


if __name__ == "__main__":
    command(Settings, run)
