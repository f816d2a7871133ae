"""The method in two pictures (fig:high_level_method_plot and fig:main_method_plot, redrawn).

Both show real numbers: the first the ranks of a run, the second an edit by
``revs.method.algorithm`` in a model so small that every number of a neuron can be drawn.
"""

import math
import textwrap
from dataclasses import dataclass

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from companion.plots.figures import INK, look
from revs.measures import evaluate
from revs.method.algorithm import Hyperparameters, edit_until_low
from revs.method.selection import LayerState, select_neurons
from revs.method.vocabulary import Vocabulary
from revs.model.architecture import Decoder

TARGET = look("revs")["color"]
TINY = {"vocab_size": 12, "hidden_size": 6, "intermediate_size": 8, "num_hidden_layers": 5}
TINY |= {"num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 16}
TINY |= {"initializer_range": 0.8} | dict.fromkeys(f"{at}_token_id" for at in ("bos", "eos", "pad"))


@dataclass(frozen=True)
class Example:
    """One edited layer of a tiny model; ranks are of the target token t, neurons in their order."""

    t: int
    hp: Hyperparameters
    by_layer: list[int]  # rank of t in FF₂'s output of every layer, before any edit
    layer: int  # the one that is drawn
    a: Tensor  # activations of its neurons, (ff,)
    candidates: list[int]  # the k most activated
    neurons: list[int]  # those of them that are edited, by rank
    in_neuron: list[int]  # rank of t in each candidate, in the order of ``candidates``
    n: tuple[Tensor, Tensor]  # the first of ``neurons``, before and after the edit, (d,)
    v: tuple[Tensor, Tensor]  # its logits, before and after, (V,)
    path: list[int]  # rank of t in FF₂'s output after 0, 1, … edited neurons


def example() -> Example:
    """An edit as in §3, with ranks in FF₂'s output, of a tiny Llama; t is its next token."""
    with torch.random.fork_rng():
        torch.manual_seed(2499)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **TINY))
    decoder = Decoder(model.double().eval(), None)
    vocabulary, ids, seen = Vocabulary(decoder), [1, 2, 3], []
    hp = Hyperparameters(n_max=4, k=4, r_h=6, eps_r_h=0, r_n=9, eps_r_n=0, gate="mlp", stop="mlp")
    decoder.run_by_layer(ids, lambda _, a, h, x: seen.append((a[-1], h[-1], x[-1])))
    t = int(decoder.logits(decoder.norm(seen[-1][2])).argmax())
    by_layer = evaluate.ranks_by_layer(decoder, vocabulary, ids, t)[:, 0].tolist()
    layer = next(number for number, r in enumerate(by_layer) if r < hp.r_h)
    a, h, x = seen[layer]
    weight, hidden = decoder.neurons(layer).detach(), vocabulary.hidden(layer, h, x, t)
    order, line = select_neurons(vocabulary, LayerState(layer, weight, a, h, x), t, hp)
    c, _ = edit_until_low(hidden, line, a[order], hp)
    n, candidates = weight[:, order[0]], a.topk(hp.k).indices.tolist()
    moved = n + c[0] * vocabulary.step(layer, t)
    S = torch.cat([c.new_zeros(1), (a[order[: len(c)]] * c).cumsum(0)])
    looked = vocabulary.neurons(layer, weight[:, candidates].T, t).rank_at_rest().tolist()
    path = hidden.rows(slice(0, 1)).rank(S).tolist()
    v = line.A[0], vocabulary.neurons(layer, moved[None], t).A[0]
    edited = order[: len(c)].tolist()
    return Example(t, hp, by_layer, layer, a, candidates, edited, looked, (n, moved), v, path)


def write(ax: Axes, x: float, y: float, words: object, on: bool = False, **more) -> None:
    """A text in the middle of a place; ``on``: in colour and bold."""
    look = {"ha": "center", "va": "center", "color": INK, "linespacing": 1.35, "fontsize": 8.5}
    ax.text(x, y, str(words), **look | ({"color": TARGET, "weight": "bold"} if on else {}) | more)


def heading(ax: Axes, x: float, y: float, title: str, words: str) -> None:
    write(ax, x, y, title, ha="left", va="top", weight="bold", fontsize=10.5)
    write(ax, x, y - 3.6, words, ha="left", va="top")


def box(ax: Axes, x: float, y: float, size: tuple[float, float], wash: float = 0) -> None:
    """A rounded box with its lower left corner at (x, y); washed with colour, or empty and grey."""
    look, edge = {"boxstyle": "round,pad=0,rounding_size=0.6"}, TARGET if wash else INK
    filled = look | {"facecolor": edge, "edgecolor": "none", "alpha": wash}
    ax.add_patch(FancyBboxPatch((x, y), *size, **filled))
    lined = look | {"facecolor": "none", "edgecolor": edge, "linewidth": 1.1}
    ax.add_patch(FancyBboxPatch((x, y), *size, **lined))


