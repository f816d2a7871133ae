"""Puts the live figure beside the book: its scripts, its worker, the model's weights as scripts.

A page opened as a file can load classic scripts and nothing else. So the committed weights of
``live/model`` become scripts of base64 here, small enough that none keeps a page busy for long,
and the worker with its WebAssembly becomes a string. U's Cholesky factor comes along, which would
take a page seconds.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from companion.store.paths import HTML, ROOT

SOURCE = ROOT / "live"
WORKER = ("engine/model.js", "engine/revs.js", "engine/tokenizer.js", "page/worker.js")
PAGE = ("figure.css", "chart.js", "figure.js")
PART = 3 << 19  # bytes of a script: 2 MB of base64
EMBEDDED = "model.embed_tokens.weight"


def files() -> dict[str, str]:
    """The figure's files by name: figure.css, figure.js, worker.js, weights-00.js and so on."""
    weights = (SOURCE / "model" / "model.safetensors").read_bytes()
    content = weights + factor(weights).tobytes()
    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
    model = {name: read_json(f"model/{name}.json") for name in ("config", "tokenizer", "examples")}
    model |= {"weights": len(weights), "bytes": len(content), "parts": len(parts)}
    model["kernel"] = base64.b64encode((SOURCE / "engine" / "kernel.wasm").read_bytes()).decode()
    source = "\n".join((SOURCE / name).read_text(encoding="utf-8") for name in WORKER)
    found = {name: (SOURCE / "page" / name).read_text(encoding="utf-8") for name in PAGE}
    found["worker.js"] = f"revsLive.start({json.dumps(source)}, {json.dumps(model)});\n"
    for n, part in enumerate(parts):
        text = base64.b64encode(part).decode()
        found[f"weights-{n:02d}.js"] = f'revsLive.part({n * PART}, "{text}");\n'
    return found


def read_json(name: str):
    return json.loads((SOURCE / name).read_text(encoding="utf-8"))


def factor(weights: bytes) -> np.ndarray:
    """The Cholesky factor of UᵀU in float64: its lower triangle, row by row."""
    tensors = load(weights)
    U = tensors[EMBEDDED].astype(np.float32) * tensors[f"{EMBEDDED}.scale"][:, None]
    whole = np.linalg.cholesky(U.astype(np.float64).T @ U.astype(np.float64))
    return whole[np.tril_indices(len(whole))]


def beside(html: Path = HTML) -> None:
    """Writes the files into the book, where its pages look for them; those that stand stay."""
    folder = html / "_static" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
