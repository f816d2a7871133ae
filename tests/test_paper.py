"""The paper's numbers as data: complete, equal to the source where that is at hand, and free of addresses."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from companion.record import paper
from paper import extract

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(os.environ.get("REVS_PAPER_TEX", ROOT.parent / "shared" / "paper" / "revs.tex"))
MADE = "005354d395dea93755cd4728694318fb30b566cef03186183d5cf0ddd252d3f5"  # of paper/tables.json, by paper/extract.py from the source
needs_source = pytest.mark.skipif(
    not SOURCE.is_file(), reason="the paper's LaTeX source is not at hand"
)

METHODS = {
    "REVS": {"n_max", "k", "r_h", "eps_r_h", "r_n", "eps_r_n"},
    "FT-L": {"layers", "loss_break", "lr", "norm_constraint", "steps"},
    "MEMIT": {"layers", "loss_break", "prob_coefficient", "lr", "steps", "n_max_len"},
    "Max-Entropy": {"layers", "patil_layers", "loss_break", "prob_coefficient", "lr", "steps"},
    "Head-Projection": {
        "layers",
        "patil_layers",
        "k",
        "loss_break",
        "prob_coefficient",
        "lr",
        "steps",
    },
    "RMU": {"alpha", "layer_id", "layers", "lr", "epochs", "steering_coefficient"},
    "NPO-KL": {"beta", "kl_coefficient", "lr", "epochs", "n_max_len"},
}

# Counted by hand in the source, rows × columns; the URL block of the first table has no Unedited row.
CELLS = {
    "tab:core_results_llama": (8 + 8 + 7) * 6,
    "tab:extraction_results_llama": (8 + 8 + 8) * 4,
    "tab:core_results_gptj": (8 + 8) * 4,
    "tab:extraction_results_gptj": (8 + 8) * 4,
    "tab:ablation_neuron_selection": 5 * 2,
    "tab:method_results": 4 * 4,
    "tab:ablation_token_method": 4 * 4,
    "tab:pii-distribution": 4 * 2,
}
ABOUT_LLAMA = {"tab:core_results_llama", "tab:extraction_results_llama", "tab:pii-distribution"}
TEXT_ROWS = {
    "tab:unlearn_email_example": 10,
    "tab:retained_email_example": 4,
    "tab:email-examples": 6,
    "tab:ssn-examples": 10,
}

# Read by eye in the source: label, data set, row, column, value, std, mark.
PINNED = [
    ("tab:core_results_llama", "SSN", "FT-L", "Efficacy@100", 63.88, 9.88, "underline"),
    ("tab:core_results_llama", "SSN", "REVS", "Unlearning Score", 89.58, 1.99, "bold"),
    ("tab:core_results_llama", "SSN", "Max-Entropy", "Specificity", 1.40, 0.60, None),
    ("tab:core_results_llama", "SSN", "Unedited", "Specificity", 100, 0, None),
    ("tab:core_results_llama", "SSN", "REVS", "Generalization@100", 89.67, 3.78, "bold"),
    ("tab:core_results_llama", "SSN", "REVS", "GSM8K", 44.20, None, None),
    ("tab:core_results_llama", "Emails", "REVS", "Specificity", 65.70, 3.79, "bold"),
    ("tab:core_results_llama", "Emails", "FT-L", "Specificity", 49.25, 8.50, None),
    ("tab:core_results_llama", "Emails", "MEMIT", "Generalization@100", None, None, None),
    ("tab:core_results_llama", "Emails", "Unedited", "MMLU", 62.17, None, None),
    ("tab:core_results_llama", "URLs", "NPO-KL", "Specificity", 50.87, 14.10, "bold"),
    ("tab:core_results_llama", "URLs", "REVS", "MMLU", 62.31, None, None),
    ("tab:extraction_results_llama", "SSN", "Unedited", "Perturb@100", 92.13, 5.15, None),
    (
        "tab:extraction_results_llama",
        "Emails",
        "Max-Entropy",
        "Resistance Score",
        72.77,
        3.90,
        "bold",
    ),
    ("tab:extraction_results_llama", "URLs", "FT-L", "Logit-Lens@100", 58.80, 7.37, "underline"),
    ("tab:extraction_results_llama", "URLs", "REVS", "Delta@100", 91.97, 0.15, None),
    ("tab:core_results_gptj", "SSN", "MEMIT", "Specificity", 84.17, 3.07, "bold"),
    ("tab:core_results_gptj", "SSN", "REVS", "Efficacy@100", 99.95, 0.07, "bold"),
    ("tab:core_results_gptj", "Emails", "Max-Entropy", "Unlearning Score", 43.6, 2.05, None),
    ("tab:core_results_gptj", "Emails", "Head-Projection", "Specificity", 75.58, 3.24, "bold"),
    ("tab:extraction_results_gptj", "SSN", "REVS", "Resistance Score", 99.12, 3.56, "bold"),
    ("tab:extraction_results_gptj", "Emails", "MEMIT", "Perturb@100", 77.12, 3.86, "underline"),
    ("tab:extraction_results_gptj", "Emails", "Max-Entropy", "Perturb@100", 67.7, 41.6, None),
    (
        "tab:ablation_neuron_selection",
        "Emails",
        "Rank & Activations (hybrid)",
        "Resistance Score",
        84.2,
        None,
        "bold",
    ),
    (
        "tab:ablation_neuron_selection",
        "Emails",
        "Gradient-based",
        "Unlearning Score",
        71.1,
        None,
        None,
    ),
    ("tab:method_results", "Emails", "ZERO (n=2)", "Unlearning Score", 14.3, None, None),
    ("tab:method_results", "Emails", "REVS", "Specificity", 87.1, None, "bold"),
    ("tab:ablation_token_method", "Emails", "Rarest", "Resistance Score", 83.9, None, "bold"),
    ("tab:ablation_token_method", "Emails", "Most Frequent", "Specificity", 47.22, None, None),
    ("tab:pii-distribution", None, "URLs", "Identified", 17233, None, None),
    ("tab:pii-distribution", None, "Email addresses", "Memorized", 205, None, None),
]


def cell(label, dataset, row, column):
    """The one cell at a place of a table."""
    cells = paper.tables()["tables"][label]["cells"]
    (found,) = [c for c in cells if (c["dataset"], c["row"], c["column"]) == (dataset, row, column)]
    return found


# --------------------------------------------------------------------------------------------------- against the source


@needs_source
def test_extracting_again_gives_the_recorded_cells():
    again, recorded = extract.extract(SOURCE), paper.tables()
    for label, entry in recorded["tables"].items():
        for new, old in zip(
            again["tables"][label].get("cells", ()), entry.get("cells", ()), strict=True
        ):
            assert new == old, label
    assert again == recorded


@needs_source
def test_every_label_of_the_source_is_recorded():
    text, recorded = SOURCE.read_text(encoding="utf-8"), paper.tables()
    assert set(re.findall(r"\\label\{(tab:[^}]*)\}", text)) == set(recorded["tables"])
    figures = recorded["figures"].values()
    assert set(re.findall(r"\\label\{(fig:[^}]*)\}", text)) == {
        label for figure in figures for label in (figure["label"], *figure["panels"])
    }


@needs_source
@pytest.mark.parametrize(
    "old, new, named",
    [
        (r"\label{tab:method_results}", r"\label{tab:else}", "tab:else"),
        (
            "and $5$ gradient steps with a maximum",
            "and a few gradient steps with a maximum",
            "MEMIT",
        ),
        ("number of epochs from 1 to 5", "number of epochs", "sweep of epochs"),
        (r"$14.3$", r"$\mathbf{14.3}$", "ZERO (n=2) / Unlearning Score"),
        (r"\ourmethod: Unlearning", "Another: Unlearning", "its title is another one"),
    ],
)
def test_a_changed_source_is_refused_with_what_was_not_found(tmp_path, old, new, named):
    text = SOURCE.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "changed.tex"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(extract.SourceError, match=re.escape(named)):
        extract.extract(changed)


@pytest.mark.parametrize("content", [None, b"", b"\\documentclass{article}\n", b"\xff\xfe\x00"])
def test_a_wrong_file_ends_with_one_sentence_and_writes_nothing(tmp_path, content):
    path = tmp_path / "other.tex"
    if content is not None:
        path.write_bytes(content)
    before = paper._file().read_bytes()
    done = subprocess.run(
        [sys.executable, ROOT / "paper" / "extract.py", path], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert (
        len(done.stderr.splitlines()) == 1
        and done.stderr.endswith(".\n")
        and str(path) in done.stderr
    )
    assert paper._file().read_bytes() == before


def test_the_file_is_replaced_whole(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text("old")
    extract.write({"é": [1]}, path)
    assert path.read_text(encoding="utf-8") == '{\n "é": [\n  1\n ]\n}\n'
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------------------------------------------------ structure


def test_source_is_recorded():
    source = paper.tables()["source"]
    assert source["sha256"] in (ROOT / "paper" / "README.md").read_text(encoding="utf-8")
    assert source["bibkey"] == "ashuach2025revs"
    assert source["title"].startswith("REVS: Unlearning Sensitive Information in Language Models")


def test_no_number_was_changed_by_hand():
    """Where the source is not at hand: the file is the one that was made from it and compared with it cell by cell."""
    assert hashlib.sha256(paper._file().read_bytes()).hexdigest() == MADE, (
        "run paper/extract.py, look at the differences, and put the new hash here"
    )


def test_sections_are_numbered_as_the_paper_numbers_them():
    """Counted by eye in the paper: the last ones of the text and of the Appendix, and one below each depth."""
    numbers = {section["number"]: section["title"] for section in paper.tables()["sections"]}
    assert [numbers[number] for number in ("3.1.2", "4.5", "5", "5.1", "7")] == [
        "Neuron Selection",
        "Implementation Details",
        "Results",
        "Analysis",
        "Conclusion",
    ]
    assert [numbers[number] for number in ("A.3", "D.2", "F.1.2", "H")] == [
        "Results on GPT-J-6B",
        "Alternative Neuron Editing Strategies",
        "URLs Dataset",
        "Hardware Details",
    ] and len(numbers) == len(paper.tables()["sections"])


def test_no_table_is_missing():
    assert set(paper.tables()["tables"]) == set(CELLS) | set(TEXT_ROWS)
    assert sum(CELLS.values()) == 412


@pytest.mark.parametrize("label", CELLS)
def test_tables_of_numbers_are_complete(label):
    entry = paper.tables()["tables"][label]
    cells = entry["cells"]
    assert len(cells) == CELLS[label]
    places = {(c["dataset"], c["row"], c["column"]) for c in cells}
    assert len(places) == len(cells)
    assert [c["column"] for c in cells[: len(entry["columns"])]] == entry["columns"]
    assert {c["column"] for c in cells} == set(entry["columns"])
    assert entry["label"] == label and entry["caption"] and "\\" not in entry["caption"]
    assert entry["model"] == ("Llama-3-8B" if label in ABOUT_LLAMA else "GPT-J-6B")


@pytest.mark.parametrize("label", [label for label in CELLS if "_results_" in label])
def test_result_tables_have_every_method_once_a_data_set(label):
    frame = paper.table(label)
    for dataset, block in frame.groupby("dataset"):
        rows = set(METHODS) | {"Unedited"}
        if (label, dataset) == ("tab:core_results_llama", "URLs"):
            rows -= {"Unedited"}
        assert set(block["row"]) == rows
    assert set(frame["dataset"]) == {"SSN", "Emails"} | ({"URLs"} if "llama" in label else set())


@pytest.mark.parametrize("label", CELLS)
def test_printed_and_parsed_agree(label):
    for c in paper.tables()["tables"][label]["cells"]:
        number, _, std = c["printed"].partition(" ± ")
        dagger, number = number.endswith("†"), number.rstrip("†").replace(",", "")
        assert c["value"] == (None if number == "–" else float(number))
        assert c["std"] == (float(std) if std else None)
        assert c["mark"] in (None, "bold", "underline")
        assert ("note" in c) == dagger


@pytest.mark.parametrize("label, dataset, row, column, value, std, mark", PINNED)
def test_pinned_cells(label, dataset, row, column, value, std, mark):
    found = cell(label, dataset, row, column)
    assert (found["value"], found["std"], found["mark"]) == (value, std, mark)


def test_only_the_three_best_unlearning_scores_carry_a_dagger():
    daggers = [
        (label, c["dataset"], c["row"], c["column"], c["printed"])
        for label in CELLS
        for c in paper.tables()["tables"][label]["cells"]
        if c.get("note") == "dagger"
    ]
    score = ("REVS", "Unlearning Score")
    assert daggers == [
        ("tab:core_results_llama", "SSN", *score, "89.58† ± 1.99"),
        ("tab:core_results_llama", "Emails", *score, "62.37† ± 2.30"),
        ("tab:core_results_llama", "URLs", *score, "44.25† ± 5.01"),
    ]


def test_printed_names_are_kept_where_they_differ():
    assert (
        cell("tab:extraction_results_gptj", "Emails", "MEMIT", "Delta@100")["row_printed"]
        == "MEMIT (modified)"
    )
    assert cell("tab:core_results_llama", "SSN", "REVS", "MMLU")["row_printed"] == "REVS (ours)"
    assert "row_printed" not in cell("tab:core_results_llama", "SSN", "RMU", "MMLU")


def test_figures_have_their_panels_in_order():
    figures = paper.tables()["figures"]
    panels = {label: len(figure["panels"]) for label, figure in figures.items()}
    assert panels == {
        "fig:high_level_method_plot": 0,
        "fig:main_method_plot": 0,
        "fig:radar_ext_llama": 0,
        "fig:tradeoff_plots": 9,
        "fig:radar_ext_gptj": 0,
        "fig:combined_plots": 6,
    }
    assert figures["fig:tradeoff_plots"]["panels"][3] == "fig:efficacy_vs_c_size_email_llama"
    assert figures["fig:combined_plots"]["panels"][2] == "fig:harmonic_mean_vs_targets_ssn"


def test_set_up():
    data = paper.tables()
    assert data["finetune_ssn"] == {"lr": 2e-6, "epochs": 4, "batch_size": 1}
    assert data["splits"] == {
        "seeds": [1, 2, 3, 4, 5, 6],
        "tuning_seed": 0,
        "forget_emails": 50,
        "forget_urls": 50,
        "forget_ssn": "half",
    }
    example = data["token_example"]
    assert (
        example["text"] == "".join(example["tokens"])
        and len(example["ids"]) == 6
        and example["chosen"] == ["wis", "avid"]
    )
    hardware = data["hardware"]
    assert hardware["gpu"] == "NVIDIA RTX 6000 Ada Generation" and hardware["vram_gb"] == 49
    assert hardware["gpus"] == {
        "REVS": 1,
        "FT-L": 4,
        "MEMIT": 2,
        "Max-Entropy": 4,
        "Head-Projection": 4,
        "RMU": 3,
        "NPO-KL": 5,
    }
    assert hardware["runtime_minutes"] == {
        "REVS": 39,
        "FT-L": 8,
        "MEMIT": 13,
        "Max-Entropy": 13,
        "Head-Projection": 13,
        "RMU": 9,
        "NPO-KL": 9,
    }
    assert (hardware["dataset"], hardware["model"]) == ("Emails", "Llama-3-8B")


# -------------------------------------------------------------------------------------------------------------- privacy


def test_no_address_and_no_number_of_a_person():
    text = paper._file().read_text(encoding="utf-8")
    for word in re.findall(r"\S*@\S*", text):
        assert re.fullmatch(r'"[A-Za-z-]+@100",?', word) or word.strip('",') in (
            "lewis.david@email.com",
            "@email",
        ), "an address"  # the invented one
    assert not re.search(r"\d{3}[-. )]\s?\d{3,4}[-. ]\d{4}", text), "a telephone number"
    assert not re.search(r"\d{3}-\d{2}-\d{4}", text), "a social security number"


@pytest.mark.parametrize("label, rows", TEXT_ROWS.items())
def test_tables_of_text_keep_rows_and_domains_only(label, rows):
    entry = paper.tables()["tables"][label]
    assert entry["rows"] == rows
    assert set(entry) - {"domains", "sentences"} == {"number", "label", "caption", "rows"}
    for domains in entry.get("domains", {}).values():
        assert len(domains) == rows
        assert all(
            re.fullmatch(r"[\w*-]+(\.[\w-]+)+", domain) for domain in domains if domain is not None
        )


def test_tables_and_figures_are_numbered_as_printed():
    data = paper.tables()
    assert [entry["number"] for entry in data["tables"].values()] == list(range(1, 13)) and [
        entry["number"] for entry in data["figures"].values()
    ] == list(range(1, 7))
    assert (
        data["tables"]["tab:core_results_llama"]["number"] == 1
        and data["tables"]["tab:core_results_gptj"]["number"] == 3
        and data["figures"]["fig:tradeoff_plots"]["number"] == 4
    )


def test_sentences_keep_the_places_of_their_secrets_only():
    data = paper.tables()["tables"]
    numbers = data["tab:ssn-examples"]["sentences"]
    assert [each["secret"] for each in numbers] == 5 * [1] + 5 * [2] and numbers[0] == {
        "secret": 1,
        "before": 13,
        "after": 14,
    }
    assert [each["secret"] for each in data["tab:email-examples"]["sentences"]] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ] and data["tab:email-examples"]["sentences"][1] == {"secret": 2, "before": 8, "after": 0}


def test_domains():
    data = paper.tables()["tables"]
    unlearned = data["tab:unlearn_email_example"]["domains"]
    assert unlearned["original"][0] == "sanger.ac.uk" and unlearned["unlearned"][0] == "ebi.ac.uk"
    assert unlearned["original"][9] == "esat.kuleuven.ac.be"  # its sentence also says "@author"
    assert None not in unlearned["original"]
    assert [i for i, domain in enumerate(unlearned["unlearned"]) if domain is None] == [
        5,
        6,
    ]  # "[email protected]"
    masked = data["tab:email-examples"]["domains"]["original"]
    assert masked[1] == "flyin***.com" and masked[5] == "***.org"


# ------------------------------------------------------------------------------------------------------ hyperparameters


@pytest.mark.parametrize("dataset", ["SSN", "Emails", "URLs"])
@pytest.mark.parametrize("model", ["Llama-3-8B", "GPT-J-6B"])
@pytest.mark.parametrize("method", METHODS)
def test_hyperparameters_are_complete(method, model, dataset):
    values = paper.hyperparameters(method, model, dataset)
    assert set(values) == METHODS[method]
    for name, value in values.items():
        if name.endswith("layers"):
            assert value == "all" or value == list(range(value[0], value[-1] + 1))
        else:
            assert value > 0
    if dataset == "URLs":
        assert values == paper.hyperparameters(method, model, "Emails")


def test_hyperparameters_are_listed_once():
    entries = paper.tables()["hyperparameters"]
    places = {(e["method"], e["model"], e["dataset"], e["name"]) for e in entries}
    assert len(places) == len(entries) == 2 * 2 * sum(map(len, METHODS.values()))
    assert all(e["place"].startswith("app:") and e["printed"] for e in entries)


def test_revs_hyperparameters():
    llama = {"n_max": 130, "k": 1000, "r_h": 750, "eps_r_h": 250, "r_n": 105000, "eps_r_n": 5000}
    gptj = {"n_max": 30, "k": 100, "r_h": 2600, "eps_r_h": 1400, "r_n": 37500, "eps_r_n": 7500}
    assert paper.hyperparameters("REVS", "Llama-3-8B", "SSN") == llama
    assert paper.hyperparameters("REVS", "Llama-3-8B", "Emails") == llama | {"n_max": 45}
    assert paper.hyperparameters("REVS", "GPT-J-6B", "SSN") == gptj
    assert paper.hyperparameters("REVS", "GPT-J-6B", "Emails") == gptj


@pytest.mark.parametrize(
    "method, model, dataset, values",
    [
        (
            "FT-L",
            "Llama-3-8B",
            "SSN",
            {"layers": "all", "loss_break": 8.362e-2, "lr": 1.12e-7, "norm_constraint": 3.3e-5},
        ),
        ("FT-L", "GPT-J-6B", "SSN", {"layers": list(range(28)), "steps": 10}),
        (
            "MEMIT",
            "Llama-3-8B",
            "Emails",
            {"layers": [3], "loss_break": 1e-5, "lr": 0.01, "steps": 5, "n_max_len": 100},
        ),
        (
            "MEMIT",
            "GPT-J-6B",
            "Emails",
            {"layers": [3, 4, 5, 6, 7, 8], "prob_coefficient": 20, "n_max_len": 50},
        ),
        (
            "Max-Entropy",
            "Llama-3-8B",
            "SSN",
            {"layers": [3, 4, 5], "patil_layers": list(range(15, 32)), "steps": 25},
        ),
        ("Max-Entropy", "GPT-J-6B", "Emails", {"loss_break": 3.634e-2, "lr": 6.65e-2, "steps": 10}),
        (
            "Head-Projection",
            "GPT-J-6B",
            "Emails",
            {"k": 100, "loss_break": 6e-4, "lr": 1.868e-1, "steps": 5},
        ),
        (
            "RMU",
            "Llama-3-8B",
            "Emails",
            {"alpha": 1000, "lr": 6.819e-4, "epochs": 2, "steering_coefficient": 1000},
        ),
        (
            "RMU",
            "GPT-J-6B",
            "Emails",
            {"alpha": 329, "layers": [5, 6, 7], "steering_coefficient": 1.61e-1},
        ),
        (
            "NPO-KL",
            "GPT-J-6B",
            "Emails",
            {"beta": 0.1, "kl_coefficient": 1000, "lr": 6.1e-7, "epochs": 3},
        ),
    ],
)
def test_pinned_hyperparameters(method, model, dataset, values):
    found = paper.hyperparameters(method, model, dataset)
    assert {name: found[name] for name in values} == values


def test_what_is_inherited():
    inherited = {}
    for e in paper.tables()["hyperparameters"]:
        if e.get("inherited"):
            assert e["dataset"] == "Emails"
            inherited.setdefault((e["method"], e["model"]), set()).add(e["name"])
    memit = {"layers", "loss_break", "prob_coefficient", "lr", "steps"}
    assert inherited == {
        ("MEMIT", "Llama-3-8B"): memit,
        ("MEMIT", "GPT-J-6B"): memit,
        ("RMU", "Llama-3-8B"): {"layer_id", "layers", "lr", "epochs"},
        ("RMU", "GPT-J-6B"): {"layer_id", "layers"},
        ("NPO-KL", "Llama-3-8B"): {"n_max_len"},
        ("NPO-KL", "GPT-J-6B"): {"n_max_len"},
    }


def test_sweep():
    swept = {(e["method"], e["name"]): e for e in paper.tables()["sweep"]}
    assert len(swept) == len(paper.tables()["sweep"]) == 26
    assert {method for method, _ in swept} == set(METHODS)
    assert (swept["REVS", "n_max"]["low"], swept["REVS", "n_max"]["high"]) == (10, 1000)
    assert (swept["FT-L", "lr"]["low"], swept["FT-L", "lr"]["high"]) == (1e-8, 5e-3)
    assert swept["RMU", "alpha"]["values"] == [1, 10, 100, 1000]
    assert swept["NPO-KL", "beta"]["values"] == [0.01, 0.1, 1, 10, 100, 1000]


# --------------------------------------------------------------------------------------------------------------- reader


def test_table_gives_a_frame():
    frame = paper.table("tab:core_results_llama")
    assert list(frame.columns) == ["dataset", "row", "column", "value", "std", "mark", "printed"]
    assert len(frame) == 138 and frame["value"].dtype == float and frame["std"].dtype == float
    dash = frame[(frame["dataset"] == "URLs") & (frame["column"] == "Generalization@100")]
    assert dash["value"].isna().all() and (dash["printed"] == "–").all()
    assert isinstance(paper.table("tab:ablation_neuron_selection"), pd.DataFrame)


def test_tables_are_read_once():
    assert paper.tables() is paper.tables()


@pytest.mark.parametrize(
    "ask, nearest",
    [
        (lambda: paper.table("tab:core_results_lama"), "tab:core_results_llama"),
        (lambda: paper.table("tab:ssn-examples"), "tab:"),  # a table of text has no numbers
        (lambda: paper.hyperparameters("NPO", "GPT-J-6B", "SSN"), "NPO-KL"),
        (lambda: paper.hyperparameters("REVS", "llama3", "SSN"), "Llama-3-8B"),
        (lambda: paper.hyperparameters("REVS", "GPT-J-6B", "URL"), "URLs"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(ask, nearest):
    with pytest.raises(ValueError, match=f"the nearest is '{nearest}"):
        ask()
