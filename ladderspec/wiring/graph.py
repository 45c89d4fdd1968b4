"""The typed graph: one node per cell, one edge per arrow, with its role and its delay.

Two rules make everything else follow: without delayed edges the graph is acyclic, and every node
exists because a task reads it, now or at a later t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, Protocol, TypedDict, cast

import networkx as nx

from ladderspec.arguments import checked
from ladderspec.cells import Cell, Projection
from ladderspec.cells.fields import Pair
from ladderspec.cells.grouping import Groups
from ladderspec.cells.input import FurtherInput, InputCell
from ladderspec.display import svg
from ladderspec.errors import Place
from ladderspec.escaping import fitted
from ladderspec.names import (
    BOTTOM,
    INPUT,
    Role,
    Shape,
    Side,
    is_input,
    node_name,
    show_arrow,
    show_shape,
    split_node,
)
from ladderspec.tasks import Task
from ladderspec.text.tree import Node
from ladderspec.wiring.grids import SamplingGrid

EdgeKey = tuple[str, str, str]  # source, target, key


# --- attributes -----------------------------------------------------------------------------------


class NodeAttributes(TypedDict):
    """The attributes of a node; the last five are set by shape inference."""

    side: Side
    level: str
    cell: Cell
    initial: str  # what delayed edges carry before the first t: zeros or learned
    place: Place | str | None  # in the text; a string in a graph that was read from JSON
    path: str  # the same in the terms of the spec: levels[0].encoder
    share: str | None  # the node with which it shares weights, even if that was removed
    shape: NotRequired[Shape]
    grid: NotRequired[SamplingGrid | None]
    cell_parameters: NotRequired[dict[str, Any]]  # by name, without those of its edges
    parameters: NotRequired[int]  # their number; what is shared counts for one only
    shared: NotRequired[str | None]  # the module under whose name its tensors are registered


class EdgeAttributes(TypedDict):
    """The attributes of an edge; the last three are set by shape inference."""

    role: Role
    delay: int
    declared: bool  # by the spec; False: it follows from the rows
    place: Place | str | None
    path: str
    filter: Pair | None
    norm: str | None
    gain: float | None
    map: Literal["identity"] | None
    resample: Literal["nearest", "bilinear"] | None
    scale: float | None
    share: str | None  # the arrow with which it shares weights, as NODE.KEY; or none
    tap: Literal["output", "normalised", "logits"] | None  # None: the output
    label: str | None
    projection: NotRequired[Projection]
    parameters: NotRequired[int]
    shared: NotRequired[str | None]


# What a spec can say of an arrow; None if it says nothing.
OPTIONS = ("filter", "norm", "gain", "map", "resample", "scale", "share", "tap", "label")
MAP_OPTIONS = OPTIONS[:6]  # those that its cell follows


class TaskAttributes(TypedDict):
    """A task and the nodes that it reads; shape inference sets `parameters`."""

    task: Task
    at: list[str]
    place: Place | str | None
    path: str
    # With `target: clean`: the node that each one is compared with, and which value of it.
    clean: dict[str, tuple[str, str]]
    parameters: NotRequired[int]


class GraphAttributes(TypedDict):
    """The attributes of the whole graph."""

    name: str
    title: str
    variants: tuple[str, ...]  # that were applied
    without: list[str]  # selectors of the command line
    levels: list[str]  # from the input up
    order: dict[str, int]  # of the levels
    labels: dict[str, str]  # drawn beside levels
    frames: int | Literal["any"] | None
    iterations: int | None
    groups: Groups | None
    tasks: dict[str, TaskAttributes]
    delays: dict[Role, int]
    notes: list[str]  # what was pruned, and what is probably a mistake
    ineffective: dict[str, str]  # by place, a note on a field without effect; empty if it has one
    level_shapes: dict[str, Shape]  # of all encoders, pruned ones included
    grids: Mapping[str, SamplingGrid]  # of the levels


class _Nodes(Protocol):
    def __getitem__(self, node: str) -> NodeAttributes: ...
    def __iter__(self) -> Iterator[str]: ...
    def __call__(self, data: bool | str = False, default: Any = None) -> Any: ...


class _Edges(Protocol):
    def __getitem__(self, edge: EdgeKey) -> EdgeAttributes: ...
    def __iter__(self) -> Iterator[EdgeKey]: ...
    def __call__(
        self, *, keys: bool = False, data: bool | str = False, default: Any = None
    ) -> Any: ...


class Graph(nx.MultiDiGraph):  # type: ignore[misc]
    """The graph of a network: a networkx graph with typed attributes. Notebooks draw it."""

    if TYPE_CHECKING:
        graph: GraphAttributes
        nodes: _Nodes
        edges: _Edges

    def copy(self, as_view: bool = False) -> Graph:
        """An independent copy: the lists and tables in its attributes are copied too."""
        result: Graph = super().copy(as_view)
        if not as_view:
            tables: list[Any] = [result.graph, *(data for _, data in result.nodes(data=True))]
            for attributes in tables:
                attributes.update({key: _copied(value) for key, value in attributes.items()})
        return result

    def __repr__(self) -> str:
        return f"<graph {describe(self)}>" if "levels" in self.graph else super().__repr__()

    def __str__(self) -> str:
        return repr(self) if "levels" in self.graph else super().__str__()

    def _repr_svg_(self) -> str | None:
        return svg(self) if "levels" in self.graph else None


def describe(graph: nx.MultiDiGraph) -> str:
    """A network in a few lines: its name, size, input, levels and tasks."""
    about = graph.graph
    title = f": {about['title']}" if about["title"] else ""
    time = "any number of frames" if about["frames"] == "any" else f"{about['frames']} frames"
    if about["frames"] is None:
        time = f"{about['iterations']} iterations"
    bottom = graph.nodes[BOTTOM]["shape"]
    further = [f", {n} {show_shape(graph.nodes[n].get('shape'))}" for n in inputs_of(graph)[1:]]
    tasks = [f"{name} at {', '.join(entry['at'])}" for name, entry in about["tasks"].items()]
    return "\n  ".join(
        [
            f"{about['name']}{title}",
            f"{len(graph)} nodes, {graph.size()} arrows, {parameters(graph):,} parameters",
            f"input {show_shape(bottom) if bottom else 'of unknown shape'}, {time}"
            + "".join(further),
            f"levels {', '.join(about['levels'])}",
            f"tasks {'; '.join(tasks) or 'none'}",
        ]
    )


def _copied(value: Any) -> Any:
    """A copy of a table or list, down to its entries."""
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return list(value) if isinstance(value, list) else value


# --- views ----------------------------------------------------------------------------------------


def groups_of(graph: Graph) -> Groups | None:
    """The groups of a network, if it has some."""
    return graph.graph.get("groups")


def copies(graph: Graph) -> int | None:
    """The number of groups; None if the network has none."""
    groups = groups_of(graph)
    return None if groups is None else groups.count


def copies_of(graph: Graph, node: str) -> int:
    """How often a node exists: for each group, or once. The input belongs to all groups."""
    return 1 if is_input(node) else copies(graph) or 1


def steps_of(graph: Graph) -> int | None:
    """The number of frames or iterations; None: any number of frames."""
    frames = graph.graph["frames"]
    return graph.graph["iterations"] if frames is None else None if frames == "any" else frames


def unit_of(graph: Graph) -> str:
    """The unit of t: frame or iteration."""
    return "iterations" if graph.graph["frames"] is None else "frames"


def inputs_of(graph: Graph) -> list[str]:
    """The nodes of all inputs: first the one at the bottom of the ladder."""
    further = [node for node, side in graph.nodes(data="side") if side is Side.INPUT]
    return [BOTTOM, *further]


class InputForm(NamedTuple):
    """One input of a network."""

    node: str
    shape: Shape
    timed: bool  # (B, T, ...): a value for each t; else (B, ...)
    until: int | None  # the last t at which it is shown
    field: str | None = None  # the field of the data that a further input reads

    @property
    def name(self) -> str:
        """Its name in a mapping of inputs."""
        return split_node(self.node)[1]


def forms_of(graph: Graph) -> list[InputForm]:
    """The inputs of a network, first the frames."""
    found = []
    for node in inputs_of(graph):
        cell, shape = cast(InputCell, graph.nodes[node]["cell"]), graph.nodes[node]["shape"]
        timed, field = graph.graph["frames"] is not None, None
        if isinstance(cell, FurtherInput):
            timed, field = cell.per == "frame", cell.field
        found.append(InputForm(node, shape, timed, cell.until, field))
    return found


def level_at(graph: Graph, level: str, offset: int, side: Side) -> str | None:
    """The level `offset` levels above another one; decoders skip the level of the groups."""
    levels, here = graph.graph["levels"], graph.graph["order"][level]
    if side is Side.DECODER and groups_of(graph) is not None:  # levels: input, groups, ...
        if here == 1:
            return None
        there = max(here - 1, 0) + offset
        there += there > 0
    else:
        there = here + offset
    return levels[there] if 0 <= there < len(levels) else None


def table_rows(graph: Graph) -> Iterator[tuple[str, str]]:
    """The rows of the table: the level that each makes, and the one that its decoder estimates.

    The level of the groups has no decoder: the one below it, "", does not exist.
    """
    levels = graph.graph["levels"]
    grouped = groups_of(graph) is not None
    below = INPUT
    for index, level in enumerate(levels[1:]):
        if grouped and index == 0:
            yield level, ""
        else:
            yield level, below
            below = level


def is_tapped(graph: Graph, node: str) -> bool:
    """Whether an arrow or a task reads the normalised pre-activation of a node."""
    tasks = graph.graph["tasks"].values()
    targets = [target for task in tasks for target in task["clean"].values()]
    return (node, "normalised") in targets or is_tapped_by_arrows(graph, node)


def is_tapped_by_arrows(graph: Graph, node: str) -> bool:
    """Whether an arrow carries the normalised pre-activation of a node."""
    return any(tap == "normalised" for *_, tap in graph.out_edges(node, data="tap"))


def cell_of(graph: Graph, node: str) -> Cell:
    return graph.nodes[node]["cell"]


def location(
    at: Node | NodeAttributes | EdgeAttributes | TaskAttributes,
) -> tuple[Place | None, str]:
    """Where a message points: a place in the text and its path.

    There is no place in a graph that was read from JSON.
    """
    if isinstance(at, Node):
        return at.place, at.path
    return at["place"] if isinstance(at["place"], Place) else None, at["path"]


def parameters(graph: Graph) -> int:
    """All parameters: nodes, edges and the tasks' own read-outs (but not those of probes)."""
    total: int = sum(count for _, count in graph.nodes(data="parameters", default=0))
    total += sum(count for _, _, count in graph.edges(data="parameters", default=0))
    return int(total + sum(task["parameters"] for task in graph.graph["tasks"].values()))


