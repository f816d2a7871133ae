"""Unlearn: one method on one data set and one split, measured before and after, in one process (§4.5).

The edited model never touches the disk. A finished run whose settings, inputs and code are unchanged is not repeated.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from revs import data, evaluate, load, methods, rows
from revs.experiments import command
from revs.experiments.memorise import prepared
from revs.paths import resolve
from revs.progress import Progress

MODULES = ["revs.experiments.unlearn"]


def run(
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn",  # a built-in set or a JSON Lines file
    finetune: bool | dict = True,  # instil the data first; settings of revs.experiments.memorise, or false if the model knows them
    method: str = "revs",  # a name of params/methods.yml
    seed: int = 1,  # draws what is forgotten and what is kept
    forget: int | None = None,  # secrets to forget; None: half
    T: int = 2,  # target tokens of a secret
    tokens: str = "rarest",  # how they are chosen: rarest, frequent, first, random
    score_k: int = 100,  # k of Score@k
    generate: bool = True,  # also look for retained secrets in 50 greedy tokens
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
    where, tag = resolve(settings.pop("rows")), settings.pop("tag")
    revs_own = {name: settings.pop(name) for name in ("n_max", "k", "r_h", "eps_r_h", "r_n", "eps_r_n")}
    given = (settings["hyperparameters"] or {}) | {name: value for name, value in revs_own.items() if value is not None}
    base, short = Path(settings["model"]).name.removesuffix(".gguf"), Path(settings["data"]).stem
    settings["hyperparameters"] = methods.hyperparameters(settings["method"], base, short, given)
    method = methods.method(settings["method"])
    hp = method.Hyperparameters(**settings["hyperparameters"])
    records = data.read(settings["data"])
    folder = prepared(settings["model"], settings["data"], settings["finetune"], str(where))
    inputs = {"model": load.identify(folder), "data": data.fingerprint(records)}
    modules = MODULES + [method.__name__]
    name = f"unlearn/{short}/{base}/{settings['method']}-seed{settings['seed']}" + (f"-{tag}" if tag else "")
    path = where / f"{name}.json"
    if path.is_file() and (row := rows.read(path))["provenance"]["stamp"] == rows.stamp(modules, settings, inputs):
        return row

    clock = [time.monotonic()]
    decoder = load.load(folder, settings["dtype"], settings["device_map"])
    torch.manual_seed(settings["seed"])
    targets = [data.encode(record, decoder.tokenizer, settings["T"], settings["tokens"]) for record in records]
    split = data.split(targets, settings["seed"], settings["forget"])
    clock.append(time.monotonic())
    before, _ = evaluate.effectiveness(decoder, split, settings["score_k"])
    clock.append(time.monotonic())
    edit = method.unlearn(decoder, split.forget, hp, settings["seed"], Progress(f"{settings['method']} on {short}, seed {settings['seed']}", "tokens"))
    clock.append(time.monotonic())
    after, items = evaluate.effectiveness(decoder, split, settings["score_k"], settings["generate"])
    clock.append(time.monotonic())
    seconds = dict(zip(("load", "evaluate_before", "unlearn", "evaluate_after"), [b - a for a, b in zip(clock, clock[1:])]))
    made = rows.provenance(modules, settings, inputs, seconds) | {
        "model": {"name": base, "revision": inputs["model"], "dtype": settings["dtype"]},
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
    }
    return rows.write(where, name, "unlearn", {"before": before, "after": after, "edit": edit.summary()}, items, made)


def report(row: dict) -> str:
    """The run in one line."""
    after, seconds = row["result"]["after"], row["provenance"]["seconds"]["unlearn"]
    parts = [f"{name} {100 * after[name]:.1f}" for name in ("efficacy", "generalization", "specificity", "unlearning_score") if after[name] is not None]
    return f"{row['name']}: {', '.join(parts)}; unlearning took {seconds:.0f} s."


if __name__ == "__main__":
    command(run)
