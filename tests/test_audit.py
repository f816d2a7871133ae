"""From documents to a report: what is found, calibrated, unlearned, attacked and said, and that no
secret is in it."""

import base64
import contextlib
import gzip
import html
import itertools
import json
import re
from dataclasses import replace

import pytest
import torch
from conftest import PEOPLE, taught
from test_calibrate import numbers
from test_method import same_bits, weights

from companion.analysis import audits as pages
from companion.analysis.tables import DASH
from companion.data import models
from companion.experiments import curate
from companion.experiments import documents as experiment
from companion.experiments.settings import check
from companion.store import rows
from companion.store.paths import ROOT, alone
from companion.workflow import notebook
from document_audit import audit, documents, edit_file, memorization, nearby_text, report
from document_audit.settings_search import Calibration, Limits, together
from revs.method.algorithm import Hyperparameters
from revs.model import load
from revs.model.targets import Record, Target

ANY = {"forgotten": 0.0, "kept": 0.0, "near": 0.0, "words": 0.0, "perplexity": 1e9}  # no limits
SETTINGS = {"n_max": 20, "k": 40, "r_h": 60, "eps_r_h": 5, "r_n": 200, "eps_r_n": 20}


@pytest.fixture
def run(folder, knowing, tmp_path):
    """run(**settings) → row, of the tiny model and the documents that it knows."""

    def begun(**more) -> dict:
        given = {"documents": str(folder), "model": str(knowing), "adapter": None}
        given |= {"hyperparameters": SETTINGS, "out": str(tmp_path / "out")}
        given |= {"rows": str(tmp_path / "rows")} | ANY | more
        return experiment.run(check(given, experiment.Settings))

    return begun


@pytest.fixture
def decoder(knowing):
    return load.load(str(knowing))


# --- the path ------------------------------------------------------------------------------------


def test_from_documents_to_a_report(run, knowing, tmp_path, capsys):
    before = load.locate(str(knowing)).pin
    row = run()
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    another = {"another place of a secret, tried too": 1}
    assert result["found"]["email"] == {"found": 5, "tried": 4, **another, "memorised": 3}
    assert result["before"]["written"] == result["memorised"] == 3 > result["after"]["written"]
    assert result["edit"]["columns"] > 0
    kept = rows.read(tmp_path / "rows/documents/out/tiny.json")
    assert kept["result"] == result
    assert result["outcome"] == "unlearned" and result["written"] and result["halfway"][0] == 1
    said, shown = report.found(result), report.verdict(result)
    assert said.startswith("Documents read: 4; places of secrets found in them: 5; secrets tried:")
    assert shown.startswith("Unlearned, within every limit.") and "were unlearned then" in shown
    printed = capsys.readouterr().out
    assert said in printed and shown in printed and printed.index(said) < printed.index(shown)
    assert html.escape(said) in page and shown in page and "a***@example.com" in page
    assert page.count("<img") == 1 and not re.findall(r"(?:src|href)=['\"](?!data:)", page)
    assert (tmp_path / "out/edit.safetensors").stat().st_size < 100_000
    assert load.locate(str(knowing)).pin == before  # the model on the disk


