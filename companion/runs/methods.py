"""The methods by name, and their hyperparameters (Appendix).

``params/methods.yml`` names a module for each method. The module has ``Hyperparameters``, a frozen dataclass, and
``unlearn(decoder, targets, hp, seed, progress) -> Edit``.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import yaml

from companion.record import paper
from companion.record.paths import ROOT
from companion.runs import instead, integrity, models, public
from companion.runs.nearest import hint
from revs.measures import attacks, cue

# what can be measured besides: (decoder, split, k) -> (result, columns by item)
MEASURES = {
    "attacks": attacks.measure,
    "cue": cue.measure,
    "instead": instead.measure,
    "integrity": integrity.measure,
    "perturbations": attacks.perturbations,
    "public": public.measure,
}
REVS_OWN = (
    "n_max",
    "k",
    "r_h",
    "eps_r_h",
    "r_n",
    "eps_r_n",
)  # its settings that are parameters of a notebook themselves
PAPER_DATA = {"ssn": "SSN", "emails": "Emails", "urls": "URLs"}


@functools.cache
def registry() -> dict[str, dict]:
    """Every method with its title, module, colour and marker, in the order of the paper's tables. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "methods.yml").read_text(encoding="utf-8"))


def method(name: str) -> ModuleType:
    """The module of a method."""
    known = {key: entry for key, entry in registry().items() if "module" in entry}
    if name not in known:
        raise ValueError(f"There is no method '{name}'" + hint(name, known))
    return importlib.import_module(known[name]["module"])


def measure(name: str) -> Callable:
    """What measures something else on an edited model, by name."""
    if name not in MEASURES:
        raise ValueError(f"There is no measure '{name}'" + hint(name, MEASURES))
    return MEASURES[name]


def tuned() -> dict[str, dict]:
    """params/hyperparameters.yml: method → model → data set → settings. Shared: do not change it."""
    return parsed((ROOT / "params" / "hyperparameters.yml").read_text(encoding="utf-8"))


@functools.cache
def parsed(text: str) -> dict:
    """What YAML says, worked out once for each text."""
    return yaml.safe_load(text)


whole = lambda value: isinstance(value, int) and not isinstance(value, bool)
TYPES = {  # of a hyperparameter, by its annotation
    "int": whole, "float": lambda value: whole(value) or isinstance(value, float), "str": lambda value: isinstance(value, str), "bool": lambda value: isinstance(value, bool), "None": lambda value: value is None,
    "Sequence[int]": lambda value: isinstance(value, (list, tuple)) and all(map(whole, value)),
}  # fmt: skip


def data_title(data: str) -> str:
    """The paper's name of a data set; its own name, where the paper has none."""
    return PAPER_DATA.get(data, data)


def paper_data(data: str) -> str | None:
    """The paper's data of the kind that a set's name ends with: "Emails" for emails, emails-tune, hr_emails and pile-email; None for other names."""
    kind = re.split(r"[-_]", data.casefold().removesuffix("-tune").removesuffix("-part"))[
        -1
    ].removesuffix("s")
    return next(
        (title for name, title in PAPER_DATA.items() if name.removesuffix("s") == kind), None
    )


def like(data: str) -> str:
    """The set whose settings a set of URLs takes, if it has none: the e-mail addresses beside it, as in the paper."""
    return re.sub(r"(^|[-_])url(s?)$", r"\1email\2", data)


def hyperparameters(name: str, model: str, data: str, given: dict) -> dict:
    """A method's settings for a model and a data set, changed as ``given``.

    For the paper's models they are the Appendix's for data of that kind. For others they are those of params/hyperparameters.yml; a model or
    a data set that is not there gets the method's ``default``, whose margins are fractions of the vocabulary.
    """
    known = {field.name: str(field.type) for field in fields(method(name).Hyperparameters)}
    for key, value in given.items():
        if key not in known:
            raise ValueError(
                f"{name} has no hyperparameter '{key}'" + hint(key, list(known), "it has")
            )
        if not any(TYPES[kind.strip()](value) for kind in known[key].split("|")):
            raise ValueError(
                f"{key} of {name} is {value!r}, a {type(value).__name__}, but must be {known[key].replace('Sequence', 'list').replace(' | ', ' or ')}."
            )
    owner = registry()[name].get("settings_of", name)
    title = registry()[owner]["title"]
    if (
        (printed := models.registry().get(model, {}).get("paper"))
        and (kind := paper_data(data))
        and paper.has_settings(title)
    ):
        found = paper.hyperparameters(title, printed, kind)
    else:
        chosen = tuned().get(owner, {})
        of_model = chosen.get(model, {})
        found = of_model.get(data) or of_model.get(like(data)) or chosen.get("default", {})
    return {key: value for key, value in found.items() if key in known} | given


def resolved(settings: dict) -> dict:
    """The hyperparameters of a run of unlearning, by the parameters of its notebook."""
    given = (settings.get("hyperparameters") or {}) | {
        name: settings[name] for name in REVS_OWN if settings.get(name) is not None
    }
    return hyperparameters(
        settings["method"],
        Path(settings["model"]).name.removesuffix(".gguf"),
        Path(settings["data"]).stem,
        given,
    )
