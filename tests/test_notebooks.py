"""Source notebooks: no outputs, no logic, parameters that are those of their experiment."""

import ast
import re

import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from companion.experiments.notebook import Refused
from companion.experiments.settings import EXPERIMENTS
from companion.store.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
NAMES = (
    r"SmolLM2(-\d+M)?(-Instruct)?|Llama-3(-8B)?|GPT-J(-6B)?|GPT-2|GSM8K|FF[₁₂]|[01]-based|"
    r"(Alg|Eq)\. \d|Algorithm \d|§[\d.]+|bfloat16|float(16|32|64)"
)
NOT_MEASURED = (  # numbers in prose that no row could hold
    r"seed 0|[Tt]rials 0 and 1",  # what runs and trials are called
    r"rank 0|100 if nothing is found, 0 if",  # the ends of a scale
    r"^\d\. \*\*|\([123]\)",  # numbered points, and where they stand in a picture
    r"50 (greedy )?tokens|10, 20, 50",  # how verdicts and measurements are defined
    r"0\.3 × that mean|learning rate 2e-6, 4 epochs|15,000",  # settings, ours or another's
    r"begin with 9",  # what numbers were never issued
    r"4 bytes",  # of a float32
    r"k = 100|@100|at 100 candidates|first 100|95 per cent",  # how a measurement is defined
    r"[Ss]eed [01]|schema \d",  # what runs and rows are called
)
ASIDE = r"\$\$.*?\$\$|`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\)"  # code, formulas, links


def cells(path, kind="code"):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def parameters(path):
    (found,) = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    return found.source


