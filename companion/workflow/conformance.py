"""`make conformance`: tests/test_families.py as a table, each family against each promise, kept in rows/conformance.json.

The page reads it; a test holds it against the sources, so that it cannot tell of code that is gone.
"""

from __future__ import annotations

import re
import sys
from xml.etree.ElementTree import ElementTree

from companion.pages.conformance import FILE
from companion.record import rows
from companion.runs import methods
from companion.workflow import suite
from companion.workflow.paths import ROOT, shown

SUITE = ROOT / "tests" / "test_families.py"


def stamp() -> str:
    """Hash of what the table depends on: the modules under test, with those that rows leave out, every method, the table of architectures, the suite."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in (
            SUITE,
            *(SUITE.parent / name for name in ("conftest.py", "oracle.py", "test_method.py")),
            ROOT / "params" / "architectures.yml",
        )
    ]
    modules = rows.closure(
        *rows.imports(texts[0]), *(entry["module"] for entry in methods.registry().values())
    ) | {name: rows.code_hash(name) for name in rows.BOOKKEEPING}
    return rows.digest([modules, *texts])


def outcomes(report: ElementTree) -> dict[str, dict[str, list[int]]]:
    """check → family → [passed, run], from pytest's report."""
    found: dict[str, dict[str, list[int]]] = {}
    for case in report.iter("testcase"):
        parts = re.fullmatch(r"test_(\w+)\[(.+)\]", case.get("name"))
        family = parts and next(
            (
                part
                for part in families()
                if re.search(rf"(?:^|-){re.escape(part)}(?:-|$)", parts[2])
            ),
            None,
        )
        if family:
            counts = found.setdefault(parts[1].replace("_", " "), {}).setdefault(family, [0, 0])
            counts[0] += not any(
                case.find(trouble) is not None for trouble in ("failure", "error", "skipped")
            )
            counts[1] += 1
    return found


def families() -> list[str]:
    """Their names in the suite, longest first: one may be part of another."""
    sys.path.insert(0, str(SUITE.parent))
    from conftest import FAMILIES

    return sorted(FAMILIES, key=lambda name: -len(name))


def main() -> None:
    """Runs the suite and writes the row; ends with pytest's status."""
    report, made = suite.run(SUITE)
    if not (result := outcomes(report)):
        sys.exit("The suite did not run: look at what pytest says above.")
    suite.keep(FILE, stamp(), made, checks=result)
    print(f"{shown(FILE)}: {len(result)} checks of {len(families())} families.")
    sys.exit(made["status"])


if __name__ == "__main__":
    main()
