"""Which owner and domain a secret belongs to, and whether its prompt gives it away.

Settings that were tuned on one address of a person or a company are not tried fairly on another:
``tuning_ids`` takes a share of the secrets as a tuning set, and no owner or domain is in both.
"""

import re
from collections.abc import Sequence

from scipy.cluster.hierarchy import DisjointSet

from document_audit.redaction import PROVIDERS, SIGNS, domain_of
from revs.model.targets import Record

WHOLE = 3  # letters of a word that counts as a part of an address


def owner_keys(record: Record) -> set[tuple]:
    """What one owner's secrets have in common: a domain that is not everybody's, and the parts of
    what stands before an @, in any order."""
    domain = domain_of(record.kind, record.secret)
    found = {("domain", domain)} if domain and domain not in PROVIDERS else set()
    parts = re.findall(r"[^\W_]+", local_part(record.secret)) if record.kind == "email" else []
    return found | ({("owner", *sorted(parts))} if parts else set())


def tuning_ids(records: Sequence[Record], share: float) -> set[str]:
    """The ids of at most this share of some secrets, for choosing settings on: all of an owner or a
    domain, or none. Which they are hangs on nothing but the records."""
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


def local_part(secret: str) -> str:
    """What stands before an @, in small letters."""
    return secret.strip(SIGNS).casefold().partition("@")[0]


def secret_in_prompt(record: Record) -> bool:
    """Does the prompt hold, in any case, what is the secret's own?

    That is an address before its @, the last part of a URL, all of another secret. Such a secret
    can be written without having been memorised: a link that repeats the number before it. Short
    parts stand in many prompts by chance, so that the count is one from above.
    """
    own = secret = record.secret.strip(SIGNS)
    if record.kind == "email":
        own = secret.partition("@")[0]
    elif record.kind == "url":
        own = re.split(r"[/?#=&]+", secret.rstrip("/?#=&"))[-1].strip(SIGNS)
    return bool(own) and own.casefold() in record.prompt.casefold()


def spelled_in_prompt(secret: str, prompt: str) -> bool:
    """Can an address before its @ be spelt with whole words of the prompt and first letters of
    others, in any order, at least one of them whole? Its signs are left out.

    A bound from above, for a first letter stands in many prompts by chance.
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
