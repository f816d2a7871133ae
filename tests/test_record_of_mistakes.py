"""The book's list of wrong inputs is of this code."""

import ast
import re
import xml.etree.ElementTree as ElementTree

from test_mistakes import CASES

from companion.pages import mistakes
from companion.record.paths import ROOT
from companion.workflow.mistakes import cases, stamp


def test_the_record_is_of_this_code():
    """rows/mistakes.json is what `make mistakes` writes: every kind, each with its message or why there is none."""
    record = mistakes.read()
    assert record["stamp"] == stamp(), "the sources have changed: make mistakes"
    assert (
        [case["kind"] for case in record["cases"]]
        == [case["kind"] for case in CASES.values()]
        == list(mistakes.table()["kind"])
    )
    assert all(("message" in case) != ("skipped" in case) for case in record["cases"])


def test_messages_are_what_the_suite_reported(tmp_path):
    (tmp_path / "report.xml").write_text("""<testsuites><testsuite>
        <testcase name="a"><properties><property name="kind" value="K"/><property name="given" value="G"/><property name="message" value="M."/></properties></testcase>
        <testcase name="b"><properties><property name="kind" value="L"/><property name="given" value="H"/></properties><skipped message="no tmpfs"/></testcase><testcase name="c"/></testsuite></testsuites>""")
    assert cases(ElementTree.parse(tmp_path / "report.xml")) == [
        {"kind": "K", "given": "G", "message": "M."},
        {"kind": "L", "given": "H", "skipped": "no tmpfs"},
    ]


def test_first_aid_quotes_what_is_said():
    """Each part of a message between two dots stands in a message of the record, or in the code."""
    code = [
        node.value
        for folder in ("revs", "companion.workflow")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    known = "\n".join(
        [case["message"] for case in mistakes.read()["cases"] if "message" in case] + code
    )
    shown = re.findall(
        r"^:You see: (.*)",
        (ROOT / "book" / "first-aid.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    quoted = [
        message
        for line in shown
        for message in re.findall(r"`([^`]+)`", line)
        if not message.startswith("make")
    ]  # commands, and what the shell says
    assert len(quoted) >= len(shown)
    for message in quoted:
        assert not [
            part for part in message.split("…") if re.search(r"\w", part) and part not in known
        ], message
