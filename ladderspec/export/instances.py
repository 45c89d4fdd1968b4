"""Edges and cells of a network -> what the exported file has to make: one instance per module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ladderspec.cells import NORMS, Cell, Parameters, Projection
from ladderspec.cells.base import deviation, iterations_of
from ladderspec.cells.grouping import Groups, Readout
from ladderspec.cells.projections import KEYWORDS
from ladderspec.names import size_of
from ladderspec.wiring.graph import Graph, is_tapped_by_arrows
from ladderspec.wiring.shapes import site_of

EDGES = {  # names of classes, by the function of the map
    "convolve": "Conv",
    "general_convolve": "GeneralConv",
    "convolve_transposed": "Up",
    "dense": "Dense",
    "dense_to_map": "DenseMap",
    "spread": "Spread",
    "scaled": "Scaled",
    "resampled": "Resampled",
    "same": "Direct",
}
UNSCALED = "unscaled"
GROUPS = "GROUPS"  # the constant of the file that counts groups


class Symbol(NamedTuple):
    """A constant of the file, by its name."""

    name: str

    def __repr__(self) -> str:
        return self.name


class Form(NamedTuple):
    """What the instances of one class have in common."""

    compute: Callable[..., Any]
    norm: tuple[str, str, int]  # name of the module, kind, groups of channels
    parameters: tuple[str, ...]
    separate: tuple[str, ...] = ()  # edges that do not enter the sum
    owned: tuple[str, ...] = ()  # parameters of edges that are read
    decided: tuple[tuple[str, Any], ...] = ()  # constants that decide what is computed


@dataclass
class Instance:
    """One module of the network: what it declares, and how it is made."""

    form: Form
    name: str  # preferred name of the class
    parameters: Parameters
    sizes: dict[str, int]  # names for sizes, most telling first
    constants: dict[str, Any]  # further values that the class reads
    rows: int  # of running statistics
    edges: dict[str, Instance] = field(default_factory=dict)
    projection: Projection | None = None  # of an edge
    cell: Cell | None = None  # of a node
    summed: int = 0  # channels of the sum of its edges
    states: tuple[str, ...] = ()
    carrier: str = ""  # the edge whose norm makes z in a = gain . z + offset, if that is apart
    deviation: float = 0.0  # of the noise on z
    tapped: bool = False  # z is returned too
    iterates: bool = False  # on one input: all t share their noise
    expression: str = ""  # that makes it


def edge_instance(projection: Projection, rows: int, scaled: bool = True) -> Instance | None:
    """None if the edge owns and changes nothing; if not `scaled`, the cell applies its gain."""
    parameters = projection.parameters
    if projection.kind == "none" and not parameters:
        return None
    constants = {name: getattr(projection, name) for name in KEYWORDS[projection.function]}
    if projection.norm != "none":
        constants["groups"] = projection.groups
    dense, square = projection.kind == "dense", projection.filter[0] == projection.filter[1]
    sizes = {"source": size_of(projection.source) if dense else projection.source[0]}
    sizes["target"] = size_of(projection.target) if dense else projection.target[0]
    if dense and len(projection.target) > 1:
        sizes["units"], sizes["channels"] = sizes.pop("target"), projection.target[0]
    if square:
        sizes["filter"] = projection.filter[0]
    sizes |= {"height": projection.filter[0], "width": projection.filter[1]}
    if not projection.has_weight:
        sizes = {"channels": projection.target[0], "units": size_of(projection.target)}
    symbol = NORMS[projection.norm].symbol if projection.norm != "none" else ""
    name = EDGES[projection.function.__name__] + symbol
    norm = ("norm", projection.norm, 1)
    decided = (("square", str(square)), *(() if scaled else (("gain", UNSCALED),)))
    form = Form(projection.function, norm, tuple(parameters), decided=decided)
    return Instance(form, name, parameters, sizes, constants, rows, projection=projection)


def cell_instance(graph: Graph, node: str, length: int | None) -> Instance:
    """The module of a node; `length` is how many iterations there are, if that is fixed."""
    attributes = graph.nodes[node]
    cell, out, site = attributes["cell"], attributes["shape"], site_of(graph, node)
    rows = iterations_of(cell, length)
    found = {key: e["projection"] for _, _, key, e in graph.in_edges(node, keys=True, data=True)}
    edges: dict[str, Projection] = {inlet.key: found[inlet.key] for inlet in site.inlets}
    own = {k: p for k, p in attributes["own"].items() if not k.startswith("initial")}
    signature = cell.signature()
    summed = [each for key, each in edges.items() if key not in signature.separate]
    sizes = {"width": summed[0].target[0]} if summed and summed[0].has_weight else {}
    sizes |= {"channels": out[0], "units": size_of(out)}
    fields = {name: getattr(cell, name) for name in type(cell).model_fields}
    sizes |= {k: v for k, v in fields.items() if isinstance(v, int) and k not in sizes}
    constants: dict[str, Any] = {}
    from_shapes = {"out": out, **cell.constants(site, out)}
    if isinstance(cell, Groups | Readout):
        from_shapes["count"] = Symbol(GROUPS)
    for name in (*signature.keywords, *read_at_first(cell)):
        if name in from_shapes:
            constants[name] = from_shapes[name]
        elif name not in ("norm", *own, *signature.optional) and not owner_of(name, edges):
            constants[name] = getattr(cell, name)
    noise, tapped = deviation(cell), is_tapped_by_arrows(graph, node)
    apart = [*(["noisy"] if noise else []), *(["tapped"] if tapped else [])]
    of_edge = bool(apart) and cell.node_norm()[1] == "none"
    carrier = next(key for key in edges if key not in signature.separate) if of_edge else ""
    form = Form(
        cell.compute,
        cell.node_norm() if summed else ("", "none", 1),
        tuple(own),
        tuple(key for key in edges if key in signature.separate),
        tuple(name for name in signature.keywords if owner_of(name, edges)),
        tuple(
            (key, value)
            for key, value in constants.items()
            if value is None or (isinstance(value, str) and key != "activation")
        )
        + tuple((word, word) for word in apart),
    )
    made = {key: edge_instance(each, rows, key != carrier) for key, each in edges.items()}
    present = {key: each for key, each in made.items() if each is not None}
    name = next(c.__name__ for c in type(cell).__mro__ if "compute" in vars(c)).strip("_")
    states = tuple(cell.state_shapes(out))
    channels = summed[0].target[0] if summed else 0
    return Instance(
        form, name, own, sizes, constants, rows, present, None, cell, channels, states,
        carrier, noise, tapped, (graph.graph["iterations"] or 1) > 1,
    )  # fmt: skip


def read_at_first(cell: Cell) -> tuple[str, ...]:
    """What `first_value` reads besides its random numbers."""
    if cell.first_value is None:
        return ()
    return tuple(inspect.signature(cell.first_value).parameters)[1:]


def owner_of(name: str, edges: Mapping[str, Projection]) -> str:
    """The edge that owns a parameter which `compute` reads."""
    return next((key for key, each in edges.items() if name in each.extra), "")
