"""The vocabulary space: projecting vectors to logits, ranks, a token's one direction (§2, §3.2).

Every edit of REVS for a token t moves neurons along a single direction d_t, so that a rank is a
function of one scalar c: this file holds that geometry.

Ranks are 0-based: the number of tokens with a strictly larger logit. Ties do not count.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from revs.model.architecture import Decoder

# rows of U that are upcast at a time when it is in low precision: a CPU's stay in its cache
BLOCK = {"cpu": 1_024, "cuda": 16_384}
PROJECTIONS = ("norm", "raw")  # to logits: through the final norm, or U alone
FEW = 7  # up to FEW vectors, U·yᵀ is quicker than y·Uᵀ


def rank(logits: Tensor, t: int | Tensor) -> Tensor:
    """Eq. 1, 0-based: how many of the logits (…, V) are strictly larger than that of token t."""
    target = logits[..., t : t + 1] if isinstance(t, int) else logits.gather(-1, t[..., None])
    # int64 sums of booleans are three times slower on a CPU
    return (logits > target).sum(-1, dtype=torch.int32)


def product(U: Tensor, y: Tensor) -> Tensor:
    """U·y for one vector (d,) or several (n, d): → (V,) or (n, V)."""
    return (U @ y.T).T if y.dim() == 2 and len(y) <= FEW else y @ U.T


def epsilon(norm) -> float:
    """What a norm adds to the mean square."""
    return getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", None) or 0.0


@dataclass(frozen=True)
class Line:
    """The logits of x + c·d_t as c varies: A + c·w + s(c)·B.

    A positive factor is left out; it changes no rank. A: (n, V) for n vectors x; w: (V,). B is what
    a norm's scale s(c) multiplies: the logits of the final norm's and the head's bias, or of the
    rest of a stream besides FF₂'s output (``hidden``); (n, V), (1, V) if alike, or None.
    s(c)² = q₀ + 2c·q₁ + c²·q₂, where q₀ and q₁ are (n,) and q₂ is a number.
    """

    t: int
    A: Tensor
    w: Tensor
    scale: Tensor  # s(0), the (n,) factor between a change of logit δ and c = δ·s(0)
    B: Tensor | None = None
    q: tuple[Tensor, Tensor, Tensor] | None = None

    def rank(self, c: Tensor) -> Tensor:
        """Ranks of t at one c per vector, or of one vector at several c: c (n,) → (n,)."""
        logits = torch.addr(self.A, c, self.w - self.w[self.t])  # t's own logit stays where it is
        if self.B is not None and self.q is not None:
            q0, q1, q2 = self.q
            s = (q0 + 2 * c * q1 + c * c * q2).clamp_min(0).sqrt()
            logits.addcmul_(s[:, None], self.B - self.B[:, self.t : self.t + 1])
        return rank(logits, self.t)

    def rank_at_rest(self) -> Tensor:
        """Ranks of t before any move, (n,)."""
        return rank(self.A, self.t) if self.B is None else self.rank(torch.zeros_like(self.scale))

    def rows(self, chosen: Tensor | slice) -> "Line":
        """The same line for some of the vectors."""
        q = self.q and (self.q[0][chosen], self.q[1][chosen], self.q[2])
        B = self.B[chosen] if self.B is not None and len(self.B) > 1 else self.B
        return Line(self.t, self.A[chosen], self.w, self.scale[chosen], B, q)


MLP, STREAM = 0, 1  # the rows of ``Vocabulary.hidden``


class Vocabulary:
    """The vocabulary space of a decoder: logits(x) = U·norm(x) + b, the norm with scale γ, shift β.

    ``raw`` leaves the norm out, as the paper's text does (v = U·n). Raises ValueError if U lacks
    full column rank, or if a scale is zero and there is no ridge: the map then has no inverse.

    The paper's step s = D⁻¹U†e_t is long where a scale in D = diag(γ ⊙ g) or a singular value of U
    is small (g: the scale of a norm after FF₂). With a ``ridge`` λ, s minimises
    ‖U·D·s − e_t‖² + λ·μ·‖s‖²: it is (D·UᵀU·D + λ·μ·I)⁻¹·D·U_t, μ the mean of D·UᵀU·D's diagonal.
    """

    def __init__(self, decoder: Decoder, raw: bool = False, keep: bool = False, ridge: float = 0.0):
        norm, head = decoder.norm, decoder.head
        self.U = head.weight.detach()  # (V, d), as it is: not copied, not upcast
        self.dtype = torch.promote_types(self.U.dtype, torch.float32)
        self.raw, self.centred, self.ridge = raw, decoder.architecture.centred and not raw, ridge
        self.offset = decoder.architecture.offset
        self.gamma = torch.ones_like(self.U[0], dtype=self.dtype) if raw else self.scale_of(norm)
        self.eps = epsilon(norm)
        self.after = [decoder.after(l) for l in range(len(decoder.layers))]
        beta = None if raw else getattr(norm, "bias", None)
        self.B: Tensor | None = None
        if self.centred:
            self.B = torch.zeros(1, self.V, dtype=self.dtype, device=self.U.device)
            if beta is not None:
                self.B += self.unembed(beta.detach().to(self.U.device, self.dtype))
        if not raw and head.bias is not None:
            if self.B is None:
                said = "A head bias under an RMSNorm is not supported, for no architecture of the "
                raise ValueError(said + "table has one: choose another model.")
            self.B += head.bias.detach().to(self.dtype)
        if self.B is not None and not self.B.any():
            self.B = None  # biases of zero: logits are linear in c, and need no search
        self.gram = self._gram()
        self.factors: dict[int | None, Tensor] = {None: self._factor(None)}
        self.keep = keep  # whether to keep all directions or only the newest: a w has V numbers
        self._directions: dict[tuple[int, int | None], tuple[Tensor, Tensor]] = {}

    def scale_of(self, norm) -> Tensor:
        """The scale of a norm, (d,). Raises ValueError if part of it is zero and ridge is 0."""
        scale = norm.weight.detach().to(self.U.device, self.dtype) + self.offset
        if not self.ridge and (scale == 0).any():
            said = "A norm between FF₂ and the head has a scale of zero, so that logits have no "
            raise ValueError(
                said + "way back to hidden space: give a ridge above 0, or choose another model."
            )
        return scale

    @property
    def V(self) -> int:
        """The number of the head's rows."""
        return self.U.shape[0]

    def unembed(self, y: Tensor, tokens: slice = slice(None)) -> Tensor:
        """U·y of some tokens in float32 or better: (…, d) → (…, V). A U in low precision is upcast
        block by block."""
        y = y.to(self.U.device, self.dtype)
        if self.U.dtype == self.dtype:
            return product(self.U[tokens], y)
        return torch.cat([product(rows.to(self.dtype), y) for rows in self.blocks(tokens)], -1)

    def blocks(self, tokens: slice = slice(None)) -> tuple[Tensor, ...]:
        """U, a few rows at a time."""
        return self.U[tokens].split(BLOCK.get(self.U.device.type, BLOCK["cuda"]))

    def larger(self, x: Tensor, t: int, tokens: slice) -> Tensor:
        """How many of some tokens have a larger logit than t, for each of x (n, d): (n,)."""
        x = x.to(self.U.device, self.dtype)
        x = x - x.mean(-1, keepdim=True) if self.centred else x
        y, s = self.gamma * x, (x.square().mean(-1) + self.eps).sqrt()

        def logits(tokens: slice) -> Tensor:
            found = torch.stack([self.unembed(one, tokens) for one in y])
            return found if self.B is None else found + s[:, None] * self.B[:, tokens]

        found = logits(tokens)
        if tokens.start <= t < tokens.stop:  # rounding must not let t be larger than itself
            found[:, t - tokens.start] = -torch.inf
        return (found > logits(slice(t, t + 1))).sum(-1)

    def _gram(self) -> Tensor:
        """UᵀU (d × d) in float64."""
        d = self.U.shape[1]
        gram = torch.zeros(d, d, dtype=torch.float64, device=self.U.device)
        for block in self.blocks():
            rows = block.double()  # one block at a time: on a GPU it is larger than all the rest
            gram += rows.T @ rows
            del rows
        return gram

    def _factor(self, l: int | None) -> Tensor:
        """Cholesky factor of UᵀU or, with a ridge, of layer l's D·UᵀU·D + λ·μ·I, in float64.

        The first gives U†e_t = (UᵀU)⁻¹U_tᵀ without a pseudo-inverse. l is None for all layers
        without a norm after FF₂.
        """
        gram = self.gram
        if self.ridge:
            gram = self._scaled(self._scaled(gram, l).T, l)
            gram = gram + self.ridge * gram.diagonal().mean() * torch.eye(len(gram)).to(gram)
        factor, failed = torch.linalg.cholesky_ex(gram)
        diagonal = factor.diagonal()
        if failed or diagonal.min() < 1e-6 * diagonal.max():
            said = "The unembedding matrix lacks full column rank, so that REVS cannot map logits "
            raise ValueError(said + "back: give a ridge above 0, or choose another model.")
        return factor

    def _scaled(self, rows: Tensor, l: int | None) -> Tensor:
        """D times the columns of some rows of U (d, n), less their mean under a LayerNorm."""
        rows = self.gamma.double()[:, None] * rows
        rows = rows - rows.mean(0) if self.centred else rows
        return rows if l is None else self.scale_of(self.after[l]).double()[:, None] * rows

    def direction(self, t: int, l: int | None = None) -> tuple[Tensor, Tensor]:
        """d_t = (U†e_t) ⊘ γ, (d,), and its image w, (V,): adding δ to t's logit is n + c·d_t.

        With a ridge, both depend on the layer l if it has a norm after FF₂.
        """
        place = l if self.ridge and l is not None and self.after[l] is not None else None
        if (t, place) not in self._directions:
            if place not in self.factors:
                self.factors[place] = self._factor(place)
            of_t = self.U[t].double()[:, None]
            of_t = self._scaled(of_t, place) if self.ridge else of_t
            solved = torch.cholesky_solve(of_t, self.factors[place])[:, 0].to(self.dtype)
            if not self.ridge:
                d_t = solved / self.gamma
            else:
                d_t = solved if place is None else solved * self.scale_of(self.after[place])
            moved = d_t - d_t.mean() if self.centred else d_t
            kept = self._directions if self.keep else {}
            w = self.unembed(self.gamma * moved)
            self._directions = kept | {(t, place): (d_t, w)}
        return self._directions[t, place]

    def line(self, x: Tensor, t: int, l: int | None = None) -> Line:
        """The logits of each of the vectors x (n, d) along d_t (of a layer)."""
        x = x.to(self.U.device, self.dtype)
        d_t, w = self.direction(t, l)
        if self.raw:
            return Line(t, self.unembed(x), w, torch.ones_like(x[:, 0]))
        if not self.centred:
            return Line(t, self.unembed(self.gamma * x), w, (x.square().mean(-1) + self.eps).sqrt())
        x, d_t = x - x.mean(-1, keepdim=True), d_t - d_t.mean()
        q = (x.square().mean(-1) + self.eps, (x * d_t).mean(-1), d_t.square().mean())
        return Line(t, self.unembed(self.gamma * x), w, q[0].sqrt(), self.B, q)

    def neurons(self, l: int, n: Tensor, t: int) -> Line:
        """The lines of neurons n (K, d) of a layer, through the scale of a norm after FF₂."""
        after = self.after[l]
        return self.line(n if after is None else n.to(self.U.device) * self.scale_of(after), t, l)

    def step(self, l: int, t: int) -> Tensor:
        """The direction of a layer's neurons, (d,): d_t over the scale of any norm after FF₂."""
        d_t = self.direction(t, l)[0]
        if self.after[l] is None:
            return d_t
        g = self.scale_of(self.after[l])
        return torch.where(g == 0, 0, d_t / g)  # with a ridge s is 0 where g is

    def hidden(self, l: int, h: Tensor, x: Tensor, t: int) -> Line:
        """Two lines at one position of a layer, as h moves along ``step``.

        Row MLP is FF₂'s output h (d,), row STREAM the stream x (d,). A norm after FF₂ divides h by
        ρ and adds g⊙h/ρ to the stream. Multiplied by ρ, the stream is ρ·(x − g⊙h/ρ) + g⊙h.
        """
        h, x = h.to(self.U.device, self.dtype), x.to(self.U.device, self.dtype)
        if self.after[l] is None:
            return self.line(torch.stack([h, x]), t)
        g, step = self.scale_of(self.after[l]), self.step(l, t)
        q = (h.square().mean() + epsilon(self.after[l]), (h * step).mean(), step.square().mean())
        line = self.line((g * h)[None], t, l)
        beside = self.unembed(self.gamma * (x - g * h / q[0].sqrt()))
        B = torch.stack([torch.zeros_like(beside), beside])
        q = (q[0].repeat(2), q[1].repeat(2), q[2])
        return Line(t, line.A.repeat(2, 1), line.w, line.scale.repeat(2), B, q)
