"""The experiments: each module has ``Settings``, ``run(settings) -> row`` and a command of both."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import jsonargparse

from companion.runs.nearest import hint

LEAST = {"T": 1, "score_k": 1, "forget": 1, "limit": 1, "trials": 1, "epochs": 1, "batch": 1}
LEAST |= {"minutes": 0}  # the least that makes sense
PATHS = ("documents", "secrets")  # somebody may give a secret in the place of its path
# Their messages are written for the caller: one sentence, the cause and the mend.
MISTAKES = (ValueError, OSError, FloatingPointError, MemoryError)
S = TypeVar("S")


def check(parameters: dict[str, Any], Settings: type[S]) -> S:
    """The settings with these parameters; an unknown name, a wrong type is one sentence."""
    known = {field.name: str(field.type) for field in fields(Settings)}
    for name, value in parameters.items():
        if name not in known:
            raise ValueError(f"There is no parameter '{name}'" + hint(name, known))
        allowed = {part.split("[")[0].strip() for part in known[name].split("|")}
        kind = "None" if value is None else type(value).__name__
        if kind not in allowed and not (kind == "int" and "float" in allowed):
            shown = "" if name in PATHS else f"{value!r}, "
            wanted = " or ".join(sorted(allowed))
            raise ValueError(f"{name} is {shown}a {kind}, but must be {wanted}.")
        if value is not None and value < LEAST.get(name, value):
            raise ValueError(f"{name} is {value}, but must be at least {LEAST[name]}.")
    return Settings(**parameters)


def command(Settings: type[S], run: Callable[[S], dict]) -> None:
    """Runs an experiment from the command line: every setting is an option, read as YAML.

    A mistake of the caller's ends with one sentence and status 1.
    """
    parser = jsonargparse.ArgumentParser(
        exit_on_error=False, description=inspect.getdoc(run).splitlines()[0]
    )
    parser.add_class_arguments(Settings)
    said = dict(re.findall(r"^    (\w+): .*  # (.+)$", inspect.getsource(Settings), re.MULTILINE))
    for action in parser._actions:  # the comments beside the fields are the options' help
        action.help = said.get(action.dest, action.help)
    try:
        run(check(parser.parse_args().as_dict(), Settings))
    except argparse.ArgumentError as error:
        sys.exit(refusal(str(error), {field.name: field.type for field in fields(Settings)}))
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")


def refusal(error: str, known: dict[str, str]) -> str:
    """What is wrong with the options, in one sentence; values are not repeated."""
    if named := re.search(r'(?:key "|argument --)(\w+)', error):
        kind = known[named[1]].replace(" | ", " or ")
        return f"--{named[1]} has no value, or one of another kind, but must be {kind}."
    name = error.partition("arguments: ")[2].split()[0].lstrip("-").partition("=")[0]
    return f"There is no parameter '{name}'" + hint(name, known)
