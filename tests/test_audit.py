"""From documents to a report: what is found, searched, unlearned, attacked and said, and that no
secret is in it."""

import base64
import html
import json
import re
import tempfile
from dataclasses import replace
from unittest import mock

import pandas as pd
import pytest
import torch
from conftest import PEOPLE, build, taught
from test_method import same_bits, weights
from test_settings_search import numbers

from companion.analysis import audits
from companion.analysis.tables import DASH
from companion.experiments import curate
from companion.experiments import documents as experiment
from companion.experiments.notebook import Refused
from companion.experiments.settings import check
from companion.store import rows
from companion.store.paths import ROOT
from companion.workflow import notebook, pages
from document_audit import audit, edit_file, nearby_text, report, secret_list
from document_audit.settings import Limits
from document_audit.settings_search import SearchResult, Trial, cost_of
from revs.method.edit import Edit
from revs.method.least_squares import Hyperparameters
from revs.model import load
from revs.model.place import locate
from revs.model.targets import Record, Target

pytestmark = pytest.mark.slow  # whole runs from documents to a report

ANY = {"forgotten": 0.0, "kept": 0.0, "nearby_text": 0.0, "next_word_agreement": 0.0}
ANY |= {"perplexity": 1e9}  # no limits
EDIT = (edit_file.CONFIG, edit_file.WEIGHTS)
SETTINGS = {"r_h": 200, "lam": 0.01, "mu": 0.01, "tokens": 256}
COLUMNS = {"n_max": 20, "k": 40, "r_h": 60, "eps_r_h": 5, "r_n": 200, "eps_r_n": 20}


@pytest.fixture
def run(begun, tmp_path):
    """run(**settings) → row, of the tool with fixed settings of the method and without limits."""
    usual = ANY | {"hyperparameters": SETTINGS, "out": str(tmp_path / "out")}
    return lambda **more: begun(experiment, **usual | more)


@pytest.fixture
def decoder(knowing):
    return load.load(str(knowing))


@pytest.fixture
def places(tmp_path):
    """places(row) → what the row says of every place, as a frame."""
    return lambda row: rows.per_example(row | {"path": tmp_path / "rows/documents/out/tiny.json"})


# --- the whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["least_squares", "revs"])
def test_from_documents_to_a_report(run, knowing, tmp_path, capsys, method):
    before = locate(str(knowing)).pin
    row = run(method=method, hyperparameters=COLUMNS if method == "revs" else SETTINGS)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    another = {"another place of a secret, tried too": 1}
    assert result["found"]["email"] == {"found": 5, "tried": 4, **another, "memorised": 3}
    assert result["before"]["written"] == result["memorised"] == 3 > result["after"]["written"]
    assert result["edit"]["columns"] > 0
    kept = rows.read(tmp_path / "rows/documents/out/tiny.json")
    assert kept["result"] == result
    assert result["outcome"] == "unlearned" and result["written"] and result["halfway"][0] == 1
    sentence, verdict = report.found_sentence(result), report.verdict(result)
    read = "Documents read: 4 (left out: 1 empty); places of secrets found in them: 5; secrets"
    assert sentence.startswith(read)
    assert verdict.startswith("Unlearned, within every limit.")
    assert "were unlearned afterwards" in verdict
    lines = report.verdict(result | {"found": {"email": {"beyond the limit": 2}}}).splitlines()
    assert all(lines) and lines[-1].startswith("2 places of secrets were beyond")
    printed = capsys.readouterr().out
    assert printed.index(sentence) < printed.index(verdict)
    assert html.escape(sentence) in page and verdict in page and "a***@example.com" in page
    assert page.count("<img") == 1 and not re.findall(r"(?:src|href)=['\"](?!data:)", page)
    assert {file.name for file in (tmp_path / "out/edit").iterdir()} == {"README.md", *EDIT}
    assert (tmp_path / "out/report.html").stat().st_mode & 0o777 == 0o600  # for its owner alone
    assert locate(str(knowing)).pin == before  # the model on the disk


