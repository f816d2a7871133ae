"""Whether a run can fit, before a weight is read, and what a stage of it takes."""

import time
from types import SimpleNamespace

import gguf
import pytest
import torch
from conftest import CRAFTED, V
from safetensors.torch import save_file

from companion.experiments import memory
from companion.store.paths import ROOT


def test_a_run_that_cannot_fit_is_refused_before_it_begins(monkeypatch, refused):
    """The least is the weights, five times them where training keeps an original; unknown sizes are
    not refused."""
    settings = {"model": "smollm2-135m", "dtype": "float32", "method": "revs"}
    monkeypatch.setattr(memory, "free_bytes", lambda *_: 1.5 * 2**30)
    memory.check(settings)
    memory.check(settings | {"model": "nobody/knows", "method": "npo_kl"})
    with refused("npo_kl on smollm2-135m takes at least 3.0 GiB.*: take a smaller", MemoryError):
        memory.check(settings | {"method": "npo_kl"})
    memory.check(settings | {"method": "npo_kl", "hyperparameters": {"layers": [3]}})
    monkeypatch.setattr(memory, "free_bytes", lambda *_: 2**29)
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
    (broken / "crafted.gguf").write_bytes(CRAFTED)
    places = [tmp_path, tmp_path / "model.gguf", broken, tmp_path / "none", *broken.glob("*.gguf")]
    assert [memory.weight_count(place) for place in places] == [17, 35, 0, 0, 0, 0]


def test_the_page_about_gpus_says_what_the_papers_models_take(monkeypatch):
    """Fine-tunes, runs of the method, of NPO-KL and audits in bfloat16, as they are refused."""
    page = (ROOT / "book" / "gpus.md").read_text(encoding="utf-8")
    monkeypatch.setattr(memory, "free_bytes", lambda *_: 0)
    for model in ("llama-3-8b", "gpt-j-6b"):
        for method in ("finetune", "revs", "npo_kl", memory.AUDIT):
            with pytest.raises(MemoryError) as caught:
                memory.check({"model": model, "dtype": "bfloat16", "method": method})
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
    assert 2 * 2**20 < memory.free_bytes() < 2**32
    monkeypatch.setattr(memory.psutil.Process, "memory_info", lambda _: SimpleNamespace(rss=7))
    assert memory.free_bytes() == 2 * 2**20 + 7
    (tmp_path / "cgroup").unlink()
    assert memory.free_bytes() > 2**25


def test_peak_is_what_was_taken_at_the_highest(monkeypatch):
    """Also where malloc kept what was freed before, which another allocation takes first."""
    freed = [torch.ones(2**20) for _ in range(V)]
    kept = torch.ones(2**20)  # above them, so that malloc cannot shrink its heap
    del freed
    monkeypatch.setattr(memory.Peak, "every", 0.001)
    with memory.Peak() as peak:
        some = [torch.ones(2**20) for _ in range(V)]
        time.sleep(0.2)  # until the watcher had its turn, on a busy machine too
        del some
    assert kept.sum() == 2**20 and peak.mb >= V * 2**20 * 4 / 2**20 * 0.8
