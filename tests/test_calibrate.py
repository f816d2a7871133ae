"""Settings calibrated on half of the secrets are judged on the other half, beside the paper's."""

import json

import pytest
import torch
from conftest import build

from companion.own import calibrate as calibrating
from companion.pages import calibrating as pages
from companion.record import rows
from companion.runs import calibrate, datasets
from companion.runs.tune import PAPER_VOCABULARY, from_paper
from revs.measures import ordinary
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.model import load
from revs.model.targets import Record, encode, split


@pytest.fixture
def world(tmp_path):
    """The settings of a run on a tiny model and eight secrets, two sentences each."""
    decoder = build("llama-untied", dtype=torch.float32)
    load.save(decoder.model, decoder.tokenizer, tmp_path / "tiny")
    records = [
        Record(f"r{n}{part}", "text", f"g{n}", f"{part} number {n} is ", f"{n}{n}{n + 1}", ".")
        for n in range(8)
        for part in "ab"
    ]
    lines = [json.dumps(vars(record)) + "\n" for record in records]
    (tmp_path / "set.jsonl").write_text("".join(lines))
    given = {"model": str(tmp_path / "tiny"), "data": str(tmp_path / "set.jsonl")}
    return given | {"finetune": False, "rows": str(tmp_path / "rows"), "minutes": 0}


def run(world, **more) -> dict:
    return calibrate.run(calibrate.Settings(**world | more))


def test_what_chooses_and_what_judges_share_no_secret(world, monkeypatch, capsys):
    chosen, unlearned, seen = [], [], []
    real, original, look = calibrating.calibrate, method.unlearn, ordinary.observe

    def choosing(decoder, targets, *rest):
        chosen.extend(targets)
        return real(decoder, targets, *rest)

    def unlearning(decoder, targets, hp, *rest):
        unlearned.append(({target.group for target in targets}, hp))
        return original(decoder, targets, hp, *rest)

    def looking(decoder, windows=ordinary.JUDGING):
        seen.append(windows)
        return look(decoder, windows)

    monkeypatch.setattr(calibrate, "calibrate", choosing)
    monkeypatch.setattr(method, "unlearn", unlearning)
    monkeypatch.setattr(ordinary, "observe", looking)
    result = run(world)["result"]
    # the unedited model, and then each choice, before they are compared
    assert seen == [*2 * [ordinary.CHOOSING], *4 * [ordinary.JUDGING]]
    halves = {target.group for target in chosen}
    assert len(chosen) == 8 and len(halves) == 4 and unlearned[0][0] < halves
    judged = [groups for groups, _ in unlearned[1:]]
    assert judged == 3 * judged[:1] and len(judged[0]) == 2 and not judged[0] & halves
    papers = [Hyperparameters(**from_paper("revs", one, 3, "SSN")) for one in PAPER_VOCABULARY]
    assert [hp for _, hp in unlearned[1:]] == [unlearned[0][1], *papers]
    assert [result[name] for name in ("calibrated_on", "forget", "retain")] == [4, 2, 2]
    assert "Unlearning Scores on other secrets: calibrated" in capsys.readouterr().out


def test_each_choice_meets_the_same_model(world):
    """The model is as it was after each: a choice's scores are those of a run of its own."""
    result = run(world)["result"]
    decoder = load.load(world["model"])
    targets = [encode(record, decoder.tokenizer) for record in datasets.read(world["data"])]
    others = split(split(targets, 1).retain, 1)
    judge = calibrating.Judge(others, ordinary.observe(decoder), seed=1)
    for one in result["judged"].values():
        hp = Hyperparameters(**one["settings"])
        assert {"settings": one["settings"]} | calibrating.effect(decoder, judge, hp) == one


def test_recorded_splits_are_lines_of_a_frame(world, tmp_path, monkeypatch):
    for seed in (1, 2):
        row = run(world, seed=seed)
    kept = rows.read(tmp_path / "rows/calibrate/set/tiny/seed2.json")
    assert kept["result"] == row["result"] and not rows.stale(kept)
    monkeypatch.setattr(rows, "RECORDED", tmp_path / "rows")
    frame = pages.recorded()
    names = ["calibrated here", "the paper's for Llama-3-8B", "the paper's for GPT-J-6B"]
    assert list(frame["settings"]) == 2 * names and list(frame["split"]) == 3 * [1] + 3 * [2]
    scores = [one["unlearning_score"] for one in row["result"]["judged"].values()]
    assert list(frame["unlearning_score"])[3:] == scores
    tried = pages.tried(row["result"]["tried"])
    assert list(tried["chosen"]) == [True] and "r_h = 0.03" in tried["setting"][0]


def test_too_few_secrets_to_halve_are_refused(world, tmp_path, one_sentence):
    lines = (tmp_path / "set.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "set.jsonl").write_text("".join(lines[:6]))
    said = "has 3 secrets, but 8 are needed, 4 to calibrate on and 4 to judge with"
    with pytest.raises(ValueError, match=said) as error:
        run(world)
    assert one_sentence(error) and not (tmp_path / "rows").exists()
