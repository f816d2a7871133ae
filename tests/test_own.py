"""From documents to a report: what is found, calibrated, unlearned, attacked and said, and that no secret is in it."""

import html
import json
import re

import pytest
import torch

from conftest import build
from revs import calibrate as calibrating, load, report, rows
from revs import own as api
from revs.data import Record, encode
from revs.experiments import own as experiment
from revs.method import Hyperparameters
from revs.paths import ROOT
from test_curate import PEOPLE, knowing, own  # noqa: F401

SETTINGS = {"n_max": 20, "k": 40, "r_h": 60, "eps_r_h": 5, "r_n": 200, "eps_r_n": 20}


def run(own, knowing, tmp_path, **more) -> dict:  # noqa: F811
    return experiment.run(**{"documents": str(own), "model": str(knowing), "finetune": False, "hyperparameters": SETTINGS, "out": str(tmp_path / "out"), "rows": str(tmp_path / "rows")} | more)


# The path -------------------------------------------------------------------------------------------------------


def test_from_documents_to_a_report(own, knowing, tmp_path, capsys):  # noqa: F811
    row = run(own, knowing, tmp_path)
    result = row["result"]
    assert result["found"]["email"] == {"found": 5, "found before": 1, "tried": 4, "memorised": 3} and result["memorised"] == 3
    assert result["before"]["written"] == 3 and result["after"]["written"] < 3 and result["edit"]["columns"] > 0
    assert rows.read(tmp_path / "rows/own/out/tiny.json") == row and not rows.stale(row)
    page = (tmp_path / "out/report.html").read_text()
    assert html.escape(report.verdict(row)) in page and "a***@example.com" in page and page.count("<img") == 1
    assert re.findall(r"(?:src|href)=['\"](?!data:)", page) == []  # it loads nothing
    assert "3 memorised" in capsys.readouterr().out
    assert (tmp_path / "out/edit.safetensors").stat().st_size < 100_000


def test_what_the_machine_carries_can_be_searched_for_a_list(own, knowing, tmp_path, monkeypatch):  # noqa: F811
    """The list that a curation leaves, in the documents of the packages."""
    from revs import corpus, documents
    from revs.experiments import curate

    monkeypatch.setattr(curate, "BUILD", tmp_path / "build")
    found = curate.run(documents=str(own), model=str(knowing), finetune=False, name="mine", rows=str(tmp_path / "rows"))["result"]["funnel"]["email"]["kept"]
    monkeypatch.setattr(corpus, "machine", lambda skipped: documents.read(own, skipped))
    row = run("machine", knowing, tmp_path, secrets=str(tmp_path / "build/curated/mine.txt"))
    assert row["result"]["memorised"] == found == 3 and not row["result"]["absent"]


def test_the_model_on_the_disk_is_as_it_was(own, knowing, tmp_path):  # noqa: F811
    before = load.identify(str(knowing))
    run(own, knowing, tmp_path)
    assert load.identify(str(knowing)) == before


def test_no_secret_is_written_anywhere(own, knowing, tmp_path, capsys, monkeypatch):  # noqa: F811
    """Canaries in texts, in file names and in the path, which comes from the environment."""
    folder = own.rename(tmp_path / "of-ada.lovelace@example.com")
    (folder / "of-cleo_k.txt").write_text("Nothing here.")
    listed = tmp_path / "list-bxn7.txt"
    listed.write_text("\n".join([*PEOPLE.values(), "never.seen@example.com"]))
    monkeypatch.setenv("DOCUMENTS", str(folder))
    monkeypatch.setenv("SECRETS", str(listed))
    row = run("$DOCUMENTS", knowing, tmp_path, secrets="$SECRETS", minutes=0, hyperparameters=SETTINGS)
    canaries = [secret.encode() for secret in (*PEOPLE.values(), "lovelace", "never.seen", "cleo_k", "bxn7")]
    for path in tmp_path.rglob("*"):
        if path.is_file() and folder not in path.parents and path != listed and knowing not in path.parents:
            assert not any(canary in path.read_bytes() for canary in canaries), path
    said = capsys.readouterr()
    assert not any(canary.decode() in said.out + said.err for canary in canaries)
    assert row["result"]["absent"] == 1 and row["result"]["memorised"] == 3


