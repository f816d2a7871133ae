"""Secrets in their sentences, as text and as tokens, and the tokens to unlearn (§3.3, §4.2).

A text is encoded once, and its offsets show which tokens belong to the secret. A token's id stands
for its rarity: a higher id was merged later and is rarer (Appendix "Token Selection"). Tokenizers
that fall back to bytes, as Gemma's and Mistral's do, number single characters after all merges:
there these count as the most frequent tokens.
"""

import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from revs.model.text import encoded

# Appendix: inferable parts of an address
URL_COMMON = {"http", "https", "www", "://", "/", '"', "-"}


@dataclass(frozen=True)
class Record:
    """One sentence with its secret, as text; records of one ``group`` hold the same secret.

    ``kind`` is ssn, email, url, phone, ip or text (any other).
    """

    id: str
    kind: str
    group: str
    prompt: str
    secret: str
    suffix: str

    @property
    def text(self) -> str:
        return self.prompt + self.secret + self.suffix


@dataclass(frozen=True)
class Target:
    """One sentence with its secret, as token ids; ``T``: the positions in it that are unlearned."""

    id: str
    kind: str
    group: str
    prompt_ids: list[int]
    secret_ids: list[int]
    T: tuple[int, ...]
    prompt: str = ""  # as text, for attacks that change its characters

    def before(self, position: int) -> list[int]:
        """The prompt and the true tokens of the secret before one of its positions."""
        return self.prompt_ids + self.secret_ids[:position]


@dataclass(frozen=True)
class Split:
    """What one seed forgets and what it keeps (§4.5)."""

    forget: list[Target]  # one sentence for each secret: unlearned, and measured for efficacy
    unseen: list[Target]  # the other sentences of the same secrets: generalization
    retain: list[Target]  # all sentences of the other secrets: specificity


def encode(
    record: Record, tokenizer, size: int | None = 2, method: str | Callable = "rarest"
) -> Target:
    """The record as token ids, with T: ``size`` positions in its secret, or all that are eligible.

    ``method`` is a name, or a function of a token's id, of which the lowest values are chosen. A
    token that runs on into the suffix belongs to the secret, and may be chosen. So does one that
    begins with spaces at the end of the prompt, which then ends before them.

    Raises ValueError if a token spans other characters of the prompt and the secret's beginning, or
    if too few may be unlearned.
    """
    if not record.secret:
        raise ValueError(f"{record.id} has an empty secret: write it out, or leave it out.")
    try:
        record.text.encode()
    except UnicodeEncodeError:
        said = f"{record.id} holds half of a character, a surrogate: "
        raise ValueError(said + "read the text as UTF-8.") from None
    coded = encoded(tokenizer, record.text)
    ids, offsets = coded["input_ids"], coded["offset_mapping"]
    start, end = len(record.prompt), len(record.prompt) + len(record.secret)
    inside = [i for i, (a, b) in enumerate(offsets) if a < end and b > start]
    first = offsets[inside[0]][0] if inside else 0
    if not inside or record.text[first:start].strip():
        said = f"{record.id} cannot be split as asked: a token spans the end of the prompt and the "
        raise ValueError(said + "start of the secret; cut the prompt elsewhere.")
    if not inside[0]:
        raise ValueError(f"{record.id} has no token before its secret: give it a prompt.")
    spans = [(offsets[i][0] - start, offsets[i][1] - start) for i in inside]
    secret_ids = [ids[i] for i in inside]
    candidates = eligible(record.kind, record.secret, spans)
    if len(candidates) < (least := 1 if size is None else size):
        said = f"{record.id} has {len(candidates)} tokens that may be unlearned, but |T| = {least} "
        raise ValueError(said + "were asked for: lower T, or give a longer secret.")
    ages = by_merge(secret_ids, tokenizer) if isinstance(method, str) else secret_ids
    T = select(ages, candidates, size, method, seed=record.id)
    prompt_ids = ids[: inside[0]]
    prompt = record.prompt[:first]
    return Target(record.id, record.kind, record.group, prompt_ids, secret_ids, T, prompt)


