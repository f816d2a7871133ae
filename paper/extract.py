"""Read every number of the REVS paper out of its LaTeX source and write paper/tables.json.

    python paper/extract.py path/to/revs.tex

What the file holds, and what is left out of it, is described in paper/README.md. Every pattern below has to be found in
the source exactly once, or the script stops with one sentence that names it: nothing is guessed and nothing is skipped.
"""

import hashlib
import json
import os
import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent / "tables.json"
BIBKEY = "ashuach2025revs"
TITLE = "REVS: Unlearning Sensitive Information in Language Models via Rank Editing in the Vocabulary Space"

METHODS = ("REVS", "FT-L", "MEMIT", "Max-Entropy", "Head-Projection", "RMU", "NPO-KL")
DATASETS = ("SSN", "Emails")  # those with hyperparameters of their own; URLs use those of Emails
# "Llama 3 8B" is one caption's spelling, "GPTJ-6B" another's.
MODELS = {"Llama-3-8B": r"Llama[- ]3[- ]8B", "GPT-J-6B": r"GPT-?J-6B"}

NUMBER_TABLES = (
    "tab:core_results_llama",
    "tab:extraction_results_llama",
    "tab:core_results_gptj",
    "tab:extraction_results_gptj",
    "tab:ablation_neuron_selection",
    "tab:method_results",
    "tab:ablation_token_method",
    "tab:pii-distribution",
)
# Tables of text, each with the columns whose addresses' domains are kept ({} keeps none).
TEXT_TABLES = {
    "tab:unlearn_email_example": {"original": 0, "unlearned": 1},
    "tab:retained_email_example": {},
    "tab:email-examples": {"original": 1},
    "tab:ssn-examples": {},
}
SENTENCES = (
    "tab:email-examples",
    "tab:ssn-examples",
)  # tables of sentences with a bold secret: where it stands is kept
# A domain that is a private person's surname: only what follows its last dot is kept. Rows count from 0.
PERSONAL_DOMAINS = {("tab:email-examples", 5)}

COLUMNS = {
    "Unlearning Score": "Unlearning Score",
    "Resistance Score": "Resistance Score",
    "Efficacy@100": "Efficacy@100",
    "General.@100": "Generalization@100",
    "Specificity": "Specificity",
    "MMLU": "MMLU",
    "GSM8K": "GSM8K",
    "Logit Lens@100": "Logit-Lens@100",
    "Delta@100": "Delta@100",
    "Perturb@100": "Perturb@100",
    "Identified": "Identified",
    "Memorized": "Memorized",
}


class SourceError(Exception):
    """The source is not the paper this script was written for; the message is one sentence."""


# ---------------------------------------------------------------------------------------------------- LaTeX, in general


def plain(tex):
    """LaTeX to plain text: the few commands that occur in cells and captions. A reference becomes its label."""
    tex = re.sub(r"\\multirow\{[^{}]*\}\{\*\}|\\multicolumn\{[^{}]*\}\{[^{}]*\}", "", tex)
    tex = re.sub(r"\\ourmethod\b", "REVS", tex)  # the source's own macro
    tex = tex.replace(r"^\dagger", "†").replace(r"\uparrow", "")
    tex = re.sub(r"\\(?:textbf|underline|Cref)\b", "", tex)
    tex = re.sub(r"\\([ %&_])", r"\1", tex)
    return " ".join(re.sub(r"[{}$]", "", tex).split())


def prose(tex):
    """A passage of the Appendix as plain text in which numbers read "3.3 × 10^-5" and symbols "eps_r_h=250"."""
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


def only(pattern, text, what):
    """The single match of a regular expression in a text, or a SourceError that names what was looked for."""
    matches = list(re.finditer(pattern, text, re.DOTALL))
    if len(matches) != 1:
        raise SourceError(
            f"Expected {what} exactly once in the source, found it {len(matches)} times."
        )
    return matches[0]


def environments(tex, kind):
    """The bodies of all `table` (or `figure`) environments, starred or not, in order."""
    return [
        m[2]
        for m in re.finditer(rf"\\begin\{{{kind}(\*?)\}}(.*?)\\end\{{{kind}\1\}}", tex, re.DOTALL)
    ]


