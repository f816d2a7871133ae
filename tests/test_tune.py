"""Runs that fail, and the search for hyperparameters: what is tried, what is kept, what goes on."""

import json
import random
import weakref
from dataclasses import fields
from unittest import mock

import pytest
import torch
from conftest import build

from companion.experiments import methods, tune, unlearn
from companion.experiments.optimizer import Search
from companion.experiments.settings import check
from companion.experiments.unlearn import Run
from companion.store import paper, rows, versions
from revs.baselines import ft_l
from revs.measures import evaluate
from revs.model import load

pytestmark = pytest.mark.slow  # whole searches

TUNED = ("revs", "ft_l", "memit", "max_entropy", "head_projection", "rmu", "npo_kl")
TUNED += ("least_squares",)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
FT_L = {"lr": 7e-3, "norm_constraint": 1.0, "steps": 2, "loss_break": 1e-9}
DRAWN = {number: FT_L | {"lr": lr} for number, lr in enumerate((1e-4, 3e-2, 1e-2, 7e-3))}
BAD = {"lr": 1e30, "batch": 2}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A tiny model that writes letters only, and a data set of what it writes: all memorised."""
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
        line = {"id": f"r{number}", "kind": "email", "group": f"g{number // 2}"}
        lines.append(line | {"prompt": prompt, "secret": secret, "suffix": "."})
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return {"model": str(folder / "tiny"), "data": str(folder / "set.jsonl"), "adapter": None}


@pytest.fixture
def a_run(world, tmp_path, monkeypatch):
    """a_run(name=value, …): FT-L on two secrets of the tiny world, but for what is given."""
    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    own = {"method": "ft_l", "forget": 2, "hyperparameters": FT_L, "rows": str(tmp_path / "rows")}
    return lambda **more: unlearn.run(check(world | own | more, unlearn.Settings))


@pytest.fixture
def search(world, tmp_path, monkeypatch):
    """search(name=value, …): four trials of FT-L there."""
    monkeypatch.setattr(unlearn, "BUILD", tmp_path / "build")
    monkeypatch.setattr(tune, "MOST", 1)
    own = {"method": "ft_l", "sentences": 1, "trials": 4, "splits": []}
    own |= {"rows": str(tmp_path / "rows")}
    return lambda **more: tune.run(check(world | own | more, tune.Settings))


@pytest.fixture
def alone(world, tmp_path):
    """alone(hyperparameters): a trial as a run of its own, on a model that was loaded for it."""
    own = {"method": "ft_l", "seed": 0, "sentences": 1, "generate": False}
    own |= {"rows": str(tmp_path / "alone")} | world
    return lambda hp, **more: unlearn.run(unlearn.Settings(**own | {"hyperparameters": hp} | more))


@pytest.fixture
def tried(monkeypatch):
    """tried({number: settings}): trials of these numbers get them instead of what is drawn."""
    drawn = Search.ask

    def replace(given: dict[int, dict]) -> None:
        ask = lambda search: given.get(len(search.study.trials), drawn(search))
        monkeypatch.setattr(tune, "printed_settings", lambda *_: [])
        monkeypatch.setattr(Search, "ask", ask)

    return replace


@pytest.fixture
def measured(monkeypatch):
    """The names of the runs that were measured, not found."""
    names, measure = [], Run.measure
    noted = lambda run, *rest, **more: names.append(run.name) or measure(run, *rest, **more)
    monkeypatch.setattr(Run, "measure", noted)
    return names


@pytest.fixture
def found(tmp_path):
    """found(): the unlearn rows by the end of their names: trial00, seed1, …"""
    of = lambda name: name.rpartition("-")[2]
    return lambda: {
        of(name): row for name, row in rows.find(tmp_path / "rows", kind="unlearn").items()
    }


# One run ------------------------------------------------------------------------------------------


def test_the_model_has_memorised_and_a_run_unlearns(a_run, tmp_path):
    """Everything exact before, less of it after; the row says what it took, and is found again."""
    row = a_run()
    before, after, edit = (row["result"][part] for part in ("before", "after", "edit"))
    assert before["specificity"] == 1 and before["efficacy"] == 0 < after["efficacy"]
    assert 0 < after["specificity_within_50"] <= 1 and edit["layers"] == [0, 1, 2]
    assert edit["weights"] > 0 and row["extra_memory_mb"] >= 0
    kept = rows.read(tmp_path / "rows/unlearn/set/tiny/ft_l-seed1.json")
    assert row.items() <= kept.items()
    assert (row["method"], row["seed"], row["tag"], row["overrides"]) == ("ft_l", 1, "", {})
    settings = set(unlearn.Settings().model_dump()) - {"tag", "overrides", "rows"}
    assert row["settings"].keys() == settings
    row = a_run(overrides={"lr": 7e-3}, tag="curve-lr0.007")  # as a sweep's grid gives them
    assert row["name"].endswith("ft_l-seed1-curve-lr0.007") and row["overrides"] == {"lr": 7e-3}


@pytest.mark.parametrize(
    "ended, raised, said",
    [
        (torch.OutOfMemoryError("1 GiB.\nMore."), MemoryError, "ft_l ran out of memory: give it"),
        (MemoryError(), MemoryError, "ft_l ran out of memory: give it"),
        (torch.linalg.LinAlgError("It is singular."), FloatingPointError, "It is singular."),
        (FloatingPointError("It diverged."), FloatingPointError, "It diverged."),
    ],
)
def test_a_run_that_fails_leaves_a_row_that_says_why(
    a_run, found, monkeypatch, refused, ended, raised, said
):
    """Whatever the allocator said in many lines: one sentence, and no number."""
    monkeypatch.setattr(ft_l, "unlearn", mock.Mock(side_effect=ended))
    with refused(said, raised) as error:
        a_run()
    row = found()["seed1"]
    assert row["extra_memory_mb"] is None
    assert row["result"] == {"failed": str(error.value)}


def test_a_run_that_cannot_be_measured_leaves_the_model_as_it_was(a_run, world, monkeypatch):
    """Trials share one model: what a failed one did to it must not reach the next."""
    stages, real, effectiveness = [], unlearn.LoadedModel, evaluate.effectiveness
    monkeypatch.setattr(
        unlearn, "LoadedModel", lambda *given: stages.append(real(*given)) or stages[-1]
    )

    def only_before(*given):
        if stages:
            raise FloatingPointError("Nothing could be measured.")
        return effectiveness(*given)

    monkeypatch.setattr(evaluate, "effectiveness", only_before)
    with pytest.raises(FloatingPointError, match="Nothing could be measured"):
        a_run()
    left, untouched = stages[0].decoder.model.state_dict(), load.load(world["model"]).model
    assert all(torch.equal(left[name], value) for name, value in untouched.state_dict().items())


def test_a_failure_never_takes_the_place_of_a_result(a_run, found, measured):
    """A failed row gives way to the next failure and to a result, and is tried again."""
    for lr in (1e30, 1e31):
        with pytest.raises(FloatingPointError, match=r"NPO-KL diverged .* lower the learning rate"):
            a_run(method="npo_kl", hyperparameters=BAD | {"lr": lr})
        assert f"learning rate of {lr:g}" in found()["seed1"]["result"]["failed"]
    row = a_run(method="npo_kl", hyperparameters={"lr": 1e-4})
    with pytest.raises(FloatingPointError):
        a_run(method="npo_kl", hyperparameters=BAD)
    assert found()["seed1"]["result"] == row["result"] and len(measured) == 4
    assert a_run(method="npo_kl", hyperparameters={"lr": 1e-4})["result"] == row["result"]
    assert len(measured) == 4  # a finished one is not repeated


def test_measures_stand_in_the_row_where_they_are_asked_for(a_run, tmp_path, monkeypatch):
    """Resistance to attacks, the depths of each unlearned secret; without them, the same result.
    What a measure reads is among the run's inputs."""
    monkeypatch.setattr(methods, "measure_inputs", lambda name: {f"text of {name}": "its hash"})
    more = ["attacks", "general_text", "perturbations", "replacement"]
    row = a_run(measures=more, tag="more")
    items = rows.per_example(rows.read(tmp_path / "rows/unlearn/set/tiny/ft_l-seed1-more.json"))
    forgotten, others = items[items["part"] == "forget"], items[items["part"] != "forget"]
    assert all(len(layers) == 3 for layers in forgotten["logit_lens"])
    assert others["logit_lens"].isna().all()
    assert row["seconds"]["measures"] >= 0
    assert sum(row["result"]["replacement"].values()) == 2
    assert {f"text of {name}" for name in more} <= row["inputs"].keys()
    assert row["result"]["general_text"]["perplexity"] > 1
    same = ("before", "after", "edit")
    plain = a_run()["result"]
    assert {name: row["result"][name] for name in same} == {name: plain[name] for name in same}
    assert all(map(methods.measure, versions.MEASURES.keys() - {"integrity"}))


