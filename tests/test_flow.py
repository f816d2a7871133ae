"""The workflow: content decides, mistakes are sentences, nothing is half-written or left behind."""

import contextlib
import copy
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from companion.analysis import results
from companion.experiments import provenance
from companion.experiments.command import command
from companion.experiments.settings import EXPERIMENTS
from companion.store import rows
from companion.store.paths import ROOT, params
from companion.workflow import build, pages, plan, record, site, sources, sweep

RUN = {
    "experiment": "unlearn",
    "parameters": {"data": "ssn"},
    "grid": {"method": ["revs", "random"], "seed": [1, 2]},
}


def notebook(path: Path, *cells: str) -> Path:
    """A notebook with a cell of parameters, x and y, and these cells."""
    v4 = nbformat.v4
    first = v4.new_code_cell("x = 1  # a number\ny = 'a'", metadata={"tags": ["parameters"]})
    made = v4.new_notebook(cells=[first, *map(v4.new_code_cell, cells)])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, path)
    return path


def runner(source: Path, target: Path, *more: str) -> tuple[int, str, str]:
    """The runner in a process of its own: status, standard output, and the last line on stderr."""
    command = [sys.executable, "-m", "companion.workflow.notebook", str(source), str(target), *more]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]


def file(*runs: dict, **more) -> dict:
    """What a file of params/sweeps says."""
    return {"title": "t", "runs": list(runs)} | more


def made(*runs: dict, name: str = "quick", **more) -> sweep.Sweep:
    return sweep.build(name, file(*runs, **more))


# --- sweeps -----------------------------------------------------------------------------------


def asked(**parameters) -> dict:
    return file({"experiment": "unlearn", "parameters": parameters})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (file(RUN, titel=""), "titel: Extra inputs are not permitted: did you"),
        (file({"experiment": "unlern"}), "Input should be 'audit', 'curate', 'documents"),
        (asked(sed=1), "There is no parameter 'sed': did you mean 'seed'?"),
        (asked(rows="rows"), "rows is set by the workflow: leave it out."),
        (file(RUN | {"grid": {"seed": 1}}), "runs.0.grid.seed: Input should be"),
        (file(RUN | {"parameters": {"seed": 1}}), "seed stands in parameters"),
        (file(RUN, RUN), "the same row unlearn/ssn/smollm2-135m/revs-seed1"),
    ],
)
def test_a_mistake_in_a_sweep_is_one_sentence(content, sentence):
    with pytest.raises(ValueError) as caught:
        sweep.build("quick", content)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_every_combination_is_a_job_and_what_a_grid_sets_is_in_its_name():
    names = [f"{method}-seed{seed}" for method in ("revs", "random") for seed in (1, 2)]
    assert list(made(RUN).jobs) == [f"unlearn/ssn/smollm2-135m/{name}" for name in names]
    grid = {"hyperparameters": [{}, {"lr": 0.1, "steps": 3}], "T": [1], "adapter": ["seed2"]}
    jobs = made({"experiment": "unlearn", "parameters": {"tag": "try"}, "grid": grid}).jobs
    assert [name.rsplit("/", 1)[1] for name in jobs] == [
        "revs-seed1-adapter-seed2-try-T1",
        "revs-seed1-adapter-seed2-try-lr0.1-steps3-T1",
    ]
    assert [job.settings.overrides for job in jobs.values()] == [
        {"T": 1},
        {"lr": 0.1, "steps": 3, "T": 1},
    ]


def test_a_sweep_may_take_settings_from_another_file_and_replaces_them():
    """URLs take those of e-mails, controls those of REVS; what has none there is left alone."""
    grid = {"data": ["urls", "ssn"], "method": ["revs", "zero", "memit", "unedited"]}
    run = {"experiment": "unlearn", "parameters": {"hyperparameters": {"n_max": 7}}, "grid": grid}
    jobs = made(run | {"parameters": {}}, settings="first_choices").jobs
    typed = {
        tuple(name.split("/")[1::2]): job.settings.hyperparameters for name, job in jobs.items()
    }
    first = params("first_choices")
    assert typed["urls", "revs-seed1"] == first["revs"]["smollm2-135m"]["emails"]
    assert set(typed["ssn", "zero-seed1"]) == {"k", "r_h", "eps_r_h", "layers"}
    assert typed["ssn", "memit-seed1"] == first["memit"]["smollm2-135m"]["ssn"]
    assert typed["urls", "memit-seed1"] is typed["ssn", "unedited-seed1"] is None
    (job,) = made(run | {"grid": {"data": ["ssn"]}}, settings="first_choices").jobs.values()
    assert job.settings.hyperparameters["n_max"] == 7 and len(job.settings.hyperparameters) > 5
    with pytest.raises(ValueError, match="settings: .*first_choices"):
        made(RUN, settings="first")