def test_a_folder_lies_where_the_user_stands(run, tmp_path, monkeypatch):
    """Not in the checkout, where a private report would be met by others."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run(out="rep/mine", rows="rows")
    assert (tmp_path / "here/rep/mine/report.html").is_file()
    assert (tmp_path / "here/rows/documents/mine/tiny.json").is_file()
    assert not (ROOT / "rep").exists()


def test_what_is_kept_is_looked_at(run, tmp_path, places):
    row = run(forget=1)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    assert (result["before"]["kept"], result["unlearned"], result["kept"]) == (2, 1, 2)
    assert "other secrets still written exactly" in page and result["halfway"] is None
    items = places(row)
    parts = sorted(set(zip(items["number"], items["part"], strict=True)))
    assert parts == [(1, "unlearned"), (2, "kept"), (3, "kept")]
    saved = edit_file.read(tmp_path / "out/edit")  # about what was unlearned
    assert len(saved.before) == len(saved.after) == (items["part"] == "unlearned").sum()


def test_a_trial_that_left_nothing_of_the_model_is_in_the_row(decoder, folder, tmp_path):
    """JSON has no infinity, and a page no number for it."""
    shares = dict.fromkeys(Limits.model_fields, 0.5) | {"perplexity": 1e90}
    losses = Limits().losses(shares | {"perplexity": float("nan")})
    assert losses["perplexity"] == cost_of(losses) == cost_of({"a": 1e90}) == float("inf")
    trial = Trial({"r_h": 0.1}, shares, losses, cost_of(losses), (0, 0))
    found = audit.find_memorized(decoder, folder)
    search = SearchResult(Hyperparameters(), [trial], trial, Limits(), False)
    result, items = audit.content(found, search=search)
    json.dumps(result, allow_nan=False)
    assert result["trials"][0]["cost"] is None and result["trials"][0]["chosen"]
    assert audits.trials(result)["cost"].tolist() == [DASH]
    report.write(tmp_path / "report.html", result, items, report.about(decoder))


def test_every_place_of_a_secret_is_unlearned_or_kept():
    every = [
        Target(f"{group}{n}", "text", group, [n], [1], (0,))
        for group, n in (("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0))
    ]
    for forget in (None, 3, 9):
        first, second, kept = audit.parts(every, forget, 0)
        assert kept == [] and len({one.group for one in first}) == 2
        assert sorted(one.id for one in first + second) == [one.id for one in every]
    assert audit.halves(every[:2], 0) == (every[:2], [])
    for forget in (1, 2):
        unlearned, second, kept = audit.parts(every, forget, 0)
        groups = [{target.group for target in part} for part in (unlearned, kept)]
        assert not second and len(groups[0]) == forget and not groups[0] & groups[1]
        assert groups[0] | groups[1] == {"a", "b", "c"} and len(unlearned) + len(kept) == 5


def test_nothing_memorised_nothing_edited_and_no_edit_of_an_earlier_run_left(run, tmp_path, capsys):
    run()
    (tmp_path / "plain.txt").write_text("Write to someone.unknown@example.com about it.")
    row = run(documents=str(tmp_path / "plain.txt"))
    assert row["result"]["memorised"] == 0 and "edit" not in row["result"]
    sentence = "Nothing was edited: of those tried, the model writes none"
    page, printed = (tmp_path / "out/report.html").read_text(), capsys.readouterr().out
    assert sentence in printed and sentence in page and "What is not guaranteed" in page
    assert "edit, an earlier run's, is removed: this run made none." in printed
    assert not (tmp_path / "out/edit").exists()


def test_what_breaks_a_limit_is_not_written_unless_asked(run, tmp_path, capsys):
    """The report says which limit."""
    row = run(next_word_agreement=0.9999)
    result, page = row["result"], (tmp_path / "out/report.html").read_text()
    assert result["outcome"] == "no setting found" and not result["written"]
    assert not result["reached"]["next_word_agreement"]["within"]
    assert "missed" in page and "general text changes too much" in capsys.readouterr().out
    assert not (tmp_path / "out/edit").exists()
    assert run(next_word_agreement=0.9999, anyway=True)["result"]["written"]
    assert (tmp_path / "out/edit").is_dir()
    assert "written all the same" in (tmp_path / "out/report.html").read_text()


def test_where_no_setting_is_found_nothing_is_unlearned(run, tmp_path, capsys, monkeypatch):
    """What was tried is in the report, as a picture and as a table."""
    looked, original = [], audit.observe
    monkeypatch.setattr(
        audit, "observe", lambda *a, **more: looked.append(a) or original(*a, **more)
    )
    strict = {"hyperparameters": None, "minutes": 0, "forgotten": 0.99}
    strict |= {"next_word_agreement": 0.9999}
    result = run(**strict)["result"]
    page = (tmp_path / "out/report.html").read_text()
    assert result["outcome"] == "no setting found" and "edit" not in result and not looked
    assert len(result["trials"]) == 1 and result["trials"][0]["chosen"]
    assert "No setting was found that forgets and keeps, among 1 tried" in capsys.readouterr().out
    assert page.count("<img") == 1 and "How the settings were chosen" in page
    assert not (tmp_path / "out/edit").exists()
    assert run(**strict, anyway=True)["result"]["written"] and len(looked) == 2


def test_recorded_runs_are_tables_and_points_of_a_picture():
    """As the pages show them."""
    frame = audits.reached()
    table, figure = audits.table(frame, "model"), audits.panels(frame, list(frame["model"]))
    filled = [[one.get_markerfacecolor() != "none" for one in ax.lines] for ax in figure.axes]
    for number, line in enumerate(frame.to_dict("records")):
        result, shown = line["row"]["result"], table.loc[number]
        assert line["next_word_agreement"] == result["reached"]["next_word_agreement"]["value"]
        forgotten = f"{result['after']['forgotten']} of {result['unlearned']}"
        assert shown["forgotten, of"].strip("*") == forgotten
        alone = line["row"]["environment"]["threads"] > 1
        assert shown["seconds"].endswith(" cores") == alone
        assert ("bfloat16" in shown["seconds"]) == ("bfloat16" in line["row"]["settings"].values())
        for cell, limit in (
            ("forgotten, of", "forgotten"),
            ("general text, %", "next_word_agreement"),
        ):
            assert shown[cell].startswith("*") != line[f"{limit} within"]
        within = [line[f"{name} within"] for name in audits.LIMITS]
        assert [of_limit[number] for of_limit in filled] == within
        assert list(audits.limits(result)["verdict"] != "missed") == within
        found = audits.found(result)["memorised"].str.replace(",", "").astype(int)
        assert found.sum() == result["memorised"]
        both = ["per example, before", "per example, after"]
        assert list(audits.resistance(result))[1:3] == both and len(audits.cost(result)) == 2
        if "trials" in result:
            assert list(audits.trials(result)["chosen"]).count("yes") == 1
    items = rows.per_example(line["row"]).to_dict("records")
    assert len(audits.secrets(items, most=3)) == 3
    with pytest.raises(Refused, match="no rows of documents with another"):
        audits.reached(model="another")


def test_what_the_page_on_untuned_models_says_of_recorded_runs():
    """How many runs with the tool's own write were within the limits, and which were not."""
    own = audits.reached().query("write == 'least squares'").head(3)
    own = own.assign(outcome="unlearned", documents="office")
    none = {"seen": "no", "seen_within": "no", "missed": "no run"}
    said = none | {"unseen": "three", "unseen_within": "three"}
    assert audits.untuned_values(own) == said
    own.iloc[0, own.columns.get_loc("outcome")] = "no setting found"
    missed = "{model} ({documents})".format(**own.iloc[0])
    assert audits.untuned_values(own) == said | {"unseen_within": "two", "missed": missed}
    seen = audits.untuned_values(own.assign(documents=audits.DEVELOPED))
    assert (seen["seen"], seen["seen_within"], seen["unseen"]) == ("three", "two", "no")
    other = own.assign(write="columns")
    assert audits.untuned_values(other) == none | {"unseen": "no", "unseen_within": "no"}
    by_itself = audits.untuned_values(own.assign(documents=audits.PACKAGES))
    assert (by_itself["seen"], by_itself["unseen"]) == ("no", "no")


