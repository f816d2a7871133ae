"""Puts the notebooks into build/nbtest for nbmake, which takes no parameters of its own.

The light ones keep their defaults. The heavy ones get settings that are finished in a minute or two and a folder for
their rows, so that a test never takes the place of a result.
"""

from __future__ import annotations

import logging
import shutil

import papermill

from companion.runs.memorise import prepared
from companion.workflow.paths import BUILD, ROOT, shown
from companion.workflow.profile import read

PLACE = BUILD / "nbtest"


def main() -> None:
    """Prepares every notebook of the quick profile."""
    logging.getLogger("papermill").setLevel(logging.ERROR)
    profile = read("quick")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    rows = {"rows": shown(PLACE / "rows")}
    parameters = {name: job.parameters | rows for name, job in profile.samples().items()}
    knowing = prepared("smollm2-135m", "ssn", True)
    parameters["unlearn"] |= {
        "model": shown(knowing),
        "finetune": False,
        "data": "build/curated/documents.jsonl",
        "forget": 2,
        "generate": False,
    }  # what this build's curation wrote
    parameters["tune"] |= {"trials": 1, "forget": 2}
    parameters["own"] |= {"limit": 8, "minutes": 0, "out": shown(PLACE / "own")}
    for name in [*parameters, *profile.pages]:
        papermill.execute_notebook(
            ROOT / "notebooks" / f"{name}.ipynb",
            PLACE / f"{name}.ipynb",
            parameters.get(name, {}),
            prepare_only=True,
            progress_bar=False,
        )


if __name__ == "__main__":
    main()
