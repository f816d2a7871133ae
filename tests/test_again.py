"""Two builds are compared by what they show, not by when they were made."""

import base64
import io

import matplotlib.pyplot as plt
import nbformat

from flow import again
from revs import again as shown
from revs import rows
from test_rows import a_row


def build(place, seconds: int = 3, value: int = 3, title: str = "a") -> dict[str, str]:
    """One row, and a page with a picture and a text, made with these numbers."""
    a_row(place / "rows", memorised=value)
    figure = io.BytesIO()
    fig, ax = plt.subplots(figsize=(1, 1))
    ax.plot([0, value], [0, 1])
    ax.set_xlim(0, 9)
    fig.savefig(figure, metadata={"Title": title})
    plt.close(fig)
    picture = nbformat.v4.new_output("display_data", data={"image/png": base64.b64encode(figure.getvalue()).decode()})
    text = nbformat.v4.new_output("execute_result", data={"text/markdown": f"| score |\n|---|\n| {value} |\n\nIt took {seconds} s."})
    (place / "notebooks").mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[picture, text])]), place / "notebooks" / "page.ipynb")
    return again.products(place)


def test_times_and_a_file_s_bytes_are_not_compared(tmp_path):
    first = build(tmp_path / "a")
    found = again.compared(first, build(tmp_path / "b", seconds=4, title="b"))
    assert found == {kind: {"products": 1, "other": []} for kind in ("row", "text", "picture")}


def test_columns_of_time_and_memory_are_not_compared():
    table = "| method | score | unlearning, s | extra MB |\n| :--- | ---: | ---: | ---: |\n| REVS | {} | {} | 7 |\n\nText | with a bar."
    assert again.timeless(table.format(3, 60)) == again.timeless(table.format(3, 61)) != again.timeless(table.format(4, 60)) and "Text | with a bar." in again.timeless(table)
    two = table + "\n\n| seconds | score |\n| ---: | ---: |\n| 5 | {} |"
    assert again.timeless(two.format(3, 60, 1)) == again.timeless(two.format(3, 61, 1)) != again.timeless(two.format(3, 61, 2))


def test_units_bytes_and_tables_of_html_are_not_compared_either():
    """An hour may be sixty minutes; a long table that can be searched is HTML."""
    assert again.timeless("in 59.5 min and 87 MiB, 3 of 4") == again.timeless("in 1.0 h and 1.2 GiB, 3 of 4") != again.timeless("in 1.0 h and 1.2 GiB, 4 of 4")
    table = '<table><thead><tr><th>row</th><th>seconds</th><th>MiB</th><th>when</th></tr></thead><tbody><tr data-value="x"><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr></tbody></table>'
    assert again.timeless(table.format("a", 1, 2, 3)) == again.timeless(table.format("a", 4, 5, 6)) != again.timeless(table.format("b", 1, 2, 3))


def test_benchmarks_are_left_out(tmp_path):
    first = build(tmp_path / "a")
    (tmp_path / "a" / "notebooks" / "bench").mkdir()
    (tmp_path / "a" / "notebooks" / "page.ipynb").rename(tmp_path / "a" / "notebooks" / "bench" / "page.ipynb")
    assert set(first) - set(again.products(tmp_path / "a")) == {"picture: page, output 0", "text: page, output 1"}


def test_another_value_is_seen_in_row_text_and_picture(tmp_path):
    first = build(tmp_path / "a")
    found = again.compared(first, build(tmp_path / "b", value=4))
    assert found == {"row": {"products": 1, "other": ["memorise/x/tiny"]}, "text": {"products": 1, "other": ["page, output 1"]}, "picture": {"products": 1, "other": ["page, output 0"]}}
    assert again.compared(first, {})["row"] == {"products": 1, "other": ["memorise/x/tiny"]}  # what did not come back
    assert list(shown.table({"found": found})["different the second time"]) == ["1", "1", "1"]


def test_a_record_says_whether_the_sources_are_still_those():
    record = {"when": "2026-01-01", "seconds": 600, "sources": shown.sources()} | rows.machine()
    assert "10 minutes. The sources are still those." in shown.sentence(record)
    assert shown.sentence(record | {"sources": "others"}).endswith("The sources have changed since.")
