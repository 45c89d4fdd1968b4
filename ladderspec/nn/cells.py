"""Shapes and fields -> a cell module with all its edges, without any YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError
from torch import Tensor

from ladderspec.cells import Cell, Config, Inlet, Projection, ShapeProblem, Site, registered
from ladderspec.cells.fields import NormName, Pair, PairField
from ladderspec.cells.grouping import Groups
from ladderspec.cells.projections import WEIGHTLESS, strided
from ladderspec.errors import did_you_mean, one_of
from ladderspec.names import TABLE, Role, Shape, Side, show_shape
from ladderspec.nn.modules import CellModule, Result, Values
from ladderspec.nn.norms import FIRST, TimeStep
from ladderspec.wording import plain_words

_OF_DECODERS = {role for role, row in TABLE.items() if row.target is Side.DECODER}
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
        try:
            made = _make(cls.__name__, inputs, out, edges or {}, groups, fields)
            if not isinstance(iterations, int) or iterations < 1:
                raise ShapeProblem(f"`iterations` is a whole number above 0, not {iterations!r}")
        except ShapeProblem as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            raise ValueError(f"{cls.__name__}: {problem.message}{hint}") from None
        return cls(*made, iterations)

    def forward(
        self, values: Values, previous: Values | None = None, step: TimeStep = FIRST
    ) -> Result:
        """Output and further values; go on with the output as `state`, the dict as `previous`."""
        name, known = type(self).__name__, ", ".join(self.keys)
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise TypeError(f"{name} takes a dict of values for {known}, not a {kind}")
        for key, value in values.items():
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise TypeError(f"{name}: the value for {key} is a {kind}, not a tensor")
        if problem := self._problem(values, previous or {}):
            raise ValueError(f"{name} {problem}")
        return super().forward(values, previous, step)

    def _problem(self, values: Values, previous: Values) -> str:
        """Why a call is impossible; empty if it is not."""
        known = ", ".join(self.keys)
        for key, value in values.items():
            if key not in self.keys:
                return f"has no edge {key!r}; it has {known}"
            shape = self.edge(key).projection.source
            if value.dim() != 1 + len(shape) or value.shape[1] != shape[0]:
                wanted = f"(B, {', '.join(map(str, shape))})"
                return f"got a wrong shape: {key} takes {wanted}, not {tuple(value.shape)}"
        for key in self.keys:
            if key not in values and not self.may_lack(key):
                return f"needs a value for {key}"
        sizes = sorted({value.shape[0] for value in values.values()})
        if len(sizes) > 1:
            return f"got values of different batch sizes, {sizes}"
        states = [*self.cell.state_shapes(self.out)] if "state" in values else []
        missing = [name for name in states if name not in previous]
        missing += ["state"] if previous and "state" not in values and self.cell.stateful else []
        for name in missing:
            return (
                "goes on from both results of an earlier call: the output as `state`, the dict as"
                f" `previous`; {name} is missing"
            )
        return ""


def _make(
    name: str,
    inputs: Shape | Mapping[str, Shape],
    out: Shape | None,
    edges: Mapping[str, Mapping[str, Any]],
    groups: Groups | Mapping[str, Any] | None,
    fields: dict[str, Any],
) -> tuple[Any, ...]:
    """The cell, its site, its output shape, its projections and parameters."""
    kinds = {
        side: kind
        for side in (Side.ENCODER, Side.DECODER)
        for known, kind in registered(side).items()
        if known.lower() == name.lower()
    }
    main = "encoder" if Side.ENCODER in kinds else "decoder"
    given = dict(inputs) if isinstance(inputs, Mapping) else {main: inputs}
    shapes = {key: _shape(key, shape) for key, shape in given.items()}
    roles = {key: _role(key) for key in shapes}
    decodes = Side.ENCODER not in kinds or not _OF_DECODERS.isdisjoint(roles.values())
    side = Side.DECODER if Side.DECODER in kinds and decodes else Side.ENCODER
    row = _pair(fields.pop("stride", None)) if side is Side.DECODER else None
    for field in fields:
        if field in Cell.model_fields:
            raise ShapeProblem(f"`{field}` belongs to specs")
    cell = _validated("", kinds[side], fields)
    _check_roles(cell, side, roles)
    back = None if row is None else (-row[0], -row[1])  # a decoder leads back
    inlets = [
        Inlet(key, role, TABLE[role].delay if role in TABLE else 0, shapes[key], stride=back)
        for key, role in roles.items()
    ]
    if side is Side.ENCODER:
        if out is not None:
            raise ShapeProblem("`out` is for decoders; what an encoder gives follows")
        site = Site(side, tuple(inlets))
    else:
        level = shapes.get("lateral") if out is None else _shape("out", out)
        if level is None and name != "Identity":
            raise ShapeProblem("say `out`, the shape that it estimates, or bring a `lateral`")
        site = Site(side, tuple(inlets), level, shapes.get("decoder", level), _groups(groups))
        if row and level and "decoder" in shapes:
            _check_stride(shapes["decoder"], level, row)
    shape = cell.out_shape(site)
    if cell.stateful:
        inlets.append(Inlet("state", Role.STATE, 1, shape))
    site = replace(site, inlets=_with_options({inlet.key: inlet for inlet in inlets}, edges))
    projections = {inlet.key: cell.project(site, inlet, shape) for inlet in site.inlets}
    for key, options in edges.items():
        _check_used(key, options, projections[key])
    return cell, site, shape, projections, cell.parameters(site, shape)


def _shape(key: str, shape: Any) -> Shape:
    whole = isinstance(shape, tuple | list) and all(type(n) is int and n > 0 for n in shape)
    if not whole or len(shape) not in (1, 3):
        message = f"`{key}` is a shape, (units,) or (channels, height, width), not {shape}"
        raise ShapeProblem(message)
    return tuple(shape)


def _pair(stride: Any) -> Pair | None:
    """One number stands for two alike."""
    if stride is None:
        return None
    sizes = (stride, stride) if isinstance(stride, int) else stride
    whole = isinstance(sizes, tuple | list) and all(type(n) is int and n > 0 for n in sizes)
    if not whole or len(sizes) != 2:
        message = f"`stride` is one whole number or two, height and width, not {stride!r}"
        raise ShapeProblem(message)
    return (sizes[0], sizes[1])


def _role(key: str) -> Role:
    if key == Role.STATE:
        raise ShapeProblem("its `state` edge follows from its other edges")
    if key in set(Role):
        return Role(key)
    if not key.startswith("skip"):
        hint = did_you_mean(key, list(Role)) or f"{one_of(list(Role))}, or skip_..."
        raise ShapeProblem(f"there is no edge {key!r}: {hint}")
    return Role.SKIP


def _groups(groups: Any) -> Groups | None:
    if isinstance(groups, Mapping):
        return _validated("groups: ", Groups, groups)
    if not isinstance(groups, Groups | None):
        raise ShapeProblem(f"`groups` is a dict like {{'count': 3}}, not {groups!r}")
    return groups


def _check_roles(cell: Cell, side: Side, roles: Mapping[str, Role]) -> None:
    for key, role in roles.items():
        if role not in cell.takes:
            raise ShapeProblem(f"it takes no {key} edge")
    for role in cell.needs(side) - {Role.STATE} - set(roles.values()):
        raise ShapeProblem(f"it needs a shape for its {role} edge")
    if cell.single and len(roles) != 1:
        raise ShapeProblem(f"it takes exactly one edge, not {', '.join(roles)}")


def _check_stride(source: Shape, target: Shape, stride: Pair) -> None:
    if len(source) == len(target) == 3 and source[1:] != strided(target, stride):
        raise ShapeProblem(
            f"stride {stride} leads from {show_shape(target[1:])} to"
            f" {show_shape(strided(target, stride))}, not to {show_shape(source[1:])}"
        )


def _with_options(
    inlets: dict[str, Inlet], edges: Mapping[str, Mapping[str, Any]]
) -> tuple[Inlet, ...]:
    for key, options in edges.items():
        if key not in inlets:
            raise ShapeProblem(f"it has no edge {key!r}, only {', '.join(inlets)}")
        if not isinstance(options, Mapping):
            raise ShapeProblem(f"the edge {key!r} takes a dict of fields, not {options!r}")
        given = _validated(f"edge {key!r}: ", _EdgeFields, options)
        inlets[key] = replace(inlets[key], **{each: getattr(given, each) for each in options})
    return tuple(inlets.values())


def _check_used(key: str, options: Mapping[str, Any], projection: Projection) -> None:
    """Some edges have no filter, others no norm, and without a norm there is no gain."""
    used = dict.fromkeys(("map", "resample", "scale"), projection.kind in WEIGHTLESS)
    used |= {"filter": projection.kind in ("conv", "transposed"), "gain": projection.norm != "none"}
    for field, value in options.items():
        if not used.get(field, projection.norm == value):
            raise ShapeProblem(f"it gives its {key!r} edge no `{field}` of its own")


def _validated(what: str, kind: type[C], fields: Mapping[str, Any]) -> C:
    try:
        return kind(**fields)
    except ValidationError as error:
        messages = [_message(item, kind) for item in error.errors()]
        raise ShapeProblem(f"{what}{'; '.join(messages)}") from None


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
