"""Are public addresses still known (App. "Qualitative Unlearning Examples", "Retain Email …")?

data/public/addresses.jsonl has mailboxes of offices and mailing lists; none is a secret.
"""

import json

from companion.store import versions
from companion.store.paths import ROOT
from revs.measures.evaluate import continuations
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target
from revs.model.text import token_ids

VERSION = 1
FILE = ROOT / "data" / versions.FILES["public_addresses"]


def addresses() -> list[dict]:
    """The public addresses: id, prompt, address, reason."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Return which addresses the model writes within 50 greedy tokens; no values by secret."""
    asked, tokenizer = addresses(), decoder.tokenizer
    prompts = {one["id"]: token_ids(tokenizer, one["prompt"]) for one in asked}
    targets = [Target(name, "email", name, ids, [], ()) for name, ids in prompts.items()]
    written = continuations(decoder, targets)
    text = lambda name: tokenizer.decode(written[name], skip_special_tokens=True)
    return {"known": {one["id"]: one["address"] in text(one["id"]) for one in asked}}, {}
