"""The workflow: content decides, mistakes are sentences, nothing is half-written or left behind."""

import copy
import importlib
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import nbformat
import pytest

from companion.analysis import results
from companion.experiments import check, command
from companion.store import rows
from companion.store.paths import ROOT
from companion.workflow import build, pages, plan, profile, record, site, sources

RUN = {
    "notebook": "unlearn",
    "parameters": {"data": "ssn"},
    "over": {"method": ["revs", "random"], "seed": [1, 2]},
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


def settings_of(name: str) -> type:
    """What an experiment can be told."""
    return importlib.import_module(f"companion.experiments.{name}").Settings


def made(*runs: dict, name: str = "quick") -> profile.Profile:
    return profile.build(name, {"title": "t", "runs": list(runs)})


# --- profiles ---------------------------------------------------------------------------------


def asked(**parameters) -> dict:
    """A profile of one run that names a search."""
    run = {"notebook": "unlearn", "search": "x", "parameters": parameters}
    return {"title": "t", "runs": [run]}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"title": "t", "runs": [RUN], "page": []}, "unknown key 'page': did you mean 'pages'?"),
        ({"runs": [RUN]}, "the profile has no 'title'"),
        ({"title": "t", "runs": {}}, "runs of the profile must be a list"),
        ([], "the profile must be a mapping"),
        ({"title": "t", "runs": [{"notebook": "unlern"}]}, "did you mean 'unlearn'?"),
        ({"title": "t", "runs": [RUN | {"parameters": {"sed": 1}}]}, "did you mean 'seed'?"),
        ({"title": "t", "runs": [RUN | {"over": {"method": ["rev"]}}]}, "did you mean 'revs'?"),
        ({"title": "t", "runs": [RUN | {"over": {"seed": 1}}]}, "over: seed must be a list"),
        ({"title": "t", "runs": [RUN | {"parameters": {"seed": 1}}]}, "seed stands in parameters"),
        ({"title": "t", "runs": [RUN | {"abreast": 0}]}, "abreast is 0, but one run at least"),
        ({"title": "t", "runs": [RUN | {"abreast": "two"}]}, "abreast of a run must be a int"),
        ({"title": "t", "runs": [RUN | {"parameters": {"rows": "rows"}}]}, "set by the workflow"),
        ({"title": "t", "runs": [RUN, RUN]}, "the same row unlearn/ssn/smollm2-135m/revs-seed1"),
        ({"title": "t", "runs": [RUN], "pages": ["nowhere"]}, "'nowhere' cannot be a page"),
        ({"title": "t", "runs": [RUN], "pages": ["unlearn"]}, "cannot be a page"),
        ({"title": "t", "runs": [RUN], "pages": [["core"]]}, "'['core']' cannot be a page"),
        (
            {"title": "t", "runs": [RUN], "finetune": {"digit": "keep"}},
            "There is no parameter 'digit': did you mean 'digits'?",
        ),
        (asked(data=3), "data is 3, but must be something like 'ssn'."),
        (asked(model=None), "model is None, but must be something like 'smollm2-135m'."),
        (asked(method=["revs"]), "method is ['revs'], but must be something like 'revs'."),
        (asked(hyperparameters=[3]), "hyperparameters is [3], but must be a mapping."),
    ],
)
def test_a_mistake_in_a_profile_is_one_sentence(content, sentence):
    with pytest.raises(ValueError) as caught:
        profile.build("quick", content)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_every_combination_is_a_job_and_what_is_varied_is_in_its_name():
    names = [f"{method}-seed{seed}" for method in ("revs", "random") for seed in (1, 2)]
    assert list(made(RUN).jobs) == [f"unlearn/ssn/smollm2-135m/{name}" for name in names]
    over = {"hyperparameters": [{}, {"lr": 0.1, "steps": 3}], "T": [1]}
    run = {"notebook": "unlearn", "parameters": {"tag": "try"}, "over": over}
    assert [job.parameters["tag"] for job in profile.expand(run, "rows")] == [
        "try-T1",
        "try-lr0.1-steps3-T1",
    ]


