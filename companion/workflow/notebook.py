"""Executes a notebook with parameters: papermill, with what it lets through stopped.

``python -m companion.workflow.notebook notebooks/X.ipynb build/notebooks/Y.ipynb -p NAME VALUE … -y YAML``: an unknown parameter is
refused before anything starts; progress is shown; the target is written whole or not at all; a failure, also that of a
kernel killed for want of memory, ends with one sentence and a status other than 0.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from companion.record.paths import writing
from yaml import safe_load as value
from companion.runs.nearest import hint
from companion.runs.notebook import assigned
from companion.workflow import lifeline
from companion.workflow.paths import ROOT, shown

OWN = (
    "Refused",
    "ValueError",
    "OSError",
    "FileNotFoundError",
    "PermissionError",
    "FloatingPointError",
)  # whose messages are sentences


KERNEL = {  # the environment that it runs in
    "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's kernel, not one of the same name in the home folder
    "TQDM_DISABLE": "1",  # bars are written to stderr, which must stay empty on a page;
    "PYTHONWARNINGS": "ignore:IProgress not found",  # so is tqdm's wish for widgets
}


class Lines:
    """A stream for papermill: prints a notebook's output line by line, each behind the job's name."""

    def __init__(self, name: str):
        self.name, self.rest = name, ""

    def write(self, text: str) -> None:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            if line.strip():
                print(f"{self.name}: {line.split(chr(13))[-1]}", flush=True)

    def flush(self) -> None:
        """Whole lines are flushed as they are printed."""


def known(notebook) -> list[str]:
    """The parameters of a notebook: the names assigned in its cell tagged ``parameters``."""
    return [
        name
        for cell in notebook.cells
        if "parameters" in cell.metadata.get("tags", [])
        for name in assigned(cell.source)
    ]


def execute(source: Path, target: Path, parameters: dict, name: str) -> None:
    """Executes ``source`` into ``target``, in the project's root.

    Raises ValueError, with one sentence, for an unknown parameter and RuntimeError for a failure; the notebook as it
    stopped is then kept beside the target.
    """
    if not source.is_file():
        raise ValueError(f"There is no notebook {shown(source)}.")
    notebook = nbformat.read(source, as_version=4)
    legal = known(notebook)
    for parameter in parameters:
        if parameter not in legal:
            raise ValueError(
                f"{shown(source)} has no parameter '{parameter}'" + hint(parameter, sorted(legal))
            )
    with writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    failed = target.with_suffix(".failed.ipynb")
    failed.unlink(missing_ok=True)
    scratch = target.with_name(f".{target.stem}.running.ipynb")
    try:
        papermill.execute_notebook(
            notebook,
            scratch,
            parameters,
            kernel_name="python3",
            progress_bar=False,
            stdout_file=Lines(name),
            stderr_file=sys.stderr,
            cwd=ROOT,
        )
        done = clean(nbformat.read(scratch, as_version=4), source, target)
        nbformat.write(done, scratch)
        os.replace(scratch, target)
    except (PapermillExecutionError, DeadKernelError) as error:
        os.replace(scratch, failed)
        raise RuntimeError(
            f"{sentence(error)} (the notebook as it stopped: {shown(failed)})"
        ) from None
    finally:
        scratch.unlink(missing_ok=True)


def sentence(error: Exception) -> str:
    """What went wrong, in one sentence."""
    if isinstance(error, DeadKernelError):
        return "The notebook's process was killed, most often because the memory was full: close other programs, or choose a smaller model or batch."
    lines = (error.evalue or error.ename).strip().splitlines()
    return (
        lines[0]
        if error.ename in OWN
        else f"Cell {error.exec_count} failed with {error.ename}: {lines[0]}"
    )


def clean(notebook, source: Path, target: Path):
    """The executed notebook without what belongs to this machine."""
    about = notebook.metadata.papermill
    about.update(input_path=shown(source), output_path=shown(target))
    about.pop("environment_variables", None)
    return notebook


def mapping(text: str) -> dict:
    """What stands behind -y."""
    found = value(text)
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no YAML mapping: write '{{name: value}}'.")
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.workflow.notebook",
        description="Executes a notebook with parameters.",
    )
    parser.add_argument("source", type=Path, help="the notebook")
    parser.add_argument("target", type=Path, help="where the executed notebook goes")
    parser.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a parameter; the value is read as YAML",
    )
    parser.add_argument(
        "-y", type=mapping, default={}, metavar="YAML", help="parameters as a YAML mapping"
    )
    parser.add_argument(
        "--name", help="how the job is called in what it prints; by default as the target"
    )
    arguments = parser.parse_args()
    parameters = arguments.y | {name: value(text) for name, text in arguments.p}
    name = arguments.name or arguments.target.stem
    lifeline.hold()
    logging.getLogger("papermill").setLevel(logging.ERROR)
    os.environ |= KERNEL
    start = time.monotonic()
    try:
        execute(arguments.source.resolve(), arguments.target.resolve(), parameters, name)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"{name}: {error}")
    print(f"{name}: finished in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
