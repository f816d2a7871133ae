"""From documents to memorised secrets: what is read, found, dropped and tried, and that every count adds up."""

import json
import os
from collections import Counter

import numpy as np
import pytest
import torch
from conftest import build

from companion.own import curate, documents
from companion.own.detect import KINDS, PIECE, pieces, spans
from companion.own.documents import Document
from companion.own.redact import hide, redact
from companion.record import rows
from companion.record.paths import alone
from companion.runs import curate as experiment
from companion.runs import datasets, models
from revs.model import load
from revs.model.memorise import Finetune, memorise
from revs.model.targets import Record

TEXT = "Ada Lovelace <ada.lovelace@example.com> keeps https://docs.example.org/en/bobbin/magnolia.html; call (212) 555-0199, host 192.0.2.17, number 941-14-8265."


def said(text: str, kinds=KINDS) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in spans(text, kinds)]


# Detecting -------------------------------------------------------------------------------------------------------


def test_every_kind_is_found_once():
    """An address is not also a URL because of its domain; a number is one thing."""
    assert said(TEXT) == [
        ("email", "ada.lovelace@example.com"),
        ("url", "https://docs.example.org/en/bobbin/magnolia.html"),
        ("phone", "(212) 555-0199"),
        ("ip", "192.0.2.17"),
        ("ssn", "941-14-8265"),
    ]
    assert said(TEXT, ("email",)) == [("email", "ada.lovelace@example.com")]
    assert said("") == said("nothing to see here") == []


def test_quotes_are_not_part_of_a_secret():
    assert said('see "https://files.example.com/pub/a/b.tar.gz" there') == [
        ("url", "https://files.example.com/pub/a/b.tar.gz")
    ]


def test_a_secret_is_found_wherever_the_text_is_cut():
    """Pieces end at spaces and add up to the text; one word longer than a piece is cut somewhere."""
    for before in range(PIECE - 40, PIECE + 3):
        text = "x " * (before // 2) + "y" * (before % 2) + " ada.lovelace@example.com and more"
        assert said(text) == [("email", "ada.lovelace@example.com")], before
    for text in ("a" * (3 * PIECE + 7), "ab " * 5000, "a\n" * 9000, ""):
        parts = list(pieces(text))
        assert "".join(part for _, part in parts) == text and all(
            text[start : start + len(part)] == part for start, part in parts
        )
        assert all(0 < len(part) <= PIECE for _, part in parts)


def test_the_network_is_not_asked(monkeypatch):
    """Presidio's e-mail recogniser has a list of domains of its own, if it is told so before."""
    import socket

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("the network was asked"))
    said("write to jo@example.net")
    assert os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] == ""


# Redacting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, secret, shown",
    [
        ("email", "ada.lovelace@example.com", "a***@example.com"),
        ("email", "ada@lovelace.example.org", "a***@***.org"),
        ("email", "ada@example", "a***@***"),
        ("url", "https://docs.example.org/ada?id=1", "https://***"),
        ("url", "www.example.org/ada", "***"),
        ("ssn", "941-14-8265", "***-**-****"),
        ("phone", "+1 (212) 555-0199", "+* (***) ***-****"),
        ("ip", "192.0.2.17", "***.*.*.**"),
        ("ip", "2001:db8::1", "****:***::*"),
        ("text", "open sesame", "***"),
    ],
)
def test_redacted_secrets(kind, secret, shown):
    assert redact(kind, secret) == shown


def test_a_text_is_shown_without_its_secrets():
    assert (
        hide(TEXT)
        == "Ada Lovelace <a***@example.com> keeps https://***; call (***) ***-****, host ***.*.*.**, number ***-**-****."
    )


# Reading ---------------------------------------------------------------------------------------------------------