def test_what_the_page_says_of_addresses_that_a_model_knew_by_itself():
    """The counts are those of the secrets, one by one; dashes where there is no run."""
    runs = audits.reached()
    said = audits.packages_values(runs)
    (run,) = runs[runs["documents"] == audits.PACKAGES]["row"]
    secrets = rows.per_example(run).groupby(["part", "number"])
    one = secrets.agg({"written_after": "any", "lowest_after": "min"})
    asked, others = one.loc["unlearned"], one.loc["kept"]
    forgotten = ~asked["written_after"] & (asked["lowest_after"] >= 100)
    counts = [len(one), len(asked), forgotten.sum(), len(others), others["written_after"].sum()]
    names = ["known", "asked", "forgotten", "others", "kept"]
    assert [said[name] for name in names] == [*map(str, counts)]
    none = audits.packages_values(runs.head(0))
    assert set(none) == set(said) and set(none.values()) == {DASH}


def test_the_edited_model_can_be_kept(run, knowing, tmp_path):
    run(export=str(tmp_path / "edited"))
    edited, plain = load.load(str(tmp_path / "edited")), load.load(str(knowing))
    assert not same_bits(edited, weights(plain))
    again = load.load(str(knowing))
    edit_file.apply(again, edit_file.read(tmp_path / "out/edit"))
    assert same_bits(again, weights(edited))
    card = (tmp_path / "edited/README.md").read_text()
    assert re.search(r"Tokens of secrets were demoted at \d places where", card)
    with pytest.raises(ValueError, match="^The folder that export names is there already"):
        run(export=str(tmp_path / "edited"))


