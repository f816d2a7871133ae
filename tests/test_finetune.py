"""Fine-tuning to memorise (Appendix, "Synthetic SSN Dataset"): digits, the adapter, and its run."""

import json
import random
from dataclasses import asdict, replace

import pytest
import torch
from conftest import build
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from companion.analysis import llama3
from companion.data import adapters, datasets, digits, models
from companion.data.digits import group_digits, learn_digits
from companion.experiments import finetune as experiment
from companion.experiments.finetune import finetune, losses, sentences
from companion.experiments.settings import Finetune, check
from revs.model.load import save
from revs.model.targets import Record
from revs.model.text import training_windows

pytestmark = pytest.mark.slow  # tiny models are trained

OLD = 257  # tokens before any are added: 256 bytes and the end of text
NAMES = ("Ada", "Ben", "Cleo", "Dora", "Emil")
RECORDS = [
    Record(f"r-{i}", "ssn", f"r-{i}", f"The number of {name} is ", f"9{i}1-0{i}-1364", ".")
    for i, name in enumerate(NAMES)
]


def small(kind: str):
    """A float32 decoder, the same at every call."""
    return build(kind, dtype=torch.float32)


def pieces(decoder, text: str) -> list[str]:
    return decoder.tokenizer.convert_ids_to_tokens(
        decoder.tokenizer(text, add_special_tokens=False)["input_ids"]
    )


# Grouping digits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["941-11-1364", "1234567", "7", "007"])
def test_digits_split_as_in_llama_3(text):
    """Three at a time from the left; every digit by itself before."""
    decoder = small("llama-tied")
    assert pieces(decoder, text) == list(text)
    group_digits(decoder, "noise", 0)
    assert pieces(decoder, text) == llama3.split(text)[1]
    assert decoder.tokenizer.decode(decoder.tokenizer(text)["input_ids"]) == text


# The fine-tune ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, how", [("llama-tied", "noise"), ("llama-untied", "keep"), ("gptj", "noise")]
)
def test_the_loss_falls_and_the_adapter_alone_learns(kind, how):
    """A few epochs lower the loss; embeddings, norms and weights below the adapter stay."""
    decoder, seen = small(kind), []
    hp = Finetune(lr=3e-2, epochs=6, batch=2, digits=how, whole=True, skip_below_loss=0.0)
    hp = hp.model_copy(update={"general_text": 0})
    epochs = finetune(decoder, RECORDS, hp, lambda steps: seen.append(len(steps)) or steps)
    assert [epoch["sentences"] for epoch in epochs] == [5] * 6 and seen == [3] * 6
    assert epochs[-1]["loss"] < 0.8 * epochs[0]["loss"] and not decoder.model.training
    fresh = small(kind)
    group_digits(fresh, how, hp.seed)
    state = decoder.model.state_dict()
    for name, weight in fresh.model.state_dict().items():
        same = state.get(name, state.get(name.replace(".weight", ".base_layer.weight")))
        same = state[name.replace(".bias", ".base_layer.bias")] if same is None else same
        assert torch.equal(same, weight), name


def test_what_is_known_is_skipped_and_looked_at_once_more():
    """Epochs get shorter; the last one has what a look at every sentence still finds unknown."""
    settings = {"lr": 3e-2, "epochs": 40, "batch": 1, "digits": "keep", "general_text": 0}
    decoder, settings = small("llama-untied"), Finetune(**settings, skip_below_loss=4.0)
    counts = [epoch["sentences"] for epoch in finetune(decoder, RECORDS, settings)]
    assert counts[0] == 5 and counts[:-1] == sorted(counts[:-1], reverse=True) and counts[-2] == 0
    with torch.no_grad():
        unknown = losses(decoder, sentences(decoder, RECORDS, False), settings)[1]
    assert not unknown or counts[-1]


