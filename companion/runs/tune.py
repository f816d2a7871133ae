"""Tune: the same number of trials for each method, chosen by Unlearning Score (§4.5; Appendix).

One process tries one method: the model is loaded once and put back in memory after every trial.
Each trial forgets as many secrets as a run does, for what serves ten may ruin the model at twenty;
and each is a row of its own, so that a stopped search goes on where it was, and any can be drawn
again as a run of its own.
"""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass

import yaml

from companion.record import paper, rows
from companion.record.paths import ROOT
from companion.runs import command, methods, unlearn
from companion.runs.made import provenance
from companion.runs.unlearn import FAILURES, Plan, Stage, planned

# Rows of the paper's heads: margins are carried over as fractions.
PAPER_VOCABULARY = {"Llama-3-8B": 128256, "GPT-J-6B": 50400}
PAPER_DATA = {"ssn": "SSN", "email": "Emails", "url": "URLs"}  # kind of secret → the paper's data
MARGINS = ("r_h", "eps_r_h", "r_n", "eps_r_n")


@dataclass(frozen=True)
class Settings:
    """A search: on which model and data, of which method, how long."""

    model: str = "smollm2-135m"  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn-tune"  # other people and secrets than those of the results
    finetune: bool | dict = True  # memorise first (settings of that); False: the model knows them
    method: str = "revs"  # a name of params/methods.yml
    trials: int = 20  # the first two are the paper's own settings, the others are drawn
    seed: int = 0  # of the split
    forget: int | None = None  # secrets to forget in a trial; None: half, as in a run
    sentences: int | None = 2  # of a secret, measured besides the unlearned one; None: all
    hyperparameters: dict | None = None  # what every trial has, like {"projection": "raw"}
    tag: str = ""  # added to the names of the search and its trials
    dtype: str = "float32"  # precision of the weights
    device_map: str | None = None  # where the model goes; None: a GPU if there is one
    rows: str = "build/rows"  # where the rows go


def run(settings: Settings) -> dict:
    """Tries a method's hyperparameters and returns the row that names the best.

    Runs the trials that have no current row yet, in one process; ValueError if all fail.
    """
    asked = {name: value for name, value in asdict(settings).items() if name != "rows"}
    of_trials = {name: value for name, value in asdict(settings).items() if name != "trials"}
    of_trials |= {"generate": False, "tag": f"{settings.tag}-trial".lstrip("-")}
    plan = planned(unlearn.Settings(**of_trials))
    stage = Stage(plan)
    printed, layers = PAPER_DATA.get(plan.records[0].kind, "SSN"), len(stage.decoder.layers)
    tried = [
        candidate(settings.method, number, layers, printed) | (settings.hyperparameters or {})
        for number in range(settings.trials)
    ]
    scores = attempts(plan, stage, tried)
    if not scores:
        raise ValueError(
            f"All {len(tried)} trials of {settings.method} failed: "
            f"look at their rows, {plan.name}NN, for the reasons."
        )
    best = max(scores, key=scores.get)
    result = {
        "trials": len(tried),
        "failed": len(tried) - len(scores),
        "best": best,
        "unlearning_score": scores[best],
        "hyperparameters": tried[best],
    }
    made = provenance("tune", asked, plan.inputs, stage.seconds, stage.decoder)
    name = plan.name.removesuffix("-trial").replace("unlearn/", "tune/", 1)
    print(f"{name}: trial {best} of {len(tried)} is the best, with {100 * scores[best]:.1f}.")
    return rows.write(plan.where, name, "tune", result, [], made, settings.tag)


def attempts(plan: Plan, stage: Stage, tried: list[dict]) -> dict[int, float]:
    """The Unlearning Score of each trial by its number: of its current row, or measured now.

    Those that fail are left out.
    """
    scores = {}
    for number, hyperparameters in enumerate(tried):
        try:
            trial = plan.trial(number, hyperparameters)
            row = trial.current() or trial.measure(stage, restore=True)
            scores[number] = row["result"]["after"]["unlearning_score"]
            print(unlearn.report(row), flush=True)
        except FAILURES as error:
            print(f"{plan.name}{number:02d} failed: {error}", flush=True)
    return scores


def candidate(method: str, number: int, layers: int, data: str = "SSN") -> dict:
    """The settings of one trial: 0 and 1 are the paper's for its two models, the others are drawn.

    They are always the same for a number.
    """
    if number < len(PAPER_VOCABULARY):
        if printed := from_paper(method, list(PAPER_VOCABULARY)[number], layers, data):
            return printed
    draw = random.Random(f"{method}/{number}")
    drawn = {name: sample(draw, space) for name, space in ranges(method).items()}
    if "n_max" in drawn and "k" in drawn:
        drawn["n_max"] = min(drawn["n_max"], drawn["k"])
    return drawn


def from_paper(method: str, model: str, layers: int, data: str) -> dict:
    """The Appendix's settings for a data set of the paper, as far as a method has them.

    Margins become fractions of the vocabulary, and layers that this model lacks go.
    """
    title = methods.registry()[method]["title"]
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


def ranges(method: str) -> dict[str, dict]:
    """What is drawn: the paper's sweep ranges, with what params/search.yml adds or restricts."""
    titles = methods.registry()
    title = titles[titles[method].get("ranges_of", method)]["title"]
    printed = {
        entry["name"]: {key: entry[key] for key in ("low", "high", "values") if key in entry}
        for entry in paper.tables()["sweep"]
        if entry["method"] == title
    }
    own = yaml.safe_load((ROOT / "params" / "search.yml").read_text(encoding="utf-8"))
    there = methods.known(method)
    drawn = printed | own.get(method, {})
    return {name: space for name, space in drawn.items() if name in there}


def sample(draw: random.Random, space: dict):
    """One value: of a list, or log-uniform between two ends; whole if the ends are."""
    if "values" in space:
        return draw.choice(space["values"])
    low, high = space["low"], space["high"]
    if space.get("scale") == "linear":
        value = draw.uniform(low, high)
    else:
        value = math.exp(draw.uniform(math.log(low), math.log(high)))
    return round(value) if isinstance(low, int) and isinstance(high, int) else float(f"{value:.4g}")


if __name__ == "__main__":
    command(Settings, run)
