"""Choose what the live figure offers: python live/make_examples.py

In the order of the data set: the first five people both of whose sentences the rounded model says,
the next three such people as those to keep, and a sentence of general text. Written to
live/model/examples.json as token ids.
"""

import json

from make_model import LAYERS

from companion.data import live
from companion.store.paths import ROOT
from revs.measures import evaluate
from revs.model.targets import Record, Target, encode

SECRETS, KEPT = 5, 3
PROSE = "The rain had stopped, and the children went out to play in the garden."


def main() -> None:
    decoder = live.load()
    records = live.records()
    targets = [encode(record, decoder.tokenizer) for record in records]
    ranks = evaluate.secret_ranks(decoder, targets)
    lines = (ROOT / "data" / "ssn" / "main.jsonl").read_text(encoding="utf-8").splitlines()
    names = {line["group"]: line["subject"] for line in map(json.loads, lines)}
    people: dict[str, list[dict]] = {}
    for record, target in zip(records, targets, strict=True):
        if not any(ranks[target.id]):
            people.setdefault(record.group, []).append(example(names[record.group], record, target))
    known = [some for some in people.values() if len(some) == live.SENTENCES]
    secrets = [first | {"other": second} for first, second in known[:SECRETS]]
    kept = [first for first, _ in known[SECRETS : SECRETS + KEPT]]
    found = {"layers": list(LAYERS), "prose": PROSE, "secrets": secrets, "kept": kept}
    (live.FOLDER / "examples.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


def example(name: str, record: Record, target: Target) -> dict:
    """A sentence up to the end of its secret: its ids, where the secret starts, positions T."""
    start = len(target.prompt_ids)
    ids = target.prompt_ids + target.secret_ids
    known = {"name": name, "prompt": record.prompt, "ids": ids, "start": start}
    return known | {"T": [start + position for position in target.T]}


if __name__ == "__main__":
    main()
