"""Edge and CellModule: the declarations of a cell as torch modules."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells import ACTIVATIONS, NORMS, Cell, Projection, Site
from ladderspec.cells.base import deviation, normalised_shape
from ladderspec.cells.binding import bind
from ladderspec.cells.functions import per_channel
from ladderspec.cells.parameters import Parameter, shareable
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape
from ladderspec.nn.norms import FIRST, BatchNorm, TimeStep, make_norm

Values = Mapping[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]


class ModulePath(NamedTuple):
    """Where a module stands: looked up at every call, so that another one can take its place."""

    parent: nn.Module
    path: tuple[str, ...]

    @property
    def module(self) -> nn.Module:
        found = self.parent
        for part in self.path:
            found = cast(nn.Module, found._modules[part])  # not getattr: a level may be `train`
        return found


def path_to(root: nn.Module, name: str) -> ModulePath:
    """Where the module of a dotted name stands, from the first part of its name on."""
    first, *path = name.split(".")
    return ModulePath(cast(nn.Module, root._modules[first]), tuple(path))


class Declared(nn.Module):
    """A module whose parameters were declared, with their initial values.

    Those that it shares with another module are registered there alone, and fetched.
    """

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, Parameter] = {}
        self.borrowed: frozenset[str] = frozenset()
        self.lender: ModulePath | None = None  # of what is borrowed

    def tensor(self, name: str) -> Tensor:
        """A parameter or buffer, its own or borrowed."""
        home = self.lender.module if self.lender and name in self.borrowed else self
        found: Tensor = getattr(home, name)
        return found

    def declare(
        self, parameters: Mapping[str, Parameter], draw: bool = False, shared: bool = False
    ) -> None:
        """Register parameters; if not `draw`, their values wait for `initialise`.

        If `shared`, those that can be shared are left to the `lender`.
        """
        self.borrowed = frozenset(shareable(parameters) if shared else ())
        for name, parameter in parameters.items():
            if name in self.borrowed:
                continue
            self.declared[name] = parameter
            tensor = torch.empty(parameter.shape)
            if draw:
                parameter.fill(tensor)
            if parameter.buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))


def initialise(module: nn.Module, seed: int) -> None:
    """Draw every declared parameter from `seed` and its full name within `module`.

    Two networks thus agree on all parameters that they share.

    Args:
        module: A cell, or a module that contains cells.
        seed: The seed of the network.
    """
    with torch.no_grad():
        for path, part in module.named_modules():
            if isinstance(part, Declared):
                for name, parameter in part.declared.items():
                    full = f"{path}.{name}" if path else name
                    generator = torch.Generator().manual_seed(seed_of(seed, full))
                    parameter.fill(getattr(part, name), generator)


def seed_of(seed: int, name: str) -> int:
    """A seed of its own for every name, the same in every process and on every machine."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