def by_merge(ids: list[int], tokenizer) -> list[int]:
    """The ids, or where single characters are numbered after all merges, theirs less V."""
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if not getattr(model, "byte_fallback", False):
        return ids
    V, words = len(tokenizer), tokenizer.convert_ids_to_tokens(ids)
    pairs = zip(ids, words, strict=True)
    return [t - V if len(word.lstrip("▁")) == 1 else t for t, word in pairs]


def eligible(kind: str, secret: str, spans: list[tuple[int, int]]) -> list[int]:
    """Positions of the secret's tokens that may be unlearned; ``spans``: each token's (start, end).

    ssn: tokens made of digits. email: tokens that begin before the @. url: all but the common
    parts. phone, ip: tokens with a digit. text (any other): tokens that are not just spaces.
    """
    parts = [secret[max(a, 0) : b] for a, b in spans]
    at = secret.find("@") if "@" in secret else len(secret)
    digits = [any(character.isdigit() for character in part) for part in parts]
    may = {
        "ssn": [part.isdigit() for part in parts],
        "email": [a < at for a, _ in spans],
        "url": [part.strip() not in URL_COMMON for part in parts],
        "phone": digits,
        "ip": digits,
        "text": [bool(part.strip()) for part in parts],
    }
    if kind not in may:
        raise ValueError(f"'{kind}' is not a kind of secret: use {', '.join(may)}.")
    return [i for i, allowed in enumerate(may[kind]) if allowed]


def select(
    ids: list[int], candidates: list[int], size: int | None, method: str | Callable, seed: str
) -> tuple[int, ...]:
    """T: ``size`` of the candidate positions, or all, in the secret's order.

    Of tokens with equal ids, the first is chosen.
    """
    draw = random.Random(seed)
    orders: dict[str, Callable] = {
        "rarest": lambda i: (-ids[i], i),
        "frequent": lambda i: (ids[i], i),
        "first": lambda i: i,
        "random": lambda i: draw.random(),
    }
    if callable(method):
        order: Callable = lambda i: (method(ids[i]), i)
    elif method in orders:
        order = orders[method]
    else:
        raise ValueError(f"'{method}' is no way to select tokens: use {', '.join(orders)}.")
    return tuple(sorted(sorted(candidates, key=order)[:size]))


def pairs(targets: Iterable[Target]) -> list[tuple[list[int], int]]:
    """What every method unlearns: (prompt and true tokens before t, token t), for each t of T."""
    places = [(target, position) for target in targets for position in target.T]
    return [(target.before(position), target.secret_ids[position]) for target, position in places]


def split(
    targets: list[Target],
    seed: int,
    forget: int | None = None,
    sentences: int | None = None,
    keep: Collection[str] = (),
) -> Split:
    """A seeded split by secret: ``forget`` of them (half by default) are unlearned, the rest kept.

    The sentence to unlearn is drawn too; at most ``sentences`` more of a secret are measured.
    Groups in ``keep`` are retained in every split, and are not counted for the half.
    """
    groups: dict[str, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.group, []).append(target)
    names = sorted(set(groups) - set(keep))
    forget = len(names) // 2 if forget is None else forget
    if not 0 < forget <= len(names) or forget == len(groups):
        said = f"The forget set would hold {forget} of {len(names)} secrets: at least one must be "
        raise ValueError(said + "forgotten and one kept.")
    if sentences is not None and sentences < 1:
        raise ValueError(f"sentences is {sentences}, but at least one must be measured.")
    draw = random.Random(seed)
    draw.shuffle(names)
    forgotten, kept = names[:forget], names[forget:] + sorted(set(groups) & set(keep))
    chosen = {name: draw.choice(groups[name]) for name in forgotten}
    others = {name: [t for t in groups[name] if t is not chosen[name]] for name in forgotten}
    return Split(
        forget=[chosen[name] for name in forgotten],
        unseen=[target for name in forgotten for target in others[name][:sentences]],
        retain=[target for name in kept for target in groups[name][:sentences]],
    )
