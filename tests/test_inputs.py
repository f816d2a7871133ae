"""Parameters, data sets and sweeps: what is wrong ends in a sentence, what is taken is taken
as it is.
"""

import json
from unittest import mock

import pytest
import yaml
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st

from companion.data import datasets
from companion.experiments.settings import EXPERIMENTS, check
from companion.workflow import sweep

NAMES = sorted({name for one in EXPERIMENTS.values() for name in one.model_fields})
TEXT = st.text(max_size=8) | st.sampled_from(
    ["ssn", "revs", "seed1", "1", "", "None", "../x", "a/b"]
)
SCALAR = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | TEXT
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
COLUMNS = st.sampled_from([*datasets.COLUMNS, "more"])
LINE = st.dictionaries(COLUMNS, VALUE, max_size=7).map(json.dumps) | VALUE.map(json.dumps) | TEXT


def is_a_sentence(error: Exception) -> bool:
    said = str(error)
    return len(said) > 10 and "\n" not in said.strip() and said.rstrip().endswith((".", "?", ")"))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@examples
@given(parameters=st.dictionaries(st.sampled_from(NAMES) | TEXT, VALUE, max_size=4))
def test_parameters_are_taken_as_they_are_or_refused(experiment, parameters):
    try:
        found = check(parameters, EXPERIMENTS[experiment])
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        for name, value in parameters.items():
            assert getattr(found, name) == value or value != value


@examples
@given(lines=st.lists(LINE, max_size=4))
def test_data_sets_are_read_whole_or_refused(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("data") / "set.jsonl"
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    try:
        found = datasets.read(str(path))
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        assert len(found) == len("\n".join(lines).rstrip("\n").split("\n"))


@examples
@given(content=st.dictionaries(st.sampled_from(["title", "runs", "pages", "x"]), VALUE) | VALUE)
def test_sweeps_are_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "one.yml").write_text(yaml.safe_dump(content, allow_unicode=True))
    try:
        with mock.patch.object(sweep, "FOLDER", folder):
            found = sweep.read("one")
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        assert found.title == content["title"]