def test_what_the_machine_carries_can_be_searched_for_a_list(run, folder, knowing, tmp_path):
    """The list that a curation leaves, in the documents of the packages."""
    given = {"documents": str(folder), "model": str(knowing), "adapter": None, "name": "mine"}
    found = curate.run(curate.Settings(**given, rows=str(tmp_path / "rows")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "machine", lambda skipped: documents.read(folder, skipped))
        row = run(documents="machine", secrets=str(tmp_path / "build/curated/mine.txt"))
    assert row["result"]["memorised"] == found["result"]["funnel"]["email"]["kept"] == 3
    assert not row["result"]["absent"]


def test_what_is_kept_is_looked_at(run, tmp_path):
    row = run(forget=1)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    assert (result["before"]["kept"], result["unlearned"], result["kept"]) == (2, 1, 2)
    assert "other secrets still written exactly" in page and result["halfway"] is None
    items = rows.per_example(row | {"path": tmp_path / "rows/documents/out/tiny.json"})
    parts = sorted(set(zip(items["number"], items["part"], strict=True)))
    assert parts == [(1, "unlearned"), (2, "kept"), (3, "kept")]
    made = edit_file.read(tmp_path / "out/edit.safetensors")  # about what was unlearned
    assert len(made.before) == len(made.after) == (items["part"] == "unlearned").sum()


def test_what_is_within_is_what_the_report_shows(run):
    """Each limit against the number beside it, the hardest ones too."""
    reached = run(words=0.9999, perplexity=0, near=0.5)["result"]["reached"]
    for name, one in reached.items():
        enough = (
            one["value"] <= one["limit"] if name == "perplexity" else one["value"] >= one["limit"]
        )
        assert one["within"] == enough
    assert not reached["words"]["within"]


def test_a_trial_that_left_nothing_of_the_model_is_in_the_row(decoder, folder, tmp_path):
    """JSON has no infinity, and a page no number for it."""
    seen = dict.fromkeys(("forgotten", "kept", "near", "words"), 0.5) | {"perplexity": 1e90}
    losses = Limits().losses(seen | {"perplexity": float("nan")})
    assert losses["perplexity"] == together(losses) == together({"a": 1e90}) == float("inf")
    one = {"setting": {"r_h": 0.1}, "seen": seen, "losses": losses, "cost": together(losses)}
    found = audit.find_memorized(decoder, folder)
    made = Calibration(Hyperparameters(), [one | {"whole": True}], Limits(), False, 1.0)
    result, _ = audit.outcome(found, calibration=made)
    json.dumps(result, allow_nan=False)
    assert result["calibration"][0]["cost"] is None
    assert pages.tried(result["calibration"])["cost"].tolist() == [DASH]
    audit.report(tmp_path / "report.html", decoder, found, calibration=made)


def test_every_place_of_a_secret_is_unlearned_or_kept():
    places = [
        Target(f"{group}{n}", "text", group, [n], [1], (0,))
        for group, n in (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0))
    ]
    for forget in (None, 3, 9):
        first, second, kept = experiment.parts(places, forget, 0)
        assert kept == [] and len({one.group for one in first}) == 2
        assert sorted(one.id for one in first + second) == [one.id for one in places]
    assert experiment.halves(places[:2], 0) == (places[:2], [])
    for forget in (1, 2):
        unlearned, second, kept = experiment.parts(places, forget, 0)
        assert not second
        groups = [{target.group for target in part} for part in (unlearned, kept)]
        assert len(groups[0]) == forget and not groups[0] & groups[1]
        assert groups[0] | groups[1] == {"a", "b", "c"} and len(unlearned) + len(kept) == 5


def test_nothing_memorised_nothing_edited_and_no_edit_of_an_earlier_run_left(run, tmp_path, capsys):
    run()
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(documents=str(tmp_path / "plain.txt"))
    assert row["result"]["memorised"] == 0 and "edit" not in row["result"]
    said = "Nothing was edited: of those tried, the model writes none"
    page, printed = (tmp_path / "out/report.html").read_text(), capsys.readouterr().out
    assert said in printed and said in page and "What is not guaranteed" in page
    assert "edit.safetensors, an earlier run's, is removed: this run made none." in printed
    assert not (tmp_path / "out/edit.safetensors").exists()


def test_what_breaks_a_limit_is_not_written_unless_asked(run, tmp_path, capsys):
    """The report says which limit; an earlier edit goes."""
    run()
    row = run(words=0.9999)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    assert result["outcome"] == "no setting found" and not result["written"]
    assert not result["reached"]["words"]["within"] and result["reached"]["kept"]["within"]
    assert "missed" in page and "ordinary text changes too much" in capsys.readouterr().out
    assert not (tmp_path / "out/edit.safetensors").exists()
    assert run(words=0.9999, anyway=True)["result"]["written"]
    assert (tmp_path / "out/edit.safetensors").is_file()
    assert "written all the same" in (tmp_path / "out/report.html").read_text()