def test_what_is_no_document_is_counted(tmp_path, monkeypatch):
    """Empty, binary, too large, in other encodings, links and pipes: each by its reason; the rest in the order of names."""
    monkeypatch.setattr(documents, "HUGE", 100)
    for name, content in {
        "b/second.txt": b"two",
        "a.txt": "eins \u00e4".encode(),
        "bom.txt": b"\xef\xbb\xbfthree",
        "empty": b"",
        "binary": b"a\0b",
        "huge": b"x" * 101,
        "latin": "\u00e4".encode("latin-1"),
        "wide": "x".encode("utf-16"),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "c.jsonl").write_text('{"text": "four"}\n{}\n')
    (
        (tmp_path / "nowhere").symlink_to(tmp_path / "gone"),
        (tmp_path / "around").symlink_to(tmp_path),
        os.mkfifo(tmp_path / "pipe"),
    )
    skipped = Counter()
    found = list(documents.read(tmp_path, skipped))
    assert [document.text for document in found] == ["eins \u00e4", "two", "three", "four"]
    assert skipped == {
        "empty": 1,
        "binary": 1,
        "larger than 50 MB": 1,
        "not UTF-8": 2,
        "no text in the line": 1,
        "not a file": 2,
        "links to a folder": 1,
    }
    assert len({document.source for document in found}) == 4 and all(
        len(document.source) == 64 for document in found
    )


def test_a_folder_that_may_not_be_opened_is_counted(tmp_path, monkeypatch):
    """(root may open all of them: the refusal is simulated.)"""
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def refuse(place):
        if str(place).endswith("closed"):
            raise PermissionError(place)
        return scan(place)

    monkeypatch.setattr(os, "scandir", refuse)
    skipped = Counter()
    assert [document.text for document in documents.read(tmp_path, skipped)] == [
        "one"
    ] and skipped == {"folders that cannot be opened": 1}


def test_json_lines_are_documents(tmp_path):
    (tmp_path / "d.jsonl").write_text(
        '{"text": "one"}\nnot json\n{"txt": "x"}\n{"text": ""}\n{"text": 7}\n"text"\n{"text": "\\ud83d"}\n'
        + "[" * 100_000
        + '\n{"text": "two"}\n',
        encoding="utf-8",
    )
    skipped = Counter()
    assert [document.text for document in documents.read(tmp_path / "d.jsonl", skipped)] == [
        "one",
        "two",
    ] and skipped == {"no text in the line": 7}


def test_a_path_without_documents_is_not_named(tmp_path, one_sentence):
    """It may hold a secret itself."""
    with pytest.raises(
        FileNotFoundError, match="There are no documents at the path given"
    ) as error:
        list(documents.read(tmp_path / "ada.lovelace@example.com", Counter()))
    with pytest.raises(
        FileNotFoundError, match="There are no documents at the path given"
    ):  # before a model is looked for
        experiment.run(
            documents=str(tmp_path / "none"),
            model=str(tmp_path / "no-model"),
            finetune=False,
            rows=str(tmp_path / "rows"),
        )
    assert "lovelace" not in str(error.value)


class Gpt2Like:
    """A tokenizer that knows GPT-2's tokens of "hello world"."""

    def __len__(self):
        return 100

    def __call__(self, text, **_):
        return {"input_ids": [31373, 995] if text == "hello world" else []}

    def decode(self, ids):
        return "".join(chr(97 + i - 64) for i in ids)


def test_the_challenges_files_are_documents(tmp_path, tokenizer, one_sentence):
    np.save(tmp_path / "train_prefix.npy", np.array([[64, 65], [66, 67]], dtype=np.uint16))
    np.save(tmp_path / "train_suffix.npy", np.array([[66], [64]], dtype=np.uint16))
    assert [document.text for document in documents.read(tmp_path, Counter(), Gpt2Like())] == [
        "abc",
        "cda",
    ]
    with pytest.raises(ValueError, match="token ids of GPT-2's tokenizer") as error:
        list(documents.read(tmp_path, Counter(), tokenizer))
    np.save(tmp_path / "train_suffix.npy", np.array([[66]], dtype=np.uint16))
    with pytest.raises(ValueError, match="do not fit together") as error:
        list(documents.read(tmp_path, Counter(), Gpt2Like()))
    assert one_sentence(error)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (b"", "cannot be read"),
        (b"no array", "cannot be read"),
        (np.zeros((2, 0), int), "do not fit together"),
        (np.array([[66.5], [64]]), "something else"),
        (np.array([[-1], [64]]), "something else"),
    ],
)
def test_damaged_files_of_the_challenge_are_refused(tmp_path, suffix, message, one_sentence):
    np.save(tmp_path / "train_prefix.npy", np.array([[64, 65], [66, 67]]))
    (tmp_path / "train_suffix.npy").write_bytes(suffix) if isinstance(suffix, bytes) else np.save(
        tmp_path / "train_suffix.npy", suffix
    )
    with pytest.raises(ValueError, match=message) as error:
        list(documents.read(tmp_path, Counter(), Gpt2Like()))
    assert one_sentence(error)


