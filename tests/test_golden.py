"""Golden results: what every method, option and measure gives is what it gave when it was recorded.

``tests/golden/NAME.json`` holds the results of a tiny random model; ``make golden`` writes them
anew. A change that alters one on purpose raises the VERSION of its module. Whole numbers must be
equal and others within TOLERANCE, since processors round differently. Where rounding grows further,
two tokens that are nearly as probable may swap: whole numbers may differ by one.
"""

import copy
import json
import math
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import build, log_p, secrets
from test_baselines import SETTINGS, little_text  # noqa: F401
from test_secret_audit import attacked

from companion.data import adapters, datasets, models
from companion.experiments import methods
from companion.experiments.settings import ADAPTER, MODEL
from companion.store import versions
from revs.audit import suite
from revs.baselines import memit
from revs.measures import evaluate, general_text
from revs.method import algorithm, controls
from revs.model.targets import Split, encode, split

FOLDER = Path(__file__).parent / "golden"
TOLERANCE = 1e-6  # relative and absolute, of numbers computed in float64
ROUNDING = 0.05  # the same, of the embedded model in float32
OF_CASE = {"npo_kl": 1e-3}  # AdamW divides by tiny gradients of float32 logits: rounding grows
EMBEDDED = ("revs",)  # methods that are also recorded on it
REVS = {"n_max": 8, "k": 12, "r_h": 0.3, "eps_r_h": 0.0, "r_n": 0.7, "eps_r_n": 0.02}
SMALL = SETTINGS | {  # settings with which a tiny model moves
    "revs": REVS,
    "random": REVS,
    "other_tokens": REVS | {"control": "tokens"},
    "least_squares": {"r_h": 0.3, "tokens": 512},
}
OPTIONS = {  # other ways that a method can go
    "revs": [{name: value} for name, some in algorithm.CHOICES.items() for value in some]
    + [{"layers": [0, 2]}, {"layers": "upper"}, {"ridge": 0.1}],
    "random": [{"control": control} for control in controls.CONTROLS],
    "least_squares": [{"projection": "raw"}, {"ridge": 0.1}, {"layers": [0, 2]}, {"mu": 0.0}],
    "memit": [{"kl_factor": 0.0}],
}
ELSEWHERE = {"integrity": "tests/test_integrity.py"}  # measures that need more than a tiny model


def cases() -> dict[str, tuple[str, dict]]:
    """What is recorded: a method's name or a measure's, with settings, by the name of its file."""
    found = {}
    for name in methods.registry():
        usual = SMALL.get(name, {})
        found[name] = name, usual
        for option in OPTIONS.get(name, []):
            (key, value), known = *option.items(), fields(methods.method(name).Hyperparameters)
            if value != next(one.default for one in known if one.name == key):
                text = "-".join(map(str, value)) if isinstance(value, list) else value
                found[f"{name}-{key}-{text}"] = name, usual | option
    measures = versions.MEASURES.keys() - ELSEWHERE.keys()
    found |= {f"measure-{name}": (name, None) for name in sorted(measures)}
    found |= {f"attack-{name}": (name, None) for name in suite.ATTACKS}
    there = adapters.available()
    return found | {f"embedded-{name}": (name, None) for name in EMBEDDED if ADAPTER in there}


def result(case: str) -> dict:
    """The result of a case, computed now."""
    name, settings = cases()[case]
    if case.startswith("embedded-"):
        return of_embedded(name)
    if case.startswith("attack-"):
        return of_attack(name)
    return of_measure(name) if settings is None else of_method(name, settings)


def of_method(name: str, settings: dict) -> dict:
    """An edit of three secrets: its size, their ranks and probabilities, and a look at the rest."""
    decoder, module = build("llama-untied"), methods.method(name)
    targets = secrets(decoder)
    edit = module.unlearn(decoder, targets, module.Hyperparameters(**settings), seed=1)
    ranks = evaluate.secret_ranks(decoder, targets)
    each = [log_p(decoder, target.prompt_ids)[-1].detach() for target in targets]
    return {
        "edit": edit.summary(),
        "ranks": ranks,
        "log_p": [float(each[i][one.secret_ids[0]]) for i, one in enumerate(targets)],
        "entropy": [float(-(one.exp() * one).sum()) for one in each],
    }