@pytest.mark.parametrize("name", profile.known())
def test_the_profiles_that_there_are_can_be_run(name, capsys, monkeypatch):
    """Each job's parameters are the experiment's own, in name and kind; and a plan can be made."""
    read = profile.read(name)
    for job in read.jobs.values():
        check(job.settings, settings_of(job.notebook))
    monkeypatch.setattr(sys, "argv", ["plan", name])
    plan.main()
    said = capsys.readouterr().out
    assert f"{len(read.jobs)} runs" in said and "Disk: " in said and "GiB" in said


@pytest.mark.parametrize("name", profile.EXPERIMENTS)
def test_defaults_are_read_from_the_notebook(name):
    assert profile.defaults(name) == asdict(settings_of(name)())


def test_quick_rows_and_long_ones_lie_apart():
    name = "unlearn/ssn/smollm2-135m/revs-seed1"
    quick, long = (made(RUN, name=which).jobs[name] for which in ("quick", "record"))
    assert quick.row == ROOT / f"build/rows/{name}.json" and "rows" not in quick.parameters
    assert long.row == ROOT / f"build/record/rows/{name}.json"
    assert long.parameters["rows"] == "build/record/rows"


def test_a_run_waits_for_the_model_and_the_data_that_it_needs():
    runs = [
        {"notebook": "finetune", "over": {"digits": ["learned", "keep"]}},
        RUN,
        {"notebook": "unlearn", "parameters": {"finetune": {"digits": "keep"}, "tag": "keep"}},
        {"notebook": "unlearn", "parameters": {"adapter": None, "tag": "known"}},
    ]
    some = made(*runs, name="record")
    before = {job.id.rsplit("/", 1)[1]: some.upstream(job) for job in some.jobs.values()}
    before = {name: [job.id for job in jobs] for name, jobs in before.items()}
    assert before["revs-seed2"] == ["finetune/synthetic/smollm2-135m"]
    assert before["revs-seed1-keep"] == ["finetune/synthetic/smollm2-135m-keep"]
    assert before["revs-seed1-known"] == before["smollm2-135m"] == []
    organic = profile.read("organic")
    model, kind = "qwen2.5-coder-1.5b", "machine-email"
    job = organic.jobs[f"unlearn/{kind}/{model}/revs-seed1"]
    assert [one.id for one in organic.upstream(job)] == [f"curate/{kind}/{model}"]


def test_a_profile_may_start_its_runs_from_another_fine_tune():
    """Each run that starts from one, with its own settings over the profile's; its name says so."""
    tuned = {"digits": "noise", "ordinary": 0}
    runs = [
        {"notebook": "finetune"},
        {"notebook": "finetune", "over": {"digits": ["keep"], "seed": [0, 3]}},
        RUN,
        {"notebook": "unlearn", "parameters": {"finetune": {"digits": "keep"}, "tag": "keep"}},
        {"notebook": "unlearn", "parameters": {"adapter": None, "tag": "known"}},
    ]
    some = profile.build("record", {"title": "t", "finetune": tuned, "runs": runs})
    jobs = {name.rsplit("/", 1)[1]: job for name, job in some.jobs.items()}
    assert jobs["revs-seed2"].parameters["finetune"] == tuned
    assert jobs["revs-seed1-keep"].parameters["finetune"] == {"digits": "keep", "ordinary": 0}
    assert jobs["revs-seed1-known"].parameters["finetune"] is False
    needed = {name: [other.id for other in some.upstream(job)] for name, job in jobs.items()}
    assert needed["revs-seed2"] == ["finetune/synthetic/smollm2-135m-noise-alone"]
    assert needed["revs-seed1-keep"] == ["finetune/synthetic/smollm2-135m-keep-alone"]
    assert "smollm2-135m-keep-alone-seed3" in jobs and not needed["revs-seed1-known"]


