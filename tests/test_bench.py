"""The benchmark, on tiny models: what its rows hold, that it leaves the model alone, and that its counts are right. No time is judged."""

import argparse
import math
import re
import shlex
import weakref
from dataclasses import replace

import pytest
import torch
import yaml
from test_results import shelf  # noqa: F401
from test_tune import nothing_in_the_project, world  # noqa: F401
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from companion.pages import paper, results, speed
from companion.pages.tables import DASH
from companion.record import rows
from companion.runs import bench, check, methods, operations, stopwatch, unlearn
from companion.runs.stopwatch import Stopwatch
from companion.workflow import profile
from revs.measures import evaluate
from revs.method import algorithm as method
from revs.method import quick
from revs.method.edit import Edit
from revs.method.vocabulary import BLOCK, Vocabulary
from revs.model.targets import Target, encode

TINY = {
    "model": "tiny",
    "data": "random",
    "finetune": False,
    "targets": 3,
    "repeats": 2,
    "hyperparameters": {
        "n_max": 20,
        "k": 30,
        "r_h": 0.6,
        "eps_r_h": 0.1,
        "r_n": 0.9,
        "eps_r_n": 0.04,
    },
}
WAYS = {
    "token": {"released", "ours", "as low", "floor"},
    "floor": {"ours", "floor", "forward"},
    "selection": {"ranked", "counted"},
    "memory": {"ours"},
    "targets": {"3"},
    "shapes": {"ours"},
    "schedules": {"exact", "paper", "layer_major"},
    "attacks": {"released", "ours", "floor"},
}


@pytest.fixture(autouse=True)
def small_products(monkeypatch):
    """The machine's rates are not what is tested."""
    monkeypatch.setattr(
        bench,
        "rates",
        lambda decoder: dict.fromkeys(("weights", "float32", "float64", "bandwidth"), 1e9),
    )


def made(what: str, tmp_path, **more) -> dict:
    return bench.run(what=what, rows=str(tmp_path), **TINY | more)


def stage(**more) -> bench.Stage:
    """A stage on the tiny shape, without a row."""
    settings = TINY | {"seed": 1, "dtype": "float32", "device_map": None} | more
    return bench.Stage(
        "", [], settings, method.Hyperparameters(**settings["hyperparameters"]), "test"
    )


# rows --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", [what for what in WAYS if what != "attacks"])
def test_a_measurement_is_a_row_and_is_not_made_twice(what, tmp_path, monkeypatch):
    """As many times as rounds, their medians, every single time in the items; a current row is left alone, another setting is another row."""
    row = made(what, tmp_path)
    result, items = row["result"], rows.items(rows.read(tmp_path / f"{row['name']}.json"))
    assert (
        row["name"] == f"bench/random/tiny/{what}"
        and rows.read(tmp_path / f"{row['name']}.json") == row
        and not rows.stale(row)
    )
    assert set(result["timings"]) == WAYS[what] == set(result["medians"]) and result["tokens"] == 6
    for way, each in result["timings"].items():
        assert len(each) == 2 and result["medians"][way] == pytest.approx(sum(each) / 2)
        if what != "targets":
            assert sum(each) == pytest.approx(items.loc[items["way"] == way, "seconds"].sum())
    assert {
        "companion.runs.bench",
        "revs.method.algorithm",
        "companion.runs.released",
        "revs.method.vocabulary",
        "revs.measures.attacks",
    } <= set(row["provenance"]["modules"])
    monkeypatch.setitem(bench.WHAT, what, None)
    assert made(what, tmp_path) == row
    with pytest.raises(TypeError):
        made(what, tmp_path, seed=2)


@pytest.mark.parametrize("what", [what for what in WAYS if what != "attacks"])
def test_a_measurement_leaves_the_model_as_it_was(what):
    place = stage()
    before = {name: value.clone() for name, value in place.decoder.model.state_dict().items()}
    bench.WHAT[what](place)
    assert all(
        torch.equal(value, before[name]) for name, value in place.decoder.model.state_dict().items()
    )
    assert not any(part._forward_hooks for part in (*place.decoder.ff2, *place.decoder.layers))


def test_a_token_is_measured_from_the_unedited_model(tmp_path):
    """Ranks, layers and counts are those of each token alone, in every round."""
    row = made("token", tmp_path)
    result, items = row["result"], rows.items(rows.read(tmp_path / f"{row['name']}.json"))
    place = stage()
    for number, (ids, t) in enumerate(place.pairs):
        edit = Edit(place.decoder)
        method.unlearn_token(place.decoder, Vocabulary(place.decoder), ids, t, place.hp, edit)
        r = bench.output_rank(place.decoder, ids, t)
        of_token = items[(items["token"] == number) & (items["way"] == "ours")]
        assert (
            result["ranks"]["ours"][number] == r
            and set(of_token["rank"]) == {r}
            and set(of_token["layers"]) == {len(edit.layers)}
        )
        edit.undo()
        least = items[(items["token"] == number) & (items["way"] == "floor")]
        assert set(least["layers"]) == set(
            items.loc[(items["token"] == number) & (items["way"] == bench.LOWER), "layers"]
        )
        assert set(items.loc[(items["token"] == number) & (items["way"] != "floor"), "before"]) == {
            bench.output_rank(place.decoder, ids, t)
        }
    released = items[(items["way"] == "released") & (items["round"] == 0)]
    assert (
        result["counts"]["forwards"] == 6 * 3
        and result["counts"]["layers"] == released["layers"].sum() > 0
    )
    assert result["margin"] == round(0.6 * 500) - round(0.1 * 500)


