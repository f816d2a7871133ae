"""Settings of REVS for a model that nobody has tuned, by what they do to some of its secrets.

A trial unlearns some secrets, looks at what that cost, and is undone. Each loss is counted in units
of what is allowed (``Limits``); the cost of a trial is

    cost = (Σ lossᵢ⁴)^¼,

nearly the largest of them. Losses are taken of ranks and probabilities, so that a trial in which
nothing is forgotten yet, or nothing kept any more, still says which way is better. Trials begin
soft and grow harder as long as forgetting is what is wanting most (``STEPS``); then the optimiser
of the contest chooses (``document_audit.optimizer``). The first few secrets of a trial are judged
alone, and it goes on only if forgetting them is not hopeless and they cost less than the best
trial did, or are within the limits where no trial is yet. Of trials within them the cheapest wins.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields

import torch
from torch import Tensor

from document_audit import nearby_text
from document_audit.nearby_text import Passage
from document_audit.optimizer import Search
from revs.measures import evaluate, general_text
from revs.measures.general_text import Predictions
from revs.measures.metrics import mean
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.method.selection import mean_activation
from revs.model.architecture import Decoder
from revs.model.targets import Target

# k as a multiple of n_max, margins as shares of the vocabulary
RANGES = {
    "r_h": {"low": 0.003, "high": 0.5, "most": 0.9},
    "n_max": {"low": 15, "high": 150, "least": 1, "most": 1000},
    "k": {"low": 1.0, "high": 4.0},
    "r_n": {"low": 0.6, "high": 0.97, "scale": "linear", "least": 0.05, "most": 0.99},
    "ridge": {"low": 0.03, "high": 3.0},
}
BESIDE = {"projection": "norm", "neurons": "selective", "eps_r_h": 0.0, "eps_r_n": 0.02}
SOFT = {"n_max": 45, "k": 1.0, "ridge": 1.0}
HARDER = ((0.02, 0.8), (0.06, 0.9), (0.18, 0.95), (0.45, 0.97))
STEPS = [SOFT | {"r_h": r_h, "r_n": r_n} for r_h, r_n in HARDER]
FEW, FORGET, RETAIN = 4, 20, 40  # secrets judged first; at most unlearned, and looked at besides
PLACES = 12  # passages near the secrets that a trial looks at
WINDOWS = general_text.TUNING[:4]  # of ordinary text
EASY = 0.75  # a success that is as far from every limit ends the search
HOPELESS = 3.0  # loss of forgetting of the first few after which a trial ends
BEYOND = 100  # rank of a token that is not among the first candidates


@dataclass(frozen=True)
class Limits:
    """What is called a success: shares that must be reached, and a rise that must not."""

    forgotten: float = 0.9  # of the secrets: not written, and not among the first 100 candidates
    kept: float = 0.8  # of the other secrets: still written
    near: float = 0.8  # of the next tokens around the secrets in their documents: as before
    words: float = 0.95  # of the next tokens in ordinary text: as before
    perplexity: float = 0.05  # by how much that of ordinary text may rise, as a share

    def __post_init__(self):
        for one in fields(self):
            most = math.inf if one.name == "perplexity" else 1
            if not 0 <= (value := getattr(self, one.name)) < most:
                raise ValueError(
                    f"{one.name} is {value}, but must be a share, at least 0 and less than {most}."
                )

    def met(self, name: str, value: float) -> bool:
        """Is this enough of it?"""
        limit = getattr(self, name)
        return value <= limit if name == "perplexity" else value >= limit

    def losses(self, seen: dict[str, float | None]) -> dict[str, float]:
        """What was lost, by name, in units of what may be; 1 or less is within the limits."""
        found = {}
        for name, limit in asdict(self).items():
            if (value := seen[name]) is not None:
                allowed = limit if name == "perplexity" else 1 - limit
                lost = value if name == "perplexity" else 1 - value
                found[name] = max(0.0, lost) / max(allowed, 1e-3) if lost == lost else math.inf
        return found


@dataclass(frozen=True)
class Judge:
    """What trials are judged by; what the unedited model makes of it."""

    forget: Sequence[Target]
    retain: Sequence[Target]
    passages: Sequence[Passage]
    limits: Limits
    general_text: Predictions
    near: list[int] = field(repr=False)
    mean_activation: Sequence[Tensor] = field(repr=False)
    seed: int = 0


@dataclass(frozen=True)
class Calibration:
    """The settings of the best trial, every trial in order, the limits, whether that trial is
    within them, and the seconds."""

    hp: Hyperparameters
    tried: list[dict]
    limits: Limits
    reached: bool
    seconds: float


def calibrate(
    decoder: Decoder,
    forget: Sequence[Target],
    retain: Sequence[Target] = (),
    passages: Sequence[Passage] = (),
    limits: Limits | None = None,
    minutes: float = 3.0,
    most: int = 30,
    seed: int = 0,
    held: dict | None = None,
    progress: Callable = iter,
) -> Calibration:
    """Chooses REVS's settings by what unlearning ``forget`` does to the rest; undone in the end.

    At most twenty secrets are unlearned in a trial, at all their places. ``retain`` are other
    secrets, ``passages`` text near them, ``held`` settings that every trial has. There are at most
    ``most`` trials, and none is begun that would last beyond ``minutes`` if it took as long as the
    longest so far; the first is always made. ``progress`` wraps the trials.
    """
    if not forget:
        raise ValueError("There is nothing to calibrate on: give the places of a secret.")
    start, limits = time.monotonic(), limits or Limits()
    some, others, passages = of_groups(forget, FORGET), of_groups(retain, RETAIN), passages[:PLACES]
    before = general_text.predictions(decoder, WINDOWS), nearby_text.following(decoder, passages)
    judge = Judge(some, others, passages, limits, *before, mean_activation(decoder), seed)
    tried = []
    for one in progress(itertools.islice(trials(decoder, judge, 60 * minutes, held or {}), most)):
        tried.append(one)
    whole = [one for one in tried if one["whole"]]
    best = min(whole or tried, key=lambda one: (not within(one["losses"]), one["cost"]))
    best["chosen"] = True
    hp = settings(decoder.neurons(0).shape[1], best["setting"], held or {})
    reached = bool(whole) and within(best["losses"])
    return Calibration(hp, tried, limits, reached, time.monotonic() - start)


def of_groups(targets: Sequence[Target], most: int) -> list[Target]:
    """The targets of the first so many secrets."""
    groups = list(dict.fromkeys(target.group for target in targets))[:most]
    return [target for target in targets if target.group in groups]


def trials(decoder: Decoder, judge: Judge, seconds: float, held: dict):
    """Every trial as it is made."""
    ranges = {name: one for name, one in RANGES.items() if name not in held}
    search = Search(ranges, len(decoder.layers), judge.seed, first=len(STEPS))
    steps, start, longest, best = list(STEPS), time.monotonic(), 0.0, (True, math.inf)
    while True:
        began = time.monotonic()
        step = steps.pop(0) if steps else {}
        setting = search.ask({name: step[name] for name in ranges if name in step})
        hp = settings(decoder.neurons(0).shape[1], setting, held)
        one = {"setting": setting} | effect(decoder, judge, hp, best)
        search.tell(-one["cost"])
        if one["whole"]:
            best = min(best, (not within(one["losses"]), one["cost"]))
        yield one
        if max(one["losses"], key=one["losses"].get) != "forgotten":
            steps = []  # a harder one would do more harm
        longest = max(longest, time.monotonic() - began)
        late = time.monotonic() - start + longest > seconds
        if late or not ranges or (one["whole"] and within(one["losses"], EASY)):
            return


def within(losses: dict[str, float], most: float = 1.0) -> bool:
    """Is no loss larger than what is allowed?"""
    return max(losses.values()) <= most


def together(losses: dict[str, float]) -> float:
    """The cost; what is too large for a number, or is none, is infinite."""
    with contextlib.suppress(OverflowError):
        return sum(loss**4 for loss in losses.values()) ** 0.25
    return math.inf


def settings(ff: int, setting: dict, held: dict) -> Hyperparameters:
    """What a trial draws as REVS takes it, of layers with ``ff`` neurons."""
    given = setting | held
    if "k" not in held:
        given["k"] = round(setting["k"] * given["n_max"])
    given["k"] = min(ff, given["k"])
    given["n_max"] = min(given["n_max"], given["k"])
    return Hyperparameters(**BESIDE | given)


def effect(
    decoder: Decoder, judge: Judge, hp: Hyperparameters, best: tuple = (True, math.inf)
) -> dict:
    """What unlearning does, of a few secrets first and of all if that is better than the ``best``
    trial: (is it beyond the limits?, cost).

    The model is left as it was. ``whole`` says whether all were unlearned.
    """
    few = of_groups(judge.forget, FEW)
    rest = [target for target in judge.forget if target not in few]
    edits, done = [], []
    try:
        for some in filter(None, (few, rest)):
            edits.append(
                method.unlearn(decoder, some, hp, judge.seed, mean_activation=judge.mean_activation)
            )
            done += some
            found = seen(decoder, judge, done)
            losses = judge.limits.losses(found)
            cost = together(losses)
            first = best[0] and within(losses)  # none was within the limits yet
            if not (cost < best[1] or first) or losses["forgotten"] > HOPELESS:
                break
    finally:
        for edit in reversed(edits):
            edit.undo()
    whole = len(done) == len(judge.forget)
    return {"seen": found, "losses": losses, "cost": cost, "whole": whole}


def seen(decoder: Decoder, judge: Judge, done: Sequence[Target]) -> dict[str, float | None]:
    """What was forgotten of some secrets and what was kept, each with a slope everywhere."""
    ranks, relative = evaluate.secret_ranks(decoder, done), likelihoods(decoder, judge.retain)
    lowest = [max(ranks[target.id][place] for place in target.T) for target in done]
    # one that is still among the first candidates counts half at most
    gone = [1.0 if low >= BEYOND else math.log1p(low) / math.log1p(BEYOND) / 2 for low in lowest]
    now = general_text.predictions(decoder, judge.general_text.windows)
    there = nearby_text.following(decoder, judge.passages)
    same = [a == b for a, b in zip(judge.near, there, strict=True)]
    return {
        "forgotten": mean(gone),
        "kept": mean(list(relative.values())) if relative else None,
        "near": mean(same) if same else None,
        "words": 1 - judge.general_text.share_changed(now),
        "perplexity": now.perplexity / judge.general_text.perplexity - 1,
    }


@torch.no_grad()
def likelihoods(decoder: Decoder, targets: Sequence[Target]) -> dict[str, float]:
    """By id, p(token) / p(the most probable one) of the worst of a secret's tokens, in (0, 1].

    1 exactly where the secret is what greedy decoding writes.
    """
    found = {}
    for batch in evaluate.batches(targets):
        ids, mask = decoder.pad([one.prompt_ids + one.secret_ids[:-1] for one in batch])
        output = decoder.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        for row, one in zip(output.last_hidden_state, batch, strict=True):
            first = len(one.prompt_ids) - 1
            logits = decoder.logits(row[first : first + len(one.secret_ids)])
            own = logits.gather(-1, torch.tensor(one.secret_ids, device=logits.device)[:, None])
            found[one.id] = float((own[:, 0] - logits.amax(-1)).min().exp())
    return found
