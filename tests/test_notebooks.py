"""Source notebooks: no outputs, no logic, one parameters cell that says the same as the experiment behind it."""

import ast
import importlib
import inspect
import json
import re

import nbformat
import pytest
import yaml

from companion.record.paths import ROOT
from companion.runs.notebook import Refused, assigned, refuse_unknown, run
from companion.workflow.profile import EXPERIMENTS

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HEAVY = EXPERIMENTS


def cells(path, kind="code"):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def parameters(path):
    (found,) = [cell for cell in cells(path) if "parameters" in cell.metadata.get("tags", [])]
    return found.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_source(path):
    for cell in cells(path):
        assert not cell.outputs and cell.execution_count is None
        if not {"exercise", "solution"} & set(cell.metadata.get("tags", [])):
            assert not [
                node
                for node in ast.walk(ast.parse(cell.source))
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            ]
    for line in parameters(path).splitlines():
        assert re.fullmatch(r"\w+ = .+  # .+", line), (
            f"a parameter needs a default and a comment: {line}"
        )


@pytest.mark.parametrize("name", HEAVY)
def test_parameters_are_those_of_the_experiment(name):
    """Same names, same order, same defaults: a notebook cannot drift from `python -m`."""
    experiment = importlib.import_module(f"companion.runs.{name}")
    scope = {}
    exec(parameters(ROOT / "notebooks" / f"{name}.ipynb"), scope)
    defaults = {
        key: parameter.default
        for key, parameter in inspect.signature(experiment.run).parameters.items()
    }
    assert {
        key: scope[key] for key in assigned(parameters(ROOT / "notebooks" / f"{name}.ipynb"))
    } == defaults


def test_every_notebook_is_in_the_book_and_in_the_profile():
    toc = (ROOT / "_toc.yml").read_text()
    pages = yaml.safe_load((ROOT / "params" / "quick.yml").read_text())["pages"]
    assert (
        {path.stem for path in NOTEBOOKS}
        == set(re.findall(r"notebooks/(\w+)", toc))
        == set(pages) | set(HEAVY)
    )


NAMES = r"SmolLM2(-\d+M)?(-Instruct)?|Llama-3(-8B)?|GPT-J(-6B)?|GPT-2|GSM8K|FF[₁₂]|[01]-based|(Alg|Eq)\. \d|Algorithm \d|§[\d.]+|bfloat16|float(16|32|64)"
NOT_MEASURED = (  # numbers in prose that no row could hold
    r"seed 0|trials 0 and 1",  # what runs and trials are called
    r"rank 0|100 if nothing is found, 0 if",  # the ends of a scale
    r"^\d\. \*\*|\([123]\)",  # numbered points, and where they stand in a picture
    r"50 (greedy )?tokens|10, 20, 50",  # how verdicts and measurements are defined
    r"0\.3 × that mean|learning rate 2e-6, 4 epochs|15,000",  # settings, ours or another's
    r"begin with 9",  # what numbers were never issued
    r"4 bytes",  # of a float32
)


OF_CAPTIONS = (
    r"k = 100|@100|at 100 candidates|95 per cent",  # how a measurement is defined
    r"[Ss]eed [01]|Trials 0 and 1|schema 1",  # what runs, trials and rows are called
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_number_is_typed_into_the_prose(path):
    """A digit in a notebook's text would be a number without a row; code, formulas, links, citations, exercises, names and what is listed above aside."""
    for cell in cells(path, "markdown"):
        text = re.sub(r"```\{(exercise|solution)\}.*?```", "", cell.source, flags=re.DOTALL)
        text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
        text = re.sub(
            r"\$\$.*?\$\$|`[^`]*`|\$[^$]*\$|\[[^\]]*\]\([^)]*\)", "", text, flags=re.DOTALL
        )
        text = re.sub("|".join((NAMES, *NOT_MEASURED)), "", text, flags=re.MULTILINE)
        assert not re.findall(r".{,30}\d.{,30}", text), cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_picture_has_a_name_a_caption_and_words_for_who_cannot_see_it(path):
    for cell in cells(path):
        if "plt.show()" in cell.source or "plt.subplots(" in cell.source:
            drawn = cell.metadata.get("mystnb", {})
            assert (
                drawn.get("figure", {}).get("name", "").startswith("fig-")
                and drawn["figure"]["caption"]
                and drawn["image"]["alt"]
                and drawn["image"]["classes"] == "dark-light"
            ), cell.source


def said(code: str) -> list[str]:
    """What a cell says by itself: the texts that it gives to a caption or a paragraph, without the names of tables and the values in between."""
    calls = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", ""))
        in ("Markdown", "Table", "Data", "Filtered")
    ]
    texts = [
        node.value
        for call in calls
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [text for text in texts if " " in text]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_number_is_typed_into_a_caption(path):
    for cell in cells(path):
        for text in said(
            "\n".join(
                "" if line.startswith(("%", "!")) else line for line in cell.source.splitlines()
            )
        ):
            text = re.sub(r"\$[^$]*\$|`[^`]*`", "", text)
            text = re.sub(
                "|".join((NAMES, *NOT_MEASURED, *OF_CAPTIONS)), "", text, flags=re.MULTILINE
            )
            assert not re.findall(r".{,30}\d.{,30}", text), cell.source


def test_what_a_cell_says_is_found():
    assert sorted(
        said(
            'tables.Table(frame(1), f"At {x:.1f} of 3 steps.", "tab-a1") if y else Markdown("none of 4")'
        )
    ) == [" of 3 steps.", "At ", "none of 4"]


def test_an_unknown_parameter_is_refused_with_the_nearest_known():
    with pytest.raises(Refused, match="did you mean 'seed'"):
        refuse_unknown(["import x", "seed = 1  # a\nmodel = 'm'  # b", "# Parameters\nsed = 2\n"])
    refuse_unknown(["import x", "seed = 1  # a", "# Parameters\nseed = 2\n"])


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"seed": "two"}, "seed is 'two', a str, but must be int"),
        ({"method": "rev"}, "did you mean 'revs'"),
        ({"model": "./no/such/folder"}, "There is no model at './no/such/folder'"),
        ({"data": "nothing.jsonl"}, "There is no data set 'nothing.jsonl'"),
        ({"n_max": 0}, "n_max is 0"),
        ({"hyperparameters": {"n_mux": 3}}, "did you mean 'n_max'"),
    ],
)
def test_a_mistake_is_one_sentence(change, sentence, tmp_path):
    """Each is found before a model is loaded, and shown as one line."""
    from companion.runs import unlearn

    scope = {
        name: parameter.default
        for name, parameter in inspect.signature(unlearn.run).parameters.items()
    }
    scope |= {"finetune": False, "rows": str(tmp_path), "In": []} | change
    with pytest.raises(Refused) as refused:
        run(unlearn, scope)
    assert sentence in str(refused.value)
    assert refused.value._render_traceback_() == [f"Refused: {refused.value}"]
    left = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert [set(row["result"]) for row in left] == [{"failed", "items_sha256"}] * (
        change == {"n_max": 0}
    )  # no number is left behind
