"""Which package imports which: revs stands alone, and CONTRIBUTING.md draws the rest as it is."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("revs", "companion", "document_audit", "teaching")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def package(module: str) -> str:
    """revs, revs.method, companion.analysis, …; the document audit and teaching are one each."""
    parts = module.split(".")
    whole = ("document_audit", "teaching")
    return parts[0] if parts[0] in whole else ".".join(parts[:2])


def imported(module: str) -> set[str]:
    """What a module imports, also inside functions; names of the project as whole modules."""
    tree, found = TREES[module], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relative to itself"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in inner}
    return found


def drawn() -> dict[str, set[str]]:
    """CONTRIBUTING.md's table: a package, what it holds, the packages that it imports."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    return {cells[1].strip(" `"): set(cells[3].replace("`", " ").split()) for cells in lines}


def test_contributing_draws_the_packages_as_they_are():
    found: dict[str, set[str]] = {}
    for module in MODULES:
        inner = {package(name) for name in imported(module) & MODULES.keys()}
        found.setdefault(package(module), set()).update(inner - {package(module)})
    assert found.pop("companion") == set() and drawn() == found


def test_each_package_imports_only_those_that_stand_above_it():
    order = list(drawn())
    for place, (name, imports) in enumerate(drawn().items()):
        assert imports <= set(order[:place]), name


def test_modules_import_in_no_circle():
    graph = {name: imported(name) & MODULES.keys() - {name} for name in MODULES}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_planning_and_reading_rows_does_not_wait_for_torch():
    """All modules of the workflow but those that need experiments or pages."""
    names = sorted(
        name
        for name in MODULES
        if name.startswith(("companion.workflow.", "companion.store."))
        and not {"promote", "site"} & set(name.split("."))
    )
    code = (
        f"import sys, {', '.join(names)}; print({{'torch', 'transformers'}} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
