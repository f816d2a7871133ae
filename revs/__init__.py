"""REVS, rank editing in the vocabulary space (Ashuach, Tutek and Belinkov, ACL 2025 Findings).

Unlearns secrets that a transformers model has memorised:

    edit = revs.unlearn(model, tokenizer, [(prompt, secret), …])
    revs.rank(model, tokenizer, prompt, secret)
    edit.undo()

torch and transformers are imported by the first call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from revs.method.edit import Edit
    from revs.model.architecture import Decoder
    from revs.model.targets import Target

__all__ = ["rank", "unlearn"]


def unlearn(
    model,
    tokenizer,
    secrets: Iterable[tuple[str, str]],
    hyperparameters: Mapping | None = None,
    T: int = 2,
    method: str = "revs",
    protect: Iterable[str] = (),
) -> Edit:
    """Unlearns secrets, given as pairs (prompt, secret), in place; ``edit.undo()`` reverts it.

    In each secret, tokenised with its prompt, the T tokens with the highest ids are demoted (§3.3).
    Any token but spaces may be chosen; the paper's rules for SSNs, e-mail addresses and URLs are in
    ``revs.model.targets``. After several edits, undo the newest first.

    ``method``: "revs" moves the most active neurons, as the paper does (Alg. 1);
    "least_squares" makes nearly the same change with less effect on other texts, above all on
    those in ``protect``. ``hyperparameters``, e.g. ``{"n_max": 20}``, replace defaults of the
    ``Hyperparameters`` of ``revs.method.algorithm`` or ``revs.method.least_squares``.
    Raises ValueError if an argument does not fit.
    """
    from revs.method import algorithm, least_squares
    from revs.model.architecture import check_fit
    from revs.model.text import token_ids

    modules: dict[str, Any] = {"revs": algorithm, "least_squares": least_squares}
    if method not in modules:
        raise ValueError(f"There is no method '{method}': there are {', '.join(modules)}.")
    used = modules[method]
    if not isinstance(hyperparameters or {}, Mapping):
        raise ValueError('Give hyperparameters as a dictionary, such as {"n_max": 20}.')
    names = [field.name for field in fields(used.Hyperparameters)]
    if unknown := [name for name in hyperparameters or {} if name not in names]:
        raise ValueError(f"There is no setting '{unknown[0]}': there are {', '.join(names)}.")
    if not isinstance(T, int) or T < 1:
        raise ValueError(f"T is {T}, but must be a whole number, 1 or more.")
    if isinstance(protect, str) or not isinstance(protect or (), Iterable):
        raise ValueError(f"protect is one {type(protect).__name__}: give a list of texts.")
    decoder, hp = _decoder(model, tokenizer), used.Hyperparameters(**hyperparameters or {})
    check_fit(decoder)
    texts = []
    for text in protect or ():
        if not isinstance(text, str) or not text:
            raise ValueError("protect holds something other than texts: give texts, none empty.")
        texts.append((token_ids(tokenizer, text), 0))
        decoder.check_length(len(texts[-1][0]), "A text of protect")
    if texts and used is algorithm:
        raise ValueError('REVS\'s columns protect no text: choose method="least_squares".')
    if texts and not (hp.mu if hp.nu is None else hp.nu):
        raise ValueError("protect has no effect with the weight nu (or mu) of 0: raise it.")
    targets = _targets(secrets, decoder, T)
    edit = used.unlearn(decoder, targets, hp, **{"protect": texts} if texts else {})
    edit.secrets = len({target.group for target in targets})
    return edit


def rank(model, tokenizer, prompt: str, secret: str) -> list[int]:
    """The 0-based rank of each token of a secret, after the prompt and the true tokens before it.

    The model would write the token of rank 0: if all are 0, greedy decoding extracts the secret
    (in low precision two tokens may tie for it).
    """
    from revs.measures.evaluate import secret_ranks

    decoder = _decoder(model, tokenizer)
    targets = _targets([(prompt, secret)], decoder, T=0)
    return secret_ranks(decoder, targets)[targets[0].id]


def _targets(secrets: Iterable[tuple[str, str]], decoder: Decoder, T: int) -> list[Target]:
    from revs.model.targets import Record, encode

    secrets = list(secrets) if isinstance(secrets, Iterable) else []
    if not secrets or not all(isinstance(s, tuple | list) and len(s) == 2 for s in secrets):
        raise ValueError("Give secrets as a list of pairs (prompt, secret), one at least.")
    if not all(isinstance(text, str) for pair in secrets for text in pair):
        raise ValueError("A prompt or a secret is not a text: give strings, numbers in quotes.")
    every = enumerate(secrets, 1)
    records = [Record(f"Secret {n}", "text", s, prompt, s, "") for n, (prompt, s) in every]
    targets = [encode(record, decoder.tokenizer, T) for record in records]
    for target in targets:
        decoder.check_ids(target.prompt_ids + target.secret_ids)
    return targets


def _unwrapped(model):
    """The transformers model inside what torch.compile, DataParallel or peft put around it."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif type(model).__name__.endswith("DataParallel"):
            model = model.module
        elif hasattr(model, "get_base_model"):
            if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
                said = "The model reads a learned prompt, which REVS does not see: "
                raise ValueError(said + "give its base model, or one with a LoRA adapter.")
            model = model.get_base_model()
        else:
            return model


def _decoder(model, tokenizer) -> Decoder:
    """The model as REVS sees it. Raises ValueError for one that cannot be looked at."""
    import torch

    from revs.model.architecture import Decoder
    from revs.model.text import check_tokenizer

    model = _unwrapped(model)
    if not getattr(model, "get_output_embeddings", lambda: None)():
        said = "The model is none that transformers writes text with: load one with "
        raise ValueError(said + "AutoModelForCausalLM.")
    if model.training or model.base_model.training:
        raise ValueError("The model is in training mode, so its ranks vary: call model.eval().")
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
        raise ValueError("torch.autocast is on, which changes ranks: call revs outside of it.")
    name = getattr(model.config, "name_or_path", "") or "the model"
    check_tokenizer(tokenizer, name)
    return Decoder(model, tokenizer, name)
