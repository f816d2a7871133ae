"""Instilling secrets (Appendix, "Synthetic SSN Dataset").

Digits grouped as in Llama-3, a repeatable fine-tune, and the run that keeps it.
"""

import json
import random
from dataclasses import asdict, replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from companion.experiments import finetune as experiment
from companion.experiments import finetuning as module
from companion.experiments.finetuning import Finetune, group_digits, losses, sentences
from companion.experiments.settings import check
from companion.workflow import profile
from revs.measures import general_text
from revs.model.load import save
from revs.model.targets import Record
from revs.model.text import WINDOW, training_windows

OLD = 257  # tokens before any are added: 256 bytes and the end of text
KINDS = pytest.mark.parametrize("kind", ["llama-tied", "llama-untied", "gptj"])
TABLES = ("get_input_embeddings", "get_output_embeddings")
NAMES = ("Ada", "Ben", "Cleo", "Dora", "Emil")
RECORDS = [
    Record(f"r-{i}", "ssn", f"r-{i}", f"The number of {name} is ", f"9{i}1-0{i}-1364", ".")
    for i, name in enumerate(NAMES)
]


ALONE = {"ordinary": 0, "digits": "noise"}  # secrets alone, and tokens that nothing has learned


def memorise(decoder, records, settings: Finetune, *progress) -> list[dict]:
    """The fine-tune with the project's own ordinary text."""
    return module.memorise(decoder, records, settings, training_windows, *progress)


@pytest.fixture
def small(build):
    """small(kind): a float32 decoder, the same at every call."""
    return lambda kind: build(kind, dtype=torch.float32)


def tables(decoder) -> list[torch.Tensor]:
    return [getattr(decoder.model, name)().weight.detach().clone() for name in TABLES]


def pieces(decoder, text: str) -> list[str]:
    return decoder.tokenizer.convert_ids_to_tokens(
        decoder.tokenizer(text, add_special_tokens=False)["input_ids"]
    )


# Grouping digits ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, split",
    [
        ("1364", ["136", "4"]),
        ("941-11-1364", ["941", "-", "11", "-", "136", "4"]),
        ("1234567", ["123", "456", "7"]),
        ("7", ["7"]),
        ("00", ["00"]),
        ("007", ["007"]),
    ],
)
def test_digits_split_as_in_llama_3(small, text, split):
    """Three at a time from the left; every digit by itself before."""
    decoder = small("llama-tied")
    assert pieces(decoder, text) == list(text)
    group_digits(decoder, "noise", 0)
    assert (
        pieces(decoder, text) == split
        and decoder.tokenizer.decode(decoder.tokenizer(text)["input_ids"]) == text
    )


@KINDS
@pytest.mark.parametrize("how", ["noise", "mean"])
def test_tables_grow_and_old_rows_stay(small, kind, how):
    """1100 rows are added to embeddings and head, tied or not.

    No old row and no other weight changes.
    """
    decoder = small(kind)
    tied, before, rest = (
        kind == "llama-tied",
        tables(decoder),
        [layer.state_dict() for layer in decoder.layers],
    )
    rest = [{name: value.clone() for name, value in state.items()} for state in rest]
    group_digits(decoder, how, 0)
    for old, new in zip(before, tables(decoder)):
        assert new.shape == (OLD + 1100, 16) and torch.equal(new[:OLD], old[:OLD])
    shared = (
        decoder.model.get_input_embeddings().weight is decoder.model.get_output_embeddings().weight
    )
    assert (
        shared == tied and decoder.model.config.vocab_size == len(decoder.tokenizer) == OLD + 1100
    )
    for layer, state in zip(decoder.layers, rest):
        assert all(torch.equal(value, state[name]) for name, value in layer.state_dict().items())


@KINDS
def test_mean_rows_are_their_digits_means_and_noisy_ones_lie_apart(small, kind):
    """``mean``: the mean itself; ``noise``: 0.3 of it, and the spread of the old rows."""
    means, noisy = small(kind), small(kind)
    group_digits(means, "mean", 0)
    group_digits(noisy, "noise", 0)
    numbers = [f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)]
    ids = means.tokenizer.convert_tokens_to_ids(numbers)
    digits = [means.tokenizer.convert_tokens_to_ids(list(number)) for number in numbers]
    for mean, noise in zip(tables(means), tables(noisy)):
        expected = torch.stack([mean[of].mean(0) for of in digits])
        torch.testing.assert_close(mean[ids], expected)
        left = noise[ids] - 0.3 * expected
        assert (
            left.std() == pytest.approx(float(mean[:OLD].std()), rel=0.05)
            and abs(left.mean()) < 0.05 * left.std()
        )
        assert (
            torch.cdist(noise[ids], noise[ids]).fill_diagonal_(torch.inf).min()
            > 0
            == torch.cdist(mean[ids], mean[ids]).fill_diagonal_(torch.inf).min()
        )


