"""Edges and cells of a network -> what the exported file has to make: one instance per module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ladderspec.cells import NORMS, Cell, Parameters, Projection
from ladderspec.cells.base import deviation, iterations_of
from ladderspec.cells.binding import Binding, bind
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


class ClassForm(NamedTuple):
    """What the instances of one class have in common."""

    compute: Callable[..., Any]
    norm: tuple[str, str, int]  # name of the module, kind, groups of channels
    parameters: tuple[str, ...]
    separate: tuple[str, ...] = ()  # edges that do not enter the sum
    owned: tuple[str, ...] = ()  # parameters of edges that are read
    decided: tuple[tuple[str, Any], ...] = ()  # constants that decide what is computed


@dataclass
class ModuleInstance:
    """One module of the network: what it declares, and how it is made."""

    form: ClassForm
    name: str  # preferred name of the class
    parameters: Parameters
    sizes: dict[str, int]  # names for sizes, most telling first
    constants: dict[str, Any]  # further values that the class reads
    rows: int  # of running statistics
    edges: dict[str, ModuleInstance] = field(default_factory=dict)
    projection: Projection | None = None  # of an edge
    cell: Cell | None = None  # of a node
    binding: Binding | None = None  # of a node
    states: tuple[str, ...] = ()
    carrier: str = ""  # the edge whose norm makes z in a = gain . z + offset, if that is apart
    deviation: float = 0.0  # of the noise on z
    tapped: bool = False  # z is returned too
    iterates: bool = False  # on one input: all t share their noise
    expression: str = ""  # that makes it


def edge_instance(projection: Projection, rows: int, scaled: bool = True) -> ModuleInstance | None:
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
    form = ClassForm(projection.function, norm, tuple(parameters), decided=decided)
    return ModuleInstance(form, name, parameters, sizes, constants, rows, projection=projection)


def cell_instance(graph: Graph, node: str, length: int | None) -> ModuleInstance:
    """The module of a node; `length` is how many iterations there are, if that is fixed."""
    attributes = graph.nodes[node]
    cell, out, site = attributes["cell"], attributes["shape"], site_of(graph, node)
    rows = iterations_of(cell, length)
    found = {key: e["projection"] for _, _, key, e in graph.in_edges(node, keys=True, data=True)}
    edges: dict[str, Projection] = {inlet.key: found[inlet.key] for inlet in site.inlets}
    own = {k: p for k, p in attributes["own"].items() if not k.startswith("initial")}
    binding = bind(cell, site, out, edges, own)
    carrier = edges.get(binding.carrier)
    sizes = {"width": binding.summed} if carrier is not None and carrier.has_weight else {}
    sizes |= {"channels": out[0], "units": size_of(out)}
    fields = {name: getattr(cell, name) for name in type(cell).model_fields}
    sizes |= {k: v for k, v in fields.items() if isinstance(v, int) and k not in sizes}
    given = {**binding.constants, **binding.first_constants}
    absent = {k for k, v in given.items() if v is None and k in binding.optional}
    constants = {k: v for k, v in given.items() if k not in absent}
    if isinstance(cell, Groups | Readout) and "count" in constants:
        constants["count"] = Symbol(GROUPS)
    noise, tapped = deviation(cell), is_tapped_by_arrows(graph, node)
    apart = [*(["noisy"] if noise else []), *(["tapped"] if tapped else [])]
    unscaled = binding.carrier if apart and cell.node_norm()[1] == "none" else ""
    form = ClassForm(
        cell.compute,
        cell.node_norm() if binding.summed else ("", "none", 1),
        tuple(own),
        tuple(key for key in edges if key in cell.signature().separate),
        tuple(name for name, owner in binding.tensors.items() if owner),
        tuple(
            (key, value)
            for key, value in constants.items()
            if value is None or (isinstance(value, str) and key != "activation")
        )
        + tuple((word, word) for word in apart),
    )
    made = {key: edge_instance(each, rows, key != unscaled) for key, each in edges.items()}
    present = {key: each for key, each in made.items() if each is not None}
    name = next(c.__name__ for c in type(cell).__mro__ if "compute" in vars(c)).strip("_")
    states = tuple(cell.state_shapes(out))
    return ModuleInstance(
        form, name, own, sizes, constants, rows, present, None, cell, binding, states,
        unscaled, noise, tapped, (graph.graph["iterations"] or 1) > 1,
    )  # fmt: skip
