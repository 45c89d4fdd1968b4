"""Where each argument of `compute` comes from: what a network runs, and what an export writes."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ladderspec.cells.base import Cell, Signature, Site
from ladderspec.cells.parameters import Parameter
from ladderspec.cells.projections import MAIN_ROLES, Projection
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape


class Keywords(NamedTuple):
    """The sources of keyword arguments."""

    tensors: dict[str, str]  # parameters: the edge that owns each, or "" if the node does
    constants: dict[str, Any]  # fields, and values that follow from shapes


@dataclass(frozen=True)
class Binding:
    """The sources of all arguments of a cell's `compute` and `first_value`."""

    signature: Signature
    separate: frozenset[str]  # edges that do not enter the sum
    carrier: str  # the edge whose term includes the offset
    summed: int  # channels of the sum
    keywords: Keywords  # of `compute`
    first: Keywords  # of `first_value`, besides its noise


def bind(
    cell: Cell,
    site: Site,
    out: Shape,
    projections: Mapping[str, Projection],
    parameters: Mapping[str, Parameter],
    name: str = "",
) -> Binding:
    """Find where each argument of `compute` comes from.

    Args:
        cell: The cell with its fields.
        site: Where it stands.
        out: The shape of its output.
        projections: What each edge owns, by its key.
        parameters: What the node owns.
        name: Of the node, for messages. Default: the name of the cell.

    Raises:
        UsageError: if the declarations of the cell contradict its `compute`.
    """
    signature = cell.signature()
    terms = {key: each for key, each in projections.items() if signature.sums(key)}
    carrier = str(next((key for key in MAIN_ROLES if key in terms), next(iter(terms), "")))
    owners = {name: key for key, each in projections.items() for name in each.extra}
    owners |= dict.fromkeys(parameters, "")
    constants = {"out": out, **cell.constants(site, out)}

    def sources(names: Collection[str], optional: Collection[str] = ()) -> Keywords:
        found = Keywords({}, {})
        for name in names:
            if name in owners:
                found.tensors[name] = owners[name]
            elif name in constants or name in optional:
                found.constants[name] = constants.get(name)
            elif hasattr(cell, name):
                found.constants[name] = getattr(cell, name)
        return found

    first = inspect.signature(cell.first_value).parameters if cell.first_value else ()
    found = Binding(
        signature,
        frozenset(projections.keys() - terms.keys()),
        carrier,
        terms[carrier].target[0] if terms else 0,
        sources([each for each in signature.keywords if each != "norm"], signature.optional),
        sources([each for each in first if each != "noise"]),
    )
    for problem in _problems(cell, found, projections, parameters, cell.state_shapes(out)):
        raise UsageError(f"{name or cell.cell}: {problem}")
    return found


def _problems(
    cell: Cell,
    binding: Binding,
    projections: Mapping[str, Projection],
    parameters: Mapping[str, Parameter],
    states: Collection[str],
) -> Iterator[str]:
    """Contradictions between what a cell declares and what its `compute` reads."""
    (positional, keywords, optional), (tensors, constants) = binding.signature, binding.keywords
    for name in states:
        if name not in cell.returns:
            yield f"`state_shapes` names `{name}`, `returns` does not"
    for name in positional:
        if name in frozenset(Role):
            if name not in projections and name not in optional:
                yield (
                    f"`compute` reads `{name}`, but what arrives there is {', '.join(projections)};"
                    " a cell that cannot do without an edge lists it in `needs`, one that can has"
                    f" `{name}=None`"
                )
        elif name == "h" or name in states:
            if name not in optional:
                yield (
                    f"`compute` reads `{name}`, which does not exist before the first iteration;"
                    f" write `{name}=None`"
                )
        elif name not in ("a", "edges"):
            yield (
                f"`compute` reads `{name}`, which is no role, no state and not `a`; fields and"
                " parameters are keyword-only, after a `*`"
            )
    for name in keywords:
        if name not in (*tensors, *constants, "norm"):
            yield f"`compute` reads `{name}`, which is no parameter, field or property of the cell"
    normed = cell.node_norm()[1] != "none"
    if "norm" in keywords and not normed and "norm" not in optional:
        yield "`node_norm` has no norm; write `norm=None`"
    read = {cell.offset, *tensors, *binding.first.tensors, *(["gain"] if normed else [])}
    read |= {"noise"} if cell.first_value else set()
    for name in parameters:
        if name not in read and not name.startswith("initial"):
            yield (
                f"`parameters` declares `{name}`, but `compute` does not read it and `offset` is"
                f" {cell.offset!r}"
            )
    # the sum `a`
    for key in (key for key in projections if key not in binding.separate):
        target, first = projections[key].target, projections[binding.carrier].target
        if "a" not in binding.signature.positional:
            yield (
                f"`compute` does not read `{key}`, which arrives there; name it, or read `a`, or"
                " leave it out of `takes`"
            )
        if target != first:
            yield (
                f"`a` sums edges, but `{key}` leads to {show_shape(target)} and"
                f" `{binding.carrier}` to {show_shape(first)}"
            )
    offset, channels = parameters.get(cell.offset), binding.summed
    if offset is not None and channels and offset.shape != (channels,):
        yield (
            f"the offset `{cell.offset}` is {show_shape(offset.shape)}, but `a` has {channels}"
            " channels"
        )
    if normed and not channels:
        yield "`node_norm` needs edges that enter the sum `a`"
