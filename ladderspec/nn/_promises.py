"""A module keeps what its words promise: parameters when it is built, values at its first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ladderspec import cells
from ladderspec.cells import Projection
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape


def check_parameters(
    module: nn.Module, who: str, own: Mapping[str, Shape], projections: Mapping[str, Projection]
) -> None:
    """The module has the parameters that its words promise, no more and no less."""
    promised = dict(own)
    for key, projection in projections.items():
        promised |= {f"{key}.{name}": shape for name, shape in projection.parameters.items()}
    found = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    if found != promised:
        wrong = sorted(found.items() ^ promised.items())
        shown = ", ".join(f"{name} {show_shape(shape)}" for name, shape in wrong)
        raise UsageError(f"{who}: parameters differ from what its words promise: {shown}")


def refuse_missing(node: str, values: Mapping[str, Tensor], error: KeyError) -> None:
    """A module that reads an arrow which the spec has taken away."""
    key = error.args[0] if error.args else None
    if key in list(Role) and key not in values:
        raise UsageError(
            f"{node}: its module reads `{key}`, but what arrives there is {', '.join(values)};"
            " a cell that cannot do without an arrow says so in `needs`"
        ) from error


def watch(module: nn.Module, who: str, words: cells.Cell, out: Shape) -> None:
    """Check what the module of a user's own cell gives, at its first call alone."""
    hook = _FirstCall(who, {"": out, **words.state_shapes(out)})
    hook.handle = module.register_forward_hook(hook)


class _FirstCall:
    """A hook that takes itself off, so that later calls cost nothing."""

    handle: RemovableHandle

    def __init__(self, who: str, shapes: Mapping[str, Shape]) -> None:
        self.who, self.shapes = who, shapes  # of the output under "", and of what it remembers

    def __call__(self, module: nn.Module, inputs: tuple[Any, ...], result: Any) -> None:
        if torch.compiler.is_compiling():
            return  # what a compiler traces has no first call
        problem = self._problem(result, _batch(inputs))
        if problem:
            raise UsageError(f"{self.who}: {problem}")
        self.handle.remove()

    def _problem(self, result: Any, batch: int | None) -> str:
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
            return (
                "its module must return the output and a dict, as in `return y, {}`;"
                f" it returned {_kind(result)}"
            )
        for name, shape in self.shapes.items():
            value = result[1].get(name) if name else result[0]
            what, promise = (f"`{name}`", "state_shapes") if name else ("output", "out_shape")
            if name and value is None:
                return f"its module returns no {what} in its dict, as `{promise}` promises"
            if not isinstance(value, Tensor):
                return f"the {what} of its module must be a tensor, not {_kind(value)}"
            if value.shape[1:] != shape or batch not in (None, value.shape[0]):
                wanted = ("B" if batch is None else batch, *shape)
                given = _size(tuple(value.shape))
                return f"the {what} of its module is {given}, but `{promise}` says {_size(wanted)}"
        return ""


def _batch(inputs: tuple[Any, ...]) -> int | None:
    values = inputs[0] if inputs and isinstance(inputs[0], Mapping) else {}
    return next((value.shape[0] for value in values.values()), None)


def _size(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {_size(tuple(value.shape))}"
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(map(_kind, value)) or 'nothing'}"
    return "nothing" if value is None else f"a {type(value).__name__}"
