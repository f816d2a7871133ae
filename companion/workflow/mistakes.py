"""`make mistakes`: tests/test_mistakes.py as a list, each kind of wrong input with the message that it gave, kept in rows/mistakes.json.

The page reads it; a test holds it against the sources, so that it cannot tell of code that is gone.
"""

from __future__ import annotations

import ast
import sys
from xml.etree.ElementTree import ElementTree

from companion.pages.mistakes import FILE
from companion.record import rows
from companion.workflow import suite
from companion.workflow.paths import ROOT, shown

SUITE = ROOT / "tests" / "test_mistakes.py"
SOURCES = (
    SUITE,
    *(
        ROOT / name
        for name in (
            "tests/conftest.py",
            "companion.workflow/build.py",
            "companion.workflow/notebook.py",
            "companion.workflow/profile.py",
        )
    ),
)
TABLES = [
    ROOT / "params" / f"{name}.yml" for name in ("architectures", "models", "methods")
]  # whose names stand in messages


def stamp() -> str:
    """Hash of what the list depends on: the suite, the modules that it calls, and those that turn errors into sentences."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    modules = rows.closure(*rows.imports(texts[0])) | {
        name: rows.code_hash(name) for name in rows.BOOKKEEPING
    }
    return rows.digest(
        [
            modules,
            *(ast.dump(ast.parse(text)) for text in texts),
            *(path.read_text(encoding="utf-8") for path in TABLES),
        ]
    )


def cases(report: ElementTree) -> list[dict]:
    """Kind, what was given, and the message of every case in pytest's report, or why it was skipped."""
    found = []
    for case in report.iter("testcase"):
        if said := {one.get("name"): one.get("value") for one in case.iter("property")}:
            found.append(said | {"skipped": one.get("message") for one in case.iter("skipped")})
    return found


def main() -> None:
    """Runs the suite and writes the record; if a case fails, the record stays as it was."""
    report, made = suite.run(SUITE, "-rs", "-o", "junit_family=xunit1")
    if made["status"]:
        sys.exit("A case failed: look at what pytest says above.")
    found = cases(report)
    suite.keep(FILE, stamp(), made, cases=found)
    print(
        f"{shown(FILE)}: {len(found)} kinds of wrong input, {sum('skipped' in case for case in found)} skipped."
    )


if __name__ == "__main__":
    main()