def caption(body, label):
    """The caption of an environment as plain text (\\subcaption does not match: its backslash stands elsewhere)."""
    text = plain(braced(body, only(r"\\caption\{", body, f"the caption of {label}").end() - 1))
    if "\\" in text:
        raise SourceError(
            f"The caption of {label} holds a LaTeX command that this script does not know."
        )
    return text


def model_of(text):
    """The model that a text names, or None."""
    return next((model for model, spelling in MODELS.items() if re.search(spelling, text)), None)


# --------------------------------------------------------------------------------------------------------------- tables


def rows_of(body, label):
    """The rows of a table, header first, each a list of raw cells."""
    inner = only(r"\\toprule(.*)\\bottomrule", body, f"the rules of {label}")[1]
    inner = re.sub(r"\\midrule|\\cmidrule\(lr\)\{[^{}]*\}", "", inner)
    return [re.split(r"(?<!\\)&", row) for row in inner.split(r"\\") if row.strip()]


def cell_of(raw, where):
    """One numeric cell: value, std, mark, printed and, for a dagger, a note.

    The source wraps numbers in many ways: `$\\bm{1{\\small \\pm 2}}$`, `\\bm{$1$}` (bold around the dollars),
    `${1}$`, `$1{\\small}$` (an empty group where a deviation could stand), `\\textbf{1}` and bare `1`.
    """
    mark = (
        "bold"
        if re.search(r"\\bm\b|\\textbf\b", raw)
        else "underline"
        if r"\underline" in raw
        else None
    )
    bare = re.sub(r"\\(?:bm|textbf|underline|small)\b|[{}$\s]", "", raw)
    match = re.fullmatch(r"(-|\d[\d.,]*)(\^\\dagger)?(?:\\pm([\d.]+))?", bare)
    if not match:
        raise SourceError(f"The cell {where} holds no number that this script can read.")
    number, dagger, std = match.groups()
    empty = number == "-"
    cell = {
        "value": None if empty else float(number.replace(",", "")),  # thousands are written 17,233
        "std": float(std) if std else None,
        "mark": mark,
        "printed": ("–" if empty else number)
        + ("†" if dagger else "")
        + (f" ± {std}" if std else ""),
    }
    return cell | ({"note": "dagger"} if dagger else {})


def row_name(raw):
    """A row's normalised name and its printed one: "REVS (ours)" → "REVS", "ZERO_n=5" → "ZERO (n=5)"."""
    printed = plain(raw)
    name = re.sub(r" \((?:ours|modified)\)$", "", printed)
    return re.sub(r"^ZERO_(n=\d)$", r"ZERO (\1)", name), printed


def column_name(raw, label):
    """A column's normalised name."""
    name = plain(raw)
    if name not in COLUMNS:
        raise SourceError(
            f"The table {label} has a column {name!r} that this script does not know."
        )
    return COLUMNS[name]


def number_table(body, label):
    """A table of numbers: its columns, and its cells row by row."""
    title = caption(body, label)
    header, *rows = rows_of(body, label)
    # The four result tables open with an unnamed column in which a rotated \textbf{...} names the block of rows.
    # (Its \multirow claims eight rows everywhere; the URL block of tab:core_results_llama has seven.)
    blocks = not plain(header[0])
    columns = [column_name(raw, label) for raw in header[1 + blocks :]]
    dataset = (
        "Emails" if "Email dataset" in title else None
    )  # the ablations name theirs in the caption only
    cells = []
    for row in rows:
        if blocks and row[0].strip():
            # "URL" in one table, "URLs" in another.
            dataset = only(r"\\textbf\{(\w+)\}", row[0], f"the name of a block of rows in {label}")[
                1
            ]
            dataset = {"URL": "URLs"}.get(dataset, dataset)
        name, printed = row_name(row[blocks])
        values = row[1 + blocks :]
        if len(values) != len(columns):
            raise SourceError(
                f"The row {printed!r} of {label} has {len(values)} numbers for {len(columns)} columns."
            )
        for column, raw in zip(columns, values):
            cell = {"dataset": dataset, "row": name, "column": column} | cell_of(
                raw, f"{name} / {column} of {label}"
            )
            cells.append(cell | ({"row_printed": printed} if printed != name else {}))
    return {
        "label": label,
        "caption": title,
        "model": model_of(title),
        "columns": columns,
        "cells": cells,
    }


