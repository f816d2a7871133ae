"""What unlearned secrets become, and what stays known (Appendix "Qualitative Unlearning Examples"): runs tagged ``qualitative``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from companion.pages import paper
from companion.pages.results import measured
from companion.pages.tables import DASH
from companion.record import rows
from companion.runs import datasets, methods, public
from companion.runs import instead

TAG = "qualitative"
PRINTED = "tab:unlearn_email_example"
WORDS = 6  # of a prompt, shown before an invented secret


def runs(model: str, measure: str) -> dict[str, dict[str, dict]]:
    """Rows with one of the measures: data set → method → row."""
    found: dict[str, dict[str, dict]] = {}
    frame = measured(model, *methods.PAPER_DATA)
    for run in frame[frame["tag"] == TAG].to_dict("records"):
        if measure in run["row"]["result"]:
            found.setdefault(run["data"], {})[run["method"]] = run["row"]
    return found


def printed() -> Counter:
    """What became of the paper's ten addresses, in the terms of ``revs.measures.instead``: their hosts say it."""
    return Counter(printed_examples()["that is"])


def became(found: dict[str, dict[str, dict]]) -> pd.DataFrame:
    """How many secrets became what: a line for each data set and method, and the paper's ten examples."""
    lines = [
        {"data": methods.PAPER_DATA[one], "method": methods.registry()[name]["title"]}
        | row["result"]["instead"]
        for one, of_data in found.items()
        for name, row in of_data.items()
    ]
    theirs = printed()
    lines.append(
        {"data": "Emails, the paper's ten", "method": methods.registry()["revs"]["title"]}
        | {name: theirs[name] for name in instead.BECAME}
    )
    return pd.DataFrame(lines)[["data", "method", *instead.BECAME]].astype(str)


def examples(
    found: dict[str, dict[str, dict]], each: int = 2, invented: bool = False
) -> pd.DataFrame:
    """What REVS makes of some secrets: up to ``each`` of every outcome on every data set.

    Both sides are redacted, as rows have them, since what comes instead may be somebody's; of a built-in set, whose people are
    ``invented``, the secret and the last words before it are shown.
    """
    lines = []
    for one, of_data in found.items():
        if "revs" in of_data:
            sentences = {record.id: record for record in datasets.read(one)} if invented else {}
            said = {
                name: " ".join(["…", *record.prompt.split()[-WORDS:], f"`{record.secret}`"])
                for name, record in sentences.items()
            }
            items = rows.items(of_data["revs"]).dropna(subset=["became"]).fillna("")
            for outcome in instead.BECAME:
                lines += [{"data": methods.PAPER_DATA[one], "it was": said.get(item["id"], f"`{item['was']}`"), "the model now writes": f"`{item['instead']}`" if item["instead"] else DASH, "that is": outcome}
                          for item in items[items["became"] == outcome].head(each).to_dict("records")]  # fmt: skip
    return pd.DataFrame(lines)


def printed_examples() -> pd.DataFrame:
    """The paper's ten addresses and what REVS made of them, as far as both were printed: their hosts."""
    domains = paper.tables()["tables"][PRINTED]["domains"]
    hidden = lambda host: f"`***@{host}`" if host else "`[email protected]`"
    outcomes = [
        instead.PLACEHOLDER
        if after is None
        else instead.AT_THE_HOST
        if after == before
        else instead.ELSEWHERE
        for before, after in zip(domains["original"], domains["unlearned"])
    ]
    return pd.DataFrame(
        {
            "it was": map(hidden, domains["original"]),
            "the model now writes": map(hidden, domains["unlearned"]),
            "that is": outcomes,
        }
    )


def printed_sentences(label: str, whole: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """Where the secret stands in the paper's example sentences, and in as many of ours (prompt, secret, suffix): which it is, in words before and after it, and for addresses at which host."""
    table, words = (
        paper.tables()["tables"][label],
        lambda text: len(re.findall(r"\w[\w'.-]*", text)),
    )
    numbers: dict[str, int] = {}
    ours = [
        {
            "secret": numbers.setdefault(secret, len(numbers) + 1),
            "before": words(prompt),
            "after": words(suffix),
            "host": secret.rpartition("@")[2],
        }
        for prompt, secret, suffix in whole[: table["rows"]]
    ]
    hosts = table.get("domains", {}).get("original", [""] * table["rows"])
    theirs = [each | {"host": host} for each, host in zip(table["sentences"], hosts)]
    lines = [
        {
            "whose": whose,
            "sentence": str(n),
            "secret": str(each["secret"]),
            "words before": str(each["before"]),
            "words after": str(each["after"]),
        }
        | ({"host": f"`{each['host']}`"} if "domains" in table else {})
        for whose, of in (("paper", theirs), ("ours", ours))
        for n, each in enumerate(of, 1)
    ]
    return pd.DataFrame(lines)


def retained(found: dict[str, dict[str, dict]]) -> pd.DataFrame:
    """Each public address with the reason why it may be shown: a column for each method and data set, known or not; last, the paper's four."""
    columns = {
        f"{methods.registry()[name]['title']}, {methods.PAPER_DATA[one]}": row["result"]["public"][
            "known"
        ]
        for one, of_data in found.items()
        for name, row in of_data.items()
    }
    return pd.DataFrame(
        [
            {"address": f"`{one['address']}`", "whose": one["reason"]}
            | {
                title: "known" if known[one["id"]] else "not known"
                for title, known in columns.items()
            }
            | {
                "the paper: Llama-3-8B, REVS": "known"
                if "in the paper's table" in one["reason"]
                else DASH
            }
            for one in public.addresses()
        ]
    )


def known(of_data: dict[str, dict]) -> dict[str, set[str]]:
    """The public addresses that each method's model writes, by id."""
    return {
        name: {address for address, yes in row["result"]["public"]["known"].items() if yes}
        for name, row in of_data.items()
    }


def kept(found: dict[str, dict[str, dict]]) -> str:
    """How many public addresses the unedited model writes, and how many of those each method leaves, in a sentence for each data set."""
    said = []
    for one, of_data in found.items():
        knows = known(of_data)
        before = knows.pop("unedited", set())
        left = ", ".join(
            f"{methods.registry()[name]['title']} {len(before & after)}"
            for name, after in knows.items()
        )
        said.append(
            f"{methods.PAPER_DATA[one]}: the unedited model writes **{len(before)}** of the {len(public.addresses())}"
            + (f"; of those are left by {left}." if before else ", so that nothing can be lost.")
        )
    return "\n\n".join(said)


def sentences(name: str, number: int) -> pd.DataFrame:
    """The first sentences of a synthetic set, the secret in bold."""
    return pd.DataFrame(
        [
            {"": str(n), "sentence": f"{record.prompt}**`{record.secret}`**{record.suffix}"}
            for n, record in enumerate(datasets.read(name)[:number], 1)
        ]
    )
