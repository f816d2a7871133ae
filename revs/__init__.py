"""REVS, rank editing in the vocabulary space (Ashuach, Tutek and Belinkov, ACL 2025 Findings).

Unlearns secrets that a transformers model has memorised:

    edit = revs.unlearn(model, tokenizer, [(prompt, secret), …])
    revs.rank(model, tokenizer, prompt, secret)
    edit.undo()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from revs.method.edit import Edit
    from revs.model.architecture import Decoder

__all__ = ["rank", "unlearn"]


def unlearn(
    model,
    tokenizer,
    secrets: Iterable[tuple[str, str]],
    hyperparameters: Mapping | None = None,
    T: int = 2,
) -> Edit:
    """Unlearns secrets, each given with the text before it, in place; ``edit.undo()`` undoes it.

    Of each secret the T rarest tokens are demoted (§3.3): rarest by token id, with prompt and
    secret tokenised together. ``hyperparameters`` are laid over the defaults of
    ``revs.method.algorithm.Hyperparameters``, e.g. ``{"n_max": 20}``; ranks below 1 are fractions
    of the vocabulary. Raises ValueError for a model or a secret that does not fit.
    """
    from revs.method import algorithm
    from revs.model.architecture import check_fit
    from revs.model.targets import encode

    decoder, hp = _decoder(model, tokenizer), algorithm.Hyperparameters(**hyperparameters or {})
    check_fit(decoder)
    targets = [encode(record, tokenizer, T) for record in _records(secrets)]
    edit = algorithm.unlearn(decoder, targets, hp)
    edit.secrets = len({record.group for record in targets})
    return edit


def rank(model, tokenizer, prompt: str, secret: str) -> list[int]:
    """The 0-based rank of every token of a secret after the prompt and the true tokens before it.

    0 is what the model would write: a secret with zeros only is extracted by greedy decoding.
    """
    from revs.measures.evaluate import secret_ranks
    from revs.model.targets import encode

    decoder = _decoder(model, tokenizer)
    (record,) = _records([(prompt, secret)])
    return secret_ranks(decoder, [encode(record, tokenizer, size=0)])[record.id]


def _records(secrets: Iterable[tuple[str, str]]) -> list:
    from revs.model.targets import Record

    return [
        Record(f"Secret {n}", "text", secret, prompt, secret, "")
        for n, (prompt, secret) in enumerate(secrets, 1)
    ]


def _decoder(model, tokenizer) -> Decoder:
    """The model as REVS sees it. Raises ValueError for one that cannot be looked at."""
    from revs.model.architecture import Decoder

    if model.training:
        raise ValueError(
            "The model is in training mode, where ranks vary: call model.eval() first."
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            "The tokenizer is not a fast one, whose offsets are needed to find a secret's tokens: "
            "load it with AutoTokenizer from a folder with a tokenizer.json."
        )
    return Decoder(model, tokenizer, getattr(model.config, "name_or_path", "") or "the model")
