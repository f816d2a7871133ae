"""The workflow keeps its promises: content decides, mistakes are sentences, nothing is half-written or left behind."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest

from companion.pages import results
from companion.record import adopt, rows
from companion.workflow import build, plan, profile, site, stamps
from companion.workflow.paths import ROOT

RUN = {
    "notebook": "unlearn",
    "parameters": {"data": "ssn"},
    "over": {"method": ["revs", "random"], "seed": [1, 2]},
}


def notebook(path: Path, *cells: str) -> Path:
    """A notebook with a cell of parameters, x and y, and these cells."""
    v4 = nbformat.v4
    first = v4.new_code_cell(
        "x: int | None = 1  # a number\ny = 'a'", metadata={"tags": ["parameters"]}
    )
    made = v4.new_notebook(cells=[first, *map(v4.new_code_cell, cells)])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, path)
    return path


def runner(source: Path, target: Path, *more: str) -> subprocess.Popen:
    """The runner in a process of its own."""
    command = [sys.executable, "-m", "companion.workflow.notebook", str(source), str(target), *more]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(process: subprocess.Popen, seconds: float = 60) -> tuple[int, str, str]:
    """Exit status, standard output and the last line on stderr."""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, (err.strip().splitlines() or [""])[-1]


def gone(process: psutil.Process, seconds: float) -> bool:
    """Does a process end, within so many seconds?"""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


# --- profiles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"title": "t", "runs": [RUN], "page": []}, "unknown key 'page': did you mean 'pages'?"),
        ({"runs": [RUN]}, "the profile has no 'title'"),
        ({"title": "t", "runs": {}}, "runs of the profile must be a list"),
        ([], "the profile must be a mapping"),
        (
            {"title": "t", "runs": [{"notebook": "unlern"}]},
            "'unlern' is not a notebook that makes rows: did you mean 'unlearn'?",
        ),
        (
            {"title": "t", "runs": [RUN | {"parameters": {"sed": 1}}]},
            "no parameter 'sed': did you mean 'seed'?",
        ),
        (
            {"title": "t", "runs": [RUN | {"parameters": {"T": "two"}}]},
            "T is 'two', a str, but must be int",
        ),
        ({"title": "t", "runs": [RUN | {"over": {"seed": 1}}]}, "over: seed must be a list"),
        (
            {"title": "t", "runs": [RUN | {"parameters": {"seed": 1}}]},
            "seed stands in parameters and in over",
        ),
        (
            {"title": "t", "runs": [RUN | {"abreast": 0}]},
            "abreast is 0, but at least one run shares the machine",
        ),
        ({"title": "t", "runs": [RUN | {"abreast": "two"}]}, "abreast of a run must be a int"),
        (
            {"title": "t", "runs": [RUN | {"parameters": {"rows": "rows"}}]},
            "rows is set by the workflow",
        ),
        (
            {"title": "t", "runs": [RUN, RUN]},
            "two runs would write the same row unlearn/ssn/smollm2-135m/revs-seed1",
        ),
        ({"title": "t", "runs": [RUN], "pages": ["nowhere"]}, "there is no notebook 'nowhere'"),
        ({"title": "t", "runs": [RUN], "pages": ["unlearn"]}, "cannot be a page"),
    ],
)
def test_a_mistake_in_a_profile_is_one_sentence(content, sentence):
    with pytest.raises(ValueError) as caught:
        profile.build("quick", content)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_every_combination_is_a_job_with_a_name_of_its_own():
    jobs = profile.build("quick", {"title": "t", "runs": [RUN]}).jobs
    assert list(jobs) == [
        f"unlearn/ssn/smollm2-135m/{method}-seed{seed}"
        for method in ("revs", "random")
        for seed in (1, 2)
    ]


def test_what_is_varied_is_in_the_name():
    run = {"notebook": "unlearn", "parameters": {"tag": "try"}, "over": {"n_max": [10, 20]}}
    jobs = profile.build("quick", {"title": "t", "runs": [run]}).jobs.values()
    assert [job.id.rsplit("/", 1)[1] for job in jobs] == [
        "revs-seed1-try-n_max10",
        "revs-seed1-try-n_max20",
    ]
    assert [job.parameters["tag"] for job in jobs] == ["try-n_max10", "try-n_max20"]
    run = {
        "notebook": "unlearn",
        "parameters": {"tag": "try"},
        "over": {"hyperparameters": [{}, {"lr": 0.1, "steps": 3}]},
    }
    assert [job.parameters["tag"] for job in profile.expand(run, "rows")] == [
        "try",
        "try-lr0.1-steps3",
    ]


def test_quick_rows_and_long_ones_lie_apart():
    quick, record = (
        profile.build(name, {"title": "t", "runs": [RUN]}).jobs[
            "unlearn/ssn/smollm2-135m/revs-seed1"
        ]
        for name in ("quick", "record")
    )
    assert (
        quick.row == ROOT / "build/rows/unlearn/ssn/smollm2-135m/revs-seed1.json"
        and "rows" not in quick.parameters
    )
    assert (
        record.row == ROOT / "build/record/rows/unlearn/ssn/smollm2-135m/revs-seed1.json"
        and record.parameters["rows"] == "build/record/rows"
    )


def test_unlearning_waits_for_the_memorised_model_that_it_needs():
    runs = [
        {"notebook": "memorise", "over": {"digits": ["noise", "keep"]}},
        RUN,
        {"notebook": "unlearn", "parameters": {"finetune": {"digits": "keep"}, "tag": "keep"}},
        {"notebook": "unlearn", "parameters": {"finetune": False, "tag": "known"}},
    ]
    made = profile.build("record", {"title": "t", "runs": runs})
    before = {
        name.rsplit("/", 1)[1]: [job.id for job in made.upstream(job)]
        for name, job in made.jobs.items()
    }
    assert before["revs-seed2"] == ["memorise/synthetic/smollm2-135m"]
    assert before["revs-seed1-keep"] == ["memorise/synthetic/smollm2-135m-keep"]
    assert before["revs-seed1-known"] == before["smollm2-135m"] == []


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("unlearn", {"seed": 7, "tag": "a", "finetune": False}),
        ("memorise", {}),
        ("memorise", {"digits": "keep"}),
        ("bench", {"finetune": False}),
        ("bench", {"what": "shapes", "model": "small", "data": "random", "tag": "b"}),
    ],
)
def test_a_job_is_called_as_the_row_that_its_experiment_writes(
    name, parameters, monkeypatch, tmp_path
):
    """The experiment finds the row where the job expects it, and so does nothing else."""
    job = profile.Job(name, parameters | {"rows": str(tmp_path)}, str(tmp_path))
    module = profile.importlib.import_module(f"companion.runs.{name}")
    seen = []
    monkeypatch.setattr("companion.runs.models.identify", lambda spec: "weights")
    monkeypatch.setattr("companion.record.rows.stamp", lambda *_: "stamp")
    row = {
        "name": "",
        "result": {
            "memorised": 0,
            "sentences": 0,
            "medians": {},
            "after": dict.fromkeys(
                ["efficacy", "generalization", "specificity", "unlearning_score"]
            ),
        },
        "provenance": {"stamp": "stamp", "seconds": {"unlearn": 0}},
    }
    monkeypatch.setattr("companion.record.rows.read", lambda path: seen.append(path) or row)
    monkeypatch.setattr(
        "companion.record.rows.write",
        lambda folder, called, *_: seen.append(folder / f"{called}.json") or row,
    )
    monkeypatch.setattr("companion.runs.memorise.BUILD", tmp_path)
    (kept := tmp_path / "models" / "smollm2-135m+synthetic-stamp" / "row.json").parent.mkdir(
        parents=True
    )
    kept.touch()
    job.row.parent.mkdir(parents=True)
    job.row.touch()
    module.run(**job.settings)
    assert job.row in seen


# --- stamps ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the package and a notebook that uses one of its modules; gives its stamp and the two paths."""
    package = Path(shutil.copytree(ROOT / "revs", tmp_path / "revs"))
    monkeypatch.setattr(rows, "PACKAGES", package)
    book = notebook(tmp_path / "n.ipynb", "from revs import neuron")

    def stamp(bookkeeping: bool = False) -> str:
        rows.code_hash.cache_clear()
        return stamps.notebook_stamp(book, {"x": 1}, ["before"], [], bookkeeping)

    yield stamp, package, book
    rows.code_hash.cache_clear()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_layout_comments_and_docstrings_change_no_stamp(sources):
    stamp, package, _ = sources
    first = stamp()
    edit(package / "neuron.py", '"""', '"""Another beginning. ')
    edit(package / "neuron.py", "\nfrom ", "\n\n# a comment\n\nfrom ")
    assert stamp() == first