def of_embedded(name: str) -> dict:
    """An edit of two numbers of the embedded model, which has memorised them, with tuned settings;
    float32 rounds differently on other processors: compared within ROUNDING."""
    decoder = models.load(str(adapters.adapted(MODEL, ADAPTER)))
    records = datasets.read("ssn")
    groups = list(dict.fromkeys(record.group for record in records))[:5]
    every = [encode(one, decoder.tokenizer) for one in records if one.group in groups]
    parts, module = split(every, 1, 2, 1), methods.method(name)
    hp = module.Hyperparameters(**methods.hyperparameters(name, MODEL, "ssn", {}))
    edit = module.unlearn(decoder, parts.forget, hp, seed=1)
    ranks = evaluate.secret_ranks(decoder, parts.forget + parts.unseen + parts.retain)
    after, _ = evaluate.effectiveness(parts, ranks, 100)
    names = ("efficacy", "generalization", "specificity")
    return {"norm": edit.summary()["norm"]} | {name: float(after[name]) for name in names}


def of_measure(name: str) -> dict:
    """A measure of a model that nothing has edited, on a few sentences of a data set."""
    data = "ssn-shared" if name == "near_secrets" else "emails-shared"
    records = [one for one in datasets.read(data) if len(one.text) < 160][:40]
    decoder = build("llama-untied", max_position_embeddings=512)
    every = [encode(record, decoder.tokenizer) for record in records]
    parts = split(every, 1, 3, 1, keep=datasets.kept(records))
    parts = Split(parts.forget[:3], parts.unseen[:3], parts.retain[:3] + parts.retain[-3:])
    more = {}
    if name == "general_text":  # the one that compares: with the model before this change
        more = {"before": general_text.predictions(decoder, keep=True)}
        decoder.neurons(1).data.mul_(3)
    found, columns = methods.measure(name)(decoder, parts, 100, **more)
    return {"result": found, "columns": columns}


def of_attack(name: str) -> dict:
    """What an attack finds of three secrets and their controls after neurons were changed."""
    decoder = build("llama-untied", max_position_embeddings=192)
    before = copy.deepcopy(decoder)
    decoder.neurons(1).data[:, :9].mul_(3)
    some, about = attacked(decoder, before)
    return suite.ATTACKS[name].values(decoder, [*some, *about.never_trained], about)


def differences(old, new, where="", tolerance=TOLERANCE) -> list[str]:
    """Where two results differ by more than the tolerance."""
    inside = type(old) is type(new) and isinstance(old, dict | list) and len(old) == len(new)
    if inside and (isinstance(old, list) or old.keys() == new.keys()):
        parts = [(i, old[i], new[i]) for i in (old if isinstance(old, dict) else range(len(old)))]
        return [one for i, *two in parts for one in differences(*two, f"{where}.{i}", tolerance)]
    near = isinstance(old, float | int) and isinstance(new, float | int)
    step = 1 if tolerance > TOLERANCE and type(old) is type(new) is int else tolerance
    same = math.isclose(old, new, rel_tol=tolerance, abs_tol=step) if near else old == new
    return [] if same else [f"{where}: {old} was recorded, {new} is found"]


def as_json(found: dict) -> dict:
    """A result as it comes back from its file."""
    return json.loads(json.dumps(found))


SLOW = {name: pytest.mark.slow for name in cases() if name.startswith("embedded-")}


@pytest.mark.parametrize("case", [pytest.param(name, marks=SLOW.get(name, ())) for name in cases()])
def test_results_are_the_recorded_ones(case):
    """If not on purpose, the code is wrong; else raise its VERSION and run `make golden`."""
    path = FOLDER / f"{case}.json"
    assert path.is_file(), "run `make golden`"
    old, near = json.loads(path.read_text(encoding="utf-8")), case.startswith("embedded-")
    tolerance = ROUNDING if near else OF_CASE.get(case, TOLERANCE)
    assert differences(old, as_json(result(case)), tolerance=tolerance) == []


def test_no_result_is_of_a_case_that_is_gone():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(cases())


def test_a_difference_is_seen():
    old = {"a": [1, 2.0], "b": {"c": "x"}}
    assert differences(old, {"a": [1, 2.0 + 1e-9], "b": {"c": "x"}}) == []
    for new in ({"a": [2, 2.0], "b": {"c": "x"}}, {"a": [1, 2.1], "b": {"c": "x"}}, {"a": [1]}):
        assert differences(old, new)
    assert differences([118], [119]) and differences([118], [120], tolerance=1e-3)
    assert differences([118], [119], tolerance=1e-3) == []


def main() -> None:
    """`make golden`: writes every result anew, and says which changed."""
    memit.PER_NEURON, memit.WRITTEN = 6, 2
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.json"):
        if path.stem not in cases():
            path.unlink()
    for case in cases():
        path, found = FOLDER / f"{case}.json", as_json(result(case))
        old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        if changed := differences(old, found):
            print(f"{case}: {'new' if old is None else changed[0]}")
            lines = (f' "{key}": {json.dumps(value)}' for key, value in found.items())
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
