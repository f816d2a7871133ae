"""Tune: the same number of trials for each method, over the paper's ranges, chosen by Unlearning Score (§4.5; Appendix).

One process tries one method: the model is loaded once and put back in memory after every trial. Each trial forgets as
many secrets as a run does, for what serves ten may ruin the model at twenty; and each is a row of its own, so that a
stopped search goes on where it was, and any can be drawn again as a run of its own.
"""

from __future__ import annotations

import inspect
import math
import random
from dataclasses import fields

import yaml

from companion.record import paper, rows
from companion.record.paths import ROOT, resolve
from companion.runs import command, methods, unlearn
from companion.runs.unlearn import FAILURES, Plan, Stage, base, planned
from revs.model import load

PAPER_VOCABULARY = {
    "Llama-3-8B": 128256,
    "GPT-J-6B": 50400,
}  # rows of their heads: margins are carried over as fractions
PAPER_DATA = {"ssn": "SSN", "email": "Emails", "url": "URLs"}  # kind of secret → the paper's data
MARGINS = ("r_h", "eps_r_h", "r_n", "eps_r_n")


def run(
    model: str = "smollm2-135m",  # a name of params/models.yml, a folder, a .gguf file or a hub id
    data: str = "ssn-tune",  # other people and secrets than those of the results
    finetune: bool
    | dict = True,  # instil the data first; settings of companion.runs.memorise, or false if the model knows them
    method: str = "revs",  # a name of params/methods.yml
    trials: int = 20,  # the first two are the paper's own settings, the others are drawn
    seed: int = 0,  # of the split
    forget: int
    | None = None,  # secrets to forget in a trial; None: half, as in a run. How hard it is grows with their number
    sentences: int | None = 2,  # sentences of a secret that are measured besides the unlearned one
    hyperparameters: dict | None = None,  # settings that every trial has, like {projection: raw}
    tag: str = "",  # set behind the names of the search and its trials, so that one with such settings stands beside the one without
    dtype: str = "float32",
    device_map: str | None = None,
    rows: str = "build/rows",  # where the rows go
) -> dict:
    """Tries a method's hyperparameters and returns the row that names the best."""
    row = search(**locals())
    result = row["result"]
    print(
        f"{row['name']}: the best of {result['trials']} is trial {result['best']} with an Unlearning Score of {100 * result['unlearning_score']:.1f}; {result['failed']} failed."
    )
    return row


def search(**settings) -> dict:
    """Runs the trials that have no current row yet, in one process, and writes the row of the whole."""
    where, asked = (
        rows.writable(resolve(settings["rows"])),
        {name: settings[name] for name in settings if name != "rows"},
    )
    if settings["trials"] < 1:
        raise ValueError(f"trials is {settings['trials']}, but must be at least 1.")
    every = {
        name: parameter.default
        for name, parameter in inspect.signature(unlearn.run).parameters.items()
        if name != "rows"
    }
    shared = (
        every
        | {name: value for name, value in asked.items() if name in every}
        | {"generate": False}
    )
    plan = planned(where, shared | {"tag": "-".join(filter(None, (settings["tag"], "trial")))})
    stage = Stage(plan)
    printed = PAPER_DATA.get(plan.records[0].kind, "SSN")
    fixed = settings["hyperparameters"] or {}
    tried = [
        candidate(settings["method"], number, len(stage.decoder.layers), printed) | fixed
        for number in range(settings["trials"])
    ]
    scores = attempts(plan, stage, tried)
    best = max(scores, key=scores.get)
    result = {
        "trials": len(tried),
        "failed": len(tried) - len(scores),
        "best": best,
        "unlearning_score": scores[best],
        "hyperparameters": tried[best],
    }
    made = rows.provenance("tune", asked, plan.inputs, stage.seconds) | {
        "model": {
            "name": base(settings["model"]),
            "revision": plan.inputs["model"],
            "dtype": settings["dtype"],
        },
        "tokenizer": load.tokenizer_hash(stage.decoder.tokenizer),
    }
    return rows.write(
        where,
        plan.name.removesuffix("-trial").replace("unlearn/", "tune/", 1),
        "tune",
        result,
        [],
        made,
    )


def attempts(plan: Plan, stage: Stage, tried: list[dict]) -> dict[int, float]:
    """The Unlearning Score of each trial by its number: of its current row, or measured now. Those that fail are left out."""
    scores = {}
    for number, hyperparameters in enumerate(tried):
        tag = f"{plan.tag}{number:02d}"
        try:
            trial = plan.varied(hyperparameters, tag)
            row = trial.current() or trial.measure(stage, restore=True)
            scores[number] = row["result"]["after"]["unlearning_score"]
            print(f"{tag}: {unlearn.report(row)}", flush=True)
        except FAILURES as error:
            print(f"{tag} failed: {error}", flush=True)
    if not scores:
        raise ValueError(
            f"All {len(tried)} trials of {plan.settings['method']} failed: look at their rows, {plan.name}NN, for the reasons."
        )
    return scores


def candidate(method: str, number: int, layers: int, data: str = "SSN") -> dict:
    """The settings of one trial: 0 and 1 are the paper's for its two models, the others are drawn, always the same for a number."""
    if number < len(PAPER_VOCABULARY) and (
        printed := from_paper(method, list(PAPER_VOCABULARY)[number], layers, data)
    ):
        return printed
    draw = random.Random(f"{method}/{number}")
    drawn = {name: sample(draw, space) for name, space in ranges(method).items()}
    if "n_max" in drawn and "k" in drawn:
        drawn["n_max"] = min(drawn["n_max"], drawn["k"])
    return drawn


def from_paper(method: str, model: str, layers: int, data: str) -> dict:
    """The Appendix's settings for a data set of the paper: margins as fractions of the vocabulary, layers as far as this model has them."""
    title = methods.registry()[method]["title"]
    if not paper.has_settings(title):
        return {}
    known = {field.name for field in fields(methods.method(method).Hyperparameters)}
    settings = {
        name: value
        for name, value in paper.hyperparameters(title, model, data).items()
        if name in known
    }
    for name in MARGINS:
        if name in settings:
            settings[name] = settings[name] / PAPER_VOCABULARY[model]
    return {
        name: [l for l in value if l < layers] if isinstance(value, list) else value
        for name, value in settings.items()
    }


def ranges(method: str) -> dict[str, dict]:
    """What is drawn: the paper's sweep ranges, with what params/search.yml adds or restricts."""
    entry = methods.registry()[method]
    like = entry.get("ranges_of", method)
    title = methods.registry()[like]["title"]
    known = {field.name for field in fields(methods.method(method).Hyperparameters)}
    printed = {
        e["name"]: {key: e[key] for key in ("low", "high", "values") if key in e}
        for e in paper.tables()["sweep"]
        if e["method"] == title
    }
    own = yaml.safe_load((ROOT / "params" / "search.yml").read_text(encoding="utf-8")).get(
        method, {}
    )
    return {name: space for name, space in (printed | own).items() if name in known}


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
    command(run)
