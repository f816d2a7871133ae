"""Read every number of the REVS paper out of its LaTeX source and write paper/tables.json.

    python paper/extract.py path/to/revs.tex

What the file holds, and what is left out of it, is described in paper/README.md. It reads one
source, known by its sha256. Every pattern below and in paper/sentences.yml has to be found in it
exactly once: nothing is guessed and nothing is skipped.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "tables.json"
SENTENCES = yaml.safe_load((HERE / "sentences.yml").read_text(encoding="utf-8"))
SHA256 = "4612328769dcefc5e1e3031269fc60481df6b02f9ba6ac96412104c32ad970e7"  # of the source

DATASETS = ("SSN", "Emails")  # those with hyperparameters of their own; URLs use those of Emails
MODELS = ("Llama-3-8B", "GPT-J-6B")

# Tables of text, each with the columns whose addresses' domains are kept ({} keeps none).
TEXT_TABLES = {
    "tab:unlearn_email_example": {"original": 0, "unlearned": 1},
    "tab:retained_email_example": {},
    "tab:email-examples": {"original": 1},
    "tab:ssn-examples": {},
}
# Tables of sentences with a bold secret: where it stands is kept.
OF_SENTENCES = ("tab:email-examples", "tab:ssn-examples")
# A domain that is a private person's surname: only what follows its last dot is kept. Row from 0.
PERSONAL_DOMAINS = {("tab:email-examples", 5)}

RENAMED = {"General.@100": "Generalization@100", "Logit Lens@100": "Logit-Lens@100"}  # columns


class SourceError(Exception):
    """The source is not the paper this script was written for; the message is one sentence."""


# -------------------------------------------------------------------------------- LaTeX, in general


def plain(tex):
    """LaTeX to plain text: the few commands of cells and captions. A reference becomes a label."""
    tex = re.sub(r"\\multirow\{[^{}]*\}\{\*\}|\\multicolumn\{[^{}]*\}\{[^{}]*\}", "", tex)
    tex = re.sub(r"\\ourmethod\b", "REVS", tex)  # the source's own macro
    tex = tex.replace(r"^\dagger", "†").replace(r"\uparrow", "")
    tex = re.sub(r"\\(?:textbf|underline|Cref)\b", "", tex)
    tex = re.sub(r"\\([ %&_])", r"\1", tex)
    return " ".join(re.sub(r"[{}$]", "", tex).split())


def prose(tex):
    """A passage as plain text: numbers read "3.3 × 10^-5" and symbols "eps_r_h=250"."""
    tex = tex.replace(r"\times", "×").replace(r"\epsilon_", "eps_")
    tex = tex.replace(r"\alpha", "alpha").replace(r"\beta", "beta")
    return plain(re.sub(r"\\[()]", "", tex))  # one passage writes \( \) where the others write $ $


def braced(tex, start):
    """The content of the brace group whose opening brace is at `start`."""
    depth = 0
    for position in range(start, len(tex)):
        depth += {"{": 1, "}": -1}.get(tex[position], 0)
        if depth == 0:
            return tex[start + 1 : position]
    raise SourceError("A brace in the source is never closed.")


def only(pattern, text):
    """The single match of a pattern in a text, or a SourceError that names the pattern."""
    matches = list(re.finditer(pattern, text, re.DOTALL))
    if len(matches) != 1:
        raise SourceError(f"The source has {pattern!r} {len(matches)} times, not once.")
    return matches[0]


def environments(tex, kind):
    """The bodies of all `table` (or `figure`) environments, starred or not, in order."""
    pattern = rf"\\begin\{{{kind}(\*?)\}}(.*?)\\end\{{{kind}\1\}}"
    return [match[2] for match in re.finditer(pattern, tex, re.DOTALL)]


def caption(body):
    """The caption of an environment as plain text; \\subcaption does not match."""
    return plain(braced(body, only(r"\\caption\{", body).end() - 1))


# ------------------------------------------------------------------------------------------- tables


def rows_of(body):
    """The rows of a table, header first, each a list of raw cells."""
    inner = only(r"\\toprule(.*)\\bottomrule", body)[1]
    inner = re.sub(r"\\midrule|\\cmidrule\(lr\)\{[^{}]*\}", "", inner)
    return [re.split(r"(?<!\\)&", row) for row in inner.split(r"\\") if row.strip()]


def cell_of(raw):
    """One numeric cell: value, std, mark and printed, with the dagger of significance.

    The source wraps numbers in many ways: `$\\bm{1{\\small \\pm 2}}$`, `\\bm{$1$}` (bold around the
    dollars), `${1}$`, `$1{\\small}$` (an empty group where a deviation could stand), `\\textbf{1}`
    and bare `1`.
    """
    mark = "underline" if r"\underline" in raw else None
    mark = "bold" if re.search(r"\\bm\b|\\textbf\b", raw) else mark
    bare = re.sub(r"\\(?:bm|textbf|underline|small)\b|[{}$\s]", "", raw)
    number, dagger, std = only(r"^(-|\d[\d.,]*)(\^\\dagger)?(?:\\pm([\d.]+))?$", bare).groups()
    empty = number == "-"
    shown = ("–" if empty else number) + ("†" if dagger else "") + (f" ± {std}" if std else "")
    value = None if empty else float(number.replace(",", ""))  # thousands are written 17,233
    return {"value": value, "std": float(std) if std else None, "mark": mark, "printed": shown}


def row_name(raw):
    """A row's normalised name: "REVS (ours)" → "REVS", "ZERO_n=5" → "ZERO (n=5)"."""
    name = re.sub(r" \((?:ours|modified)\)$", "", plain(raw))
    return re.sub(r"^ZERO_(n=\d)$", r"ZERO (\1)", name)


