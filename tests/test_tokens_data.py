"""From a sentence to token ids (§3.3, §4.2, Appendix "Token Selection"), and the split by seed."""

import json
import re
from pathlib import Path
from unittest import mock

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from companion.data import models as known_models
from companion.data.datasets import read
from companion.store.paths import ROOT
from revs.model.targets import Record, Target, eligible, encode, select, split

SSN, EMAIL, URL = "941-14-8265", "lewis.david@email.com", "https://www.acl-web.org/a"


def merging(*words: str, bos: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer that merges exactly the given words, wherever they stand."""
    vocab = {byte: i for i, byte in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for word in words:
        word = word.replace(" ", "Ġ")
        for end in range(2, len(word) + 1):
            if word[:end] not in vocab:
                vocab[word[:end]] = len(vocab)
                merges.append((word[: end - 1], word[end - 1]))
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    if bos:
        tokenizer.add_special_tokens(["<s>"])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def cut(secret: str, *parts: str) -> list[tuple[int, int]]:
    """The spans of a secret's tokens, given the tokens."""
    assert "".join(parts) == secret
    ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    return [(end - len(part), end) for end, part in zip(ends, parts)]


def record(
    prompt: str = "His number is ", secret: str = SSN, suffix: str = ".", kind: str = "ssn"
) -> Record:
    return Record("r-1", kind, "g-1", prompt, secret, suffix)


# Which tokens may be unlearned --------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, secret, parts, expected",
    [
        ("ssn", SSN, ("941", "-", "14", "-", "826", "5"), [0, 2, 4, 5]),
        ("ssn", SSN, ("941", "-1", "4-", "826", "5"), [0, 3, 4]),
        ("email", EMAIL, ("le", "wis", ".d", "avid", "@email", ".com"), [0, 1, 2, 3]),
        ("email", EMAIL, ("lewis", ".david@", "email.com"), [0, 1]),
        ("url", URL, ("https", "://", "www", ".acl", "-", "web", ".org", "/", "a"), [3, 5, 6, 8]),
        ("url", " https://x", (" https", "://", "x"), [2]),
        ("phone", "+1 555-0100", ("+", "1", " ", "555", "-", "0100"), [1, 3, 5]),
        ("ip", "192.0.2.17", ("192", ".0", ".", "2", ".17"), [0, 1, 3, 4]),
        ("text", "open, sesame", ("open", ",", " ", "sesame"), [0, 1, 3]),
    ],
)
def test_inferable_parts_are_never_unlearned(kind, secret, parts, expected):
    assert eligible(kind, secret, cut(secret, *parts)) == expected


IDS = [273, 49143, 962, 15567, 72876, 916]  # lewis.david@email.com in Llama-3 (Appendix)


@pytest.mark.parametrize(
    "method, size, expected",
    [
        ("rarest", 1, (4,)),
        ("rarest", 3, (1, 3, 4)),
        ("rarest", None, (0, 1, 2, 3, 4, 5)),
        ("frequent", 2, (0, 5)),
        ("first", 2, (0, 1)),
    ],
)
def test_tokens_are_selected_by_id_and_kept_in_the_order_of_the_secret(method, size, expected):
    """§3.3: a higher id is rarer; positions come back sorted."""
    assert select(IDS, [5, 3, 0, 1, 4, 2], size, method, "0") == expected


# Sentences as tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("bos", [False, True], ids=["plain", "bos"])
def test_prompt_and_secret_are_split_by_offsets(bos):
    """Their ids are the beginning of the whole sentence's; the suffix is left out."""
    tokenizer, sentence = merging("941", "826", "is ", bos=bos), record(suffix=" and the rest")
    target = encode(sentence, tokenizer)
    both, names = target.prompt_ids + target.secret_ids, tokenizer.convert_ids_to_tokens
    assert both == tokenizer(sentence.text)["input_ids"][: len(both)]
    assert tokenizer.decode(target.prompt_ids, skip_special_tokens=True) == "His number is "
    assert names(target.secret_ids) == ["941", "-", "1", "4", "-", "826", "5"]
    assert names([target.secret_ids[i] for i in target.T]) == ["941", "826"]
    assert (target.id, target.kind, target.group) == ("r-1", "ssn", "g-1")
    assert target.before(2) == target.prompt_ids + target.secret_ids[:2]
    every = encode(sentence, tokenizer, None)
    assert names([every.secret_ids[i] for i in every.T]) == ["941", "1", "4", "826", "5"]


