"""Tune: as many trials that do something for each method, chosen by Unlearning Score (§4.5; App.).

The objective is the Unlearning Score of a split of other people's secrets, as a run has it.
Optuna's TPE draws the settings (``document_audit.optimizer``); the paper's own are the first trials. A
trial counts if it moves its targets at all: no method spends its budget where nothing happens.
The highest of many scores on one split is partly that split's luck. The best trials are therefore
run once more on further splits, and the mean over all splits chooses.

One process tries one method: the model is loaded once and put back in memory after every trial.
Each trial forgets as many secrets as a run does, for what serves ten may ruin the model at twenty;
and each is a row of its own, so that a stopped search goes on where it was, and any can be drawn
again as a run of its own.
"""

from __future__ import annotations

import gc
import itertools
from dataclasses import asdict, dataclass, field

import yaml

from companion.experiments import command, methods, unlearn
from companion.experiments.provenance import provenance
from companion.experiments.unlearn import FAILURES, Plan, Stage, planned
from companion.store import paper, rows
from companion.store.paths import ROOT
from companion.store.suggestions import hint
from document_audit.optimizer import Search

# Rows of the paper's heads: margins are carried over as fractions.
PAPER_VOCABULARY = {"Llama-3-8B": 128256, "GPT-J-6B": 50400}
PAPER_DATA = {"ssn": "SSN", "email": "Emails", "url": "URLs"}  # kind of secret → the paper's data
MARGINS = ("r_h", "eps_r_h", "r_n", "eps_r_n")
MOVED = 0.01  # efficacy of a trial that did something: its tokens rank 1 on average, and not 0
MOST = 2  # times as many trials as asked for, however few of them count


@dataclass(frozen=True)
class Settings:
    """A search: on which model and data, of which method, how long."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn-tune"  # other people and secrets than those of the results
    finetune: bool | dict = True  # memorise first (settings of that); False: the model knows them
    method: str = "revs"  # a name of params/methods.yml
    trials: int = 40  # that move the targets; the first two have the paper's own settings
    seed: int = 0  # of the split
    finalists: int = 5  # trials with the best scores, which run once more on each further split
    splits: list[int] = field(default_factory=lambda: [1, 2])  # seeds of the further splits
    measures: list[str] = field(default_factory=list)  # what else is measured there: attacks, …
    forget: int | None = None  # secrets to forget in a trial; None: half, as in a run
    sentences: int | None = 2  # of a secret, measured besides the unlearned one; None: all
    hyperparameters: dict | None = None  # what every trial has, like {"projection": "raw"}
    ranges: dict | None = None  # over params/search.yml: {"lr": {"low": 1e-6, "high": 1e-3}}
    tag: str = ""  # added to the names of the search and its trials
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    rows: str = "build/rows"  # where the rows go


def run(settings: Settings) -> dict:
    """Tries a method's hyperparameters and returns the row that names the best.

    Runs the trials that have no current row yet, in one process; ValueError if all fail.
    """
    spaces = ranges(settings.method, settings.ranges)
    plan = planned(trial_of(settings, settings.seed))
    further = [planned(trial_of(settings, seed, settings.measures)) for seed in settings.splits]
    tried, scores, result, made = searched(settings, plan, spaces)
    best = sorted(scores, key=scores.get, reverse=True)[: settings.finalists]
    finals = {number: [scores[number]] for number in best}
    for other in further if len(best) > 1 else ():
        gc.collect()  # a model that is spread over GPUs refers to itself
        stage = Stage(other)
        for number in best:
            after = attempt(other, stage, number, tried[number])
            finals[number].append(after["unlearning_score"] if after else 0.0)
        del stage
    means = {number: sum(some) / len(some) for number, some in finals.items()}
    chosen = max(means, key=means.get)
    result |= {
        "best": chosen,
        "unlearning_score": means[chosen],
        "hyperparameters": tried[chosen],
        "finals": {str(number): some for number, some in finals.items()},
    }
    name = plan.name.removesuffix("-trial").replace("unlearn/", "tune/", 1)
    print(f"{name}: trial {chosen} of {len(tried)} is the best, with {100 * means[chosen]:.1f}.")
    return rows.write(plan.where, name, "tune", result, [], made, settings.tag)


def searched(
    settings: Settings, plan: Plan, spaces: dict[str, dict]
) -> tuple[list[dict], dict[int, float], dict, dict]:
    """The search of some ranges on one split: the settings of every trial, the scores of those that
    ended with one, what the row says of them and how it was made. The model is let go when it is
    over."""
    stage = Stage(plan)
    layers = len(stage.decoder.layers)
    first = printed(settings.method, layers, PAPER_DATA.get(plan.records[0].kind, "SSN"))
    held = settings.hyperparameters or {}
    search = Search(spaces, layers, held=held)
    tried, scores, moved = [], {}, 0
    for number in itertools.count():
        if moved >= settings.trials or number >= MOST * settings.trials:
            break
        tried.append((first[number] if number < len(first) else search.ask()) | held)
        after = attempt(plan, stage, number, tried[number])
        score = after["unlearning_score"] if after else 0.0
        counts = bool(after) and after["efficacy"] >= MOVED
        if number >= len(first):
            search.tell(score, counts)
        if after:
            scores[number] = score
        moved += counts
    if not scores:
        raise ValueError(
            f"All {len(tried)} trials of {settings.method} failed: "
            f"look at their rows, {plan.name}NN, for the reasons."
        )
    found = {
        "trials": len(tried),
        "failed": len(tried) - len(scores),
        "moved": moved,
        "ranges": search.spaces,
        "widened": sorted(search.widened),
    }
    asked = {name: value for name, value in asdict(settings).items() if name != "rows"}
    made = provenance("tune", asked, plan.inputs, stage.seconds, stage.decoder)
    return tried, scores, found, made


def trial_of(settings: Settings, seed: int, measures: list[str] = ()) -> unlearn.Settings:
    """A trial as a run on the split of a seed; its number is still to come."""
    given = asdict(settings)
    for name in ("trials", "finalists", "splits", "ranges"):
        del given[name]
    given |= {"seed": seed, "measures": list(measures), "generate": False}
    return unlearn.Settings(**given | {"tag": tag_of_trials(settings.tag)})


def tag_of_trials(tag: str) -> str:
    """What the tags of the trials of a search with this tag begin with, before their number."""
    return f"{tag}-trial".lstrip("-")


def attempt(plan: Plan, stage: Stage, number: int, hyperparameters: dict) -> dict | None:
    """What a trial did, from its current row, or measured now; None if it fails."""
    try:
        trial = plan.trial(number, hyperparameters)
        row = trial.current() or trial.measure(stage, restore=True)
    except FAILURES as error:
        print(f"{plan.name}{number:02d} failed: {error}", flush=True)
        return None
    print(unlearn.report(row), flush=True)
    return row["result"]["after"]


def printed(method: str, layers: int, data: str) -> list[dict]:
    """The paper's settings for its two models, as far as a method has them."""
    found = (from_paper(method, model, layers, data) for model in PAPER_VOCABULARY)
    return [settings for settings in found if settings]