def number_table(body, _):
    """A table of numbers: its cells row by row."""
    title = caption(body)
    header, *rows = rows_of(body)
    # The four result tables open with an unnamed column in which a rotated \textbf{...} names the
    # block of rows. (Its \multirow claims eight rows everywhere; the URL block of
    # tab:core_results_llama has seven.) The ablations name their data set in the caption only.
    blocks = not plain(header[0])
    names = [plain(raw) for raw in header[1 + blocks :]]
    columns = [RENAMED.get(name, name) for name in names]
    dataset, cells = "Emails" if "Email dataset" in title else None, []
    for row in rows:
        if blocks and row[0].strip():  # "URL" in one table, "URLs" in another
            dataset = only(r"\\textbf\{(\w+)\}", row[0])[1]
            dataset = "URLs" if dataset == "URL" else dataset
        place = {"dataset": dataset, "row": row_name(row[blocks])}
        for column, raw in zip(columns, row[1 + blocks :], strict=True):
            cells.append(place | {"column": column} | cell_of(raw))
    return {"caption": title, "cells": cells}


def domain_of(raw):
    """The domain of the bold address in a cell; None for the placeholder "[email protected]"."""
    if r"\textbf{[email protected]}" in raw:
        return None
    # Bold only: one sentence also holds the word "@author" of a source comment.
    return only(r"\\textbf\{[^{}@]*@([\w.*-]*\w)", raw)[1]


def places_of(cells):
    """Of each sentence: the number of its secret, which several may share, and how many words stand
    before and after it."""
    places, secrets = [], {}
    for cell in cells:
        match = only(r"\\textbf\{([^{}]*)\}", cell)
        before, after = (
            len(re.findall(r"\w[\w'.-]*", re.sub(r"\\[a-z]+", "", part)))
            for part in (cell[: match.start()], cell[match.end() :])
        )
        secret = secrets.setdefault(match[1], len(secrets) + 1)
        places.append({"secret": secret, "before": before, "after": after})
    return places


def text_table(body, label):
    """A table of text: the number of its rows, the domains of the addresses in the columns that
    TEXT_TABLES names, and the places of the secrets of OF_SENTENCES."""
    _, *rows = rows_of(body)
    table = {"caption": caption(body), "rows": len(rows)}
    if columns := TEXT_TABLES[label]:
        table["domains"] = {
            name: [domain_of(row[i]) for row in rows] for name, i in columns.items()
        }
    if label in OF_SENTENCES:
        table["sentences"] = places_of([row[1] for row in rows])
    for personal, row in PERSONAL_DOMAINS:
        if personal == label:
            domains = table["domains"]["original"]
            domains[row] = "***." + domains[row].rpartition(".")[2]
    return table


