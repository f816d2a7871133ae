"""Your own model, your own documents, in a dozen names (§3 to §5 in the order in which one uses them).

book/api.md has an example, which a test runs.

A path, never a secret, is what these functions are given; what they return holds the secrets, as token ids, and what they
print and raise does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from revs import attacks, benign, curate, detect, evaluate as measuring, method
from revs.architecture import Decoder
from revs.calibrate import Calibration, calibrate
from revs.data import Split, Target
from revs.detect import KINDS, Span
from revs.documents import MACHINE, counted, read, unread
from revs.edit import Edit
from revs.integrity import WINDOW, WINDOWS, perplexity
from revs.load import load
from revs.method import Hyperparameters
from revs.paths import resolve
from revs.redact import redact

__all__ = ["Calibration", "Found", "attack", "calibrate", "evaluate", "find_memorized", "load", "next_tokens", "perplexity", "undo", "unlearn"]
TOGETHER = 64  # candidates that are tried at once


@dataclass(frozen=True)
class Found:
    """What a model knows of some documents.

    ``targets`` are the secrets it writes right after their prompts; ``places`` says by id where each stands (hash of the
    document, first character) and how it may be shown. ``funnel`` counts by kind what was found, left out and why, tried
    and memorised; ``skipped`` the documents that could not be read, by reason; ``absent`` the lines of the file of secrets
    that stand in no document.
    """

    targets: list[Target]
    places: dict[str, dict]
    funnel: dict[str, dict[str, int]]
    skipped: dict[str, int]
    absent: list[int] = field(default_factory=list)


def find_memorized(
    decoder: Decoder,
    documents: str | Path,
    secrets: str | Path | None = None,
    kinds: Sequence[str] = KINDS,
    limit: int | None = None,
    T: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Which secrets in some documents does the model write by itself (Appendix "Naturally Memorized Dataset")?

    ``documents`` is a folder, a text file, JSON Lines with "text", or "machine", what its packages carry. Without ``secrets`` Presidio finds what to try; else
    the lines of that text file are looked for, exactly. ``limit`` bounds how many are tried.

    Raises OSError if a path leads nowhere, ValueError if no document or no secret can be read, or none of the secrets stands in a document.
    """
    check(kinds)
    listed = lines_of(resolve(str(secrets))) if secrets is not None else {}
    skipped, funnel, sources, ready = Counter(), Counter(), Counter(), []
    present: set[str] = set()

    def exactly(text: str, _: Sequence[str]) -> list[Span]:
        spans = occurrences(text, listed)
        present.update(secret for secret in listed if secret in text)
        return spans

    texts = counted(read(documents if documents == MACHINE else resolve(str(documents)), skipped, decoder.tokenizer), sources)
    for candidate in curate.candidates(texts, kinds, funnel, exactly if secrets is not None else None):
        if target := curate.prepare(candidate, decoder, T, funnel, least=1):
            if limit is None or len(ready) < limit:
                ready.append(target)
            else:
                funnel[candidate.record.kind, "beyond the limit"] += 1
    if not sources:
        raise unread(skipped)
    if listed and not present:
        raise ValueError(f"None of the secrets listed ({len(listed)}) stands in the documents: write each as it stands there, or name the documents that hold them.")
    verdicts = {}
    for first in range(0, len(ready), TOGETHER):
        progress(first, len(ready))
        verdicts |= curate.tried(decoder, [target for _, target in ready[first : first + TOGETHER]])
    progress(len(ready), len(ready))
    known = [(candidate, target) for candidate, target in ready if verdicts[target.id]["memorised"] and verdicts[target.id]["right"] == 1]
    for candidate, target in ready:
        funnel[candidate.record.kind, "tried"] += 1
        funnel[candidate.record.kind, "written later"] += verdicts[target.id]["memorised"] and verdicts[target.id]["right"] < 1
    for candidate, _ in known:
        funnel[candidate.record.kind, "memorised"] += 1
    return Found(
        [target for _, target in known],
        {target.id: {"kind": target.kind, "shown": shown(target.kind, candidate.record.secret), "document": candidate.source, "offset": candidate.offset} for candidate, target in known},
        {kind: {what: count for (of, what), count in funnel.items() if of == kind and count} for kind in dict.fromkeys(kind for kind, _ in funnel)},
        dict(skipped),
        [line for secret, line in listed.items() if secret not in present],
    )


