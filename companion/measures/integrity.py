"""Model integrity (§4.4.2): what an edited model can still do, by MMLU, GSM8K and perplexity.

lm-eval runs the benchmarks on the model in memory. ``REVS_BENCHMARKS`` is ``hub``, or a folder with
``mmlu_redux/test.jsonl``, ``gsm8k/test.jsonl`` and ``gsm8k/train_first200.jsonl``. The same items
are asked before and after an edit, and each answer is kept as right or wrong: flips can be counted.
"""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

from revs.measures import general_text
from revs.measures.metrics import mean
from revs.model.architecture import Decoder
from revs.model.targets import Split
from revs.model.text import special_prefix

VERSION = 1

HUB = "hub"
FILES = ("mmlu_redux/test.jsonl", "gsm8k/test.jsonl", "gsm8k/train_first200.jsonl")
# MMLU items of a subject, GSM8K items, solved GSM8K problems before each
EACH, PROBLEMS, SHOTS = 4, 25, 5
# texts per forward pass: each token of a solution reads the whole model
BATCH = {"mmlu": 8, "gsm8k": 25}
WRITTEN = 200  # tokens of a solution
LETTERS = ("A", "B", "C", "D")
NUMBER = r"(-?[0-9][0-9,]*\.?[0-9]*)"


def measure(decoder: Decoder, split: Split, k: int = 100) -> tuple[dict, dict[str, dict]]:
    """Accuracy and every answer on MMLU and GSM8K, and perplexity; nothing by secret.

    ``right`` has one digit per question, in order: 1 for a right answer. ``from`` says where the
    questions came from: the hub, or the files' hash.
    """
    from lm_eval import simple_evaluate  # slow to import
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    tasks, where = benchmarks()
    manager = TaskManager(include_defaults=where == HUB)  # else thousands of files are read
    result = {"from": where, "perplexity": general_text.predictions(decoder).perplexity}
    asked = (("mmlu", EACH, "acc"), ("gsm8k", PROBLEMS, "exact_match"))
    for (name, limit, metric), task in zip(asked, tasks):
        bos = bool(special_prefix(decoder.tokenizer))
        about = {"batch_size": BATCH[name], "add_bos_token": bos}
        lm = HFLM(pretrained=decoder.model, tokenizer=decoder.tokenizer, **about)
        how = {"limit": limit if where == HUB else None, "log_samples": True, "bootstrap_iters": 0}
        found = simple_evaluate(lm, tasks=[task], task_manager=manager, **how)["samples"]
        right = [
            int(sample[metric])
            for _, some in sorted(found.items())
            for sample in sorted(some, key=lambda sample: sample["doc_id"])
            if sample["filter"] != "strict-match"
        ]
        answers = "".join(map(str, right))
        result[name] = {"accuracy": mean(right), "items": len(right), "right": answers}
    return result, {}


def inputs() -> dict[str, str]:
    """Where the questions come from, the hub or the hash of the folder's files, for rows."""
    return {"benchmarks": benchmarks()[1]}


def benchmarks() -> tuple[list, str]:
    """MMLU and GSM8K for lm-eval, and their source: the hub, or the hash of the folder's files.

    Raises FileNotFoundError if neither is named or a file is missing.
    """
    where = os.environ.get("REVS_BENCHMARKS", "")
    if where == HUB:
        return ["mmlu", "gsm8k"], HUB
    files = [Path(where) / name for name in FILES]
    if missing := [file.name for file in files if not where or not file.is_file()]:
        raise FileNotFoundError(
            f"MMLU and GSM8K were not found ({', '.join(missing)}): "
            "set REVS_BENCHMARKS to a folder with mmlu_redux/ and gsm8k/, or to 'hub'."
        )
    content = hashlib.sha256(b"".join(file.read_bytes() for file in files))
    return [mmlu(files[0]), gsm8k(*files[1:])], content.hexdigest()


def local(name: str, test: Path) -> dict:
    """A task of lm-eval that reads a file."""
    files = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(test)}}}
    return {"task": f"{name}_local", "test_split": "test"} | files


def mmlu(test: Path) -> dict:
    """Return the task MMLU, without examples: the answer is the likeliest letter."""

    def question(doc: dict) -> str:
        subject = doc["subject"].replace("_", " ")
        lines = [f"The following is a multiple choice question about {subject}.", ""]
        lines.append(doc["question"].strip())
        lines += [f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"])]
        return "\n".join([*lines, "Answer:"])

    return local("mmlu", test) | {
        "process_docs": first_of_each,
        "output_type": "multiple_choice",
        "doc_to_text": question,
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
    """GSM8K after SHOTS solved problems: the last number written, of the first PROBLEMS items."""
    solved = [json.loads(line) for line in train.read_text(encoding="utf-8").splitlines()[:SHOTS]]
    before = "".join(f"Question: {doc['question']}\nAnswer: {doc['answer']}\n\n" for doc in solved)
    last = {"function": "regex", "group_select": -1, "regex_pattern": NUMBER}
    until = ["Question:", "\n\n"]
    return local("gsm8k", test) | {
        "process_docs": lambda items: items.select(range(min(PROBLEMS, len(items)))),
        "output_type": "generate_until",
        "doc_to_text": lambda doc: f"{before}Question: {doc['question']}\nAnswer:",
        "doc_to_target": lambda doc: doc["answer"].rpartition("#### ")[2].replace(",", ""),
        "generation_kwargs": {"until": until, "do_sample": False, "max_gen_toks": WRITTEN},
        "filter_list": [{"name": "last-number", "filter": [last, {"function": "take_first"}]}],
        "metric_list": [{"metric": "exact_match", "regexes_to_ignore": [",", r"\.$"]}],
    }
