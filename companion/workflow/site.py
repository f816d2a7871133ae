"""Stages the site in build/site and builds the book from it, strictly.

The staged notebooks have the text of the sources and the outputs of the executed copies, and stand where the sources
stand, so that links and launch buttons hold. What papermill and jupyter-book let through silently is refused here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat

from companion.pages import results
from companion.record import rows
from companion.record.rows import digest, write_text
from companion.workflow import lifeline
from companion.workflow.paths import BUILD, LOGS, ROOT, shown
from companion.workflow.profile import Profile, read
from companion.workflow.stamps import folder

SITE, WORK, HTML = BUILD / "site", BUILD / "site.work", BUILD / "_build" / "html"
STAGED = BUILD / "_build" / "staged.sha256"  # of the content that the book was last built from
JUPYTER_BOOK = "from companion.workflow import lifeline; lifeline.hold(); from jupyter_book.cli.main import main; main()"
STRICT = ["-n", "-W", "--keep-going", "--all"]


def executed(profile: Profile) -> dict[str, Path]:
    """The executed notebook of every page; a heavy notebook shows the first of its runs."""
    pages = {page: BUILD / "notebooks" / f"{page}.ipynb" for page in profile.pages}
    return pages | {
        name: BUILD / "notebooks" / f"{job.id}.ipynb" for name, job in profile.samples().items()
    }


def report(profile: Profile) -> dict[str, bytes]:
    """The report that the profile's run of ``own`` wrote, beside the page that links to it."""
    made = [
        ROOT / job.settings["out"] / "report.html"
        for job in profile.jobs.values()
        if job.notebook == "own"
    ]
    return {"notebooks/report.html": made[0].read_bytes()} if made else {}


def gate(notebook, name: str) -> None:
    """Refuses a notebook that failed, was not executed to its end or wrote to stderr (ValueError)."""
    if notebook.metadata.get("papermill", {}).get("exception"):
        raise ValueError(f"{name} failed while it was executed.")
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        where = f"{name}, cell {number}"
        if cell.source.strip() and cell.execution_count is None:
            raise ValueError(f"{where} was not executed.")
        for output in cell.outputs:
            if output.output_type == "error":
                raise ValueError(f"{where} shows an error: {output.ename}.")
            if output.output_type == "stream" and output.name == "stderr":
                raise ValueError(f"{where} writes to stderr: {' '.join(output.text.split())[:100]}")


def gate_paths(notebook, name: str) -> None:
    """Refuses outputs that name this machine's folders (ValueError)."""
    private = [str(place) for place in {ROOT, Path.home()} if len(place.parts) > 1]
    for number, cell in enumerate(notebook.cells, 1):
        text = (
            nbformat.writes(nbformat.v4.new_notebook(cells=[cell])) if cell.get("outputs") else ""
        )
        for place in private:
            if re.search(re.escape(place) + r"(?![\w.-])", text):
                raise ValueError(
                    f"{name}, cell {number} shows a folder of this machine ({place}): print it relative to the project."
                )


def named(done) -> dict[str, str]:
    """What captions of pictures may name of an executed notebook's parameters, papermill's before those of its own cell: the model's title, the data set."""
    given = [
        re.findall(r'^(model|data) = "([^"]+)"', cell.source, re.MULTILINE)
        for cell in done.cells
        if {"parameters", "injected-parameters"} & set(cell.metadata.get("tags", []))
    ]
    found = {name: value for pairs in given for name, value in pairs}
    return found | ({"model": results.title(found["model"])} if "model" in found else {})


def merge(source, done, name: str):
    """The source notebook with the outputs of its executed copy, and the cell of parameters that papermill put in.

    Outputs that no page shows (cells tagged ``remove-output``) are left out; {model} and {data} in a picture's caption become what was given.
    """
    words = named(done)
    ran = [cell for cell in done.cells if cell.cell_type == "code"]
    injected = [cell for cell in ran if "injected-parameters" in cell.metadata.get("tags", [])]
    ran = iter([cell for cell in ran if cell not in injected])
    cells = []
    for cell in source.cells:
        cells.append(cell)
        if cell.cell_type == "code":
            twin = next(ran, None)
            if twin is None or twin.source != cell.source:
                raise ValueError(
                    f"{name} has other cells than when it was executed: run the build again."
                )
            tags = cell.metadata.get("tags", [])
            if figure := cell.metadata.get("mystnb", {}).get("figure"):
                figure["caption"] = re.sub(
                    r"\{(model|data)\}",
                    lambda match: words.get(match[1], match[0]),
                    figure["caption"],
                )
            cell.execution_count, cell.outputs = (
                twin.execution_count,
                [] if "remove-output" in tags else twin.outputs,
            )
            if "parameters" in tags:
                for extra in injected:
                    extra.metadata = {"tags": ["injected-parameters"]}
                    cells.append(extra)
    if next(ran, None):
        raise ValueError(f"{name} has other cells than when it was executed: run the build again.")
    source.cells = cells
    source.metadata.language_info = done.metadata.get("language_info", {})
    return source