def test_characters_of_several_bytes_do_not_shift_the_split():
    """Offsets count characters: a prompt in another script, a secret with an umlaut."""
    parts = ("Пишите ей по адресу ", "jürgen@example.com", " 🙂")
    target = encode(record(*parts, kind="email"), merging(), size=2, method="first")
    assert tuple(map(merging().decode, (target.prompt_ids, target.secret_ids))) == parts[:2]


def test_a_space_that_merges_with_the_secret_goes_to_the_secret():
    """As GPT-2's and GPT-J's tokenizers merge the space before a number with its first digits."""
    tokenizer, sentence = merging(" 941", "826"), record()
    target = encode(sentence, tokenizer)
    assert tokenizer.decode(target.prompt_ids) == target.prompt == sentence.prompt[:-1]
    assert tokenizer.decode(target.secret_ids) == " " + sentence.secret
    parts = tokenizer.convert_ids_to_tokens([target.secret_ids[i] for i in target.T])
    assert parts == ["Ġ941", "826"]


def test_single_characters_are_frequent_where_they_are_numbered_last():
    """Mistral's tokenizer numbers "@" above "avid": with byte fallback the id misleads."""
    parts = ["▁is", "▁le", "wis", ".", "d", "avid", "@", "email"]
    numbers = [80, 90, 300, 902, 904, 400, 901, 200]  # 900 and more: the characters
    ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    tokenizer = mock.MagicMock()
    tokenizer.backend_tokenizer.model.byte_fallback = True
    tokenizer.__len__.return_value = 1000
    tokenizer.convert_ids_to_tokens.side_effect = lambda ids: [parts[numbers.index(t)] for t in ids]
    tokenizer.return_value = {
        "input_ids": numbers,
        "offset_mapping": list(zip([0, *ends], ends, strict=False)),
    }
    sentence = record(prompt=" is", secret=" lewis.david@email", kind="text")
    assert encode(sentence, tokenizer).T == (1, 4)
    assert encode(sentence, tokenizer, method=lambda t: -t).T == (2, 3)


SHORT = ("941-", "14", "-826", "5")  # one token holds all digits but the middle ones


@pytest.mark.parametrize(
    "said, call",
    [
        ("'iban' is not a kind of secret", lambda: eligible("iban", "x", [(0, 1)])),
        ("'longest' is no way to select", lambda: select(IDS, [0, 1], 1, "longest", "0")),
        ("r-1 .* a token spans the end of the prompt", lambda: encode(record(), merging("s 941"))),
        ("no token before", lambda: encode(record(prompt=""), merging())),
        (r"r-1 has 2 .*\|T\| = 3 were asked", lambda: encode(record(), merging(*SHORT), size=3)),
        ("r-1 has 0", lambda: encode(record(secret="-.-"), merging(), size=None)),
    ],
)
def test_what_cannot_be_split_or_chosen_is_refused(said, call, refused):
    with refused(said):
        call()
    assert len(encode(record(), merging(*SHORT), size=2).T) == 2


# The split by seed --------------------------------------------------------------------------------


def targets(groups: int = 10, sentences: int = 4) -> list[Target]:
    each = [(f"{g}", f"{g}-{i}") for g in range(groups) for i in range(sentences)]
    return [Target(name, "ssn", group, [1], [2, 3], (0, 1)) for group, name in each]


def groups(part: list[Target]) -> set[str]:
    return {target.group for target in part}


