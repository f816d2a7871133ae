"""Prompt leakage: could a secret be read off its prompt, without having been memorised?

The prompt contains the secret or its own part, or names that spell an address up to its @.
"""

from companion.data import ownership
from revs.model.architecture import Decoder
from revs.model.targets import Record, Split, Target

VERSION = 1


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Return how many ``secrets`` there are, and which their prompts give away.

    ``leaked``: secrets whose prompt contains them, their own part, or words that spell an address
    up to its @.
    """
    text = decoder.tokenizer.decode
    every = split.forget + split.unseen + split.retain
    leaked = {target.id: leaks(target, text(target.secret_ids)) for target in every}
    found = {"secrets": len(leaked), "leaked": sum(leaked.values())}
    return found, {id: {"leaked": yes} for id, yes in leaked.items()}


def leaks(target: Target, secret: str) -> bool:
    """Does the prompt tell this secret?"""
    record = Record(target.id, target.kind, target.group, target.prompt, secret, "")
    spelled = target.kind == "email" and ownership.spelled_in_prompt(secret, target.prompt)
    return ownership.secret_in_prompt(record) or spelled