def domain_of(raw, label):
    """The domain of the bold address in a cell, or None for the placeholder "[email protected]", which has none."""
    if r"\textbf{[email protected]}" in raw:
        return None
    # Bold only: one sentence also holds the word "@author" of a source comment.
    return only(r"\\textbf\{[^{}@]*@([\w.*-]*\w)", raw, f"one bold address in each row of {label}")[
        1
    ]


def places_of(cells, label):
    """Of each sentence: the number of its secret, which several may share, and how many words stand before and after it."""
    found, secrets = [], {}
    for cell in cells:
        match = only(r"\\textbf\{([^{}]*)\}", cell, f"one bold secret in each row of {label}")
        words = [
            len(re.findall(r"\w[\w'.-]*", re.sub(r"\\[a-z]+", "", part)))
            for part in (cell[: match.start()], cell[match.end() :])
        ]
        found.append(
            {
                "secret": secrets.setdefault(match[1], len(secrets) + 1),
                "before": words[0],
                "after": words[1],
            }
        )
    return found


def text_table(body, label):
    """A table of text: the number of its rows, where TEXT_TABLES says so the domains of its addresses, and where SENTENCES does the places of its secrets."""
    _, *rows = rows_of(body, label)
    table = {"label": label, "caption": caption(body, label), "rows": len(rows)}
    if TEXT_TABLES[label]:
        table["domains"] = {
            name: [domain_of(row[i], label) for row in rows]
            for name, i in TEXT_TABLES[label].items()
        }
    if label in SENTENCES:
        table["sentences"] = places_of([row[1] for row in rows], label)
    for personal, row in PERSONAL_DOMAINS:
        if personal == label:
            table["domains"]["original"][row] = (
                "***." + table["domains"]["original"][row].rpartition(".")[2]
            )
    return table


def tables(tex):
    """All tables of the paper by label, in the source's order, by which LaTeX numbers them."""
    found = {}
    for body in environments(tex, "table"):
        # tab:ablation_neuron_selection has its \label before its \caption (so that LaTeX would number it as the
        # section); it is therefore looked for in the whole environment.
        label = only(r"\\label\{(tab:[^{}]*)\}", body, "the label of a table")[1]
        if label not in (*NUMBER_TABLES, *TEXT_TABLES):
            raise SourceError(f"The source has a table {label} that this script does not know.")
        found[label] = {"number": len(found) + 1} | (
            text_table(body, label) if label in TEXT_TABLES else number_table(body, label)
        )
    missing = [label for label in (*NUMBER_TABLES, *TEXT_TABLES) if label not in found]
    if missing:
        raise SourceError(f"The source lacks the table {missing[0]}.")
    return found


def figures(tex):
    """All figures by label: number, caption, and the labels of the panels (those that follow an empty \\subcaption)."""
    found = {}
    for body in environments(tex, "figure"):
        panels = re.findall(r"\\subcaption\{\}\s*\\label\{(fig:[^{}]*)\}", body)
        labels = re.findall(r"\\label\{(fig:[^{}]*)\}", body)
        own = [label for label in labels if label not in panels]
        if len(own) != 1:
            raise SourceError(
                f"A figure of the source has {len(own)} labels of its own instead of one."
            )
        found[own[0]] = {
            "number": len(found) + 1,
            "label": own[0],
            "caption": caption(body, own[0]),
            "panels": panels,
        }
    return found


# ------------------------------------------------------------------------------------------------------ hyperparameters

PLACES = {
    "REVS": "app:revs_details",
    "FT-L": "app:ft-l",
    "MEMIT": "app:memit",
    "Max-Entropy": "app:me",
    "Head-Projection": "app:hp",
    "RMU": "app:rmu",
    "NPO-KL": "app:npo",
}
NAMES = {
    "REVS": ("n_max", "k", "r_h", "eps_r_h", "r_n", "eps_r_n"),
    "FT-L": ("layers", "loss_break", "lr", "norm_constraint", "steps"),
    "MEMIT": ("layers", "loss_break", "prob_coefficient", "lr", "steps", "n_max_len"),
    "Max-Entropy": ("layers", "patil_layers", "loss_break", "prob_coefficient", "lr", "steps"),
    "Head-Projection": (
        "layers",
        "patil_layers",
        "k",
        "loss_break",
        "prob_coefficient",
        "lr",
        "steps",
    ),
    "RMU": ("alpha", "layer_id", "layers", "lr", "epochs", "steering_coefficient"),
    "NPO-KL": ("beta", "kl_coefficient", "lr", "epochs", "n_max_len"),
}

