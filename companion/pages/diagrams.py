"""The method in two pictures (fig:high_level_method_plot and fig:main_method_plot, drawn anew): an answer before and after, and a neuron's edit.

Nothing in them is made up: the first has the ranks of a run, the second is an edit by ``revs.method.algorithm`` in a model so small that
every number of a neuron can be drawn.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from companion.pages.figures import INK, look
from companion.record import rows
from companion.runs import datasets
from revs.measures import evaluate
from revs.method.algorithm import Hyperparameters, edit_until_low
from revs.method.neuron import Seen, select_neurons
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder

TARGET = look("revs")["color"]


# --- what is drawn ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One unlearned sentence: its prompt, its secret in pieces as the tokenizer groups them, which are targets, all ranks after the edit."""

    prompt: str
    pieces: list[str]
    T: list[int]
    ranks: list[int]

    @property
    def deepest(self) -> int:
        """The target that fell furthest."""
        return max(self.T, key=self.ranks.__getitem__)


def points(case: Case) -> pd.DataFrame:
    """What the first picture draws: each piece of the secret, whether it is a target, and its rank after the edit."""
    return pd.DataFrame(
        {
            "piece": case.pieces,
            "target": [i in case.T for i in range(len(case.pieces))],
            "rank": case.ranks,
        }
    )


