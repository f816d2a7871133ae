"""Profiles: params/NAME.yml says which runs to make and which pages to execute after them.

A run names a notebook, its parameters, and lists to vary ``over``; every combination is one job, and every job writes
one row. A job is called as its row is: experiment/data/model/method-seed-tag.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from companion.runs import check, methods
from companion.runs.memorise import finetune
from companion.runs.nearest import hint
from companion.workflow.paths import ROOT, products, shown

EXPERIMENTS = ("bench", "calibrate", "curate", "memorise", "own", "tune", "unlearn")
NAMED = (
    "data",
    "model",
    "name",
    "what",
    "method",
    "seed",
    "digits",
    "tag",
)  # parameters that a job's name shows without a tag


@dataclass(frozen=True)
class Job:
    """One run of a heavy notebook."""

    notebook: str
    parameters: dict = field(hash=False)  # those that differ from the notebook's defaults
    rows: str  # the folder that its row goes to, from the root
    abreast: int = 1  # how many such runs share the machine's cores

    @property
    def settings(self) -> dict:
        """Every parameter, defaults included."""
        return defaults(self.notebook) | self.parameters

    @property
    def id(self) -> str:
        """The name of the row that it writes."""
        settings = self.settings
        model = Path(settings["model"]).name.removesuffix(".gguf")
        about = {"curate": "name", "own": "out"}.get(self.notebook, "data")
        place = f"{self.notebook}/{Path(settings[about]).stem}/{model}"
        if self.notebook in ("curate", "own"):
            return place
        if self.notebook == "memorise":
            return (
                place
                + ("" if settings["digits"] == "noise" else f"-{settings['digits']}")
                + ("-autocast" if settings["autocast"] else "")
            )
        last = (
            settings["what"]
            if self.notebook == "bench"
            else f"seed{settings['seed']}"
            if self.notebook == "calibrate"
            else f"{settings['method']}-seed{settings['seed']}"
        )
        return f"{place}/{last}" + (f"-{settings['tag']}" if settings.get("tag") else "")

    @property
    def row(self) -> Path:
        return ROOT / self.rows / f"{self.id}.json"

    def needs(self, other: "Job") -> bool:
        """Does this job start from the model that ``other`` memorises, or read the data set or the list that it curates?"""
        if other.notebook == "curate":
            name = other.settings["name"]
            return self.settings.get("secrets") == f"build/curated/{name}.txt" or self.settings.get(
                "data"
            ) in [
                f"build/curated/{part}.jsonl"
                for part in (name, *(f"{name}-{kind}" for kind in other.settings["kinds"]))
            ]
        if self.notebook == "memorise" or other.notebook != "memorise":
            return False
        return finetune(self.settings) == {
            name: value for name, value in other.settings.items() if name != "rows"
        }


@dataclass(frozen=True)
class Profile:
    """What params/NAME.yml asks for."""

    name: str
    title: str
    jobs: dict[str, Job]  # by name, in the file's order
    pages: list[str]

    def upstream(self, job: Job) -> list[Job]:
        """The jobs that must be finished before this one."""
        return [other for other in self.jobs.values() if job.needs(other)]

    def samples(self) -> dict[str, Job]:
        """The first run of each heavy notebook: it is shown as that notebook's page."""
        first: dict[str, Job] = {}
        for job in self.jobs.values():
            first.setdefault(job.notebook, job)
        return first


def experiment(notebook: str):
    """The function behind a heavy notebook."""
    return importlib.import_module(f"companion.runs.{notebook}").run