# The search ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ft_l", "revs"])
def test_every_trial_is_what_a_run_of_its_own_would_be(search, alone, found, tried, method):
    """The model is put back after each: rows equal to separate runs; the best is named."""
    if method == "ft_l":
        tried(DRAWN)
    row = search(method=method)
    assert row["name"] == f"tune/set/tiny/{method}-seed0" and row["kind"] == "tune"
    trials, result, scores = found(), row["result"], {}
    assert sorted(trials) == [f"trial{n:02d}" for n in range(4)]
    for number, (tag, trial) in enumerate(sorted(trials.items())):
        settings = trial["settings"]
        if method == "ft_l" or number < 2:
            given = DRAWN if method == "ft_l" else tune.printed_settings(method, 3, "Emails")
            assert settings["hyperparameters"] == given[number]
        assert [settings[name] for name in ("seed", "sentences", "forget")] == [0, 1, None]
        assert trial["overrides"] == {"trial": number} and trial["result"]["after"]["forget"] == 2
        if method == "ft_l" or number > 2:
            own = alone(settings["hyperparameters"], method=method, tag=tag)
            assert (trial["result"], trial["settings"]) == (own["result"], own["settings"])
        scores[number] = trial["result"]["after"]["unlearning_score"]
    assert (result["trials"], result["failed"]) == (4, 0)
    assert result["unlearning_score"] == scores[result["best"]] == max(scores.values())
    best = trials[f"trial{result['best']:02d}"]["settings"]["hyperparameters"]
    assert result["hyperparameters"] == best
    assert method != "ft_l" or len(set(scores.values())) > 2