def test_what_cannot_be_written_is_said_before_anything_is_read(
    decoder, folder, tmp_path, monkeypatch, refused
):
    monkeypatch.setattr(audit, "find_memorized", lambda *_, **__: pytest.fail("it was read"))
    for model, export_to, said in (
        (decoder, tmp_path, "is there already: name a folder that is not"),
        (replace(decoder, revision="unknown"), None, "Nothing pins the weights"),
    ):
        with refused(said):
            audit.run(model, folder, export_to=export_to)


# --- what is memorised ---------------------------------------------------------------------------


def funnel_adds_up(counts: dict) -> bool:
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
    assert funnel_adds_up(found.funnel["email"])


@pytest.mark.parametrize("packed", ["\n".join, ". ".join])
def test_it_does_not_matter_how_texts_are_packed(decoder, tmp_path, packed):
    """The model learned each sentence by itself; in a file they stand one after the other.
    test_documents.py has other formats."""
    noise = "Minutes of the last meeting of the club, of which nothing else is known"
    lines = [f"Please write to {one} ({mail}), who knows" for one, mail in PEOPLE.items()]
    (tmp_path / "a.txt").write_text(packed([part for line in lines for part in (noise, line)]))
    found = audit.find_memorized(decoder, tmp_path)
    assert len(found.targets) == 3 and not found.skipped


def test_distinctive_tokens(decoder, folder):
    """No other tokens before the @ are in fewer of the other secrets."""
    found = audit.find_memorized(decoder, folder).targets
    for target in found:
        local = decoder.tokenizer.decode(target.secret_ids).partition("@")[0]
        before_at = range(len(decoder.tokenizer(local)["input_ids"]))
        others = [set(one.secret_ids) for one in found if one.group != target.group]
        count = lambda i, t=target, o=others: sum(t.secret_ids[i] in ids for ids in o)
        fewest = sorted(map(count, before_at))[: len(target.T)]
        assert sorted(map(count, target.T)) == fewest


def test_nearby_text_is_the_text_around_the_secrets(decoder, folder):
    found = audit.find_memorized(decoder, folder)
    texts = [decoder.tokenizer.decode([one.ids[i] for i in one.places]) for one in found.nearby]
    assert len(texts) == 3
    assert all("who knows" in text and "lease write to" in text for text in texts)
    assert not any(address in text for text in texts for address in PEOPLE.values())
    tokens = nearby_text.next_tokens(decoder, found.nearby)
    assert len(tokens) == sum(len(one.places) for one in found.nearby)