def test_where_no_setting_is_found_nothing_is_unlearned(run, tmp_path, capsys, monkeypatch):
    """What was tried is in the report, as a picture and as a table."""
    unlearned = []
    original = audit.unlearn
    monkeypatch.setattr(audit, "unlearn", lambda *a, **k: unlearned.append(a) or original(*a, **k))
    strict = {"hyperparameters": None, "minutes": 0, "forgotten": 0.99, "words": 0.9999}
    row = run(**strict)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    assert result["outcome"] == "no setting found" and "edit" not in result and not unlearned
    assert len(result["calibration"]) == 1 and result["calibration"][0]["chosen"]
    assert "No setting was found that forgets and keeps, among 1 tried" in capsys.readouterr().out
    assert page.count("<img") == 1 and "How the settings were chosen" in page
    assert not (tmp_path / "out/edit.safetensors").exists()
    assert run(**strict, anyway=True)["result"]["written"] and len(unlearned) == 2


def test_a_column_that_moved_far_has_a_word_in_the_report(run, tmp_path):
    row = run()
    page = (tmp_path / "out/report.html").read_text()
    assert ("times its own length" in page) == (row["result"]["edit"]["furthest"] > report.FAR)
    far = row | {"result": row["result"] | {"edit": row["result"]["edit"] | {"furthest": 99.0}}}
    items = rows.per_example(row | {"path": tmp_path / "rows/documents/out/tiny.json"}).to_dict(
        "records"
    )
    report.write(tmp_path / "far.html", far, items)
    assert "moved by 99.0 times its own length" in (tmp_path / "far.html").read_text()


def test_tokens_that_tell_a_secret_from_the_others(decoder, folder):
    """Those in the fewest other secrets, written out; the paper's are those of the highest ids."""
    told = {one.id: one for one in audit.find_memorized(decoder, folder).targets}
    rare = audit.find_memorized(decoder, folder, tokens="rarest").targets
    for target in rare:
        at = decoder.tokenizer.decode(target.secret_ids).index("@")
        places = range(
            len(decoder.tokenizer(decoder.tokenizer.decode(target.secret_ids)[:at])["input_ids"])
        )
        highest = sorted(places, key=lambda i, t=target: (-t.secret_ids[i], i))[: len(target.T)]
        assert target.T == tuple(sorted(highest))
        others = [set(one.secret_ids) for one in rare if one.group != target.group]
        count = lambda T, t=target, o=others: [sum(t.secret_ids[i] in ids for ids in o) for i in T]
        assert sum(count(told[target.id].T)) <= sum(count(target.T))


def test_what_is_near_is_the_text_around_the_secrets(decoder, folder):
    found = audit.find_memorized(decoder, folder)
    shown = [decoder.tokenizer.decode([one.ids[i] for i in one.places]) for one in found.near]
    assert len(shown) == 3 and all(
        "who knows" in text and "lease write to" in text for text in shown
    )
    assert not any(address in text for text in shown for address in PEOPLE.values())
    assert len(nearby_text.following(decoder, found.near)) == sum(
        len(one.places) for one in found.near
    )


def test_runs_are_lines_of_a_frame_and_points_of_a_picture(run, tmp_path):
    """As the page of models that nobody tuned for shows them."""
    strict = {"hyperparameters": None, "minutes": 0, "words": 0.9999, "anyway": True}
    result = run(**strict)["result"]
    frame = pages.reached(tmp_path / "rows")
    (line,) = frame.to_dict("records")
    assert (line["run"], line["model"], line["memorised"]) == ("out", "tiny", 3)
    assert line["words"] == result["reached"]["words"]["value"] and line["words limit"] == 0.9999
    shown = pages.lines(frame, "model")
    assert shown["ordinary text, %"][0].startswith("*") == (not line["words within"])
    assert shown["forgotten, of"][0] == f"{result['after']['forgotten']} of 3"
    figure = pages.panels(frame, ["tiny"])
    filled = [ax.lines[0].get_markerfacecolor() != "none" for ax in figure.axes]
    assert filled == [line[f"{name} within"] for name in pages.LIMITS]
    assert list(pages.tried(result["calibration"])["chosen"]) == ["yes"]
    verdicts = pages.shares(result)["verdict"]
    assert list(verdicts == "within") == filled
    assert list(pages.reached(tmp_path / "none")) == pages.COLUMNS