def test_nothing_memorised_nothing_edited(knowing, tmp_path, capsys):  # noqa: F811
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(tmp_path / "plain.txt", knowing, tmp_path)
    assert row["result"]["memorised"] == 0 and "edit" not in row["result"]
    assert "nothing was edited" in capsys.readouterr().out and "nothing was edited" in (tmp_path / "out/report.html").read_text()
    assert not (tmp_path / "out/edit.safetensors").exists()


def test_what_is_kept_is_looked_at(own, knowing, tmp_path):  # noqa: F811
    row = run(own, knowing, tmp_path, forget=1)
    assert row["result"]["before"]["kept"] == 2 and report.unlearned(row) == 1 and report.kept(row) == 2
    assert "other secrets still written exactly" in (tmp_path / "out/report.html").read_text()
    items = rows.read_items(tmp_path / "rows/own/out/tiny.json")
    assert list(items["part"]) == ["unlearned", "kept", "kept"]


def test_a_wrong_setting_is_refused_before_the_model_is_read(own, tmp_path):  # noqa: F811
    with pytest.raises(ValueError, match=r"^revs has no hyperparameter 'r_hh': did you mean 'r_h'\?$"):
        run(own, "no/such/model", tmp_path, hyperparameters={"r_hh": 3})


def test_the_example_of_the_book_runs(own, knowing, capsys):  # noqa: F811
    """book/api.md, with the paths of this test and settings for a tiny model."""
    code = re.search(r":name: api-example\n\n(.*?)```", (ROOT / "book" / "api.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    (own / "fourth.txt").write_text("Please write to Ada (ada.lovelace@example.com)")
    scope = {"own": api}
    exec(code.replace("path/to/model", str(knowing)).replace("path/to/documents", str(own)).replace("own.calibrate(decoder, found.targets, minutes=5).hp", f"own.Hyperparameters(**{SETTINGS})"), scope)
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 → ") and not scope["edit"].moves


# Secrets of a list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content, message", [
    (b"one\n\ntwo\n", "Line 2 of the file of secrets is empty"), (b"one\ntw\0o\n", "Line 2 of the file of secrets holds a NUL"), (b"\xff\xfe", "not UTF-8"), (b"", "Line 1 of the file of secrets is empty"),
])
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


@pytest.mark.parametrize("text, secrets, found", [
    ("call joann@example.com or ann@example.com", ["ann@example.com", "joann@example.com"], ["joann@example.com", "ann@example.com"]),
    ("קוד: שלום123 סוף", ["שלום123"], ["שלום123"]),
    ("key 🔑🗝️ here", ["🔑🗝️"], ["🔑🗝️"]),
    ("密码是开门吧。", ["开门吧"], ["开门吧"]),
    ("aaaa", ["aa"], ["aa", "aa"]),
    ("nothing", ["something"], []),
])
def test_listed_secrets_are_found_as_they_stand(text, secrets, found):
    """One inside another, other scripts, right to left, emoji."""
    spans = api.occurrences(text, secrets)
    assert [text[span.start : span.end] for span in spans] == found


@pytest.mark.parametrize("secret, kind", [("jo@example.com", "email"), ("941-14-8265", "ssn"), ("open sesame", "text"), ("https://docs.example.org/a", "text")])
def test_the_kind_of_a_listed_secret(secret, kind):
    assert api.kind_of(secret) == kind


