"""Model integrity (§4.4.2): what an edited model can still do, by MMLU, GSM8K and perplexity.

The benchmarks run through lm-eval, on the model in memory: from the hub, or from a folder of one's own with
``mmlu_redux/test.jsonl``, ``gsm8k/test.jsonl`` and ``gsm8k/train_first200.jsonl``, named by ``REVS_BENCHMARKS``. The same
items are asked before and after an edit, and each answer is kept as right or wrong, so that flips can be counted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

from revs.measures import ordinary
from revs.measures.metrics import mean
from revs.model.architecture import Decoder
from revs.model.targets import Split

HUB = "hub"
inputs = ordinary.inputs  # for rows: perplexity is of this text
EACH, PROBLEMS, SHOTS = (
    10,
    50,
    5,
)  # MMLU items of a subject, GSM8K items, solved GSM8K problems before each
BATCH = {
    "mmlu": 8,
    "gsm8k": 25,
}  # texts of a forward pass: a solution is written token by token, and for each the whole model is read
WRITTEN = 200  # tokens of a solution
LETTERS = ("A", "B", "C", "D")


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Accuracy and every answer on MMLU and GSM8K, and perplexity on benign text; nothing by secret."""
    from lm_eval import simple_evaluate  # slow to import
    from lm_eval.models.huggingface import HFLM

    tasks, where = benchmarks()
    result = {"from": where, "perplexity": ordinary.observe(decoder).perplexity}
    for (name, limit, metric), task in zip(
        (("mmlu", EACH, "acc"), ("gsm8k", PROBLEMS, "exact_match")), tasks
    ):
        lm = HFLM(pretrained=decoder.model, tokenizer=decoder.tokenizer, batch_size=BATCH[name])
        found = simple_evaluate(
            model=lm,
            tasks=[task],
            limit=limit if where == HUB else None,
            log_samples=True,
            bootstrap_iters=0,
        )["samples"]
        samples = [
            sample
            for _, some in sorted(found.items())
            for sample in sorted(some, key=lambda sample: sample["doc_id"])
            if sample["filter"] != "strict-match"
        ]
        right = [int(sample[metric]) for sample in samples]
        result[name] = {
            "accuracy": mean(right),
            "items": len(right),
            "right": "".join(map(str, right)),
        }
    return result, {}


def benchmarks() -> tuple[list, str]:
    """MMLU and GSM8K for lm-eval, and where their items come from: the hub, or the hash of the folder's files.

    Raises FileNotFoundError if neither is named or a file is missing.
    """
    where = os.environ.get("REVS_BENCHMARKS", "")
    if where == HUB:
        return ["mmlu", "gsm8k"], HUB
    files = [
        Path(where) / name
        for name in ("mmlu_redux/test.jsonl", "gsm8k/test.jsonl", "gsm8k/train_first200.jsonl")
    ]
    if missing := [file.name for file in files if not where or not file.is_file()]:
        raise FileNotFoundError(
            f"MMLU and GSM8K were not found ({', '.join(missing)}): set REVS_BENCHMARKS to a folder with mmlu_redux/ and gsm8k/, or to 'hub'."
        )
    return [mmlu(files[0]), gsm8k(*files[1:])], hashlib.sha256(
        b"".join(file.read_bytes() for file in files)
    ).hexdigest()


def mmlu(test: Path) -> dict:
    """MMLU without examples: the letter with the highest probability after the question; the first sound items of each subject."""
    return {
        "task": "mmlu_local",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(test)}},
        "test_split": "test",
        "process_docs": first_of_each,
        "output_type": "multiple_choice",
        "doc_to_text": lambda doc: (
            f"The following is a multiple choice question about {doc['subject'].replace('_', ' ')}.\n\n{doc['question'].strip()}\n"
            + "".join(f"{letter}. {choice}\n" for letter, choice in zip(LETTERS, doc["choices"]))
            + "Answer:"
        ),
        "doc_to_choice": list(LETTERS),
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc"}],
    }


def first_of_each(items):
    """The first EACH items of every subject whose review found no error."""
    taken: Counter = Counter()
    chosen = []
    for number, (subject, kind) in enumerate(zip(items["subject"], items["error_type"])):
        if kind == "ok" and taken[subject] < EACH:
            taken[subject] += 1
            chosen.append(number)
    return items.select(chosen)


def gsm8k(test: Path, train: Path) -> dict:
    """GSM8K after SHOTS solved problems: the last number that is written, of the first PROBLEMS items."""
    solved = [json.loads(line) for line in train.read_text(encoding="utf-8").splitlines()[:SHOTS]]
    before = "".join(f"Question: {doc['question']}\nAnswer: {doc['answer']}\n\n" for doc in solved)
    return {
        "task": "gsm8k_local",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(test)}},
        "test_split": "test",
        "process_docs": lambda items: items.select(range(min(PROBLEMS, len(items)))),
        "output_type": "generate_until",
        "doc_to_text": lambda doc: f"{before}Question: {doc['question']}\nAnswer:",
        "doc_to_target": lambda doc: doc["answer"].rpartition("#### ")[2].replace(",", ""),
        "generation_kwargs": {
            "until": ["Question:", "\n\n"],
            "do_sample": False,
            "max_gen_toks": WRITTEN,
        },
        "filter_list": [
            {
                "name": "last-number",
                "filter": [
                    {
                        "function": "regex",
                        "group_select": -1,
                        "regex_pattern": r"(-?[0-9][0-9,]*\.?[0-9]*)",
                    },
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [{"metric": "exact_match", "regexes_to_ignore": [",", r"\.$"]}],
    }


def flips(before: str, after: str) -> dict[str, int]:
    """Answers that changed between two runs on the same items: right to wrong (``lost``) and wrong to right (``won``).

    Raises ValueError if the runs asked for other items.
    """
    if len(before) != len(after):
        raise ValueError(
            f"The runs have {len(before)} and {len(after)} answers: compare runs on the same items."
        )
    return {
        "lost": sum(a > b for a, b in zip(before, after)),
        "won": sum(a < b for a, b in zip(before, after)),
    }