# The paper's sentences as templates: "<lr>" stands for a number (or layers), "..." for anything, all else is literal.
# A template without a data set (None) is said of both, one without a model of both models.
_LOSS = (
    "loss break of <loss_break>, loss prediction probability coefficient of <prob_coefficient>, "
    "learning rate of <lr>"
)
_EDIT = f"{_LOSS}, and <steps> gradient steps"
_FT_L = "loss break of <loss_break>, learning rate of <lr>, norm constraint of <norm_constraint>"
_REVS = (
    "k=<k> neurons ... r_h=<r_h> with an error margin of eps_r_h=<eps_r_h>. "
    "... r_n=<r_n>, with an error margin eps_r_n=<eps_r_n>,"
)
_TARGETED = "we targeted layers <layers> and Patil layers <patil_layers>."
STATED = {
    ("REVS", "Llama-3-8B", None): _REVS,
    ("REVS", "Llama-3-8B", "SSN"): "n_max=<n_max> neurons (SSN)",
    ("REVS", "Llama-3-8B", "Emails"): "n_max=<n_max> neurons (Email)",
    # GPT-J's sentence, and only this one, writes N_max.
    (
        "REVS",
        "GPT-J-6B",
        None,
    ): "For GPT-J-6B model and SSN and Email datasets, ... N_max=<n_max> neurons ... " + _REVS,
    ("FT-L", None, None): "For both models we targeted <layers> layers.",
    (
        "FT-L",
        "Llama-3-8B",
        "SSN",
    ): f"For the SSN dataset, we used a {_FT_L}, and <steps> gradient steps.",
    (
        "FT-L",
        "Llama-3-8B",
        "Emails",
    ): f"The EMAIL dataset configuration used a {_FT_L}, and the same <steps> gradient",
    # More exact than "all layers", and said of SSN only.
    (
        "FT-L",
        "GPT-J-6B",
        "SSN",
    ): f"for the SSN dataset, we applied a {_FT_L}, and <steps> gradient steps across layers <layers>.",
    (
        "FT-L",
        "GPT-J-6B",
        "Emails",
    ): f"The EMAIL ... using a {_FT_L}, while maintaining <steps> gradient steps.",
    (
        "MEMIT",
        "Llama-3-8B",
        "SSN",
    ): f"on the SSN dataset, we focused on layer <layers> with a {_EDIT} with a maximum prompt length of "
    "n_max_len=<n_max_len>.",
    (
        "MEMIT",
        "Llama-3-8B",
        "Emails",
    ): "For the EMAIL dataset, we maintained similar settings, adjusting only the maximum prompt length to "
    "n_max_len=<n_max_len>.",
    (
        "MEMIT",
        "GPT-J-6B",
        "SSN",
    ): f"on the SSN dataset, we targeted layers <layers> with a {_LOSS}, <steps> gradient steps, and a maximum prompt "
    "length of n_max_len=<n_max_len>.",
    (
        "MEMIT",
        "GPT-J-6B",
        "Emails",
    ): "The EMAIL dataset configuration was similar, with a reduced maximum prompt length of n_max_len=<n_max_len>.",
    ("Max-Entropy", "Llama-3-8B", None): _TARGETED,
    ("Max-Entropy", "Llama-3-8B", "SSN"): f"The SSN dataset configuration employed a {_EDIT}.",
    (
        "Max-Entropy",
        "Llama-3-8B",
        "Emails",
    ): f"The EMAIL dataset adjusted these parameters, using a {_EDIT}.",
    ("Max-Entropy", "GPT-J-6B", None): _TARGETED,
    ("Max-Entropy", "GPT-J-6B", "SSN"): f"For the SSN dataset, we used a {_EDIT}.",
    ("Max-Entropy", "GPT-J-6B", "Emails"): f"The EMAIL dataset used a {_EDIT}.",
    ("Head-Projection", None, None): "to prevent the target from appearing in the top k=<k> logit",
    ("Head-Projection", "Llama-3-8B", None): _TARGETED,
    ("Head-Projection", "Llama-3-8B", "SSN"): f"The SSN dataset configuration used a {_EDIT}.",
    ("Head-Projection", "Llama-3-8B", "Emails"): f"The EMAIL used a {_EDIT}.",
    ("Head-Projection", "GPT-J-6B", None): _TARGETED,
    ("Head-Projection", "GPT-J-6B", "SSN"): f"For the SSN dataset we used a {_EDIT}.",
    (
        "Head-Projection",
        "GPT-J-6B",
        "Emails",
    ): "The EMAIL dataset configuration used similar layer targeting but modified the hyperparameters, "
    f"with a {_EDIT}.",
    (
        "RMU",
        "Llama-3-8B",
        "SSN",
    ): "for SSN, we used an alpha of <alpha>, layer ID <layer_id>, layers <layers>, learning rate of <lr>, "
    "<epochs> epochs, and a steering coefficient of <steering_coefficient>.",
    (
        "RMU",
        "Llama-3-8B",
        "Emails",
    ): "shifted to an alpha of <alpha>, maintaining the same layer and learning rate specifications, but increasing "
    "the steering coefficient to <steering_coefficient>.",
    (
        "RMU",
        "GPT-J-6B",
        "SSN",
    ): "for the SSN dataset, we applied an alpha of <alpha>, layer ID <layer_id>, layers <layers>, learning rate of "
    "<lr>, <epochs> epochs, and a steering coefficient of <steering_coefficient>.",
    (
        "RMU",
        "GPT-J-6B",
        "Emails",
    ): "The EMAIL dataset configuration used an alpha of <alpha>, the same layer specifications, a learning rate of "
    "<lr>, <epochs> epochs, and a reduced steering coefficient of <steering_coefficient>.",
    (
        "NPO-KL",
        "Llama-3-8B",
        "SSN",
    ): "On the SSN dataset, we used a beta of <beta>, KL coefficient of <kl_coefficient>, learning rate of <lr>, and "
    "<epochs> epochs with a maximum prompt length of n_max_len=<n_max_len>.",
    (
        "NPO-KL",
        "Llama-3-8B",
        "Emails",
    ): "maintaining a beta of <beta> but increasing the KL coefficient to <kl_coefficient>, with a learning rate of "
    "<lr> and <epochs> epochs.",
    (
        "NPO-KL",
        "GPT-J-6B",
        "SSN",
    ): "for the SSN dataset, we employed a beta of <beta>, KL coefficient of <kl_coefficient>, learning rate of <lr>, "
    "<epochs> epochs, and a maximum prompt length of n_max_len=<n_max_len>.",
    (
        "NPO-KL",
        "GPT-J-6B",
        "Emails",
    ): "The EMAIL dataset configuration used a beta of <beta>, KL coefficient of <kl_coefficient>, learning rate of "
    "<lr>, and <epochs> epochs.",
}

