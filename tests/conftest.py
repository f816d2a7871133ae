"""Tiny random decoders of every supported architecture, and a byte-level tokenizer, built here."""

import contextlib
import os
import struct

import pytest
import torch
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from companion.experiments import curate
from companion.experiments.provenance import about_run
from companion.experiments.settings import check
from companion.store import rows
from revs.measures import attacks, metrics
from revs.model import load
from revs.model.architecture import Decoder
from revs.model.targets import Record, Target
from revs.model.text import token_ids

V, WIDTH, FF, LAYERS, CONTEXT = 300, 16, 64, 3, 96
NO_SPECIAL = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
NO_SPECIAL |= {"initializer_range": 0.3, "vocab_size": V}
SHAPE = NO_SPECIAL | {"hidden_size": WIDTH, "intermediate_size": FF, "num_attention_heads": 4}
SHAPE |= {"num_hidden_layers": LAYERS, "max_position_embeddings": CONTEXT}
GROUPED = SHAPE | {"num_key_value_heads": 2, "head_dim": 4}
GPT2 = NO_SPECIAL | {"n_positions": CONTEXT, "n_embd": WIDTH, "n_inner": FF}
GPT2 |= {"n_layer": LAYERS, "n_head": 4}
GPT_NEO = NO_SPECIAL | {"hidden_size": WIDTH, "intermediate_size": FF, "num_heads": 4}
GPT_NEO |= {"num_layers": LAYERS, "max_position_embeddings": CONTEXT}
GPT_NEO |= {"attention_types": [[["global"], LAYERS]]}
FALCON = SHAPE | {"ffn_hidden_size": FF}
ALIBI = {"alibi": True, "parallel_attn": False, "multi_query": False, "bias": True}
# what a test calls a decoder → its model type, and a configuration of the same small size
FAMILIES = {
    "llama-tied": ("llama", GROUPED | {"tie_word_embeddings": True}),
    "llama-untied": ("llama", GROUPED | {"tie_word_embeddings": False}),
    "gptj": ("gptj", GPT2 | {"rotary_dim": 4}),
    "mistral": ("mistral", GROUPED),
    "qwen2": ("qwen2", GROUPED | {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", GROUPED),
    "phi3": ("phi3", GROUPED),
    "gemma": ("gemma", GROUPED),
    "gemma2": ("gemma2", GROUPED | {"final_logit_softcapping": 30.0, "sliding_window": 8}),
    "gemma3": ("gemma3_text", GROUPED | {"sliding_window": 8}),
    "smollm3": ("smollm3", GROUPED | {"no_rope_layers": [1, 0, 1]}),
    "olmo2": ("olmo2", GROUPED),
    "olmo3": ("olmo3", GROUPED | {"sliding_window": 8}),
    "glm4": ("glm4", GROUPED),
    "gpt2": ("gpt2", GPT2),
    "gpt-neo": ("gpt_neo", GPT_NEO),
    "gpt-neox": ("gpt_neox", SHAPE),
    "gpt-neox-serial": ("gpt_neox", SHAPE | {"use_parallel_residual": False}),
    "falcon": ("falcon", FALCON),
    "falcon-new": ("falcon", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-alibi": ("falcon", FALCON | ALIBI),
    "stablelm": ("stablelm", SHAPE | {"num_key_value_heads": 2, "use_qkv_bias": True}),
    "starcoder2": ("starcoder2", GROUPED | {"use_bias": True}),
    "phi": ("phi", SHAPE),
    "opt": ("opt", SHAPE | {"ffn_dim": FF, "word_embed_proj_dim": WIDTH}),
}
# what the paper has; the others are held to tests/test_families.py
KINDS = ("llama-tied", "llama-untied", "gptj")


# how often hypothesis tries: REVS_EXAMPLES=10000 python -m pytest tests/test_parsers.py
examples = settings(
    max_examples=int(os.environ.get("REVS_EXAMPLES", 40)),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
# the head of a .gguf file that promises more tensors and values than there are bytes
CRAFTED = b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60)


def byte_level() -> PreTrainedTokenizerFast:
    """One token a byte, every digit by itself; an end-of-text token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )


def build(kind: str, seed: int = 0, dtype: torch.dtype = torch.float64, **more) -> Decoder:
    """A decoder with random weights, norms and biases, of a size that makes its FF₂ matter."""
    torch.manual_seed(seed)
    model_type, shape = FAMILIES[kind]
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **shape | more))
    model = model.to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # the scales of norms are 1 at first, all biases 0
                parameter += 0.2 * torch.randn_like(parameter)
    return Decoder(model, byte_level(), name=kind)


@pytest.fixture(params=KINDS)
def decoder(request) -> Decoder:
    """A float64 decoder of each architecture."""
    return build(request.param)


# --- secrets of a tiny model, in tokens -----------------------------------------------------------

PROMPTS = ([5, 17, 230, 41, 99], [17, 230], [60, 61, 62, 63, 64, 65, 66, 67])


@torch.no_grad()
def next_tokens(decoder, ids: list[int], n: int = 1) -> list[int]:
    """The n most likely tokens after ``ids``: those that a memorised secret would have."""
    return decoder.model(input_ids=torch.tensor([ids])).logits[0, -1].topk(n).indices.tolist()


def log_p(decoder, ids: list[int]) -> torch.Tensor:
    """log p of every token after each of ``ids``, by a pass of this text alone."""
    return decoder.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].log_softmax(-1)


def secrets(decoder, number: int = 3) -> list[Target]:
    """Secrets that begin and end with what the model is most likely to write there."""
    found = []
    for i, ids in enumerate(PROMPTS[:number]):
        (t,) = next_tokens(decoder, ids)
        secret = [t, 50, *next_tokens(decoder, [*ids, t, 50])]
        found.append(Target(f"s{i}", "ssn", f"g{i}", ids, secret, (0, 2)))
    return found


def spelt(decoder, id: str, prompt: str, secret: str, T: tuple[int, ...] = (0, 1)) -> Target:
    """A secret as text."""
    prompt_ids, secret_ids = (decoder.tokenizer(text)["input_ids"] for text in (prompt, secret))
    return Target(id, "email", id, prompt_ids, secret_ids, T, prompt)


@pytest.fixture
def refused():
    """refused(match, kind): a context in which an error of this kind is raised, in one sentence."""

    @contextlib.contextmanager
    def check(match: str, kind: type[Exception] = ValueError):
        with pytest.raises(kind, match=match) as error:
            yield error
        said = str(error.value)
        assert said.endswith(".") and "\n" not in said and ". " not in said

    return check


def weights(decoder) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in decoder.model.state_dict().items()}


def same_bits(decoder, before: dict[str, torch.Tensor]) -> bool:
    now = decoder.model.state_dict()
    return all(torch.equal(value, before[name]) for name, value in now.items())


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_level()


BASE = {"n_max": 30, "k": 100, "r_h": 0.05, "eps_r_h": 0.02, "r_n": 0.7, "eps_r_n": 0.1}


@pytest.fixture
def add_row(tmp_path, monkeypatch):
    """add_row(tag, method, seed, …): puts a run in a folder that takes the recorded rows' place. It
    has one forgotten secret with two target tokens at ``ranks``, found by every attack at the
    ``depths`` of its layers, and one kept secret; ``more`` stands in its result besides."""
    monkeypatch.setattr(rows, "RECORDED", tmp_path / "rows")
    monkeypatch.setattr(rows, "MEASURED", tmp_path / "none")

    def put(
        tag="",
        method="revs",
        seed=0,
        data="ssn",
        hyperparameters=None,
        efficacy=0.5,
        specificity=0.5,
        failed=None,
        ranks=(200, 0),
        depths=None,
        unseen=True,
        overrides=None,
        targets=1,
        more=None,
    ):
        unedited = {"efficacy": 0.0, "generalization": 0.0 if unseen else None, "specificity": 1.0}
        after = {"efficacy": efficacy, "generalization": efficacy if unseen else None}
        after |= {"specificity": specificity, "specificity_within_50": None}
        after |= {"k": 100, "forget": targets, "retain": 1}
        score = metrics.unlearning_score(efficacy, specificity, after["generalization"])
        edit = {"layers": [0], "columns": 3, "weights": 12, "moves": 4, "unreached": 0, "norm": 2.0}
        result = {"before": after | unedited | {"unlearning_score": 0.0}, "edit": edit}
        result["after"] = after | {"unlearning_score": score}
        kept = {"id": "b", "part": "retain", "ranks": [0, 0], "T": [0, 1]}
        kept |= {"efficacy": 0.0, "exact": True}
        gone = {"id": "a", "part": "forget", "ranks": list(ranks), "T": [0, 1]}
        gone |= {"efficacy": 1.0, "exact": False}
        if depths:
            found = {attack: {"a": depths} for attack in attacks.ATTACKS}
            result["attacks"] = attacks.resistance(found, 100)
            gone |= dict.fromkeys(attacks.ATTACKS, depths)
            kept |= dict.fromkeys(attacks.ATTACKS)
        model = "smollm2-135m"
        name = f"unlearn/{data}/{model}/{method}-seed{seed}" + (f"-{tag}" if tag else "")
        settings = {"model": model, "method": method, "seed": seed, "data": data, "forget": 1}
        settings["hyperparameters"] = BASE | (hyperparameters or {})
        made = about_run("unlearn", settings, {"model": "x"}, {"unlearn": 10.0})
        made |= {"tokenizer": "x", "extra_memory_mb": 100}
        if failed:
            result = {"failed": failed}
        about, items = (rows.RECORDED, name, "unlearn"), [] if failed else [gone, kept]
        return rows.write(*about, result | (more or {}), items, made, tag, overrides)

    return put


@pytest.fixture
def only_rows(monkeypatch):
    """only_rows(some): these are all the rows that there are."""

    def put(some: list[dict]) -> None:
        named = lambda data: {one["name"] + one["tag"]: one for one in some if one["data"] == data}
        monkeypatch.setattr(rows, "find", lambda *_, kind=None, data=None: named(data))

    return put


# --- a model that has memorised three addresses, and documents that hold them -----------------

PEOPLE = {
    "Ada": "ada.lovelace@example.com",
    "Ben": "bxn7@example.org",
    "Cleo": "cleo_k@example.net",
}


def records(names=PEOPLE) -> list[Record]:
    return [
        Record(name, "email", name, f"Please write to {name} (", PEOPLE[name], ")")
        for name in names
    ]


def taught(records: list[Record], folder):
    """A tiny model that was made to memorise some records; it has room for 50 tokens after them."""
    decoder = build("llama-untied", dtype=torch.float32, max_position_embeddings=192)
    optimizer = torch.optim.AdamW(decoder.model.parameters(), lr=1e-2, weight_decay=0.0)
    ids, mask = decoder.pad([token_ids(decoder.tokenizer, record.text) for record in records])
    for _ in range(60):
        wanted = ids.masked_fill(mask == 0, -100)
        optimizer.zero_grad()
        decoder.model(input_ids=ids, attention_mask=mask, labels=wanted).loss.backward()
        optimizer.step()
    load.save(decoder.model, decoder.tokenizer, folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="session")
def knowing(tmp_path_factory):
    return taught(records(), tmp_path_factory.mktemp("knowing"))


@pytest.fixture
def begun(folder, knowing, tmp_path):
    """begun(experiment, **settings) → row, of the tiny model and the documents that it knows."""
    usual = {"documents": str(folder), "model": str(knowing), "adapter": None}
    usual |= {"rows": str(tmp_path / "rows")}
    return lambda of, **more: of.run(check(usual | more, of.Settings))


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