@pytest.mark.parametrize("name", [name for name in profile.known() if name != "quick"])
def test_every_job_can_be_called_without_jupyter(name, monkeypatch):
    """Its options are read as the settings that they were: texts, numbers, lists, mappings."""
    for kind, job in {job.notebook: job for job in profile.read(name).jobs.values()}.items():
        asked = profile.defaults(kind) | job.parameters
        monkeypatch.setattr(sys, "argv", [kind, *profile.options(asked)])
        seen = []
        command(settings_of(kind), seen.append)
        assert asdict(seen[0]) == asked


def test_the_record_says_what_is_missing_and_what_was_made_otherwise(monkeypatch):
    """A row of the same name from another fine-tune is not the one that a profile asks for."""
    job = next(iter(made(RUN).jobs.values()))
    asked = job.settings | {"hyperparameters": {"n_max": 3}}
    row = {"name": job.id, "kind": "unlearn", "settings": asked}
    only = profile.Profile("core", "t", {job.id: job}, [])
    monkeypatch.setattr(record, "read", lambda _: only)
    for finetune, there in ((asked["finetune"], 1), ({"digits": "keep"}, 0)):
        asked["finetune"] = finetune
        monkeypatch.setattr(record.rows, "find", lambda *_: {job.id: row})
        found, missing = record.sorted_out("core")
        assert len(found) == there and missing == [job.id] * (1 - there)


def test_a_plan_scales_recorded_rows_by_parameters_and_targets():
    usual = next(iter(made(RUN).jobs.values()))
    more = profile.Job("unlearn", usual.parameters | {"forget": 40}, usual.rows)
    large = profile.Job("unlearn", usual.parameters | {"model": "llama-3-8b"}, usual.rows)
    nobody = profile.Job("unlearn", usual.parameters | {"model": "some/model"}, usual.rows)
    assert plan.estimate(more).seconds > plan.estimate(usual).seconds
    times = plan.estimate(large).seconds / plan.estimate(usual).seconds
    assert 50 < times < 70 and plan.estimate(large).like == "smollm2-135m"
    assert plan.estimate(nobody) is None and plan.memory_mb(nobody) == plan.MEMORY_MB
    assert plan.memory_mb(nobody, gpus=1) == plan.MEMORY_MB
    assert 38_000 < plan.memory_mb(large, gpus=1) < 39_000 < plan.memory_mb(large)


def test_a_plan_knows_what_every_recorded_search_took():
    """Its row has the time of loading alone: that of its trials stands in theirs."""
    jobs = [job for job in profile.read("gptj-tune").jobs.values() if job.notebook == "tune"]
    spent = plan.trials()
    for job in jobs:
        recorded = rows.find(rows.RECORDED, kind="tune")[job.id]["result"]["trials"]
        fewer = profile.Job("tune", job.parameters | {"trials": 1}, job.rows)
        assert spent[plan.seedless(job.id)] > recorded
        assert plan.estimate(job).seconds > plan.estimate(fewer).seconds
    assert jobs


def test_a_run_may_have_the_settings_that_a_search_chose(monkeypatch):
    """Of its method, on other people's secrets; its own lie over them, and without one it waits."""
    found = {
        f"tune/{data}-tune/smollm2-135m/{method}-seed0-x": {
            "result": {"hyperparameters": {"k": size, "r_h": 0.1}}
        }
        for data, method, size in (("ssn", "revs", 7), ("emails", "revs", 8), ("ssn", "rmu", 9))
    }
    monkeypatch.setattr(profile, "searches", lambda: found)
    about = {"notebook": "unlearn", "search": "x", "over": {"data": ["ssn", "emails", "urls"]}}
    settings = lambda **given: {  # noqa: E731
        job.settings["data"]: job.settings["hyperparameters"]
        for job in profile.build("record", {"title": "", "runs": [about | given]}).jobs.values()
    }
    chosen = {"ssn": {"k": 7, "r_h": 0.1}, "emails": {"k": 8, "r_h": 0.1}}
    assert settings() == chosen | {"urls": chosen["emails"]}  # as in the paper
    given = {"method": "random", "hyperparameters": {"r_h": 0.2, "control": "tokens"}}
    assert settings(parameters=given)["ssn"] == {"k": 7, "r_h": 0.2, "control": "tokens"}
    assert settings(parameters={"method": "unedited"}) == dict.fromkeys(("ssn", "emails", "urls"))
    read = profile.build(
        "record", {"title": "", "runs": [about | {"parameters": {"method": "rmu"}}]}
    )
    assert [name.split("/")[1] for name in read.jobs] == ["ssn"]
    assert [name.split("/")[1] for name in read.waiting] == ["emails", "urls"]
    with pytest.raises(ValueError, match="a search chooses the settings of unlearn, but not those"):
        profile.build("record", {"title": "", "runs": [{"notebook": "finetune", "search": "x"}]})


