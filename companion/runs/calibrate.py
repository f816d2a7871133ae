"""Calibrate: settings chosen on some secrets of a model, and the paper's, on others of the same.

The secrets are halved. On one half ``companion.own.calibrate`` chooses REVS's settings. Of the
other half, which it has not seen, a part is unlearned with them, and with the paper's own for each
of its models, margins taken as fractions of the vocabulary. The ordinary text that judges is not
that which chose.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

from companion.own.calibrate import LEAST, Judge, calibrate, effect
from companion.record import rows
from companion.record.paths import resolve
from companion.runs import command, datasets, memory, models
from companion.runs.made import base, provenance
from companion.runs.memorise import prepared
from companion.runs.progress import progress
from companion.runs.tune import PAPER_DATA, PAPER_VOCABULARY, from_paper
from revs.measures import ordinary
from revs.method.algorithm import Hyperparameters
from revs.model.targets import encode, split

CALIBRATED = "calibrated"


@dataclass(frozen=True)
class Settings:
    """Which model and secrets, and how long the choice may take."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn"  # a built-in set or a JSON Lines file
    finetune: bool | dict = True  # memorise first (settings of that); False: the model knows them
    seed: int = 1  # draws the halves, and what is unlearned of each
    minutes: float = 5  # that calibration may take
    sentences: int | None = None  # of a secret, measured besides the unlearned one; None: all
    T: int = 2  # target tokens of a secret
    score_k: int = 100  # k of Score@k
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    rows: str = "build/rows"  # where the result row goes


def run(settings: Settings) -> dict:
    """Calibrates on half of a data set and judges the choice on the other half."""
    where, records = rows.writable(resolve(settings.rows)), datasets.read(settings.data)
    if (groups := len({record.group for record in records})) < 2 * LEAST:
        raise ValueError(
            f"{settings.data} has {groups} secrets, but {2 * LEAST} are needed, {LEAST} to "
            f"calibrate on and {LEAST} to judge with: give more."
        )
    memory.check(asdict(settings))
    folder = prepared(settings.model, settings.data, settings.finetune, str(where))
    clock = [time.monotonic()]
    decoder = models.load(folder, settings.dtype, settings.device_map)
    targets = [encode(record, decoder.tokenizer, settings.T) for record in records]
    seed, k = settings.seed, settings.score_k
    halves = split(targets, seed)
    others = split(halves.retain, seed, sentences=settings.sentences)
    clock.append(time.monotonic())
    half, bar = halves.forget + halves.unseen, progress("calibrate", "settings")
    chosen = calibrate(decoder, half, settings.minutes, seed, k, bar)
    clock.append(time.monotonic())
    judge = Judge(others, ordinary.observe(decoder), seed, k)
    candidates, printed = {CALIBRATED: chosen.hp}, PAPER_DATA.get(records[0].kind, "SSN")
    for name in PAPER_VOCABULARY:
        paper = from_paper("revs", name, len(decoder.layers), printed)
        candidates[name] = Hyperparameters(**paper)
    judged = {
        name: {"settings": asdict(hp)}
        | effect(decoder, judge, hp, progress(f"unlearn, {name}", "tokens"))
        for name, hp in candidates.items()
    }
    clock.append(time.monotonic())
    result = {
        "calibrated_on": len({target.group for target in halves.forget}),
        "forget": len(others.forget),
        "retain": len({target.group for target in others.retain}),
        "tried": chosen.tried,
        "judged": judged,
    }
    inputs = {"model": models.identify(folder), "data": datasets.fingerprint(records)}
    parts = zip(("load", "calibrate", "unlearn"), clock, clock[1:], strict=False)
    seconds = {part: end - begin for part, begin, end in parts}
    kept = {name: value for name, value in asdict(settings).items() if name != "rows"}
    made = provenance("calibrate", kept, inputs | ordinary.inputs(), seconds, decoder)
    name = f"calibrate/{Path(settings.data).stem}/{base(settings.model)}/seed{seed}"
    row = rows.write(where, name, "calibrate", result, [], made)
    scores = [f"{one} {100 * found['unlearning_score']:.1f}" for one, found in judged.items()]
    print(f"{name}: Unlearning Scores on other secrets: {', '.join(scores)}.")
    return row


if __name__ == "__main__":
    command(Settings, run)
