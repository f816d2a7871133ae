"""The benchmark on tiny random models: what it measures, and that it leaves nothing behind."""

import math
import time
from types import SimpleNamespace

import gguf
import pytest
import torch
from conftest import V
from safetensors.torch import save_file

from companion.experiments import bench, check, memory, stopwatch
from companion.experiments.bench import Settings
from companion.store.paths import ROOT
from revs.method import algorithm
from revs.model.targets import Record

SECRETS = ("123-45-6789", "987-45-4321", "955-44-3333", "911-22-3334")
RECORDS = [
    Record(f"{n}-{m}", "ssn", f"g{n}", f"Text {m} of person {n}: ", secret, ".")
    for n, secret in enumerate(SECRETS)
    for m in range(2)
]
HP = algorithm.Hyperparameters(n_max=5, k=20, r_h=0.9, eps_r_h=0.01, r_n=0.9, eps_r_n=0.05)


@pytest.fixture
def stage(build, monkeypatch):
    """A tiny model in the place of a loaded one, with two rounds."""
    decoder = build("llama-untied", dtype=torch.float32)
    monkeypatch.setattr(bench.models, "load", lambda *_: decoder)
    settings = Settings(repeats=2, targets=2)
    stage = bench.Stage("", RECORDS, settings, HP)
    before = {name: weight.clone() for name, weight in decoder.model.state_dict().items()}
    yield stage
    for name, weight in decoder.model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def test_every_way_has_a_time_in_every_round(stage):
    result, items = bench.floor(stage)
    assert result["tokens"] > 0 and {item["round"] for item in items} == {0, 1}
    for way, each in result["timings"].items():
        assert len(each) == 2 and all(0 < seconds < math.inf for seconds in each), way


def test_the_parts_of_a_token_are_all_of_its_time(stage):
    """Layers whose candidates were drawn are counted; what has no part of its own is the pass."""
    result, items = bench.floor(stage)
    assert set(result["parts"]) <= {"forward", *(part for *_, part in bench.PARTS)}
    assert result["parts"]["forward"] > 0 and result["parts"]["candidates"] > 0
    edited = sum(item["layers"] for item in items if item["way"] == "ours" and item["round"] == 0)
    assert result["work"]["layers"] >= edited > 0


def test_methods_take_turns_and_the_slow_ones_have_one_round(stage, monkeypatch):
    """REVS stays; a method that fails has no time and says why; twice the quickest is enough."""
    slow = {"revs": 1.0, "quick": 0.2, "slow": 9.0, "near": 1.4}
    monkeypatch.setattr(bench, "timed", lambda do, *_: (slow[do], algorithm.Edit(stage.decoder)))

    class Method:
        def __init__(self, name):
            self.unlearn = name

    found, items = bench.in_turn(stage, {name: (Method(name), None) for name in slow})
    rounds = {name: len(each) for name, each in found["timings"].items()}
    assert rounds == {"revs": 2, "quick": 2, "slow": 1, "near": 2}
    assert set(found["effects"]) == set(slow) and found["failed"] == {}

    def failing(*_):
        raise FloatingPointError("It diverged.")

    monkeypatch.setattr(bench, "timed", failing)
    found, items = bench.in_turn(stage, {"revs": (Method("revs"), None)})
    assert found["failed"] == {"revs": "It diverged."} and not items


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"what": "flor"}, "There is nothing called 'flor' to measure: did you mean 'floor'?"),
        ({"repeats": 0}, "repeats is 0, but must be at least 1."),
        ({"data": "nothing.jsonl"}, "There is no data set 'nothing.jsonl'"),
    ],
)
def test_a_mistake_is_one_sentence(change, sentence, tmp_path):
    with pytest.raises((ValueError, OSError)) as caught:
        bench.run(check({"rows": str(tmp_path)} | change, Settings))
    assert sentence in str(caught.value) and not list(tmp_path.rglob("*.json"))


def test_a_row_has_the_settings_of_every_method_that_was_timed(tmp_path, monkeypatch, tokenizer):
    """Those of the baselines stand beside REVS's, so that other ones make it stale."""
    monkeypatch.setattr(bench, "prepared", lambda *_: "folder")
    monkeypatch.setattr(bench.models, "identify", lambda _: "sha256")
    stage = SimpleNamespace(decoder=SimpleNamespace(tokenizer=tokenizer))
    monkeypatch.setattr(bench, "Stage", lambda *_: stage)
    timings = {"timings": {"revs": [1.0]}, "tokens": 1, "effects": {}, "failed": {}}
    monkeypatch.setitem(bench.WHAT, "gradient", lambda _: (timings, []))
    monkeypatch.setitem(bench.WHAT, "floor", lambda _: (timings, []))
    asked = {"rows": str(tmp_path)}
    made = bench.run(check(asked | {"what": "gradient"}, Settings))["provenance"]
    assert made["settings"]["baselines"] == bench.baselines(Settings())
    assert {"rmu", "memit", "simnpo"} < set(made["settings"]["baselines"])
    assert made["model"] == {"name": "smollm2-135m", "revision": "sha256", "dtype": "float32"}
    assert "baselines" not in bench.run(check(asked, Settings))["provenance"]["settings"]


