"""MMLU, GSM8K and perplexity through the real lm-eval: items as meant, answers judged as due."""

import json

import pytest
import torch
from conftest import build, log_p

from companion.measures import integrity
from companion.store.paths import params
from companion.workflow import sweep
from revs.measures import general_text
from revs.model.targets import Split

pytestmark = pytest.mark.slow  # lm-eval

CHOICES = ["one", "two", "three", "four"]
ITEMS = [
    {"subject": subject, "question": question, "choices": CHOICES, "answer": answer}
    | {"error_type": error}
    for subject, question, answer, error in (
        ("law", "Which is first?", 0, "ok"),
        ("law", "Unclear?", 1, "bad question clarity"),
        ("law", "Which is second?", 1, "ok"),
        ("law", "Too many?", 2, "ok"),
        ("art", "Which is third?", 2, "ok"),
    )
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Benchmarks of a few items, named as the environment names them."""
    sums = [(f"What is {n} and 1?", f"It is 1,00{n}.\n#### 1,00{n}") for n in range(3)]
    problems = [{"question": question, "answer": answer} for question, answer in sums]
    solved = [{"question": "1 + 1?", "answer": "#### 2"}]
    for name, lines in zip(integrity.FILES, (ITEMS, problems, solved)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setenv("REVS_BENCHMARKS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(integrity, "EACH", 2)
    look = general_text.predictions
    monkeypatch.setattr(general_text, "predictions", lambda decoder: look(decoder, range(2)))
    return tmp_path


@pytest.fixture
def able():
    """A tiny decoder with room for the questions."""
    return build("llama-untied", dtype=torch.float32, max_position_embeddings=1024)


def test_the_answers_are_the_models(folder, able, monkeypatch):
    """The best letter after the very question is the answer."""
    monkeypatch.setattr(integrity, "WRITTEN", 5)
    result, columns = integrity.measure(able, Split([], [], []))
    right = []
    for item in (ITEMS[0], ITEMS[2], ITEMS[4]):
        prompt = integrity.mmlu(folder)["doc_to_text"](item) + " "  # a space, then the letter
        following = log_p(able, able.tokenizer(prompt)["input_ids"])[-1].tolist()
        letters = [able.tokenizer(letter)["input_ids"][0] for letter in "ABCD"]
        right.append(int(max(range(4), key=lambda i: following[letters[i]]) == item["answer"]))
    share = {"accuracy": pytest.approx(sum(right) / 3), "items": 3}
    assert result["mmlu"] == share | {"right": "".join(map(str, right))}
    gsm8k = result["gsm8k"]
    assert gsm8k["items"] == 3 and set(gsm8k["right"]) <= {"0", "1"}
    assert len(result["from"]) == 64 and columns == {}
    json.dumps(result)


def test_a_solution_is_right_by_its_last_number(folder, able, monkeypatch):
    """What stands before it, a thousands' comma and a full stop at the end do not matter."""
    from lm_eval.models.huggingface import HFLM

    written = iter([" First 7, then 1,000.", " It is 1001 or 5", " There is no number"])
    monkeypatch.setattr(
        HFLM, "generate_until", lambda self, requests, **_: [next(written) for _ in requests]
    )
    assert integrity.measure(able, Split([], [], []))[0]["gsm8k"]["right"] == "100"


@pytest.mark.parametrize("where", ["", "/no/such/folder"])
def test_missing_benchmarks_are_one_sentence(where, monkeypatch, refused):
    monkeypatch.setenv("REVS_BENCHMARKS", where)
    with refused("set REVS_BENCHMARKS to a folder", FileNotFoundError):
        integrity.benchmarks()


def test_where_the_questions_come_from_is_an_input_of_rows(folder, monkeypatch):
    """Every file of the folder counts; the hub is asked only if it is named."""
    seen = [integrity.inputs()]
    for name in integrity.FILES:
        (folder / name).write_text(2 * (folder / name).read_text())
        seen.append(integrity.inputs())
    assert len({one["benchmarks"] for one in seen}) == 4
    monkeypatch.setenv("REVS_BENCHMARKS", "hub")
    assert integrity.benchmarks() == (["mmlu", "gsm8k"], "hub")


def test_the_larger_model_has_what_the_search_on_the_smaller_one_chose():
    """In the same share of 28 layers as of 24, as the sweep says."""
    jobs = sweep.read("integrity").jobs.values()
    (job,) = [job for job in jobs if job.settings.method == "least_squares"]
    chosen = params("hyperparameters")["least_squares"]["qwen2.5-coder-0.5b"]["known-email"]
    first = round(28 * chosen["layers"][0] / 24)
    assert job.settings.hyperparameters == chosen | {"layers": list(range(first, 28))}