@EACH
def test_a_notebook_is_a_source(path):
    for cell in cells(path):
        assert not cell.outputs and cell.execution_count is None
        if not {"exercise", "solution"} & set(cell.metadata.get("tags", [])):
            nodes = list(ast.walk(ast.parse(cell.source)))
            assert not [n for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    for line in parameters(path).splitlines():
        assert re.fullmatch(r"\w+ = .+  # .+", line), f"no default or no comment: {line}"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parameters_are_those_of_the_experiment(name):
    """Same names, defaults and descriptions: a notebook cannot drift from `python -m`."""
    source, found = parameters(ROOT / "notebooks" / f"{name}.ipynb"), {}
    for line in source.splitlines():
        key, value, about = re.fullmatch(r"(\w+) = (.+?)  # (.+)", line).groups()
        found[key] = ast.literal_eval(value), about
    fields = EXPERIMENTS[name].model_fields.items()
    assert found == {key: (field.default, field.description) for key, field in fields}


def test_every_notebook_is_in_the_book():
    toc = (ROOT / "_toc.yml").read_text()
    assert {path.stem for path in NOTEBOOKS} == set(re.findall(r"notebooks/(\w+)", toc))


def test_parameters_in_commands_exist():
    """Of the notebook that a command names, else of one at least."""
    pages = {path: "\n".join(cell.source for cell in cells(path, "markdown")) for path in NOTEBOOKS}
    for path in [ROOT / "README.md", *(ROOT / "book").rglob("*.md")]:
        pages[path] = path.read_text(encoding="utf-8")
    known = {path.stem: set(re.findall(r"^\w+", parameters(path), re.M)) for path in NOTEBOOKS}
    anywhere, asked = set.union(*known.values()), 0
    for path, text in pages.items():
        for command in re.findall(r"(?:.*\\\n)*.* -[pr] .*", text):
            named = re.search(r"papermill \S*?(\w+)\.ipynb", command)
            there = known.get(named[1], anywhere) if named else anywhere
            for name in re.findall(r" -[pr] (\w+) ", command):
                assert name in there, (path.name, name)
                asked += 1
    assert asked > 20


def typed(text: str) -> list[str]:
    """The digits in a text that are no name, no formula and none of what no row could hold."""
    text = re.sub(ASIDE, "", text, flags=re.DOTALL)
    text = re.sub("|".join((NAMES, *NOT_MEASURED)), "", text, flags=re.MULTILINE)
    return re.findall(r".{,30}\d.{,30}", text)


def said(code: str) -> list[str]:
    """The texts that a cell gives to a caption, without names and the values in between."""
    nodes = list(ast.walk(ast.parse(code)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    names = [getattr(call.func, "id", getattr(call.func, "attr", "")) for call in calls]
    shown = [c for c, n in zip(calls, names, strict=True) if n in ("Table", "Data", "Filtered")]
    texts = [node.value for call in shown for node in ast.walk(call) if hasattr(node, "value")]
    return [text for text in texts if isinstance(text, str) and " " in text]


@EACH
def test_no_number_is_typed_into_the_prose_or_a_caption(path):
    """A digit in a notebook's text would be a number without a row; exercises and commands may."""
    for cell in cells(path, "markdown"):
        text = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
        assert not typed(re.sub(r"^    .*$", "", text, flags=re.MULTILINE)), cell.source
    for cell in cells(path):
        lines = ("" if line[:1] in "%!" else line for line in cell.source.splitlines())
        assert not [found for text in said("\n".join(lines)) for found in typed(text)]


HIDDEN = {"hide-input", "remove-input", "hide-cell", "remove-cell"}


@EACH
def test_a_page_shows_whole_lines_and_hides_short_cells(path):
    """80 columns fit on a page; computing stands in tested functions, drawing is seen."""
    for cell in cells(path):
        lines, tags = cell.source.splitlines(), set(cell.metadata.get("tags", []))
        assert max(map(len, lines)) <= 80, cell.source
        assert len(lines) <= 15 or not (HIDDEN & tags or "plt.show()" in lines), cell.source
        assert not [line for line in lines if line.startswith("assert ")], "a test states it"


OTHER_MODEL = "claims core examples extraction fair gone hyperparameters integrity memorised"
OTHER_MODEL += " neurons organic tokens tradeoffs tuning zeroing"
OTHER_DATA = (
    "aggregations choosing closed_form curves digits fair_details measures one_neuron reading ssn"
)
VALUES = [  # what a reader may set: each page has something to show, or says what to run first
    *((name, {"model": "gptj-small"}) for name in OTHER_MODEL.split()),
    *((name, {"data": "emails"}) for name in OTHER_DATA.split()),
    ("aggregations", {"model": "gptj-small"}),
    ("algorithm", {"data": "urls"}),
    ("ban", {"data": "ssn", "secrets": 4}),
    ("contents", {"only": "tab"}),
    ("core", {"gptj": "qwen2.5-coder-1.5b"}),
    ("cost", {"data": "emails-shared"}),
    ("edit_file", {"secrets": 1}),
    ("errata", {"outlying": 2.0}),
    ("families", {"example": "gptj"}),
    ("gptj", {"model": "smollm2-135m"}),
    ("integrity", {"larger": "gptj-small"}),
    ("memorised", {"name": "known"}),
    ("problem", {"sentence": 5}),
    ("provenance", {"kind": "tune"}),
    ("tuning", {"data": "emails-tune", "more": "ssn-tune"}),
    ("tuning", {"data": "urls-tune"}),
    ("untuned", {"model": "gemma-3-270m"}),
    ("write", {"layer": 20, "secrets": 4}),
]


def test_every_page_is_tried_with_another_value():
    """Those that make a run are tried with their experiments."""
    tried = {name for name, _ in VALUES} | EXPERIMENTS.keys()
    assert tried == {path.stem for path in NOTEBOOKS}


@pytest.mark.slow
@pytest.mark.parametrize("name, given", VALUES, ids=str)
def test_a_page_takes_other_values_of_its_parameters(name, given):
    """It runs to its end, or ends with one sentence that names the command to run first."""
    shell = InteractiveShell.instance()
    shell.reset()
    for cell in cells(ROOT / "notebooks" / f"{name}.ipynb"):
        injected = "\n".join(["# Parameters", *(f"{key} = {of!r}" for key, of in given.items())])
        more = [injected] if "parameters" in cell.metadata.get("tags", []) else []
        for code in (cell.source, *more):
            with capture_output():
                done = shell.run_cell(code, store_history=True)
            if isinstance(done.error_in_exec, Refused):
                said = str(done.error_in_exec)
                assert re.fullmatch(r"There are no .*`make run SWEEP=[\w-]+`.*", said)
                return
            done.raise_error()
    plt.close("all")


@EACH
def test_a_picture_has_a_name_a_caption_and_words_for_who_cannot_see_it(path):
    for cell in cells(path):
        if "plt.show()" in cell.source or "plt.subplots(" in cell.source:
            drawn = cell.metadata.get("mystnb", {})
            assert drawn.get("figure", {}).get("name", "").startswith("fig-"), cell.source
            assert drawn["figure"]["caption"] and drawn["image"]["alt"]
            assert drawn["image"]["classes"] == "dark-light"