def test_as_low_is_the_smallest_margin_that_is(tmp_path, monkeypatch):
    """One rank less and the token ends higher than the released procedure leaves it; where what was asked for is low enough, it is left at that."""
    rendered = bench.released.unlearn_token
    monkeypatch.setattr(
        bench.released,
        "unlearn_token",
        lambda decoder, project, ids, t, hp, edit: rendered(
            decoder, project, ids, t, replace(hp, r_h=hp.r_h + 60 * (t % 2)), edit
        ),
    )
    row = made("token", tmp_path, repeats=1)
    ranks, items = row["result"]["ranks"], rows.items(rows.read(tmp_path / f"{row['name']}.json"))
    found, place = items[items["way"] == bench.LOWER]["margin"].tolist(), stage()
    assert min(found) == row["result"]["margin"] < max(found)
    for number, ((ids, t), margin) in enumerate(zip(place.pairs, found)):
        assert ranks[bench.LOWER][number] >= ranks["released"][number]
        if margin > row["result"]["margin"]:
            _, edit = bench.ours(
                place,
                Vocabulary(place.decoder),
                ids,
                t,
                hp=replace(place.hp, r_h=margin - 1, eps_r_h=0),
            )
            assert bench.output_rank(place.decoder, ids, t) < ranks["released"][number]
            edit.undo()


def test_the_floor_has_as_many_products_as_layers_are_edited(tmp_path, monkeypatch):
    """One product for each layer in which candidates were looked at; the parts are parts of what was watched."""
    unembed, sizes = Vocabulary.unembed, []
    monkeypatch.setattr(
        Vocabulary,
        "unembed",
        lambda self, y: sizes.append(len(y) if y.ndim > 1 else 1) or unembed(self, y),
    )
    row = made("floor", tmp_path, repeats=1)
    result, items = row["result"], rows.items(rows.read(tmp_path / f"{row['name']}.json"))
    layers = items.loc[items["way"] == "ours", "layers"].sum()
    assert result["work"]["layers"] == layers > 0 and (sizes.count(30), sizes.count(32)) == (
        layers,
        2 * layers,
    )  # the floor; ours and ours watched, with FF₂'s output and the stream
    assert (
        set(result["parts"])
        == {"forward", "direction", "gate", "candidates", "selection", "edit"}
        == set(speed.PARTS) - {"once"}
    )
    assert (
        result["work"]["prompt"] == sum(len(ids) for ids, _ in stage().pairs)
        and result["work"]["moves"] > 0
    )


def test_targets_are_one_sentence_of_each_secret_first(world, tmp_path, monkeypatch):  # noqa: F811
    """A second sentence of a secret comes after the first of all others; the curve is the sum of single times, and of what is made once."""
    unlearned = []
    of = {}
    monkeypatch.setattr(
        bench,
        "encode",
        lambda record, *more: (
            of.setdefault(tuple((made := encode(record, *more)).prompt_ids), made.group) and made
        ),
    )
    monkeypatch.setattr(bench, "NUMBERS", (2, 4, 200))
    token = method.unlearn_token
    monkeypatch.setattr(
        method,
        "unlearn_token",
        lambda decoder, vocabulary, ids, *more: (
            unlearned.append(ids) or token(decoder, vocabulary, ids, *more)
        ),
    )
    row = bench.run(what="targets", rows=str(tmp_path), repeats=1, seed=5, **world)
    items, medians = rows.items(rows.read(tmp_path / f"{row['name']}.json")), row["result"]["medians"]
    groups = [
        next(group for prompt, group in of.items() if list(prompt) == ids[: len(prompt)])
        for ids in unlearned[::2]
    ]
    assert len(groups) == 8 and len(set(groups[:4])) == len(set(groups[4:])) == 4
    assert (
        list(medians) == ["2", "4", "8"]
        and row["result"]["tokens"] == 16 == len(items)
        and row["result"]["secrets"] == 4
    )
    assert (
        medians["4"] - medians["2"]
        == pytest.approx(items.loc[items["target"].between(3, 4), "seconds"].sum())
        and medians["8"] > items["seconds"].sum()
    )


def test_many_targets_are_the_same_mixture_in_whatever_number():
    """Of every number of secrets the part of each kind is that of all, up to one; the kind with more sentences for each secret comes no earlier."""
    every = [
        Target(f"{kind}{group}-{sentence}", kind, f"{kind}{group}", [], [], ())
        for kind, groups, sentences in (("a", 40, 5), ("b", 60, 2), ("c", 60, 1))
        for group in range(groups)
        for sentence in range(sentences)
    ]
    order = bench.mixed(every, 1)
    assert (
        sorted(order, key=every.index) == every
        and len({target.group for target in order[:160]}) == 160
        and bench.mixed(every, 2) != order
    )
    for number in (10, 20, 50, 100, 160):
        assert all(
            abs(sum(target.kind == kind for target in order[:number]) - number * share) <= 1
            for kind, share in (("a", 1 / 4), ("b", 3 / 8), ("c", 3 / 8))
        )


