"""Text as the model reads it (§4.1): the one place that decides how text becomes token ids.

Many tokenizers put a special token before a text. Their models have never read a text without it,
so results on such a text mean little. All text is therefore encoded here; for a secret in its
sentence, ``revs.model.targets`` also needs the offsets.

The general text has nothing to do with the secrets (the paper names none). It is the file beside
this one, in which passages of several registers alternate (``data/general_text`` gives
their sources). The first eighth of the passages is for evaluation, the rest for training and
statistics: no window of one shares a passage with a window of the other.
"""

import functools
import hashlib
from pathlib import Path

FILE = Path(__file__).with_name("general_text.txt")
PASSAGES = "\n\n\n"  # between two passages
EVALUATION = 8  # one passage in EVALUATION is for evaluation
CHARACTERS = 12  # read for each wanted token: more than any tokenizer needs
WINDOW = 128  # tokens of an evaluation window; fewer if a model's context is shorter
PROBE = "a"  # any text will do: the ids around its own are special ones


def special_prefix(tokenizer) -> list[int]:
    """The ids that a tokenizer puts before a text, such as that of <bos>; often none.

    Ids that it puts after a text are left out, because the text may go on.
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
    """Whether ids begin with the tokenizer's special prefix, as a rendered chat template does."""
    first = special_prefix(tokenizer)
    return bool(first) and ids[: len(first)] == first


def encoded(tokenizer, text: str):
    """Ids and offsets of a whole text, which has its special tokens once."""
    bare = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if begins(tokenizer, bare["input_ids"]):
        return bare
    return tokenizer(text, return_offsets_mapping=True)


def windows(tokenizer, text: str, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of ``length`` ids, each with the tokenizer's special prefix.

    If the text is too short for ``number`` windows, they repeat from the first. Raises ValueError
    if it is too short for one.
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
    """The text for evaluation, which no method reads, and the text for training.

    Methods may train on the second, or take statistics of activations over it.
    """
    passages = general_text().split(PASSAGES)
    first = len(passages) // EVALUATION
    return PASSAGES.join(passages[:first]), PASSAGES.join(passages[first:])


def evaluation_windows(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive ``windows`` of the text for evaluation."""
    return windows(tokenizer, parts()[0], number, length)


def training_windows(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive ``windows`` of the text for training, which has about 200,000 tokens."""
    return windows(tokenizer, parts()[1], number, length)
