"""The classes of an exported file, and how each module is made.

A class is written from one module: its constructor from the declared parameters, its `forward` from
the source of `compute`. Modules whose classes would differ in values alone share one; such values
are its arguments.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from ladderspec.cells import NORMS, Parameter, Parameters
from ladderspec.export.source import (
    IMPORTS,
    REFERENCE,
    Definitions,
    block,
    fitted,
    literal,
    names_in,
)
from ladderspec.names import Shape, size_of

GROUPS = "GROUPS"  # the constant of the file that counts groups
BOUND = {"self", "super", "edges", *IMPORTS, *REFERENCE}  # what constructors read
NEUTRAL = (1, 1.0, (1, 1))  # values that an argument has by default


# --- named sizes ----------------------------------------------------------------------------------


class NamedSize(int):
    """A size under the name that it has in a class. What follows from it is text as well.

    >>> channels = NamedSize(8, "channels")
    >>> 4 * channels, 4 * channels == 32, size_of((channels, NamedSize(3, "height")))
    (4 * channels, True, channels * height)
    >>> 3 * (channels // 2), channels // (2 * channels)
    (3 * (channels // 2), channels // (2 * channels))
    """

    text: str

    def __new__(cls, value: int, text: str) -> NamedSize:
        size = super().__new__(cls, value)
        size.text = text
        return size

    def __repr__(self) -> str:
        return self.text

    def __mul__(self, other: Any) -> Any:
        return _named(int.__mul__(self, other), self, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return self if other == 1 else _named(int.__mul__(self, other), other, "*", self)

    def __add__(self, other: Any) -> Any:
        return _named(int.__add__(self, other), self, "+", other)

    def __radd__(self, other: Any) -> Any:
        return _named(int.__add__(self, other), other, "+", self)

    def __floordiv__(self, other: Any) -> Any:
        return self if other == 1 else _named(int.__floordiv__(self, other), self, "//", other)


def _named(value: Any, left: Any, sign: str, right: Any) -> Any:
    if not isinstance(value, int):
        return value
    first, second = repr(left), repr(right)
    if sign != "+" and " + " in first:
        first = f"({first})"
    if sign != "+" and re.search(r" \+ | // " if sign == "*" else " ", second):
        second = f"({second})"
    return NamedSize(value, f"{first} {sign} {second}")


def _text(value: Any) -> str:
    """A value as a formatter would write it."""
    if isinstance(value, tuple | list):
        texts = ", ".join(map(_text, value)) + "," * (type(value) is tuple and len(value) == 1)
        return f"({texts})" if isinstance(value, tuple) else f"[{texts}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _is_plain(value: Any) -> bool:
    """Whether Python reads back what `_text` writes."""
    if isinstance(value, tuple | list):
        return literal(value) and all(map(_is_plain, value))
    if isinstance(value, str):
        return repr(value).strip("'") == value.strip("'") and '"' not in value
    return literal(value)


def _type(value: Any) -> str:
    """The type of an argument with this value."""
    if not isinstance(value, tuple):
        return type(value).__name__
    if not all(isinstance(n, int) for n in value):
        return "tuple[float, ...]"
    return "Pair" if len(value) == 2 else "Shape"


# --- classes --------------------------------------------------------------------------------------


def write_classes(modules: Iterable[ModuleClass], taken: Collection[str]) -> dict[str, str]:
    """A class for each kind of module, by name; sets the expression of each module.

    Args:
        modules: All modules that may share classes.
        taken: Names of other classes.
    """
    texts = dict[str, str]()
    groups: dict[tuple[str, str], list[ModuleClass]] = {}
    for module in modules:
        groups.setdefault((module.name, module.write("", {}, {}, "")), []).append(module)
    usual: dict[str, ModuleClass] = {}
    defined = {name for group in groups.values() for name in group[0].definitions.names}
    # The most used class of a name has it; others are named after their cell, or how they differ.
    for group in sorted(groups.values(), key=len, reverse=True):
        first = group[0]
        words = [w for w in first.words if w not in usual.setdefault(first.name, first).words]
        name, rest = first.name, iter([*words, *map(str, range(2, len(groups) + 2))])
        if name in texts and len({module.cell_name for module in group}) == 1:
            name = first.cell_name
        while name in {*texts, *taken, *defined}:
            name += "".join(part[:1].upper() + part[1:] for part in next(rest).split())
        values = [module.values for module in group]
        fixed = {k: v for k, v in values[0].items() if all(each[k] == v for each in values)}
        defaults = {
            k: neutral
            for k in values[0]
            for neutral in NEUTRAL
            if k not in fixed and repr(neutral) in [repr(each[k]) for each in values]
        }
        for module in group:
            module.expression = f"{name}({', '.join(module.arguments(fixed, defaults))})"
        one = len({module.doc for module in group}) == 1
        texts[name] = first.write(name, fixed, defaults, first.doc if one else first.any_doc)
    return texts


class ModuleNorm(NamedTuple):
    """The norm of a module."""

    kind: str = "none"
    name: str = "norm"  # of its own module, if it keeps statistics
    channels: int = 0
    groups: int = 1
    rows: int = 1  # of statistics

    @property
    def symbol(self) -> str:
        """As in formulas; empty without a norm."""
        return "" if self.kind == "none" else NORMS[self.kind].symbol


class ModuleClass:
    """One module of the network, and the text of its class."""

    base: ClassVar[str] = "nn.Module"
    more: ClassVar[str] = ""  # a further argument of the constructor
    name: str  # of its class, if no other class has it
    cell_name: str  # its name otherwise, if all modules of the class have it
    words: tuple[str, ...] = ()  # that tell its class from others of that name
    taken: Collection[str] = ()  # names that its attributes may not have
    doc: str
    any_doc: str  # of modules whose norms differ
    parameters: Parameters
    expression: str = ""  # that makes it

    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.norm = ModuleNorm()
        self.edges: Mapping[str, Any] = {}  # modules by key
        self.sizes: dict[str, NamedSize] = {}
        self.values: dict[str, Any] = {}  # that may be arguments of the class
        self.fixed: Mapping[str, Any] = {}  # those that all modules of the class share
        self.init: list[str] = []

    def write(
        self, name: str, fixed: Mapping[str, Any], defaults: Mapping[str, Any], doc: str
    ) -> str:
        """The class under some name; values that are not `fixed` are arguments."""
        self.fixed, self.values, self.init = fixed, {}, []
        buffers = [f"{key}: Tensor" for key, each in self.parameters.items() if each.buffer]
        for key, parameter in self.parameters.items():
            start = self._start(key, parameter)
            if parameter.buffer:
                self._check_attribute(key)
                self.init.append(f'self.register_buffer("{key}", {start})')
            else:
                self.make(key, f"nn.Parameter({start})")
        methods = self.methods()  # which add to the constructor
        parts = [_docstring(doc), *(["\n".join(buffers)] if buffers else [])]
        if self.init:
            free = {k: v for k, v in self.values.items() if k not in {*fixed, *defaults}}
            for argument in {*self._used(), *free, *defaults} & {*BOUND, *self.edges}:
                self.definitions.refuse_second(argument)
            arguments = ["self", *(f"{size}: int" for size in self._used())]
            arguments += [f"{k}: {_type(v)}" for k, v in free.items()]
            arguments += [f"{k}: {_type(v)} = {v!r}" for k, v in defaults.items()]
            arguments += [f"{self.more}: nn.Module"] if self.more else []
            head = f"def __init__({', '.join(arguments)}) -> None:"
            parts.append(block(head, [f"super().__init__({self.more})", *self.init]))
        return fitted(block(f"class {name}({self.base}):", ["\n\n".join([*parts, *methods])]))

    def arguments(self, fixed: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
        """The arguments that make this module: sizes by place, others by name."""
        free = {key: value for key, value in self.values.items() if key not in fixed}
        found = [str(int(self.sizes[name])) for name in self._used()]
        found += [f"{k}={_text(v)}" for k, v in free.items() if v != defaults.get(k)]
        return [*found, *(f"{key}={each.expression}" for key, each in self.edges.items())]

    def _used(self) -> list[str]:
        names = names_in("\n".join(self.init))
        return [name for name in self.sizes if name in names]

    @abstractmethod
    def methods(self) -> list[str]:
        """`forward` and other methods; they may add to the constructor."""

    # --- sizes and values -------------------------------------------------------------------------

    def size(self, value: int, *names: str) -> NamedSize:
        """A size under the first of these names that no other size has."""
        names = (*names, f"n{len(self.sizes)}")
        free = next(name for name in names if self.sizes.get(name, value) == value)
        return self.sizes.setdefault(free, NamedSize(value, free))

    def sized(self, shape: Shape) -> Shape:
        """A shape in which every size has a name."""
        names = ("channels", "height", "width")
        return tuple(
            n if isinstance(n, NamedSize) else self.size(n, name, f"out_{name}")
            for n, name in zip(shape, names, strict=False)
        )

    def value(self, name: str, value: Any) -> str:
        """A value in the constructor."""
        if isinstance(value, NamedSize):
            return repr(value)
        if not _is_plain(value):
            self.definitions.refuse(f"`{name}` is {value!r}, not a plain number, text or tuple")
        if repr(self.values.setdefault(name, value)) != repr(value) or name in self.sizes:
            self.definitions.refuse_second(name)
        return _text(value) if name in self.fixed else name

    def attribute(self, name: str, value: Any) -> str:
        """A value in `forward`."""
        if repr(value) == GROUPS:
            return GROUPS
        parts = value if isinstance(value, tuple) else (value,)
        sized = any(isinstance(part, NamedSize) for part in parts)
        text = _text(value) if sized else self.value(name, value)
        if not sized and name in self.fixed:
            return text
        return self.make(name, text)

    def make(self, name: str, text: str) -> str:
        """Make an attribute in the constructor."""
        self._check_attribute(name)
        line = f"self.{name} = {text}"
        if line not in self.init and any(each.startswith(f"self.{name} =") for each in self.init):
            self.definitions.refuse_second(name)
        self.init += [line] if line not in self.init else []
        return f"self.{name}"

    def _check_attribute(self, name: str) -> None:
        if name in self.taken:
            self.definitions.refuse_second(name)

    def _start(self, name: str, declared: Parameter) -> str:
        """The expression of an initial value."""
        sizes = [self.value(f"{name}_{axis}", n) for axis, n in enumerate(declared.shape)]
        shape = ", ".join(sizes)
        if declared.variance is not None:
            if declared.buffer and declared.variance == 1.0:
                return f"torch.randn({shape})"
            variance = declared.variance * int(size_of(declared.shape[1:]))
            label = "scale" if name == "weight" else f"{name}_scale"
            scale = self.value(label, float(f"{variance:.10g}"))
            given = shape if scale == "1.0" else f"{shape}, scale={scale}"
            if declared.taps == (1, 1):
                return f"gaussian({given})"
            return f"gaussian_blocks({given}, taps={self.value('stride', declared.taps)})"
        if len(declared.values) > 1:
            return f"blocks({shape}, values={self.value(name, declared.values)})"
        value = self.value(name, declared.values[0])
        filled = {"0.0": f"torch.zeros({shape})", "1.0": f"torch.ones({shape})"}
        return filled.get(value, f"torch.full(({shape},), {value})")

    def normalised(self, x: str, gain: str = "", bias: str = "") -> str:
        """x with the norm of the module, if it has one; gain and bias may be empty."""
        kind, name, channels, groups, rows = self.norm
        if kind == "none":
            return x
        if not NORMS[kind].statistics:
            definitions = replace(self.definitions, owner=f"the norm `{kind}`")
            given = (x, gain or "None", bias or "None", self.attribute("groups", groups))
            return definitions.call(NORMS[kind].compute, given, f"{kind}_norm")
        made = self.value(f"{name}_channels", channels), self.value("rows", rows)
        self.make(name, f"BatchNorm({', '.join(made)})")
        return f"self.{name}({', '.join(filter(None, ['t', x, gain, bias]))})"


def _docstring(doc: str) -> str:
    plain = inspect.cleandoc(doc).replace("\\", "\\\\").replace('"', "'")
    return f'"""{plain}\n"""' if "\n" in plain else f'"""{plain}"""'