def bar(ax: Axes, x: float, y: float, size: tuple[float, float], on: bool, alpha: float = 1):
    ax.add_patch(Rectangle((x, y), *size, color=TARGET if on else INK, linewidth=0, alpha=alpha))


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], on: bool = True) -> None:
    look = {"arrowstyle": "-|>", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=look | {"color": TARGET if on else INK})


def unlearning(ax: Axes, prompt: str, points: pd.DataFrame) -> None:
    """A secret is in the training text, is written back, and ranks low: three columns.

    ``points`` has a line per token of the secret: piece, target, rank after the edit.
    """
    ax.set(xlim=(-1, 101), ylim=(0, 54), aspect="equal")
    ax.axis("off")
    deepest, left = max(1000, points["rank"].max()), textwrap.fill(prompt, 30)
    heading(ax, 0, 54, "1  Memorised", "The model was trained on a\nsentence with a secret.")
    words = "Asked to go on, it puts every\ntoken of the secret first."
    heading(ax, 36, 54, "2  Written back", words)
    heading(ax, 72, 54, "3  Unlearned", "Target tokens rank low:\nthe secret is not written.")
    for x, edited in ((0, ()), (36, ()), (72, (5, 6, 8))):
        box(ax, x, 33.5, (28, 9.5))
        write(ax, x + 14, 38.2 if x else 39.5, left)
        arrow(ax, (x + 14, 33), (x + 14, 29.6), on=False)
        for number in range(10):  # layers of the model; columns of those that are edited
            box(ax, x + 0.9 + 2.65 * number, 26, (2.1, 3))
            for place in (0.45, 1.15) if number in edited else ():
                bar(ax, x + 0.9 + 2.65 * number + place, 26.5, (0.45, 2), on=True)
        arrow(ax, (x + 14, 25.4), (x + 14, 22), on=False)
    write(ax, 14, 35.2, "".join(points["piece"]), on=True)
    write(ax, 14, 12.6, "its tokens: the two rarest\nare the targets")
    write(ax, 34.5, 22, "rank", ha="right")
    marks = [r for r in (0, 10, 100, 1000, 10_000) if r <= deepest]
    height = {r: 18 - 14 * math.log1p(r) / math.log1p(deepest) for r in marks}
    for r, y in height.items():
        write(ax, 34.5, y, f"{r:,}", ha="right")
        if r:
            ax.plot((36, 100), (y, y), color=INK, linewidth=0.6, alpha=0.35, zorder=0)
    points = points.assign(fallen=18 - 14 * points["rank"].map(math.log1p) / math.log1p(deepest))
    for middle in (14, 50, 86):
        own = points if middle == 86 else points.assign(fallen=18.0)
        secret(ax, middle, own, list(height.values()))


def secret(ax: Axes, middle: float, points: pd.DataFrame, levels: list[float]) -> None:
    """Its tokens side by side, each at its height; those that fell with their rank below them, as
    far as it can be from the lines at ``levels``."""
    widths = 1.7 + 1.05 * points["piece"].str.len()
    x, top = middle - (widths.sum() + 0.6 * (len(points) - 1)) / 2, points["fallen"].max()
    for width, (piece, on, rank, y) in zip(widths, points.itertuples(index=False), strict=True):
        box(ax, x, y - 1.4, (width, 2.8), 0.2 * on)
        write(ax, x + width / 2, y - 0.15, piece, on=on)
        if y < top:
            apart = lambda below, y=y: min(abs(y - below - level) for level in levels)
            write(ax, x + width / 2, y - max((2.9, 4.1), key=apart), f"{rank:,}", on=True)
        if top - y > 3:
            arrow(ax, (x + width / 2, top), (x + width / 2, y + 1.6))
        x += width + 0.6


def editing(ax: Axes, it: Example) -> None:
    """Alg. 1 and EditNeuron: a model's layers, a layer's neurons, one neuron's edit; and again."""
    ax.set(xlim=(-1, 101), ylim=(0, 88), aspect="equal")
    ax.axis("off")
    panel_neurons(ax, it)
    panel_one(ax, it)
    panel_again(ax, it)
    heading(ax, 0, 88, "1  Layers", f"$t$ ranks above $r_h$ = {it.hp.r_h}\nin what FF₂ writes:")
    arrow(ax, (1.5, 47), (1.5, 77), on=False)
    for y, r in zip((49 + 5.4 * number for number in range(99)), it.by_layer, strict=False):
        on = r < it.hp.r_h
        box(ax, 6, y, (7, 3.6), 0.2 * on)
        write(ax, 9.5, y + 1.7, "FF₂", color=TARGET if on else INK)
        arrow(ax, (6, y + 1.8), (1.8, y + 1.8), on=on)
        write(ax, 14.5, y + 1.7, f"rank {r}", on=on, ha="left")
    write(ax, 0, 45, "stream", ha="left")
    arrow(ax, (22, 50.8 + 5.4 * it.layer), (28, 50.8 + 5.4 * it.layer))


