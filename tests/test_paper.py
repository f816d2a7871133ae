"""The paper's numbers as data: complete, equal to the source where that is at hand, and free of
addresses."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from companion.analysis import llama3
from companion.store import paper
from paper import extract

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("REVS_PAPER_TEX", ROOT.parent / "shared" / "paper" / "revs.tex"))
# of paper/tables.json, as paper/extract.py made it from the source
MADE = "1584c8c8fd86d058ab9be1f6c77e39e8ab83be2fa55ecf501fd9093b8aaf5638"
needs_source = pytest.mark.skipif(
    not SOURCE.is_file(), reason="the paper's LaTeX source is not at hand"
)


# --- against the source --------------------------------------------------------------------------


@needs_source
def test_extracting_again_gives_what_is_recorded():
    assert extract.extract(SOURCE) == paper.tables()


def test_no_number_was_changed_by_hand():
    """Where the source is not at hand: the file is the one that was made from it."""
    assert hashlib.sha256(paper.FILE.read_bytes()).hexdigest() == MADE, (
        "run paper/extract.py, look at the differences, and put the new hash here"
    )
    readme = (ROOT / "paper" / "README.md").read_text(encoding="utf-8")
    assert paper.tables()["source"]["sha256"] in readme


@pytest.mark.parametrize("text", ["", "from 1 to 5, from 1 to 5"])
def test_what_does_not_stand_there_once_is_named(text):
    with pytest.raises(extract.SourceError, match="from 1 to 5"):
        extract.only("from 1 to 5", text)


@pytest.mark.parametrize("content", [None, b"\\documentclass{article}\n"])
def test_a_wrong_file_ends_with_one_sentence_and_writes_nothing(tmp_path, content):
    path, before = tmp_path / "other.tex", paper.FILE.read_bytes()
    if content is not None:
        path.write_bytes(content)
    command = [sys.executable, ROOT / "paper" / "extract.py", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == "" and paper.FILE.read_bytes() == before
    (said,) = done.stderr.splitlines()
    assert said.endswith(".") and str(path) in said


def test_the_example_of_token_selection_comes_out_of_the_real_tokenizer_as_printed():
    printed = paper.tables()["token_example"]
    ids, parts = llama3.split(printed["text"])
    assert (ids, parts) == (printed["ids"], printed["tokens"])
    assert [parts[position] for position in llama3.chosen(printed["text"])] == printed["chosen"]


def test_hyperparameters_are_those_of_a_method_a_model_and_a_data_set():
    """URLs have those of Emails (§4.5)."""
    known = {"n_max": 45, "k": 1000, "r_h": 750, "eps_r_h": 250, "r_n": 105000, "eps_r_n": 5000}
    found = paper.hyperparameters("REVS", "Llama-3-8B", "URLs")
    assert found | known == found == paper.hyperparameters("REVS", "Llama-3-8B", "Emails")