def tables(tex):
    """All tables of the paper by label, in the source's order, by which LaTeX numbers them."""
    found = {}
    for body in environments(tex, "table"):
        # tab:ablation_neuron_selection has its \label before its \caption (LaTeX would number it as
        # the section): it is looked for in the whole environment.
        label = only(r"\\label\{(tab:[^{}]*)\}", body)[1]
        read = text_table if label in TEXT_TABLES else number_table
        found[label] = {"number": len(found) + 1} | read(body, label)
    return found


def figures(tex):
    """All figures by label: number, caption, and the labels of the panels, which follow an empty
    \\subcaption."""
    found = {}
    for body in environments(tex, "figure"):
        panels = re.findall(r"\\subcaption\{\}\s*\\label\{(fig:[^{}]*)\}", body)
        (own,) = set(re.findall(r"\\label\{(fig:[^{}]*)\}", body)) - set(panels)
        found[own] = {"number": len(found) + 1, "caption": caption(body), "panels": panels}
    return found


# ---------------------------------------------------------------------------------- hyperparameters

NUMBER = r"\d+(?:\.\d+)?(?: × 10\^-?\d+)?"
LAYERS = r"all|\d+(?:-\d+)*"
BOTH = "both"  # models, or data sets


def section(tex, place):
    """The raw text from a section's label to the next heading of any depth."""
    start = only(re.escape(rf"\label{{{place}}}"), tex).end()
    return re.split(r"\\(?:sub)*section\b", tex[start:])[0]


def passages(tex, method):
    """A method's section as prose: whole (both), the two models' passages, and the sweep's."""
    whole = prose(section(tex, SENTENCES["methods"][method]["place"]))
    # Llama comes first; GPT-J's passage opens with "For the", "For", "On the" or "On" GPT-J-6B.
    models, sweep = whole.split("In our hyperparameter sweep")
    llama, gptj = re.split(r"(?=(?:For|On)(?: the)? GPT-J-6B)", models)
    return {BOTH: whole, "Llama-3-8B": llama, "GPT-J-6B": gptj, "sweep": sweep}


def template(text):
    """A sentence of sentences.yml as a regular expression with named groups."""
    parts = re.split(r"(<\w+>|\.\.\.)", text.format(**SENTENCES["parts"]))
    return "".join(
        ".*?"
        if part == "..."
        else f"(?P{part}{LAYERS if part.endswith('layers>') else NUMBER})"
        if part.startswith("<")
        else re.escape(part)
        for part in parts
    )


def number(printed):
    """A printed number: "130" → 130 (int), "0.05" → 0.05, "3.3 × 10^-5" → 3.3e-05."""
    return int(printed) if printed.isdigit() else float(printed.replace(" × 10^", "e"))


def layers(printed):
    """Printed layers: "all" → "all", "3" → [3], "3-8" → [3, ..., 8]; RMU's "5-6-7" is a list."""
    if printed == "all":
        return printed
    listed = [int(layer) for layer in printed.split("-")]
    return list(range(listed[0], listed[1] + 1)) if len(listed) == 2 else listed


def stated(text, method, model, dataset):
    """{name: printed} of what a sentence on a method says in its passage; empty without one."""
    for sentence in SENTENCES["methods"][method]["stated"]:
        if (sentence["model"], sentence["data"]) == (model, dataset):
            return only(template(sentence["says"]), text[model]).groupdict()
    return {}


def hyperparameters(tex):
    """Every value of the Appendix for 7 methods × 2 models × 2 data sets.

    What the sentence on Emails leaves out ("similar settings, adjusting only …", or silence) is
    carried over from the same model's SSN and marked "inherited".
    """
    entries = []
    for method, known in SENTENCES["methods"].items():
        text = passages(tex, method)
        for model in MODELS:
            # The more specific sentence wins.
            common = stated(text, method, BOTH, BOTH) | stated(text, method, model, BOTH)
            own = {dataset: common | stated(text, method, model, dataset) for dataset in DATASETS}
            for dataset in DATASETS:
                for name in known["names"]:
                    printed = (own["SSN"] | own[dataset])[name]
                    value = layers(printed) if name.endswith("layers") else number(printed)
                    entry = {"method": method, "model": model, "dataset": dataset, "name": name}
                    entry |= {"value": value, "place": known["place"], "printed": printed}
                    entries.append(entry | ({} if name in own[dataset] else {"inherited": True}))
    return entries


