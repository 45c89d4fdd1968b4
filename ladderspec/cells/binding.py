"""Where each argument of `compute` comes from: what a network runs, and what an export writes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ladderspec.cells.base import Cell, Site
from ladderspec.cells.parameters import Parameter
from ladderspec.cells.projections import MAIN_ROLES, Projection
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape


class Argument(NamedTuple):
    """A positional argument: the sum `a`, all `edges`, one `edge`, or a `state` by name."""

    source: Literal["a", "edges", "edge", "state"]
    name: str


@dataclass(frozen=True)
class Binding:
    """The sources of all arguments of a cell's `compute` and `first_value`."""

    positional: tuple[Argument, ...]
    tensors: dict[str, str]  # keyword arguments that are parameters: the edge that owns it, or ""
    constants: dict[str, Any]  # keyword arguments that are fields, or follow from shapes
    optional: frozenset[str]  # arguments that may be None
    separate: frozenset[str]  # edges that do not enter the sum
    carrier: str  # the edge whose term includes the offset
    summed: int  # channels of the sum
    norm_in_compute: bool
    first_tensors: tuple[str, ...]  # what `first_value` reads besides its noise
    first_constants: dict[str, Any]


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
    who, signature = name or cell.cell, cell.signature()
    separate = frozenset(projections if "edges" in signature.positional else signature.separate)
    terms = [key for key in projections if key not in separate]
    carrier = str(next((key for key in MAIN_ROLES if key in terms), terms[0] if terms else ""))
    summed = projections[carrier].target[0] if carrier else 0
    _check_sum(who, cell, {key: projections[key] for key in terms}, carrier, parameters)
    shared = {"out": out, **cell.constants(site, out)}
    tensors: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for keyword in signature.keywords:
        owners = [key for key, each in projections.items() if keyword in each.extra]
        if keyword in parameters or owners:
            tensors[keyword] = "" if keyword in parameters else owners[0]
        elif keyword in shared:
            constants[keyword] = shared[keyword]
        elif keyword in signature.optional:
            constants[keyword] = None
        elif keyword != "norm":
            if not hasattr(cell, keyword):
                raise UsageError(
                    f"{who}: `compute` reads `{keyword}`, which is no parameter, field or property"
                    " of the cell"
                )
            constants[keyword] = getattr(cell, keyword)
    has_norm = cell.node_norm()[1] != "none"
    if "norm" in signature.keywords and not has_norm and "norm" not in signature.optional:
        raise UsageError(f"{who}: `node_norm` has no norm; write `norm=None`")
    constants.pop("norm", None)
    first = () if cell.first_value is None else inspect.signature(cell.first_value).parameters
    first_tensors = tuple(each for each in first if each in parameters and each != "noise")
    found = Binding(
        tuple(_positional(who, cell, out, projections)),
        tensors,
        constants,
        signature.optional,
        separate,
        carrier,
        summed,
        "norm" in signature.keywords,
        first_tensors,
        {each: shared[each] for each in first if each not in ("noise", *first_tensors)},
    )
    _check_read(who, cell, found, parameters)
    return found


def _positional(
    who: str, cell: Cell, out: Shape, projections: Mapping[str, Projection]
) -> list[Argument]:
    signature, states = cell.signature(), cell.state_shapes(out)
    for name in states:
        if name not in cell.returns:
            raise UsageError(f"{who}: `state_shapes` names `{name}`, `returns` does not")
    found = []
    for name in signature.positional:
        if name in ("a", "edges"):
            found.append(Argument("a" if name == "a" else "edges", name))
        elif name in frozenset(Role):
            if name not in projections and name not in signature.optional:
                raise UsageError(
                    f"{who}: `compute` reads `{name}`, but what arrives there is"
                    f" {', '.join(projections)}; a cell that cannot do without an edge lists it in"
                    f" `needs`, one that can has `{name}=None`"
                )
            found.append(Argument("edge", name))
        elif name == "h" or name in states:
            if name not in signature.optional:
                raise UsageError(
                    f"{who}: `compute` reads `{name}`, which does not exist before the first"
                    f" iteration; write `{name}=None`"
                )
            found.append(Argument("state", name))
        else:
            raise UsageError(
                f"{who}: `compute` reads `{name}`, which is no role, no state and not `a`; fields"
                " and parameters are keyword-only, after a `*`"
            )
    return found


def _check_sum(
    who: str,
    cell: Cell,
    terms: Mapping[str, Projection],
    carrier: str,
    parameters: Mapping[str, Parameter],
) -> None:
    """Refuse edges, an offset and a norm that do not fit the sum `a`."""
    for key, term in terms.items():
        if "a" not in cell.signature().positional:
            raise UsageError(
                f"{who}: `compute` does not read `{key}`, which arrives there; name it, or read"
                " `a`, or leave it out of `takes`"
            )
        if term.target != terms[carrier].target:
            raise UsageError(
                f"{who}: `a` sums edges, but `{key}` leads to {show_shape(term.target)} and"
                f" `{carrier}` to {show_shape(terms[carrier].target)}"
            )
    channels, offset = terms[carrier].target[0] if carrier else 0, parameters.get(cell.offset)
    if offset is not None and channels and offset.shape != (channels,):
        raise UsageError(
            f"{who}: the offset `{cell.offset}` is {show_shape(offset.shape)}, but `a` has"
            f" {channels} channels"
        )
    if cell.node_norm()[1] != "none" and not channels:
        raise UsageError(f"{who}: `node_norm` needs edges that enter the sum `a`")


def _check_read(
    who: str, cell: Cell, binding: Binding, parameters: Mapping[str, Parameter]
) -> None:
    """Refuse parameters that nothing reads."""
    read = {cell.offset, *binding.tensors, *binding.first_tensors}
    read |= {"gain"} if cell.node_norm()[1] != "none" else set()
    read |= {"noise"} if cell.first_value is not None else set()
    for name in parameters:
        if name not in read and not name.startswith("initial"):
            raise UsageError(
                f"{who}: `parameters` declares `{name}`, but `compute` does not read it and"
                f" `offset` is {cell.offset!r}"
            )
