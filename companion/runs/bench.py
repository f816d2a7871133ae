"""Bench: how fast, beside the released procedure, beside the least that the method must do, and as models and targets grow.

What is compared is run in turn, ``repeats`` times; the row has every time and their medians. Times differ from run to run: a
row of this experiment is a measurement, not a result that could be drawn again bit for bit.
"""

from __future__ import annotations

import ctypes
import gc
import math
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from unittest import mock

import torch
import yaml
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, LlamaConfig

from companion.record import rows, stamps
from companion.record.paths import ROOT, resolve
from companion.runs import command, datasets, methods, models, released, released_attacks
from companion.runs.memorise import prepared
from companion.runs.memory import Peak
from companion.runs.nearest import hint
from companion.runs.progress import Progress
from companion.runs.stopwatch import Stopwatch, clock
from companion.runs.unlearn import FAILURES, base
from revs.baselines import memit
from revs.measures import attacks, evaluate
from revs.method import algorithm as method
from revs.method import layer_major, select
from revs.method.algorithm import gate
from revs.method.edit import Edit
from revs.method.select import highest
from revs.method.vocabulary import BLOCK, Vocabulary, product, rank
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.memorise import Finetune, memorise, sentences
from revs.model.targets import Record, Split, Target, encode, pairs, split

OFTEN = 0.005  # seconds between two looks at the memory
AGAIN = 2  # times as long as the quickest: a method that follows gradients and takes longer in the first round has no other, since it cannot become the quickest,
NEAR = 1.5  # unless it is not that many times as slow as REVS, beside which it is shown
LOWER = "as low"  # ours with the smallest margin that brings the token as far down as the released procedure brought it
RANDOM = "random"  # in the place of a data set: random weights in a shape of params/shapes.yml, and random secrets
NUMBERS = (10, 20, 50, 100, 200)  # of targets
SENTENCES = 32  # of a data set, with which a fine-tune is timed
PROMPT = 30  # tokens of a random prompt, about as many as an SSN sentence has
PARTS = [  # where the time of one token goes; the rest is the forward pass
    (Vocabulary, "direction", "direction"),
    (method, "may_be_open", "gate"),
    (method, "lines", "candidates"),
    (method, "highest", "candidates"),
    (method, "candidates", "selection"),
    (method, "best", "selection"),
    (method, "edit_until_low", "edit"),
    (Edit, "move", "edit"),
]


ATTACK_PARTS = {  # of evaluation and attacks; the rest is Python, and of the released way the ranks
    "released": [
        (released_attacks, "vectors", "passes"),
        (released_attacks, "logits", "projections"),
        (evaluate, "continuations", "greedy tokens"),
    ],
    "ours": [
        (evaluate, "secret_ranks", "ranks"),
        (attacks, "depths", "attacks"),
        (evaluate, "continuations", "greedy tokens"),
    ],
}


