"""What every notebook does first: refuse parameters that it does not have, and end a mistake with one sentence.

papermill only prints a notice for an unknown parameter and injects it all the same; both papermill and Jupyter show
a whole traceback for a mistake that one sentence explains.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

from companion.record.paths import resolve
from companion.runs import MISTAKES, begin
from companion.runs.nearest import hint


class Refused(Exception):
    """A mistake of the caller's, shown as one line."""

    def _render_traceback_(self) -> list[str]:
        return [f"Refused: {self}"]


def assigned(code: str) -> list[str]:
    """The names that a cell assigns at its top level."""
    nodes = [node for node in ast.parse(code).body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    targets = [
        target
        for node in nodes
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def refuse_unknown(cells: list[str]) -> None:
    """Raises Refused if papermill injected a parameter that the parameters cell before it does not define."""
    for number, cell in enumerate(cells):
        if cell.startswith("# Parameters") and number:
            known = assigned(cells[number - 1])
            for name in assigned(cell):
                if name not in known:
                    raise Refused(f"There is no parameter '{name}'" + hint(name, known))


def run(experiment: ModuleType, namespace: dict) -> dict:
    """Runs an experiment with the notebook's parameters; returns its row."""
    refuse_unknown(namespace["In"])
    settings = {name: namespace[name] for name in inspect.signature(experiment.run).parameters}
    try:
        return begin(settings, experiment.run)
    except MISTAKES as error:
        raise Refused(str(error)) from None


def row_path(row: dict, folder: str) -> Path:
    """Where a row was written."""
    return resolve(folder) / f"{row['name']}.json"