def test_evaluation_and_attacks_find_the_same_both_ways(world, tmp_path, monkeypatch):  # noqa: F811
    row = bench.run(what="attacks", rows=str(tmp_path), repeats=1, targets=2, **world)
    assert (
        row["result"]["agreement"] == 1
        and row["result"]["furthest"] == 0
        and set(row["result"]["timings"]) == WAYS["attacks"]
    )
    assert row["result"]["tokens"] == 2 * (
        2 + 2
    )  # target tokens of the sentences to forget, seen and unseen
    monkeypatch.setattr(speed, "row", lambda what, *_: row if what == "attacks" else None)
    assert "One pass of every text" in speed.bounds("m", "d") and "floors" not in speed.bounds(
        "m", "d"
    )
    calls = row["result"]["calls"]
    assert (
        calls["vectors"] == 2 * 2 * 3 + 2 * 2
    )  # Logit-Lens, Delta and Perturbation for each token, ranks of the unseen
    assert (
        f"for {calls['vectors']:,} passes and {calls['logits']:,} projections"
        in speed.evaluation("m", "d").behind
        and "without greedy tokens" in speed.evaluation("m", "d").behind
        and "apart" not in speed.evaluation("m", "d").behind
        and "ours: " in speed.one_run_parts(row)
    )
    row["result"]["furthest"] = 3
    assert (
        f"and the others 3 of {row['result']['shape']['V']:,} ranks apart at most"
        in speed.evaluation("m", "d").behind
    )


def test_a_fine_tune_is_timed_in_both_precisions_from_the_same_weights(
    world, tmp_path, monkeypatch
):  # noqa: F811
    seen, learn = [], bench.memorise
    monkeypatch.setattr(
        bench,
        "memorise",
        lambda decoder, some, tuning: (
            seen.append((tuning.autocast, len(some), decoder.neurons(0).clone()))
            or learn(decoder, some, tuning)
        ),
    )
    row = bench.run(what="memorising", rows=str(tmp_path), repeats=2, **world)
    assert [autocast for autocast, *_ in seen] == [False, False, True, False, True] and all(
        number == seen[0][1] and torch.equal(weights, seen[0][2]) for _, number, weights in seen
    )
    assert set(row["result"]["timings"]) == {"float32", "bfloat16"} and row["result"]["tokens"] > 0
    with pytest.raises(ValueError, match="random ones have none"):
        made("memorising", tmp_path)