def run(
    what: str = "floor",  # token, floor, selection, gradient, attacks, memory, memorising, targets, shapes or schedules
    model: str = "smollm2-135m",  # as for unlearn; with random data a name of params/shapes.yml
    data: str = "ssn",  # a built-in set, a JSON Lines file, or "random": random weights and secrets
    finetune: bool
    | dict = True,  # instil the data first; settings of companion.runs.memorise, or false if the model knows them
    seed: int = 1,  # draws the targets, as in a run
    targets: int | None = None,  # secrets to unlearn; None: half of them
    repeats: int = 3,
    hyperparameters: dict | None = None,  # what differs from params/hyperparameters.yml
    dtype: str = "float32",
    device_map: str | None = None,
    tag: str = "",  # added to the row's name
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Measures one thing and returns the row."""
    row = once(**locals())
    print(
        f"{row['name']}: "
        + ", ".join(f"{way} {seconds:.3g} s" for way, seconds in row["result"]["medians"].items())
        + "."
    )
    return row


def once(**settings) -> dict:
    """The row of a measurement: the one that is there if its settings, inputs and code are the present ones, else a new one."""
    where, tag, what = (
        rows.writable(resolve(settings.pop("rows"))),
        settings.pop("tag"),
        settings["what"],
    )
    if what not in WHAT:
        raise ValueError(f"There is nothing called '{what}' to measure" + hint(what, WHAT))
    if settings["repeats"] < 1:
        raise ValueError(f"repeats is {settings['repeats']}, but must be at least 1.")
    if what in ("attacks", "gradient", "memorising") and settings["data"] == RANDOM:
        raise ValueError(
            f"'{what}' reads prompts and secrets as text, and random ones have none: give a data set."
        )
    load.placed(settings["device_map"])
    if settings["device_map"] in load.PLACES and settings["data"] == RANDOM:
        raise ValueError(
            f"A model with random weights is made on one device, and device_map '{settings['device_map']}' names none: give cpu, cuda or cuda:1."
        )
    short = Path(settings["data"]).stem
    name = f"bench/{short}/{base(settings['model'])}/{what}" + (f"-{tag}" if tag else "")
    given = methods.hyperparameters(
        "revs", base(settings["model"]), short, settings["hyperparameters"] or {}
    )
    settings["hyperparameters"], hp = given, method.Hyperparameters(**given)
    if settings["data"] == RANDOM:
        folder, records, inputs = "", [], {"shape": rows.digest(shape(settings["model"]))}
    else:
        records = datasets.read(settings["data"])
        folder = prepared(settings["model"], settings["data"], settings["finetune"], str(where))
        inputs = {"data": datasets.fingerprint(records), "model": models.identify(folder)}
    kept = where / f"{name}.json"
    if kept.is_file() and (row := rows.read(kept))["provenance"]["stamp"] == stamps.stamp(
        "bench", settings, inputs
    ):
        return row
    stage, start = Stage(folder, records, settings, hp, name), time.monotonic()
    with mock.patch(
        "revs.method.vocabulary.WORTH_KEEPING", math.inf
    ):  # what is computed once is measured, too, and not read
        result, items = WHAT[what](stage)
    made = rows.provenance("bench", settings, inputs, {"measure": time.monotonic() - start}) | {
        "model": {
            "name": base(settings["model"]),
            "revision": inputs.get("model", "random weights"),
            "dtype": settings["dtype"],
        },
        "tokenizer": load.tokenizer_hash(stage.decoder.tokenizer) if records else "not read",
    }
    common = {
        "what": what,
        "repeats": settings["repeats"],
        "medians": {way: median(each) for way, each in result["timings"].items()},
        "shape": stage.shape(),
    }
    return rows.write(where, name, "bench", common | result, items, made)


def compared() -> dict[str, dict]:
    """REVS and the methods that follow gradients, with their entries in params/methods.yml."""
    return {
        name: entry
        for name, entry in methods.registry().items()
        if name == "revs" or entry.get("module", "").startswith("revs.baselines.")
    }


@dataclass(frozen=True)
class Stage:
    """The loaded model and what is measured on it."""

    folder: str
    records: list[Record]
    settings: dict
    asked: method.Hyperparameters
    name: str

    @cached_property
    def decoder(self) -> Decoder:
        settings = self.settings
        if settings["data"] == RANDOM:
            return at_random(
                settings["model"], settings["dtype"], settings["device_map"], settings["seed"]
            )
        return models.load(self.folder, settings["dtype"], settings["device_map"])

    @cached_property
    def every(self) -> list[Target]:
        """Every sentence; of random secrets as many as are ever needed."""
        if self.settings["data"] == RANDOM:
            return secrets(
                self.decoder.head.weight.shape[0], NUMBERS[-1] + 1, self.settings["seed"]
            )
        return [encode(record, self.decoder.tokenizer) for record in self.records]

    @cached_property
    def split(self) -> Split:
        return split(self.every, self.settings["seed"], self.settings["targets"])

    @cached_property
    def pairs(self) -> list[tuple[list[int], int]]:
        """The tokens that are unlearned, each after its text."""
        return pairs(self.split.forget)

    @cached_property
    def hp(self) -> method.Hyperparameters:
        return self.asked.in_tokens(self.decoder.head.weight.shape[0])

    def rounds(self):
        """0, 1, … repeats − 1, with progress."""
        progress = Progress(self.name, "rounds")
        for done in range(self.settings["repeats"]):
            yield done
            progress(done + 1, self.settings["repeats"])

    def shape(self) -> dict[str, int]:
        """What the operation counts need to know of the model."""
        weight, layers = self.decoder.neurons(0), self.decoder.layers
        return {
            "layers": len(layers),
            "d": weight.shape[0],
            "ff": weight.shape[1],
            "V": self.decoder.head.weight.shape[0],
            "body": sum(parameter.numel() for layer in layers for parameter in layer.parameters()),
            "bytes": weight.element_size(),
        }


# --- random models and secrets -----------------------------------------------------------------------------------------


def shape(name: str) -> dict[str, int]:
    """A shape of params/shapes.yml."""
    known = yaml.safe_load((ROOT / "params" / "shapes.yml").read_text(encoding="utf-8"))
    if name not in known:
        raise ValueError(f"There is no shape '{name}'" + hint(name, known))
    return known[name]


def at_random(name: str, dtype: str, device: str | None, seed: int) -> Decoder:
    """A Llama of a shape with random weights, made where it will run; it reads token ids only."""
    torch.manual_seed(seed)
    config = LlamaConfig(**shape(name), tie_word_embeddings=False)
    with torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu")):
        model = AutoModelForCausalLM.from_config(config, dtype=load.DTYPES[dtype])
    return Decoder(model.eval(), SimpleNamespace(pad_token_id=0), name, "random weights")


def secrets(V: int, number: int, seed: int) -> list[Target]:
    """Random secrets of three tokens, of which the first and the last are unlearned."""
    draw = random.Random(seed)
    ids = lambda n: [draw.randrange(V) for _ in range(n)]
    return [Target(f"r{i}", RANDOM, f"r{i:03}", ids(PROMPT), ids(3), (0, 2)) for i in range(number)]


# --- one token -----------------------------------------------------------------------------------------------------------


def timed(do: Callable) -> tuple[float, object]:
    """Seconds, and what was returned."""
    start = clock()
    made = do()
    return clock() - start, made


def ours(
    stage: Stage,
    vocabulary: Vocabulary,
    ids: list[int],
    t: int,
    watching=nullcontext(),
    hp: method.Hyperparameters | None = None,
) -> tuple[float, Edit]:
    """The closed form for one token, with a vocabulary that was made before but has no direction of t yet."""
    vocabulary.direction((t + 1) % vocabulary.V)  # it keeps the newest only
    edit = Edit(stage.decoder)
    with watching:
        seconds, _ = timed(
            lambda: method.unlearn_token(stage.decoder, vocabulary, ids, t, hp or stage.hp, edit)
        )
    return seconds, edit


@torch.no_grad()
def output_rank(decoder: Decoder, ids: list[int], t: int) -> int:
    """Of t in what the model writes next."""
    hidden = decoder.model.base_model(
        input_ids=torch.tensor([ids], device=decoder.device), use_cache=False
    ).last_hidden_state[0, -1]
    return int(rank(decoder.logits(hidden), t))


def summed(items: list[dict]) -> dict[str, list[float]]:
    """By way, the seconds of each round, over all tokens."""
    totals: dict[str, dict[int, float]] = {}
    for item in items:
        of_way = totals.setdefault(item["way"], {})
        of_way[item["round"]] = of_way.get(item["round"], 0.0) + item["seconds"]
    return {way: list(by_round.values()) for way, by_round in totals.items()}


def token(stage: Stage) -> tuple[dict, list[dict]]:
    """One token by the released procedure and in closed form, each from the unedited model; ranks are those of the model's output after it.

    Ours is timed once more ("as low"), where it left the token higher with the smallest margin that brings it as low (``as_low``). And what
    nobody does without is timed beside them: the pass and the products of ``least_of`` for the layers that ours edits.
    """
    decoder, hp, items, counts, margins = stage.decoder, stage.hp, [], released.Counts(), {}
    least = least_of(stage)
    seconds, project = timed(lambda: released.Projection(decoder))
    ours_once, vocabulary = timed(lambda: Vocabulary(decoder))
    for turn in stage.rounds():
        for number, (ids, t) in enumerate(stage.pairs):
            before, asked = output_rank(decoder, ids, t), hp
            for way in ("released", "ours", LOWER):
                if way == "released":
                    edit = Edit(decoder)
                    took, made = timed(
                        lambda: released.unlearn_token(decoder, project, ids, t, hp, edit)
                    )
                    counts = (
                        released.Counts(*(a + b for a, b in zip(astuple(counts), astuple(made))))
                        if turn == 0
                        else counts
                    )
                    wanted = output_rank(decoder, ids, t)
                else:
                    if way == LOWER:
                        margins[number] = asked = margins.get(number) or as_low(
                            stage, vocabulary, ids, t, wanted
                        )
                    took, edit = ours(stage, vocabulary, ids, t, hp=asked)
                layers = len(edit.layers)
                items.append(
                    {
                        "round": turn,
                        "token": number,
                        "way": way,
                        "seconds": took,
                        "margin": asked.r_h - asked.eps_r_h,
                        "layers": layers,
                        "columns": sum(map(len, edit.originals.values())),
                        "before": before,
                        "rank": output_rank(decoder, ids, t),
                    }
                )
                edit.undo()
            items.append(
                {
                    "round": turn,
                    "token": number,
                    "way": "floor",
                    "seconds": least(vocabulary, ids, layers),
                    "layers": layers,
                }
            )
    ranks = {
        way: [item["rank"] for item in items if item["way"] == way and item["round"] == 0]
        for way in ("released", "ours", LOWER)
    }
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "once": {"released": seconds, "ours": ours_once},
        "counts": asdict(counts),
        "ranks": ranks,
        "margin": hp.r_h - hp.eps_r_h,
    }, items


def as_low(
    stage: Stage, vocabulary: Vocabulary, ids: list[int], t: int, wanted: int
) -> method.Hyperparameters:
    """The settings with the smallest margin, not below the one that was asked for, at which t ends in the model's output at rank ``wanted`` or lower: by bisection, as if a larger margin left it lower. The largest margin there is if none does."""

    def enough(hp: method.Hyperparameters) -> bool:
        _, edit = ours(stage, vocabulary, ids, t, hp=hp)
        low = output_rank(stage.decoder, ids, t) >= wanted
        edit.undo()
        return low

    at = lambda margin: replace(stage.hp, r_h=margin, eps_r_h=0)
    if enough(stage.hp):
        return stage.hp
    short, last = stage.hp.r_h - stage.hp.eps_r_h, vocabulary.V - 1
    margin = min(max(wanted, short + 1), last)
    while margin < last and not enough(at(margin)):
        short, margin = margin, min(2 * margin, last)
    while margin - short > 1:
        middle = (short + margin) // 2
        short, margin = (short, middle) if enough(at(middle)) else (middle, margin)
    return at(margin)


def least_of(stage: Stage) -> Callable[[Vocabulary, list[int], int], float]:
    """The seconds of the least that a token needs: a forward pass, and one product of k vectors with U for each layer that is edited."""
    decoder = stage.decoder
    some = decoder.neurons(0)[:, : stage.hp.k].T.contiguous()

    def least(vocabulary: Vocabulary, ids: list[int], layers: int) -> float:
        texts = torch.tensor([ids], device=decoder.device)
        seconds, _ = timed(
            lambda: (
                passed(decoder, texts),
                [vocabulary.unembed(some) is None for _ in range(layers)],
            )
        )  # no product is kept for longer than ours is
        return seconds

    return least


def floor(stage: Stage) -> tuple[dict, list[dict]]:
    """One token in closed form beside the least that it must do (``least_of``), and beside a pass alone."""
    decoder, items, once, watches, gates, moves = stage.decoder, [], [], [], Gates(), 0
    least = least_of(stage)
    for turn in stage.rounds():
        watches.append(Stopwatch())
        seconds, vocabulary = timed(lambda: Vocabulary(decoder, raw=stage.hp.projection == "raw"))
        once.append(seconds)
        for number, (ids, t) in enumerate(stage.pairs):
            texts = torch.tensor([ids], device=decoder.device)
            seconds, edit = ours(stage, vocabulary, ids, t)
            layers, moves = len(edit.layers), moves + len(edit.moves)
            edit.undo()
            with gates.counting():
                ours(stage, vocabulary, ids, t, watches[-1].watching("forward", PARTS))[1].undo()
            alone, _ = timed(lambda: passed(decoder, texts))
            times = {"ours": seconds, "floor": least(vocabulary, ids, layers), "forward": alone}
            items += [
                {
                    "round": turn,
                    "token": number,
                    "way": way,
                    "seconds": took,
                    "layers": layers,
                    "prompt": len(ids),
                }
                for way, took in times.items()
            ]
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "once": {"ours": median(once)},
    } | parts(stage, watches, gates, moves), items


