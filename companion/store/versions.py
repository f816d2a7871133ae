"""What a row's result depends on: versions of code, and hashes of data that is committed.

Every experiment, method and measure declares a ``VERSION``, from 1. A change of what one computes
raises it (the golden results of ``tests/golden`` notice); rows of the version before are then older
than the code. So are rows made from a data set or a general text that was changed since.
"""

import fnmatch
import functools
import hashlib
import json
import re
from pathlib import Path

import yaml

from companion.store.paths import PACKAGES, ROOT

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
RECORD = ("id", "kind", "group", "prompt", "secret", "suffix")  # of a data set, which are hashed


@functools.cache
def methods() -> dict[str, dict]:
    """params/methods.yml: every method, in the order of the paper's tables. Do not change it."""
    return yaml.safe_load((ROOT / "params" / "methods.yml").read_text(encoding="utf-8"))


@functools.cache
def attacks() -> list[str]:
    """The modules of ``revs.audit`` that declare a VERSION."""
    files = sorted((PACKAGES / "revs" / "audit").glob("*.py"))
    return [file.stem for file in files if "\nVERSION = " in file.read_text(encoding="utf-8")]


@functools.cache
def version(module: str) -> int:
    """The VERSION that a module of the project declares, read without importing it; 0 for a module
    that is gone, since nothing can be older than that."""
    path = Path(PACKAGES, *module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8") if path.is_file() else "VERSION = 0"
    return int(re.search(r"^VERSION = (\d+)$", text, re.MULTILINE)[1])


def modules(kind: str, settings: dict) -> dict[str, str]:
    """The modules that a run of these settings depends on, by name: its experiment (a search's
    trials are runs of ``unlearn``), its method, its measures; of an audit the attacks."""
    names = [kind, "unlearn"] if kind == "tune" else [kind]
    found = {name: f"companion.experiments.{name}" for name in names}
    if kind == "audit":
        found |= {f"attack {name}": f"revs.audit.{name}" for name in attacks()}
    if settings.get("method") and (kind, settings["method"]) != ("audit", "gold"):
        found[settings["method"]] = methods().get(settings["method"], {}).get("module", "")
    for name in settings.get("measures") or []:
        found[name] = MEASURES.get(name, "").partition(":")[0]
    return found


def current(kind: str, settings: dict) -> dict[str, int]:
    """The present versions of what a run of these settings depends on."""
    return {name: version(module) for name, module in modules(kind, settings).items()}


@functools.cache
def committed(name: str, data: str | None) -> str | None:
    """The present hash of an input that is committed, by its name in rows, and of a data set by its
    own; None for another."""
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
    """What of a row is older than the present code or committed data, by name. An audit that was
    made before an attack was written is as good as it was."""
    now = current(row["kind"], row["settings"])
    # what a row does not name is older, but for an attack that it lacks
    had = {name: now[name] for name in now if name.startswith("attack ")} | row["versions"]
    found = [name for name, number in now.items() if had.get(name, 0) < number]
    if row["settings"].get("finetune"):
        found.append("fine-tune of all weights")  # none is made now
    sets = {name: row["settings"].get(name) for name in ("data", "protect", "never_trained")}
    sets["never_trained"] = sets["never_trained"] or f"{sets['data']}-tune"
    for name, value in row["inputs"].items():
        if (present := committed(name, sets.get(name))) and present != value:
            found.append(name)
    return sorted(found)


@functools.cache
def allowed() -> list[dict[str, str]]:
    """rows/older.yml: patterns of the names of rows that may be older, if they were made before a
    day, each with the reason."""
    return yaml.safe_load((ROOT / "rows" / "older.yml").read_text(encoding="utf-8")) or []


def reason(row: dict) -> str | None:
    """Why a row may be older; None if nothing says so."""
    for one in allowed():
        if row["date"] < one["made_before"] and fnmatch.fnmatch(row["name"], one["rows"]):
            return one["reason"]
    return None
