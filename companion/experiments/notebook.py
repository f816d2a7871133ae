"""Runs an experiment from a notebook, and refuses parameters that the notebook does not have.

papermill only prints a notice about an unknown parameter and injects it anyway; both papermill and
Jupyter show a whole traceback for a mistake that one sentence explains.
"""

import ast
import itertools
import warnings
from types import ModuleType

from companion.experiments.command import MISTAKES, row_of
from companion.experiments.settings import check
from companion.store.paths import resolve
from companion.store.suggestions import hint

# peft triggers it in transformers; no reader of a page needs it
warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)


class Refused(Exception):
    """A mistake of the caller's, shown as one line."""

    def _render_traceback_(self) -> list[str]:
        return [f"Refused: {self}"]


def assigned_names(code: str) -> list[str]:
    """The names that a cell assigns at its top level."""
    found = [node.targets for node in ast.parse(code).body if isinstance(node, ast.Assign)]
    return [name.id for targets in found for name in targets if isinstance(name, ast.Name)]


def refuse_unknown(cells: list[str]) -> None:
    """Raise Refused if papermill injected a parameter that the cell before does not define."""
    for before, cell in itertools.pairwise(cells):
        if cell.startswith("# Parameters"):
            known = assigned_names(before)
            for name in assigned_names(cell):
                if name not in known:
                    raise Refused(f"There is no parameter '{name}'" + hint(name, known))


def run(experiment: ModuleType, namespace: dict) -> dict:
    """Run an experiment with the notebook's parameters; return its row with its ``path``."""
    refuse_unknown(namespace["In"])
    given = {name: namespace[name] for name in experiment.Settings.model_fields}
    try:
        row = row_of(experiment.run, check(given, experiment.Settings))
    except MISTAKES as error:
        raise Refused(str(error)) from None
    return row | {"path": resolve(namespace["rows"]) / f"{row['name']}.json"}
