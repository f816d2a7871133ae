"""Runs that fail, and the search for hyperparameters: what is tried, what is kept, what goes on where it was."""

import functools
import json
import random
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
import yaml

from companion.pages import paper
from companion.record import rows
from companion.record.paths import ROOT
from companion.runs import datasets, methods, models, tune, unlearn
from companion.runs.unlearn import Plan
from companion.workflow import choose
from revs.baselines import ft_l
from revs.measures import evaluate
from revs.model import load

TUNED = ("revs", "ft_l", "memit", "max_entropy", "head_projection", "rmu", "npo_kl", "simnpo")
IMPORTS = functools.cache(rows.imports)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A tiny model that writes letters only, in a folder, and a data set of what it writes: it has memorised all of it."""
    from conftest import build

    folder, decoder = tmp_path_factory.mktemp("world"), build("llama-untied", dtype=torch.float32)
    ids = decoder.tokenizer.convert_tokens_to_ids(list(LETTERS))
    with torch.no_grad():
        others = torch.ones(300, dtype=torch.bool)
        others[ids] = False
        decoder.head.weight[others] *= 0.05
        decoder.head.weight[ids] *= 3
    load.save(decoder.model, decoder.tokenizer, folder / "tiny")
    lines, draw = [], random.Random(0)
    for number in range(8):
        prompt = "".join(draw.choices(LETTERS, k=6)) + ": "
        text = decoder.tokenizer(prompt)["input_ids"]
        for _ in range(4):
            text.append(int(decoder.model(input_ids=torch.tensor([text])).logits[0, -1].argmax()))
        secret = decoder.tokenizer.decode(text[len(prompt) :])
        lines.append(
            {
                "id": f"r{number}",
                "kind": "email",
                "group": f"g{number // 2}",
                "prompt": prompt,
                "secret": secret,
                "suffix": ".",
            }
        )
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return {"model": str(folder / "tiny"), "data": str(folder / "set.jsonl"), "finetune": False}


@pytest.fixture(autouse=True)
def nothing_in_the_project(monkeypatch, tmp_path):
    """Ranks before the edit are kept in the test's own folder; sources, which do not change meanwhile, are parsed once."""
    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    monkeypatch.setattr(rows, "imports", IMPORTS)


FT_L = {"lr": 7e-3, "norm_constraint": 1.0, "steps": 2, "loss_break": 1e-9}
SEARCH = {"sentences": 1, "trials": 4}


@pytest.fixture
def settings_tried(monkeypatch):
    """settings_tried({number: settings}): trials of these numbers get them instead of what is drawn."""
    drawn = tune.candidate

    def replace(given: dict[int, dict]) -> None:
        monkeypatch.setattr(
            tune,
            "candidate",
            lambda method, number, *more: given.get(number) or drawn(method, number, *more),
        )

    return replace


def found(folder: Path) -> dict[str, dict]:
    """The unlearn rows of a folder by the end of their names: trial00, seed1, …"""
    return {name.rpartition("-")[2]: row for name, row in rows.find(folder, kind="unlearn").items()}


# One run ---------------------------------------------------------------------------------------------------------


def a_run(world, tmp_path, **more) -> dict:
    return unlearn.run(
        **world
        | {"method": "ft_l", "forget": 2, "rows": str(tmp_path / "rows"), "hyperparameters": FT_L}
        | more
    )


def the_row(tmp_path) -> dict:
    return found(tmp_path / "rows")["seed1"]


def test_the_model_has_memorised_and_a_run_unlearns(world, tmp_path):
    """What the other tests here stand on: everything exact before, less of it after, and the row says what it took."""
    row = a_run(world, tmp_path)
    before, after, edit = (row["result"][part] for part in ("before", "after", "edit"))
    assert (
        before["specificity"] == 1
        and before["efficacy"] == 0 < after["efficacy"]
        and 0 < after["specificity_within_50"] <= 1
    )
    assert (
        edit["layers"] == [0, 1, 2]
        and edit["weights"] > 0
        and row["provenance"]["extra_memory_mb"] >= 0
    )
    assert rows.read(tmp_path / "rows/unlearn/set/tiny/ft_l-seed1.json") == row and not rows.stale(
        row
    )