def test_a_row_of_an_earlier_draw_is_no_row_made_anew(monkeypatch, tmp_path):
    """Nor has a run that was killed said why."""
    monkeypatch.setattr(record, "PLACE", tmp_path / "rows")
    (tmp_path / "rows").mkdir()
    killed = subprocess.CompletedProcess([], -9, "", "")
    monkeypatch.setattr(record.subprocess, "run", lambda *_, **__: killed)
    row = {"name": "a", "kind": "unlearn", "tag": "", "settings": {}}
    assert record.again(row).endswith(": it said nothing.)") and not record.PLACE.exists()


def test_a_negative_number_of_rows_to_draw_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make record", "-2"])
    with pytest.raises(SystemExit, match="AGAIN is -2, but must be 0 or more"):
        record.main()


# --- sources ----------------------------------------------------------------------------------


def test_templates_and_styles_are_sources_of_pages_and_wording_is_none_of_runs():
    """A page is executed anew after a change of them; a heavy notebook not after one of claims."""
    pages, runs = sources.files(sources.PAGES), sources.of_run("unlearn")
    ended = {path.suffix for path in map(Path, pages)}
    assert {".j2", ".mplstyle", ".jsonl", ".yml", ".py"} <= ended
    claims = str(ROOT / "params/claims.yml")
    assert claims in pages and claims not in runs
    assert {str(ROOT / "revs/method/algorithm.py"), str(ROOT / "notebooks/unlearn.ipynb")} <= set(
        runs
    )


# --- execution --------------------------------------------------------------------------------


def test_a_notebook_runs_with_its_parameters_and_shows_no_folder_of_this_machine(tmp_path):
    target = tmp_path / "out" / "n.ipynb"
    source = notebook(tmp_path / "n.ipynb", "import os\nprint(x, y, os.getcwd())")
    status, out, _ = runner(source, target, "-y", "{x: 5, y: b}", "--name", "job")
    assert status == 0 and f"job: 5 b {ROOT}" in out and "job: finished in " in out
    assert os.listdir(target.parent) == ["n.ipynb"]
    about = nbformat.read(target, as_version=4).metadata.papermill
    assert about.parameters == {"x": 5, "y": "b"} and "environment_variables" not in about


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("raise ValueError('There is no model: give one.')", "n: There is no model: give one. ("),
        ("1 / 0", "n: Cell 3 failed: ZeroDivisionError: division by zero ("),
    ],
)
def test_a_failing_cell_ends_with_one_sentence_and_nothing_at_the_target(tmp_path, cell, sentence):
    target = tmp_path / "n.out.ipynb"
    target.write_text("as before")
    source = notebook(tmp_path / "n.ipynb", "print(1)", cell)
    status, _, last = runner(source, target, "--name", "n")
    assert status == 1 and last.startswith(sentence) and "n.out.failed.ipynb" in last
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
    said = {
        line.split(": ")[0]: line.split(": ")[1] for line in out.splitlines() if "False" in line
    }
    assert said["a"] == said["b"] and pages.executed_from("a") == "1"
    assert pages.executed_from("d") is None


def test_a_page_that_fails_ends_all_with_its_sentence(few_pages, monkeypatch):
    with pytest.raises(RuntimeError, match="^c: Cell 2 failed: NameError"):
        pages.execute({"c": "1", "a": "2"}, 1)
    assert pages.executed_from("a") is None
    broken = lambda *_, **__: 1 / 0  # noqa: E731
    monkeypatch.setattr(pages.notebook, "execute", broken)
    with pytest.raises(ZeroDivisionError):  # of any kind: an old copy would pass for a new one
        pages.execute({"a": "1", "b": "2"}, 2)