def stage(pages: dict[str, Path], more: dict[str, bytes]) -> str:
    """Fills build/site with sources, executed pages and ``more`` files, rewriting only what differs; returns the hash of its content."""
    wanted = more | {name: (ROOT / name).read_bytes() for name in ("_config.yml", "_toc.yml")}
    wanted |= {
        shown(path): path.read_bytes() for path in (ROOT / "book").rglob("*") if path.is_file()
    }
    for page, path in pages.items():
        name = f"notebooks/{page}.ipynb"
        done = nbformat.read(path, as_version=4)
        gate(done, name)
        staged = merge(nbformat.read(ROOT / name, as_version=4), done, name)
        gate_paths(staged, name)
        wanted[name] = nbformat.writes(staged).encode()
    for path in SITE.rglob("*"):
        if path.is_file() and str(path.relative_to(SITE)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = SITE / name
        if not path.is_file() or path.read_bytes() != content:
            write_text(path, content)
    return folder(SITE)


def render() -> None:
    """Runs jupyter-book in a folder of its own; the finished book takes the place of the last one. ValueError if it fails."""
    shutil.rmtree(WORK, ignore_errors=True)
    command = [
        sys.executable,
        "-c",
        JUPYTER_BOOK,
        "build",
        str(SITE),
        "--path-output",
        str(WORK),
        *STRICT,
    ]
    log = LOGS / "jupyter-book.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    said, shown_at = [], 0.0
    with (
        subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
        log.open("w") as stream,
    ):
        for line in process.stdout:
            line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
            stream.write(line)
            said.append(line.strip())
            step = re.match(r"(reading sources|writing output)\.\.\. *\[ *\d+%\]", line)
            if step and time.monotonic() - shown_at > 5:
                print(f"book: {step[0]}", flush=True)
                shown_at = time.monotonic()
    if process.returncode:
        trouble = [line for line in said if re.search(r"\b(WARNING|ERROR|Error)\b", line)] or said[
            -1:
        ]
        raise ValueError(
            f"The book could not be built: {trouble[0].replace(f'{SITE}/', '')} ({len(trouble)} in all: {shown(log)})"
        )
    shutil.rmtree(HTML, ignore_errors=True)
    HTML.parent.mkdir(parents=True, exist_ok=True)
    (WORK / "_build" / "html").rename(HTML)
    shutil.rmtree(WORK)


def rows_beside() -> None:
    """Puts every row that pages show into the book, where the list of rows leads to it."""
    for name, row in rows.find().items():
        path = HTML / "rows" / f"{name}.json"
        if not path.is_file() or path.read_bytes() != row["path"].read_bytes():
            write_text(path, row["path"].read_bytes())


def build(pages: dict[str, Path], more: dict[str, bytes]) -> bool:
    """Stages and renders; False if the book that is there was built from the same content by the same tools."""
    content = digest([stage(pages, more), (ROOT / "requirements.txt").read_text(encoding="utf-8")])
    if STAGED.is_file() and STAGED.read_text() == content and (HTML / "index.html").is_file():
        return False
    STAGED.unlink(missing_ok=True)
    render()
    write_text(STAGED, content)
    return True


def main() -> None:
    """The command of the rule ``book``."""
    lifeline.hold()
    start = time.monotonic()
    try:
        profile = read("quick")
        new = build(executed(profile), report(profile))
        rows_beside()
    except (ValueError, OSError) as error:
        sys.exit(f"book: {error}")
    print(
        f"book: finished in {time.monotonic() - start:.0f} s"
        + ("" if new else " (its content had not changed)"),
        flush=True,
    )


if __name__ == "__main__":
    main()