def test_only_sentences_that_are_no_longer_exact_are_written_out(world, tmp_path, monkeypatch):
    """Greedy decoding is asked for those alone: the others are within 50 tokens already; the verdicts are those of asking for all."""
    original, asked = evaluate.continuations, []
    monkeypatch.setattr(
        evaluate,
        "continuations",
        lambda decoder, targets: (
            asked.append([t.id for t in targets]) or original(decoder, targets)
        ),
    )
    row = a_run(world, tmp_path)
    items = rows.items(rows.read(tmp_path / "rows/unlearn/set/tiny/ft_l-seed1.json"))
    retained = items[items["part"] == "retain"]
    assert asked == [retained[~retained["exact"]]["id"].tolist()] and 0 < len(asked[0]) < 4
    assert (
        row["result"]["after"]["specificity_within_50"]
        == retained["within_50"].mean()
        >= retained["exact"].mean()
        == row["result"]["after"]["specificity"]
    )


def test_a_run_without_generation_does_not_look_within_50_tokens(world, tmp_path, monkeypatch):
    monkeypatch.setattr(
        evaluate, "continuations", lambda *_: pytest.fail("nothing is to be written")
    )
    after = a_run(world, tmp_path, generate=False)["result"]["after"]
    assert after["specificity_within_50"] is None and after["specificity"] > 0


def test_a_run_that_diverges_leaves_a_row_that_says_why(world, tmp_path, one_sentence):
    """FloatingPointError with one sentence; the row has it, and no number."""
    with pytest.raises(
        FloatingPointError, match="NPO-KL diverged .* lower the learning rate of 1e[+]30"
    ) as error:
        a_run(world, tmp_path, method="npo_kl", hyperparameters={"lr": 1e30, "batch": 2})
    assert one_sentence(error)
    row = the_row(tmp_path)
    assert (
        row["result"] == {"failed": str(error.value), "items_sha256": None}
        and row["provenance"]["extra_memory_mb"] is None
    )
    assert row["provenance"]["settings"]["hyperparameters"].items() >= {
        "lr": 1e30,
        "batch": 2,
    }.items() and not rows.stale(row)


@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, MemoryError])
def test_a_run_out_of_memory_is_one_sentence(world, tmp_path, kind, monkeypatch, one_sentence):
    """Whatever the allocator said in many lines: what to do about it."""

    def exhausted(*_):
        raise kind("CUDA out of memory. Tried to allocate 1 GiB.\nMore lines.")

    monkeypatch.setattr(ft_l, "unlearn", exhausted)
    with pytest.raises(
        MemoryError, match="ft_l ran out of memory: give it a larger machine"
    ) as error:
        a_run(world, tmp_path)
    assert one_sentence(error) and the_row(tmp_path)["result"]["failed"] == str(error.value)


def test_a_matrix_that_cannot_be_inverted_is_a_failed_run(world, tmp_path, monkeypatch):
    def singular(*_):
        raise torch.linalg.LinAlgError("The input matrix is singular.")

    monkeypatch.setattr(ft_l, "unlearn", singular)
    with pytest.raises(FloatingPointError, match="The input matrix is singular"):
        a_run(world, tmp_path)
    assert the_row(tmp_path)["result"]["failed"] == "The input matrix is singular."


def test_a_run_that_cannot_be_measured_leaves_the_model_as_it_was(world, tmp_path, monkeypatch):
    """Trials share one model: what a failed one did to it must not reach the next."""
    stages, real = [], unlearn.Stage
    monkeypatch.setattr(unlearn, "Stage", lambda *given: stages.append(real(*given)) or stages[-1])
    real_effectiveness, calls = evaluate.effectiveness, []

    def once_only(*given):
        calls.append(given)
        if len(calls) > 1:  # the first is before the edit
            raise FloatingPointError("Nothing could be measured.")
        return real_effectiveness(*given)

    monkeypatch.setattr(evaluate, "effectiveness", once_only)
    with pytest.raises(FloatingPointError, match="Nothing could be measured"):
        a_run(world, tmp_path)
    untouched = models.load(world["model"]).model.state_dict()
    assert all(
        torch.equal(value, untouched[name])
        for name, value in stages[0].decoder.model.state_dict().items()
    )


