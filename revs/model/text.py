"""Text as the model reads it (§4.1): the one place that decides how text becomes token ids.

Many tokenizers put a token before a text, and their models have never read one without it: what
they make of a text that lacks it says little. Everything that is not a secret in its sentence
(``revs.model.targets``, which keeps offsets) is read through this file.

General text has nothing to do with the secrets (the paper takes Wikipedia). It lies beside this
file: prose of several registers in turn, passage after passage (``data/general_text`` says where
it is from). The first eighth of the passages is for evaluation, the rest for training and
statistics: no window of one shares a passage with a window of the other.
"""

import functools
import hashlib
from pathlib import Path

FILE = Path(__file__).with_name("general_text.txt")
PASSAGES = "\n\n\n"  # what separates them
EVALUATION = 8  # one passage in so many
CHARACTERS = 12  # of text that are tokenised for each token wanted: more than any tokenizer needs
WINDOW = 128  # tokens of a window that is evaluated, or a model's context
PROBE = "a"  # any text: what stands around it is the tokenizer's


def special_prefix(tokenizer) -> list[int]:
    """The ids that a tokenizer puts before a text, such as that of <bos>; of many none.

    What it puts behind one is left out: a text that goes on has not ended.
    """
    bare = tokenizer(PROBE, add_special_tokens=False)["input_ids"]
    whole = tokenizer(PROBE)["input_ids"]
    starts = range(len(whole) - len(bare) + 1)
    return whole[: next((i for i in starts if whole[i:][: len(bare)] == bare), 0)]


def check_tokenizer(tokenizer, name: str) -> None:
    """ValueError if the tokenizer of ``name`` cannot say which characters a token covers."""
    if not getattr(tokenizer, "is_fast", False):
        said = f"{name} has no fast tokenizer, whose offsets are needed to find a secret's tokens: "
        raise ValueError(said + "choose a model with a tokenizer.json.")


def token_ids(tokenizer, text: str) -> list[int]:
    """The ids of a text that begins here and may go on."""
    bare = tokenizer(text, add_special_tokens=False)["input_ids"]
    return bare if begins(tokenizer, bare) else special_prefix(tokenizer) + bare


def begins(tokenizer, ids: list[int]) -> bool:
    """Does a text begin with what a tokenizer puts before one, as a rendered chat template does?"""
    first = special_prefix(tokenizer)
    return bool(first) and ids[: len(first)] == first


def encoded(tokenizer, text: str):
    """Ids and offsets of a whole text, which has its special tokens once."""
    bare = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if begins(tokenizer, bare["input_ids"]):
        return bare
    return tokenizer(text, return_offsets_mapping=True)


def windows(tokenizer, text: str, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of ``length`` ids, each begun as a text is.

    They begin again with the first where the text is too short for so many. Raises ValueError where
    it is too short for one.
    """
    first = special_prefix(tokenizer)
    text = text[: CHARACTERS * number * length]
    ids, size = tokenizer(text, add_special_tokens=False)["input_ids"], length - len(first)
    if not 0 < size <= len(ids):
        said = f"The text has {len(ids)} tokens, but a window of {length} was asked for"
        raise ValueError(f"{said}: ask for shorter windows.")
    starts = range(0, len(ids) - size + 1, size)
    return [first + ids[starts[i % len(starts)] :][:size] for i in range(number)]


@functools.cache
def general_text() -> str:
    """The whole general text."""
    return FILE.read_text(encoding="utf-8")


def text_inputs() -> dict[str, str]:
    """The hash of the general text, for what is recorded of results that depend on it."""
    return {"general_text": hashlib.sha256(general_text().encode()).hexdigest()}


@functools.cache
def parts() -> tuple[str, str]:
    """The passages that results are measured on, which no method reads, and those that methods may
    read: to train on, or for statistics of activations."""
    passages = general_text().split(PASSAGES)
    first = len(passages) // EVALUATION
    return PASSAGES.join(passages[:first]), PASSAGES.join(passages[first:])


def evaluation_windows(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive ``windows`` of the text for evaluation."""
    return windows(tokenizer, parts()[0], number, length)


def training_windows(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive ``windows`` of the text for training, which has about 200,000 tokens."""
    return windows(tokenizer, parts()[1], number, length)
