"""Search settings of a method for an untuned model by what they do to some of its secrets.

A trial unlearns some secrets, measures what that cost, and is undone. Each loss is counted in units
of what is allowed (``Limits``); the cost of a trial is

    cost = (Σ lossᵢ⁴)^¼,

nearly the largest loss. Losses are computed from ranks and probabilities, so even a trial that
forgets nothing yet, or keeps nothing any more, shows which way is better. Trials begin
soft and grow harder as long as too little is forgotten (``Method.first``); then each takes a random
step from the best. Of trials within the limits the cheapest wins.
"""

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from document_audit import nearby_text
from document_audit.methods import METHODS
from document_audit.nearby_text import Passage
from document_audit.settings import Limits
from revs.measures import evaluate, general_text
from revs.measures.metrics import mean
from revs.model.architecture import Decoder
from revs.model.targets import Target

STEP = 0.5  # standard deviation of a setting's step, in nats (log scale)
FORGET, RETAIN = 20, 40  # secrets of a trial: unlearned and kept, at most
PASSAGES = 12  # near the secrets, that a trial looks at
WINDOWS = general_text.TUNING[:4]  # of general text
EASY = 0.75  # the search ends once no loss exceeds this share of what is allowed
BEYOND = 100  # rank of a token that is not among the first candidates


class Evaluation:
    """What trials are evaluated on, of all that ``search_settings`` is given the first, and what
    the unedited model makes of it. ``more``: arguments of the method."""

    def __init__(
        self,
        decoder: Decoder,
        forget: Sequence[Target],
        retain: Sequence[Target],
        passages: Sequence[Passage],
        limits: Limits,
        seed: int,
        method: str,
        more: dict | None,
    ):
        self.method, self.limits, self.seed = METHODS[method], limits, seed
        self.forget = first_secrets(forget, FORGET)
        self.retain = first_secrets(retain, RETAIN)
        self.passages = passages[:PASSAGES]
        self.general_text = general_text.predictions(decoder, WINDOWS)
        self.nearby = nearby_text.next_tokens(decoder, self.passages)
        self.more = self.method.measured(decoder) if more is None else more


@dataclass(frozen=True)
class Trial:
    """Searched settings; what was forgotten and kept, as shares; losses and their cost; how many
    other secrets were looked at, and how many of them were still written."""

    settings: dict
    shares: dict[str, float | None]
    losses: dict[str, float]
    cost: float
    others: tuple[int, int]


@dataclass(frozen=True)
class SearchResult:
    """The settings of the best trial, every trial in order, the limits, and whether the best is
    within them."""

    hp: object
    trials: list[Trial]
    best: Trial
    limits: Limits
    reached: bool


def search_settings(
    decoder: Decoder,
    forget: Sequence[Target],
    retain: Sequence[Target] = (),
    passages: Sequence[Passage] = (),
    limits: Limits | None = None,
    minutes: float = 3.0,
    most: int = 30,
    seed: int = 0,
    method: str = "least_squares",
    more: dict | None = None,
    progress: Callable = iter,
) -> SearchResult:
    """Search a method's settings by what unlearning ``forget`` does to the rest; undo every trial.

    A trial unlearns at most twenty secrets, at all their places. ``retain`` are other secrets,
    ``passages`` is text near the secrets, and ``more`` holds arguments of the method (None: those
    that the method measures on the model). There are at most ``most`` trials. The first is always
    made; a further one only if, lasting as long as the longest so far, it would end within
    ``minutes``. ``progress`` wraps the trials.
    """
    if not forget:
        raise ValueError("There is nothing to search settings on: give the places of a secret.")
    on = Evaluation(decoder, forget, retain, passages, limits or Limits(), seed, method, more)
    done = list(progress(itertools.islice(trials(decoder, on, 60 * minutes), most)))
    best = best_trial(done)
    hp, reached = on.method.hyperparameters(decoder, best.settings), within_limits(best.losses)
    return SearchResult(hp, done, best, on.limits, reached)


def first_secrets(targets: Sequence[Target], most: int) -> list[Target]:
    """All targets of the first so many secrets."""
    groups = list(dict.fromkeys(target.group for target in targets))[:most]
    return [target for target in targets if target.group in groups]


