"""Instances -> the classes of an exported file, and how each instance is made.

Instances that compute the same share a class. Its constructor is generated from the parameters that
they declare: a size that is the same for all stands in the class, others are arguments.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ladderspec.cells import ACTIVATIONS, NORMS, Cell
from ladderspec.cells.binding import Binding
from ladderspec.cells.functions import per_channel
from ladderspec.cells.projections import KEYWORDS
from ladderspec.errors import UsageError
from ladderspec.export.inline import PRESENT, Template, inline
from ladderspec.export.instances import (
    GROUPS,
    UNSCALED,
    ClassForm,
    ModuleInstance,
    Symbol,
)
from ladderspec.export.source import Definitions, fit
from ladderspec.names import Side, size_of

FORMULAS = {
    "conv": "W * x",
    "transposed": "W * x",
    "dense": "W x",
    "spread": "x",
    "none": "x",
    "scaled": "s x",
    "resampled": "s x",
}

KEYWORD_TYPES = {"target": "Shape", "channel_groups": "int", "mode": "str", "factor": "float"}


@dataclass
class Classes:
    """The classes of a file, made from all instances of a network."""

    definitions: Definitions
    texts: dict[str, str] = field(default_factory=dict)

    def make(self, instances: Iterable[ModuleInstance]) -> None:
        """Write a class for each form, and the expression of each instance."""
        groups: dict[ClassForm, list[ModuleInstance]] = {}
        for instance in instances:
            groups.setdefault(instance.form, []).append(instance)
        usual: dict[str, ClassForm] = {}
        # The most used class of a name has it; others tell how they differ.
        for form, group in sorted(groups.items(), key=lambda item: len(item[1]), reverse=True):
            name = group[0].name
            words = iter(_differences(form, usual.setdefault(name, form)))
            while name in self.texts or name == "Cell":
                name += next(words, "_")
            body = _Class(self.definitions, group)
            self.texts[name] = body.cell(name) if group[0].cell else body.edge(name)
            for index, each in enumerate(group):
                each.expression = f"{name}({', '.join(body.arguments_of(index))})"


def _differences(form: ClassForm, usual: ClassForm) -> list[str]:
    """What tells a class from the most used one of its name: `JointLN`, `WithoutLateral`."""
    found: list[str] = []
    for constant, value in form.decided:
        if (constant, value) not in usual.decided:
            found.append(f"without {constant}" if value is None else str(value))
    if form.norm != usual.norm:
        symbol = "Plain" if form.norm[1] == "none" else NORMS[form.norm[1]].symbol
        found.append(f"Joint{symbol}" if form.norm[0] == "joint" and symbol != "Plain" else symbol)
    found += [f"without {role}" for role in usual.separate if role not in form.separate]
    found += [f"with {name}" for name in form.parameters if name not in usual.parameters]
    found += [f"without {name}" for name in usual.parameters if name not in form.parameters]
    return ["".join(part[:1].upper() + part[1:] for part in each.split()) for each in found]


class _Class:
    """One class: its constructor from what its instances declare."""

    def __init__(self, definitions: Definitions, group: Sequence[ModuleInstance]) -> None:
        self.definitions, self.group, self.first = definitions, group, group[0]
        self.arguments: dict[str, tuple[str, list[str]]] = {}  # type, and a value per instance
        self.lines: list[str] = []

    # --- values that are the same for all, or arguments -------------------------------------------

    def argument(self, name: str, kind: str, values: list[str]) -> str:
        self.arguments.setdefault(name, (kind, values))
        return name

    def size(self, parameter: str, axis: int) -> str:
        cell = self.first.cell
        if parameter == "noise" and axis == 0 and cell is not None and cell.first_value:
            return GROUPS
        values = [each.parameters[parameter].shape[axis] for each in self.group]
        blocks = self.first.parameters[parameter].values
        if axis == 0 and len(blocks) > 1 and set(values) == {len(blocks)}:
            return str(len(blocks))  # one value each
        return self.named_size(values, f"{parameter}_{axis}")

    def named_size(self, values: list[int], otherwise: str) -> str:
        """A size by the name that it has in all instances, a number, or an argument."""
        for name in self.first.sizes:
            if all(each.sizes.get(name) == v for each, v in zip(self.group, values, strict=True)):
                return self.argument(name, "int", list(map(str, values)))
        if len(set(values)) == 1:
            return str(values[0])
        return self.argument(otherwise, "int", list(map(str, values)))

    def declare(self) -> list[str]:
        """Write what makes the parameters and buffers; the types of buffers are returned."""
        buffers = []
        for name, declared in self.first.parameters.items():
            start, is_parameter = self.start(name)
            if declared.buffer:
                buffers.append(f"{name}: Tensor")
                start = f"{start}.data" if is_parameter else start
                self.lines.append(f'self.register_buffer("{name}", {start})')
            else:
                start = start if is_parameter else f"nn.Parameter({start})"
                self.lines.append(f"self.{name} = {start}")
        return buffers

    def start(self, name: str) -> tuple[str, bool]:
        """The expression of an initial value, and whether it makes a parameter already."""
        declared = [each.parameters[name] for each in self.group]
        shape = ", ".join(self.size(name, axis) for axis in range(len(declared[0].shape)))
        if all(p.buffer and p.variance == 1.0 for p in declared):
            return f"torch.randn({shape})", False
        if declared[0].variance is not None:
            scales = [f"{p.variance * size_of(p.shape[1:]):.10g}" for p in declared if p.variance]
            taps = [repr(p.taps) for p in declared]
            given = [shape]
            if set(scales) != {"1"}:
                given.append(f"scale={self.same_or_argument('scale', 'float', scales)}")
            if set(taps) == {"(1, 1)"}:
                return f"{self.helper('weight')}({', '.join(given)})", True
            given.append(f"taps={self.same_or_argument('stride', 'Pair', taps)}")
            return f"{self.helper('weight_in_blocks')}({', '.join(given)})", True
        values = [p.values for p in declared]
        if set(values) in ({(0.0,)}, {(1.0,)}):
            return f"torch.{'zeros' if values[0] == (0.0,) else 'ones'}({shape})", False
        if all(len(each) == 1 for each in values):
            start = self.same_or_argument(name, "float", [repr(each[0]) for each in values])
            return f"torch.full(({shape},), {start})", False
        start = self.same_or_argument(name, "tuple[float, ...]", list(map(repr, values)))
        return f"{self.helper('blocks')}({shape}, values={start})", True

    def same_or_argument(self, name: str, kind: str, values: list[str]) -> str:
        """A value that is the same for all instances as it is, else an argument."""
        return values[0] if len(set(values)) == 1 else self.argument(name, kind, values)

    def constant(self, name: str, kind: str) -> str:
        """A value that the class reads: as it is, or an attribute from an argument."""
        values = [_text(each.constants[name]) for each in self.group]
        if name == "activation":
            values = [self.activation(each.constants[name]) for each in self.group]
        if len(set(values)) == 1:
            return values[0]
        self.lines.append(f"self.{name} = {self.argument(name, kind, values)}")
        return f"self.{name}"

    def activation(self, name: str) -> str:
        return self.definitions.function(ACTIVATIONS[name].compute)

    def helper(self, name: str) -> str:
        return self.definitions.reference(name)

    def normalised(self, kind: str, module: str, x: str, gain: str, bias: str, groups: str) -> str:
        """The call of a norm on x."""
        norm = NORMS[kind]
        if "compute" in vars(norm):
            name = self.definitions.function(norm.compute, f"{kind}_norm")
            return f"{name}({x}, {gain}, {bias}, {groups})"
        rest = ", ".join([gain, bias] if bias != "None" else [gain] if gain != "None" else [])
        return f"{module}(t, {x}{', ' if rest else ''}{rest})"

    def norm_module(self, kind: str, channels: str) -> str:
        """The module of a norm that keeps statistics; empty if it keeps none."""
        if kind == "none" or "compute" in vars(NORMS[kind]):
            return ""
        if kind != "batch":
            raise UsageError(f"cannot export norm `{kind}`: it has no plain `compute`")
        rows = [str(each.rows) for each in self.group]
        count = rows[0] if len(set(rows)) == 1 else self.argument("rows", "int", rows)
        return f"{self.helper('BatchNorm')}({channels}, {count})"

    # --- edges ------------------------------------------------------------------------------------

    def edge(self, name: str) -> str:
        projection = self.first.projection
        assert projection is not None
        self.declare()
        gain = self.size("gain", 0) if projection.norm != "none" else ""
        if module := self.norm_module(projection.norm, gain):
            self.lines.append(f"self.norm = {module}")
        function = projection.function
        given = ["x", *(["self.weight"] if projection.has_weight else [])]
        for keyword in KEYWORDS[projection.function]:
            value = self.constant(keyword, KEYWORD_TYPES.get(keyword, "Pair"))
            default = inspect.signature(function).parameters[keyword].default
            if value != repr(default):
                given.append(f"{keyword}={value}")
        y = "x"
        if projection.kind != "none":
            y = f"{self.definitions.function(function)}({', '.join(given)})"
        doc, body = FORMULAS[projection.kind], list[str]()
        if projection.norm != "none":
            groups = self.constant("groups", "int")
            linear, y = y, "y" if len(y) > 50 else y
            body = [f"y = {linear}"] if y == "y" else []
            scaled = ("gain", UNSCALED) not in self.first.form.decided
            gain = "self.gain" if scaled else "None"
            y = self.normalised(projection.norm, "self.norm", y, gain, "None", groups)
            by = "" if scaled else ", which the cell applies"
            doc = f"{NORMS[projection.norm].symbol}({doc}), with a gain per channel{by}"
        if projection.extra:
            doc = f"The value as it is, with {' and '.join(projection.extra)}"
        notes = {"transposed": "; here * is transposed", "dense": "; maps are flattened"}
        if projection.kind == "spread":
            doc = "Each value over its window"
        if projection.kind == "resampled" and projection.norm == "none":
            doc = "The value, resampled to another size"
        if projection.kind == "scaled" and projection.norm == "none":
            doc = "The value, times a constant"
        return self._text(
            f"class {name}(nn.Module):",
            [f'"""{doc}{notes.get(projection.kind, "")}."""'],
            "super().__init__()",
            "def forward(self, t: int, x: Tensor) -> Tensor:",
            [*body, f"return {y}"],
        )

    # --- cells ------------------------------------------------------------------------------------

    def cell(self, name: str) -> str:
        cell = self.first.cell
        assert cell is not None
        self.definitions.owner = f"the cell `{cell.cell}`"
        buffers = self.declare()
        binding = self.first.binding
        assert binding is not None
        arguments = [name for _, name in binding.positional]
        separate = [role for role in arguments if role in self.first.form.separate]
        taken = [*separate, *(s for s in self.first.states if s in arguments)]
        body = [] if "a" not in arguments else self._pre_activation(cell, binding)
        known, names = self._arguments(cell, binding, separate)
        source = self.definitions.method(cell.compute)
        count = len(cell.returns) + self.first.tapped
        result = f"tuple[Tensor, {', '.join(['Tensor'] * count)}]" if count else "Tensor"
        owner = next(c for c in type(cell).__mro__ if "compute" in vars(c))
        doc = inspect.cleandoc(_with_norm(owner.__doc__ or name, self._norms())).splitlines()
        doc = [f'"""{doc[0]}"""'] if len(doc) == 1 else [f'"""{doc[0]}', *doc[1:], '"""']
        given = "".join(f", {each}: Tensor" for each in taken)
        first = self._first_value(cell)
        text = self._text(
            f"class {name}({self.helper('Cell')}):",
            [*doc, "", *buffers] if buffers else doc,
            "super().__init__(**edges)",
            f"def forward(self, t: int{given}, **values: Tensor) -> {result}:",
            [*body, *self._with_tap(inline(source, known, names, self.definitions))],
            ["**edges: nn.Module"],
        )
        return "\n".join([text, *first])

    def _with_tap(self, lines: Iterable[str]) -> list[str]:
        """The lines of `compute`, which returns the normalised pre-activation too if tapped."""
        if not self.first.tapped:
            return list(lines)
        return [f"{line}, z" if line.lstrip().startswith("return ") else line for line in lines]

    def _norms(self) -> set[str]:
        """The norms of the sum, or of its terms, in all instances."""
        if self.first.form.norm[1] != "none":
            return {self.first.form.norm[1]}
        edges = [edge.projection for each in self.group for edge in each.edges.values()]
        return {edge.norm for edge in edges if edge is not None and edge.has_weight}

    def _first_value(self, cell: Cell) -> list[str]:
        """The method that makes what delayed edges carry before the first t, if there is one."""
        if cell.first_value is None:
            return []
        annotations = inspect.signature(cell.first_value).parameters
        names = {}
        for name in list(annotations)[1:]:
            if name in self.first.parameters:
                names[name] = f"self.{name}"
            elif isinstance(self.first.constants[name], Symbol):
                names[name] = _text(self.first.constants[name])
            else:
                values = [_text(each.constants[name]) for each in self.group]
                kind = str(annotations[name].annotation)
                self.lines.append(f"self.{name} = {self.argument(name, kind, values)}")
                names[name] = f"self.{name}"
        source = self.definitions.method(cell.first_value)
        ones = ", 1" * (len(self.first.parameters["noise"].shape) - 1)
        lines = [
            "def first_value(self, batch: int) -> Tensor:",
            '    """Before the first t: random in training, always the same in evaluation."""',
            f"    noise = self.noise.repeat(batch // len(self.noise){ones})",
            "    if self.training:",
            "        noise = torch.randn_like(noise)",
            *(f"    {line}" for line in inline(source, {}, names, self.definitions)),
        ]
        return ["", *(line for each in lines for line in fit(f"    {each}"))]

    def _arguments(
        self, cell: Cell, binding: Binding, separate: list[str]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """What is known of the arguments of `compute`, and the text of each."""
        known: dict[str, Any] = {}
        names: dict[str, str] = {}
        for source, name in binding.positional:
            known[name] = PRESENT
            if source == "edges":
                names[name] = "{key: self._modules[key](t, x) for key, x in values.items()}"
            elif name == "h":
                names[name] = "state" if "state" in separate else 'values["state"]'
            elif source == "edge" and name not in separate:
                known[name], names[name] = None, "None"
            elif source == "edge" and not self._is_unchanged(name):
                names[name] = f'self._modules["{name}"](t, {name})'
        for name, owner in binding.tensors.items():
            known[name], names[name] = PRESENT, f"self.{owner}.{name}" if owner else f"self.{name}"
        if binding.norm_in_compute:
            known["norm"], names["norm"] = self._norm_argument(cell)
        annotations = inspect.signature(cell.compute).parameters
        for name in binding.constants:
            if name not in self.first.constants:
                known[name], names[name] = None, "None"
            elif name == "activation" and len({e.constants[name] for e in self.group}) == 1:
                known[name] = ACTIVATIONS[self.first.constants[name]].compute
            else:
                kind = "Callable" if name == "activation" else str(annotations[name].annotation)
                names[name] = self.constant(name, kind)
                if not names[name].startswith("self."):
                    known[name] = self.first.constants[name]
        return known, names

    def _norm_argument(self, cell: Cell) -> tuple[Any, str]:
        module, kind, groups = cell.node_norm()
        if kind == "none":
            return None, "None"
        given = ("{}", "self.gain", f"self.{cell.offset}", str(groups))
        return Template(self.normalised(kind, f"self.{module}", *given)), "None"

    def _is_unchanged(self, name: str) -> bool:
        edges = [each.edges[name].projection for each in self.group if name in each.edges]
        return all(edge is not None and edge.kind == "none" for edge in edges)

    def _pre_activation(self, cell: Cell, binding: Binding) -> list[str]:
        offset = f"self.{cell.offset}" if cell.offset in self.first.parameters else ""
        module, kind, groups = cell.node_norm()
        if self.first.carrier:
            gain = f"self.{self.first.carrier}.gain"
            return self._from_normalised("self.total(t, values)", gain, offset)
        if kind == "none" or not self.first.form.norm[0]:
            return [f"a = self.total(t, values{', ' + offset if offset else ''})"]
        has_gain = "gain" in self.first.parameters
        channels = self.named_size([e.binding.summed for e in self.group if e.binding], "width")
        if made := self.norm_module(kind, channels):
            self.lines.append(f"self.{module} = {made}")
        if binding.norm_in_compute:
            return ["a = self.total(t, values)"]
        x = (
            f"self.total(t, values, {offset})"
            if offset and not has_gain
            else "self.total(t, values)"
        )
        scale, shift = ("self.gain", offset) if has_gain else ("None", "None")
        if self.first.deviation or self.first.tapped:
            y = self.normalised(kind, f"self.{module}", x, "None", "None", str(groups))
            given = ("self.gain", offset) if has_gain else ("", "")
            return self._from_normalised(y, *given)
        return [f"a = {self.normalised(kind, f'self.{module}', x, scale, shift, str(groups))}"]

    def _from_normalised(self, z: str, gain: str, offset: str) -> list[str]:
        """z with its noise in training, then a = gain . z + offset."""
        lines = [f"z = {z}"]
        if self.first.deviation:
            values = [repr(each.deviation) for each in self.group]
            deviation = self.same_or_argument("deviation", "float", values)
            if deviation == "deviation":
                self.lines.append("self.deviation = deviation")
                deviation = "self.deviation"
            drawn = f"{deviation} * torch.randn_like(z)"
            if self.first.iterates:
                keep = ["    if t == 0:  # the same at every t", f"        self.drawn = {drawn}"]
                lines += ["if self.training:", *keep, "    z = z + self.drawn"]
            else:
                lines += ["if self.training:", f"    z = z + {drawn}"]
        wide = self.definitions.function(per_channel) if gain or offset else ""
        a = f"{wide}({gain}, z) * z" if gain else "z"
        return [*lines, f"a = {a} + {wide}({offset}, z)" if offset else f"a = {a}"]

    # --- text -------------------------------------------------------------------------------------

    def _text(
        self,
        head: str,
        doc: list[str],
        init: str,
        forward: str,
        body: list[str],
        more: list[str] | None = None,
    ) -> str:
        arguments = [f"{name}: {kind}" for name, (kind, _) in self._required()]
        arguments += [
            f"{name}: {kind} = {self._default(name)}"
            for name, (kind, _) in self.arguments.items()
            if self._default(name)
        ]
        lines = [head, *(f"    {line}".rstrip() for line in doc), ""]
        if self.lines:
            given = ", ".join(["self", *arguments, *(more or [])])
            lines += fit(f"    def __init__({given}) -> None:")
            for line in [init, *self.lines]:
                lines += fit(f"        {line}")
            lines.append("")
        lines += fit(f"    {forward}")
        for line in body:
            lines += fit(f"        {line}")
        return "\n".join(lines)

    def _default(self, name: str) -> str:
        """The usual value of an argument that is no size; empty if there is none."""
        kind, values = self.arguments[name]
        usual, count = Counter(values).most_common(1)[0]
        if kind == "int" or (count == 1 and "1.0" not in values):
            return ""
        return "1.0" if "1.0" in values else usual

    def _required(self) -> list[tuple[str, tuple[str, list[str]]]]:
        """The arguments without a default: sizes first, in the order of their names."""
        order = list(self.first.sizes)

        def rank(item: tuple[str, tuple[str, list[str]]]) -> tuple[bool, int]:
            name, (kind, _) = item
            return kind != "int", order.index(name) if name in order else len(order)

        found = [item for item in self.arguments.items() if not self._default(item[0])]
        return sorted(found, key=rank)

    def arguments_of(self, index: int) -> list[str]:
        """The arguments of an instance: sizes by place, others by name."""
        sizes = [values[index] for _, (kind, values) in self._required() if kind == "int"]
        named = [
            f"{name}={values[index]}"
            for name, (kind, values) in self.arguments.items()
            if kind != "int" and values[index] != self._default(name)
        ]
        edges = [f"{key}={each.expression}" for key, each in self.group[index].edges.items()]
        return [*sizes, *named, *edges]


def _with_norm(doc: str, kinds: set[str]) -> str:
    """A formula with the norm that is used, or without one.

    >>> _with_norm("u = relu(LN(A * v) + LN(B * h) + c)", {"batch"})
    'u = relu(BN(A * v) + BN(B * h) + c)'
    >>> _with_norm("u = relu(LN(A * v) + LN(B * h) + c)", {"none"})
    'u = relu(A * v + B * h + c)'
    """
    if kinds == {"none"}:
        return re.sub(r"\b(?:BN|LN)\(([^()]*)\)", r"\1", doc)
    symbol = NORMS[next(iter(kinds))].symbol if len(kinds) == 1 else "norm"
    return re.sub(r"\b(?:BN|LN)\(", f"{symbol}(", doc) if kinds else doc


def _text(value: Any) -> str:
    """A value as a formatter would write it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def sides_of(nodes: Iterable[str]) -> list[Side]:
    """The columns of the ladder that have modules."""
    there = Counter(node.partition(".")[0] for node in nodes)
    return [side for side in Side if side in there]
