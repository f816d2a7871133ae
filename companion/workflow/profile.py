"""Profiles: params/NAME.yml says which runs to make and which pages to execute after them.

A run names a notebook, its parameters, and lists to vary ``over``; every combination is one job and
writes one row, after which it is called: experiment/data/model/method-seed-tag. A profile may name
another fine-tune than the usual one for all of its runs. A run may name a ``search`` by its tag:
its settings are then what the recorded search of its method chose on other people's secrets, and
it waits where there is none. Defaults are those of the notebook's cell of parameters, which a test
holds equal to its experiment's: nothing is imported here that takes long.
"""

from __future__ import annotations

import ast
import functools
import itertools
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
import yaml

from companion.data.datasets import together
from companion.experiments.run_names import ending, like
from companion.store.paths import ROOT, products, shown
from companion.store.rows import RECORDED, find
from companion.store.suggestions import hint
from companion.store.versions import methods

EXPERIMENTS = ("curate", "documents", "finetune", "tune", "unlearn")
MAPPINGS = ("finetune", "held", "hyperparameters", "ranges")  # parameters that may be one
# parameters that a job's name shows without a tag
NAMED = ("data", "model", "name", "what", "method", "seed", "digits", "tag")


@dataclass(frozen=True)
class Job:
    """One run of a heavy notebook."""

    notebook: str
    parameters: dict = field(hash=False)  # those that differ from the notebook's defaults
    rows: str  # the folder that its row goes to, from the root
    abreast: int = 1  # how many such runs share the machine's cores
    waits: bool = False  # for a search that is not recorded and is to choose its settings

    @property
    def settings(self) -> dict:
        """Every parameter, defaults included."""
        return defaults(self.notebook) | self.parameters

    @property
    def id(self) -> str:
        """The name of the row that it writes."""
        settings = self.settings
        model = Path(settings["model"]).name.removesuffix(".gguf")
        about = {"curate": "name", "documents": "out"}.get(self.notebook, "data")
        place = f"{self.notebook}/{Path(settings[about]).stem}/{model}"
        if self.notebook in ("curate", "documents"):
            return place
        if self.notebook == "finetune":
            return place + ending(settings, defaults("finetune"))
        last = f"{settings['method']}-seed{settings.get('seed')}"
        return f"{place}/{last}" + (f"-{settings['tag']}" if settings.get("tag") else "")

    @property
    def row(self) -> Path:
        return ROOT / self.rows / f"{self.id}.json"

    def needs(self, other: Job) -> bool:
        """Does it start from the model that ``other`` memorises, or read what that curates?"""
        mine, theirs = self.settings, other.settings
        if other.notebook == "curate":
            parts = [f"-{kind}{part}.jsonl" for kind in theirs["kinds"] for part in ("", "-tune")]
            ends = [".txt", ".jsonl", *parts]
            made = [f"build/curated/{theirs['name']}{end}" for end in ends]
            return mine.get("secrets") in made or mine.get("data") in made
        tuned = mine.get("finetune")
        if other.notebook != "finetune" or not tuned:
            return False
        given = tuned if isinstance(tuned, dict) else {}
        usual = {"model": mine["model"], "data": together(mine.get("data", "ssn"))}
        wanted = defaults("finetune") | usual | given
        return {**wanted, "rows": ""} == {**theirs, "rows": ""}


@dataclass(frozen=True)
class Profile:
    """What params/NAME.yml asks for."""

    name: str
    title: str
    jobs: dict[str, Job]  # by name, in the file's order
    pages: list[str]
    waiting: dict[str, Job] = field(default_factory=dict)  # runs whose search is not recorded

    def upstream(self, job: Job) -> list[Job]:
        """The jobs that must be finished before this one."""
        return [other for other in self.jobs.values() if job.needs(other)]

    def samples(self) -> dict[str, Job]:
        """The first run of each heavy notebook: it is shown as that notebook's page."""
        first: dict[str, Job] = {}
        for job in self.jobs.values():
            first.setdefault(job.notebook, job)
        return first

    def postponed(self) -> str:
        """What is said of the runs that wait."""
        which = f"{len(self.waiting)} more wait for a search that is to choose their settings"
        return f"{which}: run and promote that first."


