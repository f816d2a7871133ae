"""The slides of the lectures: Markdown, the book's own pictures, and reveal.js beside them.

    python -m teaching.slides  # into build/_build/html/slides, with the pictures of the last build

``teaching/slides/README.md`` says how a lecture is written.
"""

import base64
import html
import re
import shutil
import string
from collections.abc import Iterable
from pathlib import Path

import nbformat

FOLDER = Path(__file__).parent / "slides"
LECTURES = sorted(FOLDER.glob("lecture*.md"))
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
IMAGE = '<img class="r-stretch" src="{}" alt="{}">'  # fills what a slide's words leave free
PAGE = string.Template((FOLDER / "page.html").read_text(encoding="utf-8"))


def pictures(text: str) -> list[str]:
    """The names of the pictures of a lecture."""
    return [name for _, name in PICTURE.findall(text)]


def figures(notebooks: Iterable[Path]) -> dict[str, tuple[str, bytes]]:
    """The drawn figures of executed notebooks by their name in the book: (ending, content)."""
    found = {}
    for path in notebooks:
        for cell in nbformat.read(path, as_version=4).cells:
            name = cell.metadata.get("mystnb", {}).get("figure", {}).get("name")
            for output in cell.get("outputs", []) if name else []:
                data = output.get("data", {})
                if "image/svg+xml" in data:
                    found[name] = "svg", data["image/svg+xml"].encode()
                elif "image/png" in data:
                    found[name] = "png", base64.b64decode(data["image/png"])
    return found


def rendered(text: str, files: dict[str, str]) -> str:
    """A lecture as a page; ``files`` are the addresses of its pictures by name."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    slides = []
    image = lambda found: IMAGE.format(files[found[2]], html.escape(found[1]))
    for slide in re.split(r"^---$", text, flags=re.MULTILINE):
        shown, _, note = slide.partition("\nNote:\n")
        shown = markdown.render(PICTURE.sub(image, shown.strip()))
        notes = f'<aside class="notes">{markdown.render(note.strip())}</aside>'
        slides.append(f"<section>\n{shown}{notes}\n</section>")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    return PAGE.substitute(title=html.escape(title[1] if title else ""), slides="\n".join(slides))


def write(folder: Path, notebooks: Iterable[Path], static: Path) -> list[Path]:
    """Writes every lecture into a folder; returns the pages.

    Raises ValueError for a picture that neither the executed notebooks nor ``static`` hold.
    """
    drawn = figures(notebooks)
    shutil.copytree(FOLDER / "reveal", folder / "reveal", dirs_exist_ok=True)
    shutil.copy(FOLDER / "slides.css", folder / "slides.css")
    pages = []
    for lecture in LECTURES:
        text, files = lecture.read_text(encoding="utf-8"), {}
        for name in pictures(text):
            if name in drawn:
                ending, content = drawn[name]
                files[name] = f"{name}.{ending}"
                (folder / files[name]).write_bytes(content)
            elif (static / name).is_file():
                files[name] = name
                shutil.copy(static / name, folder / name)
            else:
                said = f"{lecture.name} shows {name}, which no page of the book draws: name a "
                raise ValueError(
                    said + "figure of an executed notebook, or a file of book/_static."
                )
        page = folder / f"{lecture.stem}.html"
        page.write_text(rendered(text, files), encoding="utf-8")
        pages.append(page)
    return pages


def main() -> None:
    from companion.store.paths import BUILD, HTML, ROOT

    drawn = sorted((BUILD / "notebooks").glob("*.ipynb"))
    print(*write(HTML / "slides", drawn, ROOT / "book" / "_static"), sep="\n")


if __name__ == "__main__":
    main()