# The funnel ------------------------------------------------------------------------------------------------------


def test_every_secret_is_in_one_line_of_the_funnel(monkeypatch):
    monkeypatch.setattr(curate, "IN_ONE", 6)
    long = "https://docs.example.org/en/bobbin/magnolia.html"
    text = f"ada@example.com bob@example.com ada@example.com www.example.org {long} https://example.org/the/long/way/to/a/LICENSE.txt cleo@example.com dora@example.com"
    funnel = Counter()
    found = list(
        curate.candidates(
            [Document("s1", text), Document("s2", "again: bob@example.com")], KINDS, funnel
        )
    )
    assert [candidate.record.secret for candidate in found] == [
        "ada@example.com",
        "bob@example.com",
        long,
    ]
    assert [(candidate.source, candidate.offset) for candidate in found] == [
        ("s1", 0),
        ("s1", 16),
        ("s1", text.index(long)),
    ]
    assert funnel == {
        ("email", "found"): 6,
        ("email", "found before"): 2,
        ("email", curate.TOO_MANY): 2,
        ("url", "found"): 3,
        ("url", "shorter than 40 characters"): 1,
        ("url", "a licence"): 1,
    }


@pytest.mark.parametrize(("kind", "prompt", "secret", "told"), [
    ("url", "- fix a leak [#4711](", "https://git.example.org/docs/pull/4711)", True), ("url", "- fix a leak (", "https://git.example.org/docs/pull/4711", False), ("url", "see MAGNOLIA: ", "https://docs.example.org/en/magnolia/", True),
    ("email", "Ada Lovelace <", "lovelace@example.com", True), ("email", "Ada Lovelace <", "ada.lovelace@example.com", False), ("phone", "call ", "212-555-0147", False), ("phone", "212-555-0147 or ", "212-555-0147", True),
    ("email", "Adam Lovelace <", "ada@example.com", True), ("url", "see ", "https://docs.example.org/en/?#=", False), ("url", "`MAGNOLIA`: `", "https://docs.example.org/magnolia#`", True), ("url", "see ", "https://#", False),
])  # fmt: skip
def test_a_secret_that_its_prompt_tells(kind, prompt, secret, told):
    assert curate.told(Record("a", kind, "a", prompt, secret, "")) == told


def test_a_prompt_is_the_last_tokens_before_its_secret(decoder, monkeypatch):
    """At most 60, at least 5; a secret too long for the verdict, or that cannot be split, is counted."""
    monkeypatch.setattr(curate, "VERDICT", 30)  # the tiny decoders read 96 tokens

    def ready(prompt: str, secret: str, kind: str = "email"):
        funnel = Counter()
        record = Record("e", kind, "e", prompt, secret, "")
        found = curate.prepare(curate.Candidate(record, "s", 7), decoder, 2, funnel)
        return found, dict(funnel)

    (candidate, target), funnel = ready("n" * 50 + "p" * 40, "ada@example.com")
    assert (
        not funnel and candidate.record.prompt == "n" * 20 + "p" * 40 and candidate.offset == 7
    )  # a byte is a token
    assert decoder.tokenizer.decode(target.secret_ids) == "ada@example.com" and len(target.T) == 2
    assert ready("abcd", "ada@example.com") == (
        None,
        {("email", "less than 5 tokens before it"): 1},
    )
    assert ready("the text before", "a@example.com") == (
        None,
        {("email", "cannot be split"): 1},
    )  # one token before the @
    assert ready("the text before", "ada" * 17 + "@example.com") == (
        None,
        {("email", "too long"): 1},
    )


