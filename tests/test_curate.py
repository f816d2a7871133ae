"""From documents to memorised secrets: what is read, found, dropped and tried, and that every count
adds up."""

import json
import os
import socket
from collections import Counter

import numpy as np
import pytest
from conftest import PEOPLE

from companion.data import datasets, models
from companion.experiments import curate as experiment
from companion.experiments import unlearn
from companion.store import rows
from companion.store.paths import ROOT, alone
from document_audit import candidates, documents, ownership
from document_audit.detection import PIECE, pieces, secret_spans
from document_audit.documents import Document
from document_audit.redaction import hide, redact
from document_audit.settings import KINDS
from revs.model.targets import Record

URL = "https://docs.example.org/en/bobbin/magnolia.html"
TEXT = (
    f"Ada Lovelace <ada.lovelace@example.com> keeps {URL}; "
    "call (212) 555-0199, host 192.0.2.17, number 941-14-8265."
)


def said(text: str, kinds=KINDS) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in secret_spans(text, kinds)]


# --- detecting -----------------------------------------------------------------------------------


def test_every_kind_is_found_once():
    """An address is not also a URL because of its domain; a number is one thing; quotes are not
    part of a secret."""
    assert said(TEXT) == [
        ("email", "ada.lovelace@example.com"),
        ("url", URL),
        ("phone", "(212) 555-0199"),
        ("ip", "192.0.2.17"),
        ("ssn", "941-14-8265"),
    ]
    assert said(TEXT, ("email",)) == [("email", "ada.lovelace@example.com")]
    assert said(f'see "{URL}" there') == [("url", URL)]
    assert said("") == said("nothing to see here") == []


