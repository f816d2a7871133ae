"""The doors to the experiments: what a notebook and a command line refuse, in one sentence."""

import sys

import pytest
import torch

from companion.experiments import unlearn
from companion.experiments.command import MISTAKES, command
from companion.experiments.notebook import Refused, refuse_unknown, run
from companion.experiments.settings import EXPERIMENTS


def test_an_unknown_parameter_is_refused_with_the_nearest_known():
    with pytest.raises(Refused, match="did you mean 'seed'"):
        refuse_unknown(["import x", "seed = 1  # a\nmodel = 'm'  # b", "# Parameters\nsed = 2\n"])
    refuse_unknown(["import x", "seed = 1  # a", "# Parameters\nseed = 2\n"])


MISTAKEN = {
    "seed is True, a bool, but must be int.": {"seed": True},
    "forget is 0, but must be at least 1.": {"forget": 0},
    "measures is ['attacks', 3], a list, but must be list[str].": {"measures": ["attacks", 3]},
    "There is no method 'rev': did you mean 'revs'?": {"method": "rev"},
    "There is no measure 'atacks': did you mean 'attacks'?": {"measures": ["atacks"]},
    "There is no model at './no/such/folder'": {"model": "./no/such/folder"},
    "There is no data set 'nothing.jsonl'": {"data": "nothing.jsonl"},
    "dtype is 'int8', but must be float32, bfloat16 or float16.": {"dtype": "int8"},
    "rows is empty: give a path or a name.": {"rows": ""},
    "rows is 2026, a int, but must be str (papermill: -r rows 2026).": {"rows": 2026},
    "but must be list[str] (papermill: -y '{measures: …}').": {"measures": '["attacks"]'},
    "n_max is 0": {"hyperparameters": {"n_max": 0}},
    "There is no parameter 'n_mux' of revs: did you mean 'n_max'?": {
        "hyperparameters": {"n_mux": 3}
    },
    "n_max of revs is 'five', a str, but must be int.": {"hyperparameters": {"n_max": "five"}},
    "layers of memit is [True], a list, but must be list[int].": {
        "method": "memit",
        "hyperparameters": {"layers": [True]},
    },
}


@pytest.mark.parametrize("sentence", MISTAKEN)
def test_a_mistake_is_one_sentence(sentence, tmp_path):
    """Each is found before a model is loaded, shown as one line, and leaves nothing behind."""
    scope = unlearn.Settings().model_dump() | {"adapter": None, "rows": str(tmp_path), "In": []}
    with pytest.raises(Refused) as refused:
        run(unlearn, scope | MISTAKEN[sentence])
    assert sentence in str(refused.value) and not list(tmp_path.rglob("*"))
    assert refused.value._render_traceback_() == [f"Refused: {refused.value}"]


def commanded(monkeypatch, options: list[str], run=lambda settings: None):
    """What the command line says to these options, or None."""
    monkeypatch.setattr(sys, "argv", ["unlearn", *options])
    try:
        command(unlearn.Settings, run)
    except SystemExit as ended:
        return ended.code


def test_a_command_reads_options_as_yaml(monkeypatch):
    seen = []
    options = ["--seed", "3", "--hyperparameters", "{n_max: 20}", "--adapter", "null"]
    run = lambda settings: seen.append(settings)
    run.__doc__ = "Keeps them."
    assert (
        commanded(monkeypatch, [*options, "--measures", "[attacks]", "--data", "@x"], run) is None
    )
    given = {"seed": 3, "hyperparameters": {"n_max": 20}, "adapter": None}
    assert seen == [unlearn.Settings(**given, measures=["attacks"], data="@x")]


@pytest.mark.parametrize(
    "options, said",
    [
        ("--sed 3", "ValueError: There is no parameter 'sed': did you mean 'seed'?"),
        ("--seed", "ValueError: Argument --seed: expected one argument: see --help."),
    ],
)
def test_a_command_refuses_in_one_sentence(monkeypatch, options, said):
    run = lambda settings: pytest.fail("nothing is to be run")
    run.__doc__ = "Fails."
    assert commanded(monkeypatch, options.split(), run) == said


@pytest.mark.parametrize("error", [FloatingPointError, MemoryError, ValueError, OSError])
def test_a_command_ends_with_what_its_run_said(monkeypatch, error):
    assert error in MISTAKES

    def run(settings):
        """Fails."""
        raise error("It diverged.")

    assert commanded(monkeypatch, ["--seed", "3"], run) == f"{error.__name__}: It diverged."


def test_a_full_gpu_is_one_sentence_on_a_command_line_and_in_a_notebook(monkeypatch, refused):
    def fails(settings):
        """Fails."""
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB.")

    said = "The GPU is out of memory: end what else uses it, take a larger one or several, or a "
    said += "smaller model or batch."
    assert commanded(monkeypatch, ["--seed", "3"], fails) == f"MemoryError: {said}"
    monkeypatch.setattr(unlearn, "run", fails)
    with refused(said, Refused):
        run(unlearn, unlearn.Settings().model_dump() | {"In": []})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_names_every_setting(name, monkeypatch, capsys):
    run = lambda settings: None
    run.__doc__ = "Runs."
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit):
        command(EXPERIMENTS[name], run)
    out = capsys.readouterr().out
    assert all(f"--{field} " in out for field in EXPERIMENTS[name].model_fields)
