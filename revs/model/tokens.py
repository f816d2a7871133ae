"""Target token selection (§3.3, Appendix "Token Selection"): which tokens T of a secret S are unlearned.

Rarity is the token's id: a higher id was merged later and is rarer. Tokens are chosen by id and by the characters
that they cover; nothing is decoded and encoded again.
"""

from __future__ import annotations

import random

URL_COMMON = {
    "http",
    "https",
    "www",
    "://",
    "/",
    '"',
    "-",
}  # Appendix: inferable parts of an address


def eligible(kind: str, secret: str, spans: list[tuple[int, int]]) -> list[int]:
    """Positions of the secret's tokens that may be unlearned, given the characters (start, end) each covers.

    ssn: tokens made of digits. email: tokens that begin before the @. url: all but the common parts. phone, ip: tokens
    with a digit. text, a secret of any other sort: tokens with more than spaces.
    """
    parts = [secret[max(a, 0) : b] for a, b in spans]
    if kind == "ssn":
        return [i for i, part in enumerate(parts) if part.isdigit()]
    if kind == "email":
        at = secret.find("@") if "@" in secret else len(secret)
        return [i for i, (a, _) in enumerate(spans) if a < at]
    if kind == "url":
        return [i for i, part in enumerate(parts) if part.strip() not in URL_COMMON]
    if kind in ("phone", "ip"):
        return [i for i, part in enumerate(parts) if any(character.isdigit() for character in part)]
    if kind == "text":
        return [i for i, part in enumerate(parts) if part.strip()]
    raise ValueError(f"'{kind}' is not a kind of secret: use ssn, email, url, phone, ip or text.")


def select(
    ids: list[int], candidates: list[int], size: int, method: str, seed: str
) -> tuple[int, ...]:
    """|T| = size of the candidate positions, in the order of the secret. Equal ids: the earlier position first."""
    orders = {
        "rarest": lambda i: (-ids[i], i),
        "frequent": lambda i: (ids[i], i),
        "first": lambda i: i,
        "random": lambda i, draw=random.Random(seed): draw.random(),
    }
    if method not in orders:
        raise ValueError(
            f"'{method}' is not a way to select tokens: use one of {', '.join(orders)}."
        )
    return tuple(sorted(sorted(candidates, key=orders[method])[:size]))
