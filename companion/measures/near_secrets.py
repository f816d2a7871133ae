"""Near secrets: does an edit keep what else the model knows about a person?

In the data sets with shared tokens, a person has a second number or address, in another sentence.
Every split retains this second secret, which shares its tokens with secrets that may be forgotten.
"""

from companion.data.datasets import NEAR
from revs.measures.evaluate import secret_ranks
from revs.measures.metrics import mean
from revs.model.architecture import Decoder
from revs.model.targets import Split

VERSION = 1


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Return the shares of second ``secrets`` still written exactly, and ``near`` for each.

    ``forgotten``: among the ``people`` whose first secret is forgotten; ``others``: among the
    others. Raises ValueError if the data set has no second secrets.
    """
    near = [target for target in split.retain if target.group.endswith(NEAR)]
    forgotten = {target.group + NEAR for target in split.forget}
    if not near:
        raise ValueError(
            "near_secrets needs people with a second secret: choose ssn-shared or emails-shared."
        )
    exact = {name: not any(ranks) for name, ranks in secret_ranks(decoder, near).items()}
    of = lambda whose: [exact[one.id] for one in near if (one.group in forgotten) is whose]
    result = {"secrets": len(near), "people": len(of(True))}
    result["forgotten"] = mean(of(True)) if of(True) else None
    result["others"] = mean(of(False)) if of(False) else None
    return result, {name: {"near": yes} for name, yes in exact.items()}
