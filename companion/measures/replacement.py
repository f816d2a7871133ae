"""What a model writes where an unlearned secret stood (App. "Qualitative Unlearning Examples").

The paper sees other addresses, at the same host or elsewhere, and placeholders. Replacements are
sorted into these classes and stored redacted: a new address may be someone's, too.
"""

from collections import Counter
from urllib.parse import urlsplit

from document_audit.detection import secret_spans
from document_audit.redaction import redact
from document_audit.settings import KINDS
from revs.measures.evaluate import continuations
from revs.model.architecture import Decoder
from revs.model.targets import Split

VERSION = 1

SAME, AT_THE_HOST, ELSEWHERE, PLACEHOLDER, NOTHING = BECAME = (
    "the same",
    "another at the same host",
    "another elsewhere",
    "a placeholder",
    "nothing of its kind",
)
PLACEHOLDERS = ("[email", "[e-mail", "[redacted", "[at]", "xxx")


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Return how many unlearned secrets became what, and each one before and after, redacted."""
    written, decode = continuations(decoder, split.forget), decoder.tokenizer.decode
    columns = {}
    for target in split.forget:
        text = decode(written[target.id], skip_special_tokens=True)
        columns[target.id] = replacement_of(target.kind, decode(target.secret_ids), text)
    counts = Counter(column["became"] for column in columns.values())
    return {name: counts[name] for name in BECAME}, columns


def replacement_of(kind: str, secret: str, text: str) -> dict[str, str]:
    """One secret: ``became``, one of BECAME, ``was`` and ``replacement``, redacted."""
    was, found = first_secret(kind, secret) or secret.strip(), first_secret(kind, text)
    if was in text:
        became, found = SAME, was
    elif found is None:
        became = PLACEHOLDER if any(sign in text.lower()[:30] for sign in PLACEHOLDERS) else NOTHING
    else:
        there = host_of(kind, found)
        became = AT_THE_HOST if there and there == host_of(kind, was) else ELSEWHERE
    instead = redact(kind, found) if found else ""
    return {"became": became, "was": redact(kind, was), "replacement": instead}


def first_secret(kind: str, text: str) -> str | None:
    """The first secret of a kind in a text."""
    found = secret_spans(text, (kind,)) if kind in KINDS else []
    return text[found[0].start : found[0].end] if found else None


def host_of(kind: str, secret: str) -> str:
    """Return the host of an e-mail address or URL; empty for anything else."""
    if kind == "email":
        return secret.rpartition("@")[2].lower()
    if kind == "url":
        return urlsplit(secret if "://" in secret else f"//{secret}").netloc.lower()
    return ""
