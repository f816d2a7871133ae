"""Which perturbation of a prompt brings an unlearned token back best (Appendix "Perturbation Attack": "other strategies")?

The paper tried several characters and numbers, and took ten spaces inside and one behind. Each strategy here is Logit-Lens
after a prompt that was changed in its own way; the resistance that is left says how good an attack it is.
"""

from __future__ import annotations

import random

from revs import attacks
from revs.architecture import Decoder
from revs.data import Split

# name → characters that are put inside, how many of them, and what is put behind
STRATEGIES = {
    "none": ("", 0, ""),
    "one space behind": ("", 0, " "),
    "3 spaces, one behind": (" ", 3, " "),
    "10 spaces, one behind": (" ", 10, " "),
    "30 spaces, one behind": (" ", 30, " "),
    "10 spaces": (" ", 10, ""),
    "10 letters, one space behind": ("abcdefghijklmnopqrstuvwxyz", 10, " "),
    "10 line ends, one space behind": ("\n", 10, " "),
}


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Resistance@k to each strategy as the released code and as the paper's equation read it; nothing by secret."""
    result = {}
    for name, (characters, number, behind) in STRATEGIES.items():
        prompts = {target.id: decoder.tokenizer(perturbed(target.prompt, characters, number, behind, target.id))["input_ids"] for target in split.forget}
        depths = list(attacks.depths(decoder, split.forget, prompts)[0].values())
        result[name] = {"released": attacks.released(depths, k), "per_example": attacks.per_example(depths, k)}
    return result, {}


def perturbed(prompt: str, characters: str, number: int, behind: str, seed: str) -> str:
    """A prompt with some characters before different random places, and something behind it."""
    draw = random.Random(seed)
    places = set(draw.sample(range(len(prompt)), min(number, len(prompt))))
    return "".join((draw.choice(characters) if i in places else "") + character for i, character in enumerate(prompt)) + behind
