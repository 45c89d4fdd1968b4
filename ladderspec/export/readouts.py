"""What tasks see, and what they own: a read-out, an offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ladderspec.names import Shape
from ladderspec.tasks import Task
from ladderspec.wiring.graph import Graph

OFFSET = ("prediction", "denoising")  # tasks whose output has a mean that data can tell


@dataclass(frozen=True)
class Readout:
    """One thing that a task sees."""

    task: str
    node: str
    shape: Shape
    says: str = ""  # what the task is
    module: str = ""  # the expression that makes what it owns; empty where it owns nothing
    stopped: bool = False  # no gradient flows back
    several: bool = False  # the task sees other nodes too

    @property
    def name(self) -> str:
        """Under which the network gives it."""
        return f"{self.task}.{self.node}" if self.several else self.task

    @property
    def access(self) -> str:
        """How the code reaches its module."""
        return "".join(f'["{part}"]' for part in self.name.split("."))


def readouts_of(graph: Graph) -> list[Readout]:
    """All that tasks see; without any task, every node."""
    tasks = graph.graph["tasks"]
    if not tasks:
        nodes = [node for node in graph if node != "encoder.input"]
        return [Readout(node, node, graph.nodes[node]["shape"]) for node in nodes]
    return [each for name in tasks for each in _of_task(graph, name, tasks[name])]


def _of_task(graph: Graph, name: str, entry: dict[str, Any]) -> Iterator[Readout]:
    task: Task = entry["task"]
    several = len(entry["at"]) > 1
    for node in entry["at"]:
        source: Shape = graph.nodes[node]["shape"]
        shape = (task.head, *source[1:]) if task.head else source
        offset = task.kind in OFFSET and not several
        module = _module(source, shape, bool(task.head), offset)
        says = f"{task.kind} at {node}"
        yield Readout(name, node, shape, says, module, not task.teaches, several)


def _module(source: Shape, shape: Shape, headed: bool, offset: bool) -> str:
    sizes = ", ".join(map(str, shape))
    vector = len(shape) == 1
    if headed and offset:
        return f"{'Linear' if vector else 'Conv'}Offset({source[0]}, {sizes})"
    if headed:
        linear = "nn.Linear({}, {})" if vector else "nn.Conv2d({}, {}, 1)"
        return linear.format(source[0], shape[0])
    return f"Offset({sizes})" if offset else ""