def test_attacks_are_measured_where_they_are_asked_for(world, tmp_path):
    """Their resistance in the row, the depths of each unlearned secret beside its ranks; without them, the same result."""
    row = a_run(world, tmp_path, measures=["attacks"], tag="attacked")
    items = rows.items(rows.read(tmp_path / "rows/unlearn/set/tiny/ft_l-seed1-attacked.json"))
    forgotten, others = items[items["part"] == "forget"], items[items["part"] != "forget"]
    assert (
        all(len(layers) == 3 for layers in forgotten["logit_lens"])
        and others["logit_lens"].isna().all()
    )
    last = [max(min(r, 100) / 100 for r in layers[-1]) for layers in forgotten["perturbation"]]
    assert (
        row["result"]["attacks"]["black_box"] == pytest.approx(sum(last) / 2)
        and row["provenance"]["seconds"]["measures"] >= 0
    )
    assert "revs.measures.attacks" in row["provenance"]["modules"] and not rows.stale(row)
    plain = a_run(world, tmp_path)
    assert {
        name: value
        for name, value in row["result"].items()
        if name not in ("attacks", "items_sha256")
    } == {name: value for name, value in plain["result"].items() if name != "items_sha256"}
    assert "revs.measures.attacks" not in plain["provenance"]["modules"]


def test_every_measure_has_its_place_in_a_row(world, tmp_path):
    """The schema knows them all, and rows with those that the tiny model can be asked for are valid."""
    rule = next(
        rule
        for rule in rows.schema()["allOf"]
        if rule["if"]["properties"]["kind"]["const"] == "unlearn"
    )
    assert set(methods.MEASURES) <= set(rule["then"]["properties"]["result"]["properties"])
    row = a_run(world, tmp_path, measures=["instead", "perturbations", "public"])
    assert (
        sum(row["result"]["instead"].values()) == 2
        and len(row["result"]["perturbations"]) == 8
        and not any(row["result"]["public"]["known"].values())
    )


def test_an_unknown_measure_is_refused_with_the_nearest(world, tmp_path):
    with pytest.raises(ValueError, match="There is no measure .atacks.: did you mean .attacks."):
        a_run(world, tmp_path, measures=["atacks"])


def test_impossible_hyperparameters_leave_a_row_before_anything_is_loaded(
    world, tmp_path, monkeypatch, one_sentence
):
    monkeypatch.setattr(models, "load", lambda *_: pytest.fail("nothing is to be loaded"))
    with pytest.raises(ValueError, match="steps is 0 and batch 64") as error:
        a_run(world, tmp_path, hyperparameters={"steps": 0})
    row = the_row(tmp_path)
    assert (
        one_sentence(error)
        and row["result"]["failed"] == str(error.value)
        and row["provenance"]["tokenizer"] == "not read"
    )


def test_layers_beyond_the_model_leave_a_row_too(world, tmp_path):
    with pytest.raises(ValueError, match=r"layers are \[9\]"):
        a_run(world, tmp_path, hyperparameters=FT_L | {"layers": [9]})
    assert "layers are [9]" in the_row(tmp_path)["result"]["failed"]


def test_a_failure_never_takes_the_place_of_a_result(world, tmp_path):
    """A row with numbers stays; a failed one gives way to the next failure and to a result, and is never current."""
    diverging = {"method": "npo_kl", "hyperparameters": {"lr": 1e30}}
    for wrong in ({"lr": 1e30}, {"lr": 1e31}):
        with pytest.raises(FloatingPointError):
            a_run(world, tmp_path, method="npo_kl", hyperparameters=wrong)
        assert f"learning rate of {wrong['lr']:g}" in the_row(tmp_path)["result"]["failed"]
    row = a_run(world, tmp_path, method="npo_kl", hyperparameters={"lr": 1e-4})
    for wrong, kind in (
        (diverging, FloatingPointError),
        ({"method": "npo_kl", "hyperparameters": {"epochs": 0}}, ValueError),
    ):
        with pytest.raises(kind):
            a_run(world, tmp_path, **wrong)
        assert the_row(tmp_path)["result"] == row["result"]


def test_a_failed_run_is_tried_again_and_a_finished_one_is_not(world, tmp_path, monkeypatch):
    measured, measure = [], Plan.measure
    monkeypatch.setattr(
        Plan,
        "measure",
        lambda plan, *rest, **more: measured.append(plan.hp.lr) or measure(plan, *rest, **more),
    )
    for _ in range(2):
        with pytest.raises(FloatingPointError):
            a_run(world, tmp_path, method="npo_kl", hyperparameters={"lr": 1e30})
        a_run(world, tmp_path)
    assert measured == [1e30, 7e-3, 1e30]


