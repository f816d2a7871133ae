"""Text as the model reads it (§4.1): the one place that decides how text becomes token ids.

Many tokenizers put a token before a text, and their models have never read one without it: what
they make of a text that lacks it says little. Everything that is not a secret in its sentence
(``revs.model.targets``, which keeps offsets) is read through this file.

Ordinary text, which has nothing to do with the secrets, is one for all (the paper takes Wikipedia):
the reference of the Python language that every interpreter carries, technical English with code.
What it lacks are names and numbers, so that statistics from it say less about those than
Wikipedia's would.
"""

from __future__ import annotations

import functools
import hashlib

CHARACTERS = 12  # of text that are tokenised for each token wanted: more than any tokenizer needs
WINDOW = 128  # tokens of a window that is observed, or a model's context
PROBE = "a"  # any text: what stands around it is the tokenizer's


def beginning(tokenizer) -> list[int]:
    """The ids that a tokenizer puts before a text, such as that of <bos>; of many none.

    What it puts behind one is left out: a text that goes on has not ended.

    >>> beginning(tokenizer)
    []
    """
    bare = tokenizer(PROBE, add_special_tokens=False)["input_ids"]
    whole = tokenizer(PROBE)["input_ids"]
    starts = range(len(whole) - len(bare) + 1)
    return whole[: next((i for i in starts if whole[i:][: len(bare)] == bare), 0)]


def read(tokenizer, text: str) -> list[int]:
    """The ids of a text that begins here and may go on."""
    return beginning(tokenizer) + tokenizer(text, add_special_tokens=False)["input_ids"]


def windows(tokenizer, text: str, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of ``length`` ids, each begun as a text is; again from the start if the
    text is too short for so many. Raises ValueError where it is too short for one."""
    first = beginning(tokenizer)
    ids, size = tokenizer(text, add_special_tokens=False)["input_ids"], length - len(first)
    if not 0 < size <= len(ids):
        raise ValueError(
            f"The text has {len(ids)} tokens, but a window of {length} was asked for: ask for "
            "shorter windows."
        )
    starts = range(0, len(ids) - size + 1, size)
    return [first + ids[starts[i % len(starts)] :][:size] for i in range(number)]


@functools.cache
def text() -> str:
    """All topics of Python's reference, in the order of their names."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def inputs() -> dict[str, str]:
    """The hash of the text, for rows: another version of Python has another text."""
    return {"benign": hashlib.sha256(text().encode()).hexdigest()}


def pieces(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of ``length`` tokens, as the model reads a text from its beginning."""
    return windows(tokenizer, text()[: CHARACTERS * number * length], number, length)
