"""Adds the live figure to the book: its scripts, its worker, the model's weights as scripts.

A page opened as a file can load only classic scripts. The committed weights of ``live/model``
therefore become strings, in scripts small enough not to block a page for long, and so does the
worker. U's Cholesky factor is included, since computing it would take a page seconds.
"""

import json
import re
from pathlib import Path
from string import Template

import numpy as np
from safetensors.numpy import load

from companion.store.paths import HTML, ROOT

SOURCE = ROOT / "live"
WORKER = ("engine/model.js", "engine/revs.js", "engine/tokenizer.js", "page/worker.js")
PAGE = ("figure.css", "chart.js", "figure.js")
PART = 1 << 21  # bytes of weights in a script
EMBEDDED = "model.embed_tokens.weight"
FLIP = 0x4000  # flipping this bit makes the codes below rare among weights
UNSAFE = re.compile(r'["\\\x00-\x1f\u2028\u2029\ud800-\udfff\ufffe\uffff]')  # as they are


def files() -> dict[str, bytes]:
    """The figure's files by name: figure.css, figure.js, worker.js, weights-00.js and so on."""
    weights = (SOURCE / "model" / "model.safetensors").read_bytes()
    content = weights + factor(weights).tobytes()
    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
    model = {name: read_json(f"model/{name}.json") for name in ("config", "tokenizer", "examples")}
    model |= {"weights": len(weights), "bytes": len(content), "parts": len(parts), "flip": FLIP}
    model["kernel"] = list((SOURCE / "engine" / "kernel.wasm").read_bytes())
    source = "\n".join((SOURCE / name).read_text(encoding="utf-8") for name in WORKER)
    found = {name: (SOURCE / "page" / name).read_bytes() for name in PAGE}
    arguments = ", ".join(map(json.dumps, (source, panel(), model)))
    found["worker.js"] = f"revsLive.start({arguments});\n".encode()
    for n, part in enumerate(parts):
        script = f"revsLive.part({n * PART}, {literal(part)});\n"
        found[f"weights-{n:02d}.js"] = script.encode("utf-16")
    return found


def literal(part: bytes) -> str:
    """Return bytes as a JavaScript string, two to a character, which UTF-16 stores as two again: a
    quarter less than base64. Characters that a script may not contain are escaped."""
    text = (np.frombuffer(part, "<u2") ^ FLIP).tobytes().decode("utf-16-le", "surrogatepass")
    return '"' + UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + '"'


def panel() -> str:
    """Return the figure's controls: panel.html, filled in with the model's examples."""
    examples, tried = read_json("model/examples.json"), read_json("model/tried.json")
    names = enumerate(one["name"] for one in examples["secrets"])
    values = {
        "secrets": "".join(f'<option value="{i}">{name}</option>' for i, name in names),
        "kept": "".join(kept_row(one["name"]) for one in examples["kept"]),
        "prose": examples["prose"],
        "tokens": f"{read_json('model/config.json')['vocab_size']:,}",
    }
    for name, one in tried.items():
        values |= {name: json.dumps(one["settings"]), f"{name}_shows": one["shows"]}
    template = (SOURCE / "page" / "panel.html").read_text(encoding="utf-8")
    return Template(template).substitute(values)


def kept_row(name: str) -> str:
    """Return the table row of a person whose number the model should keep."""
    cells = (f'<td data-when="{when}" data-what="{name}"></td>' for when in ("before", "after"))
    return f'<tr><th scope="row">{name} (should stay)</th>{"".join(cells)}</tr>'


def read_json(name: str):
    return json.loads((SOURCE / name).read_text(encoding="utf-8"))


def factor(weights: bytes) -> np.ndarray:
    """The Cholesky factor of UᵀU in float64: its lower triangle, row by row."""
    tensors = load(weights)
    U = tensors[EMBEDDED].astype(np.float32) * tensors[f"{EMBEDDED}.scale"][:, None]
    whole = np.linalg.cholesky(U.astype(np.float64).T @ U.astype(np.float64))
    return whole[np.tril_indices(len(whole))]


def write(html: Path = HTML) -> None:
    """Write the files into the book, where its pages look for them; remove all others there."""
    folder = html / "_static" / "live"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, content in wanted.items():
        (folder / name).write_bytes(content)