@pytest.mark.parametrize(
    "error, said",
    [
        (FloatingPointError, "diverged."),
        (MemoryError, "ran out of memory."),
        (ValueError, "steps is 0."),
    ],
)
def test_the_command_ends_with_one_sentence(error, said, monkeypatch):
    """What happened, instead of a traceback."""
    from companion.runs import command

    def run(seed: "int" = 0) -> None:
        """Fails."""
        raise error(said)

    monkeypatch.setattr(sys, "argv", ["run", "--seed", "3"])
    with pytest.raises(SystemExit) as ended:
        command(run)
    assert ended.value.code == f"{error.__name__}: {said}"


# The search ------------------------------------------------------------------------------------------------------


def search(world, tmp_path, **more) -> dict:
    return tune.run(**world | SEARCH | {"rows": str(tmp_path / "rows"), "method": "ft_l"} | more)


def by_itself(world, tmp_path, hyperparameters: dict, **more) -> dict:
    """A trial as a run of its own, on a model that was loaded for it."""
    own = {
        "method": "ft_l",
        "seed": 0,
        "sentences": 1,
        "generate": False,
        "rows": str(tmp_path / "alone"),
    }
    return unlearn.run(**world | own | more, hyperparameters=hyperparameters)


DRAWN = {number: FT_L | {"lr": lr} for number, lr in enumerate((1e-4, 3e-2, 1e-2, 7e-3))}


@pytest.mark.parametrize("method", ["ft_l", "revs"])
def test_every_trial_is_what_a_run_of_its_own_would_be(world, tmp_path, method, settings_tried):
    """The model is put back after each: one row for each trial, equal to separate runs; the best is named."""
    if method == "ft_l":
        settings_tried(DRAWN)
    row = search(world, tmp_path, method=method)
    trials, result = found(tmp_path / "rows"), row["result"]
    assert row["name"] == f"tune/set/tiny/{method}-seed0" and row["kind"] == "tune"
    assert sorted(trials) == [f"trial{n:02d}" for n in range(4)]
    for tag, trial in trials.items():
        settings = trial["provenance"]["settings"]
        assert settings["hyperparameters"] == tune.candidate(method, int(tag[-2:]), 3, "Emails")
        assert (settings["seed"], settings["sentences"], settings["forget"]) == (
            0,
            1,
            None,
        ) and trial["result"]["after"]["forget"] == 2
        alone = by_itself(world, tmp_path, settings["hyperparameters"], method=method, tag=tag)
        assert (
            trial["result"] == alone["result"]
            and trial["provenance"]["stamp"] == alone["provenance"]["stamp"]
        )
    scores = {tag: trial["result"]["after"]["unlearning_score"] for tag, trial in trials.items()}
    assert (result["trials"], result["failed"]) == (4, 0) and result["unlearning_score"] == scores[
        f"trial{result['best']:02d}"
    ] == max(scores.values())
    assert result["hyperparameters"] == tune.candidate(method, result["best"], 3, "Emails")
    if method == "ft_l":
        assert len({scores[f"trial{n:02d}"] for n in range(4)}) > 2


def test_a_search_with_settings_held_fast_stands_beside_the_other(world, tmp_path):
    """Every trial has them; its rows have the tag, and of both searches the better one chooses the settings that runs take."""
    plain, raw = (
        search(world, tmp_path, method="revs"),
        search(world, tmp_path, method="revs", hyperparameters={"projection": "raw"}, tag="raw"),
    )
    assert raw["name"] == plain["name"] + "-raw"
    tried = {
        name: row["provenance"]["settings"]["hyperparameters"]
        for name, row in rows.find(tmp_path / "rows", kind="unlearn").items()
    }
    for number in range(4):
        name = plain["name"].replace("tune", "unlearn", 1)
        assert tried[f"{name}-raw-trial{number:02d}"] == tried[f"{name}-trial{number:02d}"] | {
            "projection": "raw"
        }
    for better, worse in ((plain, raw), (raw, plain)):
        better["result"]["unlearning_score"], worse["result"]["unlearning_score"] = 0.9, 0.1
        assert (
            choose.chosen({"a": plain, "b": raw})
            == choose.chosen({"b": raw, "a": plain})
            == choose.chosen({"a": better})
        )


def test_the_first_trials_are_the_papers_for_secrets_of_that_kind():
    """Numbers and addresses of pages have their own; the paper's e-mail settings for Llama edit fewer neurons."""
    assert (
        tune.candidate("revs", 0, 32, tune.PAPER_DATA["ssn"])["n_max"] == 130
        and tune.candidate("revs", 0, 32, tune.PAPER_DATA["email"])["n_max"] == 45
    )