@pytest.mark.parametrize("name", sweep.known())
def test_the_sweeps_that_there_are_can_be_run_and_planned(name, capsys, monkeypatch):
    """Each job's parameters fit its experiment, and its options are read as what they were."""
    read = sweep.read(name)
    for job in {job.experiment: job for job in read.jobs.values()}.values():
        monkeypatch.setattr(sys, "argv", [job.experiment, *sweep.options(job.parameters)])
        seen = []
        command(EXPERIMENTS[job.experiment], seen.append)
        assert seen == [job.settings]
    monkeypatch.setattr(sys, "argv", ["plan", name])
    plan.main()
    assert f"{len(read.jobs)} runs" in capsys.readouterr().out


def test_what_make_book_runs_trains_nothing():
    jobs = sweep.read("quick").jobs.values()
    assert "finetune" not in {job.experiment for job in jobs}
    assert {job.settings.adapter for job in jobs} == {"seed1", "tune1"}  # both committed


def test_quick_rows_and_long_ones_lie_apart():
    name = "unlearn/ssn/smollm2-135m/revs-seed1"
    quick, long = (made(RUN, name=which).jobs[name] for which in ("quick", "record"))
    assert quick.row == ROOT / f"build/rows/{name}.json" and "rows" not in quick.parameters
    assert long.row == ROOT / f"build/record/rows/{name}.json"
    assert long.parameters["rows"] == "build/record/rows"


def test_the_commit_of_a_copy_needs_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    for given in ("abc", ""):
        monkeypatch.setenv("REVS_COMMIT", given)
        assert provenance.commit.__wrapped__() == (given or None)


def test_a_run_waits_for_the_adapter_and_the_data_that_it_needs():
    runs = [
        {"experiment": "finetune", "grid": {"name": ["mine", "other"]}},
        {"experiment": "unlearn", "parameters": {"adapter": "build/adapters/mine"}},
    ]
    some = made(*runs, name="record")
    needed = [[one.id for one in some.upstream(job)] for job in some.jobs.values()]
    assert needed == [[], [], ["finetune/mine/smollm2-135m"]]
    organic = sweep.read("organic")
    model, kind = "qwen2.5-coder-1.5b", "machine-email"
    job = organic.jobs[f"unlearn/{kind}/{model}/revs-seed1"]
    assert [one.id for one in organic.upstream(job)] == [f"curate/{kind}/{model}"]


def test_the_record_says_what_is_missing_and_what_was_made_otherwise(monkeypatch):
    """A row of the same name with another adapter is not the one that a sweep asks for."""
    job = next(iter(made(RUN).jobs.values()))
    settings = job.settings.model_dump() | {"hyperparameters": {"n_max": 3}}
    row = {"name": job.id, "kind": "unlearn", "settings": settings}
    monkeypatch.setattr(record, "read", lambda _: sweep.Sweep("main", "t", {job.id: job}, []))
    monkeypatch.setattr(record.rows, "find", lambda *_: {job.id: row})
    for change, there in (({}, 1), ({"adapter": "seed2"}, 0)):
        row["settings"] = settings | change
        found, missing = record.recorded("main")
        assert len(found) == there and missing == [job.id] * (1 - there)


def test_a_row_without_the_path_of_a_users_documents_is_recorded():
    found, missing = record.recorded("documents")
    assert "documents/files/smollm2-135m" in {row["name"] for row in found} - set(missing)


def test_a_plan_scales_recorded_rows_by_weights(monkeypatch):
    small = plan.measured("unlearn").query("model == 'smollm2-135m'")
    monkeypatch.setattr(plan, "measured", lambda kind: small)
    usual = next(iter(made(RUN).jobs.values()))
    large, nobody = (
        sweep.Job("unlearn", usual.parameters | {"model": model}) for model in ("llama-3-8b", "x/y")
    )
    times = plan.weights("llama-3-8b") / plan.weights("smollm2-135m")
    assert plan.seconds(large) / plan.seconds(usual) == pytest.approx(times) and 50 < times < 70
    assert plan.duration(plan.seconds(nobody)) == "unknown"
    assert plan.memory_mb(nobody) == plan.MEMORY_MB and 38_000 < plan.memory_mb(large) < 39_000