NUMBER = r"\d+(?:\.\d+)?(?: × 10\^-?\d+)?"
LAYERS = r"all|\d+(?:-\d+)*"

# Sweeps: the words before "LOW to HIGH". "Different layer selection" is swept too, but without a range.
SWEEP_WORDS = {
    "n_max": "the number of neurons from",
    "k": "the activation filter size from",
    "lr": "learning rate from",
    "steps": "number of gradient steps from",
    "epochs": "number of epochs from",
    "loss_break": "loss break from",
    "prob_coefficient": "loss prediction probability coefficient from",
    "norm_constraint": "norm constraint from",
}
SWEPT = {
    "REVS": ("n_max", "k"),
    "FT-L": ("lr", "loss_break", "norm_constraint", "steps"),
    "MEMIT": ("lr", "steps", "loss_break", "prob_coefficient"),
    "Max-Entropy": ("lr", "steps", "loss_break", "prob_coefficient"),
    "Head-Projection": ("lr", "steps", "loss_break", "prob_coefficient"),
    "RMU": ("lr", "epochs"),
    "NPO-KL": ("lr", "epochs"),
}
# Two methods sweep a pair of parameters over one list of values.
SWEPT_LISTS = {
    "RMU": (("alpha", "steering_coefficient"), "alpha and steering coefficient of"),
    "NPO-KL": (("beta", "kl_coefficient"), "beta and KL coefficient of"),
}


def section(tex, place):
    """The raw text from a section's label to the next heading of any depth."""
    start = only(re.escape(rf"\label{{{place}}}"), tex, f"the section {place}").end()
    return re.split(r"\\(?:sub)*section\b", tex[start:])[0]


