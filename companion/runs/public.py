"""Are public addresses still known (Appendix "Qualitative Unlearning Examples", Table "Retain Email Addresses")?

Mailboxes of offices and mailing lists, data/public/addresses.jsonl; none is among the secrets.
"""

from __future__ import annotations

import json

from companion.record.paths import ROOT
from revs.measures import evaluate
from revs.model.architecture import Decoder
from revs.model.targets import Split, Target


def addresses() -> list[dict]:
    """The public addresses: id, prompt, address, reason."""
    return [
        json.loads(line)
        for line in (ROOT / "data" / "public" / "addresses.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    ]


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Which of them the model writes within 50 greedy tokens, by id; nothing by item."""
    asked = addresses()
    written = evaluate.continuations(
        decoder,
        [
            Target(
                one["id"], "email", one["id"], decoder.tokenizer(one["prompt"])["input_ids"], [], ()
            )
            for one in asked
        ],
    )
    known = {
        one["id"]: one["address"]
        in decoder.tokenizer.decode(written[one["id"]], skip_special_tokens=True)
        for one in asked
    }
    return {"known": known}, {}
