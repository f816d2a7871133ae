"""Models that are held otherwise than as plain weights: used as they are, or refused in a sentence
with the remedy, and never edited silently to no effect."""

import json

import pytest
import torch
from conftest import build
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from test_load import cached
from torch.nn.utils.parametrizations import weight_norm

import revs
from companion.data import adapters
from companion.experiments import memory
from revs.model import load, place

SECRETS = [("The number of the house is", " 7391")]
SETTINGS = {"r_h": 280, "eps_r_h": 5, "r_n": 295, "eps_r_n": 3, "n_max": 20, "k": 40}


@pytest.fixture
def decoder():
    return build("llama-untied", dtype=torch.float32)


def lora(model, *modules: str):
    """The model with a LoRA adapter that changes what it computes."""
    config = LoraConfig(r=2, target_modules=list(modules), init_lora_weights=False)
    return get_peft_model(model, config).eval()


# --- weights that are no plain numbers ------------------------------------------------------------


class Scaled(torch.nn.Linear):
    """A floating weight that is not what the layer multiplies by."""

    def forward(self, a):
        return 2 * super().forward(a)


def held_in_4_bit(decoder):
    """As bitsandbytes packs a weight."""
    weight = torch.zeros(512, 1, dtype=torch.uint8)
    decoder.ff2[0].weight = torch.nn.Parameter(weight, requires_grad=False)


def quantised_dynamically(decoder):
    plain = torch.nn.Sequential(decoder.layers[1].mlp.down_proj)
    quantised = torch.ao.quantization.quantize_dynamic(plain, {torch.nn.Linear})[0]
    decoder.layers[1].mlp.down_proj = quantised


def with_another_scale(decoder):
    decoder.layers[1].mlp.down_proj.__class__ = Scaled


def made_in_inference_mode(decoder):
    with torch.inference_mode():
        decoder.layers[0].mlp.down_proj.weight.data = torch.zeros_like(decoder.neurons(0))