def case(row: dict, data: str) -> Case:
    """Of a run's forgotten sentences the one in the middle: in half of the others a target fell further.

    The data set must be of numbers, in which two or three digits are a token.
    """
    items = rows.items(row)
    forgotten = items[items["part"] == "forget"].copy()
    forgotten["deepest"] = [
        max(ranks[i] for i in T) for ranks, T in zip(forgotten["ranks"], forgotten["T"])
    ]
    middle = forgotten.sort_values("deepest", kind="stable").iloc[len(forgotten) // 2]
    record = {record.id: record for record in datasets.read(data)}[middle["id"]]
    return Case(
        record.prompt.strip(), re.findall(r"\d{1,3}|-", record.secret), middle["T"], middle["ranks"]
    )


@dataclass(frozen=True)
class Example:
    """One edited layer of a tiny model: ranks are of the target token t, lists of neurons in the order in which they are edited."""

    t: int
    r_h: int
    r_n: int
    by_layer: list[int]  # rank of t in FF₂'s output of every layer, before any edit
    layer: int  # the one that is drawn
    a: Tensor  # activations of its neurons, (ff,)
    candidates: list[int]  # the k most activated
    neurons: list[int]  # those of them that are edited, by rank
    in_neuron: list[int]  # rank of t in each candidate, in the order of ``candidates``
    n: Tensor  # the first of ``neurons``, (d,)
    moved: Tensor  # the same after the edit
    v: Tensor  # its logits, (V,)
    v_moved: Tensor  # and after the edit
    path: list[int]  # rank of t in FF₂'s output after 0, 1, … edited neurons

    @property
    def k(self) -> int:
        return len(self.candidates)


def example(seed: int = 2499) -> Example:
    """REVS as §3 has it, with ranks in FF₂'s output, in a Llama of random weights: 12 tokens, width 6, 5 layers of 8 neurons. t is what it would write next."""
    shape = {
        "vocab_size": 12,
        "hidden_size": 6,
        "intermediate_size": 8,
        "num_hidden_layers": 5,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "max_position_embeddings": 16,
        "initializer_range": 0.8,
    }
    config = AutoConfig.for_model(
        "llama", **shape, bos_token_id=None, eos_token_id=None, pad_token_id=None
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        decoder = Decoder(AutoModelForCausalLM.from_config(config).double().eval(), None)
    vocabulary, ids = Vocabulary(decoder), [1, 2, 3]
    hp = Hyperparameters(n_max=4, k=4, r_h=6, eps_r_h=0, r_n=9, eps_r_n=0, gate="mlp", stop="mlp")
    seen: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
    decoder.visit(ids, lambda l, a, h, x: seen.update({l: (a[-1], h[-1], x[-1])}))
    t = int(decoder.logits(decoder.norm(seen[len(decoder.layers) - 1][2])).argmax())
    by_layer = evaluate.ranks_by_layer(decoder, vocabulary, ids, t)[:, 0].tolist()
    layer = next(l for l, r in enumerate(by_layer) if r < hp.r_h)
    a, h, x = seen[layer]
    weight, hidden = decoder.neurons(layer).detach(), vocabulary.hidden(layer, h, x, t)
    order, line = select_neurons(vocabulary, Seen(layer, weight, a), t, hp)
    c, _ = edit_until_low(hidden, line, a[order], hp)
    n, candidates = weight[:, order[0]], a.topk(hp.k).indices.tolist()
    moved = n + c[0] * vocabulary.step(layer, t)
    S = torch.cat([c.new_zeros(1), (a[order[: len(c)]] * c).cumsum(0)])
    return Example(
        t, hp.r_h, hp.r_n, by_layer, layer, a, candidates, order[: len(c)].tolist(), vocabulary.neurons(layer, weight[:, candidates].T, t).rank_at_rest().tolist(),
        n, moved, line.A[0], vocabulary.neurons(layer, moved[None], t).A[0], hidden.rows(slice(0, 1)).repeat(len(S)).rank(S).tolist(),
    )  # fmt: skip


# --- strokes ---------------------------------------------------------------------------------------------------------


def canvas(ax: Axes, height: float) -> None:
    """An empty drawing area, 100 units wide."""
    ax.set(xlim=(-1, 101), ylim=(0, height), aspect="equal")
    ax.axis("off")


def write(ax: Axes, x: float, y: float, words: str, size: float = 8.5, **more) -> None:
    ax.text(
        x,
        y,
        words,
        fontsize=size,
        **{"ha": "center", "va": "center", "color": INK, "linespacing": 1.35} | more,
    )


def heading(ax: Axes, x: float, y: float, number: int, title: str, words: str) -> None:
    write(ax, x, y, f"{number}  {title}", 10.5, ha="left", va="top", weight="bold")
    write(ax, x, y - 3.6, words, ha="left", va="top")


def box(
    ax: Axes, x: float, y: float, width: float, height: float, colour: str = INK, wash: float = 0.0
) -> None:
    """A rounded box with its lower left corner at (x, y), washed with its colour."""
    shape = {"boxstyle": "round,pad=0,rounding_size=0.6"}
    ax.add_patch(
        FancyBboxPatch(
            (x, y), width, height, facecolor=colour, edgecolor="none", alpha=wash, **shape
        )
    )
    ax.add_patch(
        FancyBboxPatch(
            (x, y), width, height, facecolor="none", edgecolor=colour, linewidth=1.1, **shape
        )
    )


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = INK,
    path: str = "arc3,rad=0",
) -> None:
    ax.annotate(
        "",
        end,
        start,
        arrowprops={
            "arrowstyle": "-|>",
            "color": colour,
            "linewidth": 1.2,
            "shrinkA": 0,
            "shrinkB": 0,
            "connectionstyle": path,
        },
    )


# --- the first picture -----------------------------------------------------------------------------------------------


def unlearning(ax: Axes, case: Case) -> None:
    """The secret stands in the training text, the model writes it, and after REVS its target tokens rank low: three columns."""
    canvas(ax, 54)
    prompt, deepest = (
        textwrap.fill("… " + " ".join(case.prompt.split()[-7:]), 30),
        max(1000, *case.ranks),
    )
    columns = (
        (0, "Memorised", "The model was trained on a\nsentence with a secret."),
        (36, "Written back", "Asked to go on, it puts every\ntoken of the secret first."),
        (72, "Unlearned", "Target tokens rank low:\nthe secret is not written."),
    )
    for number, (x, title, words) in enumerate(columns, 1):
        heading(ax, x, 54, number, title, words)
        box(ax, x, 33.5, 28, 9.5)
        write(ax, x + 14, 38.2 if number > 1 else 39.5, prompt)
        model(ax, x, 26, edited=(5, 6, 8) if number == 3 else ())
    write(ax, 14, 35.2, "".join(case.pieces), weight="bold", color=TARGET)

    def level(r: int) -> float:
        return 18 - 14 * math.log1p(r) / math.log1p(deepest)

    pieces(ax, 14, case, [level(0)] * len(case.pieces))
    write(ax, 14, 12.6, "its tokens: the two rarest\nare the targets")
    write(ax, 34.5, 22, "rank", ha="right")
    write(ax, 34.5, level(0), "0", ha="right")
    for r in (r for r in (10, 100, 1000, 10_000) if r <= deepest):
        write(ax, 34.5, level(r), f"{r:,}", ha="right")
        ax.plot((36, 100), (level(r), level(r)), color=INK, linewidth=0.6, alpha=0.35, zorder=0)
    pieces(ax, 50, case, [level(0)] * len(case.pieces))
    pieces(ax, 86, case, [level(r) for r in case.ranks], case.ranks)


def model(ax: Axes, x: float, y: float, edited: tuple[int, ...]) -> None:
    """A model as a row of ten layers between what it reads and what it writes; the edited ones with some columns in colour."""
    arrow(ax, (x + 14, y + 7), (x + 14, y + 3.6))
    for l in range(10):
        left = x + 0.9 + 2.65 * l
        box(ax, left, y, 2.1, 3)
        if l in edited:
            for column in (0.45, 1.15):
                ax.add_patch(
                    Rectangle((left + column, y + 0.5), 0.45, 2, color=TARGET, linewidth=0)
                )
    arrow(ax, (x + 14, y - 0.6), (x + 14, y - 4))


def pieces(
    ax: Axes, middle: float, case: Case, heights: list[float], ranks: list[int] | None = None
) -> None:
    """The secret's tokens side by side, each at its height, targets in colour; those that fell with their rank below them and, where there is room, an arrow."""
    top, widths = max(heights), [1.7 + 1.05 * len(piece) for piece in case.pieces]
    x = middle - (sum(widths) + 0.6 * (len(widths) - 1)) / 2
    for i, (piece, y, width) in enumerate(zip(case.pieces, heights, widths)):
        colour = TARGET if i in case.T else INK
        box(ax, x, y - 1.4, width, 2.8, colour, 0.2 if i in case.T else 0)
        write(
            ax,
            x + width / 2,
            y - 0.15,
            piece,
            color=colour,
            weight="bold" if i in case.T else "normal",
        )
        if y < top:
            write(ax, x + width / 2, y - 2.9, f"{ranks[i]:,}", color=TARGET, weight="bold")
        if top - y > 3:
            arrow(ax, (x + width / 2, top), (x + width / 2, y + 1.6), TARGET)
        x += width + 0.6


# --- the second picture ----------------------------------------------------------------------------------------------


def editing(ax: Axes, it: Example) -> None:
    """Alg. 1 and EditNeuron as four panels: a model's layers, a layer's neurons, one neuron's edit, the layer after it; and the loop."""
    canvas(ax, 88)
    select_layers(ax, it)
    select_neuron(ax, it)
    edit_neuron(ax, it)
    until(ax, it)


def select_layers(ax: Axes, it: Example) -> None:
    """The stream with FF₂ of every layer, and the target's rank in what each writes."""
    heading(ax, 0, 88, 1, "Layers", f"$t$ ranks above $r_h$ = {it.r_h}\nin what FF₂ writes:")
    arrow(ax, (1.5, 47), (1.5, 77))
    for l, r in enumerate(it.by_layer):
        y, colour, on = 49 + 5.4 * l, TARGET if r < it.r_h else INK, r < it.r_h
        box(ax, 6, y, 7, 3.6, colour, 0.2 if on else 0)
        write(ax, 9.5, y + 1.7, "FF₂", color=colour)
        arrow(ax, (6, y + 1.8), (1.8, y + 1.8), colour)
        write(
            ax,
            14.5,
            y + 1.7,
            f"rank {r}",
            ha="left",
            color=colour,
            weight="bold" if on else "normal",
        )
    write(ax, 0, 45, "stream", ha="left")
    y = 49 + 5.4 * it.layer + 1.8
    arrow(ax, (22, y), (28, y), TARGET)


def select_neuron(ax: Axes, it: Example) -> None:
    """The columns of one FF₂, their activations, the k most active, and the target's rank in each of these."""
    heading(
        ax,
        30,
        88,
        2,
        "Neurons of a layer",
        f"of the $k$ = {it.k} most active, first\nthose in which $t$ ranks highest:",
    )
    for y, words in ((73.5, "$a$"), (62.5, "FF₂"), (54, "rank"), (50, "order")):
        write(ax, 30, y, words, ha="left")
    for j, activation in enumerate(it.a.tolist()):
        x, place = column(j), it.candidates.index(j) if j in it.candidates else None
        colour, chosen = INK if place is None else TARGET, j in it.neurons
        ax.add_patch(
            Rectangle(
                (x + 0.6, 73),
                1.4,
                4 * activation / float(it.a.abs().max()),
                color=colour,
                linewidth=0,
            )
        )
        box(ax, x, 57, 2.6, 11, colour, 0 if place is None else 0.75 if chosen else 0.2)
        if place is not None:
            write(ax, x + 1.3, 54, str(it.in_neuron[place]), color=colour, weight="bold")
        if chosen:
            write(ax, x + 1.3, 50, str(it.neurons.index(j) + 1), color=colour, weight="bold")
    ax.plot((column(0) - 0.5, column(len(it.a)) - 0.5), (73, 73), color=INK, linewidth=0.8)


def column(j: int) -> float:
    """Where a neuron of the second panel stands."""
    return 36 + 3.6 * j


def edit_neuron(ax: Axes, it: Example) -> None:
    """A neuron, its logits, the same with the target at rank r_n, and the neuron that has them: the three steps of the paper's figure."""
    x = column(it.neurons[0]) + 1.3
    ax.plot((x, x, 3.2), (48.2, 34.5, 34.5), color=TARGET, linewidth=1.2)
    arrow(ax, (3.2, 34.6), (3.2, 30.5), TARGET)
    heading(ax, 0, 42, 3, "One neuron", "gets logits in which $t$ ranks low:")
    size = max(float(it.v.abs().max()), float(it.v_moved.abs().max()))
    vector(ax, 0, it.n, "$n$")
    step(ax, 8, "$U$", "to logits")
    logits(ax, 21, it.v / size, it.t, "$v = Un$")
    step(ax, 44, "$v_t$ falls", f"to rank $r_n$ = {it.r_n}")
    logits(ax, 60, it.v_moved / size, it.t, "$v$, edited")
    step(ax, 82, r"$U^\dagger$", "and back")
    vector(ax, 93.6, it.moved, "$n^*$")
    arrow(ax, (96.8, 30.5), (96.8, 49), TARGET)


def vector(ax: Axes, x: float, values: Tensor, name: str) -> None:
    """A neuron's numbers, one cell each."""
    write(ax, x + 3.2, 28.6, name, 10)
    for i, value in enumerate(values.tolist()):
        box(ax, x, 22.6 - 4 * i, 6.4, 3.4)
        write(ax, x + 3.2, 24.2 - 4 * i, f"{value:.1f}".replace("-", "−"))


def step(ax: Axes, x: float, above: str, below: str) -> None:
    """An arrow to the right with its name."""
    arrow(ax, (x, 14.3), (x + 10, 14.3), TARGET)
    write(ax, x + 4.6, 16.8, above, 9.5)
    write(ax, x + 4.6, 11.8, below)


def logits(ax: Axes, x: float, values: Tensor, t: int, name: str) -> None:
    """All tokens by logit, highest first, as bars on both sides of zero; the target's in colour, its rank bold."""
    write(ax, x + 11, 28.6, name, 10)
    for r, j in enumerate(values.argsort(descending=True).tolist()):
        y, on = 24.6 - 2.1 * r, j == t
        ax.add_patch(
            Rectangle(
                (x + 11, y),
                8 * float(values[j]),
                1.5,
                color=TARGET if on else INK,
                linewidth=0,
                alpha=1 if on else 0.5,
            )
        )
        write(
            ax,
            x + 1.4,
            y + 0.65,
            str(r),
            8,
            ha="right",
            color=TARGET if on else INK,
            weight="bold" if on else "normal",
        )
    ax.plot((x + 11, x + 11), (0.8, 26.8), color=INK, linewidth=0.8)


def until(ax: Axes, it: Example) -> None:
    """The target's rank in what the layer writes, after each edited neuron, down to r_h: the loop of Alg. 1."""
    heading(
        ax, 75, 88, 4, "The layer again", "$t$ falls with every neuron,\nuntil $r_h$ is reached:"
    )
    deepest, left, right = max(it.path[-1], it.r_h), 80, 99
    x = [left + 3 + (right - left - 6) * K / (len(it.path) - 1) for K in range(len(it.path))]
    y = [75 - 19 * r / deepest for r in it.path]
    ax.plot((left, right), 2 * [75 - 19 * it.r_h / deepest], "--", color=INK, linewidth=1)
    ax.plot(x, y, color=TARGET, linewidth=1.4, marker="o", markersize=5)
    for K, r in enumerate(it.path):
        write(ax, x[K] + 1.3, y[K] + 1.8, str(r), color=TARGET, weight="bold", ha="left")
        write(ax, x[K], 52, str(K))
    write(ax, left - 1, 75, "rank", ha="right")
    write(ax, left - 1, 75 - 19 * it.r_h / deepest, "$r_h$", ha="right")
    write(ax, left - 1, 52, "edited", ha="right")
    arrow(ax, (72.5, 48), (54, 48), TARGET)
    write(ax, 63, 46, "next neuron")