class Gates:
    """Counts how often all of U is read for gates: parts of the vocabulary add up."""

    def __init__(self):
        self.rows = 0.0

    def counter(
        self, vocabulary: Vocabulary, l: int, n: Tensor, t: int
    ) -> Callable[[Tensor, slice], Tensor]:
        larger = select.counter(vocabulary, l, n, t)

        def seen(some: Tensor, piece: slice) -> Tensor:
            self.rows += (piece.stop - piece.start) / vocabulary.V
            return larger(some, piece)

        return seen

    def counting(self):
        """While this is open, ``method`` counts; a gate that is not asked part by part sees all at once."""
        ask = method.may_be_open

        def asked(*arguments) -> bool:
            before = self.rows
            answer = ask(*arguments)
            self.rows += self.rows == before
            return answer

        return mock.patch.multiple(method, counter=self.counter, may_be_open=asked)


def parts(stage: Stage, watches: list[Stopwatch], gates: Gates, moves: int) -> dict:
    """Of one round: median seconds by part, and how much there was to do. ``gates`` and ``moves`` are those of all rounds."""
    rounds = len(watches)
    work = {
        "prompt": sum(len(ids) for ids, _ in stage.pairs),
        "layers": watches[0].calls["candidates", "lines"],
        "gates": gates.rows / rounds,
        "moves": moves // rounds,
        "k": min(stage.hp.k, stage.shape()["ff"]),
    }
    return {
        "parts": {
            part: median(watch.seconds[part] for watch in watches) for part in watches[0].seconds
        },
        "work": work,
    }