def test_what_was_found_is_a_report_by_itself(decoder, folder, tmp_path):
    found = audit.find_memorized(decoder, folder)
    named = report.about(decoder) | {"model": "caf\udce9"}  # a folder's name that is not UTF-8
    report.write(tmp_path / "report.html", *audit.content(found), named)
    page = (tmp_path / "report.html").read_text()
    assert "What caf? has memorised" in page
    assert "Nothing was edited: of those tried, the model writes 3 right after" in page
    assert "A secret that is broken over two lines" in page
    result = audit.content(found)[0] | {"skipped": {"empty": 1, "binary": 2}}
    sentence = report.found_sentence(result)
    assert sentence.startswith("Documents read: 4 (left out: 1 empty, 2 binary); places")


def test_a_report_needs_the_attacks(decoder, folder, tmp_path, refused):
    """Which ``observe`` may leave out."""
    found = audit.find_memorized(decoder, folder)
    attacked = audit.observe(decoder, found.targets)
    spared = audit.observe(decoder, found.targets, attack=False)
    for states in ((spared, spared), (spared, attacked), (attacked, spared)):
        content = audit.content(found, audit.Change(*states, Edit(decoder), Hyperparameters()))
        with refused("observed without attacks, of which a report tells: observe it with attack"):
            report.write(tmp_path / "report.html", *content, report.about(decoder))
    assert not (tmp_path / "report.html").exists()


def test_a_secret_spelt_with_other_tokens_is_still_written(monkeypatch):
    """What counts is the text: the same letters may be found in other tokens, or large."""
    decoder = build("llama-tied", dtype=torch.float32)
    ids = lambda text: decoder.tokenizer(text)["input_ids"]
    target = replace(numbers(decoder, 1)[0], secret_ids=ids("ada@x.example"), T=(0, 1))
    for text, written in (("Ada@X.example, he said", True), ("a.da@x.example", False)):
        answer = {target.id: ids(text)}
        monkeypatch.setattr(audit.measuring, "continuations", lambda *_, a=answer: a)
        assert audit.evaluate(decoder, [target])[target.id]["written"] == written


# --- secrets of a list ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, secrets, found",
    [
        (
            "call joann@example.com or ann@example.com",
            ["ann@example.com", "joann@example.com"],
            ["joann@example.com", "ann@example.com"],
        ),
        ("aaaa", ["aa"], ["aa", "aa"]),
        ("nothing", ["something"], []),
    ],
)
def test_listed_secrets_are_found_as_they_stand(text, secrets, found):
    """One inside another; other scripts, right to left and emoji are below."""
    spans = secret_list.spans_of(secrets, text)
    assert [text[span.start : span.end] for span in spans] == found


def test_the_kind_of_a_listed_secret():
    kinds = {"jo@example.com": "email", "941-14-8265": "ssn", "open sesame": "text"}
    kinds |= {"https://docs.example.org/a": "text"}
    assert {secret: secret_list.kind_of(secret) for secret in kinds} == kinds


def test_secrets_in_every_script_and_of_one_token_are_unlearned(run, tmp_path, places):
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
    row = run(documents=str(place), secrets=str(listed), model=str(taught(records, tmp_path)))
    assert row["result"]["memorised"] == row["result"]["before"]["written"] == 4
    assert row["result"]["absent"] == []
    items = places(row)
    assert sorted(items["tokens"]) == [1, 2, 2, 2] and (items["lowest_before"] == 0).all()
    assert (items["lowest_after"] > 0).sum() >= 3
    hidden = [word for word in words.values() if len(word) > 1]
    assert leaks(hidden, tmp_path, place, listed) == []


