"""Shapes and fields -> a cell module with all its edges, without any YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, ValidationError
from torch import Tensor

from ladderspec.cells import Cell, Config, Inlet, ShapeProblem, Site, registered
from ladderspec.cells.fields import Count, NormName, Pair, PairField, refusal
from ladderspec.cells.grouping import Groups
from ladderspec.cells.projections import strided, unused_options
from ladderspec.errors import did_you_mean, one_of
from ladderspec.names import TABLE, Role, Shape, Side, show_shape
from ladderspec.nn.modules import CellModule, Result, Values
from ladderspec.nn.norms import FIRST, TimeStep
from ladderspec.wording import plain_words

_OF_DECODERS = {role for role, row in TABLE.items() if row.target is Side.DECODER}
C = TypeVar("C", bound=Config)


def _shape(value: Any) -> Any:
    if isinstance(value, tuple | list) and len(value) in (1, 3):
        return tuple(value)
    raise refusal("S104", "a shape is (units,) or (channels, height, width)")


ShapeField = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_shape)]


class EdgeFields(Config):
    """The options that single edges may have."""

    filter: PairField | None = None
    norm: NormName | None = None
    gain: Annotated[float, Field(ge=0, le=1000)] | None = None
    map: Literal["identity"] | None = None
    resample: Literal["nearest", "bilinear"] | None = None
    scale: float | None = None


class Position(Config):
    """Where a cell stands: the arguments of `of`, besides the fields of the cell."""

    inputs: dict[str, ShapeField]
    out: ShapeField | None = None
    iterations: Count = 1
    edges: dict[str, EdgeFields] = Field({})
    groups: Groups | None = None
    stride: PairField | None = None


def cells_by_name() -> dict[str, dict[Side, type[Cell]]]:
    """The registered cells by the names of their modules, and by side: convG3 is ConvG3 here."""
    found: dict[str, dict[Side, type[Cell]]] = {}
    for side in (Side.ENCODER, Side.DECODER):
        for name, cell in registered(side).items():
            found.setdefault(name[:1].upper() + name[1:], {})[side] = cell
    return found


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
        kinds = cells_by_name()[cls.__name__]
        if not isinstance(inputs, Mapping):
            inputs = {"encoder" if Side.ENCODER in kinds else "decoder": inputs}
        try:
            roles = {key: _role(key) for key in inputs}
            decodes = Side.ENCODER not in kinds or not _OF_DECODERS.isdisjoint(roles.values())
            side = Side.DECODER if Side.DECODER in kinds and decodes else Side.ENCODER
            given = {"inputs": inputs, "out": out, "iterations": iterations, "groups": groups}
            if side is Side.DECODER:
                given["stride"] = fields.pop("stride", None)
            place = _validated(Position, {**given, "edges": edges or {}})
            if strange := [field for field in fields if field in Cell.model_fields]:
                raise ShapeProblem(f"`{strange[0]}` is a field of specs, not of modules")
            made = _make(_validated(kinds[side], fields), side, roles, place)
        except ShapeProblem as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            raise ValueError(f"{cls.__name__}: {problem.message}{hint}") from None
        return cls(*made, place.iterations)

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


def _make(cell: Cell, side: Side, roles: Mapping[str, Role], place: Position) -> tuple[Any, ...]:
    """The cell, its site, its output shape, its projections and parameters."""
    _check_roles(cell, side, roles)
    shapes, row = place.inputs, place.stride
    back = None if row is None else (-row[0], -row[1])  # a decoder leads back
    inlets = {
        key: Inlet(key, role, TABLE[role].delay if role in TABLE else 0, shapes[key], stride=back)
        for key, role in roles.items()
    }
    level = place.out or (shapes.get("lateral") if side is Side.DECODER else None)
    if side is Side.ENCODER and level is not None:
        raise ShapeProblem("`out` is for decoders; the shape of an encoder follows from its input")
    if side is Side.DECODER and level is None and cell.cell != "Identity":
        raise ShapeProblem("give `out`, the shape that it estimates, or a `lateral` edge")
    if row and level and "decoder" in shapes:
        _check_stride(shapes["decoder"], level, row)
    above = shapes.get("decoder", level)
    site = Site(side, tuple(inlets.values()), level, above, place.groups)
    shape = cell.out_shape(site)
    if cell.stateful:
        inlets["state"] = Inlet("state", Role.STATE, 1, shape)
    for key, own in place.edges.items():
        if key not in inlets:
            raise ShapeProblem(f"it has no edge {key!r}, only {', '.join(inlets)}")
        inlets[key] = replace(inlets[key], **own.model_dump(exclude_unset=True))
    site = replace(site, inlets=tuple(inlets.values()))
    projections = {key: cell.project(site, inlet, shape) for key, inlet in inlets.items()}
    for key, inlet in inlets.items():
        for option in unused_options(inlet, projections[key]):
            raise ShapeProblem(f"it gives its {key!r} edge no `{option}` of its own")
    return cell, site, shape, projections, cell.parameters(site, shape)


def _role(key: str) -> Role:
    if key == Role.STATE:
        raise ShapeProblem("its `state` edge follows from its other edges")
    if key in set(Role):
        return Role(key)
    if not key.startswith("skip"):
        hint = did_you_mean(key, list(Role)) or f"{one_of(list(Role))}, or skip_..."
        raise ShapeProblem(f"there is no edge {key!r}: {hint}")
    return Role.SKIP


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


def _validated(kind: type[C], fields: Mapping[str, Any]) -> C:
    try:
        return kind(**fields)
    except ValidationError as error:
        messages = "; ".join(_message(item, kind) for item in error.errors())
        raise ShapeProblem(messages) from None


def _message(item: Any, kind: type[Config]) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"`{field}` is missing"
    if item["type"] == "extra_forbidden":
        *path, field = map(str, item["loc"])
        nested: dict[str, type[Config]] = {"edges": EdgeFields, "groups": Groups}
        kind = nested.get(path[0], kind) if path else kind
        known = [name for name in kind.model_fields if name not in Cell.model_fields]
        hint = did_you_mean(field, known) or f"it has {', '.join(known) or 'none'}"
        where = f"`{'.'.join(path)}`: " if path else ""
        return f"{where}it has no field `{field}`: {hint}"
    context = item.get("ctx", {})
    known = re.findall(r"'(\w+)'", str(context.get("expected", "")))
    hint = context.get("hint") or did_you_mean(item["input"], known)
    return f"`{field}` is {item['input']!r}: {plain_words(item)}" + (f" ({hint})" if hint else "")
