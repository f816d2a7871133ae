"""What a row's result depends on by name: the VERSION of its experiment, method and measures.

Every such module declares ``VERSION = 1``. Whoever changes what it computes raises it (the golden
results of ``tests/golden`` notice); rows of the version before are then older than the code.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import yaml

from companion.store.paths import PACKAGES, ROOT

MEASURES = {  # name → module:function
    "attacks": "revs.measures.attacks:measure",
    "cue": "companion.measures.name_swap:measure",
    "instead": "companion.measures.replacement:measure",
    "integrity": "companion.experiments.integrity:measure",
    "margin": "companion.measures.logit_margin:measure",
    "near_secrets": "companion.measures.near_secrets:measure",
    "ordinary": "revs.measures.general_text:measure",
    "perturbations": "revs.measures.attacks:perturbations",
    "public": "companion.measures.public_addresses:measure",
    "told": "companion.measures.prompt_leakage:measure",
    "token_use": "companion.measures.token_use:measure",
}


@functools.cache
def methods() -> dict[str, dict]:
    """params/methods.yml: every method, in the order of the paper's tables. Do not change it."""
    return yaml.safe_load((ROOT / "params" / "methods.yml").read_text(encoding="utf-8"))


@functools.cache
def version(module: str) -> int:
    """The VERSION that a module of the project declares, read without importing it; 0 for a module
    that is gone, since nothing can be older than that."""
    path = Path(PACKAGES, *module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8") if path.is_file() else "VERSION = 0"
    return int(re.search(r"^VERSION = (\d+)$", text, re.MULTILINE)[1])


def modules(kind: str, settings: dict) -> dict[str, str]:
    """The modules that a run of these settings depends on, by name: its experiment (a search's
    trials are runs of ``unlearn``), its method, its measures."""
    names = [kind, "unlearn"] if kind == "tune" else [kind]
    found = {name: f"companion.experiments.{name}" for name in names}
    if settings.get("method"):
        found[settings["method"]] = methods().get(settings["method"], {}).get("module", "")
    for name in settings.get("measures") or []:
        found[name] = MEASURES.get(name, "").partition(":")[0]
    return found


def current(kind: str, settings: dict) -> dict[str, int]:
    """The present versions of what a run of these settings depends on."""
    return {name: version(module) for name, module in modules(kind, settings).items()}


def outdated(row: dict) -> list[str]:
    """What of a row has a newer version than it was made with."""
    now = current(row["kind"], row["settings"])
    return sorted(name for name, number in now.items() if row["versions"].get(name, 0) < number)