# --- sources ----------------------------------------------------------------------------------


def test_templates_and_styles_are_sources_of_pages_and_wording_is_none_of_runs():
    """A page is executed anew after a change of them; a heavy notebook not after one of wording."""
    pages, runs = sources.files(sources.PAGES), sources.of_run("unlearn")
    ended = {path.suffix for path in map(Path, pages)}
    assert {".j2", ".mplstyle", ".jsonl", ".yml", ".py"} <= ended
    places, colours = (str(ROOT / f"params/{name}.yml") for name in ("places", "colours"))
    assert {places, colours} <= set(pages) and not {places, colours} & set(runs)
    of_runs = ("revs/method/algorithm.py", "notebooks/unlearn.ipynb", "params/search_starts.yml")
    of_runs = (*of_runs, "document_audit/report.html.j2")
    assert {str(ROOT / path) for path in of_runs} <= set(runs)
    assert str(ROOT / "data/ranks/ranks.json") in pages


def test_what_a_page_includes_is_a_source_of_the_book():
    shown = set()
    for page in [*ROOT.glob("book/**/*.md"), *ROOT.glob("notebooks/*.ipynb")]:
        named = re.findall(r"{(?:literal)?include} ([^\s\\]+)", page.read_text(encoding="utf-8"))
        shown |= {str((page.parent / name).resolve()) for name in named}
    assert str(ROOT / "CHANGELOG.md") in shown and shown <= set(sources.files(sources.BOOK))


# --- execution --------------------------------------------------------------------------------


def test_a_notebook_runs_with_its_parameters_and_shows_no_folder_of_this_machine(tmp_path):
    target = tmp_path / "out" / "n.ipynb"
    source = notebook(tmp_path / "n.ipynb", "import os\nprint(x, y, os.getcwd())")
    status, out, _ = runner(source, target, "-y", "{x: 5, y: b}", "--name", "job")
    assert status == 0 and f"job: 5 b {ROOT}" in out and "job: finished in " in out
    assert os.listdir(target.parent) == ["n.ipynb"]
    about = nbformat.read(target, as_version=4).metadata.papermill
    assert about.parameters == {"x": 5, "y": "b"} and "environment_variables" not in about


def test_a_failing_cell_ends_with_one_sentence_and_nothing_at_the_target(tmp_path):
    """Its own; what is no sentence is told with its cell, as of a page below."""
    target = tmp_path / "n.out.ipynb"
    target.write_text("as before")
    raises = "raise ValueError('There is no model: give one.')"
    source = notebook(tmp_path / "n.ipynb", "print(1)", raises)
    status, _, last = runner(source, target, "--name", "n")
    assert status == 1 and last.startswith("n: There is no model: give one. (")
    assert "n.out.failed.ipynb" in last
    assert target.read_text() == "as before"
    assert sorted(os.listdir(tmp_path)) == ["n.ipynb", "n.out.failed.ipynb", "n.out.ipynb"]


@pytest.fixture
def few_pages(tmp_path, monkeypatch):
    """Three notebooks in a project of their own, the last of which fails."""
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "BUILD", tmp_path / "build")
    (tmp_path / "notebooks").mkdir()
    told = "import os, sys, decimal\nprint(os.getpid(), len(In), 'kept' in dir())\nkept = 1"
    for name in ("a", "b"):
        notebook(tmp_path / "notebooks" / f"{name}.ipynb", told)
    notebook(tmp_path / "notebooks" / "c.ipynb", "print(kept)")


def test_pages_share_a_kernel_that_forgets_between_them(few_pages, capsys):
    """Neither names nor what was asked before are left; modules are."""
    pages.execute({"a": "1", "b": "2"}, 1)
    out = capsys.readouterr().out
    said = dict(line.split(": ") for line in out.splitlines() if "False" in line)
    assert said["a"] == said["b"] and pages.executed_from("a") == "1"
    assert pages.executed_from("d") is None