@torch.no_grad()
def passed(decoder: Decoder, ids: Tensor) -> None:
    """One forward pass, without the head."""
    decoder.run([], input_ids=ids)


def selection(stage: Stage) -> tuple[dict, list[dict]]:
    """SelectNeuron and the lines of what it found, in every layer of the unedited model: with all k candidates ranked, and counted piece by piece (``revs.method.select``)."""
    decoder, hp, items, same, counted_products = stage.decoder, stage.hp, [], [], Products()
    vocabulary = Vocabulary(decoder, raw=hp.projection == "raw")

    def ranked(l: int, n: Tensor, t: int) -> Tensor:
        line = vocabulary.neurons(l, n, t)
        return line.rows(select.ranks_of(line).argsort(stable=True)[: hp.n_max]).A

    def counted(l: int, n: Tensor, t: int) -> Tensor:
        line = vocabulary.neurons(l, n[highest(vocabulary, l, n, t, hp.n_max)], t)
        return line.rows(select.ranks_of(line).argsort(stable=True)).A

    for turn in stage.rounds():
        for number, (ids, t) in enumerate(stage.pairs):
            vocabulary.direction(t)  # made before: both ways need it
            seen: dict[int, Tensor] = {}
            decoder.visit(ids, lambda l, a, h, x: seen.update({l: a[-1]}))
            for l, a in seen.items():
                n = decoder.neurons(l)[:, a.float().topk(min(hp.k, len(a))).indices].T
                (first, one), (second, other) = (
                    timed(lambda: ranked(l, n, t)),
                    timed(lambda: counted(l, n, t)),
                )
                items += [
                    {"round": turn, "token": number, "layer": l, "way": way, "seconds": took}
                    for way, took in (("ranked", first), ("counted", second))
                ]
                same.append(torch.allclose(one, other, rtol=1e-4, atol=1e-4))
                if turn == 0:
                    counted_products.highest(vocabulary, l, n, t, hp.n_max)
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "agreement": sum(same) / len(same),
        "share": counted_products.share,
    }, items


