"""One direction of imports between packages, without cycles; private names stay at home."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parent.parent / "ladderspec"

# In the order of the pipeline: a package imports from its own line and from those above it. This
# holds for every import: at the top of a module, inside functions, and for type checkers alone.
LAYERS = [
    "names errors wording arguments escaping grouping_scores version display",
    "files plugins shipped",
    "text",
    "cells",
    "tasks data",
    "language",
    "wiring",
    "schedule",
    "ops",
    "nn",
    "network",
    "api",
    "export drawing",
    "experiments",
    "learn",
    "trained",
    "ablation",
    "runner",
    "cli __init__ __main__",
]
LAYER = {package: index for index, line in enumerate(LAYERS) for package in line.split()}
WITH_TORCH = LAYER["ops"]  # the first package whose modules import torch when they are imported
COMPUTES = {"cells", "tasks"}  # before it, these import torch inside functions


class Import(NamedTuple):
    module: str  # ladderspec.text.tree
    name: str  # Node; empty for `import ladderspec.text.tree`
    late: bool  # inside a function, or for type checkers alone

    @property
    def package(self) -> str:
        """`text`; empty for the library itself."""
        parts = [*self.module.split("."), self.name]
        return parts[1] if parts[0] == "ladderspec" else ""


class Module(NamedTuple):
    package: str  # text
    name: str  # text/tree
    tree: ast.Module

    def imports(self) -> Iterator[Import]:
        top = set(map(id, self.tree.body))
        for node in ast.walk(self.tree):
            late = id(node) not in top
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, "", late) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name} imports relatively"
                for alias in node.names:
                    yield Import(str(node.module), alias.name, late)


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.append(Module(parts[0], "/".join(parts), tree))
    return tuple(found)


every_module = pytest.mark.parametrize("module", modules(), ids=[m.name for m in modules()])


@every_module
def test_imports_point_back(module: Module) -> None:
    assert module.package in LAYER, f"{module.package} has no layer yet"
    for found in module.imports():
        if found.module.split(".")[0] == "torch" and LAYER[module.package] < WITH_TORCH:
            assert found.late, f"{module.name} imports torch"
            assert module.package in COMPUTES, f"{module.name} imports torch"
        if found.package:
            assert LAYER[found.package] <= LAYER[module.package], f"{module.name}: {found}"


def test_no_cycles_between_packages() -> None:
    graph = nx.DiGraph()
    for module in modules():
        graph.add_edges_from(
            (module.package, found.package)
            for found in module.imports()
            if found.package and found.package != module.package
        )
    assert list(nx.simple_cycles(graph)) == []


def private_uses(module: Module) -> Iterator[tuple[str, str]]:
    """The private modules and names of other packages that a module uses."""
    bound = {}
    for found in module.imports():
        if not found.package:
            continue
        path = [*found.module.split(".")[1:], found.name]
        bound[found.name or found.module.split(".")[-1]] = found.package
        if found.package != module.package:
            yield from (
                (module.package, ".".join(path[: i + 1]))
                for i, part in enumerate(path)
                if part.startswith("_") and not part.startswith("__")
            )
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = bound.get(node.value.id), node.attr
            if owner not in (None, module.package) and name[0] == "_" and name[:2] != "__":
                yield module.package, f"{owner}.{name}"


@every_module
def test_private_names_stay_at_home(module: Module) -> None:
    assert not set(private_uses(module))


def test_private_functions_of_torch_are_used_in_ops_alone() -> None:
    private = re.compile(r"torch\._[a-zA-Z]|torch\.\S+\._[a-z]|import _[a-z]\w*|\._version\b")
    for path in sorted(ROOT.rglob("*.py")):
        if path.parent.name != "ops":
            lines = [
                line for line in path.read_text(encoding="utf-8").splitlines() if "torch" in line
            ]
            assert [line for line in lines if private.search(line)] == [], path


def test_questions_about_paths_raise_no_errors() -> None:
    """Those of pathlib raise OSError on names that are too long; those of os.path say no."""
    question = re.compile(r"\.(is_file|is_dir|exists)\(\)")
    assert not [file.name for file in ROOT.rglob("*.py") if question.search(file.read_text())]


def test_tests_mirror_the_packages() -> None:
    for package in ROOT.glob("*/__init__.py"):
        name = package.parent.name
        assert list((ROOT.parent / "tests" / name).glob("test_*.py")), f"no tests/{name}"


# The module of a norm or cell, and its plain form in exported files.
SAME_THING = {"BatchNorm", "Cell"}


def test_class_names_are_unique() -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in SAME_THING:
                found.setdefault(node.name, []).append(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