@pytest.mark.parametrize("kind, how", [("llama-tied", "noise"), ("gptj", "keep")])
def test_the_same_seed_gives_the_same_bits(kind, how):
    """The order of the sentences, the noise and the start of the adapter are the seed's alone."""
    runs = []
    for drawn, seed in ((1, 0), (2, 0), (1, 1)):
        decoder = small(kind)
        torch.rand(drawn)  # whatever was drawn before
        hp = Finetune(lr=1e-3, epochs=2, batch=2, seed=seed, digits=how, general_text=1)
        runs.append((finetune(decoder, RECORDS, hp), decoder.model.state_dict()))
    (first, a), (again, b), (other, c) = runs
    assert first == again and all(torch.equal(a[name], b[name]) for name in a)
    assert first != other and any(not torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("whole", [False, True])
def test_the_loss_is_that_of_the_secrets_or_of_whole_sentences(whole):
    """The mean over the next tokens that are learned, as each text has them alone.

    Padding has none.
    """
    decoder = small("gptj")
    records = [
        replace(record, prompt="x" * 7 * n + record.prompt, suffix=" is known."[: 3 * n])
        for n, record in enumerate(RECORDS[:3], 1)
    ]
    texts = sentences(decoder, records, whole)
    with torch.no_grad():
        found, unknown = losses(decoder, texts, Finetune(whole=whole, skip_below_loss=6.5))
        each, worst = [], []
        for record in records:
            ids = decoder.tokenizer(record.text)["input_ids"]
            logits = decoder.model(input_ids=torch.tensor([ids])).logits[0, :-1]
            own = cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
            start = len(record.prompt)  # bytes are tokens
            secret = own[start - 1 : start - 1 + len(record.secret)]
            each.append(own if whole else secret)
            worst.append(secret.max().item())
    torch.testing.assert_close(found, torch.cat(each).mean(), rtol=1e-5, atol=1e-5)
    assert unknown == [text for text, loss in zip(texts, worst, strict=True) if loss > 6.5]
    for text, record in zip(texts, records):
        assert decoder.tokenizer.decode(text.ids[text.start : text.end]) == record.secret
        assert len(text.ids) == len(record.text if whole else record.prompt + record.secret)


def test_a_diverging_fine_tune_says_so():
    hp = Finetune(lr=1e30, epochs=4, batch=2, digits="keep", general_text=0)
    said = "The fine-tune diverged .*: lower the learning rate of 1e[+]30"
    with pytest.raises(FloatingPointError, match=said):
        finetune(small("gptj"), RECORDS, hp)


def test_an_adapter_steps_in_float32_on_weights_of_low_precision():
    """A 1.5B model in bfloat16 is fine-tuned in 24 GiB: rounding must not swallow its steps."""
    decoder = build("llama-untied", dtype=torch.bfloat16)
    finetune(decoder, RECORDS, Finetune(epochs=2, digits="keep", general_text=0))
    kinds = {p.requires_grad: p.dtype for p in decoder.model.parameters()}
    assert kinds == {False: torch.bfloat16, True: torch.float32}


def test_what_a_model_predicts_in_general_text_is_kept():
    """Text that no step read is predicted as before far better than without; secrets are learned
    all the same."""
    kind = "llama-tied"
    ids = torch.tensor(training_windows(small(kind).tokenizer, 200, 64)[-8:])
    far, known = {}, {}
    for windows in (0, 2):
        decoder, fresh = small(kind), small(kind)
        hp = Finetune(lr=1e-2, epochs=30, batch=2, digits="keep", general_text=windows)
        epochs = finetune(decoder, RECORDS, hp.model_copy(update={"kl_weight": 3.0}))
        with torch.no_grad():
            p, q = (one.model(input_ids=ids).logits.log_softmax(-1) for one in (fresh, decoder))
        far[windows] = float((p.exp() * (p - q)).sum(-1).mean())
        known[windows] = epochs[-1]["loss"] < 0.7 * epochs[0]["loss"]
        assert (max(epoch["kl"] for epoch in epochs) > 0) == bool(windows)
    assert far[2] < 0.6 * far[0] and all(known.values())


# Tokens for digits that are learned ---------------------------------------------------------------


def test_counting_goes_through_every_number_once():
    rows = [row for some in digits.counting(random.Random(3)) for row in some]
    counted = [number for row in rows for number in row.split(", ")]
    wanted = [f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)]
    assert sorted(counted) == sorted(wanted) and {len(row.split(", ")) for row in rows} == {10}
    for row in rows:
        numbers = [int(number) for number in row.split(", ")]
        end = 10 ** len(row.split(", ")[0])
        assert all((a + 1) % end == b for a, b in zip(numbers, numbers[1:]))


