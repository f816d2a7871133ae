"""Runs an experiment from the command line, with one option per setting and a progress bar."""

import argparse
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import yaml
from tqdm import tqdm

from companion.experiments.settings import S, check, in_words
from companion.store.suggestions import hint

# Their messages are written for the caller: one sentence, the cause and the remedy.
MISTAKES = (ValueError, OSError, FloatingPointError, MemoryError)


class Options(argparse.ArgumentParser):
    """A parser that ends with one sentence."""

    def error(self, message: str):
        raise ValueError(message[0].upper() + message[1:] + ": see --help.")


def command(Settings: type[S], run: Callable[[S], dict]) -> None:
    """Run an experiment with command-line options: text as it is, other values as YAML.

    A caller's mistake ends with one sentence and status 1.
    """
    parser = Options(description=inspect.getdoc(run).splitlines()[0], allow_abbrev=False)
    for name, field in Settings.model_fields.items():
        about = f"{field.description} (default: {field.default})".replace("%", "%%")
        parser.add_argument(f"--{name}", help=about, metavar=in_words(field.annotation))
    try:
        given, unknown = parser.parse_known_args()
        if unknown:
            name = unknown[0].lstrip("-").partition("=")[0]
            raise ValueError(f"There is no parameter '{name}'" + hint(name, Settings.model_fields))
        parameters = {
            name: value_of(text, Settings.model_fields[name].annotation)
            for name, text in vars(given).items()
            if text is not None
        }
        row_of(run, check(parameters, Settings))
    except MISTAKES as error:
        sys.exit(f"{type(error).__name__}: {error}")


def value_of(text: str, annotation: Any) -> Any:
    """Return an option's value: the text itself where text is wanted, else parsed YAML."""
    if annotation is str or (annotation == str | None and text not in ("null", "None")):
        return text
    try:
        return None if text == "None" else yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def row_of(run: Callable[[S], dict], settings: S) -> dict:
    """Run an experiment and return its row; a full GPU raises MemoryError with one sentence."""
    import torch

    try:
        return run(settings)
    except torch.OutOfMemoryError:
        raise MemoryError(
            "The GPU is out of memory: end what else uses it, take a larger one or several, or a "
            "smaller model or batch."
        ) from None


def progress(what: str, unit: str = "steps") -> Callable[[Iterable], Iterable]:
    """A progress bar for a loop, ``for step in progress("…")(steps)``, on standard output."""
    look = {"desc": what, "unit": f" {unit}", "mininterval": 5.0, "disable": False}
    return functools.partial(tqdm, file=sys.stdout, **look)