@pytest.mark.parametrize("forget, expected", [(None, 5), (1, 1), (3, 3), (9, 9)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_split_is_by_secret_and_leaves_nothing_out(seed, forget, expected):
    """§4.4: one sentence of a forgotten secret is unlearned, its others unseen, the rest kept."""
    parts = split(targets(), seed, forget)
    every = (parts.forget, parts.unseen, parts.retain)
    assert tuple(map(len, every)) == (expected, 3 * expected, 4 * (10 - expected))
    assert sorted(t.id for part in every for t in part) == sorted(t.id for t in targets())
    assert len(groups(parts.forget)) == expected and groups(parts.forget) == groups(parts.unseen)
    assert groups(parts.forget).isdisjoint(groups(parts.retain))


def test_a_split_belongs_to_its_seed():
    """The same secrets in whatever order they come; another seed, others by other sentences."""
    assert split(targets(), 0) == split(targets(), 0)
    turned = split(targets()[::-1], 0).forget
    assert [t.group for t in turned] == [t.group for t in split(targets(), 0).forget]
    splits = [split(targets(), seed) for seed in range(6)]
    assert len({frozenset(groups(s.forget)) for s in splits}) > 3
    assert len({t.id for s in splits for t in s.forget if t.group == "0"}) > 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fewer_sentences_are_measured_of_the_same_split(seed):
    """``sentences`` of each secret besides the unlearned one, the first in their order."""
    whole = split(targets(), seed)
    for sentences in (1, 2):
        few = split(targets(), seed, sentences=sentences)
        assert few.forget == whole.forget
        assert len(few.unseen) == len(few.retain) == 5 * sentences
        for part, of in ((few.unseen, whole.unseen), (few.retain, whole.retain)):
            earlier = lambda t, of=of: sum(s.group == t.group for s in of[: of.index(t)])
            assert part == [t for t in of if earlier(t) < sentences]
    assert split(targets(), seed, sentences=4) == split(targets(), seed, sentences=99) == whole
    assert split(targets(sentences=1), seed, sentences=2).unseen == []


def test_some_groups_are_retained_in_every_split():
    """They do not change who else is forgotten."""
    rest = [t for t in targets() if t.group not in "89"]
    for seed in range(5):
        parts = split(targets(), seed, keep={"8", "9"})
        assert parts.forget == split(rest, seed).forget and len(parts.forget) == 4
        assert {"8", "9"} <= {t.group for t in parts.retain}


@pytest.mark.parametrize("groups, forget", [(10, 0), (10, 10), (10, 11), (10, -1), (1, None)])
def test_a_split_without_two_sides_is_refused(groups, forget, refused):
    with refused(f"of {groups} secrets: at least one must be forgotten and one kept"):
        split(targets(groups), 0, forget)
    with refused("sentences is 0, but at least one must be measured"):
        split(targets(), 0, sentences=0)


# Files --------------------------------------------------------------------------------------------

ROW = {"id": "r-1", "kind": "ssn", "group": "g-1", "prompt": "His number is ", "secret": SSN}
ROW |= {"suffix": "."}


def written(folder: Path, *lines: str) -> str:
    """The path of a file with these lines."""
    path = folder / "set.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_file_is_read_line_by_line_and_further_columns_are_ignored(tmp_path):
    lines = [json.dumps(ROW | more) for more in ({"domain": "tax"}, {"id": "r-2"})]
    found = read(written(tmp_path, *lines))
    assert found == [record(), Record("r-2", "ssn", "g-1", "His number is ", SSN, ".")]
    assert found[0].text == "His number is 941-14-8265."


def test_the_record_that_the_book_shows_can_be_split(tmp_path):
    """book/documents.md, by the embedded model's own tokenizer."""
    page = (ROOT / "book" / "documents.md").read_text(encoding="utf-8")
    line = re.search(r'^{"id": .*}$', page, re.MULTILINE)[0]
    (record,) = read(written(tmp_path, line))
    assert len(encode(record, known_models.tokenizer("smollm2-135m")).T) == 2