def test_code_changes_the_stamp_also_two_imports_away(sources):
    stamp, package, _ = sources
    first = stamp()
    with (package / "neuron.py").open("a", encoding="utf-8") as stream:
        stream.write("\nfrom revs import data\n")
    second = stamp()
    with (package / "tokens.py").open(
        "a", encoding="utf-8"
    ) as stream:  # imported by revs.model.targets
        stream.write("\nMORE = 1\n")
    assert len({first, second, stamp()}) == 3


def test_bookkeeping_matters_to_pages_only(sources):
    stamp, package, _ = sources
    first, page = stamp(), stamp(bookkeeping=True)
    with (package / "progress.py").open("a", encoding="utf-8") as stream:
        stream.write("\nMORE = 1\n")
    assert stamp() == first and stamp(bookkeeping=True) != page


def test_a_notebooks_text_changes_no_stamp_but_its_code_does(sources):
    stamp, _, book = sources
    first = stamp()
    content = nbformat.read(book, as_version=4)
    content.cells.insert(0, nbformat.v4.new_markdown_cell("# A title"))
    content.cells[1].source += "  # and a comment"
    nbformat.write(content, book)
    assert stamp() == first
    content.cells[-1].source += "\nprint(1)"
    nbformat.write(content, book)
    assert stamp() != first