class Edge(Declared):
    """What one edge does to the value it carries: a linear map, then perhaps a norm with a gain.

    Args:
        projection: The map, its norm and its initial values.
        iterations: How many iterations have statistics of their own in a batch norm.
        draw: Whether to draw initial values now; otherwise they wait for `initialise`.
        shared: Whether its parameters are those of its `lender`.

    >>> edge = Edge(Projection("transposed", (8, 6, 6), (4, 11, 11), (3, 3), (2, 2)))
    >>> {name: tuple(parameter.shape) for name, parameter in edge.named_parameters()}
    {'weight': (8, 4, 3, 3)}
    """

    weight: Tensor
    gain: Tensor
    drop: float = 0.0  # dropout probability of what it carries (Srivastava et al. 2014)

    def __init__(
        self,
        projection: Projection,
        iterations: int = 1,
        draw: bool = True,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self.projection = projection
        self.declare(projection.parameters, draw, shared)
        kind, groups = projection.norm, projection.groups
        self.norm = make_norm(kind, projection.target[0], groups, iterations)

    def forward(
        self,
        x: Tensor,
        step: TimeStep = FIRST,
        bias: Tensor | None = None,
        further: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Map and norm of x, with `bias` (by channel) added.

        With `further`, gain and bias are left to the caller; in a clean pass, `mean` and `std` of
        the norm are added to it.
        """
        if self.drop and self.training:
            x = functional.dropout(x, self.drop)
        projection = self.projection
        weight = self.tensor("weight") if projection.has_weight else None
        if self.norm is None:
            return step.ops.project(projection, x, weight, bias)
        y = step.ops.project(projection, x, weight, None)
        if further is not None:
            return _normalised(self.norm, y, step, further)
        normal: Tensor = self.norm(y, self.tensor("gain"), bias, step)
        return normal

    @property
    def keeps_zeros(self) -> bool:
        """Whether zeros come out if zeros go in, without the bias."""
        return self.norm is None or NORMS[self.projection.norm].keeps_zeros

    def extra_repr(self) -> str:
        p = self.projection
        size = f", {p.filter}, stride {p.stride}" if p.kind in ("conv", "transposed") else ""
        drop = f", drop {self.drop:g}" if self.drop else ""
        return f"{p.kind}, {show_shape(p.source)} -> {show_shape(p.target)}{size}{drop}"


def _normalised(norm: nn.Module, x: Tensor, step: TimeStep, further: dict[str, Tensor]) -> Tensor:
    """x after a norm, without gain and bias."""
    if step.clean and isinstance(norm, BatchNorm):
        further["mean"], further["std"] = norm.moments(x, step)
    normal: Tensor = norm(x, None, None, step)
    return normal


class CellModule(Declared):
    """A cell at its place: called with one value per edge, it returns its output and what else it
    knows: `c` of an LSTM, `logits` of a SoftMax.

    Args:
        cell: the cell with its fields.
        site: where it stands, with all edges that enter.
        out: the shape of its output.
        projections: what each edge owns, by its key.
        parameters: what the node owns.
        iterations: how many iterations have statistics of their own in batch norms.
        name: of the node, for messages.
        draw: whether to draw initial values now; else they wait for `initialise`.
        shared: the edges whose parameters are those of their lenders; "" is the node itself.
        tapped: whether to return the normalised pre-activation too.
    """

    def __init__(
        self,
        cell: Cell,
        site: Site,
        out: Shape,
        projections: Mapping[str, Projection],
        parameters: Mapping[str, Parameter],
        iterations: int = 1,
        name: str = "",
        draw: bool = True,
        shared: Collection[str] = (),
        tapped: bool = False,
    ) -> None:
        super().__init__()
        self.node, self.tapped, self.deviation = name, tapped, deviation(cell)
        self.cell, self.out, self.name = cell, out, f"{name} ({cell.cell})" if name else cell.cell
        self.keys = tuple(projections)
        for key, projection in projections.items():
            edge = Edge(projection, iterations, draw, key in shared)
            self._modules[key] = edge  # a key may be any name
        for key in parameters:
            if hasattr(self, key):
                message = f"`parameters` names `{key}`, which the module has itself; rename it"
                raise UsageError(f"{self.name}: {message}")
        self.declare(parameters, draw, "" in shared)
        self.binding = bind(cell, site, out, projections, parameters, self.name)
        self.constants = dict(self.binding.constants)
        if "activation" in self.constants:
            self.constants["activation"] = ACTIVATIONS[self.constants["activation"]].compute
        self.norm_name, kind, groups = cell.node_norm()
        if kind != "none":
            norm = make_norm(kind, self.binding.summed, groups, iterations)
            self._modules[self.norm_name] = norm
        # z in a = gain . z + offset, if it is needed by itself
        self.normalised: Shape | None = None
        if tapped or self.deviation:
            self.normalised = normalised_shape(cell, projections)
        self.checked = not type(cell).__module__.startswith("ladderspec.")

    def first_value(self, batch: int) -> Tensor | None:
        """What delayed edges carry before the first iteration, (B, ...); None: zeros.

        Random numbers behind it are drawn in training, and those of the buffer in evaluation.
        """
        if self.cell.first_value is None:
            return None
        noise = cast(Tensor, self.noise)
        repeated = noise.repeat(batch // len(noise), *(1 for _ in noise.shape[1:]))
        noise = torch.randn_like(repeated) if self.training else repeated
        tensors = {name: self.tensor(name) for name in self.binding.first_tensors}
        found: Tensor = self.cell.first_value(noise, **tensors, **self.binding.first_constants)
        return found

    def _has(self, name: str) -> bool:
        return name in self.declared or name in self.borrowed

    def edge(self, key: str) -> Edge:
        return cast(Edge, self._modules[key])

    def may_lack(self, key: str) -> bool:
        """Whether zeros on this edge change nothing, so that a call may leave it out."""
        if key in self.binding.separate:  # a cell without its past starts from zeros
            optional = key == Role.STATE and key in self.binding.optional
            return optional and self.edge(key).keeps_zeros
        return key != self.binding.carrier and self.edge(key).keeps_zeros

    # --- computation ------------------------------------------------------------------------------

    def forward(
        self, values: Values, previous: Values | None = None, step: TimeStep = FIRST
    ) -> Result:
        """Output and further values, from one value per edge.

        `previous` holds the further values of the iteration from which the `state` edge comes.
        """
        binding, norm = self.binding, self._modules.get(self.norm_name)
        offset = self.tensor(self.cell.offset) if self._has(self.cell.offset) else None
        joint = norm is not None and self._has("gain")  # then the offset follows the norm
        apart: dict[str, Tensor] | None = None if self.normalised is None else {}
        of_edge = apart if norm is None else None
        total: Tensor | None = None
        separate: dict[str, Tensor] = {}
        for key in self.keys:
            if key in values:
                bias = offset if key == binding.carrier and not joint else None
                if of_edge is not None and key == binding.carrier:
                    z = self.edge(key)(values[key], step, further=of_edge)
                    y = self._scaled(z, self.edge(key).tensor("gain"), bias, step, of_edge)
                else:
                    y = self.edge(key)(values[key], step, bias)
                if key in binding.separate:
                    separate[key] = y
                else:
                    total = y if total is None else total + y
        keywords = dict(self.constants)
        for name, owner in binding.tensors.items():
            keywords[name] = (self.edge(owner) if owner else self).tensor(name)
        if norm is not None:
            gain, shift = (self.tensor("gain"), offset) if joint else (None, None)
            if binding.norm_in_compute:
                keywords["norm"] = lambda a: norm(a, gain, shift, step)
            elif apart is not None:
                assert total is not None
                z = _normalised(norm, total, step, apart)
                total = self._scaled(z, gain, shift, step, apart)
            else:
                total = norm(total, gain, shift, step)
        arguments: list[Any] = []
        for source, name in binding.positional:
            if source == "a":
                arguments.append(total)
            elif source == "edge":
                arguments.append(separate.get(name))
            elif source == "edges":
                arguments.append(separate)
            elif name == "h":
                arguments.append(values.get(Role.STATE))
            else:
                arguments.append(previous.get(name) if previous else None)
        result = self.cell.compute(*arguments, **keywords)
        returns = self.cell.returns
        if self.checked:
            self._check_count(result)
        if not returns:
            output, further = result, {}
        else:
            output, *rest = result
            further = dict(zip(returns, rest, strict=True))
        if self.checked:
            self._check(output, further, next(iter(values.values())).shape[0])
        return output, {**further, **apart} if apart else further

    def _scaled(
        self,
        z: Tensor,
        gain: Tensor | None,
        offset: Tensor | None,
        step: TimeStep,
        further: dict[str, Tensor],
    ) -> Tensor:
        """gain . (z + noise) + offset; z with its noise is kept in `further`."""
        noise = self._noise(z) if step.noise is None else step.noise.get(self.node)
        z = z if noise is None else z + noise.to(z.dtype)
        further["normalised"] = z
        a = z if gain is None else z * per_channel(gain, z)
        return a if offset is None else a + per_channel(offset, a)

    def _noise(self, z: Tensor) -> Tensor | None:
        return self.deviation * torch.randn_like(z) if self.deviation and self.training else None

    def _check_count(self, result: Any) -> None:
        """What the cell of a user returns are as many values as it declares."""
        wanted = ("the output", *(f"`{name}`" for name in self.cell.returns))
        count = len(result) if isinstance(result, tuple) else 1
        if count != len(wanted):
            found = f"{count} values" if count != 1 else f"a {type(result).__name__}"
            raise UsageError(
                f"{self.name}: `compute` returns {', '.join(wanted)}, says `returns`;"
                f" it returned {found}"
            )

    def _check(self, output: Any, further: dict[str, Tensor], batch: int) -> None:
        """What the cell of a user returns has the shapes that it declares."""
        wanted = {"": self.out, **self.cell.state_shapes(self.out)}
        for name, shape in wanted.items():
            value = further.get(name) if name else output
            what, method = (f"`{name}`", "state_shapes") if name else ("output", "out_shape")
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise UsageError(f"{self.name}: the {what} of `compute` is a {kind}, not a tensor")
            if tuple(value.shape) != (batch, *shape):
                raise UsageError(
                    f"{self.name}: the {what} of `compute` is {tuple(value.shape)},"
                    f" but `{method}` says {(batch, *shape)}"
                )

    def extra_repr(self) -> str:
        return f"{self.cell.cell}, {show_shape(self.out)}"


def nest(root: nn.Module, modules: Mapping[str, nn.Module]) -> None:
    """Put modules under their dotted names, so that parameter keys are the names of the diagram."""
    for name, module in modules.items():
        *path, last = name.split(".")
        parent = root
        # Not get_submodule, nor add_module: a level or a task may be called `train`.
        for part in path:
            parent = cast(nn.Module, parent._modules.setdefault(part, nn.Module()))
        parent._modules[last] = module
