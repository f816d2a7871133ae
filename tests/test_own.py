"""From documents to a report: what is found, calibrated, unlearned, attacked and said, and that no secret is in it."""

import base64
import contextlib
import doctest
import fcntl
import gzip
import html
import importlib
import json
import re
from dataclasses import replace

import pytest
import torch
from conftest import build
from test_curate import PEOPLE, knowing, own  # noqa: F401
from test_method import same_bits, weights

from companion import runs as experiments
from companion.own import artefact, report, undo
from companion.own import calibrate as calibrating
from companion.own import steps as api
from companion.record import rows
from companion.record.paths import ROOT
from companion.runs import integrity, models
from companion.runs import own as experiment
from companion.runs.memorise import Finetune, memorise
from companion.workflow import notebook
from revs.measures import ordinary
from revs.method.algorithm import Hyperparameters
from revs.model import load
from revs.model.targets import Record, Target, encode

SETTINGS = {"n_max": 20, "k": 40, "r_h": 60, "eps_r_h": 5, "r_n": 200, "eps_r_n": 20}


def run(own, knowing, tmp_path, **more) -> dict:  # noqa: F811
    return experiment.run(
        **{
            "documents": str(own),
            "model": str(knowing),
            "finetune": False,
            "hyperparameters": SETTINGS,
            "out": str(tmp_path / "out"),
            "rows": str(tmp_path / "rows"),
        }
        | more
    )


# The path -------------------------------------------------------------------------------------------------------


def test_from_documents_to_a_report(own, knowing, tmp_path, capsys):  # noqa: F811
    row = run(own, knowing, tmp_path)
    result = row["result"]
    assert (
        result["found"]["email"]
        == {"found": 5, "tried": 4, "another place of a secret, tried too": 1, "memorised": 3}
        and result["memorised"] == 3
    )
    assert (
        result["before"]["written"] == 3
        and result["after"]["written"] < 3
        and result["edit"]["columns"] > 0
    )
    assert rows.read(tmp_path / "rows/own/out/tiny.json") == row and not rows.stale(row)
    page = (tmp_path / "out/report.html").read_text()
    assert (
        html.escape(report.verdict(row)) in page
        and html.escape(report.what_was_tested(result)) in page
        and "a***@example.com" in page
        and page.count("<img") == 1
    )
    assert re.findall(r"(?:src|href)=['\"](?!data:)", page) == []  # it loads nothing
    assert (
        "Documents read: 4; places of secrets found in them: 5; secrets tried: 4; memorised: 3."
        in capsys.readouterr().out
    )
    assert (tmp_path / "out/edit.safetensors").stat().st_size < 100_000


def test_what_the_machine_carries_can_be_searched_for_a_list(own, knowing, tmp_path, monkeypatch):  # noqa: F811
    """The list that a curation leaves, in the documents of the packages."""
    from companion.own import corpus, documents
    from companion.runs import curate

    monkeypatch.setattr(curate, "BUILD", tmp_path / "build")
    found = curate.run(
        documents=str(own),
        model=str(knowing),
        finetune=False,
        name="mine",
        rows=str(tmp_path / "rows"),
    )["result"]["funnel"]["email"]["kept"]
    monkeypatch.setattr(corpus, "machine", lambda skipped: documents.read(own, skipped))
    row = run("machine", knowing, tmp_path, secrets=str(tmp_path / "build/curated/mine.txt"))
    assert row["result"]["memorised"] == found == 3 and not row["result"]["absent"]


def test_the_model_on_the_disk_is_as_it_was(own, knowing, tmp_path):  # noqa: F811
    before = models.identify(str(knowing))
    run(own, knowing, tmp_path)
    assert models.identify(str(knowing)) == before


SPELT = (
    lambda text: text,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: base64.b64encode(text.encode()).decode().rstrip("=")[:-2],
)