def test_the_edited_model_can_be_kept(run, knowing, tmp_path):
    run(export=str(tmp_path / "edited"))
    edited, plain = load.load(str(tmp_path / "edited")), load.load(str(knowing))
    assert not same_bits(edited, weights(plain))
    again = load.load(str(knowing))
    edit_file.apply(again, edit_file.read(tmp_path / "out/edit.safetensors"))
    assert same_bits(again, weights(edited))
    card = (tmp_path / "edited/README.md").read_text()
    assert re.search(r"Tokens of \d places where it wrote secrets were demoted", card)
    with pytest.raises(ValueError, match="^The folder that export names is there already"):
        run(export=str(tmp_path / "edited"))


def test_what_was_found_is_a_report_by_itself(decoder, folder, tmp_path):
    found = audit.find_memorized(decoder, folder)
    page = audit.report(tmp_path / "report.html", decoder, found).read_text()
    assert "Nothing was edited: of those tried, the model writes 3 right after" in page


# --- no secret anywhere --------------------------------------------------------------------------

SPELT = (
    lambda text: text,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: base64.b64encode(text.encode()).decode().rstrip("=")[:-2],
)


def leaks(canaries, folder, *leave_out) -> list:
    """Every file under a folder, unpacked, in whose name or content a canary stands, however
    spelt."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not any(out == path or out in path.parents for out in leave_out):
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            content += str(path.relative_to(folder)).encode()
            spelt = [(canary, spell(canary).encode()) for canary in canaries for spell in SPELT]
            found += [(path.name, canary) for canary, spelling in spelt if spelling in content]
    return found


def test_the_search_for_leaks_finds_what_is_there(tmp_path):
    (tmp_path / "items.csv.gz").write_bytes(gzip.compress("José's".encode()))
    (tmp_path / "page.html").write_text(html.escape("José's"))
    (tmp_path / "row.json").write_text(json.dumps("José's"))
    (tmp_path / "José's.txt").write_text("")
    assert {name for name, _ in leaks(["José's"], tmp_path)} == {
        path.name for path in tmp_path.iterdir()
    }


@pytest.fixture
def planted(folder, tmp_path, monkeypatch):
    """Canaries in texts, in file names, in a list and in the paths, which come from the
    environment: (canaries, what may hold them)."""
    folder = folder.rename(tmp_path / "of-ada.lovelace@example.com")
    (folder / "of-cleo_k.txt").write_text("Nothing here.")
    listed = tmp_path / "list-bxn7.txt"
    others = ["never.seen@example.com", "(212) 555-0147", "José's door"]
    listed.write_text("\n".join([*PEOPLE.values(), *others]))
    monkeypatch.setenv("DOCUMENTS", str(folder))
    monkeypatch.setenv("SECRETS", str(listed))
    canaries = ["lovelace", "never.seen", "cleo_k", "bxn7", "555-0147", "José's"]
    return [*PEOPLE.values(), *canaries], (folder, listed)


def test_no_secret_is_written_anywhere(planted, run, knowing, tmp_path, capsys, monkeypatch):
    """With calibration, and everything that is printed."""
    canaries, theirs = planted
    given = {"hyperparameters": None, "minutes": 0}
    result = run(documents="$DOCUMENTS", secrets="$SECRETS", **given)["result"]
    assert leaks(canaries, tmp_path, *theirs, knowing) == []
    said = capsys.readouterr()
    assert not any(canary in said.out + said.err for canary in canaries)
    assert result["absent"] == [4, 5, 6] and result["memorised"] == 3 and result["calibration"]


@pytest.mark.parametrize("broken", [None, "unlearn"])
def test_no_secret_is_in_the_notebook_its_log_or_a_traceback(
    planted, knowing, tmp_path, capfd, broken
):
    """The notebook as papermill writes it, also where a step fails as nobody thought."""
    canaries, theirs = planted
    source, done = tmp_path / "own.ipynb", tmp_path / "done.ipynb"
    cells = json.loads((ROOT / "notebooks/documents.ipynb").read_text())
    if broken:
        code = (
            "from document_audit import audit\ndef broken(decoder, targets, *_, **__):\n"
            f"    return {{}}[targets[0].secret_ids[0]]\nsteps.{broken} = broken"
        )
        cell = {"cell_type": "code", "id": "broken", "metadata": {}, "outputs": []}
        cells["cells"].insert(1, cell | {"execution_count": None, "source": code})
    source.write_text(json.dumps(cells))
    parameters = {"documents": "$DOCUMENTS", "secrets": "$SECRETS", "model": str(knowing)}
    parameters |= {"adapter": None, "minutes": 0} | ANY
    parameters |= {"out": str(tmp_path / "out"), "rows": str(tmp_path / "rows")}
    with pytest.raises(RuntimeError, match="KeyError") if broken else contextlib.nullcontext():
        notebook.execute(source, done, parameters, "own")
    assert done.is_file() != bool(broken)
    assert bool(list(tmp_path.glob("*failed*"))) == bool(broken)
    said = capfd.readouterr()
    assert leaks(canaries, tmp_path, *theirs, knowing) == []
    assert not any(canary in said.out + said.err for canary in canaries)


def test_what_is_printed_of_what_is_returned_holds_no_secret(decoder, folder):
    found = audit.find_memorized(decoder, folder)
    said = repr(found) + repr(audit.observe(decoder, found.targets))
    hidden = ("secret_ids", "prompt", "Please", *PEOPLE.values())
    assert "memorised" in said and not any(word in said for word in hidden)


def test_an_error_of_the_system_names_no_path(run, decoder, tmp_path, one_sentence):
    long = "of-ada.lovelace" * 40
    text = tmp_path / "documents.txt"
    text.write_text("one")
    without = ((tmp_path / long, None), (long, None), ("~of-ada/x", None))
    said = "cannot be read|no documents at the path"
    for place, listed in (*without, (text, long), (text, "~of-ada/x")):
        with pytest.raises(OSError, match=said) as error:
            audit.find_memorized(decoder, place, listed)
        assert one_sentence(error) and "ada" not in str(error.value)
    asked = (lambda place: run(documents=place), lambda place: curate.run(curate.Settings(place)))
    for place, begin in itertools.product(dict(without), asked):  # before the model is read
        with pytest.raises(OSError, match=said) as error:
            begin(str(place))
        assert one_sentence(error) and "ada" not in str(error.value)
    with pytest.raises(ValueError, match="^The environment has no such variable as doc") as error:
        run(documents="$NO_SUCH_PLACE/x")
    assert one_sentence(error)
    with pytest.raises(ValueError) as error:
        check({"secrets": ["ada.lovelace@example.com"]}, experiment.Settings)
    assert "ada" not in str(error.value)


@pytest.mark.parametrize(
    "kind, secret, seen",
    [
        ("url", "shop.example.com/login?user=jane&next=https://x.example", "***"),
        ("url", " https://docs.example.org/a", "https://***"),
        ("email", "[ada@example.com", "a***@example.com"),
    ],
)
def test_what_a_report_shows_of_a_secret(kind, secret, seen):
    assert memorization.shown(kind, secret) == seen


# --- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"finetune": True}, "synthetic secrets into your model: set it to False"),
        ({"limit": 0}, "limit is 0, but must be at least 1"),
        ({"minutes": -1}, "minutes is -1, but must be at least 0"),
        ({"kinds": ["emails"]}, "kinds is emails, but must be some of email"),
        ({"kinds": []}, "kinds is empty"),
        ({"forget": 0}, "forget is 0, but must be at least 1"),
        ({"tokens": "rare"}, "tokens is 'rare', but must be one of telling, rarest"),
        ({"words": 1.5}, "words is 1.5, but must be a share"),
        ({"fixed": {"ridgee": 3}}, "'ridgee' of revs: did you mean 'ridge'"),
        ({"hyperparameters": {"r_hh": 3}}, "'r_hh' of revs: did you mean 'r_h'"),
        ({"documents": "no/such"}, "There are no documents"),
        ({"secrets": "no/such"}, "There is no file of secrets"),
        ({"model": "no/such"}, "Nothing pins the weights of this model"),
        ({"export": "of out"}, "export names the folder of out, or one around it"),
    ],
)
def test_a_mistake_leaves_an_earlier_report_and_edit(
    run, knowing, tmp_path, monkeypatch, wrong, message
):
    """Most are found before the model is read."""
    monkeypatch.delenv("REVS_BENCHMARKS", raising=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.html").write_text("an earlier one")
    model = str(knowing) if {"documents", "secrets"} & set(wrong) else "no/such/model"
    given = {"model": model} | wrong
    if "export" in wrong:  # a folder that is not there yet
        given |= {"out": str(tmp_path / "new"), "export": str(tmp_path / "out/../new")}
    with pytest.raises((ValueError, OSError), match=message):
        run(**given)
    assert (tmp_path / "out/report.html").read_text() == "an earlier one"


@pytest.mark.parametrize("what, name", [(rows, "write"), (experiment, "export")])
def test_a_run_that_fails_at_its_end_leaves_what_an_earlier_one_wrote(
    run, tmp_path, monkeypatch, what, name
):
    run()
    earlier = {file: (tmp_path / "out" / file).read_bytes() for file in experiment.FILES}

    def full(*_, **__):
        raise OSError("The disk is full: make room.")

    monkeypatch.setattr(what, name, full)
    with pytest.raises(OSError, match="make room"):
        run(seed=1, export=str(tmp_path / "exported"))
    assert earlier == {file: (tmp_path / "out" / file).read_bytes() for file in experiment.FILES}


def test_two_runs_do_not_share_a_folder(run, tmp_path, one_sentence):
    with alone(tmp_path / "out", ""), pytest.raises(OSError, match="name another folder") as error:
        run()
    assert one_sentence(error)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="is a file, or lies in one: name a folder") as error:
        run(out=str(tmp_path / "file"))
    assert one_sentence(error)


# --- examples ------------------------------------------------------------------------------------


def example(path, name: str, **instead) -> str:
    """A named block of code of a page, with other words."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith("ipynb"):
        text = "".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    code = re.search(rf":name: {name}\n\n(.*?)```", text, re.DOTALL)[1]
    for words, other in instead.items():
        code = code.replace(words.replace("__", "/"), other)
    return code


