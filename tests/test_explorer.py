"""The explorer of ranks: its data are whole, and it answers in Chromium without a request."""

import sys

import pandas as pd
import pytest

from companion.data import adapters
from companion.experiments import methods
from companion.plots import explorer
from companion.store.paths import ROOT
from companion.workflow import site

sys.path.append(str(ROOT / "live"))
chromium = pytest.importorskip("chromium")


@pytest.fixture(scope="module")
def found():
    return explorer.read()


def test_its_edits_have_the_settings_of_the_comparison(found):
    """Otherwise: python data/ranks/make.py."""
    about = found["model"], found["data"], {}
    for name, settings in found["settings"].items():
        assert settings == methods.hyperparameters(name, *about), name
    assert found["adapter_sha256"] == adapters.fingerprint(found["adapter"])


def test_every_secret_was_known_and_revs_demotes_those_to_forget(found):
    """Before, every token comes first at the end; a demoted one no more after an edit."""
    last = lambda one, when: [layers[-1] for layers in one[when]]
    for one in found["secrets"]:
        assert last(one, "before") == [0] * len(one["tokens"])
        if one["forgotten"]:
            assert min(last(one, "revs")[place] for place in one["targets"]) > 0


@pytest.fixture
def points():
    """Two methods on two panels; a run of one is recorded twice, the other has a step more."""
    lines = [("memit", 0.5), ("memit", 2), ("memit", 2), ("revs", 0.01), ("revs", 0.1), ("revs", 1)]
    frame = pd.DataFrame(lines, columns=["method", "knob"])
    frame[["efficacy", "specificity", "unlearning_score"]] = [[10.0 * i] * 3 for i in range(6)]
    parts = [frame.assign(panel="SSN"), frame.assign(panel="Emails", efficacy=50.0)]
    return pd.concat(parts, ignore_index=True)


def test_the_plane_has_each_measured_edit_once_and_a_step_for_each(points):
    spec = explorer.plane(points).spec
    (lines,) = spec["datasets"].values()
    names = ("method", "step", "last", "setting")
    found = [tuple(line[name] for name in names) for line in lines if line["panel"] == "SSN"]
    assert found == [
        ("MEMIT", 1, 2, "clamp_norm_factor = 0.5"),
        ("MEMIT", 2, 2, "clamp_norm_factor = 2"),
        *[("REVS", i, 3, f"r_h = {at}") for i, at in ((1, "0.01"), (2, "0.1"), (3, "1"))],
    ]
    (slider,) = [one for one in spec["params"] if one.get("bind", {}).get("input") == "range"]
    assert (slider["bind"]["min"], slider["bind"]["max"]) == (1, 3)


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("which, controls", [("ranks", 3), ("plane", 2)])
def test_it_answers_without_a_request(which, controls, found, points, tmp_path):
    (tmp_path / "_static").mkdir()
    site.write_vega(tmp_path)
    (tmp_path / "page").mkdir()
    file = tmp_path / "page" / "page.html"
    shown = (explorer.ranks(found) if which == "ranks" else explorer.plane(points)).html()
    file.write_text(f'<!doctype html><meta charset="utf-8"><title>x</title>{shown}', "utf-8")
    drawn = "document.querySelector('#explorer svg').outerHTML"
    with chromium.page() as page:
        page.open(file.as_uri())
        every = "document.querySelectorAll('#explorer-controls :is(select, input)')"
        page.wait(f"{every}.length === {controls}", 60)
        for n in range(controls):  # the secret, the method, the token; the panel, the step
            page.evaluate(f"window.was = {drawn}")
            page.evaluate(
                f"(() => {{const one = {every}[{n}];"
                "one.value = one.options ? one.options[one.options.length - 1].value : one.max;"
                "one.dispatchEvent(new Event('input', {bubbles: true}));"
                "one.dispatchEvent(new Event('change', {bubbles: true}))})()"
            )
            page.wait(f"{drawn} !== window.was", 30)
        assert page.errors == []
        assert all(url.startswith(("file:", "data:", "blob:")) for url in page.requests)