def from_paper(method: str, model: str, layers: int, data: str) -> dict:
    """The Appendix's settings for a data set of the paper, as far as a method has them.

    Margins become fractions of the vocabulary, and layers that this model lacks go.
    """
    title = owner(method)
    if not paper.has_settings(title):
        return {}
    mine, settings = methods.known(method), {}
    for name, value in paper.hyperparameters(title, model, data).items():
        if name in MARGINS:
            value /= PAPER_VOCABULARY[model]
        if isinstance(value, list):
            value = [layer for layer in value if layer < layers]
        if name in mine:
            settings[name] = value
    return settings


def owner(method: str) -> str:
    """By whose title the paper knows a method's settings: its own, or that of what it varies."""
    titles = methods.registry()
    return titles[titles[method].get("variant_of", method)]["title"]


def ranges(method: str, other: dict | None = None) -> dict[str, dict]:
    """What is drawn: params/search.yml, which says where that is not the paper's sweep, and over it
    ``other`` ranges of some settings, as another model may need."""
    own = yaml.safe_load((ROOT / "params" / "search.yml").read_text(encoding="utf-8"))
    if method not in own:
        raise ValueError(f"There are no ranges to search for '{method}'" + hint(method, own))
    for name, space in (other or {}).items():
        if name not in own[method]:
            raise ValueError(f"{method} has no range of '{name}'" + hint(name, own[method]))
        if not is_space(space):
            raise ValueError(
                f"The range of {name} is {space!r}, but must be like {{low: 1.0e-6, high: 1.0e-3}} "
                "or {values: [0, 1]}."
            )
    return own[method] | (other or {})


def is_space(space) -> bool:
    """Does this say what to draw from: between two ends, or one of some values?"""
    if not isinstance(space, dict):
        return False
    if space.keys() == {"values"}:
        return isinstance(space["values"], list) and bool(space["values"])
    if not {"low", "high"} <= space.keys() <= {"low", "high", "scale", "least", "most"}:
        return False
    numbers = [space[end] for end in space.keys() - {"scale"}]
    if not all(type(number) in (int, float) for number in numbers):
        return False
    return space["low"] < space["high"] and (space.get("scale") == "linear" or min(numbers) > 0)


if __name__ == "__main__":
    command(Settings, run)
