"""Graph -> torch modules under the names of the diagram: read-outs of tasks, and cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells.base import iterations_of
from ladderspec.cells.parameters import weight, zeros
from ladderspec.names import Shape
from ladderspec.nn import CellModule
from ladderspec.nn.modules import Declared, ModulePath, nest, path_to
from ladderspec.wiring.graph import Graph, is_tapped, steps_of
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

    def __init__(
        self,
        own: Mapping[str, Shape],
        shape: Shape,
        offset: bool,
        teaches: bool,
        draw: bool = True,
    ) -> None:
        super().__init__()
        self.teaches = teaches
        self.headed = bool(own)
        if own:
            head = {"weight": weight(*own["weight"], fan_in=own["weight"][1])}
            self.declare({**head, "bias": zeros(*own["bias"])}, draw)
            shape = (own["weight"][0], *shape[1:])
        self.shape = shape
        self.register_buffer("offset", torch.zeros(shape) if offset else None)

    def forward(self, x: Tensor) -> Tensor:
        """Of values (B, ...), or of several t, (n, B, ...)."""
        x = x if self.teaches else x.detach()
        if self.headed:
            flat = x.reshape(-1, *x.shape[x.dim() - len(self.shape) :])
            linear = functional.linear if len(self.shape) == 1 else functional.conv2d
            x = linear(flat, self.weight, self.bias).view(*x.shape[: -len(self.shape)], *self.shape)
        return x if self.offset is None else x + self.offset

    def start_at(self, mean: Tensor | float, logits: bool) -> None:
        """Set the offset, where there is one, from the mean of the data: a number, or a frame.

        A head may make a frame as a vector.
        """
        if self.offset is None:
            return
        try:
            wide = torch.promote_types(self.offset.dtype, torch.float32)  # 1 - 1e-6 is 1 in halves
            value = torch.as_tensor(mean, dtype=wide)
            if _wide(value) == _wide(self.offset):
                value = value.reshape(self.offset.shape)
            value = value.expand_as(self.offset)
        except (TypeError, ValueError, RuntimeError):
            given = tuple(mean.shape) if isinstance(mean, Tensor) else repr(mean)
            shape = tuple(self.offset.shape)
            raise ValueError(f"a mean is a number or a frame {shape}, not {given}") from None
        self.offset.copy_(value.logit(1e-6) if logits else value)


def _wide(value: Tensor) -> list[int]:
    """Its shape but for what is 1 wide: a vector may also be a map."""
    return [n for n in value.shape if n != 1]


def nest_readouts(root: nn.Module, graph: Graph) -> dict[str, dict[str, ModulePath]]:
    """The read-outs of all tasks: `task.NAME`, or `task.NAME.NODE` if one reads several nodes.

    Returns:
        Where each stands, by task and node.
    """
    found: dict[str, dict[str, ModulePath]] = {}
    for name, entry in graph.graph["tasks"].items():
        task, own, several = entry["task"], entry["own"], len(entry["at"]) > 1
        found[name] = {}
        for node in entry["at"]:
            prefix, path = (f"{node}.", f"task.{name}.{node}") if several else ("", f"task.{name}")
            head = {key: own[prefix + key] for key in ("weight", "bias") if own}
            offset, shape = task.starts_at_mean and not several, graph.nodes[node]["shape"]
            nest(root, {path: TaskReadout(head, shape, offset, task.teaches, draw=False)})
            found[name][node] = path_to(root, path)
    return found


# --- cells ----------------------------------------------------------------------------------------


def cell_module(graph: Graph, node: str) -> CellModule:
    """The module of a node; its initial values wait for `initialise`."""
    attributes = graph.nodes[node]
    site = site_of(graph, node)
    edges = {key: edge for _, _, key, edge in graph.in_edges(node, keys=True, data=True)}
    projections = {inlet.key: edges[inlet.key]["projection"] for inlet in site.inlets}
    cell = attributes["cell"]
    return CellModule(
        cell,
        site,
        attributes["shape"],
        projections,
        attributes["own"],
        iterations_of(cell, steps_of(graph)),
        node,
        draw=False,
        shared=[key for key, each in {"": attributes, **edges}.items() if each["shared"]],
        tapped=is_tapped(graph, node),
    )


def nest_cells(root: nn.Module, graph: Graph) -> dict[str, CellModule]:
    """The modules of all nodes under their names; what is shared is registered once."""
    cells = {node: cell_module(graph, node) for node in graph}
    nest(root, cells)
    known = {holder.name: holder for holder in holders(graph)}
    shares = {name: each for name, each in known.items() if each.attributes["shared"]}
    removed: dict[str, Declared] = {}  # owners that an ablation removed keep what they share
    for each in sorted(shares.values(), key=lambda each: each.name.count(".")):  # nodes first
        owner = each.attributes["shared"]
        if owner not in known and owner not in removed:
            removed[owner] = Declared()
            removed[owner].declare(each.parameters)
            nest(root, {owner: removed[owner]})
    for name, each in shares.items():
        borrower = cast(Declared, path_to(root, name).module)
        borrower.lender = path_to(root, each.attributes["shared"])
    return cells
