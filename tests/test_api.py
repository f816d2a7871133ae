"""``import revs``: a secret unlearned on a model that one already holds, undone, and looked at."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch
from conftest import same_bits, weights
from test_packages import MODULES, imported

import revs
from revs.method import least_squares
from revs.model.targets import Record, encode

SETTINGS = {"n_max": 20, "k": 40, "r_h": 100, "eps_r_h": 20, "r_n": 240, "eps_r_n": 12}
SECRETS = [("Her number is ", "941-14-8265"), ("His is ", "123")]
LEAST_SQUARES = {"method": "least_squares"}


REFERENCE = (Path(__file__).parents[1] / "book" / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", re.findall(r"^\.\. auto\w+:: (\S+)$", REFERENCE, re.MULTILINE))
def test_what_the_reference_names_is_there_and_explained(name):
    module, _, attribute = name.rpartition(".")
    assert getattr(importlib.import_module(module), attribute).__doc__


def test_five_lines_unlearn_rank_and_undo(decoder):
    model, tokenizer, before = decoder.model, decoder.tokenizer, weights(decoder)
    ranks = revs.rank(model, tokenizer, *SECRETS[0])
    assert len(ranks) == len(tokenizer("941-14-8265")["input_ids"]) == 11
    edit = revs.unlearn(model, tokenizer, SECRETS, SETTINGS)
    assert not same_bits(decoder, before)
    # bytes are tokens here: of equal ids, as of all digits 9, 8, … the highest are the rarest
    assert {t for _, _, t, _ in edit.moves} <= {tokenizer.convert_tokens_to_ids(c) for c in "9823"}
    said = repr(edit)
    assert "2 secrets" in said and "columns of" in said and "undo() restores it bit by bit" in said
    edit.undo()
    assert same_bits(decoder, before) and "nothing is changed" in repr(edit)
    assert revs.rank(model, tokenizer, *SECRETS[0]) == ranks


def test_one_word_writes_the_change_by_least_squares(decoder):
    """It is that of the module, with the texts to protect; the paper's write protects none."""
    model, tokenizer, before = decoder.model, decoder.tokenizer, weights(decoder)
    hp = {"r_h": 100, "mu": 0.0, "nu": 0.5}
    given, protect = {"hyperparameters": hp, "method": "least_squares"}, ["Her name is Ada."]
    edit = revs.unlearn(model, tokenizer, SECRETS, **given, protect=protect)
    found = weights(decoder)
    edit.undo()
    assert same_bits(decoder, before)
    records = [Record(str(n), "text", s, p, s, "") for n, (p, s) in enumerate(SECRETS)]
    text = (tokenizer(protect[0])["input_ids"], 0)
    targets = [encode(one, tokenizer) for one in records]
    least_squares.unlearn(decoder, targets, least_squares.Hyperparameters(**hp), protect=[text])
    assert same_bits(decoder, found) and not same_bits(decoder, before)


def test_the_library_needs_nothing_but_torch_and_transformers_and_what_they_bring():
    """torch, transformers, and what the latter needs itself."""
    found = set().union(*(imported(name) for name in MODULES if name.split(".")[0] == "revs"))
    found = {name.split(".")[0] for name in found} - set(sys.stdlib_module_names)
    brought = {"huggingface_hub", "numpy", "safetensors"}
    assert found == {"revs", "torch", "transformers"} | brought


WRONG = (
    ({"n_max": "20"}, "n_max is '20', but must be a whole number"),
    ({"n_max": 2.5}, "n_max is 2.5, but must be a whole number"),
    ({"r_n": "0.5"}, "r_n is '0.5', but must be a number"),
    ({"r_h": 1e-6}, "less than one: raise it"),
    ({"layers": 1}, "layers is 1, but must be all, upper or some whole numbers"),
    ({"layers": None}, "layers is None, but"),
    ({"layers": [0.5]}, r"layers is \[0.5\], but"),
)


def test_what_cannot_be_meant_is_refused(decoder, refused):
    model, tokenizer, before = decoder.model, decoder.tokenizer, weights(decoder)
    for secrets, said, more in (
        ([("A: ", "x")], "Secret 1 has 1 tokens that may be unlearned", {}),
        ([SECRETS[0], ("", "941")], "Secret 2 has no token before its secret", {}),
        (SECRETS[0], "a list of pairs", {}),
        ([], "a list of pairs", {}),
        (SECRETS, "There is no setting 'nmax'", {"hyperparameters": {"nmax": 3}}),
        (
            SECRETS,
            "hyperparameters as a dictionary",
            {"hyperparameters": least_squares.Hyperparameters()},
        ),
        (SECRETS, "T is 0, but must be a whole number, 1 or more", {"T": 0}),
        (SECRETS, "T is 1.5, but must be a whole number", {"T": 1.5}),
        ([("A: ", 941)], "numbers in quotes", {}),
        (7, "a list of pairs", {}),
        ([("A\ud800: ", "941")], "Secret 1 holds half of a character", {}),
        *((SECRETS, said, {"hyperparameters": hp}) for hp, said in WRONG),
        (SECRETS, "protect is one int", {"protect": 5, **LEAST_SQUARES}),
        (SECRETS, "protect holds something other", {"protect": [""], **LEAST_SQUARES}),
        (SECRETS, "A text of protect has", {"protect": ["a" * 9999], **LEAST_SQUARES}),
        (
            SECRETS,
            "protect has no effect",
            {"protect": ["A."], **LEAST_SQUARES} | {"hyperparameters": {"mu": 0.0}},
        ),
        (SECRETS, "There is no method 'revsl'", {"method": "revsl"}),
        (SECRETS, 'choose method="least_squares"', {"protect": ["A."]}),
        (SECRETS, "give a list of texts", {"protect": "A.", "method": "least_squares"}),
    ):
        with refused(said):
            revs.unlearn(model, tokenizer, secrets, **more)
    with refused("none that transformers writes text with"):
        revs.rank("a name", tokenizer, *SECRETS[0])
    with refused("torch.autocast is on"), torch.autocast("cpu", torch.bfloat16):
        revs.rank(model, tokenizer, *SECRETS[0])
    for part in (model.base_model, model):  # a part alone, then all
        part.train()
        with refused("is in training mode"):
            revs.rank(model, tokenizer, *SECRETS[0])
    assert same_bits(decoder, before)


def test_tokens_that_the_model_does_not_know_are_refused(decoder, refused):
    """The tokenizer of another model, or one that was extended without the model."""
    decoder.tokenizer.add_tokens([f" w{number}" for number in range(60)])
    secrets = [("The word is", " w59")]
    for method in ("revs", "least_squares"):
        with refused("take the tokenizer that came with the model"):
            revs.unlearn(decoder.model, decoder.tokenizer, secrets, T=1, method=method)
    with refused("take the tokenizer that came with the model"):
        revs.rank(decoder.model, decoder.tokenizer, *secrets[0])
