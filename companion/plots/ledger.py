"""The ledger as a picture: a line per claim, a column per data set."""

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from companion.claims.ledger import FAILS, HOLDS, UNKNOWN

COLOURS = {  # strong, weak: black is readable on both
    HOLDS: ("#56b4e9", "#d5ecfa"),
    FAILS: ("#e69f00", "#f8e2b3"),
    UNKNOWN: ("#d9d9d9", "#d9d9d9"),
}
WORDS = {HOLDS: "holds", FAILS: "does not", UNKNOWN: "–"}
WIDTH = 60  # characters of a claim in one line


def grid(ledger: pd.DataFrame) -> Figure:
    """Every verdict in its cell; weak ones are faint."""
    claims = ledger["claim"].unique()[::-1].tolist()
    data = ledger["data"].unique().tolist()
    fig, ax = plt.subplots(figsize=(8.5, 0.36 * len(claims) + 0.6), layout="constrained")
    for line in ledger.itertuples():
        x, y = data.index(line.data), claims.index(line.claim)
        faint = line.weak or line.verdict == UNKNOWN
        ax.bar(x, 0.9, 0.94, y - 0.45, color=COLOURS[line.verdict][bool(faint)])
        look = {"ha": "center", "va": "center", "fontsize": 8, "color": "black"}
        ax.text(x, y, WORDS[line.verdict], weight="normal" if faint else "bold", **look)
    ax.set_xticks(range(len(data)), data)
    ax.set_yticks(range(len(claims)), [textwrap.fill(one, WIDTH) for one in claims], fontsize=8)
    ax.xaxis.tick_top()
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return fig