@functools.cache
def defaults(notebook: str) -> dict:
    """A notebook's parameters with their defaults."""
    return parameters(ROOT / "notebooks" / f"{notebook}.ipynb")


def parameters(path: Path) -> dict:
    """The literals in the cell of parameters of a notebook."""
    for cell in nbformat.read(path, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            nodes = ast.parse(cell.source).body
            return {node.targets[0].id: ast.literal_eval(node.value) for node in nodes}
    return {}


def options(settings: dict) -> list[str]:
    """Settings as an experiment's command takes them: texts as they are, all others as JSON."""
    values = (value if isinstance(value, str) else json.dumps(value) for value in settings.values())
    return [f"--{name}={value}" for name, value in zip(settings, values, strict=True)]


def known() -> list[str]:
    """The profiles that there are: the files of params/ that name runs."""
    files = (ROOT / "params").glob("*.yml")
    return sorted(path.stem for path in files if "\nruns:" in path.read_text(encoding="utf-8"))


def read(name: str) -> Profile:
    """The profile of params/NAME.yml, expanded; a mistake is a ValueError of one sentence."""
    path = ROOT / "params" / f"{name}.yml"
    if not path.is_file():
        raise ValueError(f"There is no profile '{name}': there are {', '.join(known())}.")
    try:
        return build(name, yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise ValueError(f"{shown(path)} is not YAML ({where}): mend it there.") from None
    except ValueError as error:
        raise ValueError(f"{shown(path)}: {error}") from None


def build(name: str, content: dict) -> Profile:
    """A profile from a parsed file."""
    optional = {"pages": list, "finetune": dict}
    known_keys("the profile", content, {"title": str, "runs": list}, optional)
    rows, pages = shown(products(name) / "rows"), content.get("pages", [])
    jobs: dict[str, Job] = {}
    tuned = content.get("finetune", {})
    for job in (job for run in content["runs"] for job in expand(run, rows, tuned)):
        if job.id in jobs:
            raise ValueError(f"two runs would write the same row {job.id}: give them other tags.")
        jobs[job.id] = job
    there = sorted({path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} - {*EXPERIMENTS})
    for page in pages:
        if page not in there:
            raise ValueError(f"'{page}' cannot be a page" + hint(page, there))
    if pages and name != "quick":
        raise ValueError("only the profile quick has pages: the others make rows.")
    ready = {name: job for name, job in jobs.items() if not job.waits}
    waiting = {name: job for name, job in jobs.items() if job.waits}
    return Profile(name, content["title"], ready, pages, waiting)


def expand(run: dict, rows: str, finetune: dict | None = None) -> list[Job]:
    """The jobs of one entry of ``runs``: one for each combination of the lists in ``over``.

    ``finetune`` is the profile's, from which each run starts that does not start without one.
    ``abreast`` says how many runs like these share the cores. What is varied and no part of a job's
    name anyway is added to its tag: ``T3``; of a mapping, each of its settings: ``n_max50``.
    """
    optional = {"parameters": dict, "over": dict, "abreast": int, "search": str}
    known_keys("a run", run, {"notebook": str}, optional)
    notebook, fixed, over = run["notebook"], run.get("parameters", {}), run.get("over", {})
    if notebook not in EXPERIMENTS:
        end = hint(notebook, sorted(EXPERIMENTS))
        raise ValueError(f"'{notebook}' is not a notebook that makes rows" + end)
    if "search" in run and notebook != "unlearn":
        raise ValueError(f"a search chooses the settings of unlearn, but not those of {notebook}.")
    if run.get("abreast", 1) < 1:
        raise ValueError(f"abreast is {run['abreast']}, but one run at least shares the machine.")
    for name in {**fixed, **over}:
        if name == "rows":
            raise ValueError("rows is set by the workflow: leave it out.")
        if name in over and not (isinstance(over[name], list) and over[name]):
            raise ValueError(f"over: {name} must be a list of values, but is {over[name]!r}.")
        if name in fixed and name in over:
            raise ValueError(f"{name} stands in parameters and in over: give it once.")
    if finetune and notebook == "finetune":
        fixed = {name: value for name, value in finetune.items() if name not in over} | fixed
    elif finetune and (given := fixed.get("finetune", defaults(notebook).get("finetune"))):
        fixed = fixed | {"finetune": finetune | (given if isinstance(given, dict) else {})}
    jobs = []
    for values in itertools.product(*over.values()):
        varied = dict(zip(over, values, strict=True))
        parameters, extra = checked(notebook, fixed | varied), {}
        for name, value in varied.items():
            if name not in NAMED:
                extra |= value if isinstance(value, dict) else {name: value}
        if extra and "tag" in defaults(notebook):
            said = [f"{name}{value}" for name, value in extra.items()]
            parameters["tag"] = "-".join([*filter(None, [parameters.get("tag")]), *said])
        if extra and "overrides" in defaults(notebook):
            parameters["overrides"] = extra
        if (name := parameters.get("method", "revs")) not in methods():
            raise ValueError(f"There is no method '{name}'" + hint(name, methods()))
        if rows != defaults(notebook)["rows"]:
            parameters["rows"] = rows
        job = Job(notebook, parameters, rows, run.get("abreast", 1))
        jobs.append(with_settings(job, run["search"]) if "search" in run else job)
    return jobs


def checked(notebook: str, parameters: dict) -> dict:
    """A notebook's parameters; ValueError for one that it lacks, or that is unlike its default."""
    usual = defaults(notebook)
    for name, value in parameters.items():
        if name not in usual:
            raise ValueError(f"There is no parameter '{name}'" + hint(name, usual))
        kind, like = type(usual[name]), f"something like {usual[name]!r}"
        if name in MAPPINGS:
            kind, like = (kind, dict), "a mapping"
        if kind not in (int, float, type(None)) and not isinstance(value, kind):
            raise ValueError(f"{name} is {value!r}, but must be {like}.")
        if name == "finetune" and isinstance(value, dict):
            checked("finetune", value)
    return parameters


def with_settings(job: Job, tag: str) -> Job:
    """The job with the settings that the recorded search of this tag chose for its method; those
    that it has itself lie over them. Controls are edits that nobody searched, or REVS's."""
    entry = methods()[job.settings["method"]]
    owner = entry.get("settings_of", job.settings["method"])
    if owner == "unedited":
        return job
    data = like(Path(job.settings["data"]).stem)
    name = f"tune/{data}-tune/{job.settings['model']}/{owner}-seed0-{tag}"
    if not (found := searches().get(name)):
        return replace(job, waits=True)
    chosen = found["result"]["hyperparameters"] | (job.settings.get("hyperparameters") or {})
    return replace(job, parameters=job.parameters | {"hyperparameters": chosen})


@functools.cache
def searches() -> dict[str, dict]:
    """The recorded searches by name."""
    return find(RECORDED, kind="tune")


def known_keys(what: str, content, required: dict[str, type], optional: dict[str, type]) -> None:
    """Refuses a missing, an unknown or a wrongly typed key."""
    if not isinstance(content, dict):
        raise ValueError(f"{what} must be a mapping with {', '.join(required)}, no {content!r}.")
    if missing := [key for key in required if key not in content]:
        raise ValueError(f"{what} has no '{missing[0]}'.")
    kinds = required | optional
    for key, value in content.items():
        if key not in kinds:
            raise ValueError(f"{what} has an unknown key '{key}'" + hint(key, sorted(kinds)))
        if not isinstance(value, kinds[key]):
            raise ValueError(f"{key} of {what} must be a {kinds[key].__name__}, no {value!r}.")
