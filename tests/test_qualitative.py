"""Qualitative examples come out of rows as they are named (Appendix)."""

import re

import pandas as pd
import pytest

from companion.analysis import qualitative
from companion.analysis.tables import DASH
from companion.data import datasets
from companion.experiments import methods
from companion.measures import replacement
from companion.store import rows

FIRST = datasets.read("emails")[0]


@pytest.fixture
def found(monkeypatch):
    """A run of REVS on e-mails: what five secrets became, one of which was kept."""
    other, same = replacement.ELSEWHERE, replacement.SAME
    became = [other, same, other, other, None]
    items = pd.DataFrame({"id": ["a", FIRST.id, "c", "d", "e"], "became": became})
    items = items.assign(was="a***", replacement="b***")
    monkeypatch.setattr(rows, "per_example", lambda row: items)
    counts = dict.fromkeys(replacement.BECAME, 0) | {other: 3, same: 1}
    return {"emails": {"revs": {"result": {"replacement": counts}}}}


def test_examples_are_the_first_of_each_outcome(found):
    shown = qualitative.examples(found)
    assert list(shown["that is"]) == [replacement.SAME] + 2 * [replacement.ELSEWHERE]
    assert list(qualitative.became(found)[replacement.ELSEWHERE]) == [3, 5]
    assert set(shown["it was"]) == {"`a***`"} and set(shown["the model now writes"]) == {"`b***`"}


def test_of_an_example_only_what_is_invented_is_shown(found):
    """The secret of a built-in sentence and the words before it, never what comes in its place."""
    line = qualitative.examples(found, invented=True).iloc[0]
    words = " ".join(FIRST.prompt.split()[-qualitative.WORDS :])
    assert line["it was"] == f"… {words} `{FIRST.secret}`"
    assert line["the model now writes"] == "`b***`"


def test_every_public_address_has_a_line():
    known = {one["id"]: n % 2 == 0 for n, one in enumerate(qualitative.public.addresses())}
    row = {"result": {"public_addresses": {"known": known}}}
    table = qualitative.retained({"ssn": {"unedited": row}})
    title = f"{methods.registry()['unedited']['title']}, SSN"
    assert list(table[title]) == ["known", "not known"] * 5
    assert list(table.iloc[:, -1]) == ["known"] * 4 + [DASH] * 6


def test_the_papers_examples_show_hosts_and_no_name():
    shown = qualitative.printed_examples()
    counts = {replacement.ELSEWHERE: 5, replacement.AT_THE_HOST: 3, replacement.PLACEHOLDER: 2}
    assert shown["that is"].value_counts().to_dict() == counts
    for cell in shown[["it was", "the model now writes"]].to_numpy().ravel():
        assert re.fullmatch(r"`(\*\*\*@[a-z.]+|\[email protected\])`", cell)
    ours = [("Write to ", "ada@example.com", " now.")]
    table = qualitative.printed_sentences("tab:email-examples", ours)
    assert list(table["whose"]) == 6 * ["paper"] + ["ours"]
    assert list(table.iloc[-1])[1:] == ["1", "1", "2", "1", "`example.com`"]
    assert "host" not in qualitative.printed_sentences("tab:ssn-examples", [])