def test_file_times_change_nothing(sources):
    stamp, package, book = sources
    first, content = stamp(), stamps.folder(package)
    for path in [*package.rglob("*.py"), book]:
        os.utime(path, (1, 1))
    assert stamp() == first and stamps.folder(package) == content


def test_parameters_and_the_stamps_before_change_the_stamp(sources):
    book = sources[2]
    variants = [({"x": 1}, []), ({"x": 2}, []), ({"x": 1}, ["other"])]
    assert (
        len(
            {
                stamps.notebook_stamp(book, parameters, upstream, [])
                for parameters, upstream in variants
            }
        )
        == 3
    )


def test_a_folders_content_is_its_files_names_and_bytes(tmp_path):
    (tmp_path / "a").write_text("1")
    seen = [stamps.folder(tmp_path)]
    (tmp_path / "a").write_text("2")
    seen.append(stamps.folder(tmp_path))
    (tmp_path / "a").rename(tmp_path / "b")
    seen.append(stamps.folder(tmp_path))
    assert len(set(seen)) == 3


def test_every_run_page_and_the_book_of_the_quick_profile_has_a_stamp():
    quick = profile.read("quick")
    assert set(stamps.stamps(quick)) == {*quick.jobs, *quick.pages, "book"}


# --- the runner ------------------------------------------------------------------------------------------------------


def test_a_notebook_runs_with_its_parameters_and_shows_no_folder_of_this_machine(tmp_path):
    target = tmp_path / "out" / "n.ipynb"
    source = notebook(tmp_path / "n.ipynb", "import os\nprint(x, y, os.getcwd())")
    status, out, _ = ended(runner(source, target, "-p", "x", "5", "-y", "{y: b}", "--name", "job"))
    assert status == 0 and f"job: 5 b {ROOT}" in out and "job: finished in " in out
    assert os.listdir(target.parent) == ["n.ipynb"]
    about = nbformat.read(target, as_version=4).metadata.papermill
    assert (
        about.exception is None
        and about.parameters == {"x": 5, "y": "b"}
        and "environment_variables" not in about
    )


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (
            "raise ValueError('There is no such model: give a folder.')",
            "n: There is no such model: give a folder. (",
        ),
        ("1 / 0", "n: Cell 3 failed with ZeroDivisionError: division by zero ("),
    ],
)
def test_a_failing_cell_ends_with_one_sentence_and_nothing_at_the_target(tmp_path, cell, sentence):
    target = tmp_path / "n.out.ipynb"
    target.write_text("as before")
    source = notebook(tmp_path / "n.ipynb", "print(1)", cell)
    status, _, last = ended(runner(source, target, "--name", "n"))
    assert status == 1 and last.startswith(sentence) and "n.out.failed.ipynb" in last
    assert target.read_text() == "as before"
    assert sorted(os.listdir(tmp_path)) == ["n.ipynb", "n.out.failed.ipynb", "n.out.ipynb"]


