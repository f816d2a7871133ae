"""Calibrate: settings that were chosen on some secrets of a model, and the paper's, on other secrets of the same model.

The secrets are halved. On one half ``companion.own.calibrate`` chooses REVS's settings. Of the other half, which it has not seen, a part
is unlearned with them, and with the paper's own for each of its models, margins taken as fractions of the vocabulary. The
ordinary text that judges is not that which chose.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from companion.own.calibrate import LEAST, calibrate, effect
from companion.record import rows
from companion.record.paths import resolve
from companion.runs import command, datasets, models
from companion.runs.memorise import prepared
from companion.runs.progress import Progress
from companion.runs.tune import PAPER_DATA, PAPER_VOCABULARY, from_paper
from companion.runs.unlearn import base
from revs.measures import ordinary
from revs.method.algorithm import Hyperparameters
from revs.model import load
from revs.model.targets import encode, split

CALIBRATED = "calibrated"


def run(
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn",  # a built-in set or a JSON Lines file
    finetune: bool
    | dict = True,  # instil the data first; settings of companion.runs.memorise, or false if the model knows them
    seed: int = 1,  # draws the halves, and what is unlearned of each
    minutes: float | int = 5,  # that calibration may take
    sentences: int
    | None = None,  # sentences of a secret that are measured besides the unlearned one; None: all
    T: int = 2,  # target tokens of a secret
    score_k: int = 100,  # k of Score@k
    dtype: str = "float32",
    device_map: str | None = None,
    rows: str = "build/rows",  # where the row goes
) -> dict:
    """Calibrates on half of a data set and judges the choice on the other half; returns the row."""
    row = judged(**locals())
    scores = {
        name: f"{100 * one['unlearning_score']:.1f}"
        for name, one in row["result"]["judged"].items()
    }
    print(
        f"{row['name']}: Unlearning Scores on other secrets: {', '.join(f'{name} {score}' for name, score in scores.items())}."
    )
    return row


def judged(**settings) -> dict:
    """Calibrates, unlearns with each choice in turn, writes the row."""
    where = rows.writable(resolve(settings.pop("rows")))
    records = datasets.read(settings["data"])
    if (groups := len({record.group for record in records})) < 2 * LEAST:
        raise ValueError(
            f"{settings['data']} has {groups} secrets, but {2 * LEAST} are needed, {LEAST} to calibrate on and {LEAST} to judge with: give more."
        )
    folder = prepared(settings["model"], settings["data"], settings["finetune"], str(where))
    clock = [time.monotonic()]
    decoder = models.load(folder, settings["dtype"], settings["device_map"])
    halves = split(
        [encode(record, decoder.tokenizer, settings["T"]) for record in records],
        settings["seed"],
    )
    others = split(halves.retain, settings["seed"], sentences=settings["sentences"])
    clock.append(time.monotonic())
    chosen = calibrate(
        decoder,
        halves.forget + halves.unseen,
        settings["minutes"],
        settings["seed"],
        settings["score_k"],
        Progress("calibrate", "settings"),
    )
    clock.append(time.monotonic())
    printed = PAPER_DATA.get(records[0].kind, "SSN")
    unedited = ordinary.observe(decoder)
    candidates = {CALIBRATED: chosen.hp} | {
        name: Hyperparameters(**from_paper("revs", name, len(decoder.layers), printed))
        for name in PAPER_VOCABULARY
    }
    found = {
        name: {"settings": asdict(hp)}
        | effect(
            decoder,
            others,
            hp,
            unedited,
            settings["seed"],
            settings["score_k"],
            Progress(f"unlearn, {name}", "tokens"),
        )
        for name, hp in candidates.items()
    }
    clock.append(time.monotonic())
    result = {
        "calibrated_on": len({target.group for target in halves.forget}),
        "forget": len(others.forget),
        "retain": len({target.group for target in others.retain}),
        "tried": chosen.tried,
        "judged": found,
    }
    inputs = {"model": models.identify(folder), "data": datasets.fingerprint(records)} | ordinary.inputs()
    made = rows.provenance(
        "calibrate",
        settings,
        inputs,
        dict(zip(("load", "calibrate", "unlearn"), (b - a for a, b in zip(clock, clock[1:])))),
    ) | {
        "model": {
            "name": base(settings["model"]),
            "revision": inputs["model"],
            "dtype": settings["dtype"],
        },
        "tokenizer": load.tokenizer_hash(decoder.tokenizer),
    }
    return rows.write(
        where,
        f"calibrate/{Path(settings['data']).stem}/{base(settings['model'])}/seed{settings['seed']}",
        "calibrate",
        result,
        [],
        made,
    )


if __name__ == "__main__":
    command(run)
