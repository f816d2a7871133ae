"""The rendered chapters as a browser shows them, in both themes. Needs `make book` first."""

from importlib import resources

import pytest
from test_book import HTML, PAGES

from live import chromium

pytestmark = [pytest.mark.slow]
pytestmark += [pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")]
AXE = resources.files("axe_core_python") / "axe.min.js"
RULES = {"light": "", "dark": "runOnly: ['color-contrast'], "}  # nothing but colours differs
SERIOUS = """axe.run(document, {RULES resultTypes: ["violations"]}).then(found => found.violations
  .filter(one => ["serious", "critical"].includes(one.impact))
  .map(one => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`))"""
OWN = 1_000_000  # bytes of a page without what all pages share


@pytest.fixture(scope="module")
def browser():
    with chromium.page() as page:
        yield page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES[: PAGES.index("notebooks/contents")])
def test_a_chapter_has_no_error_no_request_and_nothing_serious_for_axe(name, theme, browser):
    browser.errors.clear(), browser.requests.clear()
    chosen = [{"name": "prefers-color-scheme", "value": theme}]
    browser.send("Emulation.setEmulatedMedia", features=chosen)
    browser.open((HTML / f"{name}.html").as_uri())
    browser.evaluate("document.getAnimations().forEach(one => one.finish())")  # of the theme
    browser.evaluate(AXE.read_text(encoding="utf-8") + "; true")
    assert browser.evaluate(SERIOUS.replace("RULES", RULES[theme])) == [] and browser.errors == []
    elsewhere = [one for one in browser.requests if not one.startswith(("file:", "data:", "blob:"))]
    assert elsewhere == []


@pytest.mark.parametrize("name", PAGES)
def test_the_own_weight_of_a_page_is_small(name):
    assert (HTML / f"{name}.html").stat().st_size < OWN
