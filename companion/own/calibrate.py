"""Settings for a model that nobody has tuned: the projection, r_h, k, n_max and r_n.

A handful of its own secrets decide. Half of them, at most twenty, are unlearned with a candidate
setting, others and ordinary text say what that costs, and the edit is undone. From a middle setting
the search climbs along one setting at a time, the one that decides most first: to a harder edit as
long as the score rises, else to a softer one as long as it does not fall. The score is the
Unlearning Score (§4.5) with one part more, the share of the next tokens in ordinary text that stay
as they were: secrets alone do not tell when an edit harms the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from revs.measures import evaluate, ordinary
from revs.measures.metrics import harmonic_mean
from revs.measures.ordinary import CHOOSING, Ordinary
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target, split

# Softer edits first, of k the quicker; margins as fractions of the vocabulary, n_max of a layer's
# neurons, k as a multiple of n_max.
TRIED: dict[str, tuple] = {
    "projection": ("raw", "norm"),
    "r_h": (0.004, 0.008, 0.015, 0.03, 0.06, 0.12),
    "k": (1, 4, 16),
    "n_max": (0.007, 0.014, 0.028, 0.056, 0.11),
    "r_n": (0.6, 0.8, 0.94),
}
START = {"projection": "norm", "r_h": 0.03, "k": 1, "n_max": 0.028, "r_n": 0.8}
LARGEST_K = 1000  # neurons looked at in a layer, as in the paper: each costs a product with U
LEAST = 4  # secrets, without which nothing can be said
FORGET, RETAIN = 20, 60  # at most unlearned, and looked at besides


@dataclass(frozen=True)
class Calibration:
    """The settings chosen, every setting tried with its scores, in order, and the seconds."""

    hp: Hyperparameters
    tried: list[dict]
    seconds: float


@dataclass(frozen=True)
class Judge:
    """What settings are judged by: a split, the unedited model on ordinary text, k of Score@k."""

    split: Split
    unedited: Ordinary
    seed: int = 0
    k: int = 100


def calibrate(
    decoder: Decoder,
    targets: Sequence[Target],
    minutes: float = 5.0,
    seed: int = 0,
    k: int = 100,
    progress: Callable = iter,
) -> Calibration:
    """Chooses REVS's settings by what they do to some secrets; the model is left as it was.

    The score is the harmonic mean of efficacy, specificity, generalization (where a secret stands
    at two places or more) and the share of next tokens in ordinary text that stay, each in [0, 1].
    ``seed`` draws what is unlearned, ``k`` is that of Score@k (Eq. 2). No setting is begun that
    would last beyond ``minutes`` if it took as long as the longest so far, but the first is always
    tried. Raises ValueError with fewer than four secrets.
    """
    groups = {target.group for target in targets}
    if len(groups) < LEAST:
        raise ValueError(
            f"Calibration needs {LEAST} memorised secrets, two to unlearn and two to keep, but "
            f"there are {len(groups)}: give more documents, or settings of your own."
        )
    start, ff = time.monotonic(), decoder.neurons(0).shape[1]
    half = split(list(targets), seed, min(len(groups) // 2, FORGET), sentences=1)
    some = Split(half.forget, half.unseen, half.retain[:RETAIN])
    judge = Judge(some, ordinary.observe(decoder, CHOOSING), seed, k)
    trials = climb(lambda setting: effect(decoder, judge, settings(ff, setting)), 60 * minutes)
    tried = list(progress(trials))
    (best,) = [one for one in tried if one.get("chosen")]
    return Calibration(settings(ff, best["setting"]), tried, time.monotonic() - start)


def climb(effect: Callable[[dict], dict], seconds: float) -> Iterator[dict]:
    """Every trial of the search as it is made; in the end one of them is marked as chosen."""
    start = time.monotonic()
    best = {"setting": START} | effect(START)
    tried, longest = [best], time.monotonic() - start
    yield best
    for name, values in TRIED.items():
        for step in (1, -1):
            place = values.index(best["setting"][name]) + step
            while 0 <= place < len(values) and time.monotonic() - start + longest <= seconds:
                setting = best["setting"] | {name: values[place]}
                found = next((one for one in tried if one["setting"] == setting), None)
                if found is None:
                    began = time.monotonic()
                    found = {"setting": setting} | effect(setting)
                    longest = max(longest, time.monotonic() - began)
                    tried.append(found)
                    yield found
                # of equals the softer; but the harder while nothing has an effect
                of_equals = step < 0 if best["efficacy"] else step > 0
                if (found["score"], of_equals) <= (best["score"], False):
                    break
                best, place = found, place + step
    best["chosen"] = True


def effect(decoder: Decoder, judge: Judge, hp: Hyperparameters, progress: Callable = iter) -> dict:
    """What unlearning a split's secrets does to them, to others and to ordinary text.

    The model is left as it was. ``columns`` are those that the edit moves.
    """
    asked = judge.split
    with method.unlearn(decoder, asked.forget, hp, judge.seed, progress) as edit:
        ranks = evaluate.secret_ranks(decoder, asked.forget + asked.unseen + asked.retain)
        found, _ = evaluate.effectiveness(asked, ranks, judge.k)
        columns = edit.summary()["columns"]
        now = ordinary.observe(decoder, judge.unedited.windows)
    edit.undo()
    parts = {name: found[name] for name in ("efficacy", "generalization", "specificity")}
    parts["unchanged"] = 1 - judge.unedited.changed(now)
    score = harmonic_mean([part for part in parts.values() if part is not None])
    unlearning = {"unlearning_score": found["unlearning_score"], "score": score}
    return {"columns": columns} | parts | unlearning


def settings(ff: int, candidate: dict) -> Hyperparameters:
    """A candidate as REVS takes it, of layers with ``ff`` neurons."""
    neurons = max(1, round(candidate["n_max"] * ff))
    return Hyperparameters(
        projection=candidate["projection"],
        n_max=neurons,
        k=max(neurons, min(ff, LARGEST_K, candidate["k"] * neurons)),
        r_h=candidate["r_h"],
        eps_r_h=0.0,
        r_n=candidate["r_n"],
        eps_r_n=0.04,
    )