def test_a_listed_secret_that_stands_only_inside_another_is_counted(decoder, tmp_path):
    text, listed = tmp_path / "d.txt", tmp_path / "list"
    text.write_text("Please call joann@example.com only, or else use abc def ghi.")
    listed.write_text("ann@example.com\njoann@example.com\nabc def\ndef ghi\nnowhere\n")
    found = audit.find_memorized(decoder, text, listed)
    inside = [found.funnel[kind]["only inside another secret"] for kind in ("email", "text")]
    assert inside == [1, 1] and found.absent == [5]
    assert all(map(funnel_adds_up, found.funnel.values()))
    listed.write_text("nowhere\n")
    with pytest.raises(ValueError, match=r"None of the secrets listed \(1\) stands in the doc"):
        audit.find_memorized(decoder, text, listed)


# --- no secret anywhere --------------------------------------------------------------------------

SPELLINGS = (
    lambda text: text,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: base64.b64encode(text.encode()).decode().rstrip("=")[:-2],
)


def content_of(path) -> bytes:
    """A file's bytes, unpacked."""
    packed = path.suffix == ".parquet"
    return pd.read_parquet(path).to_csv().encode() if packed else path.read_bytes()


def leaks(canaries, folder, *leave_out) -> list:
    """Every file under a folder in whose name or content a canary stands, however spelt."""
    found = []
    spelt = [(canary, spell(canary).encode()) for canary in canaries for spell in SPELLINGS]
    for path in folder.rglob("*"):
        if path.is_file() and not any(out == path or out in path.parents for out in leave_out):
            content = content_of(path) + str(path.relative_to(folder)).encode()
            found += [(path.name, canary) for canary, spelling in spelt if spelling in content]
    return found


def test_the_search_for_leaks_finds_what_is_there(tmp_path):
    pd.DataFrame({"a": ["José's"]}).to_parquet(tmp_path / "values.parquet")
    (tmp_path / "page.html").write_text(html.escape("José's"))
    (tmp_path / "row.json").write_text(json.dumps("José's"))
    (tmp_path / "José's.txt").write_text("")
    names = {path.name for path in tmp_path.iterdir()}
    assert {name for name, _ in leaks(["José's"], tmp_path)} == names


