"""Models come from a folder, a GGUF file, a hub id or a name; test_mistakes.py has what cannot."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import gguf
import pytest
import torch
from conftest import CONTEXT, FF, LAYERS, WIDTH, V, build
from huggingface_hub import constants
from transformers import GenerationConfig

from companion.data import models
from revs.measures import evaluate
from revs.model import load
from revs.model import place as places
from revs.model.load import save, tokenizer_hash
from revs.model.targets import Record, encode

COMMIT = "0123456789" * 4


@pytest.fixture
def tiny():
    """A tiny Llama with tied embeddings, and its tokenizer."""
    decoder = build("llama-tied", dtype=torch.float32)
    return decoder.model, decoder.tokenizer


def equal(one, other) -> bool:
    """The same weights, bit for bit."""
    pairs = zip(one.named_parameters(), other.named_parameters(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_folder_loads_to_the_same_model(tiny, tmp_path, dtype):
    """Tied on disk, tied in memory; pinned by its weights' sha256, which others do not have."""
    model, tokenizer = tiny
    save(model, tokenizer, tmp_path / "m")
    decoder = load.load(str(tmp_path / "m"), dtype)
    assert decoder.head.weight is decoder.model.get_input_embeddings().weight
    assert torch.equal(decoder.head.weight, model.lm_head.weight.to(getattr(torch, dtype)))
    assert tokenizer_hash(decoder.tokenizer) == tokenizer_hash(tokenizer)
    assert decoder.revision == models.identify(str(tmp_path / "m")) and len(decoder.revision) == 64
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] += 1
    save(model, tokenizer, tmp_path / "n")
    assert models.identify(str(tmp_path / "n")) != decoder.revision
    assert {path.name for path in tmp_path.iterdir()} == {"m", "n"}  # nothing half-written there


def test_a_folder_that_another_process_wrote_first_stays(tiny, tmp_path, monkeypatch):
    """Who reads there never sees half of it; what is half of one gives way."""
    model, tokenizer = tiny
    place, first, rename = tmp_path / "m", tmp_path / "first", load.os.replace
    save(model, tokenizer, first)
    pin = models.identify(str(first))
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] += 1

    def late(scratch, folder):
        rename(first, place)
        return rename(scratch, folder)

    monkeypatch.setattr(load.os, "replace", late)
    save(model, tokenizer, place, cached=True)
    monkeypatch.setattr(load.os, "replace", rename)
    save(model, tokenizer, place, cached=True)
    assert models.identify(str(place)) == pin and list(tmp_path.iterdir()) == [place]
    (place / "config.json").unlink()
    save(model, tokenizer, place, cached=True)
    assert models.identify(str(place)) != pin and (place / "config.json").is_file()


@pytest.mark.parametrize("cached, name", [(True, "thesis.tex"), (False, "thesis.tex"), (False, "")])
def test_a_folder_with_something_else_is_not_written_to(tiny, tmp_path, refused, cached, name):
    """A text, or a whole model: none is lost, and none is kept without a word."""
    place = tmp_path / "m"
    if name:
        place.mkdir()
        (place / name).write_text("mine")
    else:
        save(*tiny, place)
    held = {file: file.read_bytes() for file in place.iterdir()}
    with refused("holds a model or other files, which would be lost: move them, or name another"):
        save(*tiny, place, cached=cached)
    assert {file: file.read_bytes() for file in place.iterdir()} == held
    assert list(tmp_path.iterdir()) == [place]


def test_a_model_is_saved_behind_a_link(tiny, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "m").symlink_to(tmp_path / "far")
    save(*tiny, tmp_path / "m")
    assert equal(load.load(str(tmp_path / "far")).model, tiny[0])


def test_gated_weights_say_what_to_do_and_never_show_the_token():
    error = OSError("401 Client Error: gated repo, token hf_secret")
    with (
        pytest.raises(OSError, match="whether its licence must be accepted") as raised,
        places.explained(places.Place("llama-3-8b", "x/llama-3-8b"), "configuration"),
    ):
        raise error
    assert "hf_secret" not in str(raised.value)


def test_a_hub_id_is_pinned_by_the_commit_that_it_is_now(monkeypatch):
    """Those that nothing pins are told apart by their names."""
    assert models.identify("owner/one") == "unpinned owner/one" != models.identify("owner/two")
    said = SimpleNamespace(sha=COMMIT)
    monkeypatch.setattr(places.HfApi, "model_info", lambda *_: said)
    place = places.Place("owner/one", "owner/one", revision=COMMIT)
    assert models.locate("owner/one") == place
    assert models.identify("owner/one") == COMMIT and place.options == {"revision": COMMIT}


def test_a_model_is_found_in_the_cache_by_the_name_that_reports_give(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "CACHE", tmp_path)
    save(*tiny, tmp_path / "models" / "tiny+seed1-0123")
    decoder = models.load("tiny+seed1-0123")
    assert decoder.name == "tiny+seed1-0123" and decoder.revision == models.identify(decoder.name)


def test_a_model_of_the_paper_may_lie_in_a_folder(tiny, tmp_path, monkeypatch):
    """It keeps its name, by which settings are looked up; its files say which weights it has."""
    save(*tiny, tmp_path / "copy")
    entry = models.registry()["llama-3-8b"] | {"folder": str(tmp_path / "copy")}
    monkeypatch.setattr(models, "registry", lambda: {"llama-3-8b": entry})
    assert models.load("llama-3-8b").name == "llama-3-8b"
    assert models.identify("llama-3-8b") == models.identify(str(tmp_path / "copy"))


