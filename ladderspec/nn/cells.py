"""Shapes and fields -> a cell module with all its edges, without any YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError
from torch import Tensor

from ladderspec.cells import Cell, Config, Inlet, Projection, ShapeProblem, Site, registered
from ladderspec.cells.fields import NormName, PairField
from ladderspec.cells.grouping import Groups
from ladderspec.cells.projections import WEIGHTLESS, strided
from ladderspec.errors import did_you_mean, one_of
from ladderspec.names import TABLE, Role, Shape, Side, show_shape
from ladderspec.nn.modules import CellModule, Result, Values
from ladderspec.nn.norms import FIRST, TimeStep
from ladderspec.wording import plain_words

_OF_DECODERS = {role for role, row in TABLE.items() if row.target is Side.DECODER}
Pair = tuple[int, int]
C = TypeVar("C", bound=Config)


class _EdgeFields(Config):
    """What single edges may have of their own."""

    filter: PairField | None = None
    norm: NormName | None = None
    gain: Annotated[float, Field(ge=0, le=1000)] | None = None
    map: Literal["identity"] | None = None
    resample: Literal["nearest", "bilinear"] | None = None
    scale: float | None = None


class Standalone(CellModule):
    """A cell as an ordinary module. Its subclasses are named after the cells of the language."""

    def __init__(self, *args: Any, **options: Any) -> None:
        if not args or not isinstance(args[0], Cell):
            name = type(self).__name__
            raise TypeError(f"`{name}.of(shape, ...)` makes a {name}, from shapes and fields")
        super().__init__(*args, **options)

    @classmethod
    def of(
        cls,
        inputs: Shape | Mapping[str, Shape],
        *,
        out: Shape | None = None,
        iterations: int = 1,
        edges: Mapping[str, Mapping[str, Any]] | None = None,
        groups: Groups | Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Self:
        """A cell for values of these shapes, with the fields that a spec would give it.

        Args:
            inputs: the shape of the value from below (decoders: from above), or shapes by edge;
                `state` follows by itself.
            out: decoders: the shape of the output. Default: that of the `lateral` edge.
            iterations: how many iterations have statistics of their own in batch norms.
            edges: `filter`, `norm`, `gain`, `map`, `resample` or `scale` of single edges, as in
                `{"state": {"filter": 5}}`.
            groups: the groups of the network as in a spec, which a `Readout` needs:
                `{"count": 3}`.
            fields: the fields of the cell. Decoders also take the `stride` of the row that they
                invert; default: the smallest that fits.
        """
        name = cls.__name__
        if not isinstance(iterations, int) or iterations < 1:
            raise ValueError(f"{name}: `iterations` is a whole number above 0, not {iterations!r}")
        if groups is not None and not isinstance(groups, Groups | Mapping):
            raise ValueError(f"{name}: `groups` is a dict like {{'count': 3}}, not {groups!r}")
        if isinstance(groups, Mapping):
            groups = _validated(f"{name}: groups", Groups, groups)
        sides = _sides(name)
        shapes = _by_edge(inputs, "encoder" if Side.ENCODER in sides else "decoder")
        roles = {key: _role(name, key) for key in shapes}
        decodes = Side.DECODER in sides and not _OF_DECODERS.isdisjoint(roles.values())
        side = Side.DECODER if decodes or Side.ENCODER not in sides else Side.ENCODER
        stride = fields.pop("stride", None) if side is Side.DECODER else None
        cell = _cell(name, sides[side], fields)
        if out is not None:
            out = _by_edge({"out": out}, "")["out"]
        _check_roles(name, cell, side, roles)
        row = None if stride is None else _pair("stride", stride)
        back = None if row is None else (-row[0], -row[1])  # a decoder leads back
        site = replace(_site(name, side, roles, shapes, back, out), groups=groups)
        if row and site.level and "decoder" in shapes:
            _check_stride(name, shapes["decoder"], site.level, row)
        try:
            shape = cell.out_shape(site)
            if cell.stateful:
                state = Inlet("state", Role.STATE, 1, shape)
                site = replace(site, inlets=(*site.inlets, state))
            site = _with_options(name, site, edges or {})
            projections = {inlet.key: cell.project(site, inlet, shape) for inlet in site.inlets}
            _check_used(name, edges or {}, projections)
            parameters = cell.parameters(site, shape)
        except ShapeProblem as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            raise ValueError(f"{name}: {problem.message}{hint}") from None
        return cls(cell, site, shape, projections, parameters, iterations)

    def forward(
        self, values: Values, previous: Values | None = None, step: TimeStep = FIRST
    ) -> Result:
        """Output and further values; go on with the output as `state`, the dict as `previous`."""
        self._check_values(values)
        states = self.cell.state_shapes(self.out) if "state" in values else {}
        missing = [name for name in states if name not in (previous or {})]
        missing += ["state"] if previous and "state" not in values and self.cell.stateful else []
        if missing:
            raise ValueError(
                f"{type(self).__name__} goes on from both results of an earlier call: the output"
                f" as `state`, the dict as `previous`; {missing[0]} is missing"
            )
        return super().forward(values, previous, step)

    def _check_values(self, values: Values) -> None:
        name, known = type(self).__name__, ", ".join(self.keys)
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise TypeError(f"{name} takes a dict of values for {known}, not a {kind}")
        strange = [repr(key) for key in values if key not in self.keys]
        if strange:
            raise ValueError(f"{name} has no edge {', '.join(strange)}; it has {known}")
        lacking = [key for key in self.keys if key not in values and not self.may_lack(key)]
        if lacking:
            raise ValueError(f"{name} needs a value for {', '.join(lacking)}")
        for key, value in values.items():
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise TypeError(f"{name}: the value for {key} is a {kind}, not a tensor")
            shape = self.edge(key).projection.source
            if value.dim() != 1 + len(shape) or value.shape[1] != shape[0]:
                wanted = f"(B, {', '.join(map(str, shape))})"
                raise ValueError(f"{name}: {key} takes {wanted}, not {tuple(value.shape)}")
        sizes = sorted({value.shape[0] for value in values.values()})
        if len(sizes) > 1:
            raise ValueError(f"{name}: its values have different batch sizes, {sizes}")


def _sides(name: str) -> dict[Side, type[Cell]]:
    """The cell of that name, by the sides on which it can stand."""
    return {
        side: kind
        for side in (Side.ENCODER, Side.DECODER)
        for known, kind in registered(side).items()
        if known.lower() == name.lower()
    }


def _site(
    name: str,
    side: Side,
    roles: Mapping[str, Role],
    shapes: Mapping[str, Shape],
    stride: Pair | None,
    out: Shape | None,
) -> Site:
    """A decoder stands at the level of its lateral edge, unless `out` is given."""
    delays = {role: row.delay for role, row in TABLE.items()}
    inlets = tuple(
        Inlet(key, role, delays.get(role, 0), shapes[key], stride=stride)
        for key, role in roles.items()
    )
    if side is Side.ENCODER:
        if out is not None:
            raise ValueError(f"{name}: `out` is for decoders; what an encoder gives follows")
        return Site(side, inlets)
    by_role = {inlet.role: inlet.shape for inlet in inlets}
    level = out or by_role.get(Role.LATERAL)
    if level is None and name != "Identity":
        raise ValueError(f"{name}: say `out`, the shape that it estimates, or bring a `lateral`")
    return Site(side, inlets, level, by_role.get(Role.DECODER, level))


def _with_options(name: str, site: Site, edges: Mapping[str, Mapping[str, Any]]) -> Site:
    inlets = {inlet.key: inlet for inlet in site.inlets}
    for key, options in edges.items():
        if key not in inlets:
            raise ValueError(f"{name} has no edge {key!r}; it has {', '.join(inlets)}")
        if not isinstance(options, Mapping):
            raise ValueError(f"{name}: the edge {key!r} takes a dict of fields, not {options!r}")
        given = _validated(f"{name}: edge {key!r}", _EdgeFields, options)
        chosen = {field: getattr(given, field) for field in options}
        inlets[key] = replace(inlets[key], **chosen)
    return replace(site, inlets=tuple(inlets.values()))


def _check_used(
    name: str, edges: Mapping[str, Mapping[str, Any]], projections: Mapping[str, Projection]
) -> None:
    """Some edges have no filter, others no norm, and without a norm there is no gain."""
    for key, options in edges.items():
        kind, norm = projections[key].kind, projections[key].norm
        for field in options:
            weightless = kind in WEIGHTLESS
            used = {"filter": kind in ("conv", "transposed"), "gain": norm != "none"}
            used |= {"map": weightless, "resample": weightless, "scale": weightless}
            if not used.get(field, norm == options[field]):
                raise ValueError(f"{name} gives its {key!r} edge no `{field}` of its own")


def _by_edge(inputs: Shape | Mapping[str, Shape], main: str) -> dict[str, Shape]:
    found = dict(inputs) if isinstance(inputs, Mapping) else {main: inputs}
    for key, shape in found.items():
        whole = isinstance(shape, tuple | list) and all(type(n) is int and n > 0 for n in shape)
        if not whole or len(shape) not in (1, 3):
            raise ValueError(
                f"`{key}` is a shape, (units,) or (channels, height, width), not {shape}"
            )
    return {key: tuple(shape) for key, shape in found.items()}


def _role(name: str, key: str) -> Role:
    if key == Role.STATE:
        raise ValueError(f"{name}: its `state` edge follows from its other edges")
    if key in set(Role):
        return Role(key)
    if not key.startswith("skip"):
        hint = did_you_mean(key, list(Role)) or f"{one_of(list(Role))}, or skip_..."
        raise ValueError(f"{name}: there is no edge {key!r}: {hint}")
    return Role.SKIP


def _check_roles(name: str, cell: Cell, side: Side, roles: Mapping[str, Role]) -> None:
    for key, role in roles.items():
        if role not in cell.takes:
            raise ValueError(f"{name} takes no {key} edge")
    for role in cell.needs(side) - {Role.STATE} - set(roles.values()):
        raise ValueError(f"{name} needs a shape for its {role} edge")
    if cell.single and len(roles) != 1:
        raise ValueError(f"{name} takes exactly one edge, not {', '.join(roles)}")


def _check_stride(name: str, source: Shape, target: Shape, stride: Pair) -> None:
    if len(source) == len(target) == 3 and source[1:] != strided(target, stride):
        raise ValueError(
            f"{name}: stride {stride} leads from {show_shape(target[1:])} to"
            f" {show_shape(strided(target, stride))}, not to {show_shape(source[1:])}"
        )


def _pair(what: str, value: Any) -> Pair:
    """One number stands for two alike."""
    sizes = (value, value) if isinstance(value, int) else value
    whole = isinstance(sizes, tuple | list) and all(type(n) is int and n > 0 for n in sizes)
    if not whole or len(sizes) != 2:
        raise ValueError(f"`{what}` is one whole number or two, height and width, not {value!r}")
    return (sizes[0], sizes[1])


def _cell(name: str, kind: type[Cell], fields: dict[str, Any]) -> Cell:
    strange = [field for field in fields if field in Cell.model_fields]
    if strange:
        raise ValueError(f"{name}: `{strange[0]}` belongs to specs")
    return _validated(name, kind, fields)


def _validated(name: str, kind: type[C], fields: Mapping[str, Any]) -> C:
    try:
        return kind(**fields)
    except ValidationError as error:
        messages = [_message(item, kind) for item in error.errors()]
        raise ValueError(f"{name}: {'; '.join(messages)}") from None


def _message(item: Any, kind: type[Config]) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"`{field}` is missing"
    if item["type"] == "extra_forbidden":
        known = [name for name in kind.model_fields if name not in Cell.model_fields]
        hint = did_you_mean(field, known) or f"it has {', '.join(known) or 'none'}"
        return f"it has no field `{field}`: {hint}"
    context = item.get("ctx", {})
    known = re.findall(r"'(\w+)'", str(context.get("expected", "")))
    hint = context.get("hint") or did_you_mean(item["input"], known)
    return f"`{field}` is {item['input']!r}: {plain_words(item)}" + (f" ({hint})" if hint else "")
