"""Settings calibrated on half of the secrets are judged on the other half, beside the paper's."""

import json

import pytest
import torch
from conftest import build

from companion.own import calibrate as calibrating
from companion.pages.calibrating import judged, recorded, sentence
from companion.record import rows
from companion.runs import calibrate, datasets, models
from companion.runs.tune import PAPER_VOCABULARY, from_paper
from revs.measures import ordinary
from revs.method import algorithm as method
from revs.method.algorithm import Hyperparameters
from revs.model import load
from revs.model.targets import Record, encode, split


@pytest.fixture
def world(tmp_path):
    """A tiny model and eight secrets, two sentences each; what a run on them needs."""
    decoder = build("llama-untied", dtype=torch.float32)
    load.save(decoder.model, decoder.tokenizer, tmp_path / "tiny")
    records = [
        Record(f"r{n}{part}", "text", f"g{n}", f"{part} number {n} is ", f"{n}{n}{n + 1}", ".")
        for n in range(8)
        for part in "ab"
    ]
    (tmp_path / "set.jsonl").write_text(
        "".join(json.dumps(vars(record)) + "\n" for record in records)
    )
    return {
        "model": str(tmp_path / "tiny"),
        "data": str(tmp_path / "set.jsonl"),
        "finetune": False,
        "rows": str(tmp_path / "rows"),
    }


def test_what_chooses_and_what_judges_share_no_secret(world, monkeypatch, capsys):
    chosen, unlearned = [], []
    real, original = calibrating.calibrate, method.unlearn
    monkeypatch.setattr(
        calibrate,
        "calibrate",
        lambda decoder, targets, *rest: chosen.extend(targets) or real(decoder, targets, *rest),
    )
    monkeypatch.setattr(
        method,
        "unlearn",
        lambda decoder, targets, hp, *rest: (
            unlearned.append(({target.group for target in targets}, hp))
            or original(decoder, targets, hp, *rest)
        ),
    )
    seen, look = [], ordinary.observe
    monkeypatch.setattr(
        ordinary,
        "observe",
        lambda decoder, windows=ordinary.JUDGING: seen.append(windows) or look(decoder, windows),
    )
    row = calibrate.run(**world, minutes=0)
    assert seen == [
        *2 * [ordinary.CHOOSING],
        *4 * [ordinary.JUDGING],
    ]  # the unedited model, and then each choice, before they are compared
    halves = {target.group for target in chosen}
    assert len(chosen) == 8 and len(halves) == 4 and unlearned[0][0] < halves
    assert (
        len(unlearned) == 4
        and all(len(groups) == 2 and not groups & halves for groups, _ in unlearned[1:])
        and len({frozenset(groups) for groups, _ in unlearned[1:]}) == 1
    )
    assert [hp for _, hp in unlearned[1:]] == [unlearned[0][1]] + [
        Hyperparameters(**from_paper("revs", name, 3, "SSN")) for name in PAPER_VOCABULARY
    ]
    assert {name: row["result"][name] for name in ("calibrated_on", "forget", "retain")} == {
        "calibrated_on": 4,
        "forget": 2,
        "retain": 2,
    }
    assert "Unlearning Scores on other secrets: calibrated" in capsys.readouterr().out


def test_each_choice_meets_the_same_model(world):
    """The model is as it was after each: a choice's scores are those of a run of its own."""
    result = calibrate.run(**world, minutes=0)["result"]
    decoder = models.load(world["model"])
    halves = split(
        [encode(record, decoder.tokenizer) for record in datasets.read(world["data"])], 1
    )
    others = split(halves.retain, 1)
    before = ordinary.observe(decoder)
    for one in result["judged"].values():
        edit = method.unlearn(decoder, others.forget, Hyperparameters(**one["settings"]), 1)
        effect, _ = calibrating.evaluate.effectiveness(
            others,
            calibrating.evaluate.secret_ranks(
                decoder, others.forget + others.unseen + others.retain
            ),
            100,
        )
        unchanged = 1 - before.changed(ordinary.observe(decoder))
        parts = [effect[name] for name in ("efficacy", "generalization", "specificity")] + [
            unchanged
        ]
        assert one["unchanged"] == unchanged and one["score"] == pytest.approx(
            4 / sum(1 / part for part in parts) if all(parts) else 0
        )
        assert edit.summary()["columns"] == one["columns"] and {
            name: effect[name]
            for name in ("efficacy", "generalization", "specificity", "unlearning_score")
        } == {
            name: one[name]
            for name in ("efficacy", "generalization", "specificity", "unlearning_score")
        }
        edit.undo()


def test_rows_of_splits_are_put_together(world, tmp_path, monkeypatch):
    for seed in (1, 2):
        row = calibrate.run(**world, minutes=0, seed=seed)
    assert row == rows.read(tmp_path / "rows/calibrate/set/tiny/seed2.json") and not rows.stale(row)
    real = rows.find
    monkeypatch.setattr(
        rows, "find", lambda *folders, kind=None: real(tmp_path / "rows", kind=kind)
    )
    together, single = recorded(), judged(row["result"])
    assert (
        list(together["settings"])
        == list(single["settings"])
        == ["calibrated here", "the paper's for Llama-3-8B", "the paper's for GPT-J-6B"]
    )
    assert set(together["secrets"]) == {"set, `tiny`, 2 splits"} and all(
        "±" in value for value in together["Specificity"]
    )
    scores = [
        [one["unlearning_score"] for one in found["result"]["judged"].values()]
        for found in real(tmp_path / "rows", kind="calibrate").values()
    ]
    assert sentence().startswith(
        f"On {sum(calibrated > max(others) for calibrated, *others in scores)} of 2 splits"
    )
    monkeypatch.setattr(rows, "find", lambda *folders, kind=None: {})
    assert recorded().empty and sentence() == ""


def test_too_few_secrets_to_halve_are_refused(world, tmp_path, one_sentence):
    lines = (tmp_path / "set.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "set.jsonl").write_text("".join(lines[:6]))
    with pytest.raises(
        ValueError, match="has 3 secrets, but 8 are needed, 4 to calibrate on and 4 to judge with"
    ) as error:
        calibrate.run(**world)
    assert one_sentence(error) and not (tmp_path / "rows").exists()
