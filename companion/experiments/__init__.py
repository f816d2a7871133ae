"""The experiments: each module has ``Settings``, ``run(settings) -> row`` and a command of both."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from companion.store.suggestions import hint

LEAST = {"T": 1, "score_k": 1, "forget": 1, "limit": 1, "trials": 1, "epochs": 1, "batch": 1}
LEAST |= {"minutes": 0, "lr": 0, "leave_out": 0, "finalists": 1, "ordinary": 0, "hold": 0}
LEAST |= {"repeats": 1, "sentences": 1, "targets": 1}  # the least that makes sense
PATHS = ("documents", "secrets")  # somebody may give a secret in the place of its path
PLACES = (*PATHS, "data", "export", "model", "out", "rows")  # an empty one would be the folder here
# Their messages are written for the caller: one sentence, the cause and the mend.
MISTAKES = (ValueError, OSError, FloatingPointError, MemoryError)
S = TypeVar("S")


def check(parameters: dict[str, Any], Settings: type[S]) -> S:
    """The settings with these parameters; what is wrong with one is one sentence."""
    refuse(parameters, Settings)
    return Settings(**parameters)


def refuse(parameters: dict[str, Any], Settings: type, of: str = "") -> None:
    """Raises ValueError for an unknown name, a wrong type or a value that makes no sense."""
    known, kinds = get_type_hints(Settings), {field.name: field.type for field in fields(Settings)}
    for name, value in parameters.items():
        if name not in known:
            raise ValueError(f"There is no parameter '{name}'{of}" + hint(name, known))
        if not fits(value, known[name]):
            kind = "None" if value is None else f"a {type(value).__name__}"
            shown = "" if name in PATHS or value is None else f"{value!r}, "
            wanted = kinds[name].replace("Sequence", "list").replace(" | ", " or ")
            raise ValueError(f"{name}{of} is {shown}{kind}, but must be {wanted}.")
        if value == "" and name in PLACES:
            raise ValueError(f"{name}{of} is empty: give a path or a name.")
        if name == "dtype":
            from revs.model.load import check_dtype  # here, not above: profiles need no torch

            check_dtype(value)
        if value is not None and name in LEAST and value < LEAST[name]:
            raise ValueError(f"{name}{of} is {value}, but must be at least {LEAST[name]}.")


def fits(value: Any, hint: Any) -> bool:
    """Is this a value of an annotation? True and False are no numbers; whole ones are floats."""
    of, inner = get_origin(hint), get_args(hint)
    if of is UnionType:
        return any(fits(value, one) for one in inner)
    if of in (list, Sequence):
        return isinstance(value, list | tuple) and all(fits(one, inner[0]) for one in value)
    return type(value) is hint or (hint is float and type(value) is int)


def command(Settings: type[S], run: Callable[[S], dict]) -> None:
    """Runs an experiment from the command line: every setting is an option, read as YAML.

    A mistake of the caller's ends with one sentence and status 1.
    """
    import jsonargparse

    parser = jsonargparse.ArgumentParser(
        exit_on_error=False, description=inspect.getdoc(run).splitlines()[0]
    )
    parser.add_class_arguments(Settings)
    said = dict(re.findall(r"^    (\w+): .*  # (.+)$", inspect.getsource(Settings), re.MULTILINE))
    for action in parser._actions:  # the comments beside the fields are the options' help
        action.help = said.get(action.dest, action.help)
    try:
        done(run, check(parser.parse_args().as_dict(), Settings))
    except argparse.ArgumentError as error:
        sys.exit(refusal(str(error), {field.name: field.type for field in fields(Settings)}))
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")


def done(run: Callable[[S], dict], settings: S) -> dict:
    """The row of an experiment; a GPU that is full is a MemoryError with one sentence."""
    import torch

    try:
        return run(settings)
    except torch.OutOfMemoryError:
        raise MemoryError(
            "The GPU is out of memory: end what else uses it, take a larger one or several, or a "
            "smaller model or batch."
        ) from None


def refusal(error: str, known: dict[str, str]) -> str:
    """What is wrong with the options, in one sentence; values are not repeated."""
    if named := re.search(r'(?:key "|argument --)(\w+)', error):
        kind = known[named[1]].replace(" | ", " or ")
        return f"--{named[1]} has no value, or one of another kind, but must be {kind}."
    name = error.partition("arguments: ")[2].split()[0].lstrip("-").partition("=")[0]
    return f"There is no parameter '{name}'" + hint(name, known)
