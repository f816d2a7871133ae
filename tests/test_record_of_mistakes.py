"""The book's list of wrong inputs is of this code."""

import xml.etree.ElementTree as ElementTree

from flow.mistakes import cases, stamp
from revs import mistakes
from test_mistakes import CASES


def test_the_record_is_of_this_code():
    """rows/mistakes.json is what `make mistakes` writes: every kind, each with its message or why there is none."""
    record = mistakes.read()
    assert record["stamp"] == stamp(), "the sources have changed: make mistakes"
    assert [case["kind"] for case in record["cases"]] == [case["kind"] for case in CASES.values()] == list(mistakes.table()["kind"])
    assert all(("message" in case) != ("skipped" in case) for case in record["cases"])


def test_messages_are_what_the_suite_reported(tmp_path):
    (tmp_path / "report.xml").write_text('''<testsuites><testsuite>
        <testcase name="a"><properties><property name="kind" value="K"/><property name="given" value="G"/><property name="message" value="M."/></properties></testcase>
        <testcase name="b"><properties><property name="kind" value="L"/><property name="given" value="H"/></properties><skipped message="no tmpfs"/></testcase><testcase name="c"/></testsuite></testsuites>''')
    assert cases(ElementTree.parse(tmp_path / "report.xml")) == [{"kind": "K", "given": "G", "message": "M."}, {"kind": "L", "given": "H", "skipped": "no tmpfs"}]
