"""Which perturbation of a prompt brings an unlearned token back best (Appendix "Perturbation Attack": "other strategies")?

The paper tried several characters and numbers, and took ten spaces inside and one behind. Each strategy here is Logit-Lens
after a prompt that was changed in its own way; the resistance that is left says how good an attack it is.
"""

from __future__ import annotations

from revs.measures import attacks
from revs.model.architecture import Decoder
from revs.model.targets import Split

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
        prompts = {
            target.id: decoder.tokenizer(
                attacks.perturb(target.prompt, target.id, characters, number, behind)
            )["input_ids"]
            for target in split.forget
        }
        depths = list(attacks.depths(decoder, split.forget, prompts)[0].values())
        result[name] = {
            "released": attacks.released(depths, k),
            "per_example": attacks.per_example(depths, k),
        }
    return result, {}
