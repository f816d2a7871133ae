"""The paper's numbers as data: complete, equal to the source where that is at hand, and free of
addresses."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from companion.store import paper
from paper import extract

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("REVS_PAPER_TEX", ROOT.parent / "shared" / "paper" / "revs.tex"))
# of paper/tables.json, as paper/extract.py made it from the source
MADE = "1584c8c8fd86d058ab9be1f6c77e39e8ab83be2fa55ecf501fd9093b8aaf5638"
needs_source = pytest.mark.skipif(
    not SOURCE.is_file(), reason="the paper's LaTeX source is not at hand"
)

# Read by eye in the source: table, data set, row, column, value, deviation, mark.
PINNED = """
core_results_llama | SSN | REVS | Unlearning Score | 89.58 | 1.99 | bold
core_results_llama | SSN | REVS | GSM8K | 44.2 |  | 
core_results_llama | Emails | MEMIT | Generalization@100 | – |  | 
extraction_results_llama | URLs | FT-L | Logit-Lens@100 | 58.8 | 7.37 | underline
extraction_results_gptj | SSN | REVS | Resistance Score | 99.12 | 3.56 | bold
ablation_neuron_selection | Emails | Rank & Activations (hybrid) | Resistance Score | 84.2 |  | bold
pii-distribution |  | Email addresses | Memorized | 205 |  | 
"""


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


@needs_source
def test_every_label_of_the_source_is_recorded():
    text, recorded = SOURCE.read_text(encoding="utf-8"), paper.tables()
    assert set(re.findall(r"\\label\{(tab:[^}]*)\}", text)) == set(recorded["tables"])
    figures = recorded["figures"].items()
    labels = {label for own, figure in figures for label in (own, *figure["panels"])}
    assert set(re.findall(r"\\label\{(fig:[^}]*)\}", text)) == labels


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


@pytest.mark.parametrize("line", PINNED.strip().split("\n"))
def test_pinned_cells(line):
    label, dataset, row, column, value, std, mark = (part.strip() for part in line.split("|"))
    place, cells = (dataset or None, row, column), paper.tables()["tables"][f"tab:{label}"]["cells"]
    (found,) = [one for one in cells if (one["dataset"], one["row"], one["column"]) == place]
    assert found["value"] == (None if value == "–" else float(value))
    assert found["std"] == (float(std) if std else None) and found["mark"] == (mark or None)


# --- hyperparameters -----------------------------------------------------------------------------


LLAMA = {"n_max": 130, "k": 1000, "r_h": 750, "eps_r_h": 250, "r_n": 105000, "eps_r_n": 5000}
GPTJ = {"n_max": 30, "k": 100, "r_h": 2600, "eps_r_h": 1400, "r_n": 37500, "eps_r_n": 7500}


@pytest.mark.parametrize(
    "method, model, dataset, values",
    [
        ("REVS", "Llama-3-8B", "Emails", LLAMA | {"n_max": 45}),
        ("REVS", "GPT-J-6B", "Emails", GPTJ),
        ("FT-L", "Llama-3-8B", "SSN", {"layers": "all", "lr": 1.12e-7, "norm_constraint": 3.3e-5}),
        ("MEMIT", "Llama-3-8B", "Emails", {"layers": [3], "loss_break": 1e-5, "n_max_len": 100}),
        ("Max-Entropy", "Llama-3-8B", "SSN", {"patil_layers": list(range(15, 32)), "steps": 25}),
        ("NPO-KL", "GPT-J-6B", "Emails", {"beta": 0.1, "kl_coefficient": 1000, "lr": 6.1e-7}),
    ],
)
def test_pinned_hyperparameters(method, model, dataset, values):
    found = paper.hyperparameters(method, model, dataset)
    assert {name: found[name] for name in values} == values