def test_a_search_goes_on_where_it_was(world, tmp_path, settings_tried, monkeypatch):
    """A trial whose row is current is not measured again: all of them, or all but one that is gone."""
    settings_tried(DRAWN)
    first = search(world, tmp_path)
    measure, measured = Plan.measure, []
    monkeypatch.setattr(
        Plan,
        "measure",
        lambda plan, *rest, **more: measured.append(plan.tag) or measure(plan, *rest, **more),
    )
    assert search(world, tmp_path)["result"] == first["result"] and measured == []
    (tmp_path / "rows/unlearn/set/tiny/ft_l-seed0-trial02.json").unlink()
    assert search(world, tmp_path)["result"] == first["result"] and measured == ["trial02"]
    settings_tried(DRAWN | {3: FT_L | {"lr": 5e-2}})
    search(world, tmp_path)
    assert measured[1] == "trial03"


def test_a_trial_that_fails_is_counted_and_does_not_stop_the_others(
    world, tmp_path, settings_tried
):
    """Divergence, layers beyond the model and impossible settings: a row that says so each, and a best of the rest."""
    settings_tried(
        DRAWN
        | {
            0: {"lr": 3e37, "norm_constraint": 1e38, "steps": 3},
            2: {"layers": [9]},
            3: {"steps": 0},
        }
    )
    result, trials = search(world, tmp_path)["result"], found(tmp_path / "rows")
    assert (result["trials"], result["failed"], result["best"]) == (4, 3, 1)
    for tag, said in (
        ("trial00", "diverged"),
        ("trial02", "layers are [9]"),
        ("trial03", "steps is 0"),
    ):
        assert said in trials[tag]["result"]["failed"] and set(trials[tag]["result"]) == {
            "failed",
            "items_sha256",
        }
    assert (
        trials["trial01"]["result"] == by_itself(world, tmp_path, DRAWN[1])["result"]
    )  # the failures before it left nothing behind


def test_if_every_trial_fails_one_sentence_says_so(world, tmp_path, settings_tried, one_sentence):
    settings_tried({number: {"steps": 0} for number in range(4)})
    with pytest.raises(
        ValueError, match="All 4 trials of ft_l failed: look at their rows"
    ) as error:
        search(world, tmp_path)
    assert one_sentence(error) and not list((tmp_path / "rows").rglob("tune/**/*.json"))


def test_a_trial_that_fails_after_the_edit_leaves_the_model_as_it_was(
    world, tmp_path, settings_tried, monkeypatch
):
    """Memory may run out while the edited model is measured: the next trial must not start from that model."""
    settings_tried(DRAWN | {0: DRAWN[1]})
    original, calls = evaluate.secret_ranks, []

    def exhausted(decoder, targets):
        calls.append(1)
        if len(calls) == 2:  # the first is before any edit
            raise MemoryError
        return original(decoder, targets)

    monkeypatch.setattr(evaluate, "secret_ranks", exhausted)
    search(world, tmp_path)
    monkeypatch.setattr(evaluate, "secret_ranks", original)
    trials = found(tmp_path / "rows")
    assert (
        "failed" in trials["trial00"]["result"]
        and trials["trial01"]["result"] == by_itself(world, tmp_path, DRAWN[1])["result"]
    )


# What is tried ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", TUNED)
def test_candidates_are_the_same_every_time_and_lie_in_their_ranges(method):
    """A number is a setting, whatever was drawn before; drawn settings differ, fit the dataclass and respect the ends."""
    spaces, kind = tune.ranges(method), methods.method(method).Hyperparameters
    drawn = [tune.candidate(method, number, 30) for number in range(2, 50)]
    random.seed(1)
    assert drawn[:3] == [tune.candidate(method, number, 30) for number in range(2, 5)]
    assert len({json.dumps(settings) for settings in drawn}) == len(drawn)
    for settings in drawn:
        kind(**settings)
        assert settings.keys() == spaces.keys()
        for name, value in settings.items():
            space = spaces[name]
            if "values" in space:
                assert value in space["values"]
            else:
                assert (
                    space["low"] <= value <= space["high"]
                    or name == "n_max"
                    and value == settings["k"]
                )
                assert isinstance(value, int) == (
                    isinstance(space["low"], int) and isinstance(space["high"], int)
                )
    for name, space in spaces.items():  # the whole range is used: both halves of it, or every value
        values = [json.dumps(settings[name]) for settings in drawn]
        assert (
            len(set(values)) > 10
            or name in ("steps", "epochs")
            or set(values) == {json.dumps(value) for value in space["values"]}
        )
        if "values" not in space and name != "n_max":
            middle = (
                (space["low"] + space["high"]) / 2
                if space.get("scale") == "linear"
                else (space["low"] * space["high"]) ** 0.5
            )
            assert 0.2 < sum(settings[name] < middle for settings in drawn) / len(drawn) < 0.8


