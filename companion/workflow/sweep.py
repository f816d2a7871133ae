"""Sweeps: params/sweeps/NAME.yml says which runs to make and which pages to execute after them.

An entry names an experiment, its parameters, and a grid of lists; every combination is one job and
writes one row. Grid settings that are not part of a row's name are added to its tag. A sweep that
names a file of params/ under ``settings`` takes the methods' settings from it where it has them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError

from companion.experiments.settings import (
    EXPERIMENTS,
    GOLD,
    STRICT,
    Model,
    OneSplit,
    base,
    check,
    lookup,
)
from companion.store.paths import BUILD, ROOT, params, products, short_path
from companion.store.suggestions import hint

FOLDER = ROOT / "params" / "sweeps"
NAMED = "adapter data method model name out seed tag".split()  # parts of a row's name


class Runs(BaseModel):
    """One entry of ``runs``."""

    model_config = STRICT
    experiment: Literal[tuple(EXPERIMENTS)]
    parameters: dict[str, Any] = {}
    grid: dict[str, list] = {}  # name → values; every combination is one run
    parallel: int = Field(1, ge=1)  # how many such runs share the machine's cores


class Content(BaseModel):
    """A file of params/sweeps."""

    model_config = STRICT
    title: str
    settings: Literal["first_choices"] | None = None  # in place of params/hyperparameters.yml
    runs: list[Runs] = Field(min_length=1)


@dataclass(frozen=True)
class Job:
    """One run of an experiment."""

    experiment: str
    parameters: dict = field(hash=False)  # those that differ from the experiment's defaults
    parallel: int = 1

    @cached_property
    def settings(self) -> Model:
        """The settings, defaults included; ValueError of one sentence if one is wrong."""
        return check(self.parameters, EXPERIMENTS[self.experiment])

    @property
    def id(self) -> str:
        """The name of the row that it writes."""
        return self.settings.row_name

    @property
    def row(self) -> Path:
        return ROOT / self.settings.rows / f"{self.id}.json"

    def needs(self, other: Job) -> bool:
        """Does this job read what ``other`` curates, or start from its adapter?"""
        mine, theirs = self.settings, other.settings
        if other.experiment == "finetune":
            return getattr(mine, "adapter", None) == f"build/adapters/{theirs.name}"
        if other.experiment != "curate":
            return False
        of_kind = rf"-({'|'.join(theirs.kinds)})(-tune)?"
        made = rf"build/curated/{re.escape(theirs.name)}({of_kind})?\.(jsonl|txt)"
        read = (getattr(mine, name, None) or "" for name in ("data", "secrets"))
        return any(re.fullmatch(made, path) for path in read)


@dataclass(frozen=True)
class Sweep:
    """What a file of params/sweeps asks for."""

    name: str
    title: str
    jobs: dict[str, Job]  # by name, in the file's order
    pages: list[str]  # light notebooks that are executed after the runs of the sweep quick

    def upstream(self, job: Job) -> list[Job]:
        """The jobs that must be finished before this one."""
        return [other for other in self.jobs.values() if job.needs(other)]

    def samples(self) -> dict[str, Job]:
        """The first run of each experiment: it is shown as that notebook's page."""
        first: dict[str, Job] = {}
        for job in self.jobs.values():
            first.setdefault(job.experiment, job)
        return first


def known() -> list[str]:
    """The sweeps that there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def read(name: str) -> Sweep:
    """The sweep of params/sweeps/NAME.yml, expanded; a mistake is a ValueError of one sentence."""
    path = FOLDER / f"{name}.yml"
    if not path.is_file():
        raise ValueError(f"There is no sweep '{name}': there are {', '.join(known())}.")
    try:
        return build(name, yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise ValueError(f"{short_path(path)} is not YAML ({where}): correct it there.") from None
    except ValueError as error:
        raise ValueError(f"{short_path(path)}: {error}") from None


def build(name: str, content: Any) -> Sweep:
    """A sweep from a parsed file."""
    try:
        asked = Content.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        where, last = ".".join(map(str, fault["loc"])), fault["loc"][-1:]
        known_keys = [*Content.model_fields, *Runs.model_fields]
        end = hint(last[0], known_keys) if fault["type"] == "extra_forbidden" else "."
        raise ValueError(f"{where or 'the file'}: {fault['msg']}{end}") from None
    jobs: dict[str, Job] = {}
    folder = products(name)
    rows = {} if folder == BUILD else {"rows": short_path(folder / "rows")}
    for job in (job for runs in asked.runs for job in expand(runs, rows)):
        if asked.settings:
            job = with_settings(job, params(asked.settings))
        if job.id in jobs:
            raise ValueError(f"two runs would write the same row {job.id}: give them other tags.")
        jobs[job.id] = job
    light = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} - {*EXPERIMENTS}
    return Sweep(name, asked.title, jobs, sorted(light) if name == "quick" else [])


def expand(runs: Runs, rows: dict[str, str]) -> Iterator[Job]:
    """The jobs of an entry, one for each combination of its grid; all write to ``rows``."""
    known_fields = EXPERIMENTS[runs.experiment].model_fields
    for name in {**runs.parameters, **runs.grid}:
        if name == "rows":
            raise ValueError("rows is set by the workflow: leave it out.")
        if name in runs.parameters and name in runs.grid:
            raise ValueError(f"{name} stands in parameters and in grid: give it once.")
    for values in itertools.product(*runs.grid.values()):
        of_grid = dict(zip(runs.grid, values, strict=True))
        parameters, extra = runs.parameters | of_grid, {}
        for name, value in of_grid.items():
            if name not in NAMED:
                extra |= value if isinstance(value, dict) else {name: value}
        if extra and "tag" in known_fields:
            words = [f"{name}{in_a_name(value)}" for name, value in extra.items()]
            parameters["tag"] = "-".join([*filter(None, [parameters.get("tag")]), *words])
        if extra and "overrides" in known_fields:
            parameters["overrides"] = extra
        job = Job(runs.experiment, parameters | rows, runs.parallel)
        known = {*params("methods"), *([GOLD] if runs.experiment == "audit" else [])}
        if (method := getattr(job.settings, "method", "revs")) not in known:
            raise ValueError(f"There is no method '{method}'" + hint(method, params("methods")))
        yield job


def with_settings(job: Job, chosen: dict[str, dict]) -> Job:
    """A run with the settings that a file has for its method and data set; what the sweep says
    takes precedence."""
    run = job.settings
    if not isinstance(run, OneSplit) or run.method == GOLD:
        return job
    found = lookup(chosen, run.method, base(run.model), Path(run.data).stem)
    typed = found | (run.hyperparameters or {})
    return replace(job, parameters=job.parameters | {"hyperparameters": typed}) if typed else job


def in_a_name(value) -> str:
    """Return a setting's value for the name of a row; for a list, its ends ("4to6"), or "none"."""
    if isinstance(value, list):
        return f"{value[0]}to{value[-1]}" if value else "none"
    return str(value)


def options(settings: dict) -> list[str]:
    """Return settings as an experiment's options: text as it is, other values as JSON."""
    text = lambda value: value if isinstance(value, str) else json.dumps(value)
    return [f"--{name}={text(value)}" for name, value in settings.items()]
