"""The experiments by name: what a profile, the workflow and a notebook can ask for."""

from __future__ import annotations

from dataclasses import asdict
from types import ModuleType
from typing import Any

from companion.runs import bench, calibrate, curate, memorise, own, tune, unlearn

EXPERIMENTS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (memorise, unlearn, tune, calibrate, curate, own, bench)
}


def defaults(name: str) -> dict[str, Any]:
    """Every setting of an experiment by name, as it is if nothing is said."""
    return asdict(EXPERIMENTS[name].Settings())