def test_the_example_of_the_book_runs(folder, knowing, tmp_path, capsys, monkeypatch):
    """book/api.md, with the paths of this test; it leaves a report."""
    monkeypatch.chdir(tmp_path)
    given = Hyperparameters(**SETTINGS), [], audit.Limits(), True, 0.0
    monkeypatch.setattr(audit, "calibrate", lambda *_, **__: audit.Calibration(*given))
    scope, paths = {}, {"path__to__model": str(knowing), "path__to__documents": str(folder)}
    exec(example("book/api.md", "api-example", **paths), scope)
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 → ") and not scope["edit"].moves
    assert "What is not guaranteed" in (tmp_path / "report.html").read_text()
    assert leaks(PEOPLE.values(), tmp_path, folder) == []


def test_the_example_of_the_page_about_edits_runs(run, knowing, tmp_path, monkeypatch):
    """The edited model is kept, and the one in memory is the base again."""
    run()
    monkeypatch.chdir(tmp_path)
    plain, scope = weights(load.load(str(knowing))), {}
    places = {"model": knowing, "edited": tmp_path / "edited"}
    paths = {f"path__to__{name}": str(place) for name, place in places.items()}
    paths["build__own"] = str(tmp_path / "out")
    exec(example("notebooks/artefact.ipynb", "artefact-example", **paths), scope)
    assert same_bits(scope["decoder"], plain)
    assert not same_bits(load.load(str(places["edited"])), plain)


