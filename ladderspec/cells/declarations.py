"""The methods in which a user's cell declares itself: mistakes name the cell and the method."""

from __future__ import annotations

import functools
import reprlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladderspec.cells.norms import norm_names
from ladderspec.cells.parameters import Parameter
from ladderspec.cells.projections import Projection, ShapeProblem
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.names import Role
from ladderspec.plugins import is_built_in


def _is_shape(value: Any) -> bool:
    whole = isinstance(value, tuple) and all(isinstance(n, int) and n > 0 for n in value)
    return whole and len(value) in (1, 3)


def _is_dict(value: Any, is_right: Callable[[Any], bool]) -> bool:
    """Whether it is a dict of such values by name."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and name.isidentifier() and is_right(each)
        for name, each in value.items()
    )


def _is_norm(value: Any) -> bool:
    whole = isinstance(value, tuple) and [type(each) for each in value] == [str, str, int]
    return whole and value[1] in norm_names()


RETURNS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "needs": ("a set of roles", lambda value: isinstance(value, set | frozenset)),
    "out_shape": ("a shape, (units,) or (channels, height, width)", _is_shape),
    "project": ("a Projection", lambda value: isinstance(value, Projection)),
    "parameters": (
        "a dict of names and parameters, made with `zeros`, `ones`, `blocks` or `weight`",
        lambda value: _is_dict(value, lambda each: isinstance(each, Parameter)),
    ),
    "constants": ("a dict of names and values", lambda value: isinstance(value, dict)),
    "node_norm": ('(name, norm, groups), as in ("joint", "layer", 1)', _is_norm),
    "state_shapes": ("a dict of names and shapes", lambda value: _is_dict(value, _is_shape)),
}


def check_declarations(cell: Any, name: str) -> None:
    """Refuse a cell with mistakes that its class shows; let its methods report theirs.

    Args:
        cell: The class of a cell.
        name: Its name in specs.

    Raises:
        UsageError: if an attribute is not what it should be, or a method is missing.
    """
    if getattr(cell.out_shape, "__isabstractmethod__", False):
        raise UsageError(f"the cell {name} has no `out_shape`, see docs/own_cells.md")
    if not isinstance(cell.takes, set | frozenset):
        raise UsageError(f"`takes` of the cell {name} is {cell.takes!r}, not a set of roles")
    for role in cell.takes - set(Role):
        hint = did_you_mean(str(role), list(Role)) or one_of(list(Role))
        raise UsageError(f"`takes` of the cell {name} names {role!r}, which is no role: {hint}")
    if not isinstance(cell.returns, tuple):
        raise UsageError(f"`returns` of the cell {name} is {cell.returns!r}, not a tuple of names")
    for method in RETURNS:
        function = getattr(cell, method)
        if not is_built_in(function) and not hasattr(function, "__wrapped__"):
            setattr(cell, method, _reporting(function, method))


def _reporting(function: Callable[..., Any], method: str) -> Callable[..., Any]:
    """A method that says so if it fails or returns something else than it should."""
    wanted, is_right = RETURNS[method]

    @functools.wraps(function)
    def reporting(self: Any, *given: Any) -> Any:
        where = f"`{method}` of the cell {self.cell}"
        try:
            found = function(self, *given)
        except (ShapeProblem, UsageError, StopIteration, IndexError):
            raise  # the cell stands in a place that does not fit it: no mistake of its author
        except Exception as error:
            line = traceback.extract_tb(error.__traceback__)[:2][-1]  # of the method, if it began
            place = f"{Path(line.filename).name}:{line.lineno}"
            what = f"{type(error).__name__}: {error}"
            raise UsageError(f"{where} fails in {place} with {what}") from error
        if not is_right(found) and method == "out_shape":
            raise ShapeProblem(
                f"{where} returned {reprlib.repr(found)}, no shape", f"it returns {wanted}"
            )
        if not is_right(found):
            raise UsageError(f"{where} returned {reprlib.repr(found)}; it returns {wanted}")
        for name, each in found.items() if method == "parameters" else ():
            if problem := _problem(name, each):
                raise UsageError(f"{where}: {problem}")
        return found

    return reporting


def _problem(name: str, parameter: Parameter) -> str:
    """Why a parameter cannot be; empty if it can."""
    shape, values = parameter.shape, parameter.values
    if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        return f"the sizes of `{name}` are whole numbers above 0, not {shape}"
    if shape[0] % len(values):
        return f"`{name}` has {len(values)} values for {shape[0]} rows in equal blocks"
    return ""