def test_a_page_that_fails_ends_all_with_its_sentence(few_pages, monkeypatch):
    with pytest.raises(RuntimeError, match="^c: Cell 2 failed: NameError"):
        pages.execute({"c": "1", "a": "2"}, 1)
    assert pages.executed_from("a") is None
    broken = lambda *_, **__: 1 / 0
    monkeypatch.setattr(pages.notebook, "execute", broken)
    with pytest.raises(ZeroDivisionError):  # of any kind: an old copy would pass for a new one
        pages.execute({"a": "1", "b": "2"}, 2)


def test_a_kernel_that_is_killed_while_it_forgets_ends_the_build(few_pages, monkeypatch):
    """Nobody waits for its answer."""
    monkeypatch.setattr(pages, "FORGET", "import os\nos.kill(os.getpid(), 9)")
    with pytest.raises(RuntimeError, match="^a: The notebook's process was killed"):
        pages.execute({"a": "1"}, 1)


# --- the build --------------------------------------------------------------------------------


def test_the_lock_lasts_as_long_as_the_children_that_hold_it(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    with build.lock() as held:
        words = [sys.executable, "-c", "input()"]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[held.fileno()])
    with pytest.raises(RuntimeError, match="Another build is running"), build.lock():
        pass
    child.communicate(b"\n")
    with build.lock():
        pass


