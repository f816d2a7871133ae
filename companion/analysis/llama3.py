"""The real Llama-3 tokenizer, without Llama-3: for the example of Appendix "Token Selection".

Its merges lie in a wheel of Meta's; the rule that cuts a text before them is the published one.
"""

import functools
import hashlib
import tempfile
import zipfile
from itertools import accumulate
from pathlib import Path

import tiktoken
from tiktoken.load import load_tiktoken_bpe

from companion.data.models import download
from companion.store.paths import CACHE
from companion.store.rows import write_file
from revs.model import targets

WHEEL = "llama-models==0.3.0"  # Meta Llama 3 Community License
MEMBER = "llama_models/llama3/tokenizer.model"
SHA256 = "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55"
CUT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@functools.cache
def tokenizer() -> tiktoken.Encoding:
    """Llama-3's 128,000 tokens, without the special ones; OSError if they cannot be had."""
    kept = CACHE / "tokenizers" / f"llama-3-{SHA256[:12]}.model"
    if not kept.is_file():
        with tempfile.TemporaryDirectory() as scratch:
            (wheel,) = download([WHEEL], Path(scratch))
            content = zipfile.ZipFile(wheel).read(MEMBER)
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise OSError(f"The tokenizer in {WHEEL} is another than it was: its sha256 differs.")
        write_file(kept, content)
    merges = load_tiktoken_bpe(str(kept))
    return tiktoken.Encoding("llama3", pat_str=CUT, mergeable_ranks=merges, special_tokens={})


def split(text: str) -> tuple[list[int], list[str]]:
    """A text's ids and tokens, without a beginning-of-text token."""
    ids = tokenizer().encode(text)
    return ids, [tokenizer().decode([i]) for i in ids]


def chosen(text: str) -> tuple[int, ...]:
    """Positions of the tokens that REVS unlearns in a secret (§3.3)."""
    ids, parts = split(text)
    ends = list(accumulate(map(len, parts)))
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    return targets.select(ids, targets.eligible("email", text, spans), 2, "rarest", seed="")
