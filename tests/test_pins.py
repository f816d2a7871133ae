"""One set of pins: requirements.txt, environment.yml and pyproject.toml agree, README.md too."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PINS = [
    line
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]


def test_pins_are_exact_and_name_no_host():
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", pin) for pin in PINS)
    assert len({pin.split("==")[0] for pin in PINS}) == len(PINS)


def test_conda_users_get_the_same_pins():
    assert next(entry["pip"] for entry in ENVIRONMENT if isinstance(entry, dict)) == PINS


def test_the_package_needs_a_part_of_the_pins():
    assert set(PROJECT["dependencies"]) < set(PINS)


def test_python_versions_agree():
    assert PROJECT["requires-python"] == ">=3.11,<3.13"
    assert "python=3.11" in ENVIRONMENT
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "((3, 11), (3, 12))" in makefile


def test_the_readme_names_these_versions_of_python():
    readme = ROOT / "README.md"
    if not readme.is_file():
        pytest.skip("there is no README.md")
    named = set(
        re.findall(
            r"\b3\.(\d+)\b(?!\.)",
            " ".join(
                re.findall(
                    r"[Pp]ython[^.\n]{0,3}3\.\d+(?:(?:,| or| and|–) 3\.\d+)*",
                    readme.read_text(encoding="utf-8"),
                )
            ),
        )
    )
    assert named == {"11", "12"}


def test_the_readme_names_no_other_pin():
    readme = ROOT / "README.md"
    if not readme.is_file():
        pytest.skip("there is no README.md")
    ours = {pin.split("==")[0].lower() for pin in PINS}
    for name, version in re.findall(
        r"([A-Za-z][\w-]*)==([\w.]+)", readme.read_text(encoding="utf-8")
    ):
        assert name.lower() not in ours or f"{name.lower()}=={version}" in [
            pin.lower() for pin in PINS
        ]


def test_every_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("revs", "companion")
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert found == {name for name in listed if "_project" not in name}
