"""Settings for a model that nobody has tuned: the projection, r_h, k, n_max and r_n, from a handful of its own secrets.

Half of the secrets, at most twenty, are unlearned with a candidate setting, others and ordinary text say what that costs, and
the edit is undone. From a middle setting the search climbs along one setting at a time, the one that decides most first: to a
harder edit as long as the score rises, else to a softer one as long as it does not fall. The score is the Unlearning Score
(§4.5) with one part more, the share of the next tokens in ordinary text that stay as they were: secrets alone do not tell
when an edit harms the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from revs.measures import evaluate, ordinary
from revs.measures.metrics import harmonic_mean
from revs.measures.ordinary import CHOOSING, Ordinary
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target, split

# softer edits first, of k the quicker; margins as fractions of the vocabulary, n_max of a layer's neurons, k as a multiple of n_max
TRIED: dict[str, tuple] = {
    "projection": ("raw", "norm"),
    "r_h": (0.004, 0.008, 0.015, 0.03, 0.06, 0.12),
    "k": (1, 4, 16),
    "n_max": (0.007, 0.014, 0.028, 0.056, 0.11),
    "r_n": (0.6, 0.8, 0.94),
}
START = {"projection": "norm", "r_h": 0.03, "k": 1, "n_max": 0.028, "r_n": 0.8}
LARGEST_K = (
    1000  # neurons looked at in a layer, at most, as in the paper: each costs a product with U
)
LEAST, FORGET, RETAIN = (
    4,
    20,
    60,
)  # secrets without which nothing can be said; at most unlearned, and looked at besides


@dataclass(frozen=True)
class Calibration:
    """The settings chosen, every setting tried with its scores, in order, and the seconds that it took."""

    hp: Hyperparameters
    tried: list[dict]
    seconds: float


def calibrate(
    decoder: Decoder,
    targets: Sequence[Target],
    minutes: float = 5.0,
    seed: int = 0,
    k: int = 100,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration:
    """Chooses REVS's settings for a model by what they do to some of its memorised secrets and to ordinary text; the model is left as it was.

    The score is the harmonic mean of efficacy, specificity, generalization (where a secret stands at two places or more) and the share
    of next tokens in ordinary text that stay, each between 0 and 1. ``seed`` draws what is unlearned, ``k`` is that of Score@k (Eq. 2).
    Begins no setting that would last beyond ``minutes`` if it took as long as the longest so far, and ends with the best of those that it
    tried, at least one. Raises ValueError with fewer than four secrets.

    >>> from revs.model.targets import Record, encode
    >>> people = [encode(Record(name, "text", name, f"The code of {name} is ", 3 * name, "."), decoder.tokenizer) for name in ("one", "two", "six", "ten")]
    >>> calibrate(decoder, people, minutes=0).hp.r_h == START["r_h"]
    True
    """
    groups = {target.group for target in targets}
    if len(groups) < LEAST:
        raise ValueError(
            f"Calibration needs {LEAST} memorised secrets, two to unlearn and two to keep, but there are {len(groups)}: give more documents, or settings of your own."
        )
    half = split(list(targets), seed, min(len(groups) // 2, FORGET), sentences=1)
    ff = decoder.neurons(0).shape[1]
    some = Split(half.forget, half.unseen, half.retain[:RETAIN])
    start, tried, most, longest = time.monotonic(), [], sum(map(len, TRIED.values())), 0.0
    unedited = ordinary.observe(decoder, CHOOSING)

    def score(candidate: dict) -> dict:
        nonlocal longest
        for one in tried:
            if one["setting"] == candidate:
                return one
        began = time.monotonic()
        tried.append(
            {"setting": candidate}
            | effect(decoder, some, settings(ff, candidate), unedited, seed, k)
        )
        longest = max(longest, time.monotonic() - began)
        progress(len(tried), most)
        return tried[-1]

    best = score(START)
    for name, values in TRIED.items():
        for step in (1, -1):
            place = values.index(best["setting"][name]) + step
            while 0 <= place < len(values) and time.monotonic() - start + longest <= 60 * minutes:
                found = score(best["setting"] | {name: values[place]})
                of_equals = (
                    step < 0 if best["efficacy"] else step > 0
                )  # the softer; but the harder while nothing has an effect
                if found["score"] < best["score"] or (
                    found["score"] == best["score"] and not of_equals
                ):
                    break
                best, place = found, place + step
    best["chosen"] = True
    progress(most, most)
    return Calibration(settings(ff, best["setting"]), tried, time.monotonic() - start)


def effect(
    decoder: Decoder,
    split: Split,
    hp: Hyperparameters,
    unedited: Ordinary,
    seed: int,
    k: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict:
    """What unlearning a split's secrets changes, and what it does to them, to others and to ordinary text; the model is left as it was."""
    with method.unlearn(decoder, split.forget, hp, seed, progress) as edit:
        found, _ = evaluate.effectiveness(
            split, evaluate.secret_ranks(decoder, split.forget + split.unseen + split.retain), k
        )
        columns, unchanged = (
            edit.summary()["columns"],
            1 - unedited.changed(ordinary.observe(decoder, unedited.windows)),
        )
    edit.undo()
    parts = {name: found[name] for name in ("efficacy", "generalization", "specificity")} | {
        "unchanged": unchanged
    }
    return (
        {"columns": columns}
        | parts
        | {
            "unlearning_score": found["unlearning_score"],
            "score": harmonic_mean([part for part in parts.values() if part is not None]),
        }
    )


def settings(ff: int, candidate: dict) -> Hyperparameters:
    """A candidate as REVS takes it: n_max of a layer's ``ff`` neurons out of so many times as many (or LARGEST_K), and the margins with their ε."""
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
