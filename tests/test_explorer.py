"""The explorer of ranks: its data are whole, and it answers in Chromium without a request."""

import sys

import pytest

from companion.plots import explorer
from companion.store.paths import ROOT
from companion.workflow import vega

sys.path.append(str(ROOT / "live"))
chromium = pytest.importorskip("chromium")
METHODS = ["revs", "least_squares", "rmu", "output_ban", "memit"]


@pytest.fixture(scope="module")
def found():
    return explorer.read()


def test_ten_secrets_under_five_methods(found):
    assert list(found["settings"]) == METHODS
    assert [one["forgotten"] for one in found["secrets"]] == [True] * 5 + [False] * 5
    for one in found["secrets"]:
        for when in ("before", *METHODS):
            assert [len(layers) for layers in one[when]] == [30] * len(one["tokens"])


def test_every_secret_was_known_and_revs_demotes_those_to_forget(found):
    """Before, every token comes first at the end; a demoted one no more after an edit."""
    last = lambda one, when: [layers[-1] for layers in one[when]]
    for one in found["secrets"]:
        assert last(one, "before") == [0] * len(one["tokens"])
        if one["forgotten"]:
            assert min(last(one, "revs")[place] for place in one["targets"]) > 0


def test_a_page_with_it_stays_small(found):
    assert len(explorer.ranks(found).html().encode()) < 500_000


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_it_answers_without_a_request(found, tmp_path):
    (tmp_path / "_static").mkdir()
    vega.write(tmp_path)
    (tmp_path / "page").mkdir()
    file = tmp_path / "page" / "page.html"
    shown = explorer.ranks(found).html()
    file.write_text(f'<!doctype html><meta charset="utf-8"><title>x</title>{shown}', "utf-8")
    drawn = "document.querySelector('#explorer svg').outerHTML"
    with chromium.page() as page:
        page.open(file.as_uri())
        page.wait("document.querySelectorAll('#explorer-controls select').length === 3", 60)
        for n in range(3):  # the secret, the method, the token
            page.evaluate(f"window.was = {drawn}")
            page.evaluate(
                f"(() => {{const one = document.querySelectorAll('#explorer-controls select')[{n}];"
                "one.selectedIndex = 2; one.dispatchEvent(new Event('input', {bubbles: true}));"
                "one.dispatchEvent(new Event('change', {bubbles: true}))})()"
            )
            page.wait(f"{drawn} !== window.was", 30)
        assert page.errors == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in page.requests)