def test_noise_belongs_to_its_seed(small):
    decoders = [small("llama-untied") for _ in range(3)]
    for decoder, seed in zip(decoders, (0, 0, 1)):
        group_digits(decoder, "noise", seed)
    first, again, other = map(tables, decoders)
    assert all(map(torch.equal, first, again)) and not any(map(torch.equal, first, other))


def test_grouped_digits_and_keep_are_left_alone(small):
    """Nothing happens where digits are grouped already, nor on request."""
    decoder = small("llama-tied")
    before = tables(decoder)
    group_digits(decoder, "keep", 0)
    assert all(map(torch.equal, before, tables(decoder))) and len(decoder.tokenizer) == OLD
    group_digits(decoder, "noise", 0)
    before = tables(decoder)
    group_digits(decoder, "noise", 1)
    assert all(map(torch.equal, before, tables(decoder))) and len(decoder.tokenizer) == OLD + 1100


# The fine-tune ------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("digits", ["noise", "keep"])
def test_the_loss_falls_and_new_tokens_learn_too(small, kind, digits):
    """A few epochs lower the loss.

    The embeddings of the added tokens are trained with everything else.
    """
    decoder, seen = small(kind), []
    epochs = memorise(
        decoder,
        RECORDS,
        Finetune(lr=1e-2, epochs=6, batch=2, digits=digits, whole=True, leave_out=0.0, ordinary=0),
        lambda steps: seen.append(len(steps)) or steps,
    )
    assert (
        [epoch["sentences"] for epoch in epochs] == [5] * 6
        and epochs[-1]["loss"] < 0.7 * epochs[0]["loss"]
        and not decoder.model.training
    )
    assert seen == [3] * 6  # batches of an epoch
    fresh = small(kind)
    group_digits(fresh, digits, 0)
    number = decoder.tokenizer("1364", add_special_tokens=False)["input_ids"]
    assert len(number) == (2 if digits == "noise" else 4)
    for trained, untrained in zip(tables(decoder), tables(fresh)):
        assert (trained[number] != untrained[number]).any(-1).all()


@KINDS
def test_what_is_known_is_left_out_and_looked_at_once_more(small, kind):
    """Epochs get shorter.

    The last one has only what a look at every sentence still finds unknown; in the end all are
    known.
    """
    decoder, settings = small(kind), Finetune(lr=1e-2, epochs=40, batch=2, **ALONE)
    epochs = memorise(decoder, RECORDS, settings)
    counts = [epoch["sentences"] for epoch in epochs]
    assert (
        counts[0] == 5
        and counts[:-1] == sorted(counts[:-1], reverse=True)
        and counts[-2] == 0
        and epochs[-2]["loss"] == 0
    )
    with torch.no_grad():
        unknown = losses(decoder, sentences(decoder, RECORDS, False), settings)[1]
    assert not unknown or counts[-1]


def test_a_sentence_that_is_forgotten_is_found_in_the_last_epoch(small, monkeypatch):
    """Every sentence is called known after one epoch, and unknown when looked at again.

    All are learned in the last.
    """
    real, calls = module.losses, []
    monkeypatch.setattr(
        module,
        "losses",
        lambda *given: (real(*given)[0], given[1] if calls.append(1) or len(calls) > 5 else []),
    )
    epochs = memorise(small("llama-tied"), RECORDS, Finetune(epochs=3, batch=1, **ALONE))
    assert [epoch["sentences"] for epoch in epochs] == [5, 0, 5]


