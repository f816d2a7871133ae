"""Token use elsewhere: is an unlearned token still written where another text calls for it?

An edit that bans a secret's tokens everywhere forgets the secret, and loses the tokens in every
other text. For each target token, the measure takes texts without secrets in which that token comes
next: counting for a number, sentences that repeat a name for a word (``data/token_use``), and
places in the general text. The data sets with shared tokens also have memorised sentences that
mention these tokens.
"""

import json
from statistics import median

from companion.data import datasets
from companion.store import versions
from companion.store.paths import ROOT
from revs.measures.evaluate import secret_ranks
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target, encode
from revs.model.text import general_text, special_prefix, token_ids

VERSION = 1
FRAMES = ROOT / "data" / versions.FILES["token_use"]
PLACES = 3  # of the general text, for each token
BEFORE = 48  # tokens of general text read before the one that is due


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Median rank of the target tokens where they are due, over ``tokens``; each token counts once.

    ``first``: the share of texts after which the token ranks first; ``numbers``, ``words`` and
    ``general_text``: the median in texts of one sort, None where there is none; ``innocent``: the
    share of innocent sentences with a target token that are written exactly. By forgotten secret:
    ``token_use``, the median rank of its own tokens. Compare with an unedited run.
    """
    tokens = {target.secret_ids[i] for target in split.forget for i in target.T}
    due = in_frames(decoder, tokens) + in_general_text(decoder, tokens)
    ranks = {name: found[0] for name, found in secret_ranks(decoder, due).items()}
    by_token = {t: [ranks[one.id] for one in due if one.secret_ids == [t]] for t in tokens}
    of_token = {t: median(found) for t, found in by_token.items() if found}
    of_sort = lambda sort: middle([ranks[one.id] for one in due if one.kind == sort])
    mentions = innocent(decoder, split, tokens)
    exact = [not any(found) for found in secret_ranks(decoder, mentions).values()]
    result = {
        "tokens": len(of_token),
        "texts": len(due),
        "median_rank": middle(list(of_token.values())),
        "first": sum(not rank for rank in ranks.values()) / len(ranks) if ranks else None,
        "numbers": of_sort("number"),
        "words": of_sort("word"),
        "general_text": of_sort("general text"),
        "innocent": sum(exact) / len(exact) if exact else None,
    }
    own = lambda one: [of_token[t] for i in one.T if (t := one.secret_ids[i]) in of_token]
    return result, {one.id: {"token_use": middle(own(one))} for one in split.forget}


def middle(values: list) -> float | None:
    """The median; None of nothing."""
    return float(median(values)) if values else None


def in_frames(decoder: Decoder, tokens: set[int]) -> list[Target]:
    """Return the frames, filled in so that each token comes next, as targets with that token."""
    frames, found = list(map(json.loads, FRAMES.read_text(encoding="utf-8").splitlines())), []
    for token in sorted(tokens):
        word = decoder.tokenizer.decode([token])
        sort = "number" if word.isdecimal() else "word"
        for frame in frames:
            if frame["sort"] == sort and word.strip():
                ids = token_ids(decoder.tokenizer, filled(frame["text"], word) + word)
                if ids[-1] == token:  # not merged with what stands before it
                    name = f"{frame['id']}-{token}"
                    found.append(Target(name, sort, name, ids[:-1], [token], (0,)))
    return found


def filled(text: str, word: str) -> str:
    """Return a frame filled with a word, or with the numbers around it at the same width."""
    if word.isdecimal():
        for step in range(-4, 5):
            near = (int(word) + step) % 10 ** len(word)
            text = text.replace(f"[{step:+d}]", f"{near:0{len(word)}d}")
    return text.replace("[W]", word)


def in_general_text(decoder: Decoder, tokens: set[int]) -> list[Target]:
    """The first places of the general text where each token stands."""
    first = special_prefix(decoder.tokenizer)
    ids = decoder.tokenizer(general_text(), add_special_tokens=False)["input_ids"]
    found, seen = [], dict.fromkeys(tokens, 0)
    for place, token in enumerate(ids):
        if place and seen.get(token, PLACES) < PLACES:
            seen[token] += 1
            name, before = f"general-{token}-{place}", ids[max(0, place - BEFORE) : place]
            found.append(Target(name, "general text", name, first + before, [token], (0,)))
    return found


def innocent(decoder: Decoder, split: Split, tokens: set[int]) -> list[Target]:
    """The innocent sentences of the split's data set that hold one of the tokens."""
    name, _, part = split.forget[0].group.rpartition("-")[0].rpartition("-")  # ssn-shared, main
    name += "-innocent" + ("-tune" if part == "tune" else "")
    if name not in datasets.builtin():
        return []
    found = [encode(record, decoder.tokenizer, 1) for record in datasets.read(name)]
    return [target for target in found if tokens & set(target.secret_ids)]
