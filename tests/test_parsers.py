"""Whatever a file holds, it is read, counted as unread, or refused in a sentence."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import pytest
import torch
import yaml
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save
from test_edit_file import base, made, written  # noqa: F401

from companion.data import datasets
from companion.experiments.settings import EXPERIMENTS, check
from companion.store import rows
from companion.workflow import sweep
from document_audit import audit, detection, documents, edit_file, report, secret_list
from document_audit.methods import METHODS
from document_audit.settings import KINDS

PARTS = ["jane.roe@example.com", "941-14-8265", "https://docs.example.org/a", "\\u0040", "&#64;"]
PARTS += ["one two three four five", "From a\n", "=?utf-8?q?=", "\r\n", "\n", '"', ";", "\0"]
PARTS += ["é", "\ud83d"]
TEXT = st.lists(st.sampled_from(PARTS) | st.text(max_size=9), max_size=9).map("".join)
WHOLE = TEXT.map(lambda text: text.encode(errors="replace").decode())  # without half characters


def values(text: st.SearchStrategy) -> st.SearchStrategy:
    """What JSON and YAML may hold."""
    some = st.none() | st.booleans() | st.integers() | st.floats() | text
    deeper = lambda one: st.lists(one, max_size=4) | st.dictionaries(text, one, max_size=4)
    return st.recursive(some, deeper, max_leaves=9)


VALUE = values(TEXT)
TABLE = st.lists(st.lists(WHOLE, min_size=1, max_size=4), max_size=4)
HEADERS = st.sampled_from(["From", "Subject", "Date", "Message-ID", "Content-Type", "MIME-Version"])
HEADERS |= st.sampled_from(["Content-Transfer-Encoding", "Content-Disposition"])
HELD = st.sampled_from(
    ["text/html", "text/plain; charset=x", "multipart/mixed; boundary=b", "base64"]
)
MAIL = st.lists(st.tuples(HEADERS, HELD | WHOLE), max_size=5)


def table(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def mail(parts: tuple) -> str:
    headers, body = parts
    return "".join(f"{name}: {value}\n" for name, value in headers) + "\n" + body


CONTENT = (
    st.binary(max_size=60)
    | WHOLE.map(str.encode)
    | VALUE.map(lambda value: json.dumps(value).encode())
    | st.lists(VALUE, max_size=4).map(lambda some: "\n".join(map(json.dumps, some)).encode())
    | TABLE.map(lambda rows: table(rows).encode())
    | st.tuples(MAIL, WHOLE).map(lambda parts: mail(parts).encode())
)


def read(folder: Path, name: str, content: bytes) -> tuple[list[str], Counter]:
    (folder / name).write_bytes(content)
    skipped = Counter()
    found = [one.text for one in documents.read(folder / name, skipped)]
    return found, skipped


# --- documents -----------------------------------------------------------------------------------


@given(content=CONTENT, suffix=st.sampled_from([".txt", ".jsonl", *documents.FORMATS]))
@examples
def test_any_file_is_documents_or_counted(tmp_path, content, suffix):
    found, skipped = read(tmp_path, f"a{suffix}", content)
    assert found or skipped
    for text in found:
        assert text.strip() and text.encode() and "\r" not in text


def strings(value) -> list[str]:
    """Every text in a value of JSON, with the names of its fields."""
    if isinstance(value, dict):
        return [*value, *(one for inner in value.values() for one in strings(inner))]
    if isinstance(value, list):
        return [one for inner in value for one in strings(inner)]
    return [value] if isinstance(value, str) else []


@given(value=VALUE, ascii=st.booleans(), suffix=st.sampled_from([".json", ".jsonl", ".ndjson"]))
@examples
def test_no_text_inside_json_is_lost(tmp_path, value, ascii, suffix):
    value = {"held": value}
    line = json.dumps(value, ensure_ascii=ascii).encode(errors="surrogatepass")
    found, skipped = read(tmp_path, f"a{suffix}", line)
    if "\\ud83d" in line.decode("latin-1") or skipped:
        return  # half a character, which UTF-8 has none of
    assert all(any(documents.plain(text) in one for one in found) for text in strings(value))


@given(rows=TABLE)
@examples
def test_no_cell_of_a_table_is_lost(tmp_path, rows):
    found, skipped = read(tmp_path, "a.csv", ("a,b,c\n" + table(rows)).encode())
    cells = [cell for row in rows for cell in row]
    assert skipped or all(any(documents.plain(cell) in one for one in found) for cell in cells)


@given(text=TEXT)
@examples
def test_secrets_lie_in_their_text_and_apart(text):
    plain, places = detection.plain_characters(text)
    assert len(plain) == len(places) and all(a < b for a, b in places)
    end = 0
    for span in detection.secret_spans(text):
        assert end <= span.start < span.end <= len(text) and span.kind in KINDS
        end = span.end


@given(content=CONTENT, text=TEXT)
@examples
def test_any_list_of_secrets_is_read_or_refused_in_a_sentence(tmp_path, content, text):
    (tmp_path / "list").write_bytes(content)
    try:
        listed = secret_list.SecretList(tmp_path / "list")
    except ValueError as error:
        assert "file of secrets" in str(error) and "\n" not in str(error)
        return
    assert all(secret == secret.strip() != "" for secret in listed.lines)
    whole = text + "\n".join(listed.lines)
    spans = listed.spans(whole)
    assert spans and all(whole[span.start : span.end] in listed.lines for span in spans)
    assert not listed.absent_lines()


# --- edit files ----------------------------------------------------------------------------------


@pytest.fixture
def edit(base, tmp_path):  # noqa: F811
    """An edit, the folder that holds it, its file, the bytes of that, and its model as it was."""
    _, about = made(base(), method="least_squares")
    folder = written(tmp_path / "edit", about)
    file = folder / edit_file.WEIGHTS
    return about, folder, file, file.read_bytes(), base()


@given(data=st.data())
@examples
def test_a_damaged_edit_is_refused(edit, data):
    """Bytes changed, left out or put in, anywhere; what is read is what was written."""
    about, folder, file, content, _ = edit
    header = 8 + int.from_bytes(content[:8], "little")
    at = data.draw(st.integers(0, header + 50) | st.integers(0, len(content)))
    new, gone = data.draw(st.binary(max_size=4)), data.draw(st.integers(0, 4))
    file.write_bytes(content[:at] + new + content[at + gone :])
    try:
        found = edit_file.read(folder)
    except ValueError as error:
        assert "\n" not in str(error) and "take another copy" in str(error)
        return
    assert found == about and found.factors.keys() == about.factors.keys()
    for module, pair in found.factors.items():
        assert all(map(torch.equal, pair, about.factors[module]))


SHAPES = st.lists(st.integers(0, 3), max_size=3)
TENSORS = st.dictionaries(
    st.sampled_from(["a.lora_A.weight", "a.lora_B.weight", "b.lora_A.weight", "c"]),
    st.tuples(SHAPES, st.sampled_from([torch.float32, torch.bfloat16, torch.int64])),
)


@given(said=VALUE, tensors=TENSORS, known=st.booleans())
@examples
def test_a_crafted_edit_is_refused(edit, said, tensors, known):
    """Any header and any tensors, with sums that are right."""
    about, folder, file, *_ = edit
    held = {f"{edit_file.PREFIX}{n}": torch.zeros(s, dtype=d) for n, (s, d) in tensors.items()}
    if known:
        said = {"format": edit_file.FORMAT, "about": said, "sha256": edit_file.text_hash(said)}
    header = {"revs": json.dumps(said)}
    file.write_bytes(save(held, header))
    with pytest.raises(ValueError, match="holds no edit in format"):
        edit_file.read(folder)


@given(shapes=st.tuples(SHAPES, SHAPES), value=st.sampled_from([0.0, 1.0, float("nan")]))
@examples
def test_factors_of_other_shapes_are_refused(edit, shapes, value):
    about, *_, decoder = edit
    first = next(iter(about.factors))
    pair = tuple(torch.full(shape, value) for shape in shapes)
    with pytest.raises(ValueError, match="has another width, or holds values"):
        edit_file.apply(decoder, replace(about, factors={first: pair}))


# --- parameters, data sets, sweeps ---------------------------------------------------------------

NAMES = sorted({name for one in EXPERIMENTS.values() for name in one.model_fields})
KNOWN = ["ssn", "revs", "seed1", "1", "", "None", "../x", "a/b"]
WORD = st.text(max_size=8) | st.sampled_from(KNOWN)
GIVEN = values(WORD)
COLUMNS = st.sampled_from([*datasets.COLUMNS, "more"])
LINE = st.dictionaries(COLUMNS, GIVEN, max_size=7).map(json.dumps) | GIVEN.map(json.dumps) | WORD


def is_a_sentence(error: Exception) -> bool:
    said = str(error)
    return len(said) > 10 and "\n" not in said.strip() and said.rstrip().endswith((".", "?", ")"))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@examples
@given(parameters=st.dictionaries(st.sampled_from(NAMES) | WORD, GIVEN, max_size=4))
def test_parameters_are_taken_as_they_are_or_refused(experiment, parameters):
    try:
        found = check(parameters, EXPERIMENTS[experiment])
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        for name, value in parameters.items():
            assert getattr(found, name) == value or value != value


@examples
@given(lines=st.lists(LINE, max_size=4))
def test_data_sets_are_read_whole_or_refused(tmp_path, lines):
    path = tmp_path / "set.jsonl"
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    try:
        found = datasets.read(str(path))
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        assert len(found) == len("\n".join(lines).rstrip("\n").split("\n"))


@examples
@given(content=st.dictionaries(st.sampled_from(["title", "runs", "pages", "x"]), GIVEN) | GIVEN)
def test_sweeps_are_read_or_refused(tmp_path, content):
    (tmp_path / "one.yml").write_text(yaml.safe_dump(content, allow_unicode=True))
    try:
        with mock.patch.object(sweep, "FOLDER", tmp_path):
            found = sweep.read("one")
    except ValueError as error:
        assert is_a_sentence(error), error
    else:
        assert found.title == content["title"]


# --- reports -------------------------------------------------------------------------------------

MARKED = TEXT | st.sampled_from(["<script>alert(1)</script>", "'><img src=x>", "{{ made }}"])
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
FIXED = "settings limits edit outcome part logit_lens_before logit_lens_after".split()
MAY_BE_NONE = ("value", "cost", "perplexity", "kept", "nearby_text")
SEARCHED = "documents memorised found skipped absent method".split()
MADE = dict.fromkeys("note model date processor precision weights tokenizer".split(), MARKED)
MADE |= {"settings": st.fixed_dictionaries({"kinds": st.lists(MARKED, max_size=2)})}
MADE |= {"seconds": st.fixed_dictionaries({"find": st.floats(0, 1e9)})}
MADE |= {"versions": st.fixed_dictionaries({"python": MARKED})}


def like(value, name: str = "") -> st.SearchStrategy:
    """Any other content of the shape of a report's."""
    if name in FIXED:
        return st.just(value)
    if name == "method":
        return st.sampled_from(list(METHODS))
    if isinstance(value, dict):
        return st.fixed_dictionaries({key: like(one, key) for key, one in value.items()})
    if isinstance(value, list):
        return st.tuples(*map(like, value))
    if value is None:
        return st.none()
    if isinstance(value, float):
        return st.none() | NUMBER if name in MAY_BE_NONE else NUMBER
    return {bool: st.booleans(), int: st.integers(0, 10**9), str: MARKED}[type(value)]


