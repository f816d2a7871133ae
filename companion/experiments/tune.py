"""Tune: searches each method's settings for the best Unlearning Score (§4.5; App.).

Every method gets the same number of effective trials, or MOST times as many trials in all. A trial
is effective if it moves its targets: no method spends its budget where nothing happens. The paper's
own settings are tried first, unless ``starts`` is false; Optuna's TPE draws the rest
(``companion.experiments.optimizer``). The objective is the Unlearning Score on one split of the
tuning set, computed as in a run.
The highest of many scores on one split is partly luck. The top trials are therefore evaluated again
on further splits, and the best mean over all splits wins.

One process tries one method: the model is loaded once and restored in memory after every trial.
Each trial forgets as many secrets as a run does, since settings that work for ten may ruin the
model at twenty. Each trial writes a row: a stopped search continues where it was, and any trial can
be repeated as a run.
"""

import gc

from companion.experiments import methods, unlearn
from companion.experiments.command import command
from companion.experiments.optimizer import Search
from companion.experiments.provenance import provenance
from companion.experiments.settings import MODEL
from companion.experiments.settings import Tune as Settings
from companion.experiments.unlearn import FAILURES, LoadedModel, Run, resolve_run
from companion.store import paper, rows
from companion.store.paths import params
from companion.store.suggestions import hint

VERSION = 1

# Rows of the paper's heads: margins are carried over as fractions.
PAPER_VOCABULARY = {"Llama-3-8B": 128256, "GPT-J-6B": 50400}
MARGINS = ("r_h", "eps_r_h", "r_n", "eps_r_n")
EFFECTIVE = 0.2  # least efficacy of an effective trial
ROOM = {"n_max": 1, "k": 10**9}  # stands in for the one that is not fixed, until a trial sets both
MOST = 2  # times the trials asked for: the search stops there, however few are effective


def run(settings: Settings) -> dict:
    """Try a method's hyperparameters and return the row that names the best.

    Only trials without a current row are run, in one process; ValueError if all fail.
    """
    spaces = ranges(settings.method, settings.ranges)
    search_run = resolve_run(trial_settings(settings, settings.seed))
    further = [
        resolve_run(trial_settings(settings, seed, settings.measures)) for seed in settings.splits
    ]
    tried, scores, result, made = search_of(settings, search_run, spaces)
    best = sorted(scores, key=scores.get, reverse=True)[: settings.top_trials]
    by_split = {number: [scores[number]] for number in best}
    for other in further if len(best) > 1 else ():
        gc.collect()  # a model spread over GPUs has reference cycles
        loaded = LoadedModel(other)
        for number in best:
            after = trial_result(other, loaded, number, tried[number])
            by_split[number].append(after["unlearning_score"] if after else 0.0)
        del loaded
    means = {number: sum(some) / len(some) for number, some in by_split.items()}
    chosen = max(means, key=means.get)
    result |= {
        "best": chosen,
        "unlearning_score": means[chosen],
        "hyperparameters": tried[chosen],
        "top_trials": {str(number): some for number, some in by_split.items()},
    }
    name = search_run.name.removesuffix("-trial").replace("unlearn/", "tune/", 1)
    print(f"{name}: trial {chosen} of {len(tried)} is the best, with {100 * means[chosen]:.1f}.")
    return rows.write(search_run.folder, name, "tune", result, [], made, settings.tag)


