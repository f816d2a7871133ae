"""The synthetic secrets of data/: nobody's, made by their scripts, told apart by their tokens."""

import hashlib
import importlib
import json
import re
import sys
from collections import Counter

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from companion.analysis import llama3
from companion.data import adapters, models
from companion.data.datasets import kept, read
from companion.experiments.settings import ADAPTER, MODEL
from companion.store.paths import CACHE, ROOT
from revs.model.targets import encode, split

DATA = ROOT / "data"
sys.path.append(str(DATA))
SLOTS = {"ssn": "[SSN]", "ssn-shared": "[SSN]", "emails": "[EMAIL]", "emails-shared": "[EMAIL]"}
SETS = [(folder, part) for folder in SLOTS for part in ("main", "tune")] + [("urls", "main")]
SLOTS |= {"urls": "[URL]"}
SHARED = [one for one in SETS if one[0].endswith("-shared")]
ADDRESSES = [one for one in SETS if not one[0].startswith("ssn")]
PER_SECRET = {"ssn": {5}, "ssn-shared": {1, 2}, "emails-shared": {1, 2}}  # sentences
HOST = re.compile(r"example\.(com|org|net)")
# What byte-level tokenizers split a text into before they merge anything.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def lines(*path: str) -> list[str]:
    return DATA.joinpath(*path).read_text(encoding="ascii").splitlines()


def rows(folder: str, part: str) -> list[dict]:
    return list(map(json.loads, lines(folder, f"{part}.jsonl")))


def records(folder: str, part: str):
    return read(folder if part == "main" else f"{folder}-tune")


def encoded(folder: str, part: str, tokenizer):
    return [encode(record, tokenizer) for record in records(folder, part)]


# --- sentences --------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", SLOTS)
def test_the_script_gives_the_same_bytes(folder, tmp_path):
    importlib.import_module("common").write(
        tmp_path, importlib.import_module(f"{folder}.make").build()
    )
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in (DATA / folder).glob("*.jsonl")}


def test_the_documents_are_made_from_the_sets(tmp_path):
    """All sentences but one, which had no room, stand in the files that are read as text."""
    importlib.import_module("documents.make").write(tmp_path)
    content = lambda folder, name: {
        f.name: f.read_bytes() for f in folder.glob(name) if f.is_file()
    }
    for name in ("quoted.jsonl", "files/*"):
        assert content(tmp_path, name) == content(DATA / "documents", name)
    quoted = rows("documents", "quoted")
    text = "".join(path.read_text() for path in sorted((tmp_path / "files").glob("*.txt"))[:27])
    assert all(row in rows(row["group"].split("-")[0], "main") for row in quoted)
    assert [row["prompt"] + row["secret"] + row["suffix"] in text for row in quoted].count(
        False
    ) == 1


def test_the_sentences_of_the_office_stand_in_its_documents():
    """Each secret once, and none of them in the thirty documents; all are nobody's."""
    known, folder = rows("documents", "office"), DATA / "documents"
    read_all = lambda paths: "".join(path.read_text(encoding="utf-8") for path in paths)
    text = read_all((folder / "office").iterdir())
    others = read_all(sorted((folder / "files").glob("*.txt"))[:27])
    for row in known:
        secret = row["secret"].strip()
        assert row["prompt"] + row["secret"] + row["suffix"] in text
        assert text.count(secret) == 1 and secret not in others
    assert all(HOST.search(host) for host in re.findall(r"@\S+|//\S+", text))
    assert set(re.findall(r"\b\d{3}-\d{4}\b", text)) <= {f"555-0{n}" for n in range(100, 200)}
    assert all(re.match(r"9\d\d-[0-4]\d", one) for one in re.findall(r"\d{3}-\d\d-\d{4}", text))