def test_no_kernel_outlives_its_runner(tmp_path):
    process = runner(
        notebook(tmp_path / "n.ipynb", "import time\nprint('here', flush=True)\ntime.sleep(300)"),
        tmp_path / "out.ipynb",
    )
    assert "here" in process.stdout.readline()
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert kernels and all(gone(kernel, 10) for kernel in kernels)
    assert not (tmp_path / "out.ipynb").exists()


def test_no_job_outlives_its_parent(tmp_path):
    (tmp_path / "sleeper.py").write_text(
        "import time\nprint('here', flush=True)\ntime.sleep(300)\n"
    )
    parent = f"import subprocess, sys\nsubprocess.run([{sys.executable!r}, '-m', 'companion.workflow.lifeline', 'sleeper'])"
    process = subprocess.Popen(
        [sys.executable, "-c", parent],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.stdout.readline() == "here\n"
    (child,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    assert gone(child, 10)


# --- the build -------------------------------------------------------------------------------------------------------


def test_the_lock_lasts_as_long_as_the_children_that_hold_it(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    with build.lock() as held:
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[held]
        )
    with pytest.raises(build.Busy), build.lock():
        pass
    child.communicate(b"\n")
    with build.lock():
        pass


def test_a_failure_is_what_the_job_said_last(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    log = tmp_path / "logs" / "unlearn" / "a.log"
    log.parent.mkdir(parents=True)
    noise = "Error in rule run:\n    message: None\n    jobid: 2\n    log: logs/unlearn/a.log (check log file(s))\n    shell:\n"
    log.write_text("a warning\nunlearn/a: The forget set is empty.\nanother warning\n")
    assert build.failure(noise).startswith("unlearn/a: The forget set is empty. (log: ")
    log.write_text("")
    assert build.failure(noise).startswith("unlearn/a: the job was killed.")
    assert build.failure(noise + noise.replace("/a.log", "/b.log") + noise).endswith(
        "; failed too: unlearn/b)"
    )
    assert "Snakemake stopped: no rule" in build.failure("a\nno rule\n")


def test_a_recording_goes_on_after_a_failure_and_a_book_does_not(tmp_path, monkeypatch):
    """The exit status tells of it all the same."""
    called = []

    class Ended:
        returncode, stdout = 1, []
        __enter__, __exit__ = lambda self: self, lambda self, *_: None

    monkeypatch.setattr(build, "LOG", tmp_path / "snakemake.log")
    monkeypatch.setattr(build.estimate, "LAST", tmp_path / "seconds.json")
    monkeypatch.setattr(
        build.subprocess, "Popen", lambda words, **_: called.append(words) or Ended()
    )
    for name in ("bench", "quick"):
        with pytest.raises(RuntimeError, match="Snakemake stopped"):
            build.run(profile.read(name), [], 1, 0)
    assert ["--keep-going" in words for words in called] == [True, False]


def test_a_run_waits_for_the_curation_that_makes_its_data_set():
    organic = profile.read("organic")
    of = lambda name: [job.id for job in organic.upstream(organic.jobs[name])]
    emails, urls = (f"curate/machine-{kind}/qwen2.5-coder-1.5b" for kind in ("email", "url"))
    assert of("unlearn/machine-email/qwen2.5-coder-1.5b/revs-seed1") == [emails] and of(
        "unlearn/machine-url/qwen2.5-coder-1.5b/revs-seed1"
    ) == [urls]
    documents = replace(
        organic.jobs[emails],
        parameters=organic.jobs[emails].parameters | {"name": "machine", "kinds": ["email", "url"]},
    )
    assert organic.jobs["unlearn/machine-url/qwen2.5-coder-1.5b/revs-seed1"].needs(
        documents
    )  # one curation of several kinds serves as well
    assert [
        other.id for other in organic.upstream(organic.jobs["own/machine/qwen2.5-coder-1.5b"])
    ] == ["curate/machine-email/qwen2.5-coder-1.5b"]  # the list that it reads
    assert of(emails) == [] and not any(
        emails in [other.id for other in profile.read("quick").upstream(job)]
        for job in profile.read("quick").jobs.values()
    )


def test_progress_counts_finished_jobs():
    quick = profile.read("quick")
    first, *others = quick.jobs
    overview = build.Overview(profile.Profile("quick", "t", quick.jobs, ["a", "b"]), ["a", "b"], 2)
    assert overview("a: step 1 of 2").startswith("[0/2 done")
    assert overview("a: finished in 12 s").startswith("[1/2 done")
    assert overview("b: finished in 3 s").startswith("[2/2 done, 0 s, about 0 s left]")
    assert overview.took == {"a": 12, "b": 3}
    assert overview.seconds() == {"a": 12, "b": 3, "pages": 0}  # side by side
    overview = build.Overview(
        profile.Profile("quick", "t", quick.jobs, ["a", "b"]), ["a", first, *others], 2
    )
    for name in ("a", first, *others):
        overview(f"{name}: finished in 2 s")
    assert overview.seconds() == dict.fromkeys(("a", first, *others), 2) | {
        "runs": 0
    }  # only all pages count, and no fine-tune


def test_the_time_left_is_of_jobs_that_go_side_by_side(monkeypatch):
    monkeypatch.setattr(build.estimate, "left", lambda name, job: 60)
    quick = profile.read("quick")
    alone, shared = (
        next(name for name, job in quick.jobs.items() if job.abreast == n) for n in (1, 2)
    )
    expect = lambda names, cores, left: (
        build.Overview(profile.Profile("quick", "t", quick.jobs, ["a", "b"]), names, cores)(
            "x"
        ).endswith(f"about {left} left] x")
        or pytest.fail(str((names, cores)))
    )
    expect(["a", "b"], 1, "2 min")
    expect(["a", "b"], 2, "60 s")
    expect([alone, shared, "book"], 2, "2 min")
    expect([alone, shared, "book"], 1, "3 min")


@pytest.mark.parametrize(
    "name",
    [
        "quick",
        "tune",
        "core",
        "ablations",
        "organic",
        "gptj-tune",
        "gptj",
        "integrity",
        "integrity-large",
        "bench",
        "paper",
        "pile",
    ],
)
def test_plan_says_what_a_profile_takes(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["plan", name])
    plan.main()
    said = capsys.readouterr().out
    assert (
        f"{len(profile.read(name).jobs)} runs" in said
        and "Disk: " in said
        and ("Download: " in said) == (not name.startswith("gptj"))
        and "GiB" in said
    )


# --- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture
def executed():
    """A source notebook and what an executed copy of it looks like."""
    v4 = nbformat.v4
    source = v4.new_notebook(
        cells=[
            v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]}),
            v4.new_markdown_cell("Text"),
            v4.new_code_cell("print(x)"),
        ]
    )
    done = copy.deepcopy(source)
    done.cells.insert(
        1, v4.new_code_cell("x = 2", metadata={"tags": ["injected-parameters"], "papermill": {}})
    )
    for number, cell in enumerate(cell for cell in done.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
    done.cells[-1].outputs = [v4.new_output("stream", name="stdout", text="2\n")]
    done.metadata.papermill = {"exception": None}
    return source, done


def test_a_page_has_the_text_of_the_source_and_the_outputs_of_the_run(executed):
    source, done = executed
    source.cells[1].source = "Better text"
    page = site.merge(source, done, "n")
    assert [cell.source for cell in page.cells] == ["x = 1", "x = 2", "Better text", "print(x)"]
    assert page.cells[-1].outputs[0].text == "2\n" and page.cells[-1].execution_count == 3


def test_outputs_that_are_not_shown_are_not_staged(executed):
    source, done = executed
    source.cells[-1].metadata.tags = ["remove-output"]
    assert site.merge(source, done, "n").cells[-1].outputs == []


def test_a_caption_names_the_model_that_was_given(executed):
    """The injected one, else that of the parameters cell."""
    source, done = executed
    source.cells[-1].metadata.mystnb = {"figure": {"caption": "Ours, {model}, {data}."}}
    seen = []
    for lines in (
        ("x = 1", "x = 2"),
        ('model = "smollm2-135m"\ndata = "ssn"', "x = 2"),
        ('model = "smollm2-135m"', 'model = "gptj-small"'),
    ):
        for cell, text in zip(done.cells, lines):
            cell.source = text
        source.cells[0].source = lines[0]
        seen.append(
            site.merge(copy.deepcopy(source), done, "n")
            .cells[-1]
            .metadata.mystnb["figure"]["caption"]
        )
    assert seen == [
        "Ours, {model}, {data}.",
        f"Ours, {results.title('smollm2-135m')}, ssn.",
        f"Ours, {results.title('gptj-small')}, {{data}}.",
    ]


def test_a_notebook_that_was_changed_since_is_not_shown_with_old_outputs(executed):
    """Another line of code, a cell more or a cell less; text may change."""
    for change in (
        lambda cells: cells[-1].update(source="print(x + 1)"),
        lambda cells: cells.append(nbformat.v4.new_code_cell("1")),
        lambda cells: cells.pop(),
    ):
        source = copy.deepcopy(executed[0])
        change(source.cells)
        with pytest.raises(
            ValueError, match="other cells than when it was executed: run the build again"
        ):
            site.merge(source, copy.deepcopy(executed[1]), "n")


def failed(done):
    done.metadata.papermill.exception = True


def an_error(done):
    done.cells[-1].outputs = [
        nbformat.v4.new_output("error", ename="KeyError", evalue="k", traceback=[])
    ]


def unexecuted(done):
    done.cells[-1].execution_count = None


def stderr(done):
    done.cells[-1].outputs[0].name = "stderr"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (failed, "n failed"),
        (an_error, "n, cell 4 shows an error: KeyError"),
        (unexecuted, "n, cell 4 was not executed"),
        (stderr, "n, cell 4 writes to stderr: 2"),
    ],
)
def test_what_jupyter_book_lets_through_is_refused(executed, spoil, sentence):
    done = executed[1]
    site.gate(done, "n")
    spoil(done)
    with pytest.raises(ValueError, match=sentence):
        site.gate(done, "n")