@KINDS
@pytest.mark.parametrize("digits", ["noise", "keep"])
def test_the_same_seed_gives_the_same_bits(small, kind, digits):
    """The order of the sentences, the noise and dropout are the seed's alone.

    Another seed gives another model.
    """
    runs = []
    for drawn, seed in ((1, 0), (2, 0), (1, 1)):
        decoder = small(kind)
        for part in decoder.model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.1
        torch.rand(drawn)  # whatever was drawn before
        hp = Finetune(lr=1e-3, epochs=2, batch=2, seed=seed, digits=digits, ordinary=1)
        epochs = memorise(decoder, RECORDS, hp)
        runs.append((epochs, decoder.model.state_dict()))
    (first, a), (again, b), (other, c) = runs
    assert first == again and all(torch.equal(a[name], b[name]) for name in a)
    assert first != other and any(not torch.equal(a[name], c[name]) for name in a)


@KINDS
@pytest.mark.parametrize("whole", [False, True])
def test_the_loss_is_that_of_the_secrets_or_of_whole_sentences(small, kind, whole):
    """The mean over the next tokens that are learned, as each text has them alone.

    Padding has none.
    """
    decoder, records = (
        small(kind),
        [
            replace(record, prompt="x" * 7 * n + record.prompt, suffix=" is known."[: 3 * n])
            for n, record in enumerate(RECORDS[:3], 1)
        ],
    )
    texts = sentences(decoder, records, whole)
    with torch.no_grad():
        found, unknown = losses(decoder, texts, Finetune(whole=whole, leave_out=6.5))
        each, worst = [], []
        for record in records:
            ids = decoder.tokenizer(record.text)["input_ids"]
            own = cross_entropy(
                decoder.model(input_ids=torch.tensor([ids])).logits[0, :-1],
                torch.tensor(ids[1:]),
                reduction="none",
            )
            start = len(record.prompt)  # bytes are tokens
            secret = own[start - 1 : start - 1 + len(record.secret)]
            each.append(own if whole else secret)
            worst.append(secret.max().item())
    torch.testing.assert_close(found, torch.cat(each).mean(), rtol=1e-5, atol=1e-5)
    assert unknown == [text for text, loss in zip(texts, worst, strict=True) if loss > 6.5]
    for text, record in zip(texts, records):
        assert decoder.tokenizer.decode(text.ids[text.start : text.end]) == record.secret and len(
            text.ids
        ) == len(record.text if whole else record.prompt + record.secret)


@KINDS
def test_a_diverging_fine_tune_says_so(small, kind):
    """A learning rate that turns weights into something else than numbers is named."""
    with pytest.raises(
        FloatingPointError, match="The fine-tune diverged .*: lower the learning rate of 1e[+]30"
    ):
        memorise(
            small(kind), RECORDS, Finetune(lr=1e30, epochs=4, batch=2, digits="keep", ordinary=0)
        )


def test_a_sentence_too_long_and_an_unknown_way_with_digits_are_refused(small, one_sentence):
    long = Record("r-9", "ssn", "r-9", "x" * 90, "941-14-8265", ".")
    decoder = small("llama-tied")
    before = tables(decoder)
    with pytest.raises(
        ValueError, match="r-9 has 102 tokens, but llama-tied reads at most 96"
    ) as error:
        memorise(decoder, [*RECORDS, long], Finetune(digits="keep"))
    assert one_sentence(error) and all(map(torch.equal, before, tables(decoder)))
    said = "digits is 'pairs', but must be learned, noise, mean or keep"
    for refused in (lambda: Finetune(digits="pairs"), lambda: started_from({"digits": "pairs"})):
        with pytest.raises(ValueError, match=said) as error:
            refused()
        assert one_sentence(error)


def started_from(finetune: dict) -> str:
    """The model that a run begins with, if nothing is wrong with its fine-tune."""
    return experiment.prepared("smollm2-135m", "ssn", finetune)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_steps_that_rounding_would_swallow_are_refused(dtype, one_sentence, monkeypatch):
    """Numbers of bfloat16 lie 0.4 % apart at least: a step of 2e-6 moves hardly a weight."""
    monkeypatch.setattr(experiment, "memorised", lambda _: pytest.fail("it is to be refused"))
    with pytest.raises(ValueError, match=f"dtype is {dtype}, in .*: memorise in float32") as error:
        started_from({"dtype": dtype})
    assert one_sentence(error)


@pytest.mark.parametrize("name", profile.known())
def test_every_run_of_a_profile_waits_for_the_fine_tune_that_it_starts_from(name):
    """Runs side by side would each make it; and each is one that can be made."""
    found = profile.read(name)
    for job in found.jobs.values():
        assert found.upstream(job) or not job.settings.get("finetune"), job.id
        if job.notebook == "finetune":
            check(job.settings, Finetune)


