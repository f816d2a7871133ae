"""Executes a notebook with parameters, by papermill, and stops at what papermill lets through.

The target is written whole or not at all. A failure, even of a kernel killed for lack of memory,
ends with one sentence and a non-zero status. The notebook itself refuses unknown parameters.
"""

import argparse
import logging
import os
import re
import sys
import time
from pathlib import Path

import nbformat
import papermill
import yaml
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from companion.store.paths import ROOT, one_sentence_errors, short_path

KILLED = (
    "The notebook's process was killed, most often because the memory was full: close other "
    "programs, or choose a smaller model or batch."
)
OWN = {"Refused", "ValueError", "OSError", "FileNotFoundError"}  # with messages in sentences
KERNEL = {  # the environment that it runs in
    "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's kernel, not one of the home folder
    "TQDM_DISABLE": "1",  # bars go to stderr, which must stay empty on a page
    "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm's wish for widgets
    "PYTHONPATH": str(ROOT),
}


class Lines:
    """A stream for papermill that prints a notebook's output line by line, after the job's name."""

    def __init__(self, name: str):
        self.name, self.rest = name, ""

    def write(self, text: str) -> None:
        *lines, self.rest = re.split(r"[\r\n]", self.rest + text)
        for line in filter(str.strip, lines):
            print(f"{self.name}: {line}", flush=True)

    def flush(self) -> None:
        """Whole lines are flushed as they are printed."""


def execute(source: Path, target: Path, parameters: dict, name: str, **more) -> None:
    """Execute ``source`` into ``target`` with papermill, in the project's root.

    ``sources`` goes into the metadata, the rest of ``more`` to papermill's engine. A failure raises
    an error of one sentence, and keeps, next to the target, the notebook as it stopped.
    """
    if not source.is_file():
        raise ValueError(f"There is no notebook {short_path(source)}.")
    with one_sentence_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    failed = target.with_suffix(".failed.ipynb")
    failed.unlink(missing_ok=True)
    scratch = target.with_name(f".{target.stem}.running.ipynb")
    made_from = more.pop("sources", None)
    os.environ |= KERNEL
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        done = papermill.execute_notebook(
            source,
            scratch,
            parameters,
            kernel_name="python3",
            progress_bar=False,
            stdout_file=Lines(name),
            stderr_file=sys.stderr,
            cwd=ROOT,
            **more,
        )
        about = done.metadata.papermill
        about |= {"input_path": short_path(source), "output_path": short_path(target)}
        about["sources"] = made_from
        about.pop("environment_variables", None)
        nbformat.write(done, scratch)
        os.replace(scratch, target)
    except (PapermillExecutionError, DeadKernelError) as error:
        os.replace(scratch, failed)
        kept = f"(the notebook as it stopped: {short_path(failed)})"
        raise RuntimeError(f"{sentence(error)} {kept}") from None
    finally:
        scratch.unlink(missing_ok=True)


def sentence(error: Exception) -> str:
    """What went wrong, in one sentence."""
    if isinstance(error, DeadKernelError):
        return KILLED
    line = ((error.evalue or error.ename).strip().splitlines() or [""])[0]
    return line if error.ename in OWN else f"Cell {error.exec_count} failed: {error.ename}: {line}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m companion.workflow.notebook")
    parser.add_argument("source", type=Path, help="the notebook")
    parser.add_argument("target", type=Path, help="where the executed notebook goes")
    parser.add_argument("-y", type=yaml.safe_load, default={}, help="parameters, a YAML mapping")
    parser.add_argument("--name", help="what the job is called in what it prints")
    given = parser.parse_args()
    name, start = given.name or given.target.stem, time.monotonic()
    if not isinstance(given.y, dict):
        sys.exit(f"{name}: -y is '{given.y}', but must be a mapping, like '{{name: value}}'.")
    try:
        execute(given.source.resolve(), given.target.resolve(), given.y, name)
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"{name}: {error}")
    print(f"{name}: finished in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