def test_the_stopwatch_charges_each_part_to_itself_alone(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0])
    monkeypatch.setattr(stopwatch, "clock", lambda: next(now))
    watch = stopwatch.Stopwatch()
    with watch.part("all"), watch.part("inside"):
        pass
    assert watch.seconds == {"all": 4.0, "inside": 2.0}


def test_a_run_that_cannot_fit_is_refused_before_it_begins(monkeypatch, one_sentence):
    """The least is the weights, five times them where training keeps an original; unknown sizes are
    not refused."""
    settings = {"model": "smollm2-135m", "dtype": "float32", "method": "revs"}
    monkeypatch.setattr(memory, "free", lambda *_: 1.5 * 2**30)
    memory.check(settings)
    memory.check(settings | {"model": "nobody/knows", "method": "npo_kl"})
    with pytest.raises(
        MemoryError, match="npo_kl on smollm2-135m takes at least 3.0 GiB.*: take a smaller model"
    ) as caught:
        memory.check(settings | {"method": "npo_kl"})
    assert one_sentence(caught)
    memory.check(settings | {"method": "npo_kl", "hyperparameters": {"layers": [3]}})
    monkeypatch.setattr(memory, "free", lambda *_: 2**29)
    for dtype, mend in (("float32", "bfloat16 weights, a smaller"), ("bfloat16", "a smaller")):
        with pytest.raises(MemoryError, match=f"free: take {mend} model, or a machine with more"):
            memory.check(settings | {"dtype": dtype})


def test_weights_are_counted_by_what_heads_say_and_not_by_the_size_of_files(tmp_path):
    """Files may hold fewer bits than a run; one that cannot be read is for loading to refuse."""
    halves = {"a": torch.zeros(3, 4, dtype=torch.bfloat16), "b": torch.zeros(5)}
    save_file(halves, tmp_path / "model.safetensors")
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for name, shape in (("a", (4, 8)), ("b", (3,))):
        writer.add_tensor(name, torch.zeros(shape, dtype=torch.float16).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model.safetensors").write_bytes(b"none")
    (broken / "model.gguf").write_bytes(b"none")
    places = (tmp_path, tmp_path / "model.gguf", broken, broken / "model.gguf", tmp_path / "none")
    assert [memory.counted(place) for place in places] == [17, 35, 0, 0, 0]


def test_the_page_about_gpus_says_what_the_papers_models_take(monkeypatch):
    """Fine-tunes in float32, runs of the method and of NPO-KL in bfloat16, as they are refused."""
    page = (ROOT / "book" / "gpus.md").read_text(encoding="utf-8")
    monkeypatch.setattr(memory, "free", lambda *_: 0)
    for model in ("llama-3-8b", "gpt-j-6b"):
        runs = {"epochs": 4, "ordinary": 0, "dtype": "float32"}, {"method": "revs"}
        for run in (*runs, {"method": "npo_kl"}):
            with pytest.raises(MemoryError) as caught:
                memory.check({"model": model, "dtype": "bfloat16"} | run)
            said = str(caught.value)
            assert said[said.index("least ") + 6 : said.index(", but")] in page, said


def test_the_limit_of_a_group_or_of_one_around_it_holds(tmp_path, monkeypatch):
    """A cluster limits a job, in one of whose groups the process is."""
    job, own = tmp_path / "job", tmp_path / "job/step"
    own.mkdir(parents=True)
    for group, most in ((job, 3 * 2**20), (own, "max")):
        (group / "memory.max").write_text(f"{most}\n")
        (group / "memory.current").write_text(f"{2**20}\n")
    (tmp_path / "cgroup").write_text("0::/job/step\n")
    monkeypatch.setattr(memory, "LIMIT", tmp_path)
    monkeypatch.setattr(memory, "GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert 2 * 2**20 < memory.free() < 2**32
    monkeypatch.setattr(memory.psutil.Process, "memory_info", lambda _: SimpleNamespace(rss=7))
    assert memory.free() == 2 * 2**20 + 7
    (tmp_path / "cgroup").unlink()
    assert memory.free() > 2**25


def test_peak_is_what_was_taken_at_the_highest():
    with memory.Peak(every=0.001) as peak:
        some = torch.ones(V, 2**18)  # much, since a busy machine may take pages back meanwhile
        time.sleep(0.2)  # until the watcher had its turn, on a busy machine too
        del some
    assert peak.mb >= V * 2**18 * 4 / 2**20 * 0.8