def panel_neurons(ax: Axes, it: Example) -> None:
    """The columns of an FF₂, their activations, and the rank of t in the most active of them."""
    words = f"of the $k$ = {it.hp.k} most active, first\nthose in which $t$ ranks highest:"
    heading(ax, 30, 88, "2  Neurons of a layer", words)
    for y, word in ((73.5, "$a$"), (62.5, "FF₂"), (54, "rank"), (50, "order")):
        write(ax, 30, y, word, ha="left")
    for j, activation in enumerate((4 * it.a / it.a.abs().max()).tolist()):
        x, on, chosen = 36 + 3.6 * j, j in it.candidates, j in it.neurons
        bar(ax, x + 0.6, 73, (1.4, activation), on)
        box(ax, x, 57, (2.6, 11), 0.75 if chosen else 0.2 * on)
        if on:
            write(ax, x + 1.3, 54, it.in_neuron[it.candidates.index(j)], on=True)
        if chosen:
            write(ax, x + 1.3, 50, it.neurons.index(j) + 1, on=True)
    ax.plot((35.5, 35.5 + 3.6 * len(it.a)), (73, 73), color=INK, linewidth=0.8)


def panel_one(ax: Axes, it: Example) -> None:
    """A neuron, its logits, these with t at rank r_n, and the edited neuron that yields them."""
    x, size = 37.3 + 3.6 * it.neurons[0], max(float(v.abs().max()) for v in it.v)
    ax.plot((x, x, 3.2), (48.2, 34.5, 34.5), color=TARGET, linewidth=1.2)
    arrow(ax, (3.2, 34.6), (3.2, 30.5))
    heading(ax, 0, 42, "3  One neuron", "gets logits in which $t$ ranks low:")
    falls = "$v_t$ falls", f"to rank $r_n$ = {it.hp.r_n}"
    for x, above, below in (
        (8, "$U$", "to logits"),
        (44, *falls),
        (82, r"$U^\dagger$", "and back"),
    ):
        arrow(ax, (x, 14.3), (x + 10, 14.3))
        write(ax, x + 4.6, 16.8, above, fontsize=9.5)
        write(ax, x + 4.6, 11.8, below)
    for x, name, values in ((0, "$n$", it.n[0]), (93.6, "$n^*$", it.n[1])):
        write(ax, x + 3.2, 28.6, name, fontsize=10)
        for i, value in enumerate(values.tolist()):
            box(ax, x, 22.6 - 4 * i, (6.4, 3.4))
            write(ax, x + 3.2, 24.2 - 4 * i, f"{value:.1f}".replace("-", "−"))
    for x, name, v in ((21, "$v = Un$", it.v[0] / size), (60, "$v$, edited", it.v[1] / size)):
        write(ax, x + 11, 28.6, name, fontsize=10)
        for r, j in enumerate(v.argsort(descending=True).tolist()):
            y, on = 24.6 - 2.1 * r, j == it.t
            bar(ax, x + 11, y, (8 * float(v[j]), 1.5), on, alpha=1 if on else 0.5)
            write(ax, x + 1.4, y + 0.65, r, on=on, fontsize=8, ha="right")
        ax.plot((x + 11, x + 11), (0.8, 26.8), color=INK, linewidth=0.8)
    arrow(ax, (96.8, 30.5), (96.8, 49))


def panel_again(ax: Axes, it: Example) -> None:
    """The rank of t in what the layer writes, after each edited neuron: the loop of Alg. 1."""
    words = "$t$ falls with every neuron,\nuntil $r_h$ is reached:"
    heading(ax, 75, 88, "4  The layer again", words)
    steps, level = len(it.path) - 1, 19 / max(it.path[-1], it.hp.r_h)
    x, y = [83 + 13 * K / steps for K in range(steps + 1)], [75 - level * r for r in it.path]
    ax.plot((80, 99), 2 * [75 - level * it.hp.r_h], "--", color=INK, linewidth=1)
    ax.plot(x, y, color=TARGET, linewidth=1.4, marker="o", markersize=5)
    for K, r in enumerate(it.path):
        write(ax, x[K] + 1.3, y[K] + 1.8, r, on=True, ha="left")
        write(ax, x[K], 52, K)
    for height, word in ((75, "rank"), (75 - level * it.hp.r_h, "$r_h$"), (52, "edited")):
        write(ax, 79, height, word, ha="right")
    arrow(ax, (72.5, 48), (54, 48))
    write(ax, 63, 46, "next neuron")
