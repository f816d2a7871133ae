"""The house: revs stands alone, companion's rooms import one way, and there is no circle."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = {"torch", "transformers", "safetensors", "gguf", "tokenizers", "numpy"}
ROOMS = ("workflow", "ledger", "pages", "runs", "own", "record")  # each may import those after it
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("revs", "companion")
    for path in sorted((ROOT / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def typing_only(tree: ast.AST) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``, which is never run."""
    guards = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    ]
    return {part for guard in guards for part in ast.walk(guard)}


def imported(module: str) -> set[str]:
    """What a module imports, also inside functions; names of the project as whole modules."""
    tree, found = TREES[module], set()
    for node in set(ast.walk(tree)) - typing_only(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} imports relative to itself"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in inner}
    return found


@pytest.mark.parametrize("module", [name for name in MODULES if name.split(".")[0] == "revs"])
def test_revs_stands_alone(module):
    allowed = LIBRARIES | {"revs"} | set(sys.stdlib_module_names)
    assert {name.split(".")[0] for name in imported(module)} <= allowed


@pytest.mark.parametrize("module", [name for name in MODULES if name.count(".") > 1])
def test_rooms_import_one_way(module):
    package, room, *_ = module.split(".")
    if package == "companion":
        reached = {name.split(".")[1] for name in imported(module) if name.startswith("companion.")}
        assert reached <= set(ROOMS[ROOMS.index(room) :])


def test_there_is_no_circle():
    graph = {name: imported(name) & MODULES.keys() - {name} for name in MODULES}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def test_whoever_reads_profiles_and_rows_does_not_wait_for_torch():
    """All but what takes over, verifies or shows: that asks experiments and pages."""
    names = ("build", "notebook", "pages", "plan", "profile", "record", "stamps")
    code = "import sys, " + ", ".join(f"companion.workflow.{name}" for name in names)
    code += "; print({'torch', 'transformers', 'jsonargparse'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_no_function_of_revs_has_more_than_eight_parameters():
    def parameters(node: ast.AST) -> int:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return len(named) + (arguments.vararg is not None) + (arguments.kwarg is not None)

    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    assert not [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        if name.split(".")[0] == "revs"
        for node in ast.walk(tree)
        if isinstance(node, functions) and parameters(node) > 8
    ]


def room(module: str) -> str:
    """revs, revs.method, companion.analysis, …"""
    return ".".join(module.split(".")[:2])


def test_contributing_draws_the_rooms_as_they_are():
    """One line a room: its name, what it holds, the rooms that it imports."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    drawn = {cells[1].strip(" `"): set(cells[3].replace("`", " ").split()) for cells in lines}
    found: dict[str, set[str]] = {}
    for module in MODULES:
        inner = {room(name) for name in imported(module) & MODULES.keys()}
        found.setdefault(room(module), set()).update(inner - {room(module)})
    assert found.pop("companion") == set() and drawn == found
