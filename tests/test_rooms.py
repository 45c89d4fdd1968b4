"""A spec walks through the rooms in one direction: imports never point forward."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "ladderspec"

# In the order of the corridor; a room may import its own floor and those before it.
FLOORS = [
    "names errors excerpt wording version files plugins",
    "text",
    "cells",
    "tasks data",
    "language",
    "wiring",
    "schedule",
    "nn",
    "network",
    "corridor drawing export",
    "experiments learn trained ablation",
    "cli __init__ __main__",
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}
WITH_TORCH = FLOOR["nn"]  # the first floor where a module may import torch


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield parts[0], "/".join(parts), ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it is imported: not inside functions, not for types alone."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "ladderspec":
            yield from (f"ladderspec.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


@pytest.mark.parametrize(("room", "name", "tree"), list(modules()), ids=lambda x: str(x)[:40])
def test_imports_point_back(room: str, name: str, tree: ast.Module) -> None:
    assert room in FLOOR, f"{room} stands on no floor yet"
    for module in imported(tree):
        parts = module.split(".")
        if parts[0] == "ladderspec" and len(parts) > 1:
            assert FLOOR[parts[1]] <= FLOOR[room], f"{name} imports {module}"
        if parts[0] == "torch" and room != "cli":
            assert FLOOR[room] >= WITH_TORCH, f"{name} imports torch on import"


def test_cells_and_words_never_speak_of_tensors() -> None:
    for room, name, tree in modules():
        if FLOOR.get(room, 99) < FLOOR["tasks"]:
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
            names = {alias.name.split(".")[0] for node in found for alias in node.names}
            assert "torch" not in names, name