# --- secrets of a list ---------------------------------------------------------------------------


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
        memorization.lines_of(tmp_path / "list")
    assert one_sentence(error)


def test_duplicates_count_once(tmp_path):
    (tmp_path / "list").write_text("one\ntwo\none\n", encoding="utf-8-sig")
    assert memorization.lines_of(tmp_path / "list") == {"one": 1, "two": 2}


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
    spans = memorization.occurrences(text, secrets)
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
    assert memorization.kind_of(secret) == kind


def test_secrets_in_every_script_and_of_one_token_are_unlearned(run, tmp_path):
    """Chinese, emoji, right to left, one token."""
    words = {"Ada": "开门吧", "Ben": "🔑🗝️", "Cleo": "שלום123", "Dan": "7"}
    records = [
        Record(name, "text", name, f"The password of {name} is: ", word, " ")
        for name, word in words.items()
    ]
    texts = [json.dumps({"text": f"{one.prompt}{one.secret} and so on"}) for one in records]
    place, listed = tmp_path / "documents.jsonl", tmp_path / "list.txt"
    place.write_text("\n".join(texts))
    listed.write_text("\n".join(words.values()), encoding="utf-8")
    model = str(taught(records, tmp_path))
    row = run(documents=str(place), secrets=str(listed), model=model)
    assert row["result"]["memorised"] == row["result"]["before"]["written"] == 4
    assert row["result"]["absent"] == []
    items = rows.per_example(row | {"path": tmp_path / "rows/documents/out/tiny.json"})
    assert sorted(items["tokens"]) == [1, 2, 2, 2] and (items["lowest_before"] == 0).all()
    assert (items["lowest_after"] > 0).sum() >= 3
    hidden = [word for word in words.values() if len(word) > 1]
    assert leaks(hidden, tmp_path, place, listed) == []


