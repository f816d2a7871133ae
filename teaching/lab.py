"""The lab: runs the instructor's key and writes the students' notebook, which is the key stripped.

    python -m teaching.lab  # executes teaching/lab_key.ipynb and writes teaching/lab.ipynb

In the key a solution stands between ``### BEGIN SOLUTION`` and ``### END SOLUTION``. Students get
``...`` in its place, and no outputs.
"""

import re
import time
from pathlib import Path

import nbformat

from companion.data.adapters import fingerprint

ADAPTER = "seed1"
FOLDER = Path(__file__).parent
KEY, LAB = FOLDER / "lab_key.ipynb", FOLDER / "lab.ipynb"
SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n.*?^ *### END SOLUTION$", re.MULTILINE | re.DOTALL)
BLANK = {"code": r"\1...  # your code", "markdown": r"\1*Your answer:*"}
NOISE = re.compile(r"^\S+: (downloading|converting) ", re.MULTILINE)  # of a first run
MINUTES = re.compile(r"^## .* \((\d+) minutes\)", re.MULTILINE)


def stripped(key: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The students' notebook: the key without its solutions and outputs."""
    lab = nbformat.from_dict(key)
    lab.metadata.pop("adapter", None)
    for cell in lab.cells:
        cell.source = SOLUTION.sub(BLANK[cell.cell_type], cell.source)
        cell.source = cell.source.replace("# Key to the lab", "# Lab")
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return lab


def minutes(lab: nbformat.NotebookNode) -> list[int]:
    """The minutes of each step."""
    return [int(found) for cell in lab.cells for found in MINUTES.findall(cell.source)]


def executed(key: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The key with the outputs of a run of today, without its times."""
    from nbclient import NotebookClient

    place = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(key, timeout=900, resources=place, record_timing=False).execute()
    for cell in key.cells:
        if cell.cell_type == "code":  # progress bars and warnings are no expected numbers
            printed = [one for one in cell.outputs if one.get("name") != "stderr"]
            cell.outputs = [one for one in printed if not NOISE.search(one.get("text", ""))]
    key.metadata = {
        "adapter": fingerprint(ADAPTER),  # what the numbers were measured on
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return key


def main() -> None:
    start = time.monotonic()
    key = executed(nbformat.read(KEY, as_version=4))
    nbformat.write(key, KEY)
    nbformat.write(stripped(key), LAB)
    took = time.monotonic() - start
    print(f"{LAB.name}: {sum(minutes(key))} minutes of work, {took:.0f} s of computing here")


if __name__ == "__main__":
    main()