def sweep(tex):
    """The ranges (low, high) and lists (values) that the paper searched, per method."""
    entries = []
    for method, known in SENTENCES["methods"].items():
        text, place = passages(tex, method)["sweep"], known["place"]
        for name in known["swept"]:
            words = SENTENCES["sweep"][name]
            low, high = map(number, only(rf"{words} ({NUMBER}) to ({NUMBER})", text).groups())
            entry = {"method": method, "name": name, "low": low, "high": high, "place": place}
            entries.append(entry)
        listed = known.get("listed", {"names": []})  # two parameters over one list of values
        for name in listed["names"]:
            match = only(rf"{listed['words']} \[([^\]]*)\]", text)
            values = [number(value) for value in match[1].split(", ")]
            entries.append({"method": method, "name": name, "values": values, "place": place})
    return entries


# ------------------------------------------------------------------------------- the paper's set-up


def captured(name, text):
    """What a pattern of sentences.yml captures in a text: a string, or several."""
    groups = only(SENTENCES["patterns"][name], text).groups()
    return groups if len(groups) > 1 else groups[0]


def hardware(tex):
    """The GPUs that each method took, and the minutes that each ran."""
    text = prose(section(tex, "app:hardware"))
    # "Head Projection" here, "Head-Projection" elsewhere.
    listed = captured("gpus", text).replace("Head P", "Head-P")
    gpus = {
        method: int(only(rf"{method}: (\d+) GPU", listed)[1]) for method in SENTENCES["methods"]
    }
    revs, ft_l, editing, optimising = map(int, captured("minutes", text))
    minutes = {"REVS": revs, "FT-L": ft_l}
    minutes |= dict.fromkeys(("MEMIT", "Max-Entropy", "Head-Projection"), editing)
    minutes |= dict.fromkeys(("RMU", "NPO-KL"), optimising)
    ran = {"dataset": "Emails", "model": "Llama-3-8B"}
    return {"gpus": gpus, "runtime_minutes": minutes} | ran


def in_prose(tex):
    """What only the prose has: how much is forgotten and retained, what settings were searched
    on."""
    names = {"Email": "Emails"}
    return {
        "forget_emails": int(captured("forget", prose(section(tex, "sec:implementation")))),
        "retained": captured("retained", tex),
        "tuned": {
            "data": [names.get(word, word) for word in captured("tuned_data", tex)],
            "extent": captured("tuned_extent", tex),
        },
    }


def token_example(tex):
    """The address whose tokens are shown, its ids as printed, and which tokens are chosen."""
    pattern = r"For example, consider the email address.*?common domain"
    text = only(pattern, section(tex, "app:token_selection"))[0]
    return {
        "text": captured("example_address", text),
        "tokens": captured("example_tokens", text).split(", "),
        "ids": [int(token) for token in captured("example_ids", text).split(", ")],
        "chosen": list(captured("example_chosen", text)),
    }


# ------------------------------------------------------------------------------------------- output


def extract(path):
    """All of tables.json from the LaTeX file at `path`; raises SourceError for any other file."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {error}.") from error
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise SourceError(
            f"{path} is not the LaTeX source of the REVS paper: its sha256 is another one."
        )
    tex = re.sub(r"(?<!\\)%.*", "", raw.decode("utf-8"))  # comments
    return {
        "source": {"sha256": SHA256},
        "tables": tables(tex),
        "figures": figures(tex),
        "hyperparameters": hyperparameters(tex),
        "sweep": sweep(tex),
        "hardware": hardware(tex),
        "in_prose": in_prose(tex),
        "token_example": token_example(tex),
    }


def main(arguments):
    """The command line: one path. A mistake ends it with one sentence and a non-zero status."""
    if len(arguments) != 1:
        sys.exit("Usage: python paper/extract.py path/to/revs.tex")
    try:
        data = extract(arguments[0])
    except SourceError as error:
        sys.exit(str(error))
    OUTPUT.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    cells = sum(len(table.get("cells", ())) for table in data["tables"].values())
    print(f"{OUTPUT.name}: {cells} cells, {len(data['hyperparameters'])} hyperparameter values.")


if __name__ == "__main__":
    main(sys.argv[1:])
