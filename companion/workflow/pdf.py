"""The book as one PDF: Chromium prints every page of _toc.yml, in its order.

python -m companion.workflow.pdf [FILE]   (after make book; build/revs.pdf if nothing is given)
"""

import base64
import io
import sys
from pathlib import Path

from pypdf import PdfWriter
from sphinx_external_toc.parsing import parse_toc_yaml

from companion.store.paths import BUILD, HTML, ROOT, short_path
from live import chromium

# Removes links that would lead to this machine's files, and waits until MathJax has set formulas.
READY = """
document.querySelectorAll("a[href]").forEach((a) => {
  if (a.href.startsWith("file:")) a.removeAttribute("href");
});
(window.MathJax ? MathJax.startup.promise : Promise.resolve()).then(() => true)
"""
PAPER = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}  # A4, in inches


def write(file: Path, html: Path, names: list[str]) -> None:
    """Print a rendered book's pages into one file with an outline; OSError if it cannot be done."""
    if not all((html / f"{name}.html").is_file() for name in names):
        raise FileNotFoundError("The book is not built: run `make book` first.")
    whole = PdfWriter()
    with chromium.page() as page:
        for name in names:
            page.open((html / f"{name}.html").as_uri())
            page.evaluate(READY)
            title = page.evaluate("document.querySelector('h1').firstChild.textContent")
            printed = base64.b64decode(page.send("Page.printToPDF", **PAPER)["data"])
            whole.append(io.BytesIO(printed), outline_item=title)
    file.parent.mkdir(parents=True, exist_ok=True)
    whole.write(file)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "revs.pdf"
    try:
        write(target, HTML, list(parse_toc_yaml(ROOT / "_toc.yml")))
    except OSError as error:
        sys.exit(f"pdf: {error}")
    print(f"{short_path(target)} is written.")