def check(kinds: Sequence[str]) -> None:
    """Raises ValueError for what is no kind of secret, or none at all."""
    if not kinds or set(kinds) - set(KINDS):
        raise ValueError(f"kinds is {', '.join(map(str, kinds)) or 'empty'}, but must be some of {', '.join(KINDS)}.")


def shown(kind: str, secret: str) -> str:
    """A secret as a report may show it, without brackets that a token put to it; an address of a page without a scheme not at all."""
    secret = secret.strip().lstrip("[(<{")
    return redact(kind if kind != "url" or re.match(r"[A-Za-z]{1,8}://", secret) else "text", secret)


def lines_of(path: Path) -> dict[str, int]:
    """The secrets of a text file, one a line, each with the number of its first line."""
    if not path.is_file():
        raise FileNotFoundError("There is no file of secrets at the path given: name a text file with one secret on a line.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("The file of secrets is not UTF-8: save it as UTF-8 text, one secret on a line.") from None
    except OSError:
        raise OSError("The file of secrets cannot be read: allow it, or give another.") from None
    found: dict[str, int] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if not line.strip() or "\0" in line:
            raise ValueError(f"Line {number} of the file of secrets {'holds a NUL character' if line.strip() else 'is empty'}: give one secret on every line.")
        found.setdefault(line.strip(), number)
    return found


def occurrences(text: str, secrets: Sequence[str] | dict[str, int]) -> list[Span]:
    """Where listed secrets stand in a text, in order; of two that overlap, the longer."""
    taken, spans = bytearray(len(text)), []
    for secret in sorted(secrets, key=lambda secret: (-len(secret), secret)):
        start = text.find(secret)
        while start >= 0:
            end = start + len(secret)
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * len(secret)
                spans.append(Span(kind_of(secret), start, end))
            start = text.find(secret, end)
    return sorted(spans, key=lambda span: span.start)


def kind_of(secret: str) -> str:
    """What sort of secret a listed one is; addresses of pages count as text, since the paper's filters for them are not meant for a list."""
    whole = [span.kind for span in detect.spans(secret) if (span.start, span.end) == (0, len(secret))]
    return whole[0] if whole and whole[0] != "url" else "text"


def unlearn(decoder: Decoder, targets: Sequence[Target], hp: Hyperparameters, progress: Callable[[int, int], None] = lambda done, total: None) -> Edit:
    """REVS (Alg. 1) on every target, in place; the Edit undoes it exactly."""
    return method.unlearn(decoder, targets, hp, progress=progress)


def undo(edit: Edit) -> None:
    """Puts back every weight that an edit changed, bit by bit."""
    edit.undo()


def evaluate(decoder: Decoder, targets: Sequence[Target]) -> dict[str, dict]:
    """What the model does with each secret, by id: ``ranks`` of its tokens, the ``lowest`` place that one of its unlearned tokens has, is it written next (``exact``), or ``within_50`` greedy tokens?"""
    ranks, written = measuring.secret_ranks(decoder, targets), measuring.continuations(decoder, targets)
    return {
        target.id: {
            "ranks": ranks[target.id],
            "lowest": max(ranks[target.id][position] for position in target.T),
            "exact": not any(ranks[target.id]),
            "within_50": measuring.contains(written[target.id], target.secret_ids),
        }
        for target in targets
    }


def attack(decoder: Decoder, targets: Sequence[Target], k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Resistance@k to Logit-Lens, Delta and Perturbation in four readings (§4.4.3), and the depths of each secret by layer."""
    return attacks.measure(decoder, Split(list(targets), [], []), k)


@torch.no_grad()
def next_tokens(decoder: Decoder) -> list[int]:
    """The most probable next token at every place of a benign text: how many of them an edit changes says what it costs elsewhere."""
    found = []
    for window in benign.windows(decoder.tokenizer, WINDOWS, min(WINDOW, decoder.context)):
        hidden = decoder.model.base_model(input_ids=torch.tensor([window], device=decoder.device), use_cache=False).last_hidden_state[0]
        found += decoder.logits(hidden).argmax(-1).tolist()
    return found