def test_methods_do_not_share_their_draws():
    assert tune.candidate("memit", 5, 30)["lr"] != tune.candidate("max_entropy", 5, 30)["lr"]


@pytest.mark.parametrize("data", ["SSN", "Emails"])
@pytest.mark.parametrize(
    "method", ["revs", "ft_l", "memit", "max_entropy", "head_projection", "rmu", "npo_kl"]
)
def test_the_first_two_trials_are_the_papers_settings(method, data):
    """For one data set, of its two models in their order; only what the method has, and layers as far as the model has them."""
    known = {field.name for field in fields(methods.method(method).Hyperparameters)}
    for number, model in enumerate(("Llama-3-8B", "GPT-J-6B")):
        printed = {
            name: value
            for name, value in paper.hyperparameters(
                methods.registry()[method]["title"], model, data
            ).items()
            if name in known
        }
        found = tune.candidate(method, number, 30, data)
        assert found.keys() == printed.keys() and found
        for name in printed.keys() - set(tune.MARGINS):
            assert found[name] == (
                [l for l in printed[name] if l < 30]
                if isinstance(printed[name], list)
                else printed[name]
            )
        methods.method(method).Hyperparameters(**found)


def test_the_papers_margins_are_carried_over_as_fractions_of_its_vocabularies():
    llama, gptj = (tune.candidate("revs", number, 30) for number in (0, 1))
    assert [llama[name] * 128256 for name in tune.MARGINS] == pytest.approx(
        [750, 250, 105000, 5000]
    )
    assert [gptj[name] * 50400 for name in tune.MARGINS] == pytest.approx([2600, 1400, 37500, 7500])
    assert (llama["n_max"], llama["k"], gptj["n_max"], gptj["k"]) == (130, 1000, 30, 100)


def test_the_papers_layers_end_where_the_model_does():
    assert tune.candidate("ft_l", 1, 3)["layers"] == [0, 1, 2]
    assert all(l < 5 for number in (0, 1) for l in tune.candidate("memit", number, 5)["layers"])


def test_a_method_that_the_paper_lacks_is_drawn_from_the_start():
    """SimNPO: the ranges of NPO-KL, and no printed settings."""
    assert tune.ranges("simnpo") == tune.ranges("npo_kl")
    assert (
        tune.candidate("simnpo", 0, 30) != tune.candidate("simnpo", 1, 30)
        and tune.candidate("simnpo", 0, 30).keys() == tune.ranges("simnpo").keys()
    )


def test_what_is_searched_is_a_setting_of_its_method():
    """params/search.yml names methods and fields that there are; every method has something to search."""
    own = yaml.safe_load((ROOT / "params" / "search.yml").read_text(encoding="utf-8"))
    for method, spaces in own.items():
        known = {field.name for field in fields(methods.method(method).Hyperparameters)}
        assert spaces.keys() <= known and spaces.items() <= tune.ranges(method).items()
    assert all(tune.ranges(method) for method in TUNED)


def test_n_max_is_never_above_k():
    drawn = [tune.candidate("revs", number, 30) for number in range(2, 60)]
    assert all(settings["n_max"] <= settings["k"] for settings in drawn) and any(
        settings["n_max"] < settings["k"] for settings in drawn
    )