def now(graph: Graph) -> nx.MultiDiGraph:
    """The edges within one iteration."""
    today = nx.MultiDiGraph()
    today.add_nodes_from(graph)
    today.add_edges_from((a, b, k) for a, b, k, d in graph.edges(keys=True, data="delay") if d == 0)
    return today


def in_order(graph: Graph) -> list[str]:
    """Nodes as an iteration visits them: encoders and lateral cells upward, decoders down."""
    levels = graph.graph["levels"]
    further = inputs_of(graph)[1:]
    up = [node_name(s, level) for level in levels for s in (Side.ENCODER, Side.LATERAL)]
    down = [node_name(Side.DECODER, level) for level in reversed(levels)]
    return [node for node in [*up[:1], *further, *up[1:], *down] if node in graph]


@checked
def to_text(graph: Graph, width: int | None = None) -> str:
    """A graph as text: one line per node and per edge, in the order of an iteration.

    Args:
        graph: The graph of a spec, as `ladderspec.graph` returns it.
        width: The width of the terminal. Columns are then as narrow as possible, and long lines
            are broken.
    """
    title = graph.graph["title"]
    nodes = [
        (node, of["cell"].cell, show_shape(of.get("shape")), _count(of))
        for node in in_order(graph)
        for of in [graph.nodes[node]]
    ]
    edges = [
        (
            show_arrow(source, target, edge["delay"]),
            str(edge["role"]),
            _count(edge),
        )
        for target in in_order(graph)
        for source, _, edge in sorted(graph.in_edges(target, data=True), key=_edge_order)
    ]
    wide = width is None or width >= 86
    lines = [f"graph {graph.graph['name']}" + (f" ({title})" if title else "")]
    if (groups := groups_of(graph)) is not None:
        lines.append(f"groups: {groups.text}; all nodes but encoder.input exist for each")
    lines += ["", *_columns(nodes, (24, 10, 12, 12) if wide else ()), ""]
    lines += _columns(edges, (52, 20, 12) if wide else ())
    for name, task in graph.graph["tasks"].items():
        lines.append(f"task {name}: {task['task'].kind} at {', '.join(task['at'])}")
    lines += ["", *(f"note: {note}" for note in graph.graph["notes"])]
    return "\n".join(fitted(lines, width)).rstrip() + "\n"


def _columns(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[str]:
    """Rows in columns; the last one, up to a wide gap, at the right."""
    if not rows:
        return []
    counts = [[*row[:-1], row[-1].partition("  ")[0]] for row in rows]
    widths = list(least) or [max(map(len, column)) for column in zip(*counts, strict=True)]
    return [
        " ".join([*(f"{text:<{w}}" for text, w in zip(row[:-1], widths, strict=False)),
                  f"{count:>{widths[-1]}}{gap}{rest}"])
        for row in rows
        for count, gap, rest in [row[-1].partition("  ")]
    ]  # fmt: skip


def _count(attributes: NodeAttributes | EdgeAttributes) -> str:
    """The number of parameters, and the name of those that are shared."""
    shared = attributes.get("shared")
    return f"{attributes.get('parameters', 0):,}" + (f"  shared: {shared}" if shared else "")


def _edge_order(edge: tuple[str, str, EdgeAttributes]) -> tuple[int, int, str]:
    source, _, attributes = edge
    return (attributes["role"].order, attributes["delay"], source)