@functools.cache
def defaults(notebook: str) -> dict:
    """A heavy notebook's parameters with their defaults: those of its experiment."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(experiment(notebook)).parameters.items()
    }


def known() -> list[str]:
    """The profiles that there are: the files of params/ that name runs."""
    return sorted(
        path.stem
        for path in (ROOT / "params").glob("*.yml")
        if "runs:" in path.read_text(encoding="utf-8")
    )


def read(name: str) -> Profile:
    """The profile of params/NAME.yml, expanded; a mistake in the file raises ValueError with one sentence."""
    path = ROOT / "params" / f"{name}.yml"
    if not path.is_file():
        raise ValueError(f"There is no profile '{name}': there are {', '.join(known())}.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(
            f"{shown(path)} is not YAML{f' at line {mark.line + 1}' if mark else ''} ({getattr(error, 'problem', 'unreadable')}): mend it there."
        ) from None
    try:
        return build(name, content)
    except ValueError as error:
        raise ValueError(f"{shown(path)}: {error}") from None


def build(name: str, content: dict) -> Profile:
    """A profile from a parsed file."""
    known_keys("the profile", content, {"title": str, "runs": list}, {"pages": list})
    rows = shown(products(name) / "rows")
    jobs: dict[str, Job] = {}
    for job in (job for run in content["runs"] for job in expand(run, rows)):
        if job.id in jobs:
            raise ValueError(
                f"two runs would write the same row {job.id}: give them different tags."
            )
        jobs[job.id] = job
    pages = content.get("pages", [])
    if pages and name != "quick":
        raise ValueError("only the profile quick has pages: the others make rows.")
    for page in pages:
        if not isinstance(page, str) or page in EXPERIMENTS:
            raise ValueError(
                f"{page!r} cannot be a page: pages are light notebooks, given by name."
            )
        if not (ROOT / "notebooks" / f"{page}.ipynb").is_file():
            raise ValueError(
                f"there is no notebook '{page}'"
                + hint(page, sorted([p.stem for p in (ROOT / "notebooks").glob("*.ipynb")]))
            )
    return Profile(name, content["title"], jobs, pages)


def expand(run: dict, rows: str) -> list[Job]:
    """The jobs of one entry of ``runs``: one for each combination of the lists in ``over``.

    ``abreast`` says how many runs like these share the cores, 1 unless it is given. What is varied and not part of a job's name anyway is added to its tag: ``n_max50``; of a mapping, each of its settings.
    """
    known_keys("a run", run, {"notebook": str}, {"parameters": dict, "over": dict, "abreast": int})
    notebook, fixed, over = run["notebook"], run.get("parameters", {}), run.get("over", {})
    if notebook not in EXPERIMENTS:
        raise ValueError(
            f"'{notebook}' is not a notebook that makes rows" + hint(notebook, sorted(EXPERIMENTS))
        )
    for name, values in over.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"over: {name} must be a list of values, but is {values!r}.")
        if name in fixed:
            raise ValueError(f"{name} stands in parameters and in over: give it once.")
    if run.get("abreast", 1) < 1:
        raise ValueError(
            f"abreast is {run['abreast']}, but at least one run shares the machine: give 1 or more."
        )
    jobs = []
    for values in itertools.product(*over.values()):
        varied = dict(zip(over, values))
        parameters = fixed | varied
        settings = [
            pair
            for name, value in varied.items()
            if name not in NAMED
            for pair in (value.items() if isinstance(value, dict) else [(name, value)])
        ]
        extra = [f"{name}{value}" for name, value in settings]
        if extra and "tag" in defaults(notebook):
            parameters["tag"] = "-".join(
                ([parameters["tag"]] if parameters.get("tag") else []) + extra
            )
        if "rows" in parameters:
            raise ValueError("rows is set by the workflow: leave it out.")
        check(parameters, experiment(notebook))
        if "method" in parameters:
            methods.method(parameters["method"])
        jobs.append(
            Job(
                notebook,
                parameters | ({} if rows == defaults(notebook)["rows"] else {"rows": rows}),
                rows,
                run.get("abreast", 1),
            )
        )
    return jobs


def known_keys(what: str, content, required: dict[str, type], optional: dict[str, type]) -> None:
    """Refuses a missing, an unknown or a wrongly typed key."""
    if not isinstance(content, dict):
        raise ValueError(
            f"{what} must be a mapping with {', '.join(required)}, but is {content!r}."
        )
    for key in required:
        if key not in content:
            raise ValueError(f"{what} has no '{key}'.")
    for key, value in content.items():
        kind = (required | optional).get(key)
        if kind is None:
            raise ValueError(
                f"{what} has an unknown key '{key}'" + hint(key, sorted([*required, *optional]))
            )
        if not isinstance(value, kind):
            raise ValueError(f"{key} of {what} must be a {kind.__name__}, but is {value!r}.")
