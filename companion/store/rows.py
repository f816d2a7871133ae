"""Result rows: one line of JSON for one run, and its per-example values in a Parquet file.

A run writes ``build/rows/NAME.json`` and ``NAME.parquet``. Recorded rows are grouped in one JSON
Lines file for each kind, data set and model: ``rows/KIND/DATA/MODEL.jsonl``. Read it with
``pandas.read_json(path, lines=True)``. Each batch of promoted rows has one Parquet file of values,
which never changes. ``companion/store/schema.py`` says what the fields mean.
"""

import functools
import hashlib
import io
import itertools
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from companion.store import schema, versions
from companion.store.paths import BUILD, ROOT, one_sentence_errors
from companion.store.schema import Outdated, validate
from document_audit.files import write_file

RECORDED, MEASURED = ROOT / "rows", BUILD / "rows"  # committed, and of this build
Values = list[dict]  # per-example values: one mapping an example


def digest(value) -> str:
    """sha256 of a value's canonical JSON, or of bytes."""
    if not isinstance(value, bytes):
        value = json.dumps(value, sort_keys=True, default=str).encode()
    return hashlib.sha256(value).hexdigest()


# --- writing -------------------------------------------------------------------------------------


def writable(folder: Path) -> Path:
    """Return the folder if rows can be written to it: to be called before the work, not after."""
    with one_sentence_errors(folder):
        place = next(place for place in (folder, *folder.parents) if place.exists())
        tempfile.TemporaryFile(dir=place).close()
    return folder


def write(
    folder: Path,
    name: str,
    kind: str,
    result: dict,
    values: Values,
    made: dict,
    tag: str = "",
    overrides: dict | None = None,
) -> dict:
    """Write ``folder/name.json`` with its per-example values next to it, and return the row.

    ``made`` is the row's provenance; ``overrides`` are the settings that its sweep's grid sets.
    Raises ValueError if the row does not fit rows/schema.json, and the error of ``finite``.
    """
    settings, path = made.get("settings", {}), folder / f"{name}.json"
    beside = {"file": path.with_suffix("").name + ".parquet", "sha256": fingerprint(values)}
    fields = {
        "schema": schema.VERSION,
        "kind": kind,
        "name": name,
        "data": name.split("/")[1],
        "model": Path(settings.get("model", "")).name.removesuffix(".gguf"),
        "method": settings.get("method"),
        "seed": settings.get("seed"),
        "tag": tag,
        "overrides": overrides or {},
        "result": finite(result),
        "values": beside if values else None,
    }
    row = fields | made | fields
    validate(row)
    if values:
        write_file(path.parent / beside["file"], packed({name: values}))
    write_file(path, line(row) + "\n")
    return row


def line(row: dict) -> str:
    """A row as a line of JSON, without what ``find`` added."""
    kept = {key: row[key] for key in row if key not in ("path", "origin")}
    return json.dumps(kept, ensure_ascii=False, allow_nan=False)


def finite(result: dict) -> dict:
    """Return the result; FloatingPointError if it has an infinity or NaN, which JSON lacks."""
    try:
        json.dumps(result, allow_nan=False)
    except ValueError:
        raise FloatingPointError(
            "A number of the result is infinite or NaN, like the perplexity of weights that "
            "overflowed: choose settings that change less."
        ) from None
    return result


def record(folder: Path, new: Iterable[tuple[dict, Values]]) -> None:
    """Add rows to a folder's JSON Lines files, replacing rows of the same name, and their values as
    one new Parquet file next to each. Parquet files that no row names any more are removed."""
    by_file: dict[Path, list[tuple[dict, Values]]] = {}
    for row, values in new:
        path = folder / row["kind"] / row["data"] / f"{row['model']}.jsonl"
        by_file.setdefault(path, []).append((row, values))
    for path, some in by_file.items():
        lines = {row["name"]: row for row in (parsed(path) if path.is_file() else [])}
        batch = {row["name"]: values for row, values in some if values}
        file = f"{path.stem}-{digest([fingerprint(one) for one in batch.values()])[:10]}.parquet"
        if batch:
            write_file(path.with_name(file), packed(dict(sorted(batch.items()))))
        for row, values in some:
            beside = {"file": file, "sha256": fingerprint(values)} if values else None
            lines[row["name"]] = row | {"values": beside}
        write_file(path, "".join(line(lines[name]) + "\n" for name in sorted(lines)))
        named = {beside["file"] for row in lines.values() if (beside := row["values"])}
        for old in path.parent.glob(f"{path.stem}-{10 * '[0-9a-f]'}.parquet"):
            if old.name not in named:
                old.unlink()


