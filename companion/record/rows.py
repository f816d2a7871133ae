"""Result rows: one JSON file for one run, with what was found (``result``) and how (``provenance``).

Two rows are equal if their ``result`` is equal. A row is stale if its stamp, a hash of settings, inputs and of the code
that its result depends on, is no longer what the present sources give. Per-item values lie in one compressed CSV beside it.
"""

from __future__ import annotations

import ast
import csv
import functools
import gzip
import importlib.metadata
import io
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import jsonschema
import pandas as pd
import psutil

from companion.record import stamps
from companion.record.paths import BUILD, PACKAGES, ROOT, writing

SCHEMA = 1
digest = stamps.digest
# Modules that cannot change a result: files and progress, and what settings and input hashes pin already.
BOOKKEEPING = {
    "revs",
    "companion.runs",
    "revs.model.fit",
    "revs.model.load",
    "companion.runs.memory",
    "companion.runs.methods",
    "companion.runs.models",
    "companion.runs.nearest",
    "companion.pages.paper",
    "companion.record.paths",
    "companion.runs.progress",
    "companion.record.rows",
}
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")
RECORDED, MEASURED = ROOT / "rows", BUILD / "rows"  # committed, and of this build
ITEMS_LIMIT = 500_000  # bytes


# --- stamps ----------------------------------------------------------------------------------------------------------


@functools.cache
def code_hash(module: str) -> str:
    """Hash of a module's syntax tree without docstrings: comments and layout do not make a result stale."""
    tree = ast.parse(source(module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:]
    return digest(ast.dump(tree))


def source(module: str) -> Path:
    """The file of one of the project's modules."""
    path = PACKAGES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def imports(code: str) -> frozenset[str]:
    """The project's modules that some Python code names."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return frozenset(
        name
        for name in found
        if name.split(".")[0] in ("revs", "companion") and source(name).is_file()
    )


def closure(*modules: str) -> dict[str, str]:
    """Every module that these ones import, directly or not, with its hash; bookkeeping left out."""
    todo, found = list(modules), set()
    while todo:
        module = todo.pop()
        if module not in found:
            found.add(module)
            todo += imports(source(module).read_text(encoding="utf-8"))
    return {module: code_hash(module) for module in sorted(found - BOOKKEEPING)}


# --- writing ---------------------------------------------------------------------------------------------------------


def write_text(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    """Writes a file whole or not at all; nobody whom ``mode`` leaves out may read it at any moment."""
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
        tempfile.TemporaryFile(
            dir=next(place for place in (folder, *folder.parents) if place.exists())
        ).close()
    return folder


def items_bytes(items: list[dict]) -> bytes:
    """Per-item values as a gzipped CSV, the same bytes for the same values."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(items[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            key: json.dumps(value) if isinstance(value, (list, dict)) else value
            for key, value in item.items()
        }
        for item in items
    )
    return gzip.compress(text.getvalue().encode(), mtime=0)


def write(
    folder: Path, name: str, kind: str, result: dict, items: list[dict], provenance: dict
) -> dict:
    """Writes ``folder/name.json`` and ``folder/name.items.csv.gz``; returns the row.

    Raises ValueError if the row does not fit rows/schema.json, or the items are too large.
    """
    packed = items_bytes(items) if items else b""
    if len(packed) > ITEMS_LIMIT:
        raise ValueError(
            f"The items of {name} take {len(packed)} bytes, but at most {ITEMS_LIMIT} are kept: store fewer of them."
        )
    result = result | {"items_sha256": digest(packed) if items else None}
    row = {"schema": SCHEMA, "kind": kind, "name": name, "result": result, "provenance": provenance}
    validate(row)
    path = folder / f"{name}.json"
    if items:
        write_text(path.with_suffix(".items.csv.gz"), packed)
    save(path, row)
    return row


