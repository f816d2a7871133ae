"""`make again`: puts all that was built aside, builds it again, and says what came back otherwise, kept in rows/again.json.

Rows are compared by their results, tables and texts by what they say, pictures by their pixels. What tells how long something
took, or how much memory it had, cannot come back the same: benchmarks are left out, and a text is compared without its seconds,
minutes, hours and bytes, a table without its columns of them and of dates. A table with a line of them, or a speed, is among those that are different.
"""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import nbformat

from flow.paths import BUILD, ROOT, shown
from revs import rows
from revs.again import FILE, sources

DURATION = re.compile(r"\b\d[\d,]*(\.\d+)? ?(s|seconds?|min|minutes?|h|hours?|MB|MiB|GiB)\b")  # with its unit: sixty minutes are an hour
MEASURED = re.compile(r"\b(seconds?|minutes?|hours?)\b(?! time)|memory|MB|MiB|GiB|, s$|\bwhen$")  # in the head of a column
KINDS = ("row", "text", "picture")


def products(build: Path) -> dict[str, str]:
    """What a build made, by kind, place and number, each as a hash of its content."""
    found = {f"row: {name}": rows.digest(row["result"]) for name, row in rows.find(build / "rows").items() if row["kind"] != "bench"}
    for path in sorted(path for path in (build / "notebooks").rglob("*.ipynb") if path.relative_to(build / "notebooks").parts[0] != "bench"):
        cells = nbformat.read(path, as_version=4).cells
        shows = [output["data"] for cell in cells for output in cell.get("outputs", []) if output["output_type"] in ("execute_result", "display_data")]
        for number, data in enumerate(shows):
            place = f"{path.relative_to(build / 'notebooks').with_suffix('')}, output {number}"
            if "image/png" in data:
                found[f"picture: {place}"] = rows.digest(matplotlib.image.imread(io.BytesIO(base64.b64decode(data["image/png"]))).tobytes())
            elif text := data.get("text/markdown") or data.get("text/html"):
                found[f"text: {place}"] = rows.digest(timeless(re.sub(r'href="data:text/csv;base64,[^"]*"', "", text)))
    return found


def timeless(text: str) -> str:
    """A text without what tells how long something took, or how much memory it had; a table of HTML is read like one of Markdown."""
    found, left_out = [], None
    text = re.sub(r"</t[hd]>", "|", re.sub(r"<tr[^>]*>", "\n|", text))
    for line in DURATION.sub("…", text).splitlines():
        if not line.startswith("|"):
            left_out = None
        else:
            cells = line.split("|")
            left_out = {i for i, cell in enumerate(cells) if MEASURED.search(cell.strip())} if left_out is None else left_out
            line = "|".join(cell for i, cell in enumerate(cells) if i not in left_out)
        found.append(line)
    return "\n".join(found)


def compared(before: dict[str, str], after: dict[str, str]) -> dict[str, dict]:
    """By kind: how many products there were, and which came back otherwise, or not, or were not there before."""
    other = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return {kind: {"products": sum(name.startswith(kind) for name in before), "other": [name.split(": ", 1)[1] for name in other if name.startswith(kind)]} for kind in KINDS}


def main() -> None:
    """Builds twice, and writes the record."""
    build = [sys.executable, "-m", "flow.build", "quick"]
    if subprocess.run(build, cwd=ROOT).returncode:
        sys.exit("The book could not be built: look at what is said above.")
    before, start, aside = products(BUILD), time.monotonic(), ROOT / "build-before"
    BUILD.rename(aside)
    try:
        if subprocess.run(build, cwd=ROOT).returncode:
            sys.exit("The book could not be built again: look at what is said above.")
        found = compared(before, products(BUILD))
    finally:  # what other runs left in build/, rows of hours among it, stays
        shutil.rmtree(BUILD, ignore_errors=True)
        aside.rename(BUILD)
    made = {"when": time.strftime("%Y-%m-%d", time.gmtime()), "seconds": round(time.monotonic() - start), "sources": sources(), **rows.machine()}
    rows.write_text(FILE, json.dumps(made | {"found": found}, indent=1, ensure_ascii=False) + "\n")
    print(f"{shown(FILE)}: " + "; ".join(f"{len(each['other'])} of {each['products']} {kind}s are different" for kind, each in found.items()) + ".")


if __name__ == "__main__":
    main()
