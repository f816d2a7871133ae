"""What the attacks of an audit share: never-trained strings, the model before the edit, a seed.

A *never-trained string* has the shape of a secret but was in no training text. It is put after the
secret's own prompt. Attacks compare the secret with such strings, and also attack one of them as a
control: an attack that recovers it invents what it finds.
"""

import contextlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from revs.model.architecture import Decoder
from revs.model.targets import Record, Target, encode

NUMBER = 200  # strings beside a secret
FIELD = re.compile(r"[^\W\d_]+|\d+")  # a run of letters, or of digits
COMMON = 0.1  # a word in a larger share of the pool is no part of a secret: https, example, com
LONGER = 2  # letters by which a word's length may differ from that of the one it replaces
TRIES = 100  # draws for each string that is wanted
SUFFIX = "-never"  # of the id of a never-trained string that is attacked


@dataclass(frozen=True)
class Context:
    """What an attack is given besides the model and the secrets."""

    before: Decoder  # the model before it was edited
    never_trained: list[Target]  # one never-trained string for each secret
    strings: dict[str, list[Target]]  # further strings, by the id of the secret or the control
    seed: int = 0  # of what an attack draws
    notes: dict[str, Any] = field(default_factory=dict)  # what attacks report on their own run


class Parts:
    """The words and numbers of a pool, from which strings of a secret's shape are made."""

    def __init__(self, pool: Sequence[str]):
        each = [FIELD.findall(one) for one in pool]
        every = sorted({text for one in each for text in one})
        least = max(1, COMMON * len(pool))
        often = {text for text in every if sum(text in one for one in each) > least}
        self.common = {text for text in often if text.isalpha()}
        self.words = [text for text in every if text.isalpha() and text not in self.common]
        self.numbers = [text for text in every if text.isdigit()]

    def replaced(self, secret: str, draw: random.Random) -> str:
        """The secret with other words and numbers; what is between them and common words stay."""
        return FIELD.sub(lambda match: self.other(match[0], draw), secret)

    def other(self, text: str, draw: random.Random) -> str:
        """Another word of about the same length, or another number of the same length.

        A word may be an initial and a word, as in addresses.
        """
        if text in self.common or (text.isalpha() and not self.words):
            return text
        if text.isdigit():
            some = [one for one in self.numbers if len(one) == len(text)]
            return draw.choice(some) if some else "".join(draw.choices("0123456789", k=len(text)))
        initial = draw.choice("abcdefghijklmnopqrstuvwxyz") if draw.random() < 0.5 else ""
        wanted = len(text) - len(initial)
        some = [one for one in self.words if abs(len(one) - wanted) <= LONGER]
        return initial + draw.choice(some or self.words)


def context(
    before: Decoder,
    records: Sequence[Record],
    pool: Sequence[str],
    T: int | None = 2,
    number: int = NUMBER,
    seed: int = 0,
) -> Context:
    """The context of an attack on the secrets of some sentences.

    ``pool``: secrets of the same kind that the model was never trained on; the strings are put
    together from their words and numbers. Raises ValueError where it is too small for ``number``
    strings and the control.
    """
    one_each: list[Target] = []
    strings: dict[str, list[Target]] = {}
    parts, taken = Parts(pool), {*pool, *(record.secret for record in records)}
    for record in records:
        first, *others = never_trained(before, record, parts, taken, number + 1, T)
        one_each.append(replace(first, id=record.id + SUFFIX))
        strings |= {record.id: others, one_each[-1].id: others}
    return Context(before, one_each, strings, seed)


def never_trained(
    decoder: Decoder, record: Record, parts: Parts, taken: set[str], number: int, T: int | None
) -> list[Target]:
    """``number`` targets like a record's, with never-trained strings in place of its secret.

    The first, which is attacked itself, has T tokens that may be unlearned.
    """
    prompt_ids = encode(record, decoder.tokenizer, 1).prompt_ids
    found: dict[str, Target] = {}
    draw = random.Random(record.id)
    for _ in range(TRIES * number):
        if len(found) == number:
            return list(found.values())
        one = replace(record, secret=parts.replaced(record.secret, draw))
        if one.secret in taken or one.secret in found:
            continue
        with contextlib.suppress(ValueError):  # the prompt ends inside a token; too few tokens
            target = encode(one, decoder.tokenizer, 1 if found else T)
            if target.prompt_ids == prompt_ids:
                found[one.secret] = target
    said = f"Only {len(found)} of {number} never-trained strings have the shape of {record.id}"
    raise ValueError(f"{said}: give more secrets of its kind that the model was not trained on.")
