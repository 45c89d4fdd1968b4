"""The edges and cells of a graph as classes: what they declare, and the source that they run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ladderspec.cells import ACTIVATIONS, NORMS, Cell, Projection, Site
from ladderspec.cells.base import deviation, iterations_of
from ladderspec.cells.binding import bind
from ladderspec.cells.functions import per_channel
from ladderspec.cells.grouping import Groups
from ladderspec.export.classes import GROUPS, ModuleClass, NamedSize, SizeNames, indented
from ladderspec.export.source import Definitions, Expression, Tensor, names_in
from ladderspec.names import size_of
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
        super().__init__(definitions, rows)
        self.projection, self.scaled = _with_names(projection, self.sizes), scaled
        self.parameters = self.projection.parameters
        self.words = () if scaled else ("unscaled",)
        self.changes = (projection.kind, projection.norm) != ("none", "none")
        self.name, doc, note = EDGES[projection.function.__name__]
        if projection.extra:
            doc = f"The value unchanged, with {' and '.join(projection.extra)} of its cell"
        if projection.norm != "none":
            symbol = NORMS[projection.norm].symbol
            doc = f"{symbol}({doc}), with a gain per channel"
            doc += "" if scaled else ", which the cell applies"
            self.name += symbol
        self.cell_name = self.name
        self.doc = self.any_doc = f"{doc}{note}."

    def methods(self) -> list[list[str]]:
        projection, kind = self.projection, self.projection.norm
        self.norm_module(kind, "norm", projection.target[0])
        given = {"x": "x", "weight": "self.weight", "bias": "None"}
        given |= {name: self.attribute(name, value) for name, value in projection.options.items()}
        y, body = "x", list[str]()
        if projection.kind != "none":
            names = inspect.signature(projection.function).parameters
            y = self.definitions.call(projection.function, [given[name] for name in names])
        if kind != "none":
            if len(y) > 60:
                body, y = [f"y = {y}"], "y"
            groups = self.attribute("groups", projection.groups)
            y = self.normalised(kind, "norm", y, "self.gain" * self.scaled, groups=groups)
        head = "def forward(self, t: int, x: Tensor) -> Tensor:"
        return [[head, *indented([*body, f"return {y}"])]]


def _with_names(p: Projection, sizes: SizeNames) -> Projection:
    """A projection whose sizes have names."""
    if p.kind == "dense":
        source = (sizes.name(size_of(p.source), "source"),)
        flat = (sizes.name(size_of(p.target), "target"),) if len(p.target) == 1 else p.target
        return replace(p, source=source, target=sizes.shape(flat))
    if p.has_weight:
        ends = [
            (sizes.name(shape[0], name), *shape[1:])
            for shape, name in ((p.source, "source"), (p.target, "target"))
        ]
        names = ("filter", "filter") if p.filter[0] == p.filter[1] else ("height", "width")
        height, width = (sizes.name(n, name) for n, name in zip(p.filter, names, strict=True))
        found = replace(p, source=ends[0], target=ends[1], filter=(height, width))
        if p.channel_groups > 1:
            found = replace(found, channel_groups=sizes.name(p.channel_groups, "channel_groups"))
        return found
    channels, units = sizes.name(p.target[0], "channels"), size_of(p.target)
    known = {int(channels): channels}
    if len(p.target) > 1:
        known.setdefault(units, sizes.name(units, "units"))
    extra = {
        name: replace(each, shape=(*each.shape[:-1], known.get(each.shape[-1], each.shape[-1])))
        for name, each in p.extra.items()
    }
    return replace(p, target=(channels, *p.target[1:]), extra=extra)


# --- cells ----------------------------------------------------------------------------------------


class CellClass(ModuleClass):
    """A node: its `forward` is the source of `compute`."""

    base = "Cell"
    more = "**edges"

    def __init__(self, definitions: Definitions, graph: Graph, node: str) -> None:
        cell: Cell = graph.nodes[node]["cell"]
        super().__init__(definitions, iterations_of(cell, steps_of(graph)))
        found = {
            key: e["projection"] for _, _, key, e in graph.in_edges(node, keys=True, data=True)
        }
        self.definitions = replace(definitions, owner=f"the cell `{cell.cell}`")
        self.cell, site = self._named(cell, site_of(graph, node))
        out = self.sizes.shape(self.cell.out_shape(site))
        declared = self.cell.parameters(site, out)
        used = graph.nodes[node]["cell_parameters"]
        self.parameters = {key: declared[key] for key in used if key in declared}
        projections = {inlet.key: self.cell.project(site, inlet, out) for inlet in site.inlets}
        self.binding = bind(self.cell, site, out, projections, self.parameters)
        self.noise, self.tapped = deviation(cell), is_tapped_by_arrows(graph, node)
        self.iterates = (graph.graph["iterations"] or 1) > 1  # on one input: all t share noise
        module, kind, groups = cell.node_norm() if self.binding.summed else ("", "none", 1)
        self.norm = module, kind, groups
        # The edge whose norm makes z in a = gain . z + offset, if z is needed by itself.
        apart = bool(self.noise or self.tapped)
        self.carrier = self.binding.carrier if apart and kind == "none" else ""
        for key in projections:
            if found[key].kind != "none" or found[key].parameters:
                edge = EdgeClass(definitions, found[key], self.rows, key != self.carrier)
                self.edges[key] = edge
        self.out, self.separate = out, {*projections} & {*self.binding.signature.positional}
        self.keys = tuple(projections)
        self.states = self.cell.state_shapes(out) if "state" in self.keys else {}
        owner = next(c for c in type(cell).__mro__ if "compute" in vars(c))
        self.name, self.cell_name = owner.__name__.strip("_"), type(cell).__name__
        self.words = tuple(self._words())
        terms = {each.norm for each in found.values() if each.has_weight}
        self.doc = self._formula(owner.__doc__ or self.name, {kind} if kind != "none" else terms)
        self.any_doc = self._formula(owner.__doc__ or self.name, {"", "any"})

    def _named(self, cell: Cell, site: Site) -> tuple[Cell, Site]:
        """A cell and its site with named sizes, from which those of its parameters follow."""
        fields = {name: getattr(cell, name) for name in type(cell).model_fields}
        sizes = {k: self.sizes.name(v, k) for k, v in fields.items() if type(v) is int}
        if site.groups is not None:
            count = NamedSize(site.groups.count, GROUPS)
            site = replace(site, groups=site.groups.model_copy(update={"count": count}))
            if isinstance(cell, Groups):
                sizes["count"] = count
        level = None if site.level is None else self.sizes.shape(site.level)
        row = site.row
        if row is not None:
            row = (self.sizes.name(row[0], "inner", "row"), *row[1:])
        return cell.model_copy(update=sizes), replace(site, level=level, row=row)

    def _words(self) -> Iterable[str]:
        """What tells this class from others of its name."""
        (tensors, constants), (module, kind, _) = self.binding.keywords, self.norm
        yield from (value for value in constants.values() if isinstance(value, str))
        given = {*constants, *tensors, *self.separate, *self.parameters}
        for name in sorted({*self.binding.signature.optional, *given} - {"norm"}):
            absent = name not in given or constants.get(name, name) is None
            yield f"{'without' if absent else 'with'} {name}"
        yield "on maps" if len(self.out) == 3 else "on vectors"
        symbol = "plain" if kind == "none" else NORMS[kind].symbol
        yield f"joint {symbol}" if module == "joint" and kind != "none" else symbol
        yield from ["noisy"] if self.noise else []
        yield from ["tapped"] if self.tapped else []

    def _formula(self, doc: str, norms: set[str]) -> str:
        """The docstring of the cell, with the norm and the activation that are used.

        `norm: joint` normalises the sum of the terms.
        """
        activation = self.binding.keywords.constants.get("activation")
        if activation is not None:
            written = r"\1" if activation == "none" else rf"{activation}(\1)"
            doc = re.sub(r"\bact\(((?:[^()]|\([^()]*\))*)\)", written, doc)
        if self.norm[0] == "joint" and self.norm[1] != "none":
            doc = re.sub(r"\) \+ (?:BN|LN)\(", " + ", doc)
        if norms == {"none"}:
            return re.sub(r"\b(?:BN|LN)\(([^()]*)\)", r"\1", doc)
        symbol = NORMS[next(iter(norms))].symbol if len(norms) == 1 else "norm"
        return re.sub(r"\b(?:BN|LN)\(", f"{symbol}(", doc) if norms else doc

    # --- methods ----------------------------------------------------------------------------------

    def methods(self) -> list[list[str]]:
        cell, arguments = self.cell, self.binding.signature.positional
        body = self._pre_activation() if "a" in arguments else []
        if "edges" in arguments:
            body = ["edges = {key: self.total(t, {key: x}) for key, x in values.items()}"]
        lines = self.definitions.body(cell.compute, self._known(), self._text_of)
        if self.tapped:
            lines = [f"{s}, z" if s.lstrip().startswith("return ") else s for s in lines]
        if lines == ["return a"] and len(body) == 1:
            body, lines = [], [f"return {body[0].removeprefix('a = ')}"]
        body += lines
        taken = [name for name in arguments if name in {*self.separate, *self.states}]
        given = ["self", "t: int", *(f"{name}: Tensor" for name in taken)]
        given += ["**values: Tensor"] if "values" in names_in("\n".join(body)) else []
        count = len(cell.returns) + self.tapped
        result = f"tuple[{', '.join(['Tensor'] * (count + 1))}]" if count else "Tensor"
        forward = [f"def forward({', '.join(given)}) -> {result}:", *indented(body)]
        first = [] if cell.first_value is None else [self._first_value()]
        return [forward, *first, *([self._noisy()] if self._noise_inside else [])]

    def _known(self) -> dict[str, Any]:
        """What is known of the arguments of `compute`."""
        signature, (tensors, constants) = self.binding.signature, self.binding.keywords
        found: dict[str, Any] = {**constants, **dict.fromkeys(tensors, Tensor())}
        if name := found.get("activation"):
            definitions = replace(self.definitions, owner=f"the activation `{name}`")
            found["activation"] = definitions.expression(ACTIVATIONS[name].compute)
        for name in signature.positional:
            there = name in {"a", "edges", *self.separate, *self.states, *self._state}
            found[name] = Tensor() if there else None
        if "norm" in signature.keywords:
            module, kind, groups = self.norm
            given = (kind, module, "x", *self._after_norm(), str(groups))
            found["norm"] = None
            if self._noise_inside:
                found["norm"] = Expression("x", "self.noisy(t, x)")
            elif kind != "none":
                found["norm"] = Expression("x", self.normalised(*given))
        return found

    @property
    def _noise_inside(self) -> bool:
        """Whether `compute` applies the norm behind which the noise is added."""
        inside = "norm" in self.binding.signature.keywords and self.norm[1] != "none"
        return bool(self.noise) and inside

    def _noisy(self) -> list[str]:
        """The method that normalises and adds the noise."""
        module, kind, groups = self.norm
        z = self.normalised(kind, module, "x", groups=str(groups))
        body = self._from_normalised(z, *self._after_norm())
        return ["def noisy(self, t: int, x: Tensor) -> Tensor:", *indented([*body, "return a"])]

    @property
    def _state(self) -> dict[str, str]:
        """The text of `h`, if there is a state."""
        if "state" not in self.keys:
            return {}
        return {"h": "state" if "state" in self.separate else 'values["state"]'}

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
        if name in self.separate:
            changed = name in self.edges and self.edges[name].changes
            return f"self.{name}(t, {name})" if changed else name
        if name in self._state:
            return self._state[name]
        optional = name in self.binding.signature.optional and name not in self.states
        return "None" if optional else name

    def _offset(self) -> str:
        return f"self.{self.cell.offset}" if self.cell.offset in self.parameters else ""

    def _after_norm(self) -> tuple[str, str]:
        """Gain and offset behind the norm of the sum; without a gain, the offset precedes it."""
        return ("self.gain", self._offset()) if "gain" in self.parameters else ("", "")

    def _pre_activation(self) -> list[str]:
        """The lines that make `a`."""
        module, kind, groups = self.norm
        offset, (scale, shift) = self._offset(), self._after_norm()
        total = "self.total(t, values)"
        if offset and not (kind != "none" and scale):
            total = f"self.total(t, values, {offset})"
        if self.carrier:
            gain = f"self.{self.carrier}.gain"
            return self._from_normalised("self.total(t, values)", gain, offset)
        if kind == "none":
            return [f"a = {total}"]
        self.norm_module(kind, module, self.binding.summed)
        if "norm" in self.binding.signature.keywords:
            return [f"a = {total}"]
        if self.noise or self.tapped:
            z = self.normalised(kind, module, total, groups=str(groups))
            return self._from_normalised(z, scale, shift)
        return [f"a = {self.normalised(kind, module, total, scale, shift, str(groups))}"]

    def _from_normalised(self, z: str, gain: str, offset: str) -> list[str]:
        """z with its noise in training, then a = gain . z + offset."""
        lines = [f"z = {z}"]
        if self.noise:
            drawn = f"{self.attribute('deviation', self.noise)} * torch.randn_like(z)"
            if self.iterates:
                keep = ["    if t == 0:  # the same at every t", f"        self.drawn = {drawn}"]
                lines += ["if self.training:", *keep, "    z = z + self.drawn"]
            else:
                lines += ["if self.training:", f"    z = z + {drawn}"]
        wide = self.definitions.function(per_channel) if gain or offset else ""
        a = f"{wide}({gain}, z) * z" if gain else "z"
        return [*lines, f"a = {a} + {wide}({offset}, z)" if offset else f"a = {a}"]

    def _first_value(self) -> list[str]:
        """The method that makes what delayed edges carry before the first t."""
        assert self.cell.first_value is not None
        ones = ", 1" * (len(self.parameters["noise"].shape) - 1)
        body = self.definitions.body(
            self.cell.first_value,
            self.binding.first.constants,
            lambda name: name if name == "noise" else self._text_of(name),
        )
        return [
            "def first_value(self, batch: int) -> Tensor:",
            '    """Before the first t: random in training, always the same in evaluation."""',
            f"    noise = self.noise.repeat(batch // len(self.noise){ones})",
            "    if self.training:",
            "        noise = torch.randn_like(noise)",
            *indented(body),
        ]