def adds_up(counts: dict) -> bool:
    """Is what was found the sum of what was tried and what was left out?"""
    later = ("found", "memorised", "written later")
    return counts["found"] == sum(n for name, n in counts.items() if name not in later)


def test_a_secret_is_tried_at_several_places(decoder, folder):
    """A first place without a prompt, or with one after which it is not written, does not shut out
    the place where it is."""
    ada = PEOPLE["Ada"]
    firsts = (ada, f"Nobody here writes to {ada}", f"Again, nobody writes to {ada}")
    for number, text in enumerate((*firsts, f"Please write to Ada ({ada}), who knows.")):
        (folder / f"0{number}.txt").write_text(text)
    found = audit.find_memorized(decoder, folder, kinds=["email"])
    assert len({target.group for target in found.targets}) == 3 and found.documents == 8
    assert found.funnel["email"] == {
        "found": 9,
        "less than 5 tokens before it": 1,
        "found before": 2,
        "tried": 4,
        "another place of a secret, tried too": 2,
        "memorised": 3,
    }
    assert adds_up(found.funnel["email"])


def test_a_listed_secret_that_stands_only_inside_another_is_counted(decoder, tmp_path):
    text, listed = tmp_path / "d.txt", tmp_path / "list"
    text.write_text("Please call joann@example.com only, or else use abc def ghi.")
    listed.write_text("ann@example.com\njoann@example.com\nabc def\ndef ghi\nnowhere\n")
    found = audit.find_memorized(decoder, text, listed)
    inside = [found.funnel[kind]["only inside another secret"] for kind in ("email", "text")]
    assert inside == [1, 1] and found.absent == [5] and all(map(adds_up, found.funnel.values()))
    listed.write_text("nowhere\n")
    with pytest.raises(ValueError, match=r"None of the secrets listed \(1\) stands in the doc"):
        audit.find_memorized(decoder, text, listed)


def test_a_secret_spelt_with_other_tokens_is_still_written(build, monkeypatch):
    """What counts is the text: the same letters may be found in other tokens, or large."""
    decoder = build("llama-tied", dtype=torch.float32)
    ids = lambda text: decoder.tokenizer(text)["input_ids"]
    target = replace(numbers(decoder, 1)[0], secret_ids=ids("ada@x.example"), T=(0, 1))
    for said, written in (("Ada@X.example, he said", True), ("a.da@x.example", False)):
        monkeypatch.setattr(
            audit.measuring, "continuations", lambda *_, said=said: {target.id: ids(said)}
        )
        assert audit.evaluate(decoder, [target])[target.id]["written"] == written


def test_a_secret_after_a_space_has_tokens_that_tell_it(decoder, tmp_path, monkeypatch):
    """Its first token holds the space, so that the model is asked for both."""
    decoder = replace(decoder, tokenizer=models.tokenizer("smollm2-135m"))
    known = {"memorised": True, "right": 1}
    every = lambda ready: [one.target.id for each in ready.values() for one in each]
    monkeypatch.setattr(
        memorization, "tried", lambda _, ready, __: dict.fromkeys(every(ready), known)
    )
    lines = [f"For the minutes of the club write to {one} today." for one in PEOPLE.values()]
    (tmp_path / "minutes.txt").write_text("\n\n".join(lines))
    found = memorization.find_memorized(decoder, tmp_path)
    texts = [decoder.tokenizer.decode(target.secret_ids) for target in found.targets]
    assert sorted(texts) == sorted(f" {one}" for one in PEOPLE.values())
    assert all(target.T for target in found.targets)