@pytest.mark.parametrize("sign", [" ", "\n", ",", ";", "<"])
def test_a_secret_is_found_wherever_a_text_is_cut(sign):
    """Passages end at spaces, or where there is none at signs."""
    address = "ada.lovelace@example.com"
    for before in range(PIECE - 40, PIECE + 3, 3):
        text = f"x{sign}" * (before // 2) + "y" * (before % 2)
        text += f"{sign}{address}{sign}and{sign}more"
        assert said(text, ("email",)) == [("email", address)], before


def test_a_text_is_the_sum_of_its_passages():
    for text in ("a" * (3 * PIECE + 7), "ab " * 5000, "ab," * 5000, "a\n" * 9000, ""):
        parts = list(pieces(text))
        assert "".join(part for _, part in parts) == text
        assert all(text[start : start + len(part)] == part for start, part in parts)
        assert all(0 < len(part) <= PIECE for _, part in parts)


def test_a_run_of_dots_takes_no_time():
    """It is no host, and a recogniser whose time grows with its square does not see it."""
    dots = "a." * 1500
    text = f"{URL} {dots} https://docs.example.net/en/bobbin/magnolia.html"
    assert [part for _, part in pieces(text)] == [text.replace(dots, " " * 3000)]
    assert [secret for _, secret in said(text, ("url",))] == [text.split()[0], text.split()[-1]]


def test_the_network_is_not_asked(monkeypatch):
    """Presidio's e-mail recogniser has a list of domains of its own, if it is told so before."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("the network was asked"))
    said("write to jo@example.net")
    assert os.environ["TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS"] == ""


# --- redacting -----------------------------------------------------------------------------------


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
    assert hide(TEXT) == (
        "Ada Lovelace <a***@example.com> keeps https://***; "
        "call (***) ***-****, host ***.*.*.**, number ***-**-****."
    )


# --- reading -------------------------------------------------------------------------------------


def read(place, tokenizer=None) -> tuple[list[str], dict]:
    """The texts at a place, and what was skipped."""
    skipped = Counter()
    return [one.text for one in documents.read(place, skipped, tokenizer)], dict(skipped)


def test_what_is_no_document_is_counted(tmp_path, monkeypatch):
    """Empty, binary, too large, in other encodings, links and pipes: each by its reason."""
    monkeypatch.setattr(documents, "HUGE", 100)
    for name, content in {
        "b/second.txt": b"two",
        "a.txt": "eins ä".encode(),
        "bom.txt": b"\xef\xbb\xbfthree",
        "empty": b"",
        "binary": b"a\0b",
        "huge": b"x" * 101,
        "latin": "ä".encode("latin-1"),
        "wide": "x".encode("utf-16"),
        "c.jsonl": b'{"text": "four"}\n{}\n',
        "d.JSONL": b"",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "around").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    texts, skipped = read(tmp_path)
    assert texts == ["eins ä", "two", "three", "four"]
    assert skipped == {
        "empty": 2,
        "binary": 1,
        "larger than 0 MB": 1,
        "not UTF-8": 2,
        "no text in the line": 1,
        "not a file": 2,
        "links to a folder": 1,
    }


def test_what_may_not_be_opened_is_counted(tmp_path, monkeypatch):
    """A folder, and a file of lines. (Root may open all of them: the refusal is simulated.)"""
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.jsonl").write_text('{"text": "two"}\n')
    (tmp_path / "closed").mkdir()
    scan, opened = os.scandir, documents.Path.open

    def refuse(place, allowed, *mode, **named):
        if str(place).endswith(("closed", "jsonl")):
            raise PermissionError(13, "no", str(place))
        return allowed(place, *mode, **named)

    monkeypatch.setattr(os, "scandir", lambda place: refuse(place, scan))
    monkeypatch.setattr(
        documents.Path, "open", lambda path, *mode, **named: refuse(path, opened, *mode, **named)
    )
    closed = {"folders that cannot be opened": 1, "unreadable": 1}
    assert read(tmp_path) == (["one"], closed)


def test_json_lines_are_documents(tmp_path):
    lines = ['{"text": "one"}', "not json", '{"txt": "x"}', '{"text": ""}', '{"text": 7}']
    lines += ['"text"', '{"text": "\\ud83d"}', "[" * 100_000, '{"text": "two"}']
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    assert read(tmp_path / "d.jsonl") == (["one", "two"], {"no text in the line": 7})


def test_a_path_without_documents_is_not_named(tmp_path, one_sentence):
    """It may hold a secret itself; a run says so before a model is looked for."""
    said = "There are no documents at the path given"
    with pytest.raises(FileNotFoundError, match=said) as error:
        read(tmp_path / "ada.lovelace@example.com")
    assert one_sentence(error) and "lovelace" not in str(error.value)
    with pytest.raises(FileNotFoundError, match=said):
        experiment.run(experiment.Settings(documents=str(tmp_path / "none"), model="no-model"))


class Gpt2Like:
    """A tokenizer that knows GPT-2's tokens of "hello world"."""

    def __len__(self):
        return 100

    def __call__(self, text, **_):
        return {"input_ids": [31373, 995] if text == "hello world" else []}

    def decode(self, ids):
        return "".join(chr(97 + i - 64) for i in ids)


def test_the_challenges_files_are_documents(tmp_path, tokenizer):
    np.save(tmp_path / "train_prefix.npy", np.array([[64, 65], [66, 67]], dtype=np.uint16))
    np.save(tmp_path / "train_suffix.npy", np.array([[66], [64]], dtype=np.uint16))
    assert read(tmp_path, Gpt2Like()) == (["abc", "cda"], {})
    with pytest.raises(ValueError, match="token ids of GPT-2's tokenizer"):
        read(tmp_path, tokenizer)


@pytest.mark.parametrize(
    "suffix, message",
    [
        (b"no array", "do not fit together"),
        (np.zeros((2, 0), int), "do not fit together"),
        (np.array([[66]]), "do not fit together"),
        (np.array([[66.5], [64]]), "do not fit together, or hold something else"),
        (np.array([[-1], [64]]), "do not fit together, or hold something else"),
    ],
)
def test_damaged_files_of_the_challenge_are_refused(tmp_path, suffix, message, one_sentence):
    np.save(tmp_path / "train_prefix.npy", np.array([[64, 65], [66, 67]]))
    place = tmp_path / "train_suffix.npy"
    place.write_bytes(suffix) if isinstance(suffix, bytes) else np.save(place, suffix)
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path, Gpt2Like())
    assert one_sentence(error)


