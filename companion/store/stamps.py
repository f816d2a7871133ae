"""Stale or current: a hash of the definitions that a result depends on, wherever they stand.

From entry functions, references are followed to every definition of the project's own code that
they reach: functions, classes, constants. What is hashed is their syntax without module paths,
import style, docstrings and empty fields, so that a stamp survives a move, another layout and
another Python; the change of one definition changes it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from companion.store.paths import PACKAGES, ROOT

PROJECT = ("revs", "companion")  # packages whose definitions are followed
RANKS = "revs.measures.evaluate:secret_ranks"  # what is kept of a model by content
# What cannot change a result: files, progress, and what settings and hashes of inputs pin already
PINNED = {"companion.experiments", "document_audit.report", "revs.model.load"}
PINNED |= {"revs.model.architecture.ARCHITECTURES"}  # the hash of its weights pins a row's family
PINNED |= {f"companion.store.{name}" for name in ("paper", "paths", "rows", "stamps")}
PINNED |= {f"companion.experiments.{name}" for name in ("datasets", "made", "memory", "methods")}
PINNED |= {f"companion.experiments.{name}" for name in ("models", "named", "nearest", "progress")}
PINNED |= {
    "companion.experiments.finetune.prepared"
}  # a fine-tune has a row of its own, and its weights
RUN = "companion.experiments.{kind}:run"
MEASURES = {
    "attacks": "revs.measures.attacks:measure",
    "cue": "companion.measures.name_swap:measure",
    "instead": "companion.measures.replacement:measure",
    "integrity": "companion.experiments.integrity:measure",
    "margin": "companion.measures.logit_margin:measure",
    "ordinary": "revs.measures.general_text:measure",
    "perturbations": "revs.measures.attacks:perturbations",
    "public": "companion.measures.public_addresses:measure",
    "told": "companion.measures.prompt_leakage:measure",
}


def entries(kind: str, settings: dict) -> list[str]:
    """Where a run's code begins, as module:name: its experiment, and what that dispatches to by
    the names in its settings. A search's is that of its trials: what it chose among them stays the
    best of them, however others would be drawn today."""
    found = [RUN.format(kind="unlearn" if kind == "tune" else kind)]
    table = methods()
    modules = [table[settings["method"]]["module"]] if "method" in settings else []
    if settings.get("what") == "gradient":
        modules = [
            entry["module"] for entry in table.values() if ".baselines." in entry.get("module", "")
        ]
    found += [f"{module}:{name}" for module in modules for name in ("Hyperparameters", "unlearn")]
    return found + [MEASURES[name] for name in settings.get("measures", [])]


@functools.cache
def methods() -> dict:
    """params/methods.yml, which names the modules that settings dispatch to."""
    return yaml.safe_load((ROOT / "params" / "methods.yml").read_text(encoding="utf-8"))


def stamp(kind: str, settings: dict, inputs: dict) -> str:
    """The stamp of a run by the present sources."""
    return digest([reached(*entries(kind, settings)), settings, inputs])


def digest(value) -> str:
    """sha256 of a value's canonical JSON, or of bytes."""
    data = (
        value
        if isinstance(value, bytes)
        else json.dumps(value, sort_keys=True, default=str).encode()
    )
    return hashlib.sha256(data).hexdigest()


@functools.cache
def reached(*entries: str) -> list[list[str]]:
    """Name and hash of every definition that the entries reach, in the order of names.

    Raises FileNotFoundError or KeyError where an entry is gone.
    """
    todo, seen = (
        [found for entry in entries for found in [place(entry.replace(":", "."))[0]] if found],
        set(),
    )
    while todo:
        if (one := todo.pop()) not in seen:
            seen.add(one)
            todo += definition(*one)[1]
    return sorted([name, definition(module, name)[0]] for module, name in seen)