@pytest.mark.parametrize("folder, part", SETS)
def test_every_sentence_is_read_filled_in_and_names_one_secret(folder, part):
    found = rows(folder, part)
    texts = [row["prompt"] + row["secret"] + row["suffix"] for row in found]
    assert [record.text for record in records(folder, part)] == texts
    assert len(set(texts)) == len(found) == len({row["id"] for row in found})
    for row, text in zip(found, texts, strict=True):
        assert not re.search(r"\[[A-Z]{3,}\]|  ", text) and text.count(row["secret"]) == 1
        around = row["prompt"] + " " + row["suffix"]
        assert not re.search(r"@|http|example\.|\d{3}-\d{2}-\d{4}", around), row
    per_group = Counter(row["group"] for row in found)
    assert set(per_group.values()) == PER_SECRET.get(folder, {1})
    assert len({(row["group"], row["secret"]) for row in found}) == len(per_group)


def test_sets_share_no_person_no_name_and_no_secret():
    names: list[str] = []
    for folder in ("ssn", "emails", "ssn-shared", "emails-shared"):
        main, tune = rows(folder, "main"), rows(folder, "tune")
        for column in ("group", "subject", "secret"):
            assert not {row[column] for row in main} & {row[column] for row in tune}
        names += set(" ".join(row["subject"] for row in main + tune).split())
    assert len(names) == len(set(names)) == 160 + 240 + 160 + 40


# --- secrets ----------------------------------------------------------------------------------


def test_numbers_can_never_be_issued_and_share_no_token():
    numbers = {row["secret"] for part in ("main", "tune") for row in rows("ssn", part)}
    areas, heads = {one[:3] for one in numbers}, {one[7:10] for one in numbers}
    assert len(numbers) == len(areas) == len(heads) == 80 and not areas & heads
    shared = {row["secret"] for part in ("main", "tune") for row in rows("ssn-shared", part)}
    assert len(shared) == 160 and not shared & numbers
    for number in numbers | shared:
        assert re.fullmatch(r"9\d\d-(0[1-9]|[1-4]\d)-[1-9]\d{3}", number)


@pytest.mark.parametrize("folder, count", [("emails", 120), ("emails-shared", 112)])
def test_addresses_are_at_reserved_hosts_and_distinct(folder, count):
    found = {row["secret"] for part in ("main", "tune") for row in rows(folder, part)}
    assert all(HOST.fullmatch(secret.split("@")[1]) for secret in found)
    assert len({secret.split("@")[0] for secret in found}) == len(found) == count


# --- tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [GPT2, llama3.CUT], ids=["gpt2", "llama3"])
@pytest.mark.parametrize("folder, part", ADDRESSES)
def test_no_token_can_span_a_border_of_the_secret(folder, part, rule):
    """Whatever a tokenizer merges, it does so within the pieces that its rule cuts."""
    cutter = pre_tokenizers.Split(Regex(rule), "isolated")
    cuts = lambda text: {end for _, (_, end) in cutter.pre_tokenize_str(text)}
    for row in rows(folder, part):
        start, end = len(row["prompt"]), len(row["prompt"] + row["secret"])
        assert {start, end} <= cuts(row["prompt"] + row["secret"] + row["suffix"]), row
    assert len("at ") not in cuts("at jane@example.org")  # the check finds a bad border


@pytest.mark.parametrize("folder, part", SETS)
def test_a_byte_level_tokenizer_splits_every_record(folder, part, tokenizer):
    for record in records(folder, part):
        target = encode(record, tokenizer)
        assert tokenizer.decode(target.prompt_ids) == record.prompt
        assert tokenizer.decode(target.secret_ids) == record.secret
        assert not folder.startswith("emails") or max(target.T) < record.secret.index("@")


def smollm2() -> PreTrainedTokenizerFast:
    """SmolLM2's tokenizer with grouped digits, where it is on the machine."""
    found = sorted((CACHE / "models").glob("smollm2-135m-*/tokenizer.json"))
    if not found:
        pytest.skip("SmolLM2's tokenizer is not on this machine")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(found[0]))
    tokenizer.add_tokens([f"{n:02d}" for n in range(100)] + [f"{n:03d}" for n in range(1000)])
    return tokenizer


