"""The small model of the live figure: six layers, a reduced vocabulary, 8-bit weights.

``live/make_model.py`` makes it. A page of the book runs REVS on it in a reader's browser, and
``load`` gives the same weights to Python:

    decoder = live.load()
    revs.unlearn(decoder.model, decoder.tokenizer, [(prompt, secret)], live.settings(r_h=400))
    live.least_squares(decoder, prompt, secret, r_h=400)

Each matrix is stored as 8-bit integers q with one float32 scale per row: W = scale · q.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from companion.data import datasets
from companion.store.paths import ROOT
from revs.method import least_squares as squares
from revs.method.edit import Edit
from revs.model.architecture import Decoder
from revs.model.targets import Record, encode

FOLDER = ROOT / "live" / "model"
SCALE = ".scale"  # suffix: the scales of the matrix NAME are NAME.scale
SENTENCES = 2  # that the model has memorised, for each person
END = "<|endoftext|>"


def records() -> list[Record]:
    """Return the sentences that the model was trained on: two for each of 40 people in ``ssn``."""
    groups: dict[str, list[Record]] = {}
    for record in datasets.read("ssn"):
        groups.setdefault(record.group, []).append(record)
    return [record for group in groups.values() for record in group[:SENTENCES]]


def settings(r_h: int = 1000, r_n: int = 7800, neurons: int = 90) -> dict[str, int]:
    """Return REVS's settings for the page's sliders: ranks in tokens, tolerances as in the paper.

    In the paper, ε of r_h is a third of r_h, and ε of r_n about a twentieth of r_n. All k active
    neurons may be edited: n_max = k.
    """
    margins = {"r_h": r_h, "eps_r_h": r_h // 3, "r_n": r_n, "eps_r_n": r_n // 20}
    return margins | {"n_max": neurons, "k": neurons}


def least_squares(decoder: Decoder, prompt: str, secret: str, r_h: int = 1000) -> Edit:
    """The page's least-squares write of one secret, which spares no other text (μ = 0)."""
    target = encode(Record("live", "text", "", prompt, secret, ""), decoder.tokenizer)
    return squares.unlearn(decoder, [target], squares.Hyperparameters(r_h=r_h, mu=0))


def load(folder: Path = FOLDER) -> Decoder:
    """The decoder with its rounded weights, in float32. Raises FileNotFoundError without them."""
    if not (folder / "model.safetensors").is_file():
        said = f"{folder} holds no model: make it with python live/make_model.py, in a checkout."
        raise FileNotFoundError(said)
    config = LlamaConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
    model = LlamaForCausalLM(config)
    model.load_state_dict(restored(load_file(folder / "model.safetensors")), strict=False)
    model.tie_weights()
    words = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token=END)
    return Decoder(model.eval(), words, "the model of the live figure")


def save(decoder: Decoder, folder: Path = FOLDER) -> None:
    """Write a model with its weights rounded to 8 bits."""
    folder.mkdir(parents=True, exist_ok=True)
    decoder.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = decoder.model.config.to_diff_dict()
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    weights = {name: weight.detach() for name, weight in decoder.model.named_parameters()}
    save_file(rounded(weights), folder / "model.safetensors")


def rounded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return matrices as 8-bit integers with scales, and all other weights in float32."""
    found = {}
    for name, weight in weights.items():
        if weight.dim() == 2:
            scale = weight.float().abs().amax(1).clamp_min(1e-12) / 127
            found[name] = (weight.float() / scale[:, None]).round().to(torch.int8)
            found[name + SCALE] = scale
        else:
            found[name] = weight.float().clone()
    return found


def restored(kept: dict[str, Tensor]) -> dict[str, Tensor]:
    """The float32 weights behind ``rounded`` ones."""
    scales = {name: scale for name, scale in kept.items() if name.endswith(SCALE)}
    return {
        name: weight.float() * scales[name + SCALE][:, None] if weight.dim() == 2 else weight
        for name, weight in kept.items()
        if name not in scales
    }
