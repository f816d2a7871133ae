"""How the paper's experiments are set up, number by number, beside ours. The settings of methods are tables of ``companion.pages.tuning``."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from companion.own import curate
from companion.pages import organic, results
from companion.pages.tables import DASH
from companion.runs import datasets, methods

USED, CHANGED, UNMEASURED = VERDICTS = ("used", "changed", "no rows yet")


def table(model: str, found_in: str, name: str = "machine") -> pd.DataFrame:
    """Each setting as printed and as the rows of ``model`` have it; of secrets in documents, as the curations of ``found_in`` called ``name`` have it."""
    of_paper = paper.tables()
    splits, prose = of_paper["splits"], of_paper["in_prose"]["settings"]
    every = {stem: results.measured(model, stem) for stem in methods.PAPER_DATA}
    runs = {
        stem: list(results.finished(frame[frame["tag"] == ""], "revs"))
        for stem, frame in every.items()
    }
    given = [row["provenance"]["settings"] for done in runs.values() for row in done]
    after = {stem: [row["result"]["after"] for row in done] for stem, done in runs.items()}
    sentences = pd.Series([record.group for record in datasets.read("ssn")]).value_counts()
    tunes = [row["provenance"]["settings"] for row in results.finetunes(model, "ssn")]
    trials = [
        seed
        for frame in every.values()
        for seed, tag in zip(frame["seed"], frame["name"])
        if results.is_trial(tag)
    ]
    seeds = sorted({one["seed"] for one in given})
    lines = [
        ("§3.3", "target tokens of a secret", prose["targets"], {one["T"] for one in given}),
        ("§4.5", "candidates k", prose["k"], {one["score_k"] for one in given}),
        ("§4.5", "seeds", listed(splits["seeds"]), {listed(seeds)} if seeds else ()),
        ("§4.5", "e-mails unlearned in a split", splits["forget_emails"], {one["forget"] for one in after["emails"]}),
        ("§4.5", "URLs unlearned in a split", splits["forget_urls"], {one["forget"] for one in after["urls"]}),
        ("§4.5", "share of SSN unlearned in a split", splits["forget_ssn"], {"half" if 2 * one["forget"] == len(sentences) else f"{one['forget']} of {len(sentences)}" for one in after["ssn"]}),
        ("§4.5", "seed of the search", splits["tuning_seed"], set(trials)),
        ("App. Synthetic SSN Dataset", "SSNs unlearned", prose["ssn_forgotten"], {one["forget"] for one in after["ssn"]}),
        ("App. Synthetic SSN Dataset", "sentences of each", prose["ssn_sentences"], set(sentences)),
        ("App. Synthetic SSN Dataset", "sentences kept", prose["ssn_kept_sentences"], {one["retain"] for one in after["ssn"]}),
        *(("App. Synthetic SSN Dataset", f"fine-tune: {words}", of_paper["finetune_ssn"][theirs], {one[ours] for one in tunes}) for theirs, ours, words in (("lr", "lr", "learning rate"), ("epochs", "epochs", "epochs"), ("batch_size", "batch", "sentences in a batch"))),
        ("App. Dataset Curation", "texts searched", prose["documents"], {row["result"]["documents"] for row in organic.curations(found_in, name)}),
        ("App. Dataset Curation", "tokens in which a secret must appear", prose["window"], {curate.VERDICT}),
        ("App. Dataset Curation", "characters of the shortest URL", prose["url_characters"], {curate.SHORTEST_URL}),
    ]  # fmt: skip
    return pd.DataFrame(
        [
            {
                "where": where,
                "what": what,
                "paper": shown([theirs]),
                "ours": shown(ours) or DASH,
                "verdict": verdict(theirs, ours),
            }
            for where, what, theirs, ours in lines
        ]
    )


def verdict(theirs: object, ours: Iterable) -> str:
    """Is a setting the paper's in all of our rows?"""
    return UNMEASURED if not set(ours) else USED if set(ours) == {theirs} else CHANGED


def listed(seeds: list[int]) -> str:
    """Seeds in a row as first and last."""
    return (
        f"{seeds[0]}–{seeds[-1]}"
        if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
        else ", ".join(map(str, seeds))
    )


def shown(values: Iterable) -> str:
    """Different values beside each other, thousands with a comma."""
    return "; ".join(
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:g}"
        if isinstance(value, float)
        else value
        for value in sorted(values, key=str)
    )