def search_of(
    settings: Settings, resolved: Run, spaces: dict[str, dict]
) -> tuple[list[dict], dict[int, float], dict, dict]:
    """Search the ranges on one split. Return every trial's settings, the scores of trials that did
    not fail, the result for the row, and its provenance. The model is freed at the end."""
    loaded = LoadedModel(resolved)
    layers = len(loaded.decoder.layers)
    data = methods.PAPER_KINDS.get(resolved.records[0].kind, "SSN")
    printed, starts = [], []  # settings that are tried before any is drawn
    if settings.starts:
        printed = printed_settings(settings.method, layers, data)
    if settings.starts and settings.model == MODEL:
        starts = recorded_starts(settings.method, settings.data)
    fixed = settings.hyperparameters or {}
    search = Search(spaces, layers, seed=settings.search_seed, fixed=fixed)
    tried, scores, effective = [], {}, 0
    for number in range(MOST * settings.trials):
        if effective >= settings.trials:
            break
        begun = number - len(printed)
        if begun < 0:
            asked = printed[number]
        else:
            asked = search.start(starts[begun]) if begun < len(starts) else search.ask()
        tried.append(asked | fixed)
        after = trial_result(resolved, loaded, number, tried[number])
        score = after["unlearning_score"] if after else 0.0
        counts = bool(after) and after["efficacy"] >= EFFECTIVE
        if begun >= 0:
            search.tell(score, counts)
        if after:
            scores[number] = score
        effective += counts
    if not scores:
        raise ValueError(
            f"All {len(tried)} trials of {settings.method} failed: "
            f"look at their rows, {resolved.name}NN, for the reasons."
        )
    found = {
        "trials": len(tried),
        "failed": len(tried) - len(scores),
        "effective": effective,
        "ranges": search.spaces,
        "widened": sorted(search.widened),
    }
    kept = settings.model_dump(exclude={"rows"})
    made = provenance("tune", kept, resolved.inputs, loaded.seconds, loaded.decoder)
    return tried, scores, found, made


def trial_settings(settings: Settings, seed: int, measures: list[str] = ()) -> unlearn.Settings:
    """Return the settings of a trial on the split of a seed, without the trial's number."""
    given = settings.model_dump(include={*unlearn.Settings.model_fields})
    room = {
        name: ROOM[name] for name in ROOM.keys() & methods.hyperparameter_names(settings.method)
    }
    given |= {"hyperparameters": room | (settings.hyperparameters or {})}
    given |= {"seed": seed, "measures": list(measures), "generate": False}
    return unlearn.Settings(**given | {"tag": tag_of_trials(settings.tag)})


def tag_of_trials(tag: str) -> str:
    """Return the tag of a search's trials, up to their number."""
    return f"{tag}-trial".lstrip("-")


def trial_result(resolved: Run, loaded: LoadedModel, number: int, settings: dict) -> dict | None:
    """Return a trial's scores, from its finished row or measured now; None if it fails."""
    try:
        trial = resolved.trial(number, settings)
        row = trial.finished_row() or trial.measure(loaded, restore=True)
    except FAILURES as error:
        print(f"{resolved.name}{number:02d} failed: {error}", flush=True)
        return None
    print(unlearn.summary(row), flush=True)
    return row["result"]["after"]


def printed_settings(method: str, layers: int, data: str) -> list[dict]:
    """The paper's settings for its two models and one of its data sets, as far as a method has
    them; [] without any.

    Margins become fractions of the vocabulary. Layers that this model lacks are dropped; if none is
    left, the method's default applies.
    """
    title, mine, found = methods.title(method), methods.hyperparameter_names(method), []
    for model, V in PAPER_VOCABULARY.items() if paper.has_settings(title) else ():
        settings = {}
        for name, value in paper.hyperparameters(title, model, data).items():
            if name in MARGINS:
                value /= V
            if isinstance(value, list):
                value = [layer for layer in value if layer < layers]
            if name in mine and value != []:
                settings[name] = value
        found.append(settings)
    return found


def recorded_starts(method: str, data: str) -> list[dict]:
    """The best trials of earlier searches, with which a search on a tuning set begins."""
    return params("search_starts").get(data.removesuffix("-tune"), {}).get(method, [])


def ranges(method: str, other: dict | None = None) -> dict[str, dict]:
    """Return a method's ranges: those of params/search.yml, which marks departures from the paper's
    sweep, with ``other`` ranges in place of some, as another model may need."""
    own = params("search")
    if method not in own:
        raise ValueError(f"There are no ranges to search for '{method}'" + hint(method, own))
    for name, space in (other or {}).items():
        if name not in own[method]:
            raise ValueError(f"{method} has no range of '{name}'" + hint(name, own[method]))
        if not is_range(space):
            raise ValueError(
                f"The range of {name} is {space!r}, but must be like {{low: 1.0e-6, high: 1.0e-3}} "
                "or {values: [0, 1]}."
            )
    return own[method] | (other or {})


def is_range(space) -> bool:
    """Is this a range to draw from: between two ends, or one of some values?"""
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
