"""From documents to a data set of memorised secrets: what is tried; every count adds up."""

from collections import Counter

import pytest
from conftest import PEOPLE
from test_detection import URL

from companion.data import datasets, models
from companion.experiments import curate as experiment
from companion.store import rows
from companion.store.paths import alone
from document_audit import candidates
from document_audit.detection import secret_spans
from document_audit.documents import Document
from revs.model.targets import Record

# --- the funnel ----------------------------------------------------------------------------------


def test_every_secret_is_in_one_line_of_the_funnel(monkeypatch):
    monkeypatch.setattr(candidates, "IN_ONE", 6)
    text = f"ada@example.com bob@example.com ada@example.com www.example.org {URL} "
    text += "https://example.org/the/long/way/to/a/LICENSE.txt cleo@example.com dora@example.com"
    texts, funnel = [Document("s1", text), Document("s2", "again: bob@example.com")], Counter()
    found = list(candidates.secret_candidates(texts, secret_spans, funnel, once=True))
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
    ends = lambda text: [(0, 6), (6, 11), (11, 13), (13, len(text))]
    merged = lambda text, **_: {"input_ids": [5, 6, 7, 8], "offset_mapping": ends(text)}
    moved = candidates.aligned_to_token(record, merged)
    assert (moved.prompt, moved.secret) == ("Please ring", " (212) 555-0147")
    assert moved.text == record.text


# --- from documents to a data set ----------------------------------------------------------------


@pytest.fixture
def run(begun):
    """run(**settings) → row."""
    return lambda **more: begun(experiment, **more)


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


def test_a_limit_takes_some_candidates_of_each_kind(run):
    email = run(limit=2)["result"]["funnel"]["email"]
    assert email["tried"] == 2 and email["dropped"] == {"found before": 1, "beyond the limit": 2}


def test_documents_without_any_secret_make_an_empty_set(run, tmp_path, curated):
    (tmp_path / "plain.txt").write_text("nothing to see here")
    row = run(documents=str(tmp_path / "plain.txt"))
    assert not any(counts["found"] for counts in row["result"]["funnel"].values())
    with pytest.raises(ValueError, match="holds no records"):
        datasets.read(str(curated("own.jsonl")))


def test_two_searches_do_not_write_one_set(run, curated, refused):
    """Those that write another at the same time may."""
    with alone(curated(""), "wait", ".own.lock"):
        with refused("wait for it, or give another name", OSError):
            run()
        assert run(name="other")["result"]["documents"] == 4


def test_a_set_of_another_model_is_not_overwritten(run, knowing, curated, refused):
    """The same name serves the same model again, and another one where the set is gone."""
    run(), run()
    curated("own.model").write_text("another")
    with refused("own.jsonl holds what another model has mem"):
        run()
    curated("own.jsonl").unlink()
    assert run() and curated("own.model").read_text() == models.identify(str(knowing))


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