def test_schedules_say_what_the_model_does_after_them(tmp_path):
    result = made("schedules", tmp_path)["result"]
    place = stage()
    edit = method.unlearn(place.decoder, place.split.forget, place.asked)
    assert (
        result["edits"]["exact"] == edit.summary()
        and result["edits"]["paper"]["moves"] > 0
        and result["edits"]["layer_major"]["moves"] > 0
    )
    found = evaluate.secret_ranks(place.decoder, place.split.forget)
    assert result["ranks"]["exact"] == [
        found[target.id][position] for target in place.split.forget for position in target.T
    ]


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"what": "flor"}, "nothing called 'flor' to measure: did you mean 'floor'"),
        ({"what": "floor", "repeats": 0}, "repeats is 0"),
        ({"what": "attacks"}, "random ones have none"),
        ({"what": "floor", "model": "tini"}, "no shape 'tini': did you mean 'tiny'"),
        ({"what": "floor", "hyperparameters": {"n_mx": 3}}, "did you mean 'n_max'"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_row(wrong, said, tmp_path, one_sentence):
    with pytest.raises(ValueError, match=said) as error:
        bench.run(**TINY | {"rows": str(tmp_path)} | wrong)
    assert "\n" not in str(error.value) and not list(tmp_path.rglob("*.json"))


# stopwatch and counts ----------------------------------------------------------------------------------------------------


def test_a_part_inside_a_part_is_not_charged_twice(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(stopwatch, "clock", lambda: float(next(now)))

    class Thing:
        def outer(self):
            return self.inner() + 1

        def inner(self):
            return 1

    watch = Stopwatch()
    with watch.watching("rest", [(Thing, "outer", "a"), (Thing, "inner", "b")]):
        assert Thing().outer() == 2
    assert dict(watch.seconds) == {"rest": 2, "a": 2, "b": 1} and watch.calls == {
        ("a", "outer"): 1,
        ("b", "inner"): 1,
    }
    assert Thing.outer.__qualname__.endswith("Thing.outer") and not hasattr(
        Thing.outer, "__wrapped__"
    )


@pytest.mark.parametrize(
    ("dtype", "numbers", "r_h"),
    [
        ("float32", {"n_max": 20, "k": 30}, 0.9997),
        ("bfloat16", {"n_max": 20, "k": 30}, 0.9997),
        ("float32", {"n_max": 10, "k": 200}, 0.9997),
        ("float32", {"n_max": 20, "k": 30}, 0.99),
    ],
    ids=["float32", "bfloat16", "counted", "some closed"],
)
def test_operations_are_those_that_are_made(dtype, numbers, r_h, monkeypatch):
    """Products counted by torch while a run is made against the formulae; rank-one updates and attention of a text with itself are what they leave out."""
    monkeypatch.setattr(
        bench,
        "shape",
        lambda name: {
            "hidden_size": 64,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 3000,
        },
    )
    place = stage(
        dtype=dtype,
        repeats=1,
        hyperparameters=TINY["hyperparameters"] | numbers | {"r_h": r_h, "eps_r_h": 0, "r_n": 0.5},
    )
    result, _ = bench.shapes(place)
    with FlopCounterMode(
        display=False,
        custom_mapping={torch.ops.aten.mv: lambda matrix, vector, **_: 2 * matrix[0] * matrix[1]},
    ) as counter:
        edit = method.unlearn(place.decoder, place.split.forget, place.asked)
    assert (result["share"] < 1) == (numbers["k"] == 200) and result["work"]["k"] == numbers["k"]
    work = result["work"] | {
        "k": operations.projected(numbers["k"], numbers["n_max"], result["share"])
    }
    parts = operations.operations(place.shape(), work, result["tokens"])
    in_output = (
        2 * place.shape()["d"] * len(edit.moves) * work["prompt"] / result["tokens"]
    )  # what edits do to the stream, too little for a part of its own
    layers = 4 * result["tokens"]
    assert (work["layers"] == layers) == (r_h > 0.999) and 0 < work["gates"] <= layers
    assert sum(flops for flops, _ in parts.values()) + in_output == pytest.approx(
        counter.get_total_flops(), rel=1e-3
    )
    assert place.shape() == operations.of_config(bench.shape(""), 4 if dtype == "float32" else 2)
    assert set(parts) == set(result["parts"]) == set(operations.FORMULAE) == set(speed.PARTS)


def test_operations_are_asked_for_as_on_a_gpu(monkeypatch):
    """However small a CPU's blocks of U are, and however few neurons it edits at a time."""
    place = stage(dtype="bfloat16")
    asked = bench.asked_for(place)["calls"]["operations"]
    monkeypatch.setitem(BLOCK, "cpu", 32)
    monkeypatch.setattr(quick, "AT_ONCE", 1)
    assert bench.asked_for(place)["calls"]["operations"] == asked > 0


class Live(TorchDispatchMode):
    """Bytes of all tensors that there are, at the highest."""

    def __init__(self):
        super().__init__()
        self.sizes, self.most = {}, 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        given = {
            value.untyped_storage().data_ptr()
            for value in tree_leaves((arguments, named))
            if isinstance(value, torch.Tensor)
        }
        made = function(*arguments, **(named or {}))
        for value in tree_leaves(made):
            if isinstance(value, torch.Tensor) and (
                place := value.untyped_storage().data_ptr()
            ) not in given | set(self.sizes):
                self.sizes[place] = value.untyped_storage().nbytes()
                weakref.finalize(value.untyped_storage(), self.sizes.pop, place, None)
        self.most = max(self.most, sum(self.sizes.values()))
        return made


def test_memory_is_what_is_alive(monkeypatch):
    """Of the paper's numbers of neurons, with those of a layer edited all at once, as on a GPU: at most what is foreseen, and not much less."""
    monkeypatch.setattr(
        bench,
        "shape",
        lambda name: {
            "hidden_size": 64,
            "intermediate_size": 1024,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "vocab_size": 20000,
        },
    )
    monkeypatch.setattr(quick, "AT_ONCE", 45)
    place = stage(
        hyperparameters={
            "n_max": 45,
            "k": 1000,
            "r_h": 0.9,
            "eps_r_h": 0.0,
            "r_n": 0.95,
            "eps_r_n": 0.01,
            "gate": "mlp",
            "stop": "mlp",
        }
    )
    vocabulary, (ids, t) = Vocabulary(place.decoder), place.pairs[0]
    with Edit(place.decoder) as edit, Live() as live:
        method.unlearn_token(place.decoder, vocabulary, ids, t, place.hp, edit)
    assert (
        len(edit.moves) == 45
        and 0.3
        < (live.most + vocabulary.factor.nbytes)
        / operations.extra(place.shape(), 1000, 45)["after"]
        < 1
    )


def test_a_part_takes_as_long_as_the_slower_of_its_two_sides():
    rates = {"weights": 1e3, "float32": 10.0, "float64": 1.0, "bandwidth": 5.0}
    assert operations.seconds(
        {"gate": (100, 10), "edit": (0, 20), "once": (30, 10), "forward": (1000, 10)}, rates
    ) == {"gate": 10, "edit": 4, "once": 30, "forward": 2}


# the page ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(shelf, tmp_path, monkeypatch):  # noqa: F811
    """Rows of the tiny model in the place of the recorded ones, targets as those of the sets together."""
    monkeypatch.setattr(bench, "NUMBERS", (1, 2, 3))
    for what in ("token", "floor", "selection", "memory", "targets", "schedules"):
        made(what, rows.RECORDED)
    (rows.RECORDED / "bench/synthetic/tiny").mkdir(parents=True)
    for ending in ("json", "items.csv.gz"):
        (rows.RECORDED / f"bench/random/tiny/targets.{ending}").rename(
            rows.RECORDED / f"bench/synthetic/tiny/targets.{ending}"
        )
    path = rows.RECORDED / "bench/synthetic/tiny/targets.json"
    path.write_text(
        path.read_text().replace("bench/random/tiny/targets", "bench/synthetic/tiny/targets")
    )
    return shelf


def test_without_rows_every_goal_says_how_it_is_measured(shelf):  # noqa: F811
    """The command is one that the experiment takes, or the make target; only the large shape has a prediction."""
    table = speed.goals("smollm2-135m", "ssn")
    assert list(table[""]).count(speed.NOT_YET) == len(speed.GOALS) - 2 and list(
        table.loc[table[""] == speed.NOT_YET, "measured"].unique()
    ) == [DASH]
    assert table[""].str.endswith("predicted").sum() == 2
    assert {goal.what for goal in speed.GOALS} | {
        "floor-n100",
        "floor-paper",
        "selection",
        "schedules",
        "shapes",
        "memorising",
        "order",
        *speed.PRECISIONS.values(),
    } == set(speed.commands())
    for command in speed.commands().values():
        words = shlex.split(command)
        run = {"companion.runs.bench": bench, "companion.runs.unlearn": unlearn}[words[2]].run
        parser = argparse.ArgumentParser()
        for name in run.__annotations__:
            parser.add_argument(f"--{name}", type=yaml.safe_load, default=argparse.SUPPRESS)
        check(vars(parser.parse_args(words[3:])), run)
        assert words[:2] == ["python", "-m"] and f"`{command}`" in set(speed.how()["command"])
    assert "--what selection" in speed.selected("smollm2-135m", "ssn")
    assert (
        speed.schedules("smollm2-135m", "ssn")[0].iloc[0, 0]
        == speed.orders("smollm2-135m", "ssn")[0].iloc[0, 0]
        == speed.NOT_YET
    )
    assert (
        "make bench adopt" in speed.machine("smollm2-135m")
        and speed.parts("smollm2-135m", "ssn") == {}
        and speed.targets("smollm2-135m") == []
    )


def test_goals_are_read_from_rows(measured):
    """Ratios are of medians; a goal is met or not as its sign says."""
    result = {
        what: speed.row(what, "tiny", "random")["result"] for what in ("token", "floor", "memory")
    }
    values = {goal.what: goal.read("tiny", "random") for goal in speed.GOALS}
    assert values["memory"].holds is None and "Emails: not measured yet" in values["memory"].behind
    assert values["token"][0] == pytest.approx(
        result["token"]["medians"]["released"] / result["token"]["medians"][bench.LOWER]
    )
    assert values["floor"][0] == pytest.approx(
        result["floor"]["medians"]["ours"] / result["floor"]["medians"]["floor"]
    )
    used = result["memory"]["memory"]
    assert values["memory"][0] == pytest.approx(
        max(*used["once_mb"], max(used["peak_mb"]) - used["undo_mb"]) / used["model_mb"]
    )
    numbers, seconds = zip(*speed.targets("tiny"))
    assert numbers == (1, 2, 3) and values["targets"][0] == pytest.approx(slope(numbers, seconds))
    table = speed.goals("tiny", "random")
    assert (
        set(table[""])
        <= {
            "met",
            "not met",
            speed.NOT_YET,
            speed.UNCHECKED,
            "not checked yet, predicted",
            "not met, predicted",
        }
        and (table[""] == speed.NOT_YET).sum() == 2
    )
    assert "made 3 passes" in speed.released_counts(
        "tiny", "random"
    ) and "2 rounds" in speed.machine("tiny")
    met = table[""].str.startswith("met").sum()
    assert (
        speed.behind("tiny", "random").startswith(f"Of {len(speed.GOALS)} goals {met} are met")
        and speed.behind("tiny", "random").count("\n* *") == (table[""] != speed.NOT_YET).sum()
    )
    assert "To find 20 of 30 neurons" in speed.selected(
        "tiny", "random"
    ) and "the same in 100.0 per cent" in speed.selected("tiny", "random")
    schedules, said = speed.schedules("tiny", "random")
    assert list(schedules["schedule"]) == ["`exact`", "`paper`"] and "times as long" in said
    row = speed.row("floor", "tiny", "random")
    assert list(speed.floors("tiny", "random")["ours ÷ floor"]) == [
        f"{values['floor'][0]:.2f}"
    ] and list(speed.floors("none", "random").iloc[0]) == [speed.NOT_YET]
    many = speed.one_run(speed.row("targets", "tiny", "synthetic"))
    assert list(many["median a token, s"]) == [
        f"{second / (2 * number):.4f}" for number, second in zip(numbers, seconds)
    ]
    assert {"floor, random", "memory, random", "targets", "schedules"} <= set(
        speed.raw("tiny", "random")["measurement"]
    ) and "the last 1 secrets take" in speed.bounds("tiny", "random")
    assert set(speed.one_run(row)["way"]) == WAYS[
        "floor"
    ] and "in per cent: " in speed.one_run_parts(row)
    assert (
        f"Of the {values['floor'][0]:.2f} floors" in speed.bounds("tiny", "random")
        and "Greedy" not in speed.bounds("tiny", "random")
        and speed.bounds("none", "random") == ""
    )


def test_a_measurement_of_older_code_says_so(measured, monkeypatch):
    assert speed.outdated("tiny") == ""
    monkeypatch.setattr(rows, "stale", lambda row: row["result"]["what"] in ("floor", "memory"))
    when = speed.row("floor", "tiny", "random")["provenance"]["when"]
    assert (
        speed.outdated("tiny")
        == f"Measured {when} with the code of that date, which has changed since: `random/tiny/floor`, `random/tiny/memory`."
    )


def slope(numbers, seconds) -> float:
    """Of a least-squares line through the logarithms."""
    x, y = ([math.log(value) for value in values] for values in (numbers, seconds))
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


@pytest.mark.parametrize(
    "sign, met",
    [("≥", (False, True, True)), ("≤", (True, True, False)), ("<", (True, False, False))],
)
def test_a_goal_is_met_or_not(sign, met):
    goal = speed.GOALS[0]._replace(sign=sign, bound=2)
    assert tuple(goal.met(value) for value in (1, 2, 3)) == met


def test_methods_are_timed_in_turn_on_one_split(world, tmp_path, monkeypatch):  # noqa: F811
    """Each with its settings, here for three layers, from the unedited model; scores are those of the first round."""
    monkeypatch.setattr(bench, "AGAIN", 1e9)
    quick = dict.fromkeys(
        ("memit", "max_entropy", "head_projection"), {"layers": [1], "steps": 1}
    ) | {"rmu": {"layers": [0, 1], "layer_id": 1, "epochs": 1}, "ft_l": {"steps": 1}}
    given = methods.hyperparameters
    monkeypatch.setattr(
        methods, "hyperparameters", lambda name, *rest: quick.get(name) or given(name, *rest)
    )
    row = bench.run(what="gradient", rows=str(tmp_path), repeats=2, targets=2, **world)
    result, items = row["result"], rows.items(rows.read(tmp_path / f"{row['name']}.json"))
    assert set(result["timings"]) == set(result["effects"]) == set(bench.compared()) and {
        "revs.baselines.rmu",
        "revs.method.algorithm",
    } <= set(row["provenance"]["modules"])
    assert list(items["way"]) == 2 * list(bench.compared())  # in turn
    assert (
        not rows.stale(row)
        and "revs.baselines.rmu" not in rows.closure(*bench.measured("floor"))
        and result["failed"] == {}
    )

    def runs_out(*_):
        raise MemoryError("FT-L ran out of memory.")

    monkeypatch.setattr(methods.method("ft_l"), "unlearn", runs_out)
    for limit in ("AGAIN", "NEAR"):
        monkeypatch.setattr(bench, limit, 0)  # all are too slow to be repeated
    row = bench.run(what="gradient", rows=str(tmp_path), repeats=2, targets=2, tag="again", **world)
    result = row["result"]
    assert result["failed"] == {"ft_l": "FT-L ran out of memory."} and set(
        result["timings"]
    ) == set(bench.compared()) - {"ft_l"}
    assert {name: len(each) for name, each in result["timings"].items()} == dict.fromkeys(
        result["timings"], 1
    ) | {"revs": 2}
    monkeypatch.setattr(speed, "row", lambda what, *_: row if what == "gradient" else None)
    assert "FT-L has no time: FT-L ran out of memory." in speed.gradient_sentence(
        "m", "d"
    ) and "FT-L" not in list(speed.gradient_table("m", "d")["method"])


def test_lower_ranks_decide_with_the_time(monkeypatch):
    """A ratio is worth nothing where the token ranks higher."""
    result = {
        "tokens": 2,
        "medians": {"released": 300.0, "ours": 1.0, bench.LOWER: 2.0},
        "ranks": {"released": [50, 60], "ours": [40, 60], bench.LOWER: [50, 61]},
    }
    monkeypatch.setattr(speed, "row", lambda *_: {"result": result})
    monkeypatch.setattr(speed, "same_margins", lambda found: False)
    assert (
        speed.token("m", "d")[::2] == (150.0, True)
        and "larger margins, which bring 2 of 2 tokens" in speed.token("m", "d").behind
        and "0.50 s with the same margins" in speed.token("m", "d").behind
    )
    result["ranks"][bench.LOWER] = [49, 61]
    assert speed.token("m", "d")[::2] == (150.0, False)


def elsewhere(path) -> None:
    """Another fine-tune for a row."""
    row = rows.read(path)
    row["provenance"]["inputs"]["model"] = "another"
    rows.save(path, row)


def test_the_profile_s_runs_are_those_that_are_compared():
    """Both sides of an order and of a precision have rows of their own, under the tags that the page reads."""
    jobs = [job for job in profile.read("bench").jobs.values() if job.notebook == "unlearn"]
    asked = {
        (
            job.settings["data"],
            job.settings["tag"],
            job.settings["method"],
            job.settings["seed"],
            job.settings["dtype"],
        )
        for job in jobs
    }
    assert {
        ("ssn", "order", method, seed, "float32")
        for method in ("revs", "layer_major")
        for seed in (1, 2, 3)
    } < asked
    both = {("ssn", method) for method in ("revs", "rmu", "npo_kl")} | {
        ("emails", method) for method in bench.compared()
    }
    assert {
        (data, tag, method, 1, dtype)
        for dtype, tag in speed.PRECISIONS.items()
        for data, method in both
    } < asked and len(jobs) == len(asked) == 6 + 2 * len(both)


def test_both_precisions_stand_beside_each_other(shelf, monkeypatch):  # noqa: F811
    assert speed.precisions("smollm2-135m", "ssn")[0].iloc[0, 0] == speed.NOT_YET
    shelf(method="revs", seed=1, seconds=90.0)  # of the core table, made elsewhere
    for method in ("revs", "rmu"):
        shelf(method=method, seed=1, tag="precision-float32", seconds=10.0)
        shelf(method=method, seed=1, tag="precision-bfloat16", seconds=5.0)
    elsewhere(rows.RECORDED / "unlearn/ssn/smollm2-135m/rmu-seed1-precision-float32.json")
    table, said = speed.precisions("smollm2-135m", "ssn")
    assert (
        list(table["precision"]) == ["float32", "bfloat16"]
        and "bfloat16 takes so many times as long: REVS 0.50. The Unlearning Score holds, within 5 points, for REVS."
        in said
    )
    lower = rows.RECORDED / "unlearn/ssn/smollm2-135m/revs-seed1-precision-bfloat16.json"
    row = rows.read(lower)
    row["result"]["after"]["unlearning_score"] -= 0.06
    rows.save(lower, row)
    assert speed.precisions("smollm2-135m", "ssn")[1].endswith(
        "for none; it falls for REVS (-6.0)."
    )
    assert "--what memorising" in speed.memorising("smollm2-135m", "ssn")
    for autocast in (False, True):
        made = rows.provenance(
            ["revs.measures.metrics"],
            {"digits": "noise", "data": "synthetic", "autocast": autocast},
            {},
            {"finetune": 30.0 / (1 + autocast)},
        ) | {
            "model": {"name": "smollm2-135m", "revision": "x", "dtype": "float32"},
            "tokenizer": "x",
        }
        rows.write(
            rows.RECORDED,
            f"memorise/synthetic/smollm2-135m{'-autocast' * autocast}",
            "memorise",
            {
                "sentences": 9,
                "memorised": 8 - autocast,
                "loss": [1.0],
                "learned": [9],
                "tokenizer": "x",
                "vocabulary": 300,
            },
            [],
            made,
        )
    monkeypatch.setattr(
        speed,
        "row",
        lambda what, *_: (
            {"result": {"medians": {"float32": 30.0, "bfloat16": 15.0}}}
            if what == "memorising"
            else None
        ),
    )
    said = speed.memorising("smollm2-135m", "ssn")
    assert (
        "the same steps take 0.50 times as long with bfloat16 arithmetic, 15.0 s against 30.0 s"
        in said
        and "memorised 8 of 9 sentences with float32 and 7 of 9 sentences with bfloat16." in said
    )


def test_a_curation_in_both_precisions_is_compared_place_by_place(shelf):  # noqa: F811
    assert "make organic adopt" in speed.curated()
    places = {"float32": [1, 2, 3], "bfloat16": [2, 3, 4, 5]}
    for dtype, tag in speed.PRECISIONS.items():
        made = rows.provenance(
            ["revs.measures.metrics"],
            {},
            {"candidates": "x"},
            {"detect": 1.0, "try": {"float32": 20.0, "bfloat16": 10.0}[dtype]},
        ) | {"model": {"name": "smollm2-135m", "revision": "x", "dtype": dtype}, "tokenizer": "x"}
        funnel = {
            "email": {
                "found": 9,
                "dropped": {},
                "tried": 7,
                "teacher_forced": 4,
                "memorised": 4,
                "both": 4,
                "told": 0,
                "kept": 4,
            }
        }
        items = [
            {"kind": "email", "source": "s", "offset": offset, "package": "p", "exact": True}
            for offset in places[dtype]
        ]
        rows.write(
            rows.RECORDED,
            f"curate/{tag}/smollm2-135m",
            "curate",
            {"documents": 2, "skipped": {}, "funnel": funnel},
            items,
            made,
        )
    said = speed.curated()
    assert (
        "to try 7 secrets takes 0.50 times as long in bfloat16, 10 s against 20 s. It takes 4 of them for memorised, float32 3; 2 are the same."
        in said
    )


def test_the_fastest_gradient_method_is_named_with_both_scores(monkeypatch):
    result = {
        "medians": {"revs": 10.0, "rmu": 2.0, "ft_l": 40.0},
        "timings": {"revs": [10.0, 10.0], "rmu": [2.0, 2.0], "ft_l": [40.0]},
        "effects": {
            name: {"unlearning_score": score}
            for name, score in (("revs", 0.9), ("rmu", 0.1), ("ft_l", 0.2))
        },
    }
    monkeypatch.setattr(
        speed, "row", lambda what, *_: {"result": result} if what == "gradient" else None
    )
    value, said, _ = speed.gradient("smollm2-135m", "ssn")
    assert value == 5.0 and said.startswith("REVS 10.0 s") and "RMU 2.0 s" in said
    both = speed.of_both(speed.gradient, "smollm2-135m", "ssn")
    assert (
        both.value == 5.0
        and both.holds
        and both.behind.startswith("SSN: REVS 10.0 s")
        and "; Emails: REVS 10.0 s" in both.behind
    )
    assert list(speed.gradient_table("smollm2-135m", "ssn")["method"]) == [
        "RMU",
        "REVS",
        "FT-L",
    ] and list(speed.gradient_table("smollm2-135m", "ssn")["rounds"]) == ["2", "2", "1"]
    assert "**SSN**: RMU took less time than REVS." in speed.gradient_sentence(
        "smollm2-135m", "ssn"
    ) and "none scores as high" in speed.gradient_sentence("smollm2-135m", "ssn")


def test_the_layer_major_order_stands_beside_the_paper_s_over_common_seeds(shelf):  # noqa: F811
    depths = [[0, 10], [10, 0]]
    for seed, paper, other in ((1, 0.5, 0.6), (2, 0.4, 0.5), (3, 0.9, None)):
        shelf(
            seed=seed, efficacy=0.1, depths=depths
        )  # of the core table, made elsewhere: not what is compared
        shelf(tag="order", seed=seed, efficacy=paper, depths=depths)
        if other:
            shelf(method="layer_major", tag="order", seed=seed, efficacy=other, depths=depths)
    table, said = speed.orders("smollm2-135m", "ssn")
    assert (
        list(table["Efficacy"]) == ["45.0 ± 7.1", "55.0 ± 7.1"]
        and "higher on every seed" in said
        and "seeds 1, 2" in said
        and "--what schedules" in said
    )
    elsewhere(rows.RECORDED / "unlearn/ssn/smollm2-135m/revs-seed2-order.json")
    assert "seed 1," in speed.orders("smollm2-135m", "ssn")[1]
    assert "layer_major" not in results.means(
        results.runs("smollm2-135m", "ssn")
    )  # it is no baseline


def test_the_prediction_is_checked_where_there_are_rows(measured, monkeypatch):
    table, said = speed.prediction()
    assert (
        list(table["part"]) == [*speed.PARTS, "all"]
        and len(table.columns) == 2
        and "not checked here yet" in said
    )
    real = bench.shape
    monkeypatch.setattr(bench, "shape", lambda name: real(name if name == speed.SHAPE else "tiny"))
    for name in ("small", "medium"):
        made("shapes", rows.RECORDED, model=name, repeats=1)
    table, said = speed.prediction()
    assert (
        list(table.columns[1:5])
        == ["small, predicted", "small, measured", "medium, predicted", "medium, measured"]
        and "at small" in said
        and "Memory beyond the model" in said
    )
    assert set(speed.parts("tiny", "random")) == {"random, tuned", "shape small", "shape medium"}


def test_a_measured_shape_says_its_peak(monkeypatch):
    """The model, what is beyond it, and undo: the highest of all rounds."""
    used = {"model_mb": 2048.0, "once_mb": [100], "peak_mb": [1024], "undo_mb": 24.0}
    found = {
        "result": {
            "medians": {"ours": 30.0},
            "tokens": 100,
            "work": {"layers": 3200},
            "memory": used,
        },
        "provenance": {"hardware": {"gpu": "A GPU", "cpu": "c"}, "model": {"dtype": "bfloat16"}},
    }
    monkeypatch.setattr(
        speed, "row", lambda what, model, data: found if model == speed.SHAPE else None
    )
    reading = speed.time_of_shape("m", "d")
    assert (
        reading.value == 30.0
        and "measured on A GPU in bfloat16" in reading.behind
        and "at most 3.0 GiB of memory, undo included" in reading.behind
    )
    assert speed.memory_of_shape("m", "d").value == 1000 / 2048


def test_a_prediction_is_judged_with_what_it_leaves_out(shelf, monkeypatch):  # noqa: F811
    """Times the largest factor that was measured, and the time until operations begin; without a check it is no verdict."""
    goal = speed.GOALS[-1]
    plain, memory = goal.read("m", "d"), speed.memory_of_shape("m", "d")
    assert (
        plain.holds is memory.holds is None
        and goal.verdict(plain).startswith(speed.UNCHECKED)
        and memory.value < 0.1
    )
    monkeypatch.setattr(speed, "off", lambda: {"small": 2.0, "medium": 3.0})
    monkeypatch.setattr(speed, "operations_of_layer", lambda: 1000.0)
    checked = goal.read("m", "d")
    layers = 2 * speed.SECRETS * 32
    assert (
        checked.value
        == pytest.approx(
            3 * plain.value + 1000 * layers * operations.machines()[speed.MACHINE]["launch"]
        )
        and checked.holds
        and "3.00 times that is the larger factor measured at small and medium" in checked.behind
    )
    assert goal.verdict(checked) == (
        "met, predicted" if checked.value < 60 else "not met, predicted"
    )
    of_papers = float(
        re.search(r"the same sum is (\d+) s; the paper: 39 minutes", speed.on_papers())[1]
    )
    assert (
        operations.machines()[speed.PAPERS]["title"] == paper.tables()["hardware"]["gpu"]
        and checked.value < of_papers < 39 * 60
    )