# After a change of code ------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(world, tmp_path, settings_tried, monkeypatch):
    """A folder of rows, a search and two runs, whose code then changes: all of them are stale. Both codes run in this process."""
    from companion.record import verify
    from companion.workflow.profile import defaults

    settings_tried(DRAWN | {3: {"steps": 0}})
    search(world, tmp_path)
    for seed in (1, 2):
        a_run(world, tmp_path, seed=seed)
    real = rows.code_hash
    changed = lambda module: real(module) + ("!" if module == "revs.model.architecture" else "")  # noqa: E731
    monkeypatch.setattr(
        verify,
        "FEW",
        {"memorise": {}, "unlearn": {"forget": 1}, "tune": {"trials": 2, "forget": 1}},
    )

    def drawn(tree, row):
        settings = (
            defaults(row["kind"])
            | row["provenance"]["settings"]
            | verify.FEW[row["kind"]]
            | {"rows": str(tmp_path / tree.name)}
        )
        with monkeypatch.context() as patch:
            patch.setattr(rows, "code_hash", real if tree.name == "before" else changed)
            return (
                unlearn.once(**settings | {"tag": ""})
                if row["kind"] == "unlearn"
                else tune.search(**settings)
            )

    monkeypatch.setattr(verify, "drawn", drawn)
    monkeypatch.setattr(rows, "code_hash", changed)
    assert all(map(rows.stale, rows.find(tmp_path / "rows").values()))
    return tmp_path / "rows"


def test_a_run_by_both_codes_speaks_for_the_rows_of_its_modules(recorded, monkeypatch):
    """One run, made twice, speaks for all of its method, failures too; a search for itself; no result changes."""
    from companion.record import verify

    before, runs, original = rows.find(recorded), [], ft_l.unlearn
    monkeypatch.setattr(
        ft_l,
        "unlearn",
        lambda decoder, targets, *rest: (
            runs.append(len(targets)) or original(decoder, targets, *rest)
        ),
    )
    said = verify.verify(recorded, Path("before"))
    after = rows.find(recorded)
    assert runs == [1] * 6 and said == {
        "verified": sorted(before, key=lambda name: name.startswith("tune/")),
        "different": [],
    }
    assert not any(map(rows.stale, after.values()))
    assert {name: row["result"] for name, row in after.items()} == {
        name: row["result"] for name, row in before.items()
    }
    assert (
        len(
            {row["provenance"]["verified_by"] for row in after.values() if row["kind"] == "unlearn"}
        )
        == 1
    )
    assert verify.verify(recorded, Path("before")) == {"verified": [], "different": []}


def test_rows_that_are_named_speak_for_themselves_alone(recorded):
    from companion.record import verify

    verify.verify(recorded, Path("before"), ["unlearn/*-seed[2]"])
    by = {
        name: row["provenance"]["verified_by"]
        for name, row in rows.find(recorded, kind="unlearn").items()
    }
    (own,) = [name for name in by if name.endswith("seed2")]
    assert [name for name in by if by[name] == own] == [own] and len(set(by.values())) == 2


def test_rows_that_would_be_different_now_stay_stale(recorded, monkeypatch):
    from companion.record import verify

    original, hashed = ft_l.unlearn, rows.code_hash("revs.model.architecture")

    def changed(decoder, targets, hp, *rest):  # only with the present code
        return original(
            decoder,
            targets,
            replace(hp, steps=1) if rows.code_hash("revs.model.architecture") == hashed else hp,
            *rest,
        )

    monkeypatch.setattr(ft_l, "unlearn", changed)
    said = verify.verify(recorded, Path("before"))
    assert len(said["different"]) >= 6 and all(
        rows.stale(row) for row in rows.find(recorded, kind="unlearn").values()
    )


def test_another_code_than_the_one_that_made_the_rows_cannot_speak_for_them(recorded):
    from companion.record import verify

    with pytest.raises(ValueError, match="give the commit before the change"):
        verify.verify(recorded, Path("present"))


def test_a_run_with_more_measures_speaks_for_those_with_fewer(tmp_path, monkeypatch):
    """Not for another model or method, and not if it has no result."""
    from companion.record import verify

    def row(name, *modules, model="one", **result):
        return {
            "kind": "unlearn",
            "name": name,
            "result": result,
            "provenance": {"entry": ["unlearn", *modules], "model": {"name": model}},
        }

    every = [
        row("trial", "a"),
        row("other", "a", model="two"),
        row("wide", "a", "attacks", "public"),
        row("narrow", "a", "attacks"),
        row("b", "b", "attacks"),
        row("fails", "a", "attacks", "cue", failed="why"),
        row("cue", "b", "cue"),
    ]
    monkeypatch.setattr(
        verify.rows, "find", lambda folder, kind: {each["name"]: each for each in every}
    )
    monkeypatch.setattr(verify.rows, "stale", lambda row: True)
    assert sorted(
        sorted(each["name"] for each in group) for group in verify.groups(tmp_path, "unlearn")
    ) == [["b"], ["cue"], ["narrow", "trial", "wide"], ["other"]]
    assert ["narrow"] in [
        [each["name"] for each in group] for group in verify.groups(tmp_path, "unlearn", ["narr*"])
    ]


