"""The rendered book: whole, self-contained, with the rows' numbers. Needs `make book` first."""

import base64
import csv
import html
import io
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import privacy
import pyarrow.parquet as pq
import pytest

from companion.analysis import main_comparison
from companion.analysis.tables import percent
from companion.experiments import methods
from companion.store.paths import BUILD, ROOT
from companion.workflow import site, sweep
from revs.measures import metrics
from revs.model.architecture import ARCHITECTURES

HTML = BUILD / "_build" / "html"
PAGES = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text())
SIGNS = ("Traceback (most recent call last)", "Refused:", "output stderr")
SIGNS += (":::{", "{glue:", "{numref}", "{model}", "{data}")


def page(name):
    return (HTML / f"{name}.html").read_text(encoding="utf-8")


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def all_of(pattern, text):
    return re.findall(pattern, text, re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_asks_for_nothing_from_elsewhere(name):
    """No error, no unresolved reference, no raw directive, no folder of the machine."""
    content = page(name)
    loads = r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]+)\""
    assert [address for address in all_of(loads, content) if "schema.org" not in address] == []
    assert "IPython.core" not in content and str(ROOT) not in content
    text = re.sub(r"<(pre|code)\b.*?</\1>", "", content, flags=re.DOTALL)
    assert [sign for sign in SIGNS if sign in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_link_within_the_book_leads_somewhere(name):
    place = (HTML / f"{name}.html").parent
    for address in all_of(r"<(?:a|img)\b[^>]*?(?:href|src)=\"([^\"]*)\"", page(name)):
        parts = urlsplit(html.unescape(address))
        if not parts.scheme and parts.path and not parts.netloc:
            assert (place / unquote(parts.path)).exists(), address


@pytest.mark.parametrize("name", PAGES)
def test_what_is_missing_is_a_dash(name):
    shown = [plain(cell).strip() for cell in all_of(r"<td\b[^>]*>(.*?)</td>", page(name))]
    offered = all_of(r"data:text/csv;base64,([A-Za-z0-9+/=]+)", page(name))
    for text in offered:
        lines = csv.reader(io.StringIO(base64.b64decode(text).decode()))
        shown += [cell for line in lines for cell in line]
    assert [cell for cell in shown if re.match(r"[+−-]?nan\b", cell)] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_caption_does_not_end_in_a_bare_number(name):
    """A name of a caption that a cell uses twice for something else."""
    said = all_of(r"<(?:figcaption|caption)\b.*?</(?:figcaption|caption)>", page(name))
    ends = [plain(one).replace("#", "").strip() for one in said]
    assert [end for end in ends if re.search(r"\d\.\d+$", end)] == []


@pytest.mark.parametrize("name", [*sweep.read("quick").samples(), *sweep.read("quick").pages])
def test_every_notebook_was_executed_to_its_end(name):
    """By papermill, in the build: no exception, no error, every cell counted, nothing on stderr,
    and no folder of this machine in what a page shows."""
    done = nbformat.read(site.executed(sweep.read("quick"))[name], as_version=4)
    cells = [cell for cell in done.cells if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(counts) + 1)) and not done.metadata.papermill.exception
    for cell in cells:
        kinds = [(one.output_type, one.get("name")) for one in cell.outputs]
        assert not [kind for kind in kinds if kind[0] == "error" or kind[1] == "stderr"]
        hidden = "remove-output" in cell.metadata.get("tags", [])
        assert hidden or not any(str(place) in str(cell.outputs) for place in (ROOT, Path.home()))


@pytest.mark.parametrize("name", sweep.read("quick").pages)
def test_what_is_glued_is_said(name):
    """A value that no sentence shows would be dead; one that is missing ends the book's build."""
    done = nbformat.read(site.executed(sweep.read("quick"))[name], as_version=4)
    outputs = [one for cell in done.cells for one in cell.get("outputs", [])]
    glued = {one.get("metadata", {}).get("scrapbook", {}).get("name") for one in outputs}
    own = (ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    said = re.findall(r"glue:\w*}`(\w+)", own) + re.findall(r"```{glue} (\w+)", own)
    for other in [*ROOT.glob("book/**/*.md"), *ROOT.glob("notebooks/*.ipynb")]:
        text = other.read_text(encoding="utf-8")
        said += re.findall(rf"glue:\w*}}`[\w/.]*\b{name}.ipynb::(\w+)", text)
        said += re.findall(rf"```{{glue}} (\w+)\n:doc: [\w/.]*\b{name}.ipynb", text)
    assert glued - {None} <= set(said)


def test_the_pages_show_what_the_rows_say():
    runs, shown = main_comparison.runs("smollm2-135m", "ssn"), plain(page("notebooks/core"))
    for name, scores in runs.groupby("method")["unlearning_score"]:
        assert methods.title(name) in shown
        assert percent(*metrics.summary(scores.tolist())) in shown
    assert "paper, Llama-3-8B" in shown and "89.6 ± 2.0" in shown
    families = plain(page("notebooks/families"))
    assert all(name in families for name in ARCHITECTURES)


def built():
    """Everything that a build writes and that is text: pages, sources, notebooks, rows, logs."""
    patterns = {HTML: ("*.html", "_sources/**/*", "searchindex.js")}
    patterns[BUILD] = ("notebooks/**/*.ipynb", "rows/**/*", "logs/**/*", "documents/**/*")
    found = {path for place in patterns for one in patterns[place] for path in place.rglob(one)}
    return sorted(path for path in found if path.is_file() and path.suffix != ".safetensors")


def test_nothing_that_was_built_has_a_secret_of_a_real_person():
    """Tables for download, which hold more than the page shows, are read; pictures are not."""
    hits = {}
    for path in built():
        if path.suffix == ".parquet":
            text = str(pq.read_table(path).to_pylist())
        else:
            text = path.read_text(encoding="utf-8", errors="ignore")
        offered = r"data:text/csv;base64,([A-Za-z0-9+/=]+)"
        text = re.sub(offered, lambda found: base64.b64decode(found[1]).decode(), text)
        text = re.sub(r"(?:base64,|\"image/\w+\": ?\")[A-Za-z0-9+/=\\]+", "", text)
        if found := privacy.found(text):
            hits[str(path.relative_to(BUILD))] = found
    assert not hits and len(built()) > 3 * len(PAGES)
