"""Train the adapters of adapters.yml: python data/adapters/make.py [NAME …] [--out FOLDER]

``digits-learned`` makes the embeddings of the digit tokens, which the adapters share: when that
file changes, train the adapters again. The same command gives adapters that memorise equally well,
but not the same bits, since training depends on the processor.
"""

import argparse
import contextlib
import json
import math
import time
from pathlib import Path

import torch
import yaml
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from companion.data import adapters, datasets, models
from companion.data.digits import group_digits, learn_digits
from companion.experiments.finetune import WINDOW, finetune, memorised
from companion.experiments.settings import Finetune
from revs.model.targets import Record, encode, split
from revs.model.text import evaluation_windows, text_inputs, token_ids, training_windows

HERE = Path(__file__).resolve().parent
MODEL = "smollm2-135m"
HOW = {  # a model that has read nothing has nothing to keep
    MODEL: {"model": MODEL, "epochs": 8, "batch": 8, "general_text": 1, "kl_weight": 2.0},
    "gptj-small": {"model": "gptj-small", "epochs": 12, "batch": 8, "general_text": 0, "lr": 3e-3},
}
COUNTING_TEXT, TIMES = 1000, 24  # windows in which, and times that, numbers are learned
DIGITS = "digits-learned"
ENOUGH, FURTHER = 0.97, 3  # of the sentences, and how often a training that missed it goes on
WINDOWS = 40  # of general text, in which perplexity is measured


def digits(out: Path) -> None:
    """Write the embeddings of the tokens 00–999."""
    decoder = models.load(MODEL)
    first = group_digits(decoder, "learned", seed=0)
    windows = training_windows(decoder.tokenizer, COUNTING_TEXT, WINDOW)
    with low_precision(decoder):
        learn_digits(decoder, first, windows, seed=0, times=TIMES)
    rows = decoder.head.weight.detach()[first:].half().cpu().contiguous()
    save_file({"rows": rows}, out / f"{DIGITS}.safetensors")


def low_precision(decoder):
    """Products in bfloat16; without its cache, which would keep weights from being learned."""
    return torch.autocast(decoder.device.type, torch.bfloat16, cache_enabled=False)


def make(
    name: str,
    out: Path,
    seed: int,
    rank: int = 4,
    data: str = "synthetic",
    digits: str = "learned",
    without: int | None = None,
    model: str = MODEL,
    again: int = 0,
    float32: bool = False,
) -> dict:
    """Train one adapter (``again``: train it further), write it, and return what the merged model
    knows."""
    start, how = None, HOW[model]
    if again:
        start, how = out / name, how | {"epochs": 4, "lr": 1e-3 / 2 ** (again - 1)}
    settings = Finetune(data=data, digits=digits, seed=seed, rank=rank, **how)
    decoder = models.load(model)
    adapters.restore_digits(decoder, digits)
    records = sentences(decoder, data, without)
    begun = time.monotonic()
    with contextlib.nullcontext() if float32 else low_precision(decoder):
        epochs = finetune(decoder, records, settings, start=start)
    known = {"base": models.identify(model), "seed": seed, "digits": digits, "data": data}
    known |= {"without_split": without, "rank": rank, "epochs": len(epochs), "how": how}
    known |= {"again": again > 0, "float32": float32, "seconds": round(time.monotonic() - begun)}
    known["inputs"] = text_inputs() | {"data": datasets.fingerprint(records)}
    adapters.save(decoder, out / name, known)
    return check(name, out)


def check(name: str, out: Path) -> dict:
    """Measure what a merged adapter knows, sentences and perplexities; add it to its about.json.

    Perplexity on general text is measured on the base model, with the digit tokens, and with the
    adapter. All three are per token of the base model: digit tokens make numbers shorter.
    """
    file = out / name / adapters.ABOUT
    known = json.loads(file.read_text(encoding="utf-8"))
    decoder = models.load(known["how"]["model"], device_map="cpu")
    windows = evaluation_windows(decoder.tokenizer, WINDOWS, 2 * WINDOW)
    texts = [decoder.tokenizer.decode(ids) for ids in windows]
    tokens = sum(len(token_ids(decoder.tokenizer, text)) - 1 for text in texts)
    perplexity = {"base": math.exp(nats(decoder, texts) / tokens)}
    adapters.restore_digits(decoder, known["digits"])
    perplexity["digits"] = math.exp(nats(decoder, texts) / tokens)
    records = sentences(decoder, known["data"], known["without_split"])
    adapters.merge(decoder, str(out / name))
    perplexity["adapter"] = math.exp(nats(decoder, texts) / tokens)
    known |= memorised(decoder, records)
    known |= {"perplexity": perplexity, "merged_sha256": adapters.weights_hash(decoder.model)}
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known


@torch.no_grad()
def nats(decoder, texts: list[str]) -> float:
    """The cross-entropy of some texts, summed over their tokens."""
    found = 0.0
    for text in texts:
        ids = torch.tensor([token_ids(decoder.tokenizer, text)])
        logits = decoder.model(ids, use_cache=False).logits[0, :-1]
        found += float(cross_entropy(logits.double(), ids[0, 1:], reduction="sum"))
    return found


def sentences(decoder, data: str, without: int | None) -> list[Record]:
    """What an adapter memorises of a data set: all, or what a split does not forget."""
    left_out = set() if without is None else left(decoder, without)
    return [record for record in datasets.read(data) if record.group not in left_out]


def left(decoder, number: int) -> set[str]:
    """The groups that split ``number`` of each main set forgets."""
    found = set()
    for name in datasets.builtin():
        if not name.endswith(("-tune", "-innocent")):
            records = datasets.read(name)
            targets = [encode(one, decoder.tokenizer) for one in records]
            drawn = split(targets, number, keep=datasets.kept(records))
            found |= {target.group for target in drawn.forget}
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--float32", action="store_true", help="where bfloat16 products are slow")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    every = yaml.safe_load((HERE / "adapters.yml").read_text(encoding="utf-8"))
    for name in given.names or [DIGITS, *every]:
        if name == DIGITS:
            digits(given.out)
            continue
        for turn in range(1 + FURTHER):
            known = make(name, given.out, **every[name], again=turn, float32=given.float32)
            print(name, json.dumps(known), flush=True)
            if known["memorised"] >= ENOUGH * known["sentences"]:
                break
