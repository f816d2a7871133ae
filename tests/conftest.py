"""Tiny random decoders of every supported architecture, and a byte-level tokenizer: built here, nothing is downloaded."""

import copy

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPTJConfig, GPTJForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from revs.architecture import Decoder

KINDS = ("llama-tied", "llama-untied", "gptj")
V, WIDTH, FF, LAYERS, CONTEXT = 300, 16, 64, 3, 96


def byte_level() -> PreTrainedTokenizerFast:
    """One token a byte, every digit by itself; an end-of-text token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


def build(kind: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Decoder:
    """A decoder with random weights of a size that makes its FF₂ matter; norms and biases are random too."""
    torch.manual_seed(seed)
    if kind == "gptj":
        config = GPTJConfig(
            vocab_size=V, n_positions=CONTEXT, n_embd=WIDTH, n_layer=LAYERS, n_head=4, n_inner=FF, rotary_dim=4,
            initializer_range=0.3, bos_token_id=None, eos_token_id=None,
        )
        model = GPTJForCausalLM(config)
    else:
        config = LlamaConfig(
            vocab_size=V, hidden_size=WIDTH, intermediate_size=FF, num_hidden_layers=LAYERS, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=CONTEXT, tie_word_embeddings=kind == "llama-tied",
            initializer_range=0.3, bos_token_id=None, eos_token_id=None,
        )
        model = LlamaForCausalLM(config)
    model = model.to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # the scales of norms are 1 at first, all biases 0
                parameter += 0.2 * torch.randn_like(parameter)
    return Decoder(model, byte_level(), name=kind)


@pytest.fixture(name="build")
def build_fixture():
    """build(kind, seed, dtype) → Decoder."""
    return build


@pytest.fixture(params=KINDS)
def decoder(request) -> Decoder:
    """A float64 decoder of each architecture."""
    return build(request.param)


@pytest.fixture
def twin():
    """twin(decoder): a copy with its own weights."""
    return copy.deepcopy


@pytest.fixture
def one_sentence():
    """one_sentence(error): is what pytest.raises caught said in one sentence?"""
    return lambda error: str(error.value).endswith(".") and "\n" not in str(error.value) and ". " not in str(error.value)


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_level()