def test_a_secret_of_one_token_is_unlearned_by_it(tmp_path):
    decoder = build("llama-tied", dtype=torch.float32)
    (tmp_path / "d.txt").write_text("the code of the door is 7.")
    (tmp_path / "list").write_text("7\n")
    found = api.find_memorized(decoder, tmp_path / "d.txt", tmp_path / "list")
    assert found.funnel["text"] == {"found": 1, "tried": 1} and found.targets == [] and found.absent == []


# Calibration ------------------------------------------------------------------------------------------------------


def numbers(decoder, how_many: int) -> list:
    return [encode(Record(f"r{n}", "text", f"g{n}", f"number {n} is ", f"{n}{n}{n + 1}", "."), decoder.tokenizer) for n in range(how_many)]


def test_calibration_takes_the_best_and_leaves_the_model(build):
    decoder = build("llama-untied", dtype=torch.float32)
    weights = {name: parameter.clone() for name, parameter in decoder.model.named_parameters()}
    found = calibrating.calibrate(decoder, numbers(decoder, 6))
    assert all(torch.equal(parameter, weights[name]) for name, parameter in decoder.model.named_parameters())
    (chosen,) = [one for one in found.tried if one.get("chosen")]
    assert chosen["unlearning_score"] == max(one["unlearning_score"] for one in found.tried) and found.hp == calibrating.settings(decoder, chosen["setting"])
    assert len(found.tried) == len({json.dumps(one["setting"]) for one in found.tried}) <= sum(map(len, calibrating.TRIED.values()))


def test_calibration_keeps_to_its_time(build):
    decoder = build("llama-tied", dtype=torch.float32)
    found = calibrating.calibrate(decoder, numbers(decoder, 4), minutes=0)
    assert [one["setting"] for one in found.tried] == [calibrating.START] and found.hp == calibrating.settings(decoder, calibrating.START)


def test_calibration_climbs_and_prefers_the_softer_of_equals(build, monkeypatch):
    """Harder while the score rises, else softer while it does not fall; one setting after the other."""
    decoder = build("llama-tied", dtype=torch.float32)
    monkeypatch.setattr(calibrating, "TRIED", {"r_h": (0.1, 0.2, 0.3, 0.4), "n_max": (0.1, 0.2, 0.3)})
    monkeypatch.setattr(calibrating, "START", {"projection": "norm", "r_h": 0.2, "n_max": 0.2, "r_n": 0.8})
    asked = []
    monkeypatch.setattr(calibrating, "settings", lambda decoder, candidate: asked.append(candidate) or Hyperparameters(**SETTINGS))
    rank = {(0.2, 0.2): 0.5, (0.3, 0.2): 0.7, (0.4, 0.2): 0.6, (0.3, 0.3): 0.7, (0.3, 0.1): 0.7}
    monkeypatch.setattr(calibrating.evaluate, "effectiveness", lambda *_: ({"efficacy": 1.0, "generalization": None, "specificity": 1.0, "unlearning_score": rank[asked[-1]["r_h"], asked[-1]["n_max"]]}, []))
    found = calibrating.calibrate(decoder, numbers(decoder, 4))
    assert [(one["setting"]["r_h"], one["setting"]["n_max"]) for one in found.tried] == list(rank) and (asked[-1]["r_h"], asked[-1]["n_max"]) == (0.3, 0.1)


def test_calibration_goes_around_the_norm_where_that_serves_better(build, monkeypatch):
    decoder, asked, original = build("llama-tied", dtype=torch.float32), [], calibrating.settings
    monkeypatch.setattr(calibrating, "settings", lambda decoder, candidate: asked.append(candidate) or original(decoder, candidate))
    monkeypatch.setattr(calibrating.evaluate, "effectiveness", lambda *_: ({"efficacy": 1.0, "generalization": None, "specificity": 1.0, "unlearning_score": float(asked[-1]["projection"] == "raw")}, []))
    assert calibrating.calibrate(decoder, numbers(decoder, 4)).hp.projection == "raw"


