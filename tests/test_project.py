"""The files at the root: one list of exact versions, and what others run is what `make` makes."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


LINES = read("requirements.txt").splitlines()
PINS = dict(line.split("==") for line in LINES if line and not line.startswith("#"))
PROJECT = tomllib.loads(read("pyproject.toml"))
ENVIRONMENT = yaml.safe_load(read("environment.yml"))["dependencies"]


def test_pins_are_exact():
    assert len(PINS) > 30 and len(PINS) == sum(bool(line) and line[0] != "#" for line in LINES)
    assert all(re.fullmatch(r"[0-9][A-Za-z0-9.]*", version) for version in PINS.values())


def test_the_library_needs_torch_and_transformers_within_ranges_that_hold_the_pins():
    ranges = [re.split(r"([>=<]+)([\d.]+)", need) for need in PROJECT["project"]["dependencies"]]
    number = lambda text: [int(part) for part in text.split(".")]
    assert [parts[0] for parts in ranges] == ["torch", "transformers"]
    for name, above, low, _, below, high, _ in ((p[0], *p[1:]) for p in ranges):
        assert (above, below) == (">=", "<")
        assert number(low) <= number(PINS[name]) < number(high)


def test_the_extras_name_what_is_pinned():
    extras = sum(PROJECT["project"]["optional-dependencies"].values(), [])
    assert sorted([*extras, "torch", "transformers"]) == sorted(PINS)


def test_users_of_conda_and_binder_get_the_same_pins():
    assert {"pip": ["-r requirements.txt"]} in ENVIRONMENT
    assert read(".binder/requirements.txt").split() == ["-r", "../requirements.txt"]


def test_the_lock_has_every_pin_and_hashes_for_every_package():
    lock, hashes = read("requirements.lock"), r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
    found = re.findall(rf"^([a-z0-9.-]+)==([^ ]+).* \\\n{hashes}", lock, re.MULTILINE)
    assert len(found) == len(re.findall(r"^[^ #].*==", lock, re.MULTILINE))
    pinned = {name.lower().replace("_", "-"): version for name, version in PINS.items()}
    assert pinned.items() <= dict(found).items()


def test_versions_of_python_agree():
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    assert "python=3.11" in ENVIRONMENT and read(".binder/runtime.txt").strip() == "python-3.11"
    assert "((3, 11), (3, 12), (3, 13))" in read("Makefile")
    assert "Python 3.11, 3.12 or 3.13" in read("README.md")


def test_every_package_is_installed():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("revs", "companion", "document_audit", "teaching")
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert found == {name for name in listed if "_project" not in name}


@pytest.mark.parametrize(
    "path",
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".ci/run", ".github/workflows/book.yml"],
)
def test_what_is_said_to_be_made_can_be_made(path):
    named = re.findall(r"(?:`|\$ |run: |^)make ([a-z]+)\b", read(path), re.MULTILINE)
    named = set(named) - {"verify", "compare", "adopt"}  # gone, as the changelog says
    assert named and named <= set(re.findall(r"^([a-z]+): ", read("Makefile"), re.MULTILINE))


def test_ci_runs_what_the_readme_calls_the_tests():
    assert read(".ci/run").rstrip().endswith("make test")
    steps = yaml.safe_load(read(".github/workflows/book.yml"))["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step][:2] == ["make book", "make test"]


def test_the_paper_is_cited_alike():
    cited = yaml.safe_load(read("CITATION.cff"))["preferred-citation"]
    entry = read("book/references.bib").split("@inproceedings{")[1]
    field = lambda name: re.search(rf"^  {name} += {{(.*)}}", entry, re.MULTILINE)[1]
    assert field("doi") == cited["doi"] and field("pages") == f"{cited['start']}--{cited['end']}"
    assert field("title").replace("{REVS}", "REVS") == cited["title"]
    names = [f"{one['family-names']}, {one['given-names']}" for one in cited["authors"]]
    assert field("author") == " and ".join(names)