@pytest.fixture
def checkout(tmp_path):
    """A copy of what runs and pages are made from."""
    tmp_path /= "a checkout"
    for name in (
        "notebooks",
        "companion",
        "revs",
        "document_audit",
        "paper",
        "params",
        "data",
        "rows",
    ):
        hide = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=hide)
    return tmp_path


# --- the build --------------------------------------------------------------------------------


def test_the_lock_lasts_as_long_as_the_children_that_hold_it(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BUILD", tmp_path)
    with build.lock() as held:
        words = [sys.executable, "-c", "input()"]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[held.fileno()])
    with pytest.raises(build.Busy), build.lock():
        pass
    child.communicate(b"\n")
    with build.lock():
        pass


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


def test_progress_is_what_snakemake_counts():
    assert build.steps("Building DAG of jobs...\n") == "0 steps"
    assert build.steps("1 of 9 steps (11%) done\nx\n2 of 9 steps (22%) done\n") == "2 of 9 steps"


def test_runs_that_wait_are_said_to(monkeypatch, tmp_path, capsys):
    """Also where every run does."""
    monkeypatch.setattr(build, "BUILD", tmp_path)
    monkeypatch.setattr(build, "run", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["build", "contest"])
    only = profile.Profile("contest", "t", {}, [], made(RUN).jobs)
    monkeypatch.setattr(build, "read", lambda _: only)
    build.main()
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("4 more wait for a search") and last.endswith(
        "run and promote that first."
    )


def test_a_job_that_fails_leaves_what_it_made_and_is_made_again(checkout, monkeypatch):
    """Snakemake would put the row of before in its place, and take the run as done; in a folder
    whose name has a space."""
    place = checkout
    for name in ("Snakefile", "_toc.yml"):
        shutil.copy(ROOT / name, place)
    monkeypatch.setattr(build, "ROOT", place)
    (place / "params" / "mine.yml").write_text("title: t\nruns:\n- notebook: tune\n")
    row = place / "build/record/rows/tune/ssn-tune/smollm2-135m/revs-seed0.json"
    rows.write_text(row, "old")
    code = f"    open({str(row)!r}, 'a').write(', new')\n    raise SystemExit('tune: it broke.')\n"
    code = "def run(): ...\n\n\nif __name__ == '__main__':\n" + code
    (place / "companion" / "experiments" / "tune.py").write_text(code)
    words = build.command("mine", 1, "jupyter=false")
    for made_again in (1, 2):
        done = subprocess.run(words, cwd=place / "build", capture_output=True, text=True)
        assert done.returncode == 1 and row.read_text() == "old" + ", new" * made_again
    log = place / "build/logs/record/tune/ssn-tune/smollm2-135m/revs-seed0.log"
    assert log.read_text() == "tune: it broke.\n"


def test_the_slurm_profile_and_the_workflow_fit_snakemake():
    """A dry run reads every key of the profile and makes the graph of all jobs; it starts none."""
    place = ["--snakefile", "Snakefile", "--workflow-profile", "profiles/slurm", "--dry-run"]
    more = ["--executor", "dryrun", "--config", "profile=paper", "jupyter=false"]
    words = [sys.executable, "-m", "snakemake", *place, *more]
    done = subprocess.run(words, cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout + done.stderr
    assert f"run {len(profile.read('paper').jobs)}" in " ".join(said.split())


# --- the site ---------------------------------------------------------------------------------


@pytest.fixture
def executed():
    """A source notebook and what an executed copy of it looks like."""
    v4 = nbformat.v4
    tagged = lambda tag: {"tags": [tag]}  # noqa: E731
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
        (both, "x = 2", f"Ours, {results.title('smollm2-135m')}, ssn."),
        (both, 'model = "gptj-small"', f"Ours, {results.title('gptj-small')}, ssn."),
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