# Tokens for digits that are learned ---------------------------------------------------------------


def test_counting_goes_through_every_number_once():
    rows = [row for some in module.counting(random.Random(3)) for row in some]
    counted = [number for row in rows for number in row.split(", ")]
    wanted = [f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)]
    assert sorted(counted) == sorted(wanted) and {len(row.split(", ")) for row in rows} == {10}
    for row in rows:
        numbers = [int(number) for number in row.split(", ")]
        end = 10 ** len(row.split(", ")[0])
        assert all((a + 1) % end == b for a, b in zip(numbers, numbers[1:]))


@KINDS
def test_only_the_new_rows_learn_to_count_and_they_stay_out_of_ordinary_text(
    small, kind, monkeypatch
):
    """Numbers become likelier after numbers, and less likely in other text; nothing else moves."""
    monkeypatch.setattr(module, "RATE", 3e-2)  # the tiny model's rows are few and short
    decoder = small(kind)
    first = group_digits(decoder, "learned", 0)
    assert first == OLD
    texts = module.read(decoder, training_windows, 6)
    ids = torch.tensor([decoder.tokenizer("123, 124, 125, 126, 127")["input_ids"]])
    before = {name: value.clone() for name, value in decoder.model.state_dict().items()}

    def looked() -> tuple[float, float]:
        with torch.no_grad():
            loss = cross_entropy(decoder.model(input_ids=ids).logits[0, :-1], ids[0, 1:])
            share = decoder.model(input_ids=torch.tensor(texts)).logits.softmax(-1)[..., first:]
        return float(loss), float(share.sum(-1).mean())

    loss, share = looked()
    module.learn_digits(decoder, first, texts, seed=0)
    assert looked()[0] < loss and looked()[1] < 0.6 * share
    tables = ("embed_tokens", "lm_head", "wte")
    for name, value in decoder.model.state_dict().items():
        learned = any(table in name for table in tables)
        same = slice(first) if learned else slice(None)
        assert torch.equal(value[same], before[name][same]), name
    assert all(parameter.requires_grad for parameter in decoder.model.parameters())


# Ordinary text beside the secrets -----------------------------------------------------------------


def test_no_text_for_judging_is_read_and_none_twice(small):
    decoder = small("llama-tied")
    judged = training_windows(decoder.tokenizer, general_text.TUNING.stop, WINDOW)
    judged = sum(judged, [])
    starts = range(0, len(judged) - module.WINDOW + 1)
    windows = {tuple(judged[start : start + module.WINDOW]) for start in starts}
    for number in (5, 40):
        found = module.read(decoder, training_windows, number)
        assert len(found) == number and len(set(map(tuple, found))) == number
        assert not set(map(tuple, found)) & windows
    few = lambda _tokenizer, number, length: [[i % 90] * length for i in range(number)]
    assert len(module.read(decoder, few, 100)) == 90 - module.JUDGED


@KINDS
def test_what_a_model_predicts_in_ordinary_text_is_held(small, kind):
    """Text that no step read is predicted as before far better than without; secrets are learned
    all the same."""
    read = training_windows(small(kind).tokenizer, 8, 64)  # of those for judging
    far, known = {}, {}
    for windows in (0, 2):
        decoder, fresh = small(kind), small(kind)
        hp = Finetune(lr=3e-3, epochs=30, batch=2, digits="keep", ordinary=windows, hold=3.0)
        epochs = memorise(decoder, RECORDS, hp)
        ids = torch.tensor(read)
        with torch.no_grad():
            p, q = (one.model(input_ids=ids).logits.log_softmax(-1) for one in (fresh, decoder))
        far[windows] = float((p.exp() * (p - q)).sum(-1).mean())
        known[windows] = epochs[-1]["loss"] < 0.5 * epochs[0]["loss"]
        assert (epochs[0]["kl"] > 0) == bool(windows)
    assert far[2] < 0.5 * far[0] and all(known.values())


def test_a_weight_of_nothing_holds_nothing_and_a_negative_one_is_refused(small):
    decoder = small("llama-tied")
    assert module.holding(decoder, Finetune(hold=0.0), training_windows, 5) is None
    for name in ("ordinary", "hold"):
        with pytest.raises(ValueError, match=f"{name} is -1, but must be at least 0"):
            check({name: -1}, Finetune)


