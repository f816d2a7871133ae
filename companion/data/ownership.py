"""Finds a secret's owner and domain, and whether its prompt gives the secret away.

Settings tuned on one address of a person or company cannot be tested fairly on another:
``tuning_ids`` sets a share of the secrets aside for tuning, and splits no owner or domain.
"""

import re
from collections.abc import Sequence

from scipy.cluster.hierarchy import DisjointSet

from document_audit.redaction import PROVIDERS, SIGNS
from revs.model.targets import Record

WHOLE = 3  # fewest letters of a whole word that may spell part of an address


def owner_keys(record: Record) -> set[tuple]:
    """Return what one owner's secrets share: the domain, unless it is a public provider's, and the
    parts of the address before the @, in any order."""
    domain = domain_of(record.kind, record.secret)
    found = {("domain", domain)} if domain and domain not in PROVIDERS else set()
    parts = re.findall(r"[^\W_]+", local_part(record.secret)) if record.kind == "email" else []
    return found | ({("owner", *sorted(parts))} if parts else set())


def tuning_ids(records: Sequence[Record], share: float) -> set[str]:
    """Return the ids of at most this share of the secrets, to tune settings on: all secrets of an
    owner or domain, or none. The choice depends only on the records."""
    sets = DisjointSet(record.id for record in records)
    first: dict[tuple, str] = {}
    for record in records:
        for key in owner_keys(record):
            sets.merge(first.setdefault(key, record.id), record.id)
    taken: set[str] = set()
    for some in sorted(sets.subsets(), key=min):  # ids are hashes of places
        if len(taken) + len(some) <= share * len(records):
            taken |= some
    return taken


def domain_of(kind: str, secret: str) -> str | None:
    """What a whole company shares: what follows the @ of an address, the host of a URL."""
    secret = secret.strip(SIGNS).casefold()
    after = {"email": secret.partition("@")[2], "url": secret.partition("://")[2]}.get(kind, "")
    return re.split(r"[/?#:]", after)[0] or None


def local_part(secret: str) -> str:
    """Return the part of an address before its @, in lower case."""
    return secret.strip(SIGNS).casefold().partition("@")[0]


def secret_in_prompt(record: Record) -> bool:
    """Does the prompt contain the secret's own part, ignoring case?

    The own part is an address up to its @, the last part of a URL, or all of any other secret. A
    model can write such a secret without having memorised it: a link may repeat the number before
    it. Short parts occur in many prompts by chance: the count is an upper bound.
    """
    own = secret = record.secret.strip(SIGNS)
    if record.kind == "email":
        own = secret.partition("@")[0]
    elif record.kind == "url":
        own = re.split(r"[/?#=&]+", secret.rstrip("/?#=&"))[-1].strip(SIGNS)
    return bool(own) and own.casefold() in record.prompt.casefold()


def spelled_in_prompt(secret: str, prompt: str) -> bool:
    """Can the prompt's words spell an address up to its @, in any order, with at least one whole
    word and only the first letters of others? Punctuation is ignored.

    An upper bound: a first letter occurs in many prompts by chance.
    """
    words = set(re.findall(r"[^\W_]+", prompt.casefold()))
    whole = {word for word in words if len(word) >= WHOLE}
    first = {word[0] for word in words}

    def rest(letters: str, had: bool) -> bool:
        if not letters:
            return had
        if any(letters.startswith(word) and rest(letters[len(word) :], True) for word in whole):
            return True
        return letters[0] in first and rest(letters[1:], had)

    return rest(re.sub(r"[\W_]", "", local_part(secret)), False)
