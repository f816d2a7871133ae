"""Stages the site in build/site and builds the book from it, strictly.

The staged notebooks have the sources' text and the executed copies' outputs, at the paths of
the sources, so that links work.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import vl_convert

from companion.analysis import results
from companion.store.paths import BUILD, HTML, LOGS, ROOT, short_path
from companion.store.rows import write_file
from companion.workflow import live
from companion.workflow.build import TIED
from companion.workflow.plan import duration
from companion.workflow.sweep import EXPERIMENTS, Sweep, read
from teaching import slides

SITE, WORK = BUILD / "site", BUILD / "site.work"
RERUN = """{{.again}}
Run this page again: {{download}}`download the notebook <{0}.ipynb>` and open it in Jupyter beside
this repository, or call `papermill notebooks/{0}.ipynb out.ipynb` ({1})."""
TAKES = "{}, at most {} GiB"  # seconds of this build
# measured, with the parameters that the pages have; the others take at most 2
MEMORY = dict.fromkeys(("write", "measures", "edit_file", "ban", "algorithm"), 4)
DEPENDS = "time and memory depend on the parameters: {doc}`../book/run`"
# the theme's markup, mended: names for screen readers, colours without scripts, no id twice
FIELD = 'search-button-field search-button__button pst-js-only" title="Search"'
MENDED = {
    '<summary><span class="toctree': '<summary aria-label="Pages below"><span class="toctree',
    f'{FIELD} aria-label="Search"': FIELD,
    '<summary aria-label="Toggle hidden content">': "<summary>",
    'data-theme="auto">': 'data-theme="light">',
    '<div class="drawing docutils">': '<div class="drawing docutils" tabindex="0">',
    **{f' id="{kind}-content"': "" for kind in ("exercise", "solution", "proof")},
    **{f' title="{mode}"></i>': "></i>" for mode in ("Light", "Dark", "System Settings")},
}
# used if the build knows the repository's public address, as in GitHub's workflows
COLAB = "https://colab.research.google.com/github/{1}/blob/main/notebooks/{0}.ipynb"
BINDER = "https://mybinder.org/v2/gh/{1}/main?labpath=notebooks/{0}.ipynb"
ELSEWHERE = f""" Or open it on [Binder]({BINDER}), or on [Colab]({COLAB})
after the first cell that the README names."""
JUPYTER = "application/vnd.vegalite.v6+json"  # for charts in Jupyter; pages use the HTML
VEGA = "/* Vega {}, Vega-Lite {} and Vega-Embed {}, bundled by vl-convert: BSD-3-Clause. */"
STRICT = ["-n", "-W", "--keep-going", "--all"]


def executed(sweep: Sweep) -> dict[str, Path]:
    """Return the executed notebook of every page: for a heavy notebook the first of its runs or, if
    the build never runs it, its source."""
    ran = {name: job.id for name, job in sweep.samples().items()}
    names = {page: page for page in sweep.pages} | ran
    found = {page: BUILD / "notebooks" / f"{name}.ipynb" for page, name in names.items()}
    return {name: ROOT / "notebooks" / f"{name}.ipynb" for name in EXPERIMENTS} | found


def caption_words(done) -> dict[str, str]:
    """Return the words for captions: the titles of the given model and data set."""
    titles, found = {"model": results.title, "data": lambda name: results.DATA.get(name, name)}, {}
    for cell in done.cells:
        if {"parameters", "injected-parameters"} & set(cell.metadata.get("tags", [])):
            found |= re.findall(r'^(model|data) = "([^"]+)"', cell.source, re.MULTILINE)
    return {word: titles[word](name) for word, name in found.items()}


def merge(source, done, name: str):
    """The source notebook with the outputs of its executed copy, and papermill's parameters.

    Outputs that no page shows (``remove-output``) are left out; {model} and {data} in a figure's
    caption become the given model and data.
    """
    words, tags = caption_words(done), lambda cell: cell.metadata.get("tags", [])
    ran = [cell for cell in done.cells if cell.cell_type == "code"]
    injected = [cell for cell in ran if "injected-parameters" in tags(cell)]
    ran = [cell for cell in ran if cell not in injected]
    code = [cell for cell in source.cells if cell.cell_type == "code"]
    if [cell.source for cell in ran] != [cell.source for cell in code]:
        raise ValueError(f"{name} has other cells than when it was executed: build again.")
    for cell, twin in zip(code, ran):
        if figure := cell.metadata.get("mystnb", {}).get("figure"):
            for word, value in words.items():
                figure["caption"] = figure["caption"].replace(f"{{{word}}}", value)
        cell.execution_count = twin.execution_count
        cell.outputs = [] if "remove-output" in tags(cell) else twin.outputs
        for output in cell.outputs:
            output.get("data", {}).pop(JUPYTER, None)
    for extra in injected:
        extra.metadata = {"tags": ["injected-parameters"]}
    after = next((n for n, cell in enumerate(source.cells, 1) if "parameters" in tags(cell)), 0)
    source.cells[after:after] = injected
    source.metadata.language_info = done.metadata.get("language_info", {})
    return source


def stage(pages: dict[str, Path], more: dict[str, bytes]) -> None:
    """Fill build/site with sources, executed pages and ``more`` files."""
    files = [ROOT / name for name in ("_config.yml", "_toc.yml", "CHANGELOG.md")]
    files += (ROOT / "book").rglob("*")
    for name in ("revs", "companion/measures"):  # functions that chapters show
        files += (ROOT / name).rglob("*.py")
    wanted = more | {short_path(path): path.read_bytes() for path in files if path.is_file()}
    for page, path in pages.items():
        name = f"notebooks/{page}.ipynb"
        done = nbformat.read(path, as_version=4)
        takes = DEPENDS
        if page not in EXPERIMENTS:
            takes = TAKES.format(duration(done.metadata.papermill.duration), MEMORY.get(page, 2))
        staged = merge(nbformat.read(ROOT / name, as_version=4), done, name)
        again = RERUN.format(page, takes)
        if repository := os.environ.get("GITHUB_REPOSITORY"):
            again += ELSEWHERE.format(page, repository)
        staged.cells.append(nbformat.v4.new_markdown_cell(again, id=f"{page}-again"))
        wanted[name] = nbformat.writes(staged).encode()
    for path in SITE.rglob("*"):
        if path.is_file() and str(path.relative_to(SITE)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        write_file(SITE / name, text)


def render() -> None:
    """Run jupyter-book in a separate folder; the finished book then replaces the last one."""
    shutil.rmtree(WORK, ignore_errors=True)
    program = "from jupyter_book.cli.main import main; main()"
    words = ["build", str(SITE), "--path-output", str(WORK), *STRICT]
    log = LOGS / "jupyter-book.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        words = [*TIED, sys.executable, "-c", program, *words]
        done = subprocess.run(words, cwd=ROOT, stdout=stream, stderr=stream)
    if done.returncode:
        said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", log.read_text(encoding="utf-8")).splitlines()
        found = [line for line in said if re.search(r"\b(WARNING|ERROR|Error)\b", line)]
        trouble = found or said[-1:]
        first = trouble[0].replace(f"{SITE}/", "")
        raise ValueError(
            f"The book could not be built: {first} ({len(trouble)} in all: {short_path(log)})"
        )
    shutil.rmtree(HTML, ignore_errors=True)
    HTML.parent.mkdir(parents=True, exist_ok=True)
    (WORK / "_build" / "html").rename(HTML)
    shutil.rmtree(WORK)


def finish_pages() -> None:
    """Add the explanation, shown on hovering, to each link to a glossary term, and mend the theme's
    markup (MENDED)."""
    entry = re.compile(r'<dt id="(term-[^"]+)">.*?</dt>\s*<dd>(.*?)</dd>', re.DOTALL)
    glossary = (HTML / "book" / "glossary.html").read_text(encoding="utf-8")
    said = {
        name: " ".join(re.sub(r"<[^>]+>", "", text).replace('"', "&quot;").split())
        for name, text in entry.findall(glossary)
    }
    link = re.compile(r'(<a class="reference internal" href="[^"]*#(term-[^"]+)")>')
    for path in HTML.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        finished = link.sub(lambda one: f'{one[1]} title="{said[one[2]]}">', text)
        for old, new in MENDED.items():
            finished = finished.replace(old, new)
        if finished != text:
            write_file(path, finished)


def write_vega(html: Path = HTML) -> None:
    """Write Vega, Vega-Lite and Vega-Embed, which draw the explorers, as one classic script that
    defines ``vegaEmbed`` and that all pages share."""
    lite = vl_convert.get_vegalite_versions()[-1]
    versions = vl_convert.get_vega_version(), lite, vl_convert.get_vega_embed_version()
    script = f"(() => {{{vl_convert.javascript_bundle(vl_version=lite)}}})();"
    write_file(html / "_static" / "vega.js", f"{VEGA.format(*versions)}\n{script}\n")


def main() -> None:
    """The rule ``book``."""
    start, sweep = time.monotonic(), read("quick")
    try:
        out = ROOT / sweep.samples()["documents"].settings.out  # a page links to its report
        stage(executed(sweep), {"notebooks/report.html": (out / "report.html").read_bytes()})
        render()
        finish_pages()
        live.write()
        write_vega()
        slides.write(HTML / "slides", executed(sweep).values(), ROOT / "book" / "_static")
    except (ValueError, OSError) as error:
        sys.exit(f"book: {error}")
    print(f"book: finished in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