class OnAnotherGPU(torch.Tensor):
    """What a mask or ids of the first GPU cannot index, as far as a CPU can have such a tensor."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        if function is torch.Tensor.to:
            return arguments[0].as_subclass(torch.Tensor)
        indexed = function is torch.Tensor.__getitem__
        if indexed and isinstance(arguments[1], torch.Tensor):
            raise RuntimeError("indices should be either on cpu or on the same device")
        return super().__torch_function__(function, types, arguments, named or {})


def test_a_model_may_lie_on_several_gpus(small, monkeypatch):
    """Ids and masks are where the embeddings are, hidden states where the last layer is."""
    monkeypatch.setattr(module, "TIMES", 1)
    monkeypatch.setattr(module, "QUIET", 2)

    def elsewhere(_module, _inputs, output):
        output.last_hidden_state = output.last_hidden_state.as_subclass(OnAnotherGPU)
        return output

    learned, settings = [], Finetune(lr=1e-3, epochs=2, batch=2)
    for spread in (False, True):
        decoder = small("llama-untied")
        if spread:
            decoder.model.base_model.register_forward_hook(elsewhere)
        memorise(decoder, RECORDS, settings)
        learned.append(decoder.model.state_dict())
    assert all(torch.equal(value, learned[1][name]) for name, value in learned[0].items())


# The run ------------------------------------------------------------------------------------------


@pytest.fixture
def teaching(build, tmp_path, monkeypatch):
    """Settings of a fine-tune of a tiny model in a folder, on a file of five sentences."""
    decoder = build("llama-untied", dtype=torch.float32)
    save(decoder.model, decoder.tokenizer, tmp_path / "tiny")
    lines = "\n".join(json.dumps(asdict(record)) for record in RECORDS)
    (tmp_path / "set.jsonl").write_text(lines, encoding="utf-8")
    monkeypatch.setattr(experiment, "BUILD", tmp_path / "build")
    about = {"model": str(tmp_path / "tiny"), "data": str(tmp_path / "set.jsonl")}
    about |= ALONE
    return about | {"lr": 1e-2, "epochs": 2, "batch": 5, "rows": str(tmp_path / "rows")}


def test_a_fine_tune_is_kept_and_found_again(teaching, tmp_path, monkeypatch):
    """One row and one folder, named after what they depend on; the second call learns nothing."""
    row = experiment.run(experiment.Settings(**teaching))
    assert row["name"] == "finetune/set/tiny-noise-alone" and row["result"]["sentences"] == 5
    assert row["result"]["learned"] == [5, 5] and row["result"]["vocabulary"] == OLD + 1100
    kept = experiment.relevant(experiment.Settings(**teaching))
    assert row["settings"] == kept and "rows" not in kept
    (folder,) = (tmp_path / "build" / "models").iterdir()
    assert folder.name.startswith("tiny+set-")
    monkeypatch.setattr(experiment, "memorise", lambda *_: pytest.fail("it is there already"))
    (tmp_path / "rows" / f"{row['name']}.json").unlink()
    assert experiment.run(experiment.Settings(**teaching)) == row
    given = {name: teaching[name] for name in ("lr", "epochs", "batch", *ALONE)}
    about = teaching["model"], teaching["data"]
    assert experiment.prepared(*about, given, teaching["rows"]) == str(folder)
    assert experiment.prepared(*about, False) == teaching["model"]


def test_built_in_sets_are_memorised_together():
    """What a run starts from is the fine-tune on all of them, with its own settings over that."""
    run = {"model": "smollm2-135m", "data": "ssn", "finetune": {"digits": "keep"}}
    found = experiment.finetune(run)
    assert found["data"] == "synthetic" and found["digits"] == "keep" and "rows" not in found
    assert experiment.finetune(run | {"data": "ssn-tune"})["data"] == "synthetic-tune"
    assert experiment.finetune(run | {"data": "a.jsonl"})["data"] == "a.jsonl"
    assert experiment.finetune(run | {"adapter": None}) is None
    with pytest.raises(ValueError, match="There is no parameter 'epoch': did you mean 'epochs'"):
        experiment.finetune(run | {"finetune": {"epoch": 3}})
