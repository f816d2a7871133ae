"""A suite of tests as a record: run once, and what it found kept with the hash of what it depends on."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from companion.record import rows
from companion.workflow.paths import ROOT


def run(suite: Path, *options: str) -> tuple[ElementTree.ElementTree, dict]:
    """pytest's report on a suite, and how the run went: its ``status``, seconds, the day, the machine."""
    with tempfile.TemporaryDirectory() as folder:
        report, start = Path(folder) / "report.xml", time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, str(suite), f"--junitxml={report}"],
            cwd=ROOT,
        )
        if not report.is_file():
            sys.exit("The suite did not run: look at what pytest says above.")
        made = {
            "when": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(time.monotonic() - start),
            **rows.machine(),
        }
        return ElementTree.parse(report), {"status": done.returncode} | made


def keep(file: Path, stamp: str, made: dict, **found) -> None:
    """Writes the record."""
    rows.write_text(
        file,
        json.dumps(
            {"stamp": stamp}
            | {key: value for key, value in made.items() if key != "status"}
            | found,
            indent=1,
            ensure_ascii=False,
        )
        + "\n",
    )
