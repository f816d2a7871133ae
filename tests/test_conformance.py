"""The table of families in the book is of this code, and reads the tests' record as it is."""

import xml.etree.ElementTree as ElementTree

from conftest import FAMILIES
from test_families import BIASED, CAPPED

from companion.pages import conformance
from companion.workflow.conformance import outcomes, stamp
from revs.model.architecture import architectures


def test_the_record_is_of_this_code():
    """rows/conformance.json is what `make conformance` writes, with every family (what only some have, with those), and nothing in it failed."""
    record = conformance.read()
    assert record["stamp"] == stamp(), "the sources have changed: make conformance"
    assert all(
        passed == run > 0 for counts in record["checks"].values() for passed, run in counts.values()
    )
    parts = {
        "a bias of the head moves ranks": set(BIASED),
        "logits are capped and keep their order": set(CAPPED),
    }
    assert parts.keys() < record["checks"].keys() and all(
        set(counts) == parts.get(check, set(FAMILIES)) for check, counts in record["checks"].items()
    )
    assert len(conformance.table()) == len(FAMILIES) and len(conformance.shapes()) == len(
        architectures()
    )


def test_a_failure_is_counted(tmp_path):
    """By check and family; a family whose name is part of another's keeps its own."""
    (tmp_path / "report.xml").write_text("""<testsuites><testsuite>
        <testcase name="test_it_runs[phi-torch.float32]"/><testcase name="test_it_runs[phi-torch.bfloat16]"><failure/></testcase><testcase name="test_it_runs[phi3-torch.float32]"/>
        <testcase name="test_it_runs[gpt-neox]"><error/></testcase><testcase name="test_another"/></testsuite></testsuites>""")
    assert outcomes(ElementTree.parse(tmp_path / "report.xml")) == {
        "it runs": {"phi": [1, 2], "phi3": [1, 1], "gpt-neox": [0, 1]}
    }