def passages(tex, method):
    """A method's section as prose: whole (None), the two models' passages, and the sweep's."""
    place = PLACES[method]
    whole = prose(section(tex, place))
    # The section names Llama first; GPT-J's passage opens with "For the", "For", "On the" or "On" GPT-J-6B.
    models, sweep = split_once(r"In our hyperparameter sweep", whole, f"the sweep in {place}")
    llama, gptj = split_once(
        r"(?=(?:For|On)(?: the)? GPT-J-6B)", models, f"the passage on GPT-J-6B in {place}"
    )
    return {None: whole, "Llama-3-8B": llama, "GPT-J-6B": gptj, "sweep": sweep}


def split_once(pattern, text, what):
    """The two parts of a text around the single match of a pattern."""
    match = only(pattern, text, what)
    return text[: match.start()], text[match.end() :]


def template(text):
    """A template of STATED as a regular expression with named groups."""
    parts = re.split(r"(<\w+>|\.\.\.)", text)
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
    """Printed layers: "all" → "all", "3" → [3], "3-8" → [3, ..., 8]; RMU's "5-6-7" is a list, not a range."""
    if printed == "all":
        return printed
    listed = [int(layer) for layer in printed.split("-")]
    return list(range(listed[0], listed[1] + 1)) if len(listed) == 2 else listed


def stated(text, method, model, dataset):
    """{name: printed} of what one template of STATED finds in its passage; empty where there is no template."""
    key = (method, model, dataset)
    if key not in STATED:
        return {}
    where = (
        f"{method}'s hyperparameters for {model or 'both models'} and {dataset or 'both data sets'}"
    )
    return only(template(STATED[key]), text[model], f"the sentence on {where}").groupdict()


def hyperparameters(tex):
    """Every value of the Appendix for 7 methods × 2 models × 2 data sets.

    What the sentence on Emails leaves out ("similar settings, adjusting only …", or silence) is carried over from the
    same model's SSN and marked "inherited".
    """
    entries = []
    for method in METHODS:
        text = passages(tex, method)
        for model in MODELS:
            # The more specific sentence wins.
            common = stated(text, method, None, None) | stated(text, method, model, None)
            own = {dataset: common | stated(text, method, model, dataset) for dataset in DATASETS}
            for dataset in DATASETS:
                for name in NAMES[method]:
                    printed = own[dataset].get(name, own["SSN"].get(name))
                    if printed is None:
                        raise SourceError(
                            f"The source states no {name} of {method} for {model} on {dataset}."
                        )
                    entry = {
                        "method": method,
                        "model": model,
                        "dataset": dataset,
                        "name": name,
                        "value": layers(printed) if name.endswith("layers") else number(printed),
                        "place": PLACES[method],
                        "printed": printed,
                    }
                    entries.append(entry | ({} if name in own[dataset] else {"inherited": True}))
    return entries


def sweep(tex):
    """The ranges (low, high) and lists (values) that the paper searched, per method."""
    entries = []
    for method in METHODS:
        text, place = passages(tex, method)["sweep"], PLACES[method]
        for name in SWEPT[method]:
            match = only(
                rf"{SWEEP_WORDS[name]} ({NUMBER}) to ({NUMBER})",
                text,
                f"{method}'s sweep of {name}",
            )
            low, high = map(number, match.groups())
            entries.append(
                {"method": method, "name": name, "low": low, "high": high, "place": place}
            )
        names, words = SWEPT_LISTS.get(method, ((), ""))
        for name in names:
            match = only(rf"{words} \[([^\]]*)\]", text, f"{method}'s sweep of {name}")
            values = [number(value) for value in match[1].split(", ")]
            entries.append({"method": method, "name": name, "values": values, "place": place})
    return entries


# --------------------------------------------------------------------------------------------------- the paper's set-up


