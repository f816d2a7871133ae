"""`make conformance`: tests/test_families.py as a table, each family against each promise, kept in rows/conformance.json.

The page reads it; a test holds it against the sources, so that it cannot tell of code that is gone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from flow.paths import ROOT, shown
from revs import methods, rows
from revs.conformance import FILE

SUITE = ROOT / "tests" / "test_families.py"


def stamp() -> str:
    """Hash of what the table depends on: the modules under test, every method, the table of architectures, the suite."""
    texts = [path.read_text(encoding="utf-8") for path in (SUITE, SUITE.parent / "conftest.py", ROOT / "params" / "architectures.yml")]
    return rows.digest([rows.closure(*rows.imports(texts[0]), *(entry["module"] for entry in methods.registry().values())), *texts])


def outcomes(report: Path) -> dict[str, dict[str, list[int]]]:
    """check → family → [passed, run], from a JUnit file."""
    found: dict[str, dict[str, list[int]]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        parts = re.fullmatch(r"test_(\w+)\[(.+)\]", case.get("name"))
        family = parts and next((part for part in families() if re.search(rf"(?:^|-){re.escape(part)}(?:-|$)", parts[2])), None)
        if family:
            counts = found.setdefault(parts[1].replace("_", " "), {}).setdefault(family, [0, 0])
            counts[0] += not any(case.find(trouble) is not None for trouble in ("failure", "error", "skipped"))
            counts[1] += 1
    return found


def families() -> list[str]:
    """Their names in the suite, longest first: one may be part of another."""
    sys.path.insert(0, str(SUITE.parent))
    from conftest import FAMILIES

    return sorted(FAMILIES, key=lambda name: -len(name))


def main() -> None:
    """Runs the suite and writes the row; ends with pytest's status."""
    with tempfile.TemporaryDirectory() as folder:
        report, start = Path(folder) / "report.xml", time.monotonic()
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", str(SUITE), f"--junitxml={report}"], cwd=ROOT)
        result = outcomes(report)
    if not result:
        sys.exit("The suite did not run: look at what pytest says above.")
    content = {"stamp": stamp(), "when": time.strftime("%Y-%m-%d", time.gmtime()), "seconds": round(time.monotonic() - start), **rows.machine(), "checks": result}
    rows.write_text(FILE, json.dumps(content, indent=1) + "\n")
    print(f"{shown(FILE)}: {len(result)} checks of {len(families())} families.")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
