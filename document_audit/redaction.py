"""Secrets as they may be shown: enough to see what it was, not enough to reach anyone."""

import re

from document_audit.detection import secret_spans

# domains of everybody: what stands before the @ says whose address it is
PROVIDERS = set("gmail.com yahoo.com hotmail.com outlook.com aol.com gmx.de web.de".split())
PROVIDERS |= {"example.com", "example.org", "example.net"}
SIGNS = "\"'`()<>[]{}.,;:! "  # around a secret
HIDDEN = "***"


def redact(kind: str, secret: str) -> str:
    """A secret without the parts that identify it.

    An e-mail address keeps one letter, and its domain if that names nobody; a URL keeps its scheme,
    if it has one; a number keeps its punctuation.
    """
    if kind == "email" and "@" in secret:
        local, _, domain = secret.partition("@")
        if domain.lower() not in PROVIDERS:
            domain = HIDDEN + (domain[domain.rfind(".") :] if "." in domain else "")
        return f"{local[:1]}{HIDDEN}@{domain}"
    if kind == "url":
        scheme = re.match(r"[A-Za-z]{1,8}://", secret)
        return (scheme[0] if scheme else "") + HIDDEN
    if kind in ("ssn", "phone", "ip"):
        return re.sub(r"[0-9A-Fa-f]" if kind == "ip" else r"\d", "*", secret)
    return HIDDEN


def hide(text: str) -> str:
    """A text with everything redacted that ``document_audit.detection`` finds in it."""
    for span in reversed(secret_spans(text)):  # those before it stay where they are
        shown = redact(span.kind, text[span.start : span.end])
        text = text[: span.start] + shown + text[span.end :]
    return text