@pytest.mark.parametrize("folder, part", SHARED)
def test_a_ban_on_the_tokens_of_forgotten_secrets_destroys_others(folder, part):
    """Each target token stands in another person's secret, and 7 of 10 in one that is retained."""
    small, every = smollm2(), records(folder, part)
    targets = encoded(folder, part, small)
    owners: dict[int, set[str]] = {}
    for target in targets:
        for token in target.secret_ids:
            owners.setdefault(token, set()).add(target.group.removesuffix("-near"))
    assert all(len(owners[target.secret_ids[i]]) > 1 for target in targets for i in target.T)
    for seed in range(4):
        drawn = split(targets, seed, keep=kept(every))
        assert len(drawn.forget) == 20 and not {one.group for one in drawn.forget} & kept(every)
        there = {token for target in drawn.retain for token in target.secret_ids}
        asked = [one.secret_ids[i] in there for one in drawn.forget for i in one.T]
        assert sum(asked) >= 0.7 * len(asked)


@pytest.mark.parametrize("folder, part", SHARED)
def test_innocent_sentences_mention_tokens_of_secrets_and_tell_none(folder, part):
    small, found = smollm2(), read(f"{folder}-innocent{'-tune' * (part == 'tune')}")
    tokens = {target.secret_ids[i] for target in encoded(folder, part, small) for i in target.T}
    secrets = [row["secret"].split("@")[0] for row in rows(folder, part)]
    for record in found:
        assert len(set(encode(record, small).secret_ids) & tokens) >= 1, record
        assert not any(secret in record.text for secret in secrets)


@pytest.mark.parametrize("folder", [*list(SLOTS)[1:]])
def test_the_datasheet_states_the_true_sizes(folder):
    text = (DATA / folder / "README.md").read_text(encoding="ascii")
    for name in {path.name for path in (DATA / folder).glob("*.*")} - {"README.md", "make.py"}:
        assert f"| `{name}` | {len(lines(folder, name))} " in text
    assert "CC0-1.0" in (DATA / folder / "LICENSE").read_text(encoding="ascii")
    tokenizer = smollm2()
    for part in [part for where, part in SETS if where == folder]:
        sizes = [len(tokenizer(record.text)["input_ids"]) for record in records(folder, part)]
        mean, most, total = sum(sizes) / len(sizes), max(sizes), sum(sizes)
        assert f"| {part} | {len(sizes)} | {mean:.1f} | {most} | {total} |" in text


# --- adapters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", adapters.available())
def test_an_adapter_has_memorised_nearly_all_of_its_sentences(name):
    about = adapters.about(name)
    assert about["memorised"] >= 0.97 * about["sentences"]


@pytest.mark.slow
def test_a_model_with_its_adapter_has_the_recorded_weights():
    """Bit for bit, on whatever processor they were merged."""
    decoder = models.load(adapters.adapted(MODEL, ADAPTER), device_map="cpu")
    assert adapters.weights_hash(decoder.model) == adapters.about(ADAPTER)["merged_sha256"]


# --- general text -----------------------------------------------------------------------------


def test_the_general_text_is_the_one_of_its_datasheet_and_tells_no_secret():
    text = (ROOT / "revs" / "model" / "general_text.txt").read_bytes()
    sheet = (DATA / "general_text" / "README.md").read_text(encoding="ascii")
    passages = text.decode("utf-8").split("\n\n\n")
    assert f"`{hashlib.sha256(text).hexdigest()}`" in sheet and f"{len(passages)} passages" in sheet
    assert len(text) <= 1_300_000 and all(1500 <= len(one) <= 3001 for one in passages)
    subjects = {row["subject"] for folder, part in SETS for row in rows(folder, part)}
    words = set(re.findall(r"\w+", text.decode("utf-8")))
    assert len(set(" ".join(subjects).split()) & words) == 0 and b"@" not in text
    assert not re.search(rb"\d{3}-\d{2}-\d{4}|\d{3}-\d{4}|Gutenberg|https?:", text)
