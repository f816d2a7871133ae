"""The experiments: each a function of plain settings that writes one row, and a command (``python -m``) of the same."""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable

import yaml

from companion.runs.nearest import hint

BOUNDS = {
    "T": 1,
    "score_k": 1,
    "forget": 1,
    "limit": 1,
    "minutes": 0,
    "trials": 1,
    "epochs": 1,
    "batch": 1,
}  # the least that makes sense
PATHS = ("documents", "secrets")
MISTAKES = (
    ValueError,
    OSError,
    FloatingPointError,
    MemoryError,
)  # their messages are written for the caller


def check(settings: dict, run: Callable) -> None:
    """Refuses an unknown parameter, and one of a wrong type, in one sentence; the signature says which are right, for a fine-tune that of memorising."""
    known = inspect.signature(run).parameters
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"There is no parameter '{name}'" + hint(name, known))
        allowed = {part.strip() for part in str(known[name].annotation).split("|")}
        kind = "None" if value is None else type(value).__name__
        if kind not in allowed and not (kind == "int" and "float" in allowed):
            shown = (
                "" if name in PATHS else f"{value!r}, "
            )  # somebody may have given a secret in the place of its path
            raise ValueError(
                f"{name} is {shown}a {kind}, but must be {' or '.join(sorted(allowed))}."
            )
        if name in BOUNDS and value is not None and value < BOUNDS[name]:
            raise ValueError(f"{name} is {value}, but must be at least {BOUNDS[name]}.")
        if name == "finetune" and isinstance(value, dict):
            check(value, importlib.import_module("companion.runs.memorise").run)


def finetune(settings: dict) -> dict | None:
    """Settings of the fine-tune that a run starts from, all but where its row goes; None if it takes the model as it is."""
    if settings.get("finetune", False) is False:
        return None
    given = settings["finetune"] if isinstance(settings["finetune"], dict) else {}
    own = {
        name: parameter.default
        for name, parameter in inspect.signature(
            importlib.import_module("companion.runs.memorise").run
        ).parameters.items()
        if name != "rows"
    }
    return (
        own
        | {
            "model": settings["model"],
            "data": importlib.import_module("revs.model.data").together(
                settings.get("data", "ssn")
            ),
        }
        | given
    )


def begin(settings: dict, run: Callable) -> dict:
    """Checks settings, and whether a run with them fits into the memory that is free; then runs it."""
    importlib.import_module("companion.runs.memory").check(complete(settings, run))
    return run(**settings)


def complete(settings: dict, run: Callable) -> dict:
    """Settings, checked, with the defaults of all others."""
    check(settings, run)
    return {
        name: parameter.default for name, parameter in inspect.signature(run).parameters.items()
    } | settings


def value(text: str):
    """What an option says, as YAML; a text that is none, such as a path that begins with @, as it stands."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def command(run: Callable) -> None:
    """Runs an experiment from the command line: every parameter is an option, read as YAML.

    A mistake of the caller's ends with one sentence and status 2.
    """
    parser = argparse.ArgumentParser(description=inspect.getdoc(run).splitlines()[0])
    for name, parameter in inspect.signature(run).parameters.items():
        parser.add_argument(
            f"--{name}",
            type=value,
            default=argparse.SUPPRESS,
            metavar=str(parameter.annotation),
            help=f"default: {parameter.default!r}",
        )
    settings = vars(
        parser.parse_args()
    )  # only what was given: the rest are the function's own defaults
    try:
        begin(settings, run)
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")