def hardware(tex):
    """The machines, the GPUs each method took, and the minutes each ran."""
    text = prose(section(tex, "app:hardware"))
    cpu = only(r"equipped with (\d+ [^.]*?) CPUs", text, "the CPUs")[1]
    gpu = only(r"consisted of (.*?) GPUs, each equipped with (\d+)GB of VRAM", text, "the GPUs")
    # "Head Projection" here, "Head-Projection" elsewhere.
    listed = only(r"for distinct methods: (.*?)\.", text, "the GPUs per method")[1].replace(
        "Head P", "Head-P"
    )
    gpus = {
        method: int(only(rf"{method}: (\d+) GPU", listed, f"the GPUs of {method}")[1])
        for method in METHODS
    }
    runtime = only(
        r"Runtime on the Email Dataset with Llama-3-8B .*? REVS takes (\d+) minutes, FT-L completes in (\d+) minutes, "
        r"MEMIT, Max-Entropy and Head-Projection each take (\d+) minutes\. Meanwhile, RMU and NPO-KL both have a "
        r"runtime of (\d+) minutes",
        text,
        "the sentences on runtime",
    )
    revs, ft_l, editing, optimising = map(int, runtime.groups())
    minutes = {
        "REVS": revs,
        "FT-L": ft_l,
        "MEMIT": editing,
        "Max-Entropy": editing,
        "Head-Projection": editing,
        "RMU": optimising,
        "NPO-KL": optimising,
    }
    return {
        "gpu": gpu[1],
        "vram_gb": int(gpu[2]),
        "cpu": cpu,
        "gpus": gpus,
        "runtime_minutes": minutes,
        "dataset": "Emails",
        "model": "Llama-3-8B",
    }


def finetune_ssn(tex):
    """How the base models were made to memorise the SSN data."""
    text = prose(section(tex, "app:ssn_dataset"))
    match = only(
        r"learning rate of (\d+e-\d+) .*? ran for (\d+) epochs with a batch size of (\d+)",
        text,
        "the sentences on the SSN fine-tuning",
    )
    return {"lr": float(match[1]), "epochs": int(match[2]), "batch_size": int(match[3])}


def splits(tex):
    """The seeds, and how much is forgotten."""
    text = prose(section(tex, "sec:implementation"))
    tuning = only(r"using a fixed seed \((\d)\)", text, "the seed for tuning")[1]
    first, last = only(
        r"random splits \(seeds (\d)--(\d)\)", text, "the seeds of the splits"
    ).groups()
    forget = only(
        r"forget set of (\d+) targets in Emails and URLs, while in SSN, it comprises (half) the data",
        text,
        "the size of the forget sets",
    )
    return {
        "seeds": list(range(int(first), int(last) + 1)),
        "tuning_seed": int(tuning),
        "forget_emails": int(forget[1]),
        "forget_urls": int(forget[1]),
        "forget_ssn": forget[2],
    }


DATASET_WORDS = {"Email": "Emails"}
# Settings of the experiments that only a sentence has: a pattern, and what it looks for.
PROSE = {
    "targets": (r"with \$\|T\|=(\d+)\$ in this work", "the number of target tokens"),
    "k": (r"maximize Unlearning Score with \$k=(\d+)\$", "the number of candidates"),
    "documents": (
        r"pre-filtered subset of The Pile \\citep\{gao2020pile\} containing ([\d,]+) sentences",
        "the size of the subset of The Pile",
    ),
    "ssn_forgotten": (r"we assign (\d+) unique SSN targets", "the number of SSNs"),
    "ssn_sentences": (
        r"each target SSN has \$(\d+)\$ different prefixes",
        "the sentences of an SSN",
    ),
    "ssn_kept_sentences": (r"The remaining \$(\d+)\$ sentences", "the kept sentences of SSN"),
    "window": (
        r"generate the exact email within the next (\d+) tokens",
        "the tokens in which an address must appear",
    ),
    "url_characters": (r"filtered out URLs shorter than (\d+) characters", "the length of a URL"),
}


def in_prose(tex):
    """Numbers that only the prose has."""
    retained = only(
        r"We use a (\w+) of the dataset as a retain set", tex, "the size of the retain set"
    )
    emails, ssn, chance = only(
        r"scores of \$(\d+)\$ for Emails and \$(\d+)\$ for SSN, where \$(\d+)\$ represents random",
        tex,
        "GPT-J's MMLU",
    ).groups()
    targets = only(
        r"current parameters were optimized for (\d+) targets",
        tex,
        "the number of targets that settings were chosen for",
    )[1]
    searched = only(
        r"optimized per method on the (\w+) and (\w+) datasets", tex, "the data sets of the search"
    ).groups()
    everywhere = only(
        r"hyper-parameter search for (each baseline on each dataset)",
        tex,
        "the extent of the search",
    )[1]
    general = only(
        r"achieves the best efficacy and generality on (\w+) and (\w+)",
        tex,
        "the data sets with the best generality",
    ).groups()
    efficient = only(
        r"maintained (computational efficiency)", tex, "the word on REVS's computation"
    )[1]
    numbers = {
        name: int(only(pattern, tex, what)[1].replace(",", ""))
        for name, (pattern, what) in PROSE.items()
    }
    return {
        "retained": retained[1],
        "mmlu_gptj": {"Emails": int(emails), "SSN": int(ssn), "chance": int(chance)},
        "tuned": {
            "targets": int(targets),
            "data": [DATASET_WORDS.get(word, word) for word in searched],
            "extent": everywhere,
        },
        "best_generality": list(general),
        "revs_is": efficient,
        "settings": numbers,
    }


