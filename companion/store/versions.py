"""Finds what a row depends on, versions of code and hashes of committed data, and older rows.

Every experiment, method and measure declares a ``VERSION``, starting at 1. Raise it when you change
what the module computes (the golden results of ``tests/golden`` notice a change): rows of earlier
versions are then older than the code. So are rows made from a data set or general text that has
changed since.
"""

import fnmatch
import functools
import hashlib
import json
import re
from pathlib import Path

import yaml

from companion.store.paths import PACKAGES, ROOT, params

MEASURES = {  # name → module:function
    "attacks": "revs.measures.attacks:measure",
    "general_text": "revs.measures.general_text:measure",
    "integrity": "companion.measures.integrity:measure",
    "name_swap": "companion.measures.name_swap:measure",
    "near_secrets": "companion.measures.near_secrets:measure",
    "perturbations": "revs.measures.attacks:perturbations",
    "prompt_leakage": "companion.measures.prompt_leakage:measure",
    "public_addresses": "companion.measures.public_addresses:measure",
    "replacement": "companion.measures.replacement:measure",
    "token_use": "companion.measures.token_use:measure",
}
FILES = {"public_addresses": "public/addresses.jsonl", "token_use": "token_use/frames.jsonl"}
RECORD = ("id", "kind", "group", "prompt", "secret", "suffix")  # hashed fields of a data set


@functools.cache
def attacks() -> list[str]:
    """The modules of ``revs.audit`` that declare a VERSION."""
    files = sorted((PACKAGES / "revs" / "audit").glob("*.py"))
    return [file.stem for file in files if "\nVERSION = " in file.read_text(encoding="utf-8")]


@functools.cache
def version(module: str) -> int:
    """Return the VERSION that a module declares, read without importing it; 0 for a module that no
    longer exists: no row is older than that."""
    path = Path(PACKAGES, *module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8") if path.is_file() else "VERSION = 0"
    return int(re.search(r"^VERSION = (\d+)$", text, re.MULTILINE)[1])


def modules(kind: str, settings: dict) -> dict[str, str]:
    """Return the modules that a run with these settings depends on, by name: its experiment (a
    search's trials are runs of ``unlearn``), method, measures and, for an audit, the attacks."""
    names = [kind, "unlearn"] if kind == "tune" else [kind]
    found = {name: f"companion.experiments.{name}" for name in names}
    if kind == "audit":
        found |= {f"attack {name}": f"revs.audit.{name}" for name in attacks()}
    if settings.get("method") and (kind, settings["method"]) != ("audit", "gold"):
        found[settings["method"]] = params("methods").get(settings["method"], {}).get("module", "")
    for name in settings.get("measures") or []:
        found[name] = MEASURES.get(name, "").partition(":")[0]
    return found


def current(kind: str, settings: dict) -> dict[str, int]:
    """The present versions of what a run of these settings depends on."""
    return {name: version(module) for name, module in modules(kind, settings).items()}


@functools.cache
def committed(name: str, data: str | None) -> str | None:
    """Return the current hash of a committed input, given its name in rows and, for a data set, the
    set's own; None if the input is not committed."""
    if name == "general_text":
        file = PACKAGES / "revs" / "model" / "general_text.txt"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    if name in FILES:
        return hashlib.sha256((ROOT / "data" / FILES[name]).read_bytes()).hexdigest()
    file = ROOT / "data" / str(data).removesuffix("-tune")
    file /= "tune.jsonl" if str(data).endswith("-tune") else "main.jsonl"
    if not file.is_file():
        return None
    every = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    lines = [json.dumps({column: one[column] for column in RECORD}) for one in every]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def older(row: dict) -> list[str]:
    """Return the names of a row's dependencies that are older than the code or the committed data.
    An audit made before an attack was written stays valid."""
    now = current(row["kind"], row["settings"])
    # what a row does not name counts as older, except for an attack
    had = {name: now[name] for name in now if name.startswith("attack ")} | row["versions"]
    found = [name for name, number in now.items() if had.get(name, 0) < number]
    sets = {name: row["settings"].get(name) for name in ("data", "protect", "never_trained")}
    sets["never_trained"] = sets["never_trained"] or f"{sets['data']}-tune"
    for name, value in row["inputs"].items():
        if (present := committed(name, sets.get(name))) and present != value:
            found.append(name)
    return sorted(found)


@functools.cache
def allowed() -> list[dict[str, str]]:
    """Return rows/older.yml: each entry has a pattern of row names that may be older, the day
    before which they were made, and the reason."""
    return yaml.safe_load((ROOT / "rows" / "older.yml").read_text(encoding="utf-8")) or []


def reason(row: dict) -> str | None:
    """Why a row may be older; None if nothing says so."""
    for one in allowed():
        if row["date"] < one["made_before"] and fnmatch.fnmatch(row["name"], one["rows"]):
            return one["reason"]
    return None