def trials(decoder: Decoder, on: Evaluation, seconds: float) -> Iterator[Trial]:
    """Every trial as it is made; no ν where nothing is protected."""
    unused = set() if "protect" in on.more else {"nu"}
    ranges = {name: one for name, one in on.method.ranges.items() if name not in unused}
    first, draw, done = list(on.method.first), random.Random(on.seed), []
    start, longest = time.monotonic(), 0.0
    while True:
        began = time.monotonic()
        if first:
            given = first.pop(0)
            settings = {name: given[name] for name in ranges}
        else:
            settings = neighbour(best_trial(done).settings, ranges, draw)
        hp = on.method.hyperparameters(decoder, settings)
        trial = Trial(settings, *effect(decoder, on, hp))
        done.append(trial)
        yield trial
        if max(trial.losses, key=trial.losses.get) != "forgotten":
            first = []  # a harder one would do more harm
        longest = max(longest, time.monotonic() - began)
        late = time.monotonic() - start + longest > seconds
        if late or within_limits(trial.losses, EASY):
            return


def best_trial(done: Sequence[Trial]) -> Trial:
    """The cheapest within the limits, else the cheapest."""
    return min(done, key=lambda one: (not within_limits(one.losses), one.cost))


def neighbour(settings: dict, ranges: dict, draw: random.Random) -> dict:
    """Settings a random step away, within their ranges; whole numbers stay whole."""
    found = {}
    for name, (low, high) in ranges.items():
        value = min(high, max(low, settings[name] * math.exp(draw.gauss(0, STEP))))
        found[name] = round(value) if isinstance(low, int) else float(f"{value:.4g}")
    return found


def within_limits(losses: dict[str, float], most: float = 1.0) -> bool:
    """Is no loss larger than what is allowed?"""
    return max(losses.values()) <= most


def cost_of(losses: dict[str, float]) -> float:
    """The cost of some losses; infinite if it is too large for a float."""
    with contextlib.suppress(OverflowError):
        return sum(loss**4 for loss in losses.values()) ** 0.25
    return math.inf


def effect(
    decoder: Decoder, on: Evaluation, hp: object
) -> tuple[dict, dict, float, tuple[int, int]]:
    """What unlearning does, as a trial keeps it. The model is left as it was."""
    with on.method.unlearn(decoder, on.forget, hp, on.seed, **on.more) as edit:
        shares, others = what_is_left(decoder, on)
    edit.undo()
    losses = on.limits.losses(shares)
    return shares, losses, cost_of(losses), others


def what_is_left(
    decoder: Decoder, on: Evaluation
) -> tuple[dict[str, float | None], tuple[int, int]]:
    """Return graded shares of what was forgotten and kept, and how many other secrets there are and
    how many of them are written exactly."""
    ranks, relative = evaluate.secret_ranks(decoder, on.forget), likelihoods(decoder, on.retain)
    lowest = [max(ranks[target.id][place] for place in target.T) for target in on.forget]
    # one that is still among the first candidates counts half at most
    gone = [1.0 if low >= BEYOND else math.log1p(low) / math.log1p(BEYOND) / 2 for low in lowest]
    now = general_text.predictions(decoder, on.general_text.windows)
    there = nearby_text.next_tokens(decoder, on.passages)
    same = [a == b for a, b in zip(on.nearby, there, strict=True)]
    shares = {
        "forgotten": mean(gone),
        "kept": mean(list(relative.values())) if relative else None,
        "nearby_text": mean(same) if same else None,
        "next_word_agreement": 1 - on.general_text.share_changed(now),
        "perplexity": now.perplexity / on.general_text.perplexity - 1,
    }
    exact = {one.group for one in on.retain if relative[one.id] == 1}
    return shares, (len({one.group for one in on.retain}), len(exact))


@torch.no_grad()
def likelihoods(decoder: Decoder, targets: Sequence[Target]) -> dict[str, float]:
    """By id, p(token) / p(the most probable one) of the worst of a secret's tokens, in (0, 1].

    1 exactly where the secret is what greedy decoding writes.
    """
    found = {}
    for batch in evaluate.batches(targets):
        logits, tokens = evaluate.secret_logits(decoder, batch)
        below = logits.gather(-1, tokens[:, None])[:, 0] - logits.amax(-1)
        each = below.split([len(one.secret_ids) for one in batch])
        found |= {one.id: float(some.min().exp()) for one, some in zip(batch, each, strict=True)}
    return found
