"""Models come from a folder, a GGUF file, a hub id or a name; what cannot be used is in test_mistakes.py."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ResolvedRevision, constants
from test_curate import knowing, own  # noqa: F401
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from companion.own import artefact
from companion.record.rows import write_text
from companion.runs import begin, footprint, models
from companion.runs import own as experiment
from companion.runs.models import identify, registry
from revs.measures import evaluate
from revs.model import load
from revs.model.load import explain, save, tokenizer_hash
from revs.model.targets import Record, encode

COMMIT = "0123456789" * 4


@pytest.fixture
def tiny():
    """A tiny Llama and a tokenizer for it."""
    torch.manual_seed(0)
    backend = Tokenizer(WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    config = LlamaConfig(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config), PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_saved_folder_loads_to_the_same_model(tiny, tmp_path, dtype):
    model, tokenizer = tiny
    save(model, tokenizer, tmp_path / "m")
    decoder = models.load(str(tmp_path / "m"), dtype)
    assert (
        decoder.head.weight is decoder.model.get_input_embeddings().weight
    )  # tied on disk, tied in memory
    assert torch.equal(decoder.head.weight, model.lm_head.weight.to(getattr(torch, dtype)))
    assert tokenizer_hash(decoder.tokenizer) == tokenizer_hash(tokenizer)
    assert decoder.revision == identify(str(tmp_path / "m")) and len(decoder.revision) == 64


def test_other_weights_are_another_revision(tiny, tmp_path):
    model, tokenizer = tiny
    save(model, tokenizer, tmp_path / "m")
    before = identify(str(tmp_path / "m"))
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight[0, 0] += 1
    save(model, tokenizer, tmp_path / "m")
    assert identify(str(tmp_path / "m")) != before
    assert [path.name for path in tmp_path.iterdir()] == [
        "m"
    ]  # nothing half-written is left beside it


@pytest.mark.parametrize("spec", ["./no/such/folder", "/no/such", "smollm3", "a/b/c"])
def test_a_missing_model_is_named(spec):
    with pytest.raises(FileNotFoundError, match=f"There is no model at '{spec}'"):
        models.load(spec)


def test_gated_weights_say_what_to_do_and_never_show_the_token(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    said = explain(
        models.locate("llama-3-8b"),
        "configuration",
        OSError("401 Client Error: gated repo, token hf_secret"),
    )
    assert "HF_TOKEN" in said and "licence" in said and "hf_secret" not in said


def test_what_rust_panics_with_becomes_a_sentence(tmp_path, one_sentence):
    """It is no Exception, and known by its name alone; what else is none goes through."""
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(
            OSError,
            match=r"The tokenizer of m cannot be read \(called unwrap on nothing\): take another copy",
        ) as error,
        load.reading(load.Place("m", str(tmp_path)), "tokenizer"),
    ):
        raise panic("called unwrap on nothing\nat src/lib.rs")
    assert one_sentence(error)
    with pytest.raises(KeyboardInterrupt), load.reading(load.Place("m", str(tmp_path)), "tokenizer"):
        raise KeyboardInterrupt


def test_models_of_hub_and_wheels_are_pinned():
    for entry in registry().values():
        assert "config" in entry or len(entry.get("revision", entry.get("sha256"))) in (40, 64)


def test_a_model_of_a_configuration_is_drawn_once_with_another_s_vocabulary(
    tiny, tmp_path, monkeypatch
):
    """Random weights that a seed pins, in a folder that the entry's content names; the caller's random numbers go on as before."""
    save(*tiny, tmp_path / "words")
    shape = {
        "model_type": "gptj",
        "n_layer": 2,
        "n_embd": 8,
        "n_head": 2,
        "rotary_dim": 4,
        "n_positions": 64,
    }
    entry = {"title": "x", "config": shape, "vocabulary": str(tmp_path / "words"), "seed": 0}
    entries = {"one": entry, "same": entry, "other": entry | {"seed": 1}}
    monkeypatch.setattr(models, "CACHE", tmp_path)
    monkeypatch.setattr(models, "registry", lambda: entries)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    decoder = models.load("one")
    assert torch.rand(1) == expected
    assert decoder.model.config.model_type == "gptj" and tokenizer_hash(
        decoder.tokenizer
    ) == tokenizer_hash(tiny[1])
    other = models.load(str(tmp_path / "words"))
    assert (
        torch.equal(decoder.head.weight, other.head.weight)
        and torch.equal(
            decoder.model.get_input_embeddings().weight, other.model.get_input_embeddings().weight
        )
        and torch.equal(decoder.norm.weight, other.norm.weight)
    )
    assert models.identify("one") == models.identify("same") != models.identify("other")
    assert len(list((tmp_path / "models").iterdir())) == 3


def test_a_tokenizer_s_hash_is_of_its_content(tiny):
    _, tokenizer = tiny
    before = tokenizer_hash(tokenizer)
    tokenizer.add_tokens(["c"])
    assert tokenizer_hash(tokenizer) != before
    assert json.loads(tokenizer.backend_tokenizer.to_str())["added_tokens"]


def test_hub_ids_that_nothing_pins_are_told_apart():
    assert models.identify("owner/one") == "unpinned owner/one" != models.identify("owner/two")


def test_a_hub_id_is_pinned_by_the_commit_that_it_is_now(monkeypatch):
    monkeypatch.setattr(
        load, "resolve_revision", lambda spec, revision: ResolvedRevision(COMMIT, initial=revision)
    )
    assert (
        models.locate("owner/one")
        == models.locate("owner/one", "main")
        == load.Place("owner/one", "owner/one", revision=COMMIT)
    )
    assert models.identify("owner/one") == COMMIT and models.locate("owner/one").options == {
        "revision": COMMIT
    }


def cached(place: Path, monkeypatch) -> Path:
    """The folder of owner/tiny's newest commit in a hub cache of its own, without a network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place))
    write_text(place / "models--owner--tiny/refs/main", COMMIT)
    return place / "models--owner--tiny/snapshots" / COMMIT