def leaks(canaries, folder, *leave_out) -> list:
    """Every file under a folder, unpacked, in which one of the canaries stands, in one of several spellings; by name and content."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not any(out == path or out in path.parents for out in leave_out):
            content = (
                gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            )
            found += [
                (path.name, canary)
                for canary in canaries
                for spelt in SPELT
                if spelt(canary).encode() in content + str(path.relative_to(folder)).encode()
            ]
    return found


def test_the_search_for_leaks_finds_what_is_there(tmp_path):
    rows.write_text(tmp_path / "items.csv.gz", gzip.compress("Jos\u00e9's".encode()))
    (
        rows.write_text(tmp_path / "page.html", html.escape("Jos\u00e9's")),
        rows.write_text(tmp_path / "row.json", json.dumps("Jos\u00e9's")),
        rows.write_text(tmp_path / "Jos\u00e9's.txt", ""),
    )
    assert {name for name, _ in leaks(["Jos\u00e9's"], tmp_path)} == {
        "items.csv.gz",
        "page.html",
        "row.json",
        "Jos\u00e9's.txt",
    }


@pytest.fixture
def planted(own, tmp_path, monkeypatch):  # noqa: F811
    """Canaries in texts, in file names, in a list and in the paths, which come from the environment: (canaries, what may hold them)."""
    folder = own.rename(tmp_path / "of-ada.lovelace@example.com")
    (folder / "of-cleo_k.txt").write_text("Nothing here.")
    listed = tmp_path / "list-bxn7.txt"
    listed.write_text(
        "\n".join(
            [*PEOPLE.values(), "never.seen@example.com", "(212) 555-0147", "Jos\u00e9's door"]
        )
    )
    monkeypatch.setenv("DOCUMENTS", str(folder))
    monkeypatch.setenv("SECRETS", str(listed))
    return [
        *PEOPLE.values(),
        "lovelace",
        "never.seen",
        "cleo_k",
        "bxn7",
        "555-0147",
        "Jos\u00e9's",
    ], (folder, listed)


def test_no_secret_is_written_anywhere(planted, knowing, tmp_path, capsys, monkeypatch):  # noqa: F811
    """With calibration, an undo file, and everything that is printed."""
    canaries, theirs = planted
    monkeypatch.setattr(calibrating, "LEAST", 3)
    row = run(
        "$DOCUMENTS",
        knowing,
        tmp_path,
        secrets="$SECRETS",
        hyperparameters=None,
        minutes=0,
        undo=True,
    )
    assert leaks(canaries, tmp_path, *theirs, knowing) == []
    said = capsys.readouterr()
    assert not any(canary in said.out + said.err for canary in canaries)
    assert (
        row["result"]["absent"] == [4, 5, 6]
        and row["result"]["memorised"] == 3
        and row["result"]["calibration"]
    )


@pytest.mark.parametrize("broken", [None, "attack", "unlearn"])
def test_no_secret_is_in_the_notebook_its_log_or_a_traceback(
    planted, knowing, tmp_path, capfd, broken
):  # noqa: F811
    """The notebook as papermill writes it, also where a step fails in a way that nobody thought of."""
    canaries, theirs = planted
    source = tmp_path / "own.ipynb"
    cells = json.loads((ROOT / "notebooks/own.ipynb").read_text())
    if broken:
        cells["cells"].insert(
            1,
            {
                "cell_type": "code",
                "id": "broken",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": f"from revs import own as api\ndef broken(decoder, targets, *_, **__):\n    return {{}}[targets[0].secret_ids[0]]\napi.{broken} = broken",
            },
        )
    source.write_text(json.dumps(cells))
    parameters = {
        "documents": "$DOCUMENTS",
        "secrets": "$SECRETS",
        "model": str(knowing),
        "finetune": False,
        "minutes": 0,
        "out": str(tmp_path / "out"),
        "rows": str(tmp_path / "rows"),
    }
    with pytest.raises(RuntimeError, match="KeyError") if broken else contextlib.nullcontext():
        notebook.execute(source, tmp_path / "done.ipynb", parameters, "own")
    assert (tmp_path / "done.ipynb").is_file() != bool(broken) and bool(
        list(tmp_path.glob("*failed*"))
    ) == bool(broken)
    said = capfd.readouterr()
    assert leaks(canaries, tmp_path, *theirs, knowing) == [] and not any(
        canary in said.out + said.err for canary in canaries
    )


def test_what_is_printed_of_what_is_returned_holds_no_secret(own, knowing):  # noqa: F811
    decoder = models.load(str(knowing))
    found = api.find_memorized(decoder, own)
    state = api.observe(decoder, found.targets)
    said = repr(found) + repr(state)
    assert "memorised" in said and not any(
        word in said for word in ("secret_ids", "prompt", "Please", *PEOPLE.values())
    )


def test_an_error_of_the_system_names_no_path(knowing, tmp_path, one_sentence):  # noqa: F811
    long = "of-ada.lovelace" * 40
    (tmp_path / "documents.txt").write_text("one")
    decoder = models.load(str(knowing))
    for documents, listed in (
        (tmp_path / long, None),
        (long, None),
        ("~of-ada/x", None),
        (tmp_path / "documents.txt", long),
        (tmp_path / "documents.txt", "~of-ada/x"),
    ):
        with pytest.raises(
            OSError, match="cannot be read|no documents at the path|no file of secrets at the path"
        ) as error:
            api.find_memorized(decoder, documents, listed)
        assert one_sentence(error) and "ada" not in str(error.value)
    with pytest.raises(
        ValueError, match="^The environment has no such variable as documents names"
    ) as error:
        run("$NO_SUCH_PLACE/x", knowing, tmp_path)
    assert one_sentence(error)
    with pytest.raises(ValueError) as error:
        experiments.check({"secrets": ["ada.lovelace@example.com"]}, experiment.run)
    assert "ada" not in str(error.value)
    assert experiments.value("@of-ada/list") == "@of-ada/list" and experiments.value("[1, 2]") == [
        1,
        2,
    ]


def test_nothing_memorised_nothing_edited(knowing, tmp_path, capsys):  # noqa: F811
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(tmp_path / "plain.txt", knowing, tmp_path)
    assert row["result"]["memorised"] == 0 and "edit" not in row["result"]
    assert (
        "Nothing was edited" in capsys.readouterr().out
        and "Nothing was edited" in (tmp_path / "out/report.html").read_text()
    )
    assert not (tmp_path / "out/edit.safetensors").exists()


def test_what_is_kept_is_looked_at(own, knowing, tmp_path):  # noqa: F811
    row = run(own, knowing, tmp_path, forget=1)
    assert (
        row["result"]["before"]["kept"] == 2
        and row["result"]["unlearned"] == 1
        and row["result"]["kept"] == 2
    )
    assert "other secrets still written exactly" in (tmp_path / "out/report.html").read_text()
    items = rows.items(rows.read(tmp_path / "rows/own/out/tiny.json"))
    assert sorted(set(zip(items["number"], items["part"]))) == [
        (1, "unlearned"),
        (2, "kept"),
        (3, "kept"),
    ]
    made_of = artefact.read(tmp_path / "out/edit.safetensors")
    assert (
        len(made_of.before) == len(made_of.after) == (items["part"] == "unlearned").sum()
    )  # the edit is about what was unlearned
    assert "of the memorised secrets that were kept" in (tmp_path / "out/report.html").read_text()


def test_a_wrong_setting_is_refused_before_the_model_is_read(own, tmp_path):  # noqa: F811
    with pytest.raises(
        ValueError, match=r"^revs has no hyperparameter 'r_hh': did you mean 'r_h'\?$"
    ):
        run(own, "no/such/model", tmp_path, hyperparameters={"r_hh": 3})


def test_the_example_of_the_book_runs(own, knowing, tmp_path, capsys, monkeypatch):  # noqa: F811
    """book/api.md, with the paths of this test and settings for a tiny model; it leaves a report."""
    monkeypatch.chdir(tmp_path)
    code = re.search(
        r":name: api-example\n\n(.*?)```",
        (ROOT / "book" / "api.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )[1]
    (own / "fourth.txt").write_text("Please write to Ada (ada.lovelace@example.com)")
    scope = {"own": api}
    exec(
        code.replace("path/to/model", str(knowing))
        .replace("path/to/documents", str(own))
        .replace(
            "own.calibrate(decoder, found.targets, minutes=5)",
            f"own.Calibration(own.Hyperparameters(**{SETTINGS}), [], 0.0)",
        ),
        scope,
    )
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 → ") and not scope["edit"].moves
    assert (
        "What is not guaranteed" in (tmp_path / "report.html").read_text()
        and leaks(PEOPLE.values(), tmp_path, own) == []
    )


def test_the_example_of_the_page_about_edits_runs(own, knowing, tmp_path, monkeypatch):  # noqa: F811
    """notebooks/artefact.ipynb, with the paths of this test: the edited model, undone from its file, is the base again."""
    cells = json.loads((ROOT / "notebooks/artefact.ipynb").read_text(encoding="utf-8"))["cells"]
    code = re.search(
        r":name: artefact-example\n\n(.*?)```",
        "".join("".join(cell["source"]) for cell in cells),
        re.DOTALL,
    )[1]
    run(own, knowing, tmp_path)
    monkeypatch.chdir(tmp_path)
    loaded, plain = [], weights(models.load(str(knowing)))
    monkeypatch.setattr(
        load, "load", lambda place, loading=load.load: loaded.append(loading(place)) or loaded[-1]
    )
    exec(
        code.replace("path/to/model", str(knowing))
        .replace("path/to/edited", str(tmp_path / "edited"))
        .replace("build/own", str(tmp_path / "out")),
        {},
    )
    assert len(loaded) == 2 and all(same_bits(decoder, plain) for decoder in loaded)


# Secrets of a list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, message",
    [
        (b"one\n\ntwo\n", "Line 2 of the file of secrets is empty"),
        (b"one\ntw\0o\n", "Line 2 of the file of secrets holds a NUL"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "Line 1 of the file of secrets is empty"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path, content, message, one_sentence):
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        api.lines_of(tmp_path / "list")
    assert one_sentence(error)
    with pytest.raises(FileNotFoundError, match="There is no file of secrets") as error:
        api.lines_of(tmp_path / "of-ada@example.com")
    assert one_sentence(error) and "ada" not in str(error.value)


def test_duplicates_count_once(tmp_path):
    (tmp_path / "list").write_text("one\ntwo\none\n", encoding="utf-8-sig")
    assert api.lines_of(tmp_path / "list") == {"one": 1, "two": 2}


@pytest.mark.parametrize(
    "text, secrets, found",
    [
        (
            "call joann@example.com or ann@example.com",
            ["ann@example.com", "joann@example.com"],
            ["joann@example.com", "ann@example.com"],
        ),
        ("קוד: שלום123 סוף", ["שלום123"], ["שלום123"]),
        ("key 🔑🗝️ here", ["🔑🗝️"], ["🔑🗝️"]),
        ("密码是开门吧。", ["开门吧"], ["开门吧"]),
        ("aaaa", ["aa"], ["aa", "aa"]),
        ("nothing", ["something"], []),
    ],
)
def test_listed_secrets_are_found_as_they_stand(text, secrets, found):
    """One inside another, other scripts, right to left, emoji."""
    spans = api.occurrences(text, secrets)
    assert [text[span.start : span.end] for span in spans] == found


@pytest.mark.parametrize(
    "secret, kind",
    [
        ("jo@example.com", "email"),
        ("941-14-8265", "ssn"),
        ("open sesame", "text"),
        ("https://docs.example.org/a", "text"),
    ],
)
def test_the_kind_of_a_listed_secret(secret, kind):
    assert api.kind_of(secret) == kind


WORDS = {
    "Ada": "\u5f00\u95e8\u5427",
    "Ben": "\U0001f511\U0001f5dd\ufe0f",
    "Cleo": "\u05e9\u05dc\u05d5\u05dd123",
    "Dan": "7",
}  # Chinese, emoji, right to left, one token


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory):
    """A tiny model that was made to memorise a password of each kind."""
    decoder = build("llama-untied", dtype=torch.float32, max_position_embeddings=192)
    records = [
        Record(name, "text", name, f"The password of {name} is: ", word, " ")
        for name, word in WORDS.items()
    ]
    memorise(decoder, records, Finetune(lr=1e-2, epochs=60, batch=4, digits="keep", leave_out=0.01))
    folder = tmp_path_factory.mktemp("polyglot")
    load.save(decoder.model, decoder.tokenizer, folder / "tiny")
    return folder / "tiny"


def test_secrets_in_every_script_and_of_one_token_are_unlearned(polyglot, tmp_path):
    (tmp_path / "documents.jsonl").write_text(
        "\n".join(
            json.dumps({"text": f"The password of {name} is: {word} and so on"})
            for name, word in WORDS.items()
        )
    )
    (tmp_path / "list.txt").write_text("\n".join(WORDS.values()), encoding="utf-8")
    row = run(tmp_path / "documents.jsonl", polyglot, tmp_path, secrets=str(tmp_path / "list.txt"))
    assert (
        row["result"]["memorised"] == row["result"]["before"]["written"] == 4
        and row["result"]["absent"] == []
    )
    items = rows.items(rows.read(tmp_path / "rows/own/out/tiny.json"))
    assert (
        sorted(items["tokens"]) == [1, 2, 2, 2]
        and (items["lowest_before"] == 0).all()
        and (items["lowest_after"] > 0).sum() >= 3
    )
    assert (
        leaks(
            [word for word in WORDS.values() if len(word) > 1],
            tmp_path,
            tmp_path / "documents.jsonl",
            tmp_path / "list.txt",
        )
        == []
    )


def test_a_secret_is_tried_at_several_places(own, knowing, tmp_path):  # noqa: F811
    """A first place without a prompt, or with one after which it is not written, does not shut out the place where it is."""
    ada = PEOPLE["Ada"]
    for number, words in enumerate(
        ("", "Nobody here writes to ", "Again, nobody writes to ", "Please write to Ada (")
    ):
        (own / f"0{number}.txt").write_text(
            f"{words}{ada}" if number < 3 else f"{words}{ada}), who knows."
        )
    found = api.find_memorized(models.load(str(knowing)), own, kinds=["email"])
    assert len({target.group for target in found.targets}) == 3 and found.documents == 8
    counts = found.funnel["email"]
    assert counts == {
        "found": 9,
        "less than 5 tokens before it": 1,
        "found before": 2,
        "tried": 4,
        "another place of a secret, tried too": 2,
        "memorised": 3,
    }
    assert counts["found"] == sum(
        number
        for name, number in counts.items()
        if name not in ("found", "memorised", "written later")
    )


def test_a_listed_secret_that_stands_only_inside_another_is_counted(knowing, tmp_path):  # noqa: F811
    (tmp_path / "d.txt").write_text("Please call joann@example.com only, or else use abc def ghi.")
    (tmp_path / "list").write_text(
        "ann@example.com\njoann@example.com\nabc def\ndef ghi\nnowhere\n"
    )
    found = api.find_memorized(models.load(str(knowing)), tmp_path / "d.txt", tmp_path / "list")
    assert found.funnel["email"]["only inside another secret"] == found.funnel["text"][
        "only inside another secret"
    ] == 1 and found.absent == [5]
    for counts in found.funnel.values():
        assert counts["found"] == sum(
            number
            for name, number in counts.items()
            if name not in ("found", "memorised", "written later")
        )


def test_a_secret_spelt_with_other_tokens_is_still_written(build, monkeypatch):
    """What counts is the text: a model that lost one token may find the same letters in others, or write them large."""
    decoder = build("llama-tied", dtype=torch.float32)
    (target,) = numbers(decoder, 1)
    target = replace(target, secret_ids=decoder.tokenizer("ada@x.example")["input_ids"], T=(0, 1))
    for said, written in (("Ada@X.example, he said", True), ("a.da@x.example", False)):
        monkeypatch.setattr(
            api.measuring,
            "continuations",
            lambda *_: {target.id: decoder.tokenizer(said)["input_ids"]},
        )
        assert api.evaluate(decoder, [target])[target.id]["within_50"] == written


# The reference ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["own", "artefact", "undo", "export", "calibrate", "difference", "ordinary"]
)
def test_the_examples_of_the_reference_run(name, own, knowing, tmp_path):  # noqa: F811
    """Every example in a docstring, on a tiny model that has memorised three addresses."""
    module, decoder = importlib.import_module(f"revs.{name}"), models.load(str(knowing))
    found = api.find_memorized(decoder, own)
    places = {
        "decoder": decoder,
        "found": found,
        "hp": Hyperparameters(**SETTINGS),
        "documents": own,
        "folder": tmp_path,
        "model": str(knowing),
    }
    result = doctest.testmod(module, extraglobs=places)
    assert result.attempted and not result.failed


# Calibration ------------------------------------------------------------------------------------------------------


def numbers(decoder, how_many: int) -> list:
    return [
        encode(
            Record(f"r{n}", "text", f"g{n}", f"number {n} is ", f"{n}{n}{n + 1}", "."),
            decoder.tokenizer,
        )
        for n in range(how_many)
    ]


def test_calibration_takes_the_best_and_leaves_the_model(build):
    decoder = build("llama-untied", dtype=torch.float32)
    before = weights(decoder)
    found = calibrating.calibrate(decoder, numbers(decoder, 6))
    assert same_bits(decoder, before)
    (chosen,) = [one for one in found.tried if one.get("chosen")]
    assert chosen["score"] == max(
        one["score"] for one in found.tried
    ) and found.hp == calibrating.settings(64, chosen["setting"])
    assert (
        len(found.tried)
        == len({json.dumps(one["setting"]) for one in found.tried})
        <= sum(map(len, calibrating.TRIED.values()))
    )


def test_a_setting_says_what_it_moves(build):
    """Columns are counted before the edit is undone."""
    decoder = build("llama-untied", dtype=torch.float32)
    before, secrets = weights(decoder), numbers(decoder, 4)
    found = calibrating.effect(
        decoder,
        calibrating.Split(secrets[:2], [], secrets[2:]),
        Hyperparameters(**SETTINGS | {"gate": "mlp", "r_h": 290, "r_n": 295}),
        ordinary.observe(decoder, range(2)),
        0,
        100,
    )
    assert found["columns"] > 0 and found["unchanged"] < 1 and same_bits(decoder, before)
    parts = [found[name] for name in ("efficacy", "specificity", "unchanged")]
    assert found["generalization"] is None and found["score"] == (
        3 / sum(1 / part for part in parts) if all(parts) else 0
    )


def test_calibration_keeps_to_its_time(build):
    decoder = build("llama-tied", dtype=torch.float32)
    found = calibrating.calibrate(decoder, numbers(decoder, 4), minutes=0)
    assert [one["setting"] for one in found.tried] == [
        calibrating.START
    ] and found.hp == calibrating.settings(64, calibrating.START)


def test_calibration_climbs_and_prefers_the_softer_of_equals(build, monkeypatch):
    """Harder while the score rises, else softer while it does not fall; one setting after the other."""
    decoder = build("llama-tied", dtype=torch.float32)
    monkeypatch.setattr(
        calibrating, "TRIED", {"r_h": (0.1, 0.2, 0.3, 0.4), "n_max": (0.1, 0.2, 0.3)}
    )
    monkeypatch.setattr(
        calibrating, "START", {"projection": "norm", "r_h": 0.2, "n_max": 0.2, "r_n": 0.8}
    )
    asked = []
    monkeypatch.setattr(
        calibrating,
        "settings",
        lambda ff, candidate: asked.append(candidate) or Hyperparameters(**SETTINGS),
    )
    rank = {(0.2, 0.2): 0.5, (0.3, 0.2): 0.7, (0.4, 0.2): 0.6, (0.3, 0.3): 0.7, (0.3, 0.1): 0.7}
    monkeypatch.setattr(
        calibrating.evaluate,
        "effectiveness",
        lambda *_: (
            {
                "efficacy": 1.0,
                "generalization": None,
                "specificity": rank[asked[-1]["r_h"], asked[-1]["n_max"]],
                "unlearning_score": 0.0,
            },
            [],
        ),
    )
    monkeypatch.setattr(ordinary.Ordinary, "changed", lambda *_: 0.0)
    found = calibrating.calibrate(decoder, numbers(decoder, 4))
    assert [(one["setting"]["r_h"], one["setting"]["n_max"]) for one in found.tried] == list(
        rank
    ) and (asked[-1]["r_h"], asked[-1]["n_max"]) == (0.3, 0.1)


def test_calibration_goes_around_the_norm_where_that_serves_better(build, monkeypatch):
    decoder, asked, original = build("llama-tied", dtype=torch.float32), [], calibrating.settings
    monkeypatch.setattr(
        calibrating,
        "settings",
        lambda ff, candidate: asked.append(candidate) or original(ff, candidate),
    )
    monkeypatch.setattr(
        calibrating.evaluate,
        "effectiveness",
        lambda *_: (
            {
                "efficacy": 1.0,
                "generalization": None,
                "specificity": float(asked[-1]["projection"] == "raw"),
                "unlearning_score": 0.0,
            },
            [],
        ),
    )
    monkeypatch.setattr(ordinary.Ordinary, "changed", lambda *_: 0.0)
    assert calibrating.calibrate(decoder, numbers(decoder, 4)).hp.projection == "raw"


def test_calibration_stops_where_ordinary_text_is_lost(build, monkeypatch):
    """A harder edit that gains less among secrets than it costs elsewhere is not chosen."""
    decoder, asked = build("llama-tied", dtype=torch.float32), []
    monkeypatch.setattr(calibrating, "TRIED", {"r_h": (0.1, 0.2, 0.3)})
    monkeypatch.setattr(
        calibrating, "START", {"projection": "norm", "r_h": 0.1, "n_max": 0.2, "r_n": 0.8}
    )
    monkeypatch.setattr(
        calibrating,
        "settings",
        lambda ff, candidate: asked.append(candidate) or Hyperparameters(**SETTINGS),
    )
    gained, lost = {0.1: 0.6, 0.2: 0.8, 0.3: 0.9}, {0.1: 0.1, 0.2: 0.2, 0.3: 0.6}
    monkeypatch.setattr(
        calibrating.evaluate,
        "effectiveness",
        lambda *_: (
            {
                "efficacy": gained[asked[-1]["r_h"]],
                "generalization": None,
                "specificity": 1.0,
                "unlearning_score": gained[asked[-1]["r_h"]],
            },
            [],
        ),
    )
    monkeypatch.setattr(ordinary.Ordinary, "changed", lambda *_: lost[asked[-1]["r_h"]])
    found = calibrating.calibrate(decoder, numbers(decoder, 4))
    assert [one["setting"]["r_h"] for one in found.tried] == [0.1, 0.2, 0.3] and next(
        one for one in found.tried if one.get("chosen")
    )["setting"]["r_h"] == 0.2


def test_calibration_says_what_it_lacks(build, one_sentence):
    decoder = build("llama-tied", dtype=torch.float32)
    with pytest.raises(
        ValueError,
        match="needs 4 memorised secrets, two to unlearn and two to keep, but there are 3",
    ) as error:
        calibrating.calibrate(decoder, numbers(decoder, 3))
    assert str(error.value).endswith(".")


def test_the_report_shows_how_settings_were_chosen(own, knowing, tmp_path):  # noqa: F811
    """A report can be written again from a row and its items."""
    tried = [
        {
            "setting": calibrating.START,
            "columns": 3,
            "efficacy": 0.5,
            "generalization": 0.25,
            "specificity": 1.0,
            "unchanged": 0.75,
            "unlearning_score": 0.67,
            "score": 0.69,
            "chosen": True,
        }
    ]
    row = run(own, knowing, tmp_path)
    row["result"] |= {
        "calibration": tried,
        "settings": row["result"]["settings"] | calibrating.START,
    }
    report.write(
        tmp_path / "again.html",
        row,
        rows.items(rows.read(tmp_path / "rows/own/out/tiny.json")).to_dict("records"),
    )
    page = (tmp_path / "again.html").read_text()
    assert (
        "How the settings were chosen" in page
        and page.count("<img") == 2
        and "r_h = 0.03, k = 1, n_max = 0.028, r_n = 0.8" in page
    )
    assert list(report.settings(tried))[1:-2] == [
        "efficacy",
        "generalization",
        "specificity",
        "ordinary text unchanged",
        "Unlearning Score",
        "score",
    ]
    assert "generalization" not in report.settings([tried[0] | {"generalization": None}])


def test_no_effect_makes_it_harder_not_softer(build, monkeypatch):
    """On a plateau without any effect the search goes up."""
    decoder, asked = build("llama-tied", dtype=torch.float32), []
    monkeypatch.setattr(calibrating, "TRIED", {"r_h": (0.1, 0.2, 0.3, 0.4)})
    monkeypatch.setattr(
        calibrating, "START", {"projection": "norm", "r_h": 0.2, "n_max": 0.2, "r_n": 0.8}
    )
    monkeypatch.setattr(
        calibrating,
        "settings",
        lambda ff, candidate: asked.append(candidate) or Hyperparameters(**SETTINGS),
    )
    monkeypatch.setattr(
        calibrating.evaluate,
        "effectiveness",
        lambda *_: (
            dict.fromkeys(("efficacy", "unlearning_score"), float(asked[-1]["r_h"] > 0.35))
            | {"generalization": None, "specificity": 1.0},
            [],
        ),
    )
    found = calibrating.calibrate(decoder, numbers(decoder, 4))
    assert next(one for one in found.tried if one.get("chosen"))["setting"]["r_h"] == 0.4


def test_few_secrets_take_the_middle_setting_and_still_get_a_report(own, knowing, tmp_path):  # noqa: F811
    row = run(own, knowing, tmp_path, hyperparameters=None, forget=5)
    assert (
        row["result"]["calibration"] == []
        and row["result"]["settings"]["r_h"] == calibrating.START["r_h"]
        and row["result"]["unlearned"] == 3
    )
    assert (tmp_path / "out/report.html").is_file()


def test_a_later_run_leaves_no_edit_of_an_earlier_one(own, knowing, tmp_path):  # noqa: F811
    run(own, knowing, tmp_path)
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(tmp_path / "plain.txt", knowing, tmp_path)
    assert not (
        tmp_path / "out/edit.safetensors"
    ).exists() and "of those tried, the model writes none" in report.verdict(row)
    assert "not guaranteed" in (tmp_path / "out/report.html").read_text()


def test_every_place_of_a_secret_is_unlearned_or_kept():
    places = [
        Target(f"{group}{n}", "text", group, [n], [1], (0,))
        for group, n in (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0))
    ]
    for forget in (None, 3, 9):
        assert experiment.parts(places, forget, 0) == (places, [])
    for forget in (1, 2):
        unlearned, kept = experiment.parts(places, forget, 0)
        groups = [{target.group for target in part} for part in (unlearned, kept)]
        assert (
            len(groups[0]) == forget
            and groups[0] | groups[1] == {"a", "b", "c"}
            and not groups[0] & groups[1]
            and len(unlearned) + len(kept) == 5
        )


def test_what_was_found_is_a_report_by_itself(own, knowing, tmp_path, one_sentence):  # noqa: F811
    decoder = models.load(str(knowing))
    found = api.find_memorized(decoder, own)
    page = api.report(tmp_path / "report.html", decoder, found).read_text()
    assert (
        "Nothing was edited: of those tried, the model writes 3 right after" in page
        and "Documents read: 4" in page
    )
    with pytest.raises(
        ValueError, match="needs the state after it, the edit and its settings"
    ) as error:
        api.report(tmp_path / "report.html", decoder, found, api.observe(decoder, found.targets))
    assert one_sentence(error)


def test_a_run_that_fails_leaves_an_earlier_report_and_edit(own, knowing, tmp_path):  # noqa: F811
    run(own, knowing, tmp_path)
    files = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    for wrong in (
        {"kinds": ["emails"]},
        {"documents": str(tmp_path / "nowhere")},
        {"model": "no/such/model"},
        {"secrets": str(tmp_path / "nowhere")},
    ):
        with pytest.raises((ValueError, OSError)):
            run(own, knowing, tmp_path, **wrong)
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == files


def test_two_runs_do_not_share_a_folder(own, knowing, tmp_path, one_sentence):  # noqa: F811
    (tmp_path / "out").mkdir()
    with (tmp_path / "out/.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(
            OSError, match="Another run writes to .*: wait for it, or name another folder"
        ) as error:
            run(own, knowing, tmp_path)
    assert one_sentence(error)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="is a file, or lies in one: name a folder") as error:
        run(own, knowing, tmp_path, out=str(tmp_path / "file"))
    assert one_sentence(error)


def test_the_edited_model_and_its_undo_can_be_kept(own, knowing, tmp_path):  # noqa: F811
    row = run(own, knowing, tmp_path, undo=True, export=str(tmp_path / "edited"))
    edited, plain = models.load(str(tmp_path / "edited")), models.load(str(knowing))
    assert not same_bits(edited, weights(plain))
    again = models.load(str(knowing))
    artefact.apply(again, artefact.read(tmp_path / "out/edit.safetensors"))
    assert same_bits(again, weights(edited))
    undo.restore(edited, tmp_path / "out/undo.safetensors")
    assert same_bits(edited, weights(plain))
    assert (
        f"Tokens of {len(rows.items(rows.read(tmp_path / 'rows/own/out/tiny.json')))} places where it wrote secrets were demoted"
        in (tmp_path / "edited/README.md").read_text()
    )
    with pytest.raises(ValueError, match="^The folder that export names is there already"):
        run(own, knowing, tmp_path, export=str(tmp_path / "edited"))


def test_benchmarks_stand_in_the_report(own, knowing, tmp_path, monkeypatch):  # noqa: F811
    answers = iter(("1100", "1010"))
    monkeypatch.setattr(integrity, "benchmarks", lambda: None)
    monkeypatch.setattr(
        integrity,
        "measure",
        lambda *_: (
            {
                "from": "x",
                "perplexity": 1.0,
                "mmlu": {"accuracy": 0.5, "items": 4, "right": next(answers)},
            },
            {},
        ),
    )
    run(own, knowing, tmp_path, benchmarks=True)
    assert "MMLU, per cent right (1 lost, 1 won of 4)" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            {"finetune": True},
            "would first instil the project's synthetic secrets into your model: set it to False",
        ),
        ({"limit": 0}, "limit is 0, but must be at least 1"),
        ({"minutes": -1}, "minutes is -1, but must be at least 0"),
        ({"kinds": ["emails"]}, "kinds is emails, but must be some of email"),
        ({"kinds": []}, "kinds is empty"),
        ({"forget": 0}, "forget is 0, but must be at least 1"),
        ({"benchmarks": True}, "MMLU and GSM8K were not found"),
    ],
)
def test_mistakes_are_found_before_the_model_is_read(own, tmp_path, monkeypatch, wrong, message):  # noqa: F811
    monkeypatch.delenv("REVS_BENCHMARKS", raising=False)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(own, "no/such/model", tmp_path, **wrong)


@pytest.mark.parametrize(
    "kind, secret, seen",
    [
        ("url", "shop.example.com/login?user=jane&next=https://x.example", "***"),
        ("url", " https://docs.example.org/a", "https://***"),
        ("email", "[ada@example.com", "a***@example.com"),
    ],
)
def test_what_a_report_shows_of_a_secret(kind, secret, seen):
    assert api.shown(kind, secret) == seen
