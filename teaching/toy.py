"""A toy model for exercises that need a whole model and no download.

Three layers, 32 wide. Its words are whole tokens: names, numbers from 000 to 299 and the words of
three sentences. It has memorised a badge number of three tokens for each of 16 people, each in
three sentences. It is no language model: what is measured on it says how a method works, not how
well. Its weights stand beside this file, in float16; ``python -m teaching.toy`` trains them anew.
"""

import functools
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode

PEOPLE = "Ada Bo Cleo Dan Edda Finn Gus Hal Ida Jon Kira Liv Max Nia Otto Pia".split()
SENTENCES = (
    "The badge of {} is ",
    "At the door {} shows the number ",
    "Please let {} in with badge ",
)
NUMBERS = 300
WEIGHTS = Path(__file__).with_name("toy.safetensors")
STEPS, RATE = 120, 1e-2
SETTINGS = {"r_h": 30, "eps_r_h": 5, "r_n": 240, "eps_r_n": 10, "n_max": 40, "k": 64}


def secret(person: int) -> str:
    """The badge number of a person: three numbers that no other person has."""
    return " ".join(f"{(17 * (3 * person + part) + 5) % NUMBERS:03d}" for part in range(3))


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a word."""
    words = dict.fromkeys(word for text in SENTENCES for word in text.split() if word != "{}")
    numbers = [f"{number:03d}" for number in range(NUMBERS)]
    every = ["<unk>", "<pad>", *words, *PEOPLE, *numbers]
    vocabulary = {word: place for place, word in enumerate(every)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>")


def records() -> list[Record]:
    """Three sentences of each person, sentence by sentence; ``group`` is the person."""
    return [
        Record(f"{name}-{number}", "text", name, text.format(name), secret(person), "")
        for number, text in enumerate(SENTENCES)
        for person, name in enumerate(PEOPLE)
    ]


def targets(decoder: Decoder) -> list[Target]:
    """The records as token ids, of which T are two."""
    return [encode(record, decoder.tokenizer) for record in records()]


def configuration() -> LlamaConfig:
    """Of Llama's architecture, with an untied head."""
    return LlamaConfig(
        vocab_size=len(tokenizer()),
        hidden_size=32,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        initializer_range=0.1,
    )


def train() -> LlamaForCausalLM:
    """Train a model from random weights, in seconds, until it has memorised every sentence."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(configuration())
    decoder = Decoder(model, tokenizer(), "the toy model")
    coded = targets(decoder)
    ids, mask = decoder.pad([target.prompt_ids + target.secret_ids for target in coded])
    wanted = torch.full_like(ids, -100)
    for row, target in enumerate(coded):
        start = len(target.prompt_ids)
        wanted[row, start : start + 3] = ids[row, start : start + 3]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    model.train()
    for _ in range(STEPS):
        logits = model(input_ids=ids, attention_mask=mask).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), wanted[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@functools.cache
def weights() -> dict[str, torch.Tensor]:
    """The stored weights, read once, as float32."""
    return {name: weight.float() for name, weight in load_file(WEIGHTS).items()}


def model() -> Decoder:
    """A new copy of the toy model, as ``revs`` sees it."""
    with torch.random.fork_rng(devices=[]):
        made = LlamaForCausalLM(configuration())
    made.load_state_dict(weights())
    return Decoder(made.eval(), tokenizer(), "the toy model")


if __name__ == "__main__":
    save_file({name: of.half() for name, of in train().state_dict().items()}, WEIGHTS)
    print(f"{WEIGHTS}: {WEIGHTS.stat().st_size / 1e3:.0f} kB")