def reports() -> st.SearchStrategy:
    """(result, places) like those of recorded runs: whole, of a search in vain, without one."""
    found = []
    for row in rows.find(rows.RECORDED, kind="documents").values():
        result = row["result"] | {"trials": row["result"]["trials"][:2]}
        searched = {name: result[name] for name in SEARCHED}
        in_vain = searched | {name: result[name] for name in ("limits", "trials")}
        every = [result, in_vain | {"outcome": audit.UNREACHED}]
        every += [searched | {"outcome": outcome} for outcome in (audit.NOTHING, audit.FOUND)]
        found += [st.tuples(like(one), like(rows.values(row)[:2])) for one in every]
    return st.one_of(found)


class Tags(HTMLParser):
    """Which elements a page has."""

    def __init__(self):
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        assert tag != "img" or dict(attrs)["src"] == "data:"


@given(found=reports(), about=st.fixed_dictionaries(MADE))
@examples
def test_any_result_is_a_page_that_runs_nothing(tmp_path, monkeypatch, found, about):
    """What stands in documents, settings and a model's name is text on it; no number is too odd."""
    result, places = found
    monkeypatch.setattr(report, "picture", lambda *_: "data:")
    report.write(tmp_path / "page.html", result, places, about)
    page = Tags()
    page.feed((tmp_path / "page.html").read_text())
    assert "table" in page.found and "script" not in page.found
    assert all(report.verdict(result).splitlines())
