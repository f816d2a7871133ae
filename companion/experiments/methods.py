"""Finds methods by name, and resolves their hyperparameters (Appendix).

``params/methods.yml`` names each method's module and, where several methods share one (MEMIT), the
settings that tell them apart. The module has ``Hyperparameters``, a frozen dataclass, and
``unlearn(decoder, targets, hp, seed, progress) -> Edit``.
"""

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import fields
from types import ModuleType
from typing import Any

from companion.data import models
from companion.experiments.settings import MODEL, check, lookup, model_of
from companion.store import paper, versions
from companion.store.paths import params
from companion.store.suggestions import hint

LAYERS = ("layers", "layer_id", "patil_layers")  # settings that name layers
registry = functools.partial(params, "methods")  # every method, in the order of the paper's tables
chosen_settings = functools.partial(params, "hyperparameters")  # method → model → data → settings
PAPER_DATA = {"ssn": "SSN", "emails": "Emails", "urls": "URLs"}
PAPER_KINDS = {name.removesuffix("s"): title for name, title in PAPER_DATA.items()}
SHARED = {"ssn-shared": "SSN, shared tokens", "emails-shared": "Emails, shared tokens"}


def paper_methods() -> list[str]:
    """The methods that the paper compares, without those of the project and without controls."""
    return [name for name, entry in registry().items() if paper.has_settings(entry["title"])]


def title(name: str) -> str:
    """How a method is named."""
    return registry()[name]["title"]


def method(name: str) -> ModuleType:
    """The module of a method."""
    known = {key: entry for key, entry in registry().items() if "module" in entry}
    if name not in known:
        raise ValueError(f"There is no method '{name}'" + hint(name, known))
    return importlib.import_module(known[name]["module"])


def measure(name: str) -> Callable:
    """Return the function of a measure, by name."""
    if name not in versions.MEASURES:
        raise ValueError(f"There is no measure '{name}'" + hint(name, versions.MEASURES))
    module, _, function = versions.MEASURES[name].partition(":")
    return getattr(importlib.import_module(module), function)


def measure_inputs(name: str) -> dict[str, str]:
    """Return hashes of what a measure reads besides model and data set; OSError if anything is
    missing."""
    if name in versions.FILES:
        return {name: versions.committed(name, None)}
    module = importlib.import_module(versions.MEASURES[name].partition(":")[0])
    return getattr(module, "inputs", dict)()


def fixed_settings(name: str) -> dict[str, Any]:
    """The settings that make a method what it is, which no search varies."""
    return registry()[name].get("settings", {})


def hyperparameter_names(name: str) -> set[str]:
    """The names of a method's hyperparameters."""
    return {field.name for field in fields(method(name).Hyperparameters)}


def paper_data(data: str) -> str | None:
    """Return the paper's data set of the kind in which a name ends; None for other names.

    "Emails" for emails, emails-tune, hr_emails and pile-email.
    """
    plain = data.casefold().removesuffix("-tune").removesuffix("-part")
    return PAPER_KINDS.get(re.split(r"[-_]", plain)[-1].removesuffix("s"))


def hyperparameters(name: str, model: str, data: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a method's settings for a model and a data set; those ``given`` take precedence.

    The paper's models get the Appendix's settings for data of that kind. Other models get those of
    params/hyperparameters.yml. A model or data set for which the file has none gets those of the
    book's model for SSN, whose margins are fractions of the vocabulary. Their layers suit only that
    model; any other model gets the method's own choice. One ``given`` as None gets the method's
    default.
    """
    unset = {key for key, value in given.items() if value is None}
    given = {key: value for key, value in given.items() if key not in unset}
    check(given, model_of(method(name).Hyperparameters), f" of {name}")
    owner = registry()[name].get("settings_of", name)
    title, printed = registry()[owner]["title"], models.registry().get(model, {}).get("paper")
    if printed and (kind := paper_data(data)) and paper.has_settings(title):
        found = paper.hyperparameters(title, printed, kind)
    else:
        chosen = chosen_settings()
        if not (found := lookup(chosen, name, model, data)):
            usual = chosen.get(owner, {}).get(MODEL, {}).get("ssn", {})
            found = {key: usual[key] for key in usual if model == MODEL or key not in LAYERS}
    known = {key: value for key, value in found.items() if key in hyperparameter_names(name)}
    found = fixed_settings(name) | known | given
    return {key: value for key, value in found.items() if key not in unset}