def test_packages_are_documents_known_by_version_and_hash(tmp_path, monkeypatch):
    """Headers of sources and whole texts, each text once; data and large files are left out."""
    monkeypatch.setattr(documents, "LARGEST", 20_000)
    files = {"a.py": "# " + "x" * 9000, "LICENSE": "By Ada.", "copy/LICENSE": "By Ada."}
    files |= {"table.csv": "1,2", "README.md": "y" * 9000, "big.txt": "z" * 20_001}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    listed = [tmp_path / name for name in sorted(files) if documents.wanted(tmp_path / name)]
    listed = [("pkg==1.0", file) for file in [*listed, tmp_path / "gone.py"]]
    monkeypatch.setattr(documents, "python_files", lambda: listed)
    monkeypatch.setattr(documents, "debian_files", lambda: [])
    skipped = Counter()
    found = list(documents.read("machine", skipped))
    assert [len(one.text) for one in found] == [7, 9000, documents.HEAD]
    assert {one.package for one in found} == {"pkg==1.0"} and len(
        {one.source for one in found}
    ) == 3
    assert skipped == {"the same text again": 1, "large": 1, "unreadable": 1}


def test_installed_packages_have_versions():
    listed = documents.python_files()
    named = {package.split("==")[0].lower() for package, _ in listed}
    assert {"torch", "numpy", "pandas"} <= named
    assert all("==" in package and file.is_absolute() for package, file in listed[:100])


# --- the funnel ----------------------------------------------------------------------------------


def test_every_secret_is_in_one_line_of_the_funnel(monkeypatch):
    monkeypatch.setattr(candidates, "IN_ONE", 6)
    text = f"ada@example.com bob@example.com ada@example.com www.example.org {URL} "
    text += "https://example.org/the/long/way/to/a/LICENSE.txt cleo@example.com dora@example.com"
    texts, funnel = [Document("s1", text), Document("s2", "again: bob@example.com")], Counter()
    found = list(candidates.secret_candidates(texts, KINDS, funnel))
    assert [one.record.secret for one in found] == ["ada@example.com", "bob@example.com", URL]
    places = [(one.source, one.offset) for one in found]
    assert places == [("s1", 0), ("s1", 16), ("s1", text.index(URL))]
    assert funnel == {
        ("email", "found"): 6,
        ("email", "found before"): 2,
        ("email", candidates.TOO_MANY): 2,
        ("url", "found"): 3,
        ("url", "shorter than 40 characters"): 1,
        ("url", "a licence"): 1,
    }


@pytest.mark.parametrize(
    "kind, prompt, secret, told",
    [
        ("url", "- fix a leak [#4711](", "https://git.example.org/docs/pull/4711)", True),
        ("url", "- fix a leak (", "https://git.example.org/docs/pull/4711", False),
        ("url", "see MAGNOLIA: ", "https://docs.example.org/en/magnolia/", True),
        ("url", "see ", "https://docs.example.org/en/?#=", False),
        ("url", "`MAGNOLIA`: `", "https://docs.example.org/magnolia#`", True),
        ("url", "see ", "https://#", False),
        ("email", "Ada Lovelace <", "lovelace@example.com", True),
        ("email", "Ada Lovelace <", "ada.lovelace@example.com", False),
        ("email", "Adam Lovelace <", "ada@example.com", True),
        ("phone", "call ", "212-555-0147", False),
        ("phone", "212-555-0147 or ", "212-555-0147", True),
    ],
)
def test_a_secret_that_its_prompt_tells(kind, prompt, secret, told):
    assert ownership.secret_in_prompt(Record("a", kind, "a", prompt, secret, "")) == told


def test_a_prompt_is_the_last_tokens_before_its_secret(decoder, monkeypatch):
    """At most 60, at least 5; a secret too long for the verdict, or not to be split, is counted."""
    monkeypatch.setattr(candidates, "VERDICT", 30)  # the tiny decoders read 96 tokens, a byte each

    def ready(prompt: str, secret: str):
        funnel, record = Counter(), Record("e", "email", "e", prompt, secret, "")
        found = candidates.cut_to_target(candidates.Candidate(record, "s", 7), decoder, 2, funnel)
        return found, [why for _, why in funnel]

    (candidate, target), why = ready("n" * 50 + "p" * 40, "ada@example.com")
    assert not why and candidate.offset == 7
    assert candidate.record.prompt == "n" * 20 + "p" * 40 and len(target.T) == 2
    assert decoder.tokenizer.decode(target.secret_ids) == "ada@example.com"
    assert ready("abcd", "ada@example.com") == (None, ["less than 5 tokens before it"])
    # one token before the @
    assert ready("the text before", "a@example.com") == (None, ["cannot be split"])
    assert ready("the text before", "ada" * 17 + "@example.com") == (None, ["too long"])