class Products:
    """Counts in ``highest`` the products of a row of U with a candidate."""

    def __init__(self):
        self.made = self.all = 0

    def highest(self, vocabulary: Vocabulary, l: int, n: Tensor, t: int, wanted: int) -> Tensor:
        def counting(do: Callable) -> Callable:
            def counted(U: Tensor, y: Tensor) -> Tensor:
                self.made += len(U) * len(y)
                return do(U, y)

            return counted

        self.all += vocabulary.V * len(n)
        with mock.patch.multiple(
            select, product=counting(product), one_by_one=counting(select.one_by_one)
        ):
            return highest(vocabulary, l, n, t, wanted)

    @property
    def share(self) -> float:
        """Made ÷ all that there are; 1 where nothing was counted piece by piece."""
        return min(1.0, self.made / self.all) if self.all else 1.0


# --- many tokens -----------------------------------------------------------------------------------------------------------


def unlearned(stage: Stage, hp: method.Hyperparameters) -> Edit:
    """All targets of the split."""
    return method.unlearn(stage.decoder, stage.split.forget, hp)


def memory(stage: Stage) -> tuple[dict, list[dict]]:
    """What unlearning takes beyond the loaded model, in MiB, and how much of that are the originals that undo needs."""
    decoder, items = stage.decoder, []
    resident(decoder)
    for turn in stage.rounds():
        returned()
        with Peak(OFTEN) as once:
            seconds, vocabulary = timed(
                lambda: Vocabulary(decoder, raw=stage.hp.projection == "raw")
            )
        returned()
        with Peak(OFTEN) as peak, Edit(decoder) as edit:
            for ids, t in stage.pairs:
                seconds += timed(
                    lambda: method.unlearn_token(decoder, vocabulary, ids, t, stage.hp, edit)
                )[0]
        kept = vocabulary.factor.nbytes / 2**20  # it lasts from the first to the second
        undo = (
            sum(
                column.nbytes
                for kept_columns in edit.originals.values()
                for column in kept_columns.values()
            )
            / 2**20
        )
        edit.undo()
        del vocabulary
        items.append(
            {
                "round": turn,
                "way": "ours",
                "seconds": seconds,
                "once_mb": once.mb,
                "peak_mb": round(peak.mb + kept),
                "undo_mb": undo,
            }
        )
    own = sum(parameter.nbytes for parameter in decoder.model.parameters()) / 2**20
    used = {"model_mb": own, "undo_mb": median(item["undo_mb"] for item in items)} | {
        name: [item[name] for item in items] for name in ("once_mb", "peak_mb")
    }
    return {"tokens": len(stage.pairs), "timings": summed(items), "memory": used}, items


