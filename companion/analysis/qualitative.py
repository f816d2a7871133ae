"""What unlearned secrets become (App. "Qualitative Unlearning Examples"): tag ``qualitative``."""

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from companion.analysis.results import having, in_order, measured
from companion.analysis.tables import DASH
from companion.data import datasets
from companion.experiments import methods
from companion.measures import public_addresses as public
from companion.measures import replacement
from companion.store import paper, rows

TAG = "qualitative"
PRINTED = "tab:unlearn_email_example"
WORDS = 6  # of a prompt, shown before an invented secret
Runs = dict[str, dict[str, dict]]  # data set → method → row


def runs(model: str, measure: str) -> Runs:
    """The recorded rows with one of the measures, as ``by_method`` has them."""
    frame = measured(model, *methods.PAPER_DATA)
    return by_method(frame[frame["tag"] == TAG], measure)


def by_method(frame: pd.DataFrame, measure: str) -> Runs:
    """The runs of each data set's first seed that have a measure: data set → method → row, both in
    the order of the tables."""
    first = frame[frame["seed"] == frame.groupby("data")["seed"].transform("min")]
    parts = in_order(having(first, measure)).groupby("data", sort=False)
    return {data: dict(zip(part["method"], part["row"], strict=True)) for data, part in parts}


def became(found: Runs) -> pd.DataFrame:
    """How many secrets became what: a line per data set and method, and the paper's ten."""
    lines = [
        {"data": methods.PAPER_DATA[one], "method": methods.title(name)}
        | row["result"]["replacement"]
        for one, of_data in found.items()
        for name, row in of_data.items()
    ]
    theirs = Counter(printed_examples()["that is"])
    theirs = {"data": "Emails, the paper's ten", "method": methods.title("revs")} | theirs
    frame = pd.DataFrame([*lines, theirs], columns=["data", "method", *replacement.BECAME])
    return frame.fillna(0).astype(dict.fromkeys(replacement.BECAME, int))


def examples(found: Runs, each: int = 2, invented: bool = False) -> pd.DataFrame:
    """What REVS makes of some secrets: up to ``each`` of every outcome on every data set.

    Both sides are redacted, as in the rows, since a replacement may be a real person's secret. For
    a built-in set, whose people are ``invented``, the secret and the words before it are shown.
    """
    lines = []
    for one, of_data in found.items():
        if "revs" not in of_data:
            continue
        said = {}
        for record in datasets.read(one) if invented else ():
            words = record.prompt.split()[-WORDS:]
            said[record.id] = " ".join(["…", *words, f"`{record.secret}`"])
        items = rows.per_example(of_data["revs"]).fillna("")
        for outcome in replacement.BECAME:
            for item in items[items["became"] == outcome].head(each).to_dict("records"):
                now = f"`{item['replacement']}`" if item["replacement"] else DASH
                was = said.get(item["id"], f"`{item['was']}`")
                lines.append((methods.PAPER_DATA[one], was, now, outcome))
    return pd.DataFrame(lines, columns=["data", "it was", "the model now writes", "that is"])


def printed_examples() -> pd.DataFrame:
    """The paper's ten addresses and what REVS made of them, as far as they are printed: hosts."""
    domains = paper.tables()["tables"][PRINTED]["domains"]
    hidden = lambda host: f"`***@{host}`" if host else "`[email protected]`"
    lines = []
    for before, after in zip(domains["original"], domains["unlearned"]):
        outcome = replacement.AT_THE_HOST if after == before else replacement.ELSEWHERE
        outcome = replacement.PLACEHOLDER if after is None else outcome
        lines.append((hidden(before), hidden(after), outcome))
    return pd.DataFrame(lines, columns=["it was", "the model now writes", "that is"])


def printed_sentences(label: str, whole: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """Where the secret stands in the paper's example sentences, and in as many of ours.

    Ours are (prompt, secret, suffix). One line per sentence: which secret it holds, the words
    before and after the secret, and an address's host.
    """
    table = paper.tables()["tables"][label]
    words = lambda text: str(len(re.findall(r"\w[\w'.-]*", text)))
    hosts = table.get("domains", {}).get("original", [""] * table["rows"])
    numbers: dict[str, int] = {}
    lines = []
    for n, (one, host) in enumerate(zip(table["sentences"], hosts), 1):
        counts = (str(one[part]) for part in ("secret", "before", "after"))
        lines.append(("paper", str(n), *counts, f"`{host}`"))
    for n, (prompt, secret, suffix) in enumerate(whole[: table["rows"]], 1):
        which = str(numbers.setdefault(secret, len(numbers) + 1))
        host = f"`{secret.rpartition('@')[2]}`"
        lines.append(("ours", str(n), which, words(prompt), words(suffix), host))
    columns = ["whose", "sentence", "secret", "words before", "words after", "host"]
    frame = pd.DataFrame(lines, columns=columns)
    return frame if "domains" in table else frame.drop(columns="host")


def retained(found: Runs) -> pd.DataFrame:
    """Each public address with the reason why it may be shown, and whether it is still known.

    A column a method and data set; last, the paper's four.
    """
    asked = public.addresses()
    said = lambda yes: "known" if yes else "not known"
    lines = [(f"`{one['address']}`", one["reason"]) for one in asked]
    frame = pd.DataFrame(lines, columns=["address", "whose"])
    for one, of_data in found.items():
        for name, row in of_data.items():
            known = row["result"]["public_addresses"]["known"]
            title = f"{methods.title(name)}, {methods.PAPER_DATA[one]}"
            frame[title] = [said(known[address["id"]]) for address in asked]
    theirs = ["known" if "in the paper's table" in one["reason"] else DASH for one in asked]
    return frame.assign(**{"the paper: Llama-3-8B, REVS": theirs})