def test_a_secret_begins_where_a_token_does(tokenizer):
    """What the tokenizer merges with the secret's first character goes to the secret."""
    record = Record("e", "phone", "e", "Please ring ", "(212) 555-0147", "")
    assert candidates.aligned_to_token(record, tokenizer) == record  # bytes
    merged = lambda text, **_: {"offset_mapping": [(0, 6), (6, 11), (11, 13), (13, len(text))]}
    moved = candidates.aligned_to_token(record, merged)
    assert (moved.prompt, moved.secret) == ("Please ring", " (212) 555-0147")
    assert moved.text == record.text


# --- from documents to a data set ----------------------------------------------------------------


@pytest.fixture
def run(folder, knowing, tmp_path):
    """run(**settings) → row, of the tiny model and the documents that it knows."""

    def begun(**more) -> dict:
        given = {"documents": str(folder), "model": str(knowing), "adapter": None}
        given |= {"rows": str(tmp_path / "rows")} | more
        return experiment.run(experiment.Settings(**given))

    return begun


@pytest.fixture
def curated(tmp_path):
    """curated(name) → what a file of data sets is."""
    return lambda name: tmp_path / "build/curated" / name


def test_memorised_secrets_become_a_data_set(run, tmp_path, curated, capsys):
    row = run()
    assert row["result"]["documents"] == 4 and row["result"]["skipped"] == {"empty": 1}
    assert row["result"]["funnel"]["email"] == {
        "found": 5,
        "dropped": {"found before": 1},
        "tried": 4,
        "teacher_forced": 3,
        "memorised": 3,
        "both": 3,
        "leaked": 0,
        "kept": 3,
    }
    records = datasets.read(str(curated("own.jsonl")))
    assert {record.secret for record in records} == set(PEOPLE.values())
    assert all(record.kind == "email" for record in records)
    assert datasets.read(str(curated("own-email.jsonl"))) == records
    assert not curated("own-url.jsonl").exists()
    assert "email: 5 found, 4 tried, 3 memorised." in capsys.readouterr().out
    kept = rows.read(tmp_path / "rows/curate/own/tiny.json")
    assert kept["result"] == row["result"]
    for counts in row["result"]["funnel"].values():
        assert counts["found"] == sum(counts["dropped"].values()) + counts["tried"]


def test_a_row_holds_no_secret_and_no_path(run, folder, tmp_path, curated, capsys):
    """Only the data set itself, under build/, has them."""
    folder = folder.rename(tmp_path / "of-ada.lovelace@example.com")
    row = run(documents=str(folder))
    canaries = [*PEOPLE.values(), "lovelace"]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    with_secrets = {
        path.name
        for path in written
        if folder not in path.parents
        and any(canary.encode() in path.read_bytes() for canary in canaries)
    }
    assert with_secrets == {"own.jsonl", "own-email.jsonl", "own.txt"}
    assert sorted(curated("own.txt").read_text().split()) == sorted(PEOPLE.values())
    assert not any(part in capsys.readouterr().out for part in ("lovelace", "bxn7", "cleo_k"))
    items = rows.per_example(row | {"path": tmp_path / "rows/curate/own/tiny.json"})
    assert list(items) == ["kind", "source", "offset", "package", "exact"] and len(items) == 3