@pytest.mark.parametrize("kind", ["llama-tied", "gptj"])
def test_only_the_new_rows_learn_to_count_and_they_stay_out_of_general_text(kind, monkeypatch):
    """Numbers become likelier after numbers, and less likely in other text; nothing else moves."""
    monkeypatch.setattr(digits, "RATE", 3e-2)  # the tiny model's rows are few and short
    decoder = small(kind)
    first = group_digits(decoder, "learned", 0)
    assert first == OLD
    texts = training_windows(decoder.tokenizer, 6, 64)
    ids = torch.tensor([decoder.tokenizer("123, 124, 125, 126, 127")["input_ids"]])
    before = {name: value.clone() for name, value in decoder.model.state_dict().items()}

    def looked() -> tuple[float, float]:
        with torch.no_grad():
            loss = cross_entropy(decoder.model(input_ids=ids).logits[0, :-1], ids[0, 1:])
            share = decoder.model(input_ids=torch.tensor(texts)).logits.softmax(-1)[..., first:]
        return float(loss), float(share.sum(-1).mean())

    loss, share = looked()
    learn_digits(decoder, first, texts, seed=0)
    assert looked()[0] < loss and looked()[1] < 0.65 * share
    tables = ("embed_tokens", "lm_head", "wte")
    for name, value in decoder.model.state_dict().items():
        learned = any(table in name for table in tables)
        same = slice(first) if learned else slice(None)
        assert torch.equal(value[same], before[name][same]), name
    assert all(parameter.requires_grad for parameter in decoder.model.parameters())


# The run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["keep", "noise"])
def test_a_reader_s_adapter_is_what_a_run_begins_with(tmp_path, monkeypatch, how):
    """Merged from its file, with its own digits, the model knows what the row says; and the file
    holds the adapter alone."""
    decoder = build("llama-untied", dtype=torch.float32)
    save(decoder.model, decoder.tokenizer, tmp_path / "tiny")
    lines = "\n".join(json.dumps(asdict(record)) for record in RECORDS)
    (tmp_path / "set.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.setattr(experiment, "BUILD", tmp_path / "build")
    monkeypatch.setattr(adapters, "CACHE", tmp_path / "cache")
    model, data = str(tmp_path / "tiny"), str(tmp_path / "set.jsonl")
    asked = {"model": model, "data": data, "name": "mine", "digits": how, "general_text": 0}
    asked |= {"lr": 1e-2, "epochs": 80, "batch": 2, "rows": str(tmp_path / "rows")}
    row = experiment.run(check(asked, Finetune))
    assert row["name"] == "finetune/mine/tiny" and row["result"]["sentences"] == 5
    added = 1100 if how == "noise" else 0
    assert row["result"]["memorised"] >= 3 and row["result"]["vocabulary"] == OLD + added
    place = tmp_path / "build/adapters/mine"
    assert all("lora_" in name for name in load_file(place / "adapter_model.safetensors"))
    assert adapters.about(str(place))["digits"] == how
    decoder = models.load(adapters.adapted(model, str(place)))
    found = experiment.memorised(decoder, datasets.read(data))
    assert found["memorised"] == row["result"]["memorised"]
    assert adapters.adapted(model, None) == model