def test_the_embedded_model_speaks_for_reports_on_any_documents(tmp_path, monkeypatch):
    """Whose documents they were is not in the rows. Of calibrations the quickest speaks for all, with the first secrets of its data."""
    from companion.record import verify

    monkeypatch.setattr(verify, "PLACE", tmp_path / "verify")
    secrets = tmp_path / "secrets.jsonl"
    secrets.write_text(
        "".join(
            json.dumps(
                {
                    "id": str(i),
                    "kind": "text",
                    "group": str(i // 2),
                    "prompt": "a ",
                    "secret": "b",
                    "suffix": ".",
                }
            )
            + "\n"
            for i in range(40)
        )
    )

    def row(kind, model):
        settings = {"model": model, "finetune": False, "dtype": "bfloat16"} | (
            {"documents": "", "secrets": None} if kind == "own" else {"data": str(secrets)}
        )
        return {
            "kind": kind,
            "name": f"{kind}/{model}",
            "result": {},
            "provenance": {
                "entry": (kind,),
                "settings": settings,
                "model": {"name": model},
                "seconds": {},
            },
        }

    every, said = (
        [
            row(kind, model)
            for kind in ("own", "calibrate", "tune", "unlearn")
            for model in ("one", "two")
        ],
        [],
    )
    monkeypatch.setattr(
        verify.rows,
        "find",
        lambda folder, kind: {each["name"]: each for each in every if each["kind"] == kind},
    )
    monkeypatch.setattr(verify.rows, "stale", lambda row: True)
    monkeypatch.setattr(
        verify.subprocess,
        "run",
        lambda command, **_: (
            said.append(dict(zip(command[3::2], command[4::2])))
            or subprocess.CompletedProcess(command, 0)
        ),
    )
    monkeypatch.setattr(
        verify, "prepared", lambda model, data, epochs, where: f"{model}+{data}+{epochs}"
    )
    (reports,), (calibrations,), (searches,), methods = (
        verify.groups(tmp_path, kind) for kind in ("own", "calibrate", "tune", "unlearn")
    )
    assert [len(group) for group in (reports, calibrations, searches, *methods)] == [2, 2, 2, 1, 1]
    for sample in (reports[0], calibrations[1]):
        verify.drawn(tmp_path, sample)
    told = [{name: json.loads(value) for name, value in options.items()} for options in said]
    assert {
        name: told[0][f"--{name}"]
        for name in ("documents", "model", "finetune", "dtype", "minutes")
    } == {
        "documents": "data/documents/files",
        "model": "smollm2-135m+ssn+{}",
        "finetune": False,
        "dtype": "float32",
        "minutes": 0,
    }
    assert told[0]["--out"].endswith("build/verify/own") and (
        told[1]["--model"],
        told[1]["--minutes"],
    ) == ("two", 0)
    assert (
        Path(told[1]["--data"]).name == "secrets.jsonl"
        and datasets.read(told[1]["--data"]) == datasets.read(str(secrets))[: 2 * verify.SECRETS]
    )


def test_the_code_of_a_commit_lies_in_a_folder_of_its_own(tmp_path, monkeypatch):
    """With the build folder of this checkout, which outlives it; an unknown commit is said."""
    from companion.record import verify

    def git(*words):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=A", "-c", "user.email=a@example.com", *words],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (tmp_path / "code.py").write_text("old")
    git("add", "code.py")
    git("commit", "-qm", "old")
    (tmp_path / "code.py").write_text("new")
    (tmp_path / "build" / "models").mkdir(parents=True)
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    monkeypatch.setattr(verify, "BUILD", tmp_path / "build")
    monkeypatch.setattr(verify, "PLACE", tmp_path / "build" / "verify")
    for _ in range(2):
        with verify.checkout("HEAD") as tree:
            assert (tree / "code.py").read_text() == "old" and (tree / "build" / "models").is_dir()
        assert not tree.exists() and (tmp_path / "build" / "models").is_dir()
    with pytest.raises(ValueError, match="git worktree add"), verify.checkout("nowhere"):
        pass