@pytest.mark.parametrize(
    "spoil, said",
    [
        (held_in_4_bit, r"held in few bits \(torch.uint8\).*load it in bfloat16, float16 or float"),
        (quantised_dynamically, "held in few bits, and such columns cannot be moved"),
        (with_another_scale, "does not compute W·a"),
        (
            lambda one: lora(one.model, "down_proj"),
            "merge it first, model = model.merge_and_unload",
        ),
        (lambda one: weight_norm(one.ff2[1]), "computes an edited weight from other weights"),
        (made_in_inference_mode, "made inside torch.inference_mode"),
        (lambda one: one.layers[1].compile(backend="eager"), "compile the whole model, or nothing"),
        (
            lambda one: one.ff2[1].to("meta"),
            "not in memory, but offloaded: load it without a device",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_weights_that_cannot_be_moved_are_refused(decoder, spoil, said, refused):
    spoil(decoder)
    with refused(said):
        revs.unlearn(decoder.model, decoder.tokenizer, SECRETS, SETTINGS)


@pytest.mark.parametrize(
    "wrap",
    [
        torch.nn.DataParallel,
        lambda model: torch.compile(model, backend="eager"),
        lambda model: lora(model, "q_proj"),
    ],
)
def test_wrapped_models_are_edited_as_themselves(decoder, wrap):
    """What is around the model stays, and what it computes is edited and undone."""
    wrapped, tokenizer = wrap(decoder.model), decoder.tokenizer
    before = revs.rank(wrapped, tokenizer, *SECRETS[0])
    edit = revs.unlearn(wrapped, tokenizer, SECRETS, SETTINGS)
    assert revs.rank(wrapped, tokenizer, *SECRETS[0]) != before
    edit.undo()
    assert revs.rank(wrapped, tokenizer, *SECRETS[0]) == before


# --- folders with more in them than a model ------------------------------------------------------


@pytest.mark.parametrize("hub", [False, True])
def test_an_adapter_beside_the_weights_is_refused(decoder, tmp_path, monkeypatch, refused, hub):
    """With peft it would be read, without it left out."""
    folder = cached(tmp_path, monkeypatch) if hub else tmp_path / "model"
    load.save(decoder.model, decoder.tokenizer, folder)
    lora(decoder.model, "q_proj").save_pretrained(folder)
    monkeypatch.setattr(load, "weights", lambda *_: pytest.fail("read without a word"))
    with refused("an adapter beside its weights.*merge it"):
        load.load("owner/tiny" if hub else str(folder))


def renamed(folder):
    file = folder / "adapter_model.safetensors"
    save_file({f"base_model.model.{name}": one for name, one in load_file(file).items()}, file)


def of_another_width(folder):
    file = folder / "adapter_model.safetensors"
    save_file({name: torch.zeros(5, 5) for name in load_file(file)}, file)


def of_another_architecture(folder):
    file = folder / "adapter_config.json"
    file.write_text(file.read_text().replace("down_proj", "query_key_value"))


def as_pickle(folder):
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


NO_ADAPTER = "is no LoRA adapter of this model, or its weights have other names"
SPOILT = dict.fromkeys((renamed, of_another_width, of_another_architecture, None), NO_ADAPTER)
SPOILT |= {as_pickle: "has no adapter_model.safetensors, and pickle is not read"}


@pytest.mark.parametrize("spoil, said", SPOILT.items())
@pytest.mark.filterwarnings("ignore")
def test_an_adapter_that_peft_would_ignore_is_refused(decoder, tmp_path, spoil, said, refused):
    """Where its weights have other names, peft warns and leaves the base model as it is."""
    load.save(decoder.model, decoder.tokenizer, tmp_path / "base")
    whole = build("llama-untied", dtype=torch.float32).model
    tuned = get_peft_model(whole, PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"))
    tuned = lora(build("llama-untied", dtype=torch.float32).model, "down_proj") if spoil else tuned
    tuned.save_pretrained(tmp_path / "adapter")
    if spoil:
        adapters.merge(load.load(str(tmp_path / "base")), str(tmp_path / "adapter"))
        spoil(tmp_path / "adapter")
    with refused(said, (ValueError, FileNotFoundError)):
        adapters.merge(load.load(str(tmp_path / "base")), str(tmp_path / "adapter"))


def test_a_learned_prompt_is_refused(decoder, refused):
    """REVS would look at the model without it."""
    config = PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    with refused("reads a learned prompt"):
        revs.rank(get_peft_model(decoder.model, config).eval(), decoder.tokenizer, *SECRETS[0])


@pytest.mark.parametrize(
    "carrying",
    [
        lambda model: model.add_adapter(LoraConfig(r=2, target_modules=["q_proj"])) or model,
        lambda model: lora(model, "q_proj"),
        lambda model: lora(model, "q_proj").get_base_model(),
    ],
)
def test_a_model_that_carries_an_adapter_is_not_saved(decoder, tmp_path, refused, carrying):
    """Its folder would hold the adapter alone, or weights under other names."""
    with refused("carries an adapter"):
        load.save(carrying(decoder.model), decoder.tokenizer, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_weights_that_lie_there_twice_are_counted_once(decoder, tmp_path):
    folder = tmp_path / "model"
    load.save(decoder.model, decoder.tokenizer, folder)
    count, pin = memory.weight_count(folder), place.fingerprint(folder)
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert (memory.weight_count(folder), place.fingerprint(folder)) == (count, pin)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (memory.weight_count(folder), place.fingerprint(folder)) == (count, pin)


def test_weights_that_were_changed_are_hashed_again(tmp_path):
    file, found = tmp_path / "model.safetensors", set()
    for content in (b"first", b"second"):
        file.write_bytes(content)
        found |= {place.fingerprint(tmp_path), place.fingerprint(tmp_path)}
    assert len(found) == 2