@functools.cache
def definition(module: str, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The hash of one definition, and the places of the project's definitions that it names."""
    form = Form(module)
    parts = [form.of(node) for node in names(module)[0][name]]
    return digest(parts), tuple(sorted(form.followed))


def source(module: str) -> Path:
    """The file of one of the project's modules."""
    path = PACKAGES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def names(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, str]]:
    """What a module's names mean: the statements that make each definition, and the dotted path of
    each import."""
    defined: dict[str, list[ast.stmt]] = {}
    imported: dict[str, str] = {}
    for node in ast.parse(source(module).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= bindings(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.setdefault(node.name, []).append(node)
        elif not isinstance(
            node, ast.If
        ):  # a constant, and what fills it later; "if __name__ …" defines nothing
            for target in stored(node):
                defined.setdefault(target, []).append(node)
    return defined, imported


def bindings(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, with their dotted paths."""
    if isinstance(node, ast.ImportFrom):
        return {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}
    return {
        item.asname or item.name.split(".")[0]: item.name
        if item.asname
        else item.name.split(".")[0]
        for item in node.names
    }


def stored(node: ast.AST) -> set[str]:
    """The names that a statement assigns, also through an index (``TABLE[key] = …``)."""
    targets = [
        target
        for part in ast.walk(node)
        for target in (getattr(part, "targets", None) or [getattr(part, "target", None)])
        if target
    ]
    found = set()
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
            if isinstance(target, ast.Name):
                found.add(target.id)
    return found


SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def local(scope: ast.AST) -> tuple[set[str], dict[str, str]]:
    """The names that a function or comprehension binds itself, and its own imports."""
    arguments = getattr(scope, "args", None)
    bound = (
        {argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)}
        if arguments
        else set()
    )
    imported: dict[str, str] = {}
    todo = [part for part in ast.iter_child_nodes(scope) if part is not arguments]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imported |= bindings(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        if not isinstance(node, (*SCOPES, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)
    return bound, imported


class Form:
    """The canonical form of a module's definitions, and which definitions they name."""

    def __init__(self, module: str):
        self.module, self.followed = module, set()
        self.scopes: list[tuple[set[str], dict[str, str]]] = []

    def of(self, node):
        """A node as nested lists that JSON can hold."""
        if isinstance(node, list):
            return [self.of(part) for part in undocumented(node)]
        if not isinstance(node, ast.AST):
            return repr(node)
        if path := self.path(node):
            return ["name", self.resolved(path)]
        if isinstance(node, ast.JoinedStr):
            node = ast.JoinedStr(joined(node.values))
        inner = isinstance(node, SCOPES)
        if inner:
            self.scopes.append(local(node))
        fields = [
            [name, self.of(value)]
            for name, value in ast.iter_fields(node)
            if name not in ("ctx", "kind", "type_comment", "type_ignores")
            and value not in (None, [])
        ]
        if inner:
            self.scopes.pop()
        return [type(node).__name__, *fields]

    def path(self, node: ast.AST) -> str | None:
        """The dotted path that a name or a chain of attributes stands for; None if it begins with
        something local."""
        if isinstance(node, ast.Attribute):
            start = self.path(node.value)
            return start and f"{start}.{node.attr}"
        if not isinstance(node, ast.Name):
            return None
        for bound, imported in reversed(self.scopes):
            if node.id in imported:
                return imported[node.id]
            if node.id in bound:
                return None
        defined, imported = names(self.module)
        return imported.get(node.id) or (f"{self.module}.{node.id}" if node.id in defined else None)

    def resolved(self, path: str) -> str:
        """A path without the module in front, if it is of the project; its definition is followed,
        unless it is pinned."""
        if path.split(".")[0] not in PROJECT:
            return path
        found, rest = place(path)
        if found and not {found[0], ".".join(found)} & PINNED:
            self.followed.add(found)
        return rest


def place(path: str) -> tuple[tuple[str, str] | None, str]:
    """The module and name that a dotted path of the project leads to, through what modules import
    from each other, and the path without the module."""
    parts = path.split(".")
    cut = next(
        cut
        for cut in range(len(parts), -1, -1)
        if not cut or source(".".join(parts[:cut])).is_file()
    )
    module, rest = ".".join(parts[:cut]), parts[cut:]
    if not cut:
        raise FileNotFoundError(path)
    if not rest:
        return None, ""
    defined, imported = names(module)
    if rest[0] in defined:
        return (module, rest[0]), ".".join(rest)
    if rest[0] in imported:
        path = ".".join([imported[rest[0]], *rest[1:]])
        return place(path) if path.split(".")[0] in PROJECT else (None, path)
    raise KeyError(path)


def undocumented(body: list) -> list:
    """A body without its docstring, and without imports, which only bind names."""
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:]
    return [node for node in body if not isinstance(node, (ast.Import, ast.ImportFrom))]


def joined(parts: Iterable[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts as one, and no empty ones: Pythons cut them
    differently."""
    found: list[ast.expr] = []
    for part in parts:
        if isinstance(part, ast.Constant) and found and isinstance(found[-1], ast.Constant):
            found[-1] = ast.Constant(found[-1].value + part.value)
        elif not (isinstance(part, ast.Constant) and part.value == ""):
            found.append(part)
    return found
