"""The calls of torch that a function makes, noted by torch.fx while it runs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.overrides import TorchFunctionMode, is_tensor_method_or_property
from torch.utils.weak import WeakTensorKeyDictionary

# Tensors, and what else comes in -> a nest of dicts and tuples of tensors.
Plain = Callable[..., Any]


class Tape:
    """The calls of torch that were made, to be repeated with other tensors of the same shape."""

    def __init__(self, code: Plain, constants: list[Tensor], numbers: tuple[int, ...]) -> None:
        self.code, self.constants, self.numbers = code, constants, numbers

    def __call__(self, *given: Any) -> Any:
        return self.code(*given, *self.constants)


def record(plain: Plain, given: tuple[Any, ...], numbers: tuple[int, ...]) -> tuple[Any, Tape]:
    """What `plain` gives, and the tape of it."""
    recorder = _Recorder()
    # Data under identities of their own: the same tensor may come in twice.
    own = [recorder.enters(each) for each in given]
    with recorder:
        found = plain(*own)
    return found, Tape(recorder.code(found), recorder.constants, numbers)


class _Recorder(TorchFunctionMode):
    """Notes every call of torch that gives tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = fx.Graph()
        self.nodes = WeakTensorKeyDictionary()
        self.others: dict[int, fx.Node] = {}  # what comes in and is no tensor, by identity
        self.constants: list[Tensor] = []
        self.count = 0  # of what came in
        self.last: fx.Node | None = None  # of the placeholders

    def enters(self, value: Any) -> Any:
        """What comes in; a tensor that is data under a new identity."""
        place = self._place(f"x{self.count}")
        self.count += 1
        if not isinstance(value, Tensor):
            self.others[id(value)] = place
            return value
        # Gradients of an alias would be added up apart, and then rounded otherwise.
        alias = value if value.requires_grad else value.detach()
        if alias not in self.nodes:
            self.nodes[alias] = place
        return alias

    def _place(self, name: str) -> fx.Node:
        with self.graph.inserting_after(self.last):
            self.last = self.graph.placeholder(name)
        return self.last

    def _node(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return self.others.get(id(value), value)
        if value not in self.nodes:
            self.nodes[value] = self._place(f"w{len(self.constants)}")
            self.constants.append(value)
        return self.nodes[value]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.__name__
        assert name != "__setitem__", "is not noted, and no cell calls it"
        assert name != "__get__" or not isinstance(result, Tensor), "nor this"
        several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
        found = list(result) if several else [result]
        if any(isinstance(value, Tensor) for value in found):
            given = fx.node.map_aggregate((tuple(args), dict(kwargs or {})), self._node)
            if is_tensor_method_or_property(func):
                call = self.graph.call_method(name, *given)
            else:
                call = self.graph.call_function(func, *given)
            for i, value in enumerate(found):
                part = self.graph.call_function(operator.getitem, (call, i)) if several else call
                self.nodes[value] = part
        return result

    def code(self, result: Any) -> Plain:
        """All that was noted, as one function of what came in and of the constants."""
        self.graph.output(fx.node.map_aggregate(result, self._node))
        # Not a GraphModule: fx would keep its source for ever.
        made = self.graph.python_code("self")
        names = dict(made.globals)
        exec(made.src, names)
        return partial(names["forward"], None)
