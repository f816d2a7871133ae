"""How the paper's experiments are set up, number by number, beside ours (§4.5; Appendix).

The settings of methods are tables of ``companion.analysis.tuning``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from companion.analysis import contest, organic, results
from companion.analysis.tables import DASH
from companion.data import datasets
from companion.experiments import methods
from companion.store import paper, rows
from document_audit import candidates

DATASET, CURATION = "App. Synthetic SSN Dataset", "App. Dataset Curation"


def table(model: str, found_in: str, name: str = "machine") -> pd.DataFrame:
    """Each setting as printed and as the rows of ``model`` have it; of secrets in documents, as the
    curations of ``found_in`` called ``name`` have it."""
    of_paper = paper.tables()
    splits, prose = of_paper["splits"], of_paper["in_prose"]["settings"]
    every = contest.judging(model, *methods.PAPER_DATA)
    usual = every[(every["method"] == "revs") & every["failed"].isna()]
    asked = pd.DataFrame([row["settings"] for row in usual["row"]])
    after = pd.DataFrame([row["result"]["after"] for row in usual["row"]])
    after["data"] = list(usual["data"])
    seeds = usual.groupby("data")["seed"].agg(lambda some: listed(sorted(set(some))))
    sizes = {of: set(part["forget"]) for of, part in after.groupby("data")}
    sentences = pd.Series([record.group for record in datasets.read("ssn")]).value_counts()
    halves = ["half" if 2 * size == len(sentences) else f"{size}" for size in sizes["ssn"]]
    tunes = pd.DataFrame([row["settings"] for row in results.finetunes(model, "ssn")])
    documents = {row["result"]["documents"] for row in organic.curations(found_in, name)}
    kept, taught = set(after.loc[after["data"] == "ssn", "retain"]), of_paper["finetune_ssn"]
    searches = rows.find(kind="tune").values()
    first = {row["seed"] for row in searches if row["model"] == model}
    lines = [
        ("§3.3", "target tokens of a secret", prose["targets"], set(asked["T"])),
        ("§4.5", "candidates k", prose["k"], set(asked["score_k"])),
        ("§4.5", "seeds", listed(splits["seeds"]), set(seeds)),
        ("§4.5", "e-mails unlearned in a split", splits["forget_emails"], sizes["emails"]),
        ("§4.5", "URLs unlearned in a split", splits["forget_urls"], sizes["urls"]),
        ("§4.5", "share of SSN unlearned in a split", splits["forget_ssn"], set(halves)),
        ("§4.5", "seed of the search", splits["tuning_seed"], first),
        (DATASET, "SSNs unlearned", prose["ssn_forgotten"], sizes["ssn"]),
        (DATASET, "sentences of each", prose["ssn_sentences"], set(sentences)),
        (DATASET, "sentences kept", prose["ssn_kept_sentences"], kept),
        (DATASET, "fine-tune: learning rate", taught["lr"], set(tunes["lr"])),
        (DATASET, "fine-tune: epochs", taught["epochs"], set(tunes["epochs"])),
        (DATASET, "fine-tune: sentences in a batch", taught["batch_size"], set(tunes["batch"])),
        (CURATION, "texts searched", prose["documents"], documents),
        (CURATION, "tokens in which a secret must appear", prose["window"], {candidates.VERDICT}),
        (
            CURATION,
            "characters of the shortest URL",
            prose["url_characters"],
            {candidates.SHORTEST_URL},
        ),
    ]
    return pd.DataFrame(
        [
            (where, what, shown([theirs]), shown(ours) or DASH, verdict(theirs, ours))
            for where, what, theirs, ours in lines
        ],
        columns=["where", "what", "paper", "ours", "verdict"],
    )


def verdict(theirs: object, ours: set) -> str:
    """Is a setting the paper's in all of our rows?"""
    return "used" if ours == {theirs} else "changed"


def listed(seeds: list[int]) -> str:
    """Seeds in a row as first and last."""
    in_a_row = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))


def shown(values: Iterable) -> str:
    """Different values beside each other, thousands with a comma."""
    written = {int: "{:,}", float: "{:g}"}
    return "; ".join(
        written.get(type(value), "{}").format(value) for value in sorted(values, key=str)
    )