@torch.no_grad()
def resident(decoder: Decoder) -> None:
    """Makes what is only mapped from a file the process's own: written to for the first time, all of a weight would count as new."""
    for l in range(len(decoder.layers)):
        decoder.neurons(l).copy_(decoder.neurons(l).clone())
    passed(
        decoder, torch.tensor([[0] * PROMPT], device=decoder.device)
    )  # what a first pass makes resident is not the method's either


def returned() -> None:
    """Gives memory that was freed back to the system, where the C library can (glibc): kept by the process, it would hide what is asked for next."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def targets(stage: Stage) -> tuple[dict, list[dict]]:
    """One run over many targets, and when it has done 10, 20, 50, … of them: one sentence of each secret before the second of any (``mixed``)."""
    decoder, items = stage.decoder, []
    chosen = mixed(stage.every, stage.settings["seed"])[: stage.settings["targets"] or NUMBERS[-1]]
    distinct = len({target.group for target in chosen})
    numbers = sorted(
        {number for number in NUMBERS if number < len(chosen)} | {distinct, len(chosen)}
    )
    timings: dict[str, list[float]] = {str(number): [] for number in numbers}
    for turn in stage.rounds():
        total, vocabulary = timed(lambda: Vocabulary(decoder, raw=stage.hp.projection == "raw"))
        with Edit(decoder) as whole:
            for number, target in enumerate(chosen, 1):
                for ids, t in pairs([target]):
                    made = len(whole.moves)
                    seconds, _ = timed(
                        lambda: method.unlearn_token(decoder, vocabulary, ids, t, stage.hp, whole)
                    )
                    items.append(
                        {
                            "round": turn,
                            "way": "ours",
                            "target": number,
                            "seconds": seconds,
                            "layers": len({layer for layer, *_ in whole.moves[made:]}),
                        }
                    )
                    total += seconds
                if number in numbers:
                    timings[str(number)].append(total)
            whole.undo()
    return {
        "tokens": sum(len(target.T) for target in chosen),
        "secrets": distinct,
        "timings": timings,
    }, items


def mixed(every: list[Target], seed: int) -> list[Target]:
    """One sentence of each secret, then the second ones, …; of the secrets so far the same part of each kind, in whatever number, and of a kind in random order."""
    draw, kinds, place, sentences_of = random.Random(seed), {}, {}, {}
    for target in every:
        kinds.setdefault(target.kind, {})[target.group] = None
        sentences_of.setdefault(target.group, []).append(target)
    for groups in kinds.values():
        place |= {
            group: (number + 0.5) / len(groups)
            for number, group in enumerate(draw.sample(list(groups), len(groups)))
        }
    order = [
        (turn, place[group], target)
        for group, some in sentences_of.items()
        for turn, target in enumerate(draw.sample(some, len(some)))
    ]
    return [target for *_, target in sorted(order, key=lambda one: one[:2])]


def gradient(stage: Stage) -> tuple[dict, list[dict]]:
    """REVS and every method that follows gradients, each with its tuned settings, on one split: time, and what the model does after it; of one that fails, why.

    Methods that take more than ``AGAIN`` times as long as the quickest, and more than ``NEAR`` times as long as REVS, have one round.
    """
    decoder, items, effects, failed, short = (
        stage.decoder,
        [],
        {},
        {},
        Path(stage.settings["data"]).stem,
    )
    ways = {}
    for name in compared():
        module = methods.method(name)
        hp = (
            stage.asked
            if name == "revs"
            else module.Hyperparameters(
                **methods.hyperparameters(name, base(stage.settings["model"]), short, {})
            )
        )
        if hasattr(hp, "mom2_update_weight"):
            memit.moments(decoder, hp.layers)  # once for a model, kept by content: not timed
        ways[name] = (module, hp)
    for turn in stage.rounds():
        for name, (module, hp) in ways.items():
            try:
                seconds, edit = timed(
                    lambda: module.unlearn(decoder, stage.split.forget, hp, stage.settings["seed"])
                )
            except FAILURES as error:  # a time would mean nothing
                failed[name] = str(error) or type(error).__name__
                continue
            items.append({"round": turn, "way": name, "seconds": seconds})
            if turn == 0:
                effects[name], _ = evaluate.effectiveness(
                    stage.split,
                    evaluate.secret_ranks(
                        decoder, stage.split.forget + stage.split.unseen + stage.split.retain
                    ),
                )
            edit.undo()
        took = {way: each[0] for way, each in summed(items).items()}
        quickest = min((seconds for name, seconds in took.items() if name != "revs"), default=0.0)
        ways = {
            name: way
            for name, way in ways.items()
            if name in took
            and (
                name == "revs" or took[name] <= max(AGAIN * quickest, NEAR * took.get("revs", 0.0))
            )
        }
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "effects": effects,
        "failed": failed,
    }, items


def schedules(stage: Stage) -> tuple[dict, list[dict]]:
    """Both schedules of Alg. 2, and the layer-major order, on one split: time, size of the edit, and what the model does after it."""
    items, edits, effects, ranks = [], {}, {}, {}
    ways = {way: (method, replace(stage.asked, schedule=way)) for way in ("exact", "paper")} | {
        "layer_major": (layer_major, layer_major.Hyperparameters(**asdict(stage.asked)))
    }
    for turn in stage.rounds():
        for way, (module, hp) in ways.items():
            seconds, edit = timed(lambda: module.unlearn(stage.decoder, stage.split.forget, hp))
            items.append({"round": turn, "way": way, "seconds": seconds})
            if turn == 0:
                edits[way] = edit.summary()
                found = evaluate.secret_ranks(
                    stage.decoder, stage.split.forget + stage.split.unseen + stage.split.retain
                )
                effects[way], _ = evaluate.effectiveness(stage.split, found)
                ranks[way] = [
                    found[target.id][position]
                    for target in stage.split.forget
                    for position in target.T
                ]
            edit.undo()
    return {
        "tokens": len(stage.pairs),
        "timings": summed(items),
        "edits": edits,
        "effects": effects,
        "ranks": ranks,
        "margin": stage.hp.r_h - stage.hp.eps_r_h,
    }, items


def memorising(stage: Stage) -> tuple[dict, list[dict]]:
    """Some steps of a fine-tune, each time from the same weights, with float32 and with bfloat16 arithmetic."""
    decoder, items = stage.decoder, []
    some = random.Random(stage.settings["seed"]).sample(
        stage.records, min(SENTENCES, len(stage.records))
    )
    before = {name: value.clone() for name, value in decoder.model.state_dict().items()}

    def steps(autocast: bool) -> float:
        seconds, _ = timed(
            lambda: memorise(decoder, some, Finetune(epochs=1, digits="keep", autocast=autocast))
        )
        decoder.model.load_state_dict(before)
        return seconds

    steps(False)  # the first steps of a process take longer, whichever they are
    for turn in stage.rounds():
        for way, autocast in (("float32", False), ("bfloat16", True)):
            seconds = steps(autocast)
            items.append({"round": turn, "way": way, "seconds": seconds})
    decoder.model.zero_grad(set_to_none=True)
    return {
        "tokens": sum(len(text.ids) for text in sentences(decoder, some, whole=False)),
        "timings": summed(items),
    }, items


def attacked(stage: Stage) -> tuple[dict, list[dict]]:
    """Evaluation and all attacks of an unlearned model: as the released code makes them, and in batches; what both find is the same, up to ranks that rounding decides. And what batches cannot do without."""
    decoder, split, items, found, watches = (
        stage.decoder,
        stage.split,
        [],
        {},
        {"released": Stopwatch(), "ours": Stopwatch()},
    )
    ways = {
        "released": lambda: released_attacks.measure(decoder, split),
        "ours": lambda: batched(decoder, split),
        "floor": lambda: least(decoder, split, found["ours"][2]),
    }
    with unlearned(stage, stage.asked) as edit:
        for turn in stage.rounds():
            for way, do in ways.items():
                with (
                    watches[way].watching("the rest", ATTACK_PARTS[way])
                    if way in watches
                    else nullcontext()
                ):
                    seconds, found[way] = timed(do)
                items.append({"round": turn, "way": way, "seconds": seconds})
    edit.undo()
    singly, together = found["released"][1], found["ours"][1]
    both = [
        (a, b)
        for target in split.forget
        for attack in attacks.ATTACKS
        for one, other in zip(singly[attack][target.id], together[target.id][attack])
        for a, b in zip(one, other)
    ]
    V = decoder.head.weight.shape[0]
    nearer = lambda ranks: [min(r, V - 1 - r) for r in ranks]
    both += [
        (a, b)
        for target in split.unseen
        for a, b in zip(
            found["released"][0][target.id],
            nearer([found["ours"][0][target.id][position] for position in target.T]),
        )
    ]
    same, furthest = sum(a == b for a, b in both) / len(both), max(abs(a - b) for a, b in both)
    rounds = stage.settings["repeats"]
    parts = {
        f"{way}: {part}": seconds / rounds
        for way, watch in watches.items()
        for part, seconds in watch.seconds.items()
    }
    calls = {
        name: watches["released"].calls[part, name] // rounds
        for part, name in (("passes", "vectors"), ("projections", "logits"))
    }
    return {
        "tokens": sum(len(target.T) for target in split.forget + split.unseen),
        "timings": summed(items),
        "agreement": same,
        "furthest": furthest,
        "parts": parts,
        "calls": calls,
    }, items


def batched(decoder: Decoder, split: Split) -> tuple[dict, dict, dict]:
    """What a run with attacks measures: ranks, depths, and 50 greedy tokens where a kept secret is no longer what comes next."""
    ranks = evaluate.secret_ranks(decoder, split.forget + split.unseen + split.retain)
    written = evaluate.continuations(
        decoder, [target for target in split.retain if any(ranks[target.id])]
    )
    return ranks, attacks.measure(decoder, split)[1], written


@torch.no_grad()
def least(decoder: Decoder, split: Split, written: dict) -> None:
    """One pass of every text that is evaluated or attacked, in batches, and the greedy tokens that were written: no other projection, no rank."""
    every = split.forget + split.unseen + split.retain
    perturbed = [
        replace(
            target,
            prompt_ids=decoder.tokenizer(attacks.perturb(target.prompt, target.id))["input_ids"],
            secret_ids=target.secret_ids[: max(target.T) + 1],
        )
        for target in split.forget
    ]
    for batch in (batch for targets in (every, perturbed) for batch in evaluate.batches(targets)):
        ids, mask = decoder.pad([target.prompt_ids + target.secret_ids[:-1] for target in batch])
        decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    evaluate.continuations(decoder, [target for target in split.retain if target.id in written])


def shapes(stage: Stage) -> tuple[dict, list[dict]]:
    """A whole run on a model of some shape, and how fast this machine multiplies and copies: what the operation counts are held against."""
    result, items = memory(stage)
    watches, gates, moves = [], Gates(), 0
    for _ in stage.rounds():
        watches.append(Stopwatch())
        with (
            gates.counting(),
            watches[-1].watching("forward", [(Vocabulary, "__init__", "once"), *PARTS]),
        ):
            edit = unlearned(stage, stage.asked)
        moves += len(edit.moves)
        edit.undo()
    return result | parts(stage, watches, gates, moves) | asked_for(stage) | {
        "rates": rates(stage.decoder)
    }, items


class Counted(TorchDispatchMode):
    """Counts what torch is asked for, but for other views of the same numbers."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.calls += not function.is_view
        return function(*arguments, **(named or {}))


