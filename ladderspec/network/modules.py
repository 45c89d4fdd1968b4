"""Graph -> torch modules under the names of the diagram: read-outs of tasks, and cells."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells.base import iterations_of
from ladderspec.cells.parameters import weight, zeros
from ladderspec.names import equal_but_for_ones
from ladderspec.nn import CellModule
from ladderspec.nn.modules import Declared, module_at, nest
from ladderspec.wiring.graph import Graph, is_tapped, steps_of
from ladderspec.wiring.readings import ReadoutForm
from ladderspec.wiring.shapes import site_of
from ladderspec.wiring.sharing import holders

# --- read-outs ------------------------------------------------------------------------------------


class TaskReadout(Declared):
    """seen = W x + b + offset; without a head of its own, x + offset.

    The offset is the mean of what is to be seen, a buffer set from data.
    """

    weight: Tensor
    bias: Tensor
    offset: Tensor

    def __init__(self, form: ReadoutForm, teaches: bool) -> None:
        super().__init__()
        self.shape, self.teaches, self.headed = form.shape, teaches, bool(form.head)
        if form.head:
            shapes = form.head["weight"], form.head["bias"]
            self.declare({"weight": weight(*shapes[0]), "bias": zeros(*shapes[1])})
        self.register_buffer("offset", torch.zeros(form.shape) if form.offset else None)

    def forward(self, x: Tensor) -> Tensor:
        """Of values (B, ...), or of several t, (n, B, ...)."""
        x = x if self.teaches else x.detach()
        if self.headed:
            flat = x.reshape(-1, *x.shape[x.dim() - len(self.shape) :])
            linear = functional.linear if len(self.shape) == 1 else functional.conv2d
            x = linear(flat, self.weight, self.bias).view(*x.shape[: -len(self.shape)], *self.shape)
        return x if self.offset is None else x + self.offset

    def start_at(self, mean: Tensor | float, logits: bool) -> None:
        """Set the offset, if there is one, from the mean of the data: a number, or a frame.

        A head may make a frame as a vector.
        """
        if self.offset is not None:
            value = expanded(mean, self.offset, f"a mean is a number or a frame {self.shape}")
            self.offset.copy_(value.logit(1e-6) if logits else value)


def expanded(value: Tensor | float, like: Tensor, what: str) -> Tensor:
    """A number, or a tensor of the shape of another one, in that shape.

    A vector may also be a map of width 1. `what` begins the message: "a mean is a number".
    """
    try:
        wide = torch.promote_types(like.dtype, torch.float32)  # 1 - 1e-6 is 1 in half precision
        found = torch.as_tensor(value, dtype=wide)
        same = equal_but_for_ones(tuple(found.shape), tuple(like.shape))
        return found.reshape(like.shape) if same else found.expand_as(like)
    except (TypeError, ValueError, RuntimeError):
        given = tuple(value.shape) if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{what}, not {given}") from None


def set_statistic(module: CellModule, name: str, value: Tensor | float) -> None:
    """Set a statistic of the data that a cell keeps: a number, or one for each channel."""
    kept = cast(Tensor, getattr(module, name))
    wide = expanded(value, kept, f"{name} is a number, or {len(kept)} by channel")
    if not bool(wide.isfinite().all()) or (name == "std" and bool((wide <= 0).any())):
        raise ValueError(f"{name} is {wide.tolist()}: it must be finite, and a std above 0")
    kept.copy_(wide)


# --- cells ----------------------------------------------------------------------------------------


def cell_module(graph: Graph, node: str) -> CellModule:
    """The module of a node; its initial values wait for `initialise`."""
    attributes = graph.nodes[node]
    site = site_of(graph, node)
    found = {key: each for _, _, key, each in graph.in_edges(node, keys=True, data="projection")}
    projections = {inlet.key: found[inlet.key] for inlet in site.inlets}
    cell = attributes["cell"]
    return CellModule(
        cell,
        site,
        attributes["shape"],
        projections,
        attributes["cell_parameters"],
        iterations_of(cell, steps_of(graph)),
        node,
        draw=False,
        tapped=is_tapped(graph, node),
    )


def nest_cells(root: nn.Module, graph: Graph) -> dict[str, CellModule]:
    """The modules of all nodes, under their names; what is shared is registered once."""
    cells = {node: cell_module(graph, node) for node in graph}
    nest(root, cells)
    known = {holder.name: holder for holder in holders(graph)}
    shares = [each for each in known.values() if each.attributes["shared"]]
    removed: dict[str, Declared] = {}  # owners that an ablation removed keep what they share
    for each in sorted(shares, key=lambda each: each.name.count(".")):  # nodes first
        owner = each.attributes["shared"]
        if owner not in known and owner not in removed:
            removed[owner] = Declared()
            removed[owner].declare(each.parameters)
            nest(root, {owner: removed[owner]})
        cast(Declared, module_at(root, each.name)).borrow(module_at(root, owner))
    return cells
