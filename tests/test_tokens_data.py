"""From a sentence to token ids (§3.3, §4.2, Appendix "Token Selection").

Eligible tokens, their choice, the split by seed.
"""

import json
import re

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from companion.data import datasets
from companion.data import models as known_models
from companion.data.datasets import COLUMNS, read
from companion.store.paths import ROOT
from revs.model.targets import Record, Target, eligible, encode, pairs, select, split

SSN, EMAIL, URL = "941-14-8265", "lewis.david@email.com", "https://www.acl-web.org/a"


def merging(*words: str, bos: bool = False) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer without pre-splitting.

    It merges exactly the given words, wherever they stand.
    """
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
        ("email", "postmaster", ("post", "master"), [0, 1]),
        ("url", URL, ("https", "://", "www", ".acl", "-", "web", ".org", "/", "a"), [3, 5, 6, 8]),
        ("url", '"http://x', ('"', "http", "://", "x"), [3]),
        ("url", " https://x", (" https", "://", "x"), [2]),
        ("phone", "+1 555-0100", ("+", "1", " ", "555", "-", "0100"), [1, 3, 5]),
        ("ip", "192.0.2.17", ("192", ".0", ".", "2", ".17"), [0, 1, 3, 4]),
        ("text", "open, sesame", ("open", ",", " ", "sesame"), [0, 1, 3]),
    ],
)
def test_inferable_parts_are_never_unlearned(kind, secret, parts, expected):
    """SSN: digits only. E-mail: what begins before the @, the Appendix's own example first.

    URL: not the common parts.
    """
    assert eligible(kind, secret, cut(secret, *parts)) == expected


def test_an_unknown_kind_of_secret_is_refused(one_sentence):
    with pytest.raises(ValueError, match="'iban' is not a kind of secret") as error:
        eligible("iban", "x", [(0, 1)])
    assert one_sentence(error)


IDS = [273, 49143, 962, 15567, 72876, 916]  # lewis.david@email.com in Llama-3 (Appendix)


def test_the_papers_example():
    """Appendix.

    Of [le, wis, .d, avid, @email, .com] the two rarest before the @ are wis and avid.
    """
    candidates = eligible("email", EMAIL, cut(EMAIL, "le", "wis", ".d", "avid", "@email", ".com"))
    assert select(IDS, candidates, 2, "rarest", "0") == (1, 3)


@pytest.mark.parametrize(
    "method, size, expected",
    [
        ("rarest", 1, (4,)),
        ("rarest", 3, (1, 3, 4)),
        ("frequent", 2, (0, 5)),
        ("first", 2, (0, 1)),
        ("rarest", 6, (0, 1, 2, 3, 4, 5)),
    ],
)
def test_tokens_are_selected_by_id_and_kept_in_the_order_of_the_secret(method, size, expected):
    """§3.3: a higher id is rarer; positions come back sorted."""
    assert select(IDS, [5, 3, 0, 1, 4, 2], size, method, "0") == expected


@pytest.mark.parametrize("method", ["rarest", "frequent"])
def test_of_equal_ids_the_earlier_position_is_taken(method):
    assert select([7, 9, 9, 7, 9, 7], [1, 2, 4], 2, method, "0") == (1, 2)
    assert select([9, 7, 7, 9, 7], [4, 2, 1], 1, method, "0") == (1,)


def test_random_selection_is_drawn_from_its_seed_alone():
    """Same seed, same tokens; over many seeds every candidate is drawn, and nothing else."""
    drawn = [select(IDS, [0, 2, 3, 5], 2, "random", str(seed)) for seed in range(60)]
    assert drawn == [select(IDS, [0, 2, 3, 5], 2, "random", str(seed)) for seed in range(60)]
    assert {i for T in drawn for i in T} == {0, 2, 3, 5} and len(set(drawn)) == 6
    assert all(T == tuple(sorted(set(T))) and len(T) == 2 for T in drawn)


def test_an_unknown_selection_is_refused(one_sentence):
    with pytest.raises(ValueError, match="'longest' is no way to select tokens") as error:
        select(IDS, [0, 1], 1, "longest", "0")
    assert one_sentence(error)


# Sentences as tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("bos", [False, True], ids=["plain", "bos"])
def test_prompt_and_secret_are_split_by_offsets(bos):
    """Prompt ids, then secret ids, are the beginning of the whole sentence's ids.

    The suffix is left out.
    """
    tokenizer = merging("941", "826", "is ", bos=bos)
    target = encode(record(suffix=" and the rest"), tokenizer)
    ids = tokenizer(record(suffix=" and the rest").text)["input_ids"]
    assert (
        target.prompt_ids + target.secret_ids
        == ids[: len(target.prompt_ids) + len(target.secret_ids)]
    )
    assert tokenizer.decode(target.prompt_ids, skip_special_tokens=True) == "His number is "
    assert tokenizer.convert_ids_to_tokens(target.secret_ids) == [
        "941",
        "-",
        "1",
        "4",
        "-",
        "826",
        "5",
    ]
    assert [tokenizer.convert_ids_to_tokens(target.secret_ids[i]) for i in target.T] == [
        "941",
        "826",
    ]
    assert (target.id, target.kind, target.group) == ("r-1", "ssn", "g-1")
    assert target.before(2) == target.prompt_ids + target.secret_ids[:2]


def test_characters_of_several_bytes_do_not_shift_the_split():
    """Offsets count characters.

    A prompt in another script, and a secret with an umlaut, split where they should.
    """
    target = encode(
        record("Пишите ей по адресу ", "jürgen@example.com", " 🙂", kind="email"),
        merging(),
        size=2,
        method="first",
    )
    tokenizer = merging()
    assert (
        tokenizer.decode(target.prompt_ids) == "Пишите ей по адресу "
        and tokenizer.decode(target.secret_ids) == "jürgen@example.com"
    )


def test_a_last_token_that_runs_over_into_the_suffix_counts_with_the_secret():
    """Only the secret's beginning must be a boundary.

    A merged "m>" is what the model has to write.
    """
    target = encode(record("Mail ", EMAIL, "> now", kind="email"), merging("com> "))
    assert merging("com> ").convert_ids_to_tokens(target.secret_ids)[-1] == "com>Ġ"


def test_a_token_across_the_beginning_of_the_secret_is_refused(one_sentence):
    """Nothing is guessed where prompt and secret share a token."""
    with pytest.raises(
        ValueError, match="r-1 cannot be split as asked: a token spans the end of the prompt"
    ) as error:
        encode(record(), merging(" 941"))
    assert one_sentence(error)


def test_a_secret_with_nothing_before_it_is_refused(one_sentence):
    """A rank is conditioned on what comes before.

    An empty prompt needs a token that begins the text.
    """
    with pytest.raises(ValueError) as error:
        encode(record(prompt=""), merging())
    assert one_sentence(error)


def test_the_token_that_begins_a_text_is_prompt_enough():
    target = encode(record(prompt=""), merging(bos=True))
    assert len(target.prompt_ids) == 1 and len(target.secret_ids) == len(SSN)


def test_too_few_tokens_are_refused(one_sentence):
    """|T| tokens must be eligible: here one token holds all digits but the middle ones."""
    with pytest.raises(
        ValueError, match=r"r-1 has 2 tokens that may be unlearned, but \|T\| = 3 were asked for"
    ) as error:
        encode(record(), merging("941-", "14", "-826", "5"), size=3)
    assert one_sentence(error)
    assert len(encode(record(), merging("941-", "14", "-826", "5"), size=2).T) == 2


@pytest.mark.parametrize("method", ["rarest", "frequent", "first", "random"])
def test_encoding_twice_gives_the_same_target(method):
    """The draw of ``random`` is the record's own: it does not depend on what was encoded before."""
    tokenizer, one, other, same = merging("941"), record(), record(secret="900-01-0001"), record()
    first, _, again = (encode(r, tokenizer, 2, method) for r in (one, other, same))
    assert again == first and len(first.T) == 2