@pytest.fixture
def planted(folder, tmp_path, monkeypatch):
    """Canaries in texts, in file names, in a list and in the paths, which come from the
    environment: (canaries, what may hold them). Temporary files and IPython's history lie here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for variable in ("TMPDIR", "IPYTHONDIR"):
        monkeypatch.setenv(variable, str(tmp_path))
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
    """With a search, and everything that is printed."""
    canaries, theirs = planted
    given = {"hyperparameters": None, "minutes": 0}
    result = run(documents="$DOCUMENTS", secrets="$SECRETS", **given)["result"]
    assert leaks(canaries, tmp_path, *theirs, knowing) == []
    printed = capsys.readouterr()
    assert not any(canary in printed.out + printed.err for canary in canaries)
    assert result["absent"] == [4, 5, 6] and result["memorised"] == 3 and result["trials"]


def test_no_secret_is_in_the_notebook_its_log_or_a_traceback(planted, knowing, tmp_path, capfd):
    """The notebook as papermill writes it, also where a step fails as nobody thought; both in one
    kernel."""
    canaries, theirs = planted
    source, done = tmp_path / "documents.ipynb", tmp_path / "done.ipynb"
    cells = json.loads((ROOT / "notebooks/documents.ipynb").read_text())
    source.write_text(json.dumps(cells))
    parameters = {"documents": "$DOCUMENTS", "secrets": "$SECRETS", "model": str(knowing)}
    parameters |= {"adapter": None, "minutes": 0} | ANY
    parameters |= {"out": str(tmp_path / "out"), "rows": str(tmp_path / "rows")}
    kernel = pages.AsyncKernelManager(kernel_name="python3")
    try:
        notebook.execute(source, done, parameters, "documents", km=kernel)
        assert done.is_file() and not list(tmp_path.glob("*failed*"))
        assert leaks(canaries, tmp_path, *theirs, knowing) == []
        pages.forget(kernel)
        code = (
            "from document_audit import audit\ndef broken(decoder, targets, *_, **__):\n"
            "    return {}[targets[0].secret_ids[0]]\naudit.evaluate = broken"
        )
        cell = {"cell_type": "code", "id": "broken", "metadata": {}, "outputs": []}
        cells["cells"].insert(1, cell | {"execution_count": None, "source": code})
        source.write_text(json.dumps(cells))
        with pytest.raises(RuntimeError, match="KeyError"):
            notebook.execute(source, tmp_path / "no.ipynb", parameters, "documents", km=kernel)
    finally:
        pages.run_sync(kernel.shutdown_kernel)(now=True)
    assert (tmp_path / "no.failed.ipynb").is_file() and not (tmp_path / "no.ipynb").exists()
    printed = capfd.readouterr()
    assert leaks(canaries, tmp_path, *theirs, knowing) == []
    assert not any(canary in printed.out + printed.err for canary in canaries)


def test_what_is_printed_of_what_is_returned_holds_no_secret(decoder, folder):
    found = audit.find_memorized(decoder, folder)
    text = repr(found) + repr(audit.observe(decoder, found.targets))
    hidden = ("secret_ids", "prompt", "Please", *PEOPLE.values())
    assert "memorised" in text and not any(word in text for word in hidden)


def test_an_error_of_the_system_names_no_path(run, decoder, tmp_path, refused):
    long = "of-ada.lovelace" * 40
    text = tmp_path / "documents.txt"
    text.write_text("one")
    without = ((tmp_path / long, None), (long, None), ("~of-ada/x", None))
    for where, listed in (*without, (text, long), (text, "~of-ada/x")):
        with refused("cannot be read|no documents at the path", OSError) as error:
            audit.find_memorized(decoder, where, listed)
        assert "ada" not in str(error.value)
    curated = lambda place: curate.run(curate.Settings(documents=place))
    for place in dict(without):  # before the model is read
        for begin in (lambda place: run(documents=place), curated):
            with refused("cannot be read|no documents at the path", OSError) as error:
                begin(str(place))
            assert "ada" not in str(error.value)
    with pytest.raises(ValueError) as error:
        check({"secrets": ["ada.lovelace@example.com"]}, experiment.Settings)
    assert "ada" not in str(error.value)


# --- failures ------------------------------------------------------------------------------------


def test_a_run_that_fails_at_its_end_leaves_what_an_earlier_one_wrote(run, tmp_path, monkeypatch):
    run()
    contents = lambda: {file: file.read_bytes() for file in (tmp_path / "out").rglob("*.*")}
    earlier, full = contents(), mock.Mock(side_effect=OSError("The disk is full: make room."))
    for what, name in ((rows, "write"), (audit.export, "export")):
        with monkeypatch.context() as patched:
            patched.setattr(what, name, full)
            with pytest.raises(OSError, match="make room"):
                run(seed=1, export=str(tmp_path / name))
        assert earlier == contents()


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
    trial = Trial({}, dict.fromkeys(Limits.model_fields, 0.5), {}, 0.0, (0, 0))
    search = SearchResult(Hyperparameters(**SETTINGS), [trial], trial, Limits(), True)
    monkeypatch.setattr(audit, "search_settings", lambda *_, **__: search)
    scope, paths = {}, {"path__to__model": str(knowing), "path__to__documents": str(folder)}
    exec(example("book/api.md", "api-example", **paths), scope)
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith("2 → ") and not scope["edit"].products
    )
    assert "What is not guaranteed" in (tmp_path / "report.html").read_text()
    assert leaks(PEOPLE.values(), tmp_path, folder) == []


def test_the_example_of_the_page_about_edits_runs(run, knowing, tmp_path, monkeypatch):
    """The edited model is kept, and the one in memory is the base again."""
    run()
    monkeypatch.chdir(tmp_path)
    plain, scope = weights(load.load(str(knowing))), {}
    folders = {"model": knowing, "edited": tmp_path / "edited"}
    paths = {f"path__to__{name}": str(place) for name, place in folders.items()}
    paths["build__documents"] = str(tmp_path / "out")
    exec(example("notebooks/edit_file.ipynb", "edit-file-example", **paths), scope)
    assert same_bits(scope["decoder"], plain)
    assert not same_bits(load.load(str(folders["edited"])), plain)
