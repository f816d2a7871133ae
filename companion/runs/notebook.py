"""What every notebook does first: refuse parameters that it does not have.

papermill only prints a notice for an unknown parameter and injects it all the same; both papermill
and Jupyter show a whole traceback for a mistake that one sentence explains.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from types import ModuleType

from companion.record.paths import resolve
from companion.runs import MISTAKES, check
from companion.runs.nearest import hint


class Refused(Exception):
    """A mistake of the caller's, shown as one line."""

    def _render_traceback_(self) -> list[str]:
        return [f"Refused: {self}"]


def assigned(code: str) -> list[str]:
    """The names that a cell assigns at its top level."""
    nodes = ast.parse(code).body
    targets = [
        *(target for node in nodes if isinstance(node, ast.Assign) for target in node.targets),
        *(node.target for node in nodes if isinstance(node, ast.AnnAssign)),
    ]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def refuse_unknown(cells: list[str]) -> None:
    """Raises Refused if papermill injected a parameter that the cell before does not define."""
    for before, cell in zip(cells, cells[1:], strict=False):
        if cell.startswith("# Parameters"):
            known = assigned(before)
            for name in assigned(cell):
                if name not in known:
                    raise Refused(f"There is no parameter '{name}'" + hint(name, known))


def run(experiment: ModuleType, namespace: dict) -> dict:
    """Runs an experiment with the notebook's parameters; returns its row."""
    refuse_unknown(namespace["In"])
    given = {field.name: namespace[field.name] for field in fields(experiment.Settings)}
    try:
        return experiment.run(check(given, experiment.Settings))
    except MISTAKES as error:
        raise Refused(str(error)) from None


def row_path(row: dict, folder: str) -> Path:
    """Where a row was written."""
    return resolve(folder) / f"{row['name']}.json"