def save(path: Path, row: dict) -> None:
    """Writes one row, which its caller has validated."""
    write_text(path, json.dumps(row, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def machine() -> dict:
    """Versions and hardware of this run."""
    import torch  # here, not above: who only reads rows need not wait for it

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in LIBRARIES},
        "hardware": {
            "cpu": cpu(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "memory_gb": round(psutil.virtual_memory().total / 2**30),
            "gpu": gpu,
            "system": platform.system(),
        },
    }


def cpu() -> str:
    """The processor's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        if info.is_file()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def peak_memory_mb() -> int:
    """The process's highest resident memory, or the GPU's highest allocation where there is one."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**20)
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def provenance(kind: str, settings: dict, inputs: dict, seconds: dict) -> dict:
    """How a row came about."""
    return {
        "stamp": stamps.stamp(kind, settings, inputs),
        "settings": settings,
        "inputs": inputs,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "peak_memory_mb": peak_memory_mb(),
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
    } | machine()


# --- reading ---------------------------------------------------------------------------------------------------------


@functools.cache
def schema() -> dict:
    """rows/schema.json: the schema and, in its descriptions, the data dictionary."""
    return json.loads((RECORDED / "schema.json").read_text(encoding="utf-8"))


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """Made once: the schema itself is checked by a test."""
    return jsonschema.Draft202012Validator(schema())


def validate(row: dict) -> None:
    if row.get("schema") != SCHEMA:
        raise ValueError(
            f"A row of schema {row.get('schema')} was met, but this version reads schema {SCHEMA}: run it again, or check out the version that wrote it."
        )
    if error := jsonschema.exceptions.best_match(validator().iter_errors(row)):
        raise ValueError(
            f"Row {row.get('name')} does not fit the schema ({error.json_path}: {error.message}): run it again."
        )


@functools.cache
def valid(text: str) -> bool:
    """Is this the text of a row? The schema is asked once for each text: a page reads every row many times."""
    validate(json.loads(text))
    return True


def read(path: Path) -> dict:
    """One row, validated."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        row = json.loads(text)
    except ValueError:
        raise ValueError(f"{path} is no whole row: delete it, and run it again.") from None
    valid(text)
    return row


def read_items(path: Path, *columns: str) -> pd.DataFrame:
    """The per-item values beside a row, lists parsed; only these columns, of those that there are, if some are named."""
    frame = pd.read_csv(
        Path(path).with_suffix(".items.csv.gz") if str(path).endswith(".json") else path,
        usecols=(lambda column: column in columns) if columns else None,
    )
    for column in frame:
        if frame[column].astype(str).str.startswith("[").any():
            frame[column] = frame[column].map(json.loads, na_action="ignore")
    return frame


def stale(row: dict) -> bool:
    """Would the present sources give this run another stamp?"""
    made = row["provenance"]
    try:
        return stamps.stamp(row["kind"], made["settings"], made["inputs"]) != made["stamp"]
    except (FileNotFoundError, KeyError):  # a module or a function that is gone
        return True


def find(*folders: Path, kind: str | None = None, data: str | None = None) -> dict[str, dict]:
    """Rows by name, of the recorded folder and then of this build: a run of both is the recorded one, unless that is stale.

    The recorded runs of a model stand on one fine-tune, and another processor makes another: one of them replaced by a run of
    this build would be compared with runs on other weights. ``companion.record.compare`` puts the two side by side.

    Each row gets ``origin``: "measured in this build" or "recorded". Its name is kind/data/model/…, so that those of other kinds and data need not be read.
    """
    found = {}
    for folder in folders or (RECORDED, MEASURED):
        for path in sorted(
            folder.glob(f"{kind or '*'}/{data or '**'}/**/*.json")
        ):  # the schema and other records lie higher up
            row = read(path) | {
                "path": path,
                "origin": "recorded" if folder == RECORDED else "measured in this build",
            }
            if row["name"] not in found or stale(found[row["name"]]):
                found[row["name"]] = row
    return found
