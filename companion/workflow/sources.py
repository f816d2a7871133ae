"""Lists the files that runs, pages and the book depend on, so that Snakemake knows what to redo."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from companion.store.paths import ROOT
from companion.store.rows import digest

RUNS = (  # a run depends on these, its notebook and its parameters
    *("revs/**/*.py", "revs/**/*.txt", "document_audit/**/*.*", "companion/plots/*.mplstyle"),
    *(f"companion/{name}/*.py" for name in ("store", "data", "experiments", "measures")),
    *("data/**/*.jsonl", "data/adapters/*/about.json", "data/documents/**/*", "paper/tables.json"),
    *(f"params/{name}.yml" for name in ("hyperparameters", "methods", "models")),
    "params/search*.yml",
)
PAGES = (  # a page depends on these, its notebook and the runs before it
    *(f"companion/{name}/**/*.py" for name in ("analysis", "plots", "claims")),
    *("companion/**/*.j2", "companion/**/*.mplstyle", "document_audit/**/*.j2"),
    *("params/*.yml", "paper/*.*", "rows/**/*.*", "data/ranks/*.json"),
)
BOOK = (  # chapters show functions beside their equations
    *("book/**/*", "notebooks/*.ipynb", "_config.yml", "_toc.yml", "requirements.txt"),
    "CHANGELOG.md",
    *("revs/**/*.py", "companion/measures/*.py", "teaching/slides.py", "teaching/slides/**/*"),
    *("live/engine/*.*", "live/page/*.*", "live/model/*.*"),
    *("companion/workflow/live.py", "companion/workflow/site.py"),
)
HIDDEN = {"__pycache__", ".ipynb_checkpoints"}


def files(patterns: Iterable[str]) -> list[str]:
    """The project's files that match, in the order of their names."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(str(path) for path in found if not HIDDEN & set(path.parts))


def of_run(notebook: str) -> list[str]:
    """Return the files that a heavy notebook's run depends on: also the modules of analysis and
    plots that it imports."""
    path = ROOT / "notebooks" / f"{notebook}.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    drawn = re.findall(r"^from companion\.(analysis|plots) import (.+)$", code, re.MULTILINE)
    modules = [
        f"companion/{one}/{name}.py" for one, names in drawn for name in re.findall(r"\w+", names)
    ]
    return files([*RUNS, *modules, str(path.relative_to(ROOT))])


def content_hash(paths: Iterable[str | Path]) -> str:
    """Hash of the names and contents of files of the project."""
    return digest({os.path.relpath(path, ROOT): digest(Path(path).read_bytes()) for path in paths})