def test_a_folder_of_this_machine_is_refused_in_outputs(executed):
    done = executed[1]
    site.gate_paths(done, "n")
    done.cells[-1].outputs[0].text = f"written to {ROOT}/build/rows"
    with pytest.raises(ValueError, match="n, cell 4 shows a folder of this machine"):
        site.gate_paths(done, "n")


# --- adopting --------------------------------------------------------------------------------------------------------


def finished(folder: Path, name: str, memorised: int = 3) -> Path:
    """A valid, current row of a memorising run."""
    modules = ["companion.runs.memorise"]
    made = rows.provenance(modules, {"seed": 0}, {}, {"load": 1.0}) | {
        "model": {"name": "m", "revision": "r", "dtype": "float32"},
        "tokenizer": "t",
    }
    result = {
        "sentences": 4,
        "memorised": memorised,
        "loss": [1.0],
        "learned": [4],
        "tokenizer": "t",
        "vocabulary": 10,
    }
    rows.write(folder, name, "memorise", result, [{"id": "a", "rank": memorised}], made)
    return folder / f"{name}.json"


def test_adopt_tells_new_changed_and_same_rows(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    finished(source, "memorise/a"), finished(source, "memorise/b")
    assert adopt.adopt(source, target)["new"] == ["memorise/a", "memorise/b"]
    finished(source, "memorise/b", memorised=4)
    said = adopt.adopt(source, target)
    assert (said["same"], said["changed"], said["new"], said["refused"]) == (
        ["memorise/a"],
        ["memorise/b"],
        [],
        [],
    )
    assert rows.read(target / "memorise/b.json")["result"]["memorised"] == 4
    assert (target / "memorise/b.items.csv.gz").read_bytes() == (
        source / "memorise/b.items.csv.gz"
    ).read_bytes()


def test_a_fine_tune_is_left_while_recorded_rows_stand_on_another(tmp_path, monkeypatch):
    """Once they are made again, it is taken with them."""
    monkeypatch.setattr(adopt, "finetune", lambda settings: settings)
    source, target = tmp_path / "from", tmp_path / "to"
    finished(source, "memorise/a"), adopt.adopt(source, target)
    finished(target, "unlearn/x"), finished(target, "bench/x")
    finished(source, "memorise/a", memorised=4)
    (left,) = adopt.adopt(source, target)["left"]
    assert left.startswith(
        "memorise/a: it is another fine-tune than the recorded one, on which 1 recorded rows stand, such as unlearn/x;"
    )
    assert rows.read(target / "memorise/a.json")["result"]["memorised"] != 4
    finished(source, "unlearn/x")
    said = adopt.adopt(source, target)
    assert said["changed"] == ["memorise/a"] and not said["left"]


def spoil(path: Path, change) -> None:
    row = json.loads(path.read_text(encoding="utf-8"))
    change(row)
    path.write_text(json.dumps(row), encoding="utf-8")


def test_a_recorded_row_that_no_longer_fits_the_schema_is_replaced(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    finished(source, "memorise/a"), finished(source, "memorise/b"), adopt.adopt(source, target)
    spoil(target / "memorise/a.json", lambda row: row["result"].pop("loss"))
    (target / "memorise/b.json").write_text("{")
    assert adopt.adopt(source, target)["changed"] == ["memorise/a", "memorise/b"] and rows.read(
        target / "memorise/b.json"
    )


def test_adopt_refuses_stale_invalid_and_incomplete_rows(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    spoil(finished(source, "stale"), lambda row: row["provenance"]["settings"].update(seed=1))
    spoil(finished(source, "invalid"), lambda row: row["result"].pop("loss"))
    spoil(finished(source, "old"), lambda row: row.update(schema=0))
    adopt.items(finished(source, "without-items")).unlink()
    said = adopt.adopt(source, target)
    assert [line.split(":")[0] for line in said["refused"]] == [
        "invalid",
        "old",
        "stale",
        "without-items",
    ]
    assert "it is stale" in said["refused"][2] and "does not fit the schema" in said["refused"][0]
    assert not list(target.rglob("*.json"))


def test_an_experiment_runs_from_the_command_line_with_its_own_defaults(monkeypatch):
    """Only what is given is read as YAML: a default that is a text stays one."""
    from companion.runs import command

    seen = {}

    def run(seed: "int" = 1, tag: "str" = "", forget: "int | None" = None) -> dict:
        """Nothing but a record of its settings."""
        seen.update(seed=seed, tag=tag, forget=forget)

    monkeypatch.setattr(sys, "argv", ["run", "--seed", "2"])
    command(run)
    assert seen == {"seed": 2, "tag": "", "forget": None}
    monkeypatch.setattr(sys, "argv", ["run", "--seed", "two"])
    with pytest.raises(SystemExit, match="seed is 'two', a str, but must be int"):
        command(run)


def test_another_row_makes_every_page_stale(tmp_path, monkeypatch):
    """A page's stamp has the rows in it, so that one changed number executes it again."""
    for name in ("notebooks", "companion.workflow", "paper", "params", "data", "book"):
        (tmp_path / name).symlink_to(stamps.ROOT / name)
    (tmp_path / "rows").mkdir()
    row = tmp_path / "rows" / "a.json"
    row.write_text('{"specificity": 0.5}')
    monkeypatch.setattr(stamps, "ROOT", tmp_path)
    before = {page: stamps.page_stamp(page, []) for page in ("core", "claims")}
    assert before == {page: stamps.page_stamp(page, []) for page in before}
    row.write_text('{"specificity": 0.6}')
    assert all(stamps.page_stamp(page, []) != before[page] for page in before)