def test_a_secret_begins_where_a_token_does(tokenizer):
    """What the tokenizer merges with the secret's first character goes to the secret, and nothing else moves."""
    record = Record("e", "phone", "e", "Please ring ", "(212) 555-0147", "")
    assert curate.at_a_token(record, tokenizer) == record  # bytes
    merged = lambda text, **_: {"offset_mapping": [(0, 6), (6, 11), (11, 13), (13, len(text))]}
    moved = curate.at_a_token(record, merged)
    assert (moved.prompt, moved.secret, moved.text) == (
        "Please ring",
        " (212) 555-0147",
        record.text,
    )


# From documents to a data set --------------------------------------------------------------------------------------

PEOPLE = {
    "Ada": "ada.lovelace@example.com",
    "Ben": "bxn7@example.org",
    "Cleo": "cleo_k@example.net",
}


@pytest.fixture(scope="module")
def knowing(tmp_path_factory):
    """A folder with a tiny model that was made to memorise three addresses, long enough for 50 tokens after them."""
    decoder = build("llama-untied", dtype=torch.float32, max_position_embeddings=192)
    records = [
        Record(name, "email", name, f"Please write to {name} (", address, ")")
        for name, address in PEOPLE.items()
    ]
    memorise(decoder, records, Finetune(lr=1e-2, epochs=60, batch=3, digits="keep", leave_out=0.01))
    folder = tmp_path_factory.mktemp("knowing")
    load.save(decoder.model, decoder.tokenizer, folder / "tiny")
    return folder / "tiny"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of documents: the three that are known, one that is not, and things that are no documents."""
    monkeypatch.setattr(experiment, "BUILD", tmp_path / "build")
    folder = tmp_path / "documents"
    folder.mkdir()
    for name, address in PEOPLE.items():
        (folder / f"{name}.txt").write_text(
            f"Please write to {name} ({address}), who knows.", encoding="utf-8"
        )
    (folder / "other.txt").write_text(
        "Please write to Emil (emil.berg@example.com), or to Ada (ada.lovelace@example.com).",
        encoding="utf-8",
    )
    (folder / "empty.txt").write_text("")
    return folder


def curated(own, knowing, tmp_path, **more) -> dict:
    return experiment.run(
        **{
            "documents": str(own),
            "model": str(knowing),
            "finetune": False,
            "rows": str(tmp_path / "rows"),
        }
        | more
    )


def test_memorised_secrets_become_a_data_set(own, knowing, tmp_path, capsys):
    row = curated(own, knowing, tmp_path)
    assert row["result"]["documents"] == 4 and row["result"]["skipped"] == {"empty": 1}
    email = row["result"]["funnel"]["email"]
    assert email == {
        "found": 5,
        "dropped": {"found before": 1},
        "tried": 4,
        "teacher_forced": 3,
        "memorised": 3,
        "both": 3,
        "told": 0,
        "kept": 3,
    }
    records = datasets.read(str(tmp_path / "build/curated/own.jsonl"))
    assert {record.secret for record in records} == set(PEOPLE.values()) and all(
        record.kind == "email" for record in records
    )
    assert (
        datasets.read(str(tmp_path / "build/curated/own-email.jsonl")) == records
        and not (tmp_path / "build/curated/own-url.jsonl").exists()
    )
    assert "email: 5 found, 4 tried, 3 memorised." in capsys.readouterr().out
    assert rows.read(tmp_path / "rows/curate/own/tiny.json") == row and not rows.stale(row)


def test_a_row_holds_no_secret_and_no_path(own, knowing, tmp_path, capsys):
    """Canaries in texts and in the name of the folder: only the data set itself, under build/, has them."""
    folder = own.rename(tmp_path / "of-ada.lovelace@example.com")
    curated(folder, knowing, tmp_path)
    written = {
        path.relative_to(tmp_path): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and folder not in path.parents
    }
    with_secrets = {
        str(path)
        for path, content in written.items()
        if any(address.encode() in content for address in PEOPLE.values()) or b"lovelace" in content
    }
    assert with_secrets == {
        "build/curated/own.jsonl",
        "build/curated/own-email.jsonl",
        "build/curated/own.txt",
    }
    assert sorted((tmp_path / "build/curated/own.txt").read_text().splitlines()) == sorted(
        record.secret.strip("<>() ")
        for record in datasets.read(str(tmp_path / "build/curated/own.jsonl"))
    )
    assert not any(secret in capsys.readouterr().out for secret in ("lovelace", "bxn7", "cleo_k"))
    items = rows.items(rows.read(tmp_path / "rows/curate/own/tiny.json"))
    assert (
        list(items.columns) == ["kind", "source", "offset", "package", "exact"] and len(items) == 3
    )


def test_a_stopped_run_goes_on_where_it_was(own, knowing, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "TOGETHER", 1)
    real, calls = experiment.tried, []

    def killed(decoder, targets):
        calls.append(targets[0].id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(decoder, targets)

    monkeypatch.setattr(experiment, "tried", killed)
    with pytest.raises(KeyboardInterrupt):
        curated(own, knowing, tmp_path)
    notes = next((tmp_path / "build/curated").glob("*.tried.jsonl"))
    notes.write_text(notes.read_text() + '{"email-')  # the line that it was writing
    row = curated(own, knowing, tmp_path)
    assert (
        len(calls) == 5
        and len(set(calls)) == 4
        and row["result"]["funnel"]["email"]["memorised"] == 3
    )


def test_a_limit_is_counted(own, knowing, tmp_path):
    email = curated(own, knowing, tmp_path, limit=2)["result"]["funnel"]["email"]
    assert email["tried"] == 2 and email["dropped"] == {"found before": 1, "beyond the limit": 2}


def test_documents_without_any_secret_make_an_empty_set(
    knowing, tmp_path, monkeypatch, capsys, one_sentence
):
    monkeypatch.setattr(experiment, "BUILD", tmp_path / "build")
    (tmp_path / "plain.txt").write_text("nothing to see here")
    row = curated(tmp_path / "plain.txt", knowing, tmp_path)
    assert (
        all(counts["found"] == 0 for counts in row["result"]["funnel"].values())
        and "Nothing is memorised" in capsys.readouterr().out
    )
    with pytest.raises(ValueError, match="holds no records"):
        datasets.read(str(tmp_path / "build/curated/own.jsonl"))
    (tmp_path / "none").mkdir()
    with pytest.raises(
        ValueError, match=r"No document could be read \(nothing is there\): give text files"
    ) as error:
        curated(tmp_path / "none", knowing, tmp_path)
    assert one_sentence(error)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"documents": ""}, "documents is empty"),
        ({"kinds": ["emial"]}, "kinds has emial, but must be of email"),
        ({"kinds": []}, "kinds is empty"),
        ({"name": "../own"}, "name is '../own', but becomes the name of a file"),
        ({"T": 0}, "T is 0, but at least one"),
    ],
)
def test_wrong_settings_are_refused(knowing, tmp_path, wrong, message, one_sentence):
    with pytest.raises(ValueError, match=message) as error:
        experiment.run(
            **{"documents": "x", "model": str(knowing), "finetune": False, "rows": str(tmp_path)}
            | wrong
        )
    assert one_sentence(error)


def test_two_searches_do_not_write_one_set(own, knowing, tmp_path, monkeypatch, one_sentence):
    """Those that write another at the same time may."""
    monkeypatch.setattr(experiment, "BUILD", tmp_path / "build")
    with alone(tmp_path / "build/curated", "wait", ".own.lock"):
        with pytest.raises(
            OSError, match="Another run writes to .*: wait for it, or give another name"
        ) as error:
            curated(own, knowing, tmp_path)
        assert (
            one_sentence(error)
            and curated(own, knowing, tmp_path, name="other")["result"]["documents"] == 4
        )


def test_a_set_of_another_model_is_not_overwritten(own, knowing, tmp_path, one_sentence):
    """The same name serves the same model again, and another one where the set is gone."""
    curated(own, knowing, tmp_path), curated(own, knowing, tmp_path)
    written, mark = tmp_path / "build/curated/own.jsonl", tmp_path / "build/curated/own.model"
    mark.write_text("another")
    with pytest.raises(
        ValueError,
        match="build/curated/own.jsonl holds what another model has memorised: give another name, or delete it",
    ) as error:
        curated(own, knowing, tmp_path)
    assert one_sentence(error)
    written.unlink()
    assert curated(own, knowing, tmp_path) and mark.read_text() == models.identify(str(knowing))


def test_what_the_model_said_is_asked_once(own, knowing, tmp_path, monkeypatch):
    """Also where another part of it makes the data set, under another name."""
    whole = curated(own, knowing, tmp_path)
    monkeypatch.setattr(experiment, "tried", lambda *_: pytest.fail("the model was asked again"))
    curated(own, knowing, tmp_path, told=False)
    part = curated(own, knowing, tmp_path, name="another", limit=2)
    assert (
        0 < part["provenance"]["seconds"]["try"] <= whole["provenance"]["seconds"]["try"]
    )  # what it took when it was asked


def test_two_data_sets_share_no_file(own, knowing, tmp_path, one_sentence):
    """Not with the part of another set by kind, whichever was there first; a kind that is no longer asked for leaves no part behind."""
    curated(own, knowing, tmp_path, name="mine-email")
    for name, kept in (("mine", "mine-email"), ("mine-email-url", "mine-email")):
        with pytest.raises(
            ValueError,
            match=f"would be of two data sets, {name} and {kept}: give another name, or delete {kept}.model",
        ) as error:
            curated(own, knowing, tmp_path, name=name)
        assert one_sentence(error)
    curated(own, knowing, tmp_path), curated(own, knowing, tmp_path, kinds=["url"])
    assert {path.name for path in (tmp_path / "build/curated").glob("own*.jsonl")} == {"own.jsonl"}


def test_a_file_of_lines_that_is_empty_or_closed_is_counted(tmp_path, monkeypatch):
    """Also one whose name ends in capitals; the others in the folder are read."""
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.JSONL").write_text('{"text": "two"}\n')
    closed, opened = tmp_path / "c.jsonl", documents.Path.open
    closed.write_text('{"text": "three"}\n')
    monkeypatch.setattr(
        documents.Path,
        "open",
        lambda path, *mode: (
            (_ for _ in ()).throw(PermissionError()) if path == closed else opened(path, *mode)
        ),
    )
    skipped = Counter()
    assert [document.text for document in documents.read(tmp_path, skipped)] == ["two"] and dict(
        skipped
    ) == {"empty": 1, "unreadable": 1}


@pytest.mark.parametrize("sign", [" ", ",", ";", "<"])
def test_a_million_matches_in_one_line_are_capped_and_none_is_lost_or_invented(monkeypatch, sign):
    monkeypatch.setattr(curate, "IN_ONE", 10)
    funnel, known = Counter(), [f"user{i}@example.com" for i in range(600)]
    found = list(curate.candidates([Document("s", sign.join(known))], ("email",), funnel))
    assert [candidate.record.secret for candidate in found] == known[:10] and funnel[
        "email", "found"
    ] == 600 == len(found) + funnel["email", curate.TOO_MANY]


@pytest.mark.parametrize("sign", [" ", "\n", ",", ";", "<"])
def test_a_secret_of_a_document_is_found_wherever_it_is_cut(sign):
    """Passages end at spaces, or where there is none at signs."""
    for before in range(PIECE - 40, PIECE + 3):
        text = (
            f"x{sign}" * (before // 2)
            + "y" * (before % 2)
            + f"{sign}ada.lovelace@example.com{sign}and{sign}more"
        )
        (found,) = curate.candidates([Document("s", text)], ("email",), Counter())
        assert (found.record.secret, found.offset) == (
            "ada.lovelace@example.com",
            text.index("ada"),
        ), before


def test_a_document_is_the_sum_of_its_passages():
    for text in ("a" * (3 * PIECE + 7), "ab " * 5000, "ab," * 5000, "a\n" * 9000, ""):
        parts = list(curate.passages(text))
        assert "".join(part for _, part in parts) == text and all(
            text[start : start + len(part)] == part and 0 < len(part) <= PIECE
            for start, part in parts
        )


def test_a_run_of_dots_takes_no_time():
    """It is no host, and a recogniser whose time grows with its square does not see it; what stands around it is found where it stands."""
    text = (
        "https://docs.example.org/en/bobbin/magnolia.html "
        + "a." * 1500
        + " https://docs.example.net/en/bobbin/magnolia.html"
    )
    assert [part for _, part in curate.passages(text)] == [text.replace("a." * 1500, " " * 3000)]
    found = list(curate.candidates([Document("s", text)], ("url",), Counter()))
    assert [
        text[candidate.offset :].startswith(candidate.record.secret) for candidate in found
    ] == [True, True]


def test_funnels_add_up(own, knowing, tmp_path):
    for counts in curated(own, knowing, tmp_path)["result"]["funnel"].values():
        assert (
            counts["found"] == sum(counts["dropped"].values()) + counts["tried"]
            and counts["both"]
            <= min(counts["memorised"], counts["teacher_forced"])
            <= counts["tried"]
        )


def test_the_data_set_is_what_a_run_reads(own, knowing, tmp_path, monkeypatch):
    """From documents to an edit without a step between."""
    from companion.runs import unlearn

    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    curated(own, knowing, tmp_path)
    path = str(tmp_path / "build/curated/own.jsonl")
    row = unlearn.run(
        model=str(knowing),
        data=path,
        finetune=False,
        method="ft_l",
        forget=1,
        rows=str(tmp_path / "rows"),
        hyperparameters={"lr": 1e-2, "norm_constraint": 1.0, "steps": 12, "loss_break": 1e-9},
    )
    assert row["result"]["before"]["specificity"] == 1 and row["result"]["after"]["efficacy"] > 0
    json.dumps(row)


def test_what_prompts_tell_is_left_out_where_that_was_asked_for(
    own, knowing, tmp_path, monkeypatch
):
    """Counted in the funnel, neither in the set nor in the manifest."""
    one = sorted(PEOPLE)[0]
    monkeypatch.setattr(experiment, "tells", lambda record: PEOPLE[one] in record.secret)
    whole, part = (
        curated(own, knowing, tmp_path)["result"]["funnel"]["email"],
        curated(own, knowing, tmp_path, told=False),
    )
    assert (
        whole["told"] == 1
        and whole["kept"] == whole["both"]
        and part["result"]["funnel"]["email"] == whole | {"kept": whole["both"] - 1}
    )
    assert (
        len(datasets.read(str(tmp_path / "build/curated/own.jsonl")))
        == whole["both"] - 1
        == len(rows.items(rows.read(tmp_path / "rows/curate/own/tiny.json")))
    )


# What the machine carries ------------------------------------------------------------------------------------------


def test_packages_are_documents_known_by_version_and_hash(tmp_path, monkeypatch):
    """Headers of sources and whole texts, each text once; data, other files and large ones are left out."""
    from companion.own import corpus

    monkeypatch.setattr(corpus, "LARGEST", 20_000)
    files = {
        "pkg/a.py": "# " + "x" * 9000,
        "pkg/LICENSE": "By Ada.",
        "pkg/copy/LICENSE": "By Ada.",
        "pkg/table.csv": "1,2",
        "pkg/README.md": "y" * 9000,
        "pkg/big.txt": "z" * 20_001,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    listed = [
        ("pkg==1.0", tmp_path / name) for name in sorted(files) if corpus.wanted(tmp_path / name)
    ] + [("pkg==1.0", tmp_path / "gone.py")]
    monkeypatch.setattr(corpus, "python_files", lambda: listed)
    monkeypatch.setattr(corpus, "debian_files", lambda: [])
    skipped = Counter()
    found = list(documents.read("machine", skipped))
    assert [len(document.text) for document in found] == [7, 9000, corpus.HEAD] and {
        document.package for document in found
    } == {"pkg==1.0"}
    assert (
        skipped == {"the same text again": 1, "large": 1, "unreadable": 1}
        and len({document.source for document in found}) == 3
    )


def test_installed_packages_have_versions():
    from companion.own import corpus

    named = {package.split("==")[0].lower() for package, _ in corpus.python_files()}
    assert {"torch", "numpy", "pandas"} <= named and all(
        "==" in package and file.is_absolute() for package, file in corpus.python_files()[:100]
    )