# The split by seed --------------------------------------------------------------------------------


def targets(groups: int = 10, sentences: int = 4) -> list[Target]:
    return [
        Target(f"{g}-{i}", "ssn", f"{g}", [1], [2, 3], (0, 1))
        for g in range(groups)
        for i in range(sentences)
    ]


@pytest.mark.parametrize("forget, expected", [(None, 5), (1, 1), (3, 3), (9, 9)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_split_is_by_secret_and_leaves_nothing_out(seed, forget, expected):
    """§4.4.

    One sentence of each forgotten secret is unlearned, its others are unseen, all of the rest are
    retained.
    """
    parts = split(targets(), seed, forget)
    assert (len(parts.forget), len(parts.unseen), len(parts.retain)) == (
        expected,
        3 * expected,
        4 * (10 - expected),
    )
    assert sorted(
        t.id for part in (parts.forget, parts.unseen, parts.retain) for t in part
    ) == sorted(t.id for t in targets())
    forgotten = {t.group for t in parts.forget}
    assert (
        len(forgotten) == expected
        and forgotten == {t.group for t in parts.unseen}
        and forgotten.isdisjoint(t.group for t in parts.retain)
    )


def test_a_split_belongs_to_its_seed():
    """The same seed forgets the same secrets in whatever order they come.

    Other seeds forget others, by other sentences.
    """
    assert split(targets(), 0) == split(targets(), 0)
    assert [t.group for t in split(targets()[::-1], 0).forget] == [
        t.group for t in split(targets(), 0).forget
    ]
    splits = [split(targets(), seed) for seed in range(6)]
    assert len({frozenset(t.group for t in s.forget) for s in splits}) > 3
    assert len({t.id for s in splits for t in s.forget if t.group == "0"}) > 1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fewer_sentences_are_measured_of_the_same_split(seed):
    """``sentences`` of each secret besides the unlearned one, the first in their order.

    What is forgotten stays the same.
    """
    whole = split(targets(), seed)
    for sentences in (1, 2):
        few = split(targets(), seed, sentences=sentences)
        assert few.forget == whole.forget and (len(few.unseen), len(few.retain)) == (
            5 * sentences,
            5 * sentences,
        )
        for part, of in ((few.unseen, whole.unseen), (few.retain, whole.retain)):
            assert part == [
                t for t in of if sum(s.group == t.group for s in of[: of.index(t)]) < sentences
            ]
    assert split(targets(), seed, sentences=4) == split(targets(), seed, sentences=99) == whole
    assert split(targets(sentences=1), seed, sentences=2).unseen == []


@pytest.mark.parametrize("sentences", [0, -1])
def test_a_split_that_measures_no_sentences_is_refused(sentences):
    """Without retained sentences there is no specificity.

    A negative number would cut from the end.
    """
    with pytest.raises(ValueError, match=f"sentences is {sentences}"):
        split(targets(), 0, sentences=sentences)


def test_pairs_are_every_token_of_t_after_the_true_tokens_before_it():
    """What every method unlearns, target after target, in the order of the secret."""
    a, b = (
        Target("a", "ssn", "a", [1, 2], [10, 11, 12], (0, 2)),
        Target("b", "ssn", "b", [3], [20, 21], (1,)),
    )
    assert pairs([a, b]) == [([1, 2], 10), ([1, 2, 10, 11], 12), ([3, 20], 21)]


@pytest.mark.parametrize("groups, forget", [(10, 0), (10, 10), (10, 11), (10, -1), (1, None)])
def test_a_split_without_two_sides_is_refused(groups, forget, one_sentence):
    with pytest.raises(
        ValueError, match=f"of {groups} secrets: at least one must be forgotten and one kept"
    ) as error:
        split(targets(groups), 0, forget)
    assert one_sentence(error)


# Files --------------------------------------------------------------------------------------------

ROW = {
    "id": "r-1",
    "kind": "ssn",
    "group": "g-1",
    "prompt": "His number is ",
    "secret": SSN,
    "suffix": ".",
}


def test_a_file_is_read_line_by_line_and_further_columns_are_ignored(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text(
        json.dumps(ROW | {"domain": "tax"}) + "\n" + json.dumps(ROW | {"id": "r-2"}) + "\n",
        encoding="utf-8",
    )
    assert read(str(path)) == [record(), Record("r-2", "ssn", "g-1", "His number is ", SSN, ".")]
    assert read(str(path))[0].text == "His number is 941-14-8265."


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[1, 2]",
        "3",
        "",
        '"text"',
        *(json.dumps({k: v for k, v in ROW.items() if k != c}) for c in COLUMNS),
    ],
)
def test_the_line_that_is_no_record_is_named(bad, tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text(
        "\n".join(
            [json.dumps(ROW), json.dumps(ROW | {"id": "r-2"}), bad, json.dumps(ROW | {"id": "r-3"})]
        ),
        encoding="utf-8",
    )
    with pytest.raises(
        ValueError,
        match="Line 3 of .*set.jsonl is not a record: each line is a JSON object with id, kind",
    ):
        read(str(path))


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"], ids=ascii)
def test_only_line_feeds_end_a_line(separator, tmp_path):
    """JSON Lines.

    Other separators of Unicode may stand in a sentence, as they do in crawled text.
    """
    path = tmp_path / "set.jsonl"
    sentence = "One" + separator + "two: "
    row = json.dumps(ROW | {"prompt": sentence}, ensure_ascii=False)
    path.write_text(row + "\n", encoding="utf-8")
    assert read(str(path))[0].prompt == sentence


def test_the_record_that_the_book_shows_can_be_split(tmp_path):
    """book/documents.md, by the embedded model's own tokenizer."""
    page = (ROOT / "book" / "documents.md").read_text(encoding="utf-8")
    path = tmp_path / "set.jsonl"
    path.write_text(re.search(r'^{"id": .*}$', page, re.MULTILINE)[0], encoding="utf-8")
    (record,) = read(str(path))
    assert len(encode(record, known_models.tokenizer("smollm2-135m")).T) == 2


def test_an_empty_file_and_a_missing_set_are_refused(tmp_path):
    path = tmp_path / "set.jsonl"
    path.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no records"):
        read(str(path))
    with pytest.raises(
        FileNotFoundError, match=r"There is no data set 'ssm': did you mean 'ssn'\?$"
    ):
        read("ssm")
    with pytest.raises(FileNotFoundError, match="There is no data set"):
        read(str(tmp_path))


def test_a_built_in_set_is_a_folder_with_main_and_tune(tmp_path, monkeypatch):
    """data/<set>/main.jsonl is ``<set>``, data/<set>/tune.jsonl ``<set>-tune``.

    A new set is a new folder.
    """
    for name, stem, row in (("tax", "main", "m"), ("tax", "tune", "t"), ("mail", "main", "e")):
        (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name / f"{stem}.jsonl").write_text(
            json.dumps(ROW | {"id": row}), encoding="utf-8"
        )
    monkeypatch.setattr(datasets, "ROOT", tmp_path)
    assert [read(name)[0].id for name in ("tax", "tax-tune", "mail")] == ["m", "t", "e"]
    said = "There is no data set 'phones': give the path of a JSON Lines file, or one of mail, tax"
    with pytest.raises(FileNotFoundError, match=said):
        read("phones")


def test_the_sets_for_results_and_for_tuning_share_no_secret():
    assert {r.secret for r in read("ssn")}.isdisjoint(r.secret for r in read("ssn-tune"))
    assert {r.group for r in read("ssn")}.isdisjoint(r.group for r in read("ssn-tune"))