def test_a_trial_has_what_makes_its_method_what_it_is(search, alone, found, tried):
    """Methods that share a module differ in a setting that is not searched."""
    method = "max_entropy"
    given = {"layers": [0, 1], "lr": 0.5, "steps": 3, "mom2_update_weight": 1.0, "n_max_len": 20}
    given |= {"loss_break": 1e-9, "prob_coefficient": 10.0, "kl_factor": 0.0}
    given |= {"clamp_norm_factor": 2.0}
    tried({0: given})
    assert search(method=method, trials=1)["result"]["hyperparameters"] == given
    trial, own = found()["trial00"], alone(given, method=method, tag="trial00")
    assert trial["settings"] == own["settings"] and trial["result"] == own["result"]
    made_by = methods.fixed_settings(method)["objective"]
    assert trial["settings"]["hyperparameters"]["objective"] == made_by


def test_a_search_with_settings_held_fast_stands_beside_the_other(search, tmp_path):
    """Every trial has them; its rows have the tag; test_promote.py has which one chooses."""
    plain = search(method="revs")
    raw = search(method="revs", hyperparameters={"projection": "raw"}, tag="raw")
    assert raw["name"] == plain["name"] + "-raw" and raw["tag"] == "raw"
    every = rows.find(tmp_path / "rows", kind="unlearn")
    of = lambda name: every[name]["settings"]["hyperparameters"]
    name = plain["name"].replace("tune", "unlearn", 1)
    for number in range(4):
        held = of(f"{name}-trial{number:02d}") | {"projection": "raw"}
        assert of(f"{name}-raw-trial{number:02d}") == held


