"""One list of exact versions, requirements.txt; pyproject.toml and environment.yml follow it."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
LINES = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
PINS = dict(line.split("==") for line in LINES if line and not line.startswith("#"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_pins_are_exact():
    assert len(PINS) > 30 and len(PINS) == sum(bool(line) and line[0] != "#" for line in LINES)
    assert all(re.fullmatch(r"[0-9][A-Za-z0-9.]*", version) for version in PINS.values())


def test_the_library_needs_torch_and_transformers_within_ranges_that_hold_the_pins():
    ranges = [re.split(r"([>=<]+)([\d.]+)", need) for need in PROJECT["project"]["dependencies"]]
    number = lambda text: [int(part) for part in text.split(".")]  # noqa: E731
    assert [parts[0] for parts in ranges] == ["torch", "transformers"]
    for name, above, low, _, below, high, _ in ((p[0], *p[1:]) for p in ranges):
        assert (above, below) == (">=", "<")
        assert number(low) <= number(PINS[name]) < number(high)


def test_the_extras_name_what_is_pinned():
    extras = sum(PROJECT["project"]["optional-dependencies"].values(), [])
    assert sorted([*extras, "torch", "transformers"]) == sorted(PINS)


def test_conda_users_get_the_same_pins():
    assert {"pip": ["-r requirements.txt"]} in ENVIRONMENT


def test_versions_of_python_agree():
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.13"
    assert "python=3.11" in ENVIRONMENT
    assert "((3, 11), (3, 12))" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "Python 3.11 or 3.12" in README


def test_the_readme_names_no_other_pin():
    named = re.findall(r"([A-Za-z][\w-]*)==([\w.]+)", README)
    assert not [name for name, version in named if PINS.get(name.lower(), version) != version]


def test_every_package_is_installed():
    listed = PROJECT["tool"]["setuptools"]["packages"]
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("revs", "companion", "document_audit")
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert found == {name for name in listed if "_project" not in name}
