"""Audit: one method unlearns, and every attack of ``revs.audit`` looks for what it should forget.

The method ``gold`` edits nothing: it loads the adapter gold-ADAPTER-splitSEED, which was trained
like ADAPTER on all sentences but those that the split forgets.
"""

import copy
import time
from dataclasses import replace

import torch

from companion.data import adapters, datasets, models
from companion.experiments import memory, unlearn
from companion.experiments.command import command, progress
from companion.experiments.settings import GOLD
from companion.experiments.settings import Audit as Settings
from companion.store.suggestions import hint
from revs.audit import suite
from revs.audit.context import context
from revs.measures.evaluate import secret_ranks
from revs.measures.metrics import mean
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Record, Split, encode, split

VERSION = 1

STAGES = ("load", "unlearn", "attack")  # each attack's seconds are recorded as well


def run(settings: Settings) -> dict:
    """Unlearn half of a data set with one method, attack the edited model and return the row."""
    tuning_set = f"{settings.data}-tune"  # which no model of its test set has read
    if not settings.never_trained and tuning_set not in datasets.builtin():
        raise ValueError(
            f"{settings.data} has no tuning set: name a data set of other secrets of the same kind "
            "with never_trained."
        )
    pool = datasets.read(settings.never_trained or tuning_set)
    resolved = resolve_run(settings, pool)
    secrets = [record.secret for record in pool]
    row = resolved.finished_row() or measure(settings, resolved, secrets)
    found = row["result"]["attacks"].items()
    shares = [f"{suite.ATTACKS[name].title} {100 * one['secrets']:.0f}" for name, one in found]
    seconds = sum(row["seconds"].get(name, 0) for name in STAGES)
    print(f"{row['name']}: recovered in per cent: {', '.join(shares)}; {seconds:.0f} s.")
    return row


def gold_adapter(settings: Settings) -> str:
    """The adapter that was trained without what the split forgets; FileNotFoundError if there is
    none, ValueError if it is of another split."""
    name, known = f"{GOLD}-{settings.adapter}-split{settings.seed}", adapters.available()
    if name not in known:
        said = f"There is no adapter '{name}'" + hint(name, known)
        raise FileNotFoundError(f"{said[:-1]}; data/adapters/make.py {name} trains it.")
    if adapters.about(name).get("without_split") != settings.seed:
        raise ValueError(f"{name} was trained without another split: train it again.")
    return name


def resolve_run(settings: Settings, pool: list[Record]) -> unlearn.Run:
    """The run that is audited, under the audit's own name, settings and inputs."""
    kept = settings.model_dump(exclude={"tag", "overrides", "rows"})
    memory.check(kept | {"method": memory.AUDIT, "hyperparameters": None})
    found = unlearn.resolve_run(settings.unlearn)
    kept["hyperparameters"] = found.settings["hyperparameters"]
    inputs = found.inputs | {"never_trained": datasets.fingerprint(pool)}
    if settings.method == GOLD:
        inputs["gold"] = adapters.fingerprint(gold_adapter(settings))
    return replace(found, kind="audit", name=settings.row_name, settings=kept, inputs=inputs)


def measure(settings: Settings, resolved: unlearn.Run, pool: list[str]) -> dict:
    """Unlearn, attack, write and return the row. A method that fails leaves a row with the reason
    and raises ValueError, FloatingPointError or MemoryError."""
    torch.manual_seed(settings.seed)
    clock = [time.monotonic()]
    decoder = models.load(resolved.model, settings.dtype, settings.device_map)
    how = decoder.tokenizer, settings.T, settings.tokens
    targets = [encode(record, *how) for record in resolved.records]
    keep = datasets.kept(resolved.records)
    parts = split(targets, settings.seed, settings.forget, keep=keep)
    before, edit = copy.deepcopy(decoder), Edit(decoder)
    of = {record.id: record for record in resolved.records}
    forgotten = [of[target.id] for target in parts.forget]
    about = context(before, forgotten, pool, settings.T, settings.strings, settings.seed)
    clock.append(time.monotonic())
    show, mb = progress(resolved.name.split("/", 1)[1], "attacks"), None
    try:
        if settings.method == GOLD:
            folder = adapters.adapted(settings.model, gold_adapter(settings))
            decoder = models.load(folder, settings.dtype, settings.device_map)
        else:
            given = (parts.forget, resolved.hp, settings.seed)
            with memory.Peak() as peak:
                more = resolved.arguments(decoder)
                edit = resolved.method.unlearn(decoder, *given, **more)
            mb = peak.mb
        clock.append(time.monotonic())
        result, values = attacked(decoder, parts, about, show)
        result["edit"] = edit.summary()
    except unlearn.FAILURES as error:
        edit.undo()
        resolved.fail(decoder, error, {})
    clock.append(time.monotonic())
    seconds = {name: end - start for name, start, end in zip(STAGES, clock, clock[1:])}
    return resolved.write(decoder, result, values, seconds | about.notes["seconds"], mb)


def attacked(decoder: Decoder, parts: Split, about, show) -> tuple[dict, list[dict]]:
    """Run the attacks; return the shares that they recover, and the values of each secret."""
    found = suite.audit(decoder, parts.forget, about, show)
    ranks = secret_ranks(decoder, [*parts.forget, *about.never_trained])
    values = []
    for part, some in (("forget", parts.forget), ("never_trained", about.never_trained)):
        for one in some:
            line = {"id": one.id, "part": part, "group": one.group}
            line["written"] = not any(ranks[one.id])
            values.append(line | {name: by_id[one.id] for name, by_id in found.items()})
    shares = {
        name: {
            title: mean([attack.recovered(one[name]) for one in values if one["part"] == part])
            for title, part in (("secrets", "forget"), ("never_trained", "never_trained"))
        }
        for name, attack in suite.ATTACKS.items()
    }
    result = {
        "secrets": len(parts.forget),
        "strings": len(about.strings[parts.forget[0].id]),
        "written": mean([one["written"] for one in values if one["part"] == "forget"]),
        "attacks": shares,
        "relearning": about.notes["relearning"],
        "rounding": about.notes["rounding"],
    }
    return result, values


if __name__ == "__main__":
    command(Settings, run)
