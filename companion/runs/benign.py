"""Text that has nothing to do with the secrets, for methods that want some (the paper takes Wikipedia).

It is the reference of the Python language that every interpreter carries (``pydoc_data.topics``): technical English
with code. What it lacks are names and numbers, so that statistics from it say less about those than Wikipedia's would.
"""

from __future__ import annotations

import functools
import hashlib

CHARACTERS = 12  # of text that are tokenised for each token wanted: more than any tokenizer needs


@functools.cache
def text() -> str:
    """All topics, in the order of their names."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def inputs() -> dict[str, str]:
    """The hash of the text, for rows: another version of Python has another text."""
    return {"benign": hashlib.sha256(text().encode()).hexdigest()}


def windows(tokenizer, number: int, length: int) -> list[list[int]]:
    """Consecutive windows of the text, each of ``length`` tokens; from the start again if they are too few."""
    ids = tokenizer(text()[: CHARACTERS * number * length], add_special_tokens=False)["input_ids"]
    if len(ids) < length:
        raise ValueError(
            f"The benign text has {len(ids)} tokens, but a window of {length} was asked for: ask for shorter windows."
        )
    starts = range(0, len(ids) - length + 1, length)
    return [ids[starts[i % len(starts)] :][:length] for i in range(number)]