def token_example(tex):
    """The address whose tokens are shown, its ids as printed, and which tokens are chosen."""
    text = only(
        r"For example, consider the email address.*?common domain",
        section(tex, "app:token_selection"),
        "the example of token selection",
    )[0]
    address = only(r"email address \\texttt\{(.*?)\}", text, "the example's address")[1]
    tokens = only(r"tokenized as \\texttt\{\[(.*?)\]\}", text, "the example's tokens")[1].split(
        ", "
    )
    ids = [
        int(number)
        for number in only(r"token IDs \\texttt\{\[(.*?)\]\}", text, "the example's ids")[1].split(
            ", "
        )
    ]
    chosen = only(
        r"we select \\texttt\{(.*?)\} and \\texttt\{(.*?)\} as", text, "the example's choice"
    ).groups()
    return {"text": address, "tokens": tokens, "ids": ids, "chosen": list(chosen)}


def sections(tex):
    """Every numbered heading in order, with those of its paragraphs: numbers before the Appendix, letters in it."""
    found, counts, lettered = [], [0, 0, 0], False
    for heading in re.finditer(
        r"\\appendix\b|\\(section|subsection|subsubsection|paragraph)(?=\{)", tex
    ):
        if heading[0] == r"\appendix":
            counts, lettered = [0, 0, 0], True
            continue
        title = plain(re.sub(r"\\label\{.*?\}", "", braced(tex, heading.end()))).rstrip(".: ")
        if heading[1] == "paragraph":
            found[-1]["paragraphs"].append(title)
            continue
        depth = heading[1].count("sub")
        counts = [*counts[:depth], counts[depth] + 1, 0, 0][:3]
        first = chr(ord("A") + counts[0] - 1) if lettered else str(counts[0])
        found.append(
            {
                "number": ".".join([first, *map(str, counts[1 : depth + 1])]),
                "title": title,
                "paragraphs": [],
            }
        )
    return found


# --------------------------------------------------------------------------------------------------------------- output


def extract(path):
    """All of tables.json from the LaTeX file at `path`; raises SourceError for any other file."""
    try:
        raw = Path(path).read_bytes()
        tex = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"Cannot read {path} as a LaTeX source: {error}.") from error
    tex = re.sub(r"(?<!\\)%.*", "", tex)  # comments
    title = re.search(r"\\title\{(.*?)\}\s", tex)
    if not title or plain(title[1]) != TITLE:
        raise SourceError(
            f"{path} is not the LaTeX source of the REVS paper: its title is another one."
        )
    return {
        "source": {"title": TITLE, "sha256": hashlib.sha256(raw).hexdigest(), "bibkey": BIBKEY},
        "tables": tables(tex),
        "figures": figures(tex),
        "hyperparameters": hyperparameters(tex),
        "sweep": sweep(tex),
        "hardware": hardware(tex),
        "finetune_ssn": finetune_ssn(tex),
        "splits": splits(tex),
        "in_prose": in_prose(tex),
        "token_example": token_example(tex),
        "sections": sections(tex),
    }


def write(data, path):
    """Write JSON so that a reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def main(arguments):
    """The command line: one path. Ends with one sentence and a non-zero status when something is wrong."""
    if len(arguments) != 1:
        sys.exit("Usage: python paper/extract.py path/to/revs.tex")
    try:
        data = extract(arguments[0])
    except SourceError as error:
        sys.exit(str(error))
    write(data, OUTPUT)
    cells = sum(len(table.get("cells", ())) for table in data["tables"].values())
    print(f"{OUTPUT.name}: {cells} cells, {len(data['hyperparameters'])} hyperparameter values.")


if __name__ == "__main__":
    main(sys.argv[1:])