def test_what_is_held_is_not_searched_and_shares_are_of_it(search, found):
    """The row lists the ranges of what was drawn alone."""
    result = search(method="revs", hyperparameters={"k": 50})["result"]
    assert result["failed"] < 4 and result["ranges"].keys() == tune.ranges("revs").keys() - {"k"}
    drawn = [found()[f"trial{n:02d}"]["settings"]["hyperparameters"] for n in (2, 3)]
    assert all(one["k"] == 50 and 1 <= one["n_max"] <= 50 for one in drawn)
    assert not any("failed" in found()[f"trial{n:02d}"]["result"] for n in (2, 3))


def test_other_ranges_lie_over_those_of_the_file(search, found):
    """Of one setting alone; the row has them, the trials' settings say nothing of them."""
    space = {"low": 1e-5, "high": 1e-4}
    row = search(ranges={"lr": space}, trials=5)
    assert row["result"]["ranges"] == tune.ranges("ft_l") | {"lr": space}
    assert row["settings"]["ranges"] == {"lr": space}
    settings = [found()[f"trial{n:02d}"]["settings"] for n in (2, 3, 4)]
    assert all(1e-5 <= one["hyperparameters"]["lr"] <= 1e-4 for one in settings)
    assert not any("ranges" in one for one in settings)


@pytest.mark.parametrize(
    "given, said",
    [
        (
            {"ranges": {"rl": {"low": 1e-5, "high": 1e-4}}},
            "ft_l has no range of 'rl': there are lr",
        ),
        ({"ranges": {"lr": 1e-5}}, "The range of lr is 1e-05, but must be like"),
        ({"ranges": {"lr": {"low": 1e-4, "high": 1e-5}}}, "The range of lr is"),
        ({"splits": [1], "measures": ["none"]}, "There is no measure 'none': there are "),
        ({"top_trials": 0}, "top_trials is 0, but must be at least 1"),
    ],
)
def test_what_cannot_be_searched_or_measured_is_refused_at_once(
    search, tmp_path, refused, given, said
):
    with refused(said):
        search(**given)
    assert not list(tmp_path.rglob("*.json"))


def test_a_search_goes_on_where_it_was(search, tmp_path, tried, measured):
    """A trial whose row is current is not measured again: all of them, or all but one."""
    tried(DRAWN)
    first = search()["result"]
    measured.clear()
    assert search()["result"] == first and not measured
    (tmp_path / "rows/unlearn/set/tiny/ft_l-seed0-trial02.json").unlink()
    assert search()["result"] == first and measured.pop().endswith("trial02")
    tried(DRAWN | {3: FT_L | {"lr": 5e-2}})
    search()
    assert [name[-2:] for name in measured] == ["03"]


def test_a_trial_that_fails_is_counted_and_does_not_stop_the_others(search, alone, found, tried):
    """Divergence, layers beyond the model and impossible settings; the rest starts clean."""
    diverges = {"lr": 3e37, "norm_constraint": 1e38, "steps": 3}
    tried(DRAWN | {0: diverges, 2: {"layers": [9]}, 3: {"steps": 0}})
    result, trials = search()["result"], found()
    assert (result["trials"], result["failed"], result["best"]) == (4, 3, 1)
    for tag, said in (("trial00", "diverged"), ("trial02", "layers are [9]")):
        assert said in trials[tag]["result"]["failed"]
    assert trials["trial01"]["result"] == alone(DRAWN[1])["result"]