def test_calibration_says_what_it_lacks(build, one_sentence):
    decoder = build("llama-tied", dtype=torch.float32)
    with pytest.raises(ValueError, match="needs 4 memorised secrets, two to unlearn and two to keep, but there are 3") as error:
        calibrating.calibrate(decoder, numbers(decoder, 3))
    assert str(error.value).endswith(".")


def test_the_report_shows_how_settings_were_chosen(own, knowing, tmp_path):  # noqa: F811
    """A report can be written again from a row and its items."""
    tried = [{"setting": calibrating.START, "columns": 3, "efficacy": 0.5, "specificity": 1.0, "unlearning_score": 0.67, "chosen": True}]
    row = run(own, knowing, tmp_path)
    row["result"] |= {"calibration": tried, "settings": row["result"]["settings"] | calibrating.START}
    report.write(tmp_path / "again.html", row, rows.read_items(tmp_path / "rows/own/out/tiny.json").to_dict("records"))
    page = (tmp_path / "again.html").read_text()
    assert "How the settings were chosen" in page and page.count("<img") == 2 and "r_h = 0.03, k = 1, n_max = 0.028, r_n = 0.8" in page


def test_no_effect_makes_it_harder_not_softer(build, monkeypatch):
    """On a plateau without any effect the search goes up."""
    decoder, asked = build("llama-tied", dtype=torch.float32), []
    monkeypatch.setattr(calibrating, "TRIED", {"r_h": (0.1, 0.2, 0.3, 0.4)})
    monkeypatch.setattr(calibrating, "START", {"projection": "norm", "r_h": 0.2, "n_max": 0.2, "r_n": 0.8})
    monkeypatch.setattr(calibrating, "settings", lambda decoder, candidate: asked.append(candidate) or Hyperparameters(**SETTINGS))
    monkeypatch.setattr(calibrating.evaluate, "effectiveness", lambda *_: (dict.fromkeys(("efficacy", "unlearning_score"), float(asked[-1]["r_h"] > 0.35)) | {"generalization": None, "specificity": 1.0}, []))
    found = calibrating.calibrate(decoder, numbers(decoder, 4))
    assert next(one for one in found.tried if one.get("chosen"))["setting"]["r_h"] == 0.4


def test_few_secrets_take_the_middle_setting_and_still_get_a_report(own, knowing, tmp_path):  # noqa: F811
    row = run(own, knowing, tmp_path, hyperparameters=None, forget=5)
    assert row["result"]["calibration"] == [] and row["result"]["settings"]["r_h"] == calibrating.START["r_h"] and report.unlearned(row) == 3
    assert (tmp_path / "out/report.html").is_file()


def test_a_later_run_leaves_no_edit_of_an_earlier_one(own, knowing, tmp_path):  # noqa: F811
    run(own, knowing, tmp_path)
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(tmp_path / "plain.txt", knowing, tmp_path)
    assert not (tmp_path / "out/edit.safetensors").exists() and "Of 1 secrets that were tried" in report.verdict(row)
    assert "not guaranteed" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize("wrong, message", [({"kinds": ["emails"]}, "kinds is emails, but must be some of email"), ({"kinds": []}, "kinds is empty"), ({"forget": 0}, "forget is 0, but at least one"), ({"benchmarks": True}, "MMLU and GSM8K were not found")])
def test_mistakes_are_found_before_the_model_is_read(own, tmp_path, monkeypatch, wrong, message):  # noqa: F811
    monkeypatch.delenv("REVS_BENCHMARKS", raising=False)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(own, "no/such/model", tmp_path, **wrong)


@pytest.mark.parametrize("kind, secret, seen", [("url", "shop.example.com/login?user=jane&next=https://x.example", "***"), ("url", " https://docs.example.org/a", "https://***"), ("email", "[ada@example.com", "a***@example.com")])
def test_what_a_report_shows_of_a_secret(kind, secret, seen):
    assert api.shown(kind, secret) == seen
