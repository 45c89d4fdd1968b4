"""Shapes and fields -> a cell with all its arrows, without any YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from torch import nn

from ladderspec.cells import Cell as Words
from ladderspec.cells import Inlet, ShapeProblem, Site, registered
from ladderspec.errors import did_you_mean, one_of
from ladderspec.names import Role, Shape, Side
from ladderspec.nn._build import build_cell
from ladderspec.nn._checks import check_shape, check_sizes, pair

_OF_DECODERS = {Role.DECODER, Role.LATERAL, Role.DOWNWARD_DIAGONAL, Role.RECURRENT_DECODER}


def cell_of(
    name: str,
    inputs: Shape | Mapping[str, Shape],
    out: Shape | None,
    iterations: int,
    fields: dict[str, Any],
) -> nn.Module:
    """See `Cell.of`."""
    sides = _sides(name)
    shapes = _by_arrow(inputs, "encoder" if Side.ENCODER in sides else "decoder")
    roles = {key: _role(name, key) for key in shapes}
    decodes = Side.DECODER in sides and not _OF_DECODERS.isdisjoint(roles.values())
    side = Side.DECODER if decodes or Side.ENCODER not in sides else Side.ENCODER
    stride = fields.pop("stride", None) if side is Side.DECODER else None
    words = _words(name, sides[side], fields)
    _check_roles(name, words, side, roles)
    row = None if stride is None else pair("stride", stride)
    against = None if row is None else (-row[0], -row[1])  # a decoder leads back
    inlets = tuple(Inlet(k, roles[k], 0, s, stride=against) for k, s in shapes.items())
    site = _site(name, side, inlets, out)
    if row and site.level and "decoder" in shapes:
        check_sizes("transposed", shapes["decoder"], site.level, row)
    try:
        return _built(words, site, iterations)
    except ShapeProblem as problem:
        hint = f" ({problem.hint})" if problem.hint else ""
        raise ValueError(f"{name}: {problem.message}{hint}") from None


def _sides(name: str) -> dict[Side, type[Words]]:
    """The words of a module's class, by the sides where it can stand."""
    return {
        side: kind
        for side in (Side.ENCODER, Side.DECODER)
        for word, kind in registered(side).items()
        if word.lower() == name.lower()
    }


def _built(words: Words, site: Site, iterations: int) -> nn.Module:
    out = words.out_shape(site)
    if words.stateful:
        state = Inlet("state", Role.STATE, 1, out)
        site = Site(site.side, (*site.inlets, state), site.level, site.row)
    projections = {inlet.key: words.project(site, inlet, out) for inlet in site.inlets}
    return build_cell(words, site, out, words.join(site, out), projections, iterations)


def _site(name: str, side: Side, inlets: tuple[Inlet, ...], out: Shape | None) -> Site:
    """Where a decoder stands is the level of its lateral, unless `out` says it."""
    if side is Side.ENCODER:
        if out is not None:
            raise ValueError(f"{name}: `out` is for decoders; what an encoder gives follows")
        return Site(side, inlets)
    shapes = {inlet.role: inlet.shape for inlet in inlets}
    level = out or shapes.get(Role.LATERAL)
    if level is None and name != "Identity":
        raise ValueError(f"{name}: say `out`, the shape that it estimates, or bring a `lateral`")
    return Site(side, inlets, level, shapes.get(Role.DECODER, level))


def _by_arrow(inputs: Shape | Mapping[str, Shape], main: str) -> dict[str, Shape]:
    found = dict(inputs) if isinstance(inputs, Mapping) else {main: inputs}
    for key, shape in found.items():
        check_shape(key, shape)
    return {key: tuple(shape) for key, shape in found.items()}


def _role(name: str, key: str) -> Role:
    if key == Role.STATE:
        raise ValueError(f"{name}: its `state` arrow follows from its other arrows")
    if key in set(Role):
        return Role(key)
    if not key.startswith("skip"):
        hint = did_you_mean(key, list(Role)) or f"{one_of(list(Role))}, or skip_..."
        raise ValueError(f"{name}: there is no arrow {key!r}: {hint}")
    return Role.SKIP


def _check_roles(name: str, words: Words, side: Side, roles: Mapping[str, Role]) -> None:
    for key, role in roles.items():
        if role not in words.takes:
            raise ValueError(f"{name} takes no {key} arrow")
    for role in words.needs(side) - {Role.STATE} - set(roles.values()):
        raise ValueError(f"{name} needs a shape for its {role} arrow")
    if words.single and len(roles) != 1:
        raise ValueError(f"{name} takes exactly one arrow, not {', '.join(roles)}")


def _words(name: str, kind: type[Words], fields: dict[str, Any]) -> Words:
    strange = [field for field in fields if field in Words.model_fields]
    if strange:
        raise ValueError(f"{name}: `{strange[0]}` belongs to specs")
    try:
        return kind(**fields)
    except ValidationError as error:
        said = [_said(item, kind) for item in error.errors()]
        raise ValueError(f"{name}: {'; '.join(said)}") from None


def _said(item: Any, kind: type[Words]) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"`{field}` is missing"
    if item["type"] == "extra_forbidden":
        known = [name for name in kind.model_fields if name not in Words.model_fields]
        hint = did_you_mean(field, known) or f"it has {', '.join(known) or 'none'}"
        return f"it has no field `{field}`: {hint}"
    hint = item.get("ctx", {}).get("hint", "")
    return f"`{field}` is {item['input']!r}: {item['msg']}" + (f" ({hint})" if hint else "")
