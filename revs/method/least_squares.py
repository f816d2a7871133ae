"""REVS with a least-squares write: the paper's direction and rank, carried by chosen activations.

For a target token t, REVS gives the direction in which FF₂'s output moves (d_t, §3.2) and how far:
the shift S at which t ranks r_h in the stream (``revs.method.vocabulary``). The paper writes this
shift by moving the k most activated neurons, but other texts activate them too. Here a linear
least-squares problem chooses the activations that carry it, in each layer for all targets at once.
Let a_i be FF₂'s input where t_i is due, S_i the shift wanted there (0 where t_i already ranks r_h
or lower), and K = [a_1 … a_n] (ff × n). Then

    ΔW = Σ_i S_i · d_{t_i} · m_iᵀ,   [m_1 … m_n] = (K·Kᵀ + n·μ·C + n·ν·N + λ·ā·I)⁻¹·K

where C = E[a·aᵀ] over general text, N the same over text to protect, ā the mean of ‖a_i‖². A text
with activations a is moved by Σ_i S_i·d_{t_i}·(m_i·a): nearly by S_i·d_{t_i} if a = a_i (the
penalties keep m_i·a_i below 1), little if a is unlike all a_i. MEMIT solves the same system for a
value that it finds by gradient steps; here the vocabulary gives the value in closed form. One
forward pass over all targets edits the layers from the lowest to the highest, so each layer sees
the edits below it.

The a_i of one prompt, its keys, hardly reach the secret after other prompts. With ``contexts``, as
in MEMIT, each target also has keys after windows of general text.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from revs.method.edit import Edit
from revs.method.moments import Sample, Text, general_moments, second_moments
from revs.method.schedules import exact_schedule
from revs.method.settings import require, require_one_of
from revs.method.vocabulary import PROJECTIONS, STREAM, Line, Vocabulary
from revs.model.architecture import Decoder
from revs.model.targets import Target
from revs.model.text import WINDOW, special_prefix, training_windows

VERSION = 1
CONTEXT = 32  # tokens of a window before a prompt


@dataclass(frozen=True)
class Hyperparameters:
    """Settings of the least-squares write. An r_h below 1 is a share of the vocabulary."""

    r_h: float = 0.015  # the rank wanted for t in every layer's stream
    lam: float = 0.01  # λ, against large weights
    mu: float = 0.01  # μ, the weight of general text
    nu: float | None = None  # ν, the weight of text to protect; None: the same as μ
    projection: str = "norm"  # or "raw": through the final norm, or U alone
    ridge: float = 0.0  # of the direction (revs.method.vocabulary); 0: the paper's
    contexts: int = 0  # windows of general text put before each prompt, for more keys of a target
    layers: Sequence[int] | str = "all"  # that may be edited: "all", "upper" or some by number
    tokens: int = 5120  # of general text from which C is estimated

    def __post_init__(self):
        require(self, lam=0, mu=0, ridge=0, r_h=0, contexts=0)
        if self.nu is not None:
            require(self, nu=0)
        require_one_of(self, projection=PROJECTIONS)
        if not (self.lam or self.mu):
            raise ValueError("lam and mu are both 0, so that nothing bounds the write: raise one.")
        if self.mu and self.tokens < WINDOW:
            said = f"tokens is {self.tokens}, but must be {WINDOW} or more: C needs general text."
            raise ValueError(said)

    def rank(self, V: int) -> int:
        """r_h as a whole rank. Raises ValueError if the vocabulary, of V tokens, has none such."""
        r_h = round(self.r_h * V) if self.r_h < 1 else int(self.r_h)
        if not 0 < r_h < V:
            said = f"r_h is {self.r_h}, rank {r_h} of {V} tokens: give a rank from 1 to {V - 1}, or"
            raise ValueError(f"{said} a share of the vocabulary.")
        return r_h


@torch.no_grad()
def unlearn(
    decoder: Decoder,
    targets: Sequence[Target],
    hp: Hyperparameters,
    seed: int = 0,
    progress=iter,
    protect: Sequence[Text] | Mapping[int, Sample] = (),
    cache: Path | None = None,
    general: Mapping[int, Tensor | Sample] | None = None,
) -> Edit:
    """Demotes the tokens T of all targets, in place, in one pass; the Edit undoes it bit for bit.

    ``protect``: texts whose activations are spared, weighted by ν, or these activations by layer.
    ``general``: C by layer, if known; otherwise C is computed, and kept in the folder ``cache``
    (``revs.method.moments``). Different tokens that are due after one and the same text share a
    key, of which the fit writes the mean: each shift counts that many times. Nothing is random.
    Raises ValueError if an argument does not fit.
    """
    vocabulary = Vocabulary(decoder, hp.projection == "raw", keep=True, ridge=hp.ridge)
    r_h, layers = hp.rank(vocabulary.V), decoder.layer_indices(hp.layers)
    if hp.nu and not protect:
        raise ValueError(f"nu is {hp.nu}, but no text to protect was given: set it to 0.")
    texts, places, tokens = laid_out(decoder, targets, hp.contexts)
    spared: list[tuple[float, Mapping[int, Tensor | Sample]]] = []  # weight, moments by layer
    if hp.mu:
        spared.append((hp.mu, general or general_moments(decoder, layers, hp.tokens, cache)))
    if protect and (nu := hp.mu if hp.nu is None else hp.nu):
        if isinstance(protect, Mapping):
            spared.append((nu, protect))
        else:
            spared.append((nu, second_moments(decoder, protect, layers)))
    steps = iter(progress(range(len(decoder.layers))))
    rows, positions = zip(*places, strict=True)
    at = list(rows), list(positions)
    sharing = torch.tensor(tokens_after_one_text(texts, places, tokens))

    def at_layer(l: int, a: Tensor, h: Tensor, x: Tensor) -> Tensor | None:
        next(steps)
        if l not in layers:
            return None
        S = shifts(vocabulary, l, h[at], x[at], tokens, r_h)
        edit.unreached += int(S.isnan().sum())
        moved = S.nan_to_num().nonzero()[:, 0].tolist()
        if not moved:
            return None
        K = a[at].to(vocabulary.dtype)  # (n, ff)
        M = solution(K, hp.lam, [(weight, C[l]) for weight, C in spared])
        along = torch.stack([vocabulary.step(l, tokens[i]) for i in moved])  # (n, d)
        S = S * sharing.to(S)
        edit.add(l, along.to(K) * S[moved, None].to(K), M[moved])
        return decoder.ff2[l].forward(a) - h  # forward: without the hooks of this pass

    with Edit(decoder) as edit:
        ids, mask = decoder.pad(texts)
        decoder.run_batch_by_layer(at_layer, input_ids=ids, attention_mask=mask)
        next(steps, None)
    return edit


def laid_out(
    decoder: Decoder, targets: Sequence[Target], contexts: int
) -> tuple[list[list[int]], list[tuple[int, int]], list[int]]:
    """The texts to read, the (row, position) where each t is due, and the tokens t.

    Each secret has a text that ends before its last token in T, and the same text after each of
    ``contexts`` windows of general text.
    """
    special = len(special_prefix(decoder.tokenizer))
    length = special + CONTEXT
    windows = training_windows(decoder.tokenizer, contexts, length) if contexts else []
    texts, places, tokens = [], [], []
    for before, target in itertools.product([[], *windows], targets):
        text = target.before(max(target.T))
        texts.append(before + text[special:] if before else text)
        decoder.check_length(len(texts[-1]) + 1, f"{target.id} (prompt and secret)")
        due = len(texts[-1]) - max(target.T) - 1  # where the secret's first token is due
        places += [(len(texts) - 1, due + position) for position in target.T]
        tokens += [target.secret_ids[position] for position in target.T]
    return texts, places, tokens


def tokens_after_one_text(
    texts: Sequence[list[int]], places: Sequence[tuple[int, int]], tokens: Sequence[int]
) -> list[float]:
    """For each place, how many different tokens are due after the same text; a token that is due
    there several times counts once."""
    before = [tuple(texts[row][: position + 1]) for row, position in places]
    same, due = Counter(before), Counter(zip(before, tokens, strict=True))
    return [same[text] / due[text, t] for text, t in zip(before, tokens, strict=True)]


def shifts(
    vocabulary: Vocabulary, l: int, h: Tensor, x: Tensor, tokens: Sequence[int], r_h: int
) -> Tensor:
    """The shift S_i ≤ 0 along each direction that brings t_i to rank r_h in the stream: (n,).

    h: FF₂'s output, x: the stream, (n, d) where t_i is due. S_i is 0 if t_i ranks r_h or lower
    already, nan if no shift reaches r_h, as may happen under a LayerNorm or a norm after FF₂.
    """
    S = torch.zeros(len(tokens), dtype=vocabulary.dtype, device=vocabulary.U.device)
    plain = vocabulary.after[l] is None
    at_rest = vocabulary.line(x, tokens[0]) if plain else None  # A serves every token
    for i, t in enumerate(tokens):
        if at_rest is None:
            stream = vocabulary.hidden(l, h[i], x[i], t).rows(slice(STREAM, STREAM + 1))
        elif at_rest.B is None:
            w = vocabulary.direction(t)[1]
            stream = Line(t, at_rest.A[i : i + 1], w, at_rest.scale[i : i + 1])
        else:
            stream = vocabulary.line(x[i : i + 1], t)
        if int(stream.rank_at_rest()) < r_h:
            found = exact_schedule(stream, r_h, 1 + r_h // 20)
            S[i] = torch.where(found < 0, found, torch.nan)[0]
    return S


def solution(K: Tensor, lam: float, spared: Sequence[tuple[float, Tensor | Sample]] = ()) -> Tensor:
    """The rows m_i, (n, ff): the columns of (KᵀK + n·Σ weight·C + b·I)⁻¹·Kᵀ for keys in rows, K
    (n, ff), with b = λ·ā.

    Solved in float64. If every C is a Sample XᵀX and Z = [K; √(n·weight)·X] has fewer rows than
    neurons, the right side of (ZᵀZ + b·I)⁻¹·Zᵀ = Zᵀ·(Z·Zᵀ + b·I)⁻¹ is solved, which is smaller.
    """
    n, ff = K.shape
    keys = K.double()
    bound = lam * keys.square().sum(1).mean()
    samples = [
        C.rows.to(keys) * (n * weight / len(C.rows)) ** 0.5
        for weight, C in spared
        if isinstance(C, Sample)
    ]
    Z = torch.cat([keys, *samples])
    said = "The least-squares write has no solution, since activations are infinite or NaN: "
    said += "load the model in float32, or raise lam."
    if not Z.isfinite().all():
        raise FloatingPointError(said)
    if len(samples) == len(spared) and len(Z) < ff:
        gram = Z @ Z.T
        gram.diagonal().add_(bound)
        return (torch.linalg.solve(gram, torch.eye(len(Z), n).to(gram)).T @ Z).to(K)
    system = Z.T @ Z
    for weight, C in spared:
        if isinstance(C, Tensor):
            system.add_(C.to(system), alpha=n * weight)
    # C of fewer tokens than ff has no full rank: rounding must not make the system indefinite
    system.diagonal().add_(max(float(bound), 1e-9 * float(system.diagonal().mean())))
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed:
        raise FloatingPointError(said)
    return torch.cholesky_solve(keys.T, factor).T.to(K)
