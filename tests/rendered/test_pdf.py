"""The PDF edition: pages in order, with an outline, and no address of this machine."""

import pytest
from pypdf import PdfReader

from companion.store.paths import HTML
from companion.workflow import pdf
from live import chromium


def test_a_book_that_is_not_built_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="make book"):
        pdf.write(tmp_path / "book.pdf", tmp_path, ["book/index"])


@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_pages_are_printed_in_order(tmp_path):
    pdf.write(tmp_path / "book.pdf", HTML, ["book/index", "book/faq"])
    book = PdfReader(tmp_path / "book.pdf")
    assert [entry.title for entry in book.outline][0].startswith("REVS")
    assert len(book.outline) == 2
    assert "memorised secret" in book.pages[0].extract_text()
    links = [a.get_object() for page in book.pages for a in page.get("/Annots") or ()]
    assert not [link for link in links if "file:" in str(link.get("/A", {}).get("/URI"))]