@pytest.mark.skipif(not build.TIED, reason="only Linux has setpriv")
def test_what_a_killed_build_started_ends_with_it():
    words = [*build.TIED, "sleep", "60"]
    code = f"import subprocess; p = subprocess.Popen({words!r}); print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    while child.cmdline()[:1] != ["sleep"]:  # once tied, it becomes what was asked for
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        child.wait(timeout=20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_file_from_the_future_gets_the_present_time(tmp_path):
    """After a clock was wrong: else every build fails until that time has come."""
    old, ahead, now = tmp_path / "old", tmp_path / "ahead", time.time()
    for path, at in ((old, now - 1000), (ahead, now + 1000)):
        path.touch()
        os.utime(path, (at, at))
    build.leave_no_file_ahead([old, ahead, tmp_path / "gone"], now)
    assert old.stat().st_mtime == pytest.approx(now - 1000, abs=1)
    assert ahead.stat().st_mtime == pytest.approx(now, abs=1)


@pytest.mark.parametrize(
    "start", [lambda: site.render(), lambda: build.run(sweep.read("quick"), 1, 0)]
)
def test_all_that_a_build_starts_is_tied_to_it(start, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "LOGS", tmp_path)
    monkeypatch.setattr(site, "WORK", tmp_path / "work")
    monkeypatch.setattr(build, "LOG", tmp_path / "log")
    monkeypatch.setitem(build.PLACE, "cwd", tmp_path)
    for module in (build, site):
        monkeypatch.setattr(module, "TIED", ["tied"])
    with pytest.raises(FileNotFoundError, match="'tied'"):  # no such program
        start()


def test_a_failure_is_what_the_job_said_last(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    log = tmp_path / "logs" / "unlearn" / "a.log"
    log.parent.mkdir(parents=True)
    noise = "Error in rule run:\n    jobid: 2\n    log: logs/unlearn/a.log (check)\n    shell:\n"
    log.write_text("a warning\nunlearn/a: The forget set is empty.\nanother warning\n")
    assert build.failure(noise).startswith("unlearn/a: The forget set is empty. (log: ")
    log.write_text("")
    assert build.failure(noise).startswith("unlearn/a: the job was killed.")
    more = noise + noise.replace("/a.log", "/b.log") + noise
    assert build.failure(more).endswith("; failed too: unlearn/b)")
    assert "Snakemake stopped: no rule" in build.failure("a\nno rule\n")


@pytest.mark.slow
def test_a_job_that_fails_leaves_what_it_made_and_is_made_again(tmp_path, monkeypatch):
    """Snakemake would put the row of before in its place, and take the run as done; in a folder
    whose name has a space."""
    place, hide = tmp_path / "a checkout", shutil.ignore_patterns("__pycache__")
    for name in "notebooks companion revs document_audit paper params data rows".split():
        shutil.copytree(ROOT / name, place / name, ignore=hide)
    for name in ("Snakefile", "_toc.yml"):
        shutil.copy(ROOT / name, place)
    monkeypatch.setattr(build, "ROOT", place)
    (place / "params" / "sweeps" / "mine.yml").write_text("title: t\nruns:\n- experiment: tune\n")
    row = place / "build/record/rows/tune/ssn-tune/smollm2-135m/revs-seed0-adapter-tune1.json"
    rows.write_file(row, "old")
    code = f"    open({str(row)!r}, 'a').write(', new')\n    raise SystemExit('tune: it broke.')\n"
    code = "def run(): ...\n\n\nif __name__ == '__main__':\n" + code
    (place / "companion" / "experiments" / "tune.py").write_text(code)
    words = build.command("mine", 1, "jupyter=false")
    for made_again in (1, 2):
        done = subprocess.run(words, cwd=place / "build", capture_output=True, text=True)
        assert done.returncode == 1 and row.read_text() == "old" + ", new" * made_again
    log = place / "build/logs/record/tune/ssn-tune/smollm2-135m/revs-seed0-adapter-tune1.log"
    assert log.read_text() == "tune: it broke.\n"


@pytest.mark.slow
def test_the_slurm_profile_and_the_workflow_fit_snakemake():
    """A dry run reads every key of the profile and makes the graph of all jobs; it starts none."""
    place = ["--snakefile", "Snakefile", "--workflow-profile", "profiles/slurm", "--dry-run"]
    more = ["--executor", "dryrun", "--config", "sweep=paper", "jupyter=false"]
    words = [sys.executable, "-m", "snakemake", *place, *more]
    done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout + done.stderr
    assert f"run {len(sweep.read('paper').jobs)}" in " ".join(said.split())


# --- the site ---------------------------------------------------------------------------------


@pytest.fixture
def executed():
    """A source notebook and what an executed copy of it looks like."""
    v4 = nbformat.v4
    tagged = lambda tag: {"tags": [tag]}
    cells = [v4.new_code_cell("x = 1", metadata=tagged("parameters")), v4.new_markdown_cell("Text")]
    source = v4.new_notebook(cells=[*cells, v4.new_code_cell("print(x)")])
    done = copy.deepcopy(source)
    done.cells.insert(1, v4.new_code_cell("x = 2", metadata=tagged("injected-parameters")))
    for number, cell in enumerate(cell for cell in done.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
    done.cells[-1].outputs = [v4.new_output("stream", name="stdout", text="2\n")]
    done.metadata.papermill = {"exception": None}
    return source, done


def test_a_page_has_the_text_of_the_source_and_the_outputs_of_the_run(executed):
    source, done = executed
    source.cells[1].source = "Better text"
    page = site.merge(copy.deepcopy(source), done, "n")
    assert [cell.source for cell in page.cells] == ["x = 1", "x = 2", "Better text", "print(x)"]
    assert page.cells[-1].outputs[0].text == "2\n" and page.cells[-1].execution_count == 3
    source.cells[-1].metadata.tags = ["remove-output"]
    assert site.merge(source, done, "n").cells[-1].outputs == []


def test_a_caption_names_the_model_that_was_given(executed):
    """The injected one, else that of the parameters cell."""
    source, done = executed
    source.cells[-1].metadata.mystnb = {"figure": {"caption": "Ours, {model}, {data}."}}
    both = 'model = "smollm2-135m"\ndata = "ssn"'
    for given, injected, said in (
        ("x = 1", "x = 2", "Ours, {model}, {data}."),
        (both, "x = 2", f"Ours, {results.title('smollm2-135m')}, SSN."),
        (both, 'model = "gptj-small"', f"Ours, {results.title('gptj-small')}, SSN."),
    ):
        done.cells[0].source = source.cells[0].source = given
        done.cells[1].source = injected
        page = site.merge(copy.deepcopy(source), copy.deepcopy(done), "n")
        assert page.cells[-1].metadata.mystnb["figure"]["caption"] == said


@pytest.mark.parametrize(
    "change",
    [
        lambda cells: cells[-1].update(source="print(x + 1)"),
        lambda cells: cells.append(nbformat.v4.new_code_cell("1")),
        lambda cells: cells.pop(),
    ],
)
def test_a_notebook_that_was_changed_since_is_not_shown_with_old_outputs(executed, change):
    source, done = executed
    change(source.cells)
    with pytest.raises(ValueError, match="other cells than when it was executed: build again"):
        site.merge(source, done, "n")