def asked_for(stage: Stage) -> dict:
    """Of one more run: the operations that torch is asked for, with gates that see all of the vocabulary, blocks of U and neurons edited at once as many as on a GPU; and the part of all candidates' products with U that selecting makes."""
    products = Products()
    seen_whole = lambda vocabulary, l, h, x, t, hp: gate(vocabulary.hidden(l, h, x, t), hp)
    with (
        mock.patch.multiple(
            method, AT_ONCE=stage.hp.n_max, highest=products.highest, may_be_open=seen_whole
        ),
        mock.patch.dict(BLOCK, cpu=BLOCK["cuda"]),
        Counted() as counter,
    ):
        edit = unlearned(stage, stage.asked)
    edit.undo()
    return {"calls": {"operations": counter.calls}, "share": products.share}


def rates(decoder: Decoder) -> dict[str, float]:
    """Operations a second of a product in the weights' precision, in float32 and in float64, and bytes a second of a copy."""
    weight = decoder.head.weight
    m, n, o = (4096, 4096, 16384) if weight.is_cuda else (128, 1024, 8192)

    def rate(amount: float, do: Callable) -> float:
        do()
        return amount / median(timed(do)[0] for _ in range(5))

    found = {}
    for name, dtype in (
        ("weights", weight.dtype),
        ("float32", torch.float32),
        ("float64", torch.float64),
    ):
        a, b = (
            torch.ones(m, n, dtype=dtype, device=weight.device),
            torch.ones(n, o, dtype=dtype, device=weight.device),
        )
        found[name] = rate(2.0 * m * n * o, lambda: a @ b)
    some, into = torch.ones(2, 1 << 25, device=weight.device)
    return found | {"bandwidth": rate(2.0 * some.nbytes, lambda: into.copy_(some))}


WHAT: dict[str, Callable[[Stage], tuple[dict, list[dict]]]] = {
    "token": token,
    "floor": floor,
    "selection": selection,
    "gradient": gradient,
    "attacks": attacked,
    "memory": memory,
    "memorising": memorising,
    "targets": targets,
    "shapes": shapes,
    "schedules": schedules,
}


if __name__ == "__main__":
    command(run)
