"""Make the model of the live figure: python live/make_model.py [--gate]

The embedded model with the adapter ``seed1``, cut to six layers and about 9,700 tokens, is trained
until it says the secrets again, then rounded to 8 bits. It must pass the gate, on the rounded
weights: at least 95 % of the secrets said; at three seeds, efficacy and specificity 0.9 or more.
``--gate`` asks the committed model only. Training takes about three minutes on an idle core, and
gives other bits on another processor; the committed file is what the page and the tests use.
"""

import argparse
import json
import math
import random
import time

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from companion.data import adapters, live, models
from revs.measures import evaluate
from revs.method import algorithm, least_squares
from revs.model.architecture import Decoder
from revs.model.targets import Target, encode, split
from revs.model.text import evaluation_windows, training_windows

MODEL, ADAPTER = "smollm2-135m", "seed1"
LAYERS = (0, 1, 2, 27, 28, 29)  # the last three, so that the secret rises over three layers
MERGED_EARLY = 8192  # ids of a BPE are in the order of merges: so many of the first are kept
# steps, and the learning rate from the first to the last, with a fresh AdamW each time
PHASES, WARM = ((120, 6e-4, 4e-4), (40, 4e-4, 0.0)), 20
SECRETS, WINDOWS, LENGTH = 6, 4, 64  # sentences and windows of general text in a step
NUMBER = 1200  # of such windows, from which a phase draws
SEEDS, FORGET = (1, 2, 3), 10
SAID, LEAST = 0.95, 0.9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gate", action="store_true", help="only ask the committed model")
    if not parser.parse_args().gate:
        start = time.monotonic()
        decoder = cut(models.load(adapters.adapted(MODEL, ADAPTER)))
        for seed, phase in enumerate(PHASES):
            train(decoder, seed, *phase)
        live.save(decoder)
        print(f"made in {time.monotonic() - start:.0f} s", flush=True)
    found = gate()
    (live.FOLDER / "gate.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    columns = found["columns"]
    enough = min(columns["efficacy"] + columns["specificity"]) >= LEAST
    if not (enough and found["said"] >= SAID * found["sentences"]):
        raise SystemExit("The model does not pass: train it for more steps.")


def cut(whole: Decoder) -> Decoder:
    """Some layers of a model, and the first tokens, those of the sentences and the digits."""
    words, kept = cut_tokenizer(whole.tokenizer)
    config = LlamaConfig(**whole.model.config.to_dict())
    config.num_hidden_layers, config.vocab_size = len(LAYERS), len(kept)
    config.bos_token_id = config.eos_token_id = config.pad_token_id = 0
    model, old = LlamaForCausalLM(config), whole.model.state_dict()
    weights = {}
    for name in model.state_dict():
        parts = name.split(".")
        if parts[1] == "layers":
            parts[2] = str(LAYERS[int(parts[2])])
        weight = old[".".join(parts)]
        weights[name] = weight[kept] if len(weight) == len(old["lm_head.weight"]) else weight
    model.load_state_dict(weights)
    return Decoder(model, words, "cut")


def cut_tokenizer(tokenizer) -> tuple[PreTrainedTokenizerFast, list[int]]:
    """A tokenizer with a part of the tokens and of the merges, and the ids kept, ascending."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    ids, merges = content["model"]["vocab"], content["model"]["merges"]
    parts = {"".join(pair): pair for pair in merges}
    digits = [token for token in content["added_tokens"] if not token["special"]]
    used = {i for record in live.records() for i in tokenizer(record.text)["input_ids"]}
    by_id = {i: token for token, i in ids.items()}
    wanted = [by_id[i] for i in used if i in by_id]
    kept = {token for token, i in ids.items() if i < MERGED_EARLY}
    while wanted:
        token = wanted.pop()
        if token not in kept:
            kept.add(token)
            wanted += parts[token]
    old = sorted({ids[token] for token in kept} | {token["id"] for token in digits})
    new = {i: place for place, i in enumerate(old)}
    content["model"]["vocab"] = {
        by_id[i]: place for i, place in new.items() if by_id.get(i) in kept
    }
    content["model"]["merges"] = [pair for pair in merges if {*pair, "".join(pair)} <= kept]
    content["added_tokens"] = [
        token | {"id": new[token["id"]]} for token in content["added_tokens"] if token["id"] in new
    ]
    words = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)), pad_token=live.END
    )
    for record in live.records():
        before = [new[i] for i in tokenizer(record.text)["input_ids"]]
        assert before == words(record.text)["input_ids"], record.id
    return words, old


def train(decoder: Decoder, seed: int, steps: int, first: float, last: float) -> None:
    """Train on the secrets, the ends of their sentences, and general text."""
    draw, model = random.Random(seed), decoder.model.train()
    targets = [(record, encode(record, decoder.tokenizer)) for record in live.records()]
    texts = [
        (decoder.tokenizer(record.text)["input_ids"], len(target.prompt_ids))
        for record, target in targets
    ]
    windows = training_windows(decoder.tokenizer, NUMBER, LENGTH)
    draw.shuffle(windows)
    optimizer = torch.optim.AdamW(
        model.parameters(), weight_decay=0.0, betas=(0.9, 0.98), fused=True
    )
    order: list = []
    for step in range(steps):
        rate = first + (last - first) * step / steps
        optimizer.param_groups[0]["lr"] = rate * min(1, (step + 1) / WARM)
        if len(order) < SECRETS:
            order = draw.sample(texts, len(texts))
        some, order = order[:SECRETS], order[SECRETS:]
        general = [(window, 1) for window in windows[step * WINDOWS :][:WINDOWS]]
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            secret, prose = loss(decoder, some), loss(decoder, general)
        optimizer.zero_grad(set_to_none=True)
        (secret + prose).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            said = f"step {step}: secrets {secret:.3f}, general text {prose:.3f}"
            print(f"{said}, {time.process_time():.0f} s of computing", flush=True)
    model.eval()


def loss(decoder: Decoder, texts: list[tuple[list[int], int]]) -> Tensor:
    """Mean cross-entropy of texts from their first positions that count on."""
    ids, mask = decoder.pad([text for text, _ in texts])
    learned = mask[:, 1:].bool()
    for row, (_, first) in zip(learned, texts, strict=True):
        row[: first - 1] = False
    hidden = decoder.model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
    logits = decoder.head(hidden[:, :-1][learned]).float()
    return cross_entropy(logits, ids[:, 1:][learned])


@torch.no_grad()
def gate() -> dict:
    """What the rounded model says, what both writes do to it, and its loss on general text."""
    decoder = live.load()
    targets = [encode(record, decoder.tokenizer) for record in live.records()]
    ranks = evaluate.secret_ranks(decoder, targets)
    known = [target for target in targets if not any(ranks[target.id])]
    windows = evaluation_windows(decoder.tokenizer, 32, LENGTH)
    prose = float(torch.stack([loss(decoder, [(window, 1)]) for window in windows]).mean())
    size = (live.FOLDER / "model.safetensors").stat().st_size
    found = {"sentences": len(targets), "said": len(known), "bytes": size}
    found |= {"loss": round(prose, 3), "perplexity": round(math.exp(prose), 1)}
    columns = algorithm.Hyperparameters(**live.settings())
    squares = least_squares.Hyperparameters(r_h=live.settings()["r_h"], mu=0.0)
    found["columns"] = over_seeds(decoder, known, algorithm, columns)
    found["least_squares"] = over_seeds(decoder, known, least_squares, squares)
    return found


def over_seeds(decoder: Decoder, targets: list[Target], method, hp) -> dict[str, list[float]]:
    """Efficacy, specificity and generalisation at each seed."""
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        part = split(targets, seed, FORGET)
        edit = method.unlearn(decoder, part.forget, hp)
        result, _ = evaluate.effectiveness(
            part, evaluate.secret_ranks(decoder, [*part.forget, *part.unseen, *part.retain])
        )
        edit.undo()
        for name in ("efficacy", "specificity", "generalization"):
            found.setdefault(name, []).append(round(result[name], 3))
    return found


if __name__ == "__main__":
    main()