def test_an_unpinned_hub_id_comes_from_the_cache_without_a_network(tiny, tmp_path, monkeypatch):
    """As it was downloaded: the newest commit that the cache knows pins it."""
    assert not footprint.at_hand("owner/tiny")
    save(*tiny, cached(tmp_path, monkeypatch))
    decoder = models.load("owner/tiny")
    assert (decoder.name, decoder.revision, models.identify("owner/tiny")) == (
        "owner/tiny",
        COMMIT,
        COMMIT,
    )
    assert torch.equal(decoder.head.weight, tiny[0].lm_head.weight) and tokenizer_hash(
        models.tokenizer("owner/tiny")
    ) == tokenizer_hash(tiny[1])
    assert (
        footprint.at_hand("owner/tiny")
        and not footprint.at_hand("owner/other")
        and not footprint.at_hand("no name/at all")
    )
    assert footprint.shape("owner/tiny", "float32").weights == sum(
        weight.numel() for weight in decoder.model.parameters()
    )


def test_a_hub_id_in_the_cache_goes_from_documents_to_a_report(own, knowing, tmp_path, monkeypatch):  # noqa: F811
    """Without a network; the row and the edit name the commit that was downloaded."""
    shutil.copytree(knowing, cached(tmp_path / "hub", monkeypatch))
    settings = {"n_max": 20, "k": 40, "r_h": 60, "eps_r_h": 5, "r_n": 200, "eps_r_n": 20}
    row = begin(
        {
            "documents": str(own),
            "model": "owner/tiny",
            "finetune": False,
            "hyperparameters": settings,
            "out": str(tmp_path / "out"),
            "rows": str(tmp_path / "rows"),
        },
        experiment.run,
    )
    assert (
        row["result"]["after"]["written"] < row["result"]["before"]["written"]
        and row["provenance"]["inputs"]["model"] == COMMIT
    )
    assert artefact.read(tmp_path / "out/edit.safetensors").model == COMMIT


def test_greedy_decoding_is_the_argmax_whatever_a_checkpoint_asks_for(build, tmp_path):
    """A repetition penalty, beams or a minimal length of its own would change what counts as memorised."""
    decoder = build("llama-untied", dtype=torch.float32)
    load.save(decoder.model, decoder.tokenizer, tmp_path / "m")
    plain = models.load(str(tmp_path / "m"))
    asked = {
        "repetition_penalty": 1.7,
        "num_beams": 3,
        "min_length": 30,
        "do_sample": True,
        "temperature": 3.0,
    }
    (tmp_path / "m/generation_config.json").write_text(json.dumps(asked))
    target = encode(Record("r", "text", "r", "one two ", "three", "."), decoder.tokenizer)
    loaded = models.load(str(tmp_path / "m"))
    assert evaluate.continuations(loaded, [target]) == evaluate.continuations(plain, [target])
    loaded.model.generation_config = GenerationConfig(
        **asked | {"do_sample": False, "temperature": None}
    )
    assert evaluate.continuations(loaded, [target]) != evaluate.continuations(plain, [target])
