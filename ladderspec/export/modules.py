"""The edges and cells of a graph as classes: what they declare, and the source that they run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from ladderspec.cells import ACTIVATIONS, Cell, Projection, Site
from ladderspec.cells.base import deviation, iterations_of
from ladderspec.cells.binding import bind
from ladderspec.cells.grouping import Groups
from ladderspec.export.classes import (
    GROUPS,
    ModuleClass,
    ModuleNorm,
    NamedSize,
)
from ladderspec.export.source import Definitions, Expression, Tensor, block, is_own, names_in
from ladderspec.names import Role, Shape, size_of
from ladderspec.plugins import is_built_in
from ladderspec.wiring.graph import Graph, is_tapped_by_arrows, steps_of
from ladderspec.wiring.shapes import site_of

EDGES = {  # by the function of the map: the name of the class, its formula, what to say of it
    "same": ("Direct", "x", ""),
    "dense": ("Dense", "W x", "; maps are flattened"),
    "dense_to_map": ("DenseMap", "W x", "; maps are flattened"),
    "convolve": ("Conv", "W * x", ""),
    "general_convolve": ("GeneralConv", "W * x", ""),
    "convolve_transposed": ("Up", "W * x", "; here * is transposed"),
    "spread": ("Spread", "x, each value over its window", ""),
    "scaled": ("Scaled", "s x", ""),
    "resampled": ("Resampled", "x, resampled to another size", ""),
}


# --- edges ----------------------------------------------------------------------------------------


class EdgeClass(ModuleClass):
    """The map and the norm of a value that enters a cell."""

    def __init__(
        self, definitions: Definitions, projection: Projection, rows: int, scaled: bool
    ) -> None:
        super().__init__(definitions)
        self.projection, self.scaled = self._named(projection), scaled
        self.parameters, kind = self.projection.parameters, projection.norm
        channels = self.projection.target[0]
        self.norm = ModuleNorm(kind, "norm", channels, projection.groups, rows)
        self.changes = (projection.kind, kind) != ("none", "none")
        self.name, doc, note = EDGES[projection.function.__name__]
        if projection.extra:
            doc = f"The value unchanged, with {' and '.join(projection.extra)} of its cell"
        if kind != "none":
            doc = f"{self.norm.symbol}({doc}), with a gain per channel"
            doc += "" if scaled else ", which the cell applies"
            self.name += re.sub(r"\W", "", self.norm.symbol)
        self.cell_name = self.name
        self.doc = self.any_doc = f"{doc}{note}."

    def methods(self) -> list[str]:
        projection = self.projection
        given = {"x": "x", "weight": "self.weight", "bias": "None"}
        given |= {name: self.attribute(name, value) for name, value in projection.options.items()}
        y, body = "x", list[str]()
        if projection.kind != "none":
            names = inspect.signature(projection.function).parameters
            y = self.definitions.call(projection.function, [given[name] for name in names])
        if projection.norm != "none" and len(y) > 60:
            body, y = [f"y = {y}"], "y"
        body.append(f"return {self.normalised(y, 'self.gain' * self.scaled)}")
        return [block("def forward(self, t: int, x: Tensor) -> Tensor:", body)]

    def _named(self, p: Projection) -> Projection:
        """A projection whose sizes have names."""
        if p.kind == "dense":
            source: Shape = (self.size(size_of(p.source), "source"),)
            flat = (self.size(size_of(p.target), "target"),) if len(p.target) == 1 else p.target
            return replace(p, source=source, target=self.sized(flat))
        if p.has_weight:
            source = (self.size(p.source[0], "source"), *p.source[1:])
            target = (self.size(p.target[0], "target"), *p.target[1:])
            names = ("filter", "filter") if p.filter[0] == p.filter[1] else ("height", "width")
            height, width = map(self.size, p.filter, names)
            return replace(p, source=source, target=target, filter=(height, width))
        channels = self.size(p.target[0], "channels")
        extra = {
            name: replace(each, shape=(*each.shape[:-1], self.size(each.shape[-1], "units")))
            for name, each in p.extra.items()
        }
        return replace(p, target=(channels, *p.target[1:]), extra=extra)


# --- cells ----------------------------------------------------------------------------------------


class CellClass(ModuleClass):
    """A node: its `forward` is the source of `compute`."""

    base = "Cell"
    more = "**edges"

    def __init__(self, definitions: Definitions, graph: Graph, node: str) -> None:
        super().__init__(definitions)
        cell: Cell = graph.nodes[node]["cell"]
        found = {
            key: e["projection"] for _, _, key, e in graph.in_edges(node, keys=True, data=True)
        }
        self.definitions = replace(definitions, owner=f"the cell `{cell.cell}`")
        self.cell, site = self._named(cell, site_of(graph, node))
        out = self.sized(self.cell.out_shape(site))
        declared = self.cell.parameters(site, out)
        used = graph.nodes[node]["cell_parameters"]
        self.parameters = {key: declared[key] for key in used if key in declared}
        projections = {inlet.key: self.cell.project(site, inlet, out) for inlet in site.inlets}
        self.binding = bind(self.cell, site, out, projections, self.parameters)
        rows, summed = iterations_of(cell, steps_of(graph)), self.binding.summed
        module, kind, groups = cell.node_norm() if summed else ("", "none", 1)
        self.norm = ModuleNorm(kind, module, summed, groups, rows)
        self.noise, self.tapped = deviation(cell), is_tapped_by_arrows(graph, node)
        self.iterates = (graph.graph["iterations"] or 1) > 1  # on one input: all t share noise
        # Whether z in a = gain . z + offset is needed by itself, and the edge whose norm makes it.
        self.apart = bool(self.noise or self.tapped)
        self.z = "normalised" if "norm" in self.binding.signature.keywords else "z"
        carrier = self.binding.carrier if self.apart and kind == "none" else ""
        self.edges = {
            key: EdgeClass(self.definitions, found[key], rows, key != carrier)
            for key in projections
            if found[key].kind != "none" or found[key].parameters
        }
        if not is_built_in(type(cell)):
            from torch import nn

            self.taken = {*dir(nn.ModuleDict()), "total", "first_value", *self.edges}
            for name in {*cell.returns} & {"self", "t", "values", "a", "edges", "h", *Role}:
                self.definitions.refuse_second(name)
        offset = [f"self.{cell.offset}"] if cell.offset in self.parameters else []
        gained = self.norm.symbol and "gain" in self.parameters
        gain = [f"self.{carrier}.gain"] if carrier else ["self.gain"] if gained else []
        # Gain and offset behind the norm; without a gain, the offset is part of the sum.
        self.gain_and_offset = [*gain, *offset] if gain else []
        self.total = f"self.total(t, {', '.join(['values', *([] if gain else offset)])})"
        self.out, self.states = out, self.cell.state_shapes(out) if "state" in found else {}
        self.texts = self._texts(found)
        owner = next(c for c in type(cell).__mro__ if "compute" in vars(c))
        self.name, self.cell_name = owner.__name__.strip("_"), type(cell).__name__
        self.words = tuple(self._words())
        terms = [each.norm for each in self.edges.values() if each.projection.has_weight]
        symbols = {self.norm.symbol} if self.norm.symbol else {each.symbol for each in terms}
        self.doc = self._formula(owner, "norm" if len(symbols) > 1 else "".join(symbols))
        self.any_doc = self._formula(owner, "norm")

    def _named(self, cell: Cell, site: Site) -> tuple[Cell, Site]:
        """A cell and its site with named sizes, from which those of its parameters follow."""
        sizes = {name: self.size(n, name) for name, n in cell if type(n) is int}
        if site.groups is not None:
            count = NamedSize(site.groups.count, GROUPS)
            site = replace(site, groups=site.groups.model_copy(update={"count": count}))
            if isinstance(cell, Groups):
                sizes["count"] = count
        level = None if site.level is None else self.sized(site.level)
        row = site.row
        if row is not None:
            row = (self.size(row[0], "inner", "row"), *row[1:])
        return cell.model_copy(update=sizes), replace(site, level=level, row=row)

    def _texts(self, keys: Collection[str]) -> dict[str, str]:
        """The text of each positional argument of `compute` that is there."""
        texts = {"a": "a", "edges": "edges", **{name: name for name in self.states}}
        for key in {*keys} & {*self.binding.signature.positional}:
            changed = key in self.edges and self.edges[key].changes
            texts[key] = f"self.{key}(t, {key})" if changed else key
        if "state" in keys:
            texts["h"] = "state" if "state" in texts else 'values["state"]'
        return texts

    def _words(self) -> Iterable[str]:
        """What tells this class from others of its name."""
        tensors, constants = self.binding.keywords
        yield from (value for value in constants.values() if isinstance(value, str))
        given = {*constants, *tensors, *self.texts, *self.parameters} - {"a", "edges", "h"}
        for name in sorted({*self.binding.signature.optional, *given} - {"norm"}):
            absent = name not in given or constants.get(name, name) is None
            yield f"{'without' if absent else 'with'} {name}"
        yield "on maps" if len(self.out) == 3 else "on vectors"

    def _formula(self, owner: type[Cell], symbol: str) -> str:
        """The docstring of the cell, with the norm and the activation that are used.

        `norm: joint` normalises the sum of the terms.
        """
        doc = owner.__doc__ or self.name
        activation = self.binding.keywords.constants.get("activation")
        if activation is not None:
            written = r"\1" if activation == "none" else rf"{activation}(\1)"
            doc = re.sub(r"\bact\(((?:[^()]|\([^()]*\))*)\)", written, doc)
        if self.norm.name == "joint" and self.norm.symbol:
            doc = re.sub(r"\) \+ (?:BN|LN)\(", " + ", doc)
        written = rf"{symbol}(\1)" if symbol else r"\1"
        return re.sub(r"\b(?:BN|LN)\(([^()]*)\)", written, doc)

    # --- methods ----------------------------------------------------------------------------------

    def methods(self) -> list[str]:
        cell, arguments = self.cell, self.binding.signature.positional
        body = self._pre_activation() if "a" in arguments else []
        if "edges" in arguments:
            body = ["edges = {key: self.total(t, {key: x}) for key, x in values.items()}"]
        further = self.z if self.tapped else ""
        if is_own(cell.compute):
            lines = self.definitions.body(cell.compute, self._known(), self._text_of, further)
        else:
            lines = self._call(further)
        if lines == ["return a"] and len(body) == 1:
            body, lines = [], [f"return {body[0].removeprefix('a = ')}"]
        body += lines
        taken = [name for name in arguments if name in self.texts.keys() - {"a", "edges", "h"}]
        given = ["self", "t: int", *(f"{name}: Tensor" for name in taken)]
        given += ["**values: Tensor"] if "values" in names_in(block("def forward():", body)) else []
        count = len(cell.returns) + self.tapped
        result = f"tuple[{', '.join(['Tensor'] * (count + 1))}]" if count else "Tensor"
        forward = block(f"def forward({', '.join(given)}) -> {result}:", body)
        return [forward, *([] if cell.first_value is None else [self._first_value()])]

    def _call(self, further: str) -> list[str]:
        """The lines that call the `compute` of a user's cell."""
        lines, known, arguments = list[str](), self._known(), inspect.signature(self.cell.compute)
        if further and known["norm"]:  # which sets it, wherever it is called
            head, known["norm"] = "def norm(x: Tensor) -> Tensor:", Expression("x", "norm(x)")
            z = [f"nonlocal {further}", f"{further} = {self._z('x')}"]
            lines = [f"{further} = a", block(head, [*z, f"return {self._scaled(further)}"])]
        given = {name: known.get(name) for name in arguments.parameters}
        texts = [
            each.function if isinstance(each, Expression) else self._text_of(name)
            for name, each in given.items()
        ]
        call = self.definitions.call(self.cell.compute, texts, f"{self.name.lower()}_compute")
        star = "*" if self.cell.returns else ""
        return [*lines, f"return {star}{call}, {further}" if further else f"return {call}"]

    def _known(self) -> dict[str, Any]:
        """What is known of the arguments of `compute`."""
        signature, (tensors, constants) = self.binding.signature, self.binding.keywords
        found: dict[str, Any] = {**constants, **dict.fromkeys(tensors, Tensor()), "norm": None}
        found |= {n: Tensor() if n in self.texts else None for n in signature.positional}
        if name := found.get("activation"):
            definitions = replace(self.definitions, owner=f"the activation `{name}`")
            compute = ACTIVATIONS[name].compute
            found["activation"] = definitions.expression(compute, f"{name}_activation")
        if "norm" in signature.keywords and self.norm.symbol:
            z = self._z("x")
            z = f"({self.z} := {z})" if self.tapped else z
            found["norm"] = Expression("x", self._scaled(z) if self.apart else self._normed("x"))
        return found

    def _text_of(self, name: str) -> str:
        """The text of an argument of `compute` or `first_value` that is read."""
        tensors, constants = self.binding.keywords
        constants = {**constants, **self.binding.first.constants}
        if name in self.parameters:
            return f"self.{name}"
        if name in tensors:
            return f"self.{tensors[name]}.{name}"
        if constants.get(name) is not None:
            return self.attribute(name, constants[name])
        return self.texts.get(name, "None")

    # --- the pre-activation -----------------------------------------------------------------------

    def _pre_activation(self) -> list[str]:
        """The lines that make `a`."""
        if "norm" in self.binding.signature.keywords:
            return [f"a = {self.total}"]
        if self.apart:
            return [f"{self.z} = {self._z(self.total)}", f"a = {self._scaled(self.z)}"]
        return [f"a = {self._normed(self.total)}"]

    def _normed(self, x: str) -> str:
        return self.normalised(x, *self.gain_and_offset)

    def _z(self, x: str) -> str:
        """The norm of x without gain and offset, with noise in training."""
        z = self.normalised(x)
        if not self.noise:
            return z
        deviation = self.attribute("deviation", self.noise)
        if self.iterates:
            return f"with_same_noise(self, t, {z}, {deviation})"
        return f"with_noise(self, {z}, {deviation})"

    def _scaled(self, z: str) -> str:
        """z with gain and offset."""
        given = self.gain_and_offset
        return f"affine({', '.join([z, *given])})" if given else z

    def _first_value(self) -> str:
        """The method that makes what delayed edges carry before the first t."""
        assert self.cell.first_value is not None
        ones = ", 1" * (len(self.parameters["noise"].shape) - 1)
        compute, constants = self.cell.first_value, self.binding.first.constants

        def text_of(name: str) -> str:
            return name if name == "noise" else self._text_of(name)

        if is_own(compute):
            body = self.definitions.body(compute, constants, text_of)
        else:
            texts = map(text_of, inspect.signature(compute).parameters)
            name = f"{self.name.lower()}_first_value"
            body = [f"return {self.definitions.call(compute, texts, name)}"]
        return block(
            "def first_value(self, batch: int) -> Tensor:",
            [
                '"""Before the first t: random in training, always the same in evaluation."""',
                f"noise = self.noise.repeat(batch // len(self.noise){ones})",
                "if self.training:",
                "    noise = torch.randn_like(noise)",
                *body,
            ],
        )