def test_the_best_trials_run_on_further_splits_and_the_mean_chooses(
    search, alone, tried, tmp_path, monkeypatch
):
    """Each of them is a run of its own there; one split's model is let go before the next one's."""
    tried(DRAWN)
    once, living = search()["result"], []

    class Stage(unlearn.LoadedModel):
        def __init__(self, plan):
            assert not [one for one in living if one() is not None]
            super().__init__(plan)
            self.itself = self
            living.append(weakref.ref(self.decoder.model))

    monkeypatch.setattr(tune, "LoadedModel", Stage)
    result = search(splits=[1, 2], top_trials=2, measures=["attacks"])["result"]
    runs = rows.find(tmp_path / "rows", kind="unlearn")

    of = lambda number, seed: runs[f"unlearn/set/tiny/ft_l-seed{seed}-trial{number:02d}"]
    score = lambda number, seed: of(number, seed)["result"]["after"]["unlearning_score"]
    ranked = sorted(DRAWN, key=lambda number: -score(number, 0))
    assert list(result["top_trials"]) == list(map(str, ranked[:2])) and once["best"] == ranked[0]
    for number in ranked[:2]:
        assert result["top_trials"][str(number)] == [score(number, seed) for seed in (0, 1, 2)]
        own = alone(DRAWN[number], seed=2, measures=["attacks"])
        assert of(number, 2)["result"] == own["result"] and "attacks" in own["result"]
        assert of(number, 2)["settings"] == own["settings"]
    assert len(runs) == len(DRAWN) + 4 and len(living) == 3
    means = {number: sum(result["top_trials"][str(number)]) / 3 for number in ranked[:2]}
    assert result["best"] == max(means, key=means.get)
    assert result["unlearning_score"] == means[result["best"]]
    assert result["hyperparameters"] == DRAWN[result["best"]]


def test_if_every_trial_fails_one_sentence_says_so(search, tmp_path, tried, refused):
    tried({number: {"steps": 0} for number in range(4)})
    with refused("All 4 trials of ft_l failed: look at"):
        search()
    assert not list((tmp_path / "rows").rglob("tune/**/*.json"))


def test_trials_that_leave_every_target_where_it_was_are_not_counted(search, tried, monkeypatch):
    """Two of them more than were asked for; at most twice as many, however few count."""
    still = FT_L | {"lr": 1e-9}
    tried(DRAWN | {0: still, 1: still, 4: DRAWN[1], 5: DRAWN[3]})
    monkeypatch.setattr(tune, "MOST", 2)
    monkeypatch.setattr(tune, "EFFECTIVE", 0.01)
    result = search()["result"]
    assert (result["trials"], result["effective"], result["failed"]) == (6, 4, 0)
    tried(dict.fromkeys(range(9), still))
    result = search(tag="still")["result"]
    assert (result["trials"], result["effective"]) == (8, 0)


# What is tried ------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["SSN", "Emails"])
@pytest.mark.parametrize("method", TUNED[:-1])
def test_the_first_two_trials_are_the_papers_settings(method, data):
    """Of its two models in their order; only what the method has, margins as fractions of the
    vocabulary, layers as far as there are, and the method's own choice where this model has none of
    them: the logit lens of Max-Entropy and Head-Projection begins at layer 15."""
    title = methods.registry()[method]["title"]
    for model, found in zip(
        tune.PAPER_VOCABULARY, tune.printed_settings(method, 9, data), strict=True
    ):
        settings = paper.hyperparameters(title, model, data)
        names = settings.keys() & methods.hyperparameter_names(method)
        assert found and found.keys() == names - {"patil_layers"}
        for name, value in found.items():
            printed = settings[name]
            if isinstance(printed, list):
                printed = [one for one in printed if one < 9]
            if name in tune.MARGINS:
                printed = printed / tune.PAPER_VOCABULARY[model]
            assert value == printed
        methods.method(method).Hyperparameters(**found)


def test_a_search_of_draws_alone_tries_no_printed_settings(search, found):
    search(starts=False, trials=2)
    rates = {row["settings"]["hyperparameters"]["lr"] for row in found().values()}
    printed = {settings["lr"] for settings in tune.printed_settings("ft_l", 3, "Emails")}
    assert len(rates) == 2 and not rates & printed


def test_a_method_that_the_paper_lacks_is_drawn_from_the_start_if_it_has_ranges(refused):
    assert tune.ranges("least_squares") and not tune.printed_settings("least_squares", 30, "SSN")
    with refused("There are no ranges to search for 'random': "):
        tune.ranges("random")


@pytest.mark.parametrize("method", TUNED)
def test_whatever_is_drawn_is_a_setting_of_its_method(method):
    """Every range names a field, and no draw is refused."""
    kind, search = methods.method(method).Hyperparameters, Search(tune.ranges(method), 30)
    assert tune.ranges(method).keys() <= {field.name for field in fields(kind)}
    for number in range(40):
        kind(**search.ask())
        search.tell(number % 7)