def cached(place: Path, monkeypatch) -> Path:
    """The folder of owner/tiny's newest commit in a hub cache of its own, without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place))
    (place / "models--owner--tiny/refs").mkdir(parents=True)
    (place / "models--owner--tiny/refs/main").write_text(COMMIT)
    return place / "models--owner--tiny/snapshots" / COMMIT


def test_an_unpinned_hub_id_comes_from_the_cache_without_a_network(tiny, tmp_path, monkeypatch):
    """As it was downloaded: the newest commit that the cache knows pins it."""
    save(*tiny, cached(tmp_path, monkeypatch))
    decoder = models.load("owner/tiny")
    assert (decoder.name, decoder.revision) == ("owner/tiny", models.identify("owner/tiny"))
    assert decoder.revision == COMMIT and torch.equal(decoder.head.weight, tiny[0].lm_head.weight)
    assert tokenizer_hash(models.tokenizer("owner/tiny")) == tokenizer_hash(tiny[1])


def test_greedy_decoding_is_the_argmax_whatever_a_checkpoint_asks_for(tiny, tmp_path):
    """A penalty, beams or a minimal length of its own would change what counts as memorised."""
    save(*tiny, tmp_path / "m")
    plain = load.load(str(tmp_path / "m"))
    asked = {"repetition_penalty": 1.7, "num_beams": 3, "min_length": 30}
    sampled = asked | {"do_sample": True, "temperature": 3.0}
    (tmp_path / "m/generation_config.json").write_text(json.dumps(sampled))
    target = encode(Record("r", "text", "r", "one two ", "three", "."), plain.tokenizer)
    loaded = load.load(str(tmp_path / "m"))
    assert evaluate.continuations(loaded, [target]) == evaluate.continuations(plain, [target])
    loaded.model.generation_config = GenerationConfig(**asked)
    assert evaluate.continuations(loaded, [target]) != evaluate.continuations(plain, [target])


def test_weights_in_several_files_with_a_tied_head_are_the_same_model(tiny, tmp_path):
    """No file holds the head, since it is the embeddings."""
    model, tokenizer = tiny
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    tokenizer.save_pretrained(tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert len(set(index.values())) >= 3 and "lm_head.weight" not in index
    assert equal(models.load(str(tmp_path)).model, model)


def test_a_gguf_file_is_the_model_that_it_was_converted_from(tiny, tmp_path):
    model, tokenizer = tiny
    file, vocab = tmp_path / "model.gguf", tokenizer.get_vocab()
    writer = gguf.GGUFWriter(file, "llama")
    said = {"block_count": LAYERS, "context_length": CONTEXT, "embedding_length": WIDTH}
    said |= {"vocab_size": V, "feed_forward_length": FF, "head_count": 4, "head_count_kv": 2}
    said |= {"key_length": 4, "value_length": 4, "layer_norm_rms_eps": model.config.rms_norm_eps}
    said |= {"tokenizer_model": "gpt2", "token_list": [*sorted(vocab, key=vocab.get), "ab"]}
    for name, value in (said | {"token_merges": ["a b"], "eos_token_id": 256}).items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, weight in model.named_parameters():
        if "q_proj" in name or "k_proj" in name:  # llama.cpp turns neighbours, transformers halves
            weight = weight.unflatten(0, (-1, 2, 2)).transpose(1, 2).flatten(0, 2)
        writer.add_tensor(names.get_name(name, (".weight",)), weight.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    decoder = models.load(str(file))
    assert equal(decoder.model, model) and decoder.head.weight is not model.lm_head.weight
    assert decoder.revision == hashlib.sha256(file.read_bytes()).hexdigest()
    abc = decoder.tokenizer("abc")["input_ids"]
    assert abc == [len(vocab), *tokenizer("c")["input_ids"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in models.registry() if name.endswith("-random")])
def test_a_shape_with_random_weights_is_the_same_each_time(name, monkeypatch):
    """In small: the real ones have as many weights as the models whose shape they have."""
    entry = models.registry()[name]
    small = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    small |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    small = small if entry["random"]["model_type"] == "llama" else {"n_embd": 64, "n_head": 4}
    small |= {"n_layer": 2, "rotary_dim": 8} if "n_embd" in small else {}
    monkeypatch.setitem(models.registry(), name, entry | {"random": entry["random"] | small})
    first, again = models.load(name, device_map="cpu"), models.load(name, "bfloat16", "cpu")
    assert torch.equal(first.neurons(0), models.load(name, device_map="cpu").neurons(0))
    assert again.model.dtype == torch.bfloat16 and first.revision == models.identify(name)
    assert name in models.identify(name)  # another shape is another model
    real = models.registry()[name.removesuffix("-random")]["shape"]
    assert entry["shape"] == real and entry["random"]["vocab_size"] == real["V"]
    assert len(models.tokenizer(name)) == len(first.tokenizer) <= real["V"]
    with pytest.raises(ValueError, match="has no weights of its own"):
        models.locate(name)


def test_a_device_map_needs_accelerate(refused, monkeypatch):
    monkeypatch.setattr(load.importlib.util, "find_spec", lambda name: None)
    with refused("needs accelerate: pip install accelerate"):
        load.resolve_device_map("cpu")