def packed(values: dict[str, Values]) -> bytes:
    """The per-example values of runs, by their names, as a Parquet file."""
    every = [{"run": name} | one for name, some in values.items() for one in some]
    columns = dict.fromkeys(key for one in every for key in one)
    table = pa.table({key: [one.get(key) for one in every] for key in columns})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", compression_level=12)
    return buffer.getvalue()


def fingerprint(values: Values) -> str:
    """Return the hash of per-example values; a null counts as a missing column."""
    return digest([{key: one[key] for key in one if one[key] is not None} for one in values])


# --- reading -------------------------------------------------------------------------------------


def parsed(path: Path) -> list[dict]:
    """Return the rows of a file; ValueError if one is incomplete. A run's own file is validated
    here; recorded rows are validated when promoted, and by a test."""
    try:
        found = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    except ValueError:
        found = [None]
    whole = all(isinstance(row, dict) for row in found)
    if not whole or (path.suffix == ".json" and len(found) != 1):
        raise ValueError(f"{path} holds an incomplete row: delete it, and run it again.")
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
    """Return a run's finished row if its settings, inputs and versions are still the same: the run
    is then not repeated."""
    row, now = kept(path), versions.current(kind, settings)
    asked = {"settings": settings, "inputs": inputs, "versions": now}
    same = row and digest([row[name] for name in asked]) == digest(list(asked.values()))
    return row if same and "failed" not in row["result"] else None


@functools.lru_cache(maxsize=16)
def _values(path: Path, _changed: int) -> tuple[pa.Table, dict[str, tuple[int, int]]]:
    """Return a file of values, and for each run where its values begin and how many there are."""
    table, places, start = pq.read_table(path), {}, 0
    for run, some in itertools.groupby(table["run"].to_pylist()):
        places[run] = start, (size := len(list(some)))
        start += size
    return table.drop_columns("run"), places


def values(row: dict, *columns: str) -> Values:
    """Return the per-example values of a row; if columns are named, only those that it has."""
    if not row["values"]:
        return []
    path = row["path"].with_name(row["values"]["file"])
    table, places = _values(path, path.stat().st_mtime_ns)
    part = table.slice(*places[row["name"]])
    some = [name for name in columns if name in part.column_names] or [
        name for name in part.column_names if part[name].null_count < len(part)
    ]
    return part.select(some).to_pylist()


def per_example(row: dict, *columns: str) -> pd.DataFrame:
    """The same as a frame, one line per example."""
    return pd.DataFrame(values(row, *columns))


@functools.lru_cache(maxsize=4096)
def _parsed(path: Path, _changed: int) -> list[dict]:
    """Return a file's rows, read once per process: a page asks for them many times. A run's row in
    an outdated form is skipped: the run will be repeated."""
    try:
        return parsed(path)
    except Outdated:
        return []


def find(*folders: Path, kind: str | None = None, data: str | None = None) -> dict[str, dict]:
    """Return rows by name, from the recorded folder and then from this build. If both have a run,
    the recorded row counts, unless it is older than the code.

    Each row gets ``path`` and ``origin``, "measured in this build" or "recorded". They are shared:
    copy one before you change it.
    """
    found: dict[str, dict] = {}
    for folder in folders or (RECORDED, MEASURED):
        origin = "recorded" if folder == RECORDED else "measured in this build"
        pattern = f"{kind or '*'}/{data or '**'}/**/*.json*"
        for path in sorted(folder.glob(pattern)):
            for row in _parsed(path, path.stat().st_mtime_ns):
                if row["name"] not in found or versions.older(found[row["name"]]):
                    found[row["name"]] = row | {"path": path, "origin": origin}
    return found