def test_a_stopped_run_goes_on_where_it_was_and_asks_once(run, curated, monkeypatch):
    """Also where another part of it makes the data set, under another name."""
    monkeypatch.setattr(experiment, "TOGETHER", 1)
    real, calls = experiment.tried, []

    def killed(decoder, targets):
        calls.append(targets[0].id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(decoder, targets)

    monkeypatch.setattr(experiment, "tried", killed)
    with pytest.raises(KeyboardInterrupt):
        run()
    notes = next(curated("").glob("*.tried.jsonl"))
    notes.write_text(notes.read_text() + '{"email-')  # the line that it was writing
    whole = run()
    assert len(calls) == 5 and len(set(calls)) == 4
    assert whole["result"]["funnel"]["email"]["memorised"] == 3
    monkeypatch.setattr(experiment, "tried", lambda *_: pytest.fail("the model was asked again"))
    part = run(name="another", limit=2)
    tried = [one["seconds"]["try"] for one in (part, whole)]
    assert 0 < tried[0] <= tried[1]  # what it took when it was asked
    email = part["result"]["funnel"]["email"]
    assert email["tried"] == 2 and email["dropped"] == {"found before": 1, "beyond the limit": 2}


def test_documents_without_any_secret_make_an_empty_set(run, tmp_path, curated, one_sentence):
    (tmp_path / "plain.txt").write_text("nothing to see here")
    row = run(documents=str(tmp_path / "plain.txt"))
    assert not any(counts["found"] for counts in row["result"]["funnel"].values())
    with pytest.raises(ValueError, match="holds no records"):
        datasets.read(str(curated("own.jsonl")))
    (tmp_path / "none").mkdir()
    said = r"No document could be read \(nothing is there\): give text files"
    with pytest.raises(ValueError, match=said) as error:
        run(documents=str(tmp_path / "none"))
    assert one_sentence(error)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"documents": ""}, "A path is empty"),
        ({"kinds": ["emial"]}, "kinds is emial, but must be some of email"),
        ({"kinds": []}, "kinds is empty"),
        ({"name": "../own"}, "name is '../own', but becomes the name of a file"),
    ],
)
def test_wrong_settings_are_refused(run, wrong, message, one_sentence):
    with pytest.raises(ValueError, match=message) as error:
        run(**wrong)
    assert one_sentence(error)


def test_two_searches_do_not_write_one_set(run, curated, one_sentence):
    """Those that write another at the same time may."""
    with alone(curated(""), "wait", ".own.lock"):
        with pytest.raises(OSError, match="wait for it, or give another name") as error:
            run()
        assert one_sentence(error) and run(name="other")["result"]["documents"] == 4


def test_a_set_of_another_model_is_not_overwritten(run, knowing, curated, one_sentence):
    """The same name serves the same model again, and another one where the set is gone."""
    run(), run()
    curated("own.model").write_text("another")
    with pytest.raises(ValueError, match="own.jsonl holds what another model has mem") as error:
        run()
    assert one_sentence(error)
    curated("own.jsonl").unlink()
    assert run() and curated("own.model").read_text() == models.identify(str(knowing))


def test_a_kind_that_is_no_longer_asked_for_leaves_no_part_behind(run, curated):
    run(), run(kinds=["url"])
    assert {path.name for path in curated("").glob("own*.jsonl")} == {"own.jsonl"}


def test_what_prompts_tell_is_left_out_where_that_was_asked_for(
    run, tmp_path, curated, monkeypatch
):
    """Counted in the funnel, neither in the set nor in the manifest."""
    monkeypatch.setattr(
        experiment, "secret_in_prompt", lambda record: PEOPLE["Ada"] in record.secret
    )
    whole, row = run()["result"]["funnel"]["email"], run(keep_leaked=False)
    assert whole["leaked"] == 1 and whole["kept"] == whole["both"]
    assert row["result"]["funnel"]["email"] == whole | {"kept": whole["both"] - 1}
    items = rows.per_example(row | {"path": tmp_path / "rows/curate/own/tiny.json"})
    assert len(datasets.read(str(curated("own.jsonl")))) == whole["both"] - 1 == len(items)


def test_the_data_set_is_what_a_run_reads(run, knowing, tmp_path, curated, monkeypatch):
    """From documents to an edit without a step between."""
    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    run()
    given = {"lr": 1e-2, "norm_constraint": 1.0, "steps": 12, "loss_break": 1e-9}
    settings = unlearn.Settings(
        model=str(knowing),
        data=str(curated("own.jsonl")),
        adapter=None,
        method="ft_l",
        forget=1,
        rows=str(tmp_path / "rows"),
        hyperparameters=given,
    )
    result = unlearn.run(settings)["result"]
    assert result["before"]["specificity"] == 1 and result["after"]["efficacy"] > 0
    json.dumps(result)


def test_a_data_set_with_a_mark_of_its_byte_order_is_read(tmp_path):
    lines = (ROOT / "data" / "ssn" / "main.jsonl").read_text(encoding="utf-8")
    (tmp_path / "mine.jsonl").write_text(lines, encoding="utf-8-sig")
    assert datasets.read(str(tmp_path / "mine.jsonl")) == datasets.read("ssn")
