"""Result rows: one line of JSON for one run: what was found (``result``), how (``provenance``).

A run writes a file of its own, ``build/rows/NAME.json``. Recorded rows lie together, one JSON Lines
file for each kind, data set and model: ``rows/KIND/DATA/MODEL.jsonl``, to be read with
``pandas.read_json(path, lines=True)``. Per-item values lie beside either in a compressed JSON Lines
file. A row is current for a run if settings, inputs and versions are that run's, and older than the
code if a version in it was raised since.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import jsonschema
import pandas as pd
import psutil

from companion.store import versions
from companion.store.paths import BUILD, ROOT, writing

SCHEMA = 3
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
RECORDED, MEASURED = ROOT / "rows", BUILD / "rows"  # committed, and of this build
ITEMS = ".items.jsonl.gz"


def digest(value) -> str:
    """sha256 of a value's canonical JSON, or of bytes."""
    data = (
        value
        if isinstance(value, bytes)
        else json.dumps(value, sort_keys=True, default=str).encode()
    )
    return hashlib.sha256(data).hexdigest()


# --- writing -------------------------------------------------------------------------------------


def write_text(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    """Writes a file whole or not at all; nobody whom ``mode`` leaves out may read it ever."""
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(text.encode() if isinstance(text, str) else text)
            os.chmod(scratch, mode)
            os.replace(scratch, path)
        except BaseException:
            os.unlink(scratch)
            raise


def writable(folder: Path) -> Path:
    """The folder, if rows can be written to it: asked before the work, not after it."""
    with writing(folder):
        place = next(place for place in (folder, *folder.parents) if place.exists())
        tempfile.TemporaryFile(dir=place).close()
    return folder


def write(
    folder: Path,
    name: str,
    kind: str,
    result: dict,
    items: list[dict],
    made: dict,
    tag: str = "",
    overrides: dict | None = None,
) -> dict:
    """Writes ``folder/name.json`` and its items beside it; returns the row.

    ``made`` is its provenance; ``overrides`` are the settings that its sweep varies.
    Raises ValueError if the row does not fit rows/schema.json, and what ``finite`` does.
    """
    settings = made.get("settings", {})
    fields = {
        "schema": SCHEMA,
        "kind": kind,
        "name": name,
        "data": name.split("/")[1],
        "model": Path(settings.get("model", "")).name.removesuffix(".gguf"),
        "method": settings.get("method"),
        "seed": settings.get("seed"),
        "tag": tag,
        "overrides": overrides or {},
        "result": finite(result) | {"items_sha256": digest(items) if items else None},
    }
    row = fields | made | fields
    validate(row)
    path = folder / f"{name}.json"
    if items:
        write_text(beside(path), pack({name: items}))
    write_row(path, row)
    return row


def write_row(path: Path, row: dict) -> None:
    """Writes a run's row."""
    row = {key: row[key] for key in row if key not in ("path", "origin")}
    write_text(path, json.dumps(row, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def finite(result: dict) -> dict:
    """The result; FloatingPointError if a number in it is infinite or none, as JSON has no such."""
    try:
        json.dumps(result, allow_nan=False)
    except ValueError:
        raise FloatingPointError(
            "A number of the result is infinite or none, as the perplexity of weights that "
            "overflowed: choose settings that change less."
        ) from None
    return result


def record(folder: Path, new: Iterable[tuple[dict, list[dict]]]) -> None:
    """Adds rows with their items to the JSON Lines files of a folder; a row takes the place of its
    older self. Every file is written whole or not at all."""
    by_file: dict[Path, list[tuple[dict, list[dict]]]] = {}
    for row, items in new:
        path = folder / row["kind"] / row["data"] / f"{row['model']}.jsonl"
        by_file.setdefault(path, []).append((row, items))
    for path, some in by_file.items():
        lines = {row["name"]: row for row in (parsed(path) if path.is_file() else [])}
        kept = dict(unpacked(beside(path))) if beside(path).is_file() else {}
        for row, items in some:
            lines[row["name"]] = {key: row[key] for key in row if key not in ("path", "origin")}
            kept[row["name"]] = items
        text = [
            json.dumps(lines[name], ensure_ascii=False, allow_nan=False) for name in sorted(lines)
        ]
        if packed := {name: kept[name] for name in sorted(kept) if kept[name]}:
            write_text(beside(path), pack(packed))
        write_text(path, "\n".join(text) + "\n")


def pack(items: dict[str, list[dict]]) -> bytes:
    """The items of runs by their names as compressed JSON Lines, the same bytes for the same."""
    lines = (
        json.dumps({"run": name} | item, ensure_ascii=False)
        for name, some in items.items()
        for item in some
    )
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def beside(path: Path) -> Path:
    """Where the items of a file of rows lie."""
    return path.with_name(path.name.removesuffix(".json").removesuffix(".jsonl") + ITEMS)


# --- provenance ----------------------------------------------------------------------------------


def provenance(kind: str, settings: dict, inputs: dict, seconds: dict) -> dict:
    """How a row came about: versions, settings, inputs, commit, environment, time, memory."""
    return {
        "versions": versions.current(kind, settings),
        "settings": settings,
        "inputs": inputs,
        "commit": commit(),
        "environment": environment(),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "peak_memory_mb": peak_memory_mb(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def environment() -> dict:
    """Python, the libraries that compute, and the machine of this run."""
    import torch  # here, not above: who only reads rows need not wait for it

    gpu = torch.cuda.is_available()
    return (
        {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in LIBRARIES}
        | {
            "device": "cuda" if gpu else "cpu",
            "processor": torch.cuda.get_device_name() if gpu else cpu(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "memory_gb": round(psutil.virtual_memory().total / 2**30),
            "system": platform.system(),
        }
    )


@functools.cache
def commit() -> str | None:
    """The commit that the code is of, with ``-dirty`` behind it if files differ; REVS_COMMIT where
    a copy has no history, None if nothing says."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return os.environ.get("REVS_COMMIT") or done.stdout.strip() or None


def cpu() -> str:
    """The processor's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def peak_memory_mb() -> int:
    """The process's highest resident memory, or the GPU's highest allocation where there is one."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**20)
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


# --- reading -------------------------------------------------------------------------------------


@functools.cache
def schema() -> dict:
    """rows/schema.json: the schema and, in its descriptions, the data dictionary."""
    return json.loads((RECORDED / "schema.json").read_text(encoding="utf-8"))


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """Made once: the schema itself is checked by a test."""
    return jsonschema.Draft202012Validator(schema())


class Outdated(ValueError):
    """A whole row, but not of this version."""


def validate(row: dict) -> None:
    """Raises Outdated if a row is of another schema, or does not fit this one."""
    if row.get("schema") != SCHEMA:
        raise Outdated(
            f"A row of schema {row.get('schema')} was met, but this version reads schema {SCHEMA}: "
            "run it again, or check out the version that wrote it."
        )
    if error := jsonschema.exceptions.best_match(validator().iter_errors(row)):
        where = f"{error.json_path}: {error.message}"
        raise Outdated(f"Row {row.get('name')} does not fit the schema ({where}): run it again.")


def parsed(path: Path) -> list[dict]:
    """The rows of a file; ValueError if one is no whole row. What a run wrote is validated; what is
    recorded was, when it was taken over, and is again by a test."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = [
            json.loads(line)
            for line in ([text] if path.suffix == ".json" else text.strip().split("\n"))
        ]
    except ValueError:
        raise ValueError(f"{path} is no whole row: delete it, and run it again.") from None
    for row in found if path.suffix == ".json" else ():
        validate(row)
    return found


def read(path: Path) -> dict:
    """The row that a run wrote, validated."""
    return parsed(Path(path))[0] | {"path": Path(path)}


def kept(path: Path) -> dict | None:
    """The row of an earlier run; None if there is none, or one that another version wrote."""
    try:
        return read(path)
    except (FileNotFoundError, Outdated):
        return None


def current(path: Path, kind: str, settings: dict, inputs: dict) -> dict | None:
    """The finished row of a run, if its settings, inputs and versions are these: such a run is not
    repeated."""
    row, now = kept(path), versions.current(kind, settings)
    asked = {"settings": settings, "inputs": inputs, "versions": now}
    same = row and digest([row[name] for name in asked]) == digest(list(asked.values()))
    return row if same and "failed" not in row["result"] else None


def unpacked(path: Path) -> dict[str, list[dict]]:
    """The items of a file, by the names of their runs."""
    found: dict[str, list[dict]] = {}
    for line in gzip.decompress(path.read_bytes()).decode().strip().split("\n"):
        item = json.loads(line)
        found.setdefault(item.pop("run"), []).append(item)
    return found


@functools.lru_cache(maxsize=4)
def _unpacked(path: Path, _changed: int) -> dict[str, list[dict]]:
    return unpacked(path)


def listed(row: dict) -> list[dict]:
    """The per-item values of a row as they were written; none if it has none."""
    if not row["result"]["items_sha256"]:
        return []
    path = beside(row["path"])
    return _unpacked(path, path.stat().st_mtime_ns).get(row["name"], [])


def items(row: dict, *columns: str) -> pd.DataFrame:
    """The per-item values of a row; of the columns that there are only these, if some are named."""
    path = beside(row["path"])
    frame = pd.DataFrame(_unpacked(path, path.stat().st_mtime_ns)[row["name"]])
    return frame[[column for column in frame if column in columns]] if columns else frame


@functools.lru_cache(maxsize=4096)
def _parsed(path: Path, _changed: int) -> list[dict]:
    """A file is read once in a process: a page asks for its rows many times. A run's row that an
    earlier version wrote in another form is none: its run will be made again."""
    try:
        return parsed(path)
    except Outdated:
        return []


def find(*folders: Path, kind: str | None = None, data: str | None = None) -> dict[str, dict]:
    """Rows by name, of the recorded folder and then of this build: a run of both is the recorded
    one, unless that is older than the code.

    Each row gets ``path`` and ``origin``, "measured in this build" or "recorded". They are shared:
    whoever changes one copies it first.
    """
    found: dict[str, dict] = {}
    for folder in folders or (RECORDED, MEASURED):
        origin = "recorded" if folder == RECORDED else "measured in this build"
        files = (
            path
            for ending in ("json", "jsonl")
            for path in folder.glob(f"{kind or '*'}/{data or '**'}/**/*.{ending}")
        )
        for path in sorted(files):
            for row in _parsed(path, path.stat().st_mtime_ns):
                if row["name"] not in found or versions.outdated(found[row["name"]]):
                    found[row["name"]] = row | {"path": path, "origin": origin}
    return found
