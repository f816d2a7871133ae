"""What is read of documents: each by itself, decoded, and what is none is counted."""

import json
import os
from collections import Counter
from email.message import EmailMessage

import numpy as np
import pytest

from companion.data import sources
from document_audit import documents


def read(place) -> tuple[list[str], dict]:
    """The texts at a place, and what was skipped."""
    skipped = Counter()
    return [one.text for one in documents.read(place, skipped)], dict(skipped)


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
        "wide": "five".encode("utf-16"),
        "c.jsonl": b'{"text": "four"}\n{}\n',
        "d.JSONL": b"",
        "e.jsonl": b"\xef\xbb\xbf" + json.dumps({"body": SAID}).encode(),
        "f.jsonl": '{"text": "six"}'.encode("utf-16"),
        "g.pdf": b"%PDF-1.4\n(jane@) Tj",
        "h.docx": b"PK\3\4 word",
        "i.rtf": b"{\\rtf1 jane",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "around").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    texts, skipped = read(tmp_path)
    assert texts[:4] == ["eins ä", "two", "three", "four"] and texts[-1] == "five"
    assert SAID in texts
    assert skipped == {
        "empty": 2,
        "binary": 1,
        "larger than 0 MB": 1,
        "not UTF-8": 2,
        "no text in the line": 1,
        "PDF, RTF, Office or zip": 3,
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
    assert read(tmp_path) == (["one"], {"folders that cannot be opened": 1, "unreadable": 1})


def test_json_lines_are_documents(tmp_path):
    lines = ['{"text": "one"}', "not json", "{}", '{"text": ""}', '{"text": 7}']
    lines += ['{"text": "\\ud83d"}', "[" * 100_000, '{"text": "two"}']
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    assert read(tmp_path / "d.jsonl") == (["one", "two"], {"no text in the line": 6})


SAID, WRITE = 'she said "no" to all of it', "write to\njane.roe@example.com, please, today"
CHAT = {"messages": [{"role": "user", "content": WRITE}, {"role": "assistant", "content": "Yes."}]}
CELL = {"cells": [{"source": [f"{line}\n" for line in WRITE.split("\n")]}]}
LIST = [{"body": text, "mail": "a@example.net"} for text in (WRITE, SAID, "Zoë does not.")]
EIGHT = "Content-Transfer-Encoding: 8bit\n\n"
BODY = "Content-Transfer-Encoding: base64\n\naGVsbG8gamFuZQ==\n\n"


@pytest.mark.parametrize(
    "name, content, text",
    [
        ("lines.json", f"{json.dumps({'a': WRITE})}\n{json.dumps({'a': SAID})}\n", SAID),
        ("list.json", json.dumps(LIST), WRITE),
        ("lines.ndjson", json.dumps({"a": WRITE}), WRITE),
        ("chat.jsonl", json.dumps(CHAT), WRITE),  # as models are fine-tuned on it
        ("notebook.ipynb", json.dumps(CELL), f"{WRITE}\n"),
        ("excel.csv", 'name;mail;note\nJane;j@example.com;"she said ""no"" to all of it"\n', SAID),
        ("cells.csv", f'body,mail\r\n"{WRITE}",a@example.net\r\nno,b\r\n', WRITE),
        ("all.mbox", f"From a\nSubject: x\n{BODY}From b\nSubject: y\n\nhi\n", "hello jane"),
        ("odd.eml", "Content-Type: text/plain; charset=x-unknown\n\nhello jane\n", "hello jane\n"),
        ("web.eml", "Content-Type: text/html\n\n<p>a&#64;example.com</p>", "<p>a@example.com</p>"),
        ("broken.eml", 'From: "\nMessage-ID: <\n\nhello\n', 'From: "\nMessage-ID: <\n\nhello\n'),
        ("windows.txt", "one\r\ntwo\r\n\r\nthree\rfour", "one\ntwo\n\nthree\nfour"),
        ("none.json", "{no json", "{no json"),
        ("page.html", "jane&#64;example.com", "jane@example.com"),
        ("half.json", '["one two three four \\ud83d five"]', "one two three four ? five"),
        ("export.txt", json.dumps({"a": WRITE}), WRITE),
        ("bare.eml", f"Subject: x\n{EIGHT}José – 東京", "José – 東京"),
        ("old.mbox", f"From a\nSubject: x\n{EIGHT}José\n".encode("latin-1"), "José\n"),
    ],
)
def test_what_users_have_is_decoded(tmp_path, name, content, text):
    """Kinds of files that are common, and mails that Python's parser cannot read; a text in one
    stands alone, and test_parsers.py has that nothing beside it is lost."""
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    texts, skipped = read(tmp_path)
    assert text in texts and not skipped


def test_a_mail_is_its_decoded_body_and_its_headers(tmp_path):
    made = EmailMessage()
    made["From"], made["Subject"] = "sam.poe@example.org", "Grüße"
    made.set_content(WRITE, cte="base64")
    (tmp_path / "d.eml").write_bytes(bytes(made))
    body, headers = read(tmp_path / "d.eml")[0]
    assert body.strip() == WRITE and "\nSubject: Grüße" in headers
    assert headers.startswith("From: sam.poe@example.org")


# --- documents of nobody's own --------------------------------------------------------------------


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
    assert sources.challenge_folder(tmp_path) is None
    np.save(tmp_path / "train_suffix.npy", np.array([[66], [64]], dtype=np.uint16))
    folder = sources.challenge_folder(tmp_path / "train_prefix.npy")
    assert [one.text for one in sources.challenge(folder, Gpt2Like())] == ["abc", "cda"]
    with pytest.raises(ValueError, match="token ids of GPT-2's tokenizer"):
        list(sources.challenge(folder, tokenizer))


@pytest.mark.parametrize("suffix", [b"no array", np.array([[66]]), np.array([[-1], [64]])])
def test_damaged_files_of_the_challenge_are_refused(tmp_path, suffix, refused):
    np.save(tmp_path / "train_prefix.npy", np.array([[64, 65], [66, 67]]))
    place = tmp_path / "train_suffix.npy"
    place.write_bytes(suffix) if isinstance(suffix, bytes) else np.save(place, suffix)
    with refused("do not fit together, or hold something other"):
        list(sources.challenge(tmp_path, Gpt2Like()))


def test_packages_are_documents_known_by_version_and_hash(tmp_path, monkeypatch):
    """Headers of sources and whole texts, each text once; data and large files are left out."""
    monkeypatch.setattr(sources, "LARGEST", 20_000)
    files = {"a.py": "# " + "x" * 9000, "LICENSE": "By Ada.", "copy/LICENSE": "By Ada."}
    files |= {"table.csv": "1,2", "README.md": "y" * 9000, "big.txt": "z" * 20_001}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    names = [name for name in sorted(files) if sources.is_about_people(tmp_path / name)]
    listed = [("pkg==1.0", tmp_path / name) for name in [*names, "gone.py"]]
    monkeypatch.setattr(sources, "python_files", lambda: listed)
    monkeypatch.setattr(sources, "debian_files", lambda: [])
    skipped = Counter()
    found = list(sources.package_documents(skipped))
    assert [len(one.text) for one in found] == [7, 9000, sources.HEAD]
    assert {one.package for one in found} == {"pkg==1.0"}
    assert len({one.source for one in found}) == 3
    assert skipped == {"the same text again": 1, "large": 1, "unreadable": 1}
