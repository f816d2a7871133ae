"""What a model writes where an unlearned secret stood (Appendix "Qualitative Unlearning Examples").

The paper sees other addresses, at the same host or elsewhere, and placeholders. What is written is sorted, and kept
redacted: the address that takes the place of one may be someone's too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import urlsplit

from companion.own.detect import KINDS, spans
from companion.own.redact import redact
from revs.measures import evaluate
from revs.model.architecture import Decoder
from revs.model.targets import Split

SAME, AT_THE_HOST, ELSEWHERE, PLACEHOLDER, NOTHING = BECAME = (
    "the same",
    "another at the same host",
    "another elsewhere",
    "a placeholder",
    "nothing of its kind",
)
PLACEHOLDERS = ("[email", "[e-mail", "[redacted", "[at]", "xxx")


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """How many unlearned secrets became what, and for each of them what it was and what is written instead, redacted."""
    written = evaluate.continuations(decoder, split.forget)
    columns = {
        target.id: told(
            target.kind,
            decoder.tokenizer.decode(target.secret_ids),
            decoder.tokenizer.decode(written[target.id], skip_special_tokens=True),
        )
        for target in split.forget
    }
    counts = Counter(column["became"] for column in columns.values())
    return {name: counts[name] for name in BECAME}, columns


def told(kind: str, secret: str, text: str) -> dict[str, str]:
    """One secret: ``became``, one of BECAME, ``was`` and ``instead``, redacted."""
    was, found = (first(kind, some) for some in (secret, text))
    was = was or secret.strip()
    if was in text:
        became, found = SAME, was
    elif found is None:
        became = PLACEHOLDER if any(sign in text.lower()[:30] for sign in PLACEHOLDERS) else NOTHING
    else:
        became = (
            AT_THE_HOST if host(kind, found) and host(kind, found) == host(kind, was) else ELSEWHERE
        )
    return {
        "became": became,
        "was": redact(kind, was),
        "instead": redact(kind, found) if found else "",
    }


def first(kind: str, text: str) -> str | None:
    """The first secret of a kind in a text."""
    found: Sequence = spans(text, (kind,)) if kind in KINDS else []
    return text[found[0].start : found[0].end] if found else None


def host(kind: str, secret: str) -> str:
    """Where an address is; empty for what has no host."""
    if kind == "email":
        return secret.rpartition("@")[2].lower()
    return (
        urlsplit(secret if "://" in secret else f"//{secret}").netloc.lower()
        if kind == "url"
        else ""
    )
