"""Compute ranks.json, which a chapter's explorer shows: python data/ranks/make.py

Each method forgets half of the SSNs, as in the main comparison. For ten SSNs, five forgotten and
five to keep, the rank of each token after each layer is recorded, before and after. Takes about
four minutes on one core. On another processor, REVS's ranks may differ slightly.
"""

import json
from pathlib import Path

import torch

from companion.data import adapters, datasets, models
from companion.experiments import methods
from companion.store.paths import BUILD
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target, encode, split

HERE = Path(__file__).resolve().parent
MODEL, ADAPTER, DATA, SEED = "smollm2-135m", "seed1", "ssn", 1
METHODS = ("revs", "least_squares", "rmu", "output_ban", "memit")
SHOWN = 5  # of the forgotten secrets, and of the kept ones


def main() -> None:
    decoder = models.load(adapters.adapted(MODEL, ADAPTER))
    records = datasets.read(DATA)
    targets = [encode(record, decoder.tokenizer) for record in records]
    parts, names = split(targets, SEED, sentences=1), subjects()
    some = parts.forget[:SHOWN] + parts.retain[:SHOWN]
    secrets = [
        {
            "name": names[target.group],
            "forgotten": target in parts.forget,
            "tokens": [decoder.tokenizer.decode([t]) for t in target.secret_ids],
            "targets": list(target.T),
        }
        for target in some
    ]
    add(secrets, "before", decoder, some)
    settings = {name: methods.hyperparameters(name, MODEL, DATA, {}) for name in METHODS}
    for name in METHODS:
        module = methods.method(name)
        torch.manual_seed(SEED)
        more = {"cache": BUILD / "cache"} if name == "memit" else {}
        hp = module.Hyperparameters(**settings[name])
        edit = module.unlearn(decoder, parts.forget, hp, SEED, **more)
        add(secrets, name, decoder, some)
        edit.undo()
    found = {"model": MODEL, "adapter": ADAPTER, "adapter_sha256": adapters.fingerprint(ADAPTER)}
    found |= {"data": DATA, "seed": SEED, "forgotten": len(parts.forget), "settings": settings}
    lines = ",\n".join(json.dumps(secret, ensure_ascii=False) for secret in secrets)
    head = json.dumps(found, ensure_ascii=False).removesuffix("}")
    (HERE / "ranks.json").write_text(f'{head}, "secrets": [\n{lines}\n]}}\n', encoding="utf-8")


def subjects() -> dict[str, str]:
    """Whose a secret is: invented names."""
    lines = (HERE.parent / DATA / "main.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["group"]: line["subject"] for line in map(json.loads, lines)}


def add(secrets: list[dict], when: str, decoder: Decoder, targets: list[Target]) -> None:
    """Adds each secret's ranks at this time."""
    vocabulary = Vocabulary(decoder)
    for secret, target in zip(secrets, targets, strict=True):
        secret[when] = ranks(decoder, vocabulary, target)


@torch.no_grad()
def ranks(decoder: Decoder, vocabulary: Vocabulary, target: Target) -> list[list[int]]:
    """The rank of each token of a secret in the stream after each layer: [token][layer]."""
    due = list(enumerate(target.secret_ids, len(target.prompt_ids) - 1))
    layers: list[list[int]] = []

    def look(layer: int, _, h, x) -> None:
        lines = (vocabulary.hidden(layer, h[p], x[p], t).rank_at_rest() for p, t in due)
        layers.append([int(of_stream) for _, of_stream in lines])

    decoder.run_by_layer(target.before(len(due) - 1), look)
    return [list(token) for token in zip(*layers, strict=True)]


if __name__ == "__main__":
    main()
