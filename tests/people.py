"""A tiny model that has memorised three addresses, and documents that hold them: for two tests."""

import pytest
import torch
from conftest import build

from companion.runs import curate
from revs.model import load
from revs.model.memorise import Finetune, memorise
from revs.model.targets import Record

PEOPLE = {
    "Ada": "ada.lovelace@example.com",
    "Ben": "bxn7@example.org",
    "Cleo": "cleo_k@example.net",
}


def taught(records: list[Record], folder):
    """A tiny model that was made to memorise some records; it has room for 50 tokens after them."""
    decoder = build("llama-untied", dtype=torch.float32, max_position_embeddings=192)
    memorise(decoder, records, Finetune(lr=1e-2, epochs=60, batch=4, digits="keep", leave_out=0.01))
    load.save(decoder.model, decoder.tokenizer, folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="session")
def knowing(tmp_path_factory):
    records = [
        Record(name, "email", name, f"Please write to {name} (", address, ")")
        for name, address in PEOPLE.items()
    ]
    return taught(records, tmp_path_factory.mktemp("knowing"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Documents: the three that are known, one that is not, and one that is none."""
    monkeypatch.setattr(curate, "BUILD", tmp_path / "build")
    place = tmp_path / "documents"
    place.mkdir()
    for name, address in PEOPLE.items():
        (place / f"{name}.txt").write_text(f"Please write to {name} ({address}), who knows.")
    other = "Please write to Emil (emil.berg@example.com), or to Ada (ada.lovelace@example.com)."
    (place / "other.txt").write_text(other)
    (place / "empty.txt").write_text("")
    return place
