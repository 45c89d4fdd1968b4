"""Edge and CellModule: the declarations of a cell as torch modules."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells import ACTIVATIONS, NORMS, Cell, Projection, Site
from ladderspec.cells.base import deviation, normalised_shape
from ladderspec.cells.binding import bind
from ladderspec.cells.parameters import Parameter, shareable
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape
from ladderspec.nn.norms import FIRST, BatchNorm, TimeStep, affine, make_norm, returning_its_form
from ladderspec.plugins import is_built_in

Values = Mapping[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]
Normalise = Callable[[nn.Module, Tensor, Tensor | None, Tensor | None, TimeStep], Tensor]


def module_at(root: nn.Module, name: str) -> nn.Module:
    """The module of a dotted name, looked up at every call: another one may have taken its place.

    Not by get_submodule: a level or a task may be called `train`.
    """
    for part in name.split("."):
        root = cast(nn.Module, root._modules[part])
    return root


class Declared(nn.Module):
    """A module whose parameters were declared, with their initial values.

    Those that it borrows are registered in another module alone, and fetched from there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, Parameter] = {}
        self.borrowed: frozenset[str] = frozenset()
        self.lender: tuple[nn.Module, ...] = ()  # has what is borrowed; it is no part of this one

    def tensor(self, name: str) -> Tensor | None:
        """A parameter or buffer, its own or borrowed; None if it declared no such name."""
        if name not in self.declared and name not in self.borrowed:
            return None
        return cast(Tensor, getattr(self.lender[0] if name in self.borrowed else self, name))

    def declare(self, parameters: Mapping[str, Parameter], draw: bool = False) -> None:
        """Register parameters; if not `draw`, their values wait for `initialise`."""
        for name, parameter in parameters.items():
            self.declared[name] = parameter
            tensor = torch.empty(parameter.shape)
            if draw:
                parameter.fill(tensor)
            if parameter.buffer:
                self.register_buffer(name, tensor)
            else:
                self.register_parameter(name, nn.Parameter(tensor))

    def borrow(self, lender: nn.Module) -> None:
        """Share with another module: what can be shared is registered there alone."""
        self.lender, self.borrowed = (lender,), frozenset(shareable(self.declared))
        for name in self.borrowed:
            del self.declared[name]
            delattr(self, name)


def share_again(root: nn.Module, name: str, owner: str) -> None:
    """Let a module borrow from what now has the name of its owner: either may be replaced."""
    try:
        module = module_at(root, name)
    except KeyError:  # its cell was replaced
        return
    if not isinstance(module, Declared) or not module.borrowed:
        return
    try:
        lender = module_at(root, owner)
    except KeyError:
        lender = nn.Module()
    if lender is module.lender[0]:
        return
    missing = [each for each in sorted(module.borrowed) if not hasattr(lender, each)]
    if missing:
        raise UsageError(
            f"{name} shares weights with {owner}, but what now stands there has no `{missing[0]}`"
        )
    module.lender = (lender,)


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
    """The computation of one edge: a linear map, then perhaps a norm with a gain.

    Args:
        projection: The map, its norm and its initial values.
        iterations: How many iterations have statistics of their own in a batch norm.
        draw: Whether to draw initial values now; otherwise they wait for `initialise`.

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
    ) -> None:
        super().__init__()
        self.projection = projection
        self.declare(projection.parameters, draw)
        kind, groups = projection.norm, projection.groups
        self.norm = make_norm(kind, projection.target[0], groups, iterations)

    def forward(
        self,
        x: Tensor,
        step: TimeStep = FIRST,
        bias: Tensor | None = None,
        normalise: Normalise | None = None,
    ) -> Tensor:
        """Map and norm of x, with `bias` (by channel) added; `normalise` may apply the norm."""
        if self.drop and self.training:
            x = functional.dropout(x, self.drop)
        weight, gain = self.tensor("weight"), self.tensor("gain")
        y = step.project(self.projection, x, weight, bias if self.norm is None else None)
        if self.norm is None:
            return y
        if normalise is not None:
            return normalise(self.norm, y, gain, bias, step)
        normal: Tensor = self.norm(y, gain, bias, step)
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
        tapped: bool = False,
    ) -> None:
        super().__init__()
        self.node, self.tapped, self.deviation = name, tapped, deviation(cell)
        self.cell, self.out, self.name = cell, out, f"{name} ({cell.cell})" if name else cell.cell
        self.keys = tuple(projections)
        for key, projection in projections.items():
            edge = Edge(projection, iterations, draw)
            self._modules[key] = edge  # a key may be any name
        for key in parameters:
            if hasattr(self, key):
                message = f"`parameters` names `{key}`, which the module has itself; rename it"
                raise UsageError(f"{self.name}: {message}")
        self.declare(parameters, draw)
        self.binding = bind(cell, site, out, projections, parameters, self.name)
        self.constants = dict(self.binding.keywords.constants)
        if "activation" in self.constants:
            chosen = ACTIVATIONS[self.constants["activation"]]
            what = f"{self.name}: activation `{chosen.name}`"
            self.constants["activation"] = returning_its_form(what, chosen.compute)
        self.norm_name, kind, groups = cell.node_norm()
        if kind != "none":
            norm = make_norm(kind, self.binding.summed, groups, iterations)
            self._modules[self.norm_name] = norm
        # z in a = gain . z + offset, if it is needed by itself
        self.normalised: Shape | None = None
        if tapped or self.deviation:
            self.normalised = normalised_shape(cell, projections)
        self.checked = not is_built_in(type(cell))

    def first_value(self, batch: int) -> Tensor | None:
        """The value of delayed edges before the first iteration, (B, ...); None: zeros.

        Random numbers behind it are drawn in training, and those of the buffer in evaluation.
        """
        if self.cell.first_value is None:
            return None
        noise = cast(Tensor, self.noise)
        repeated = noise.repeat(batch // len(noise), *(1 for _ in noise.shape[1:]))
        noise = torch.randn_like(repeated) if self.training else repeated
        read, constants = self.binding.first
        found: Tensor = self.cell.first_value(noise, **self._tensors(read), **constants)
        return found

    def _tensors(self, owners: Mapping[str, str]) -> dict[str, Tensor | None]:
        """Parameters by name, from the edges that own them, or from the node."""
        return {
            name: (self.edge(owner) if owner else self).tensor(name)
            for name, owner in owners.items()
        }

    def edge(self, key: str) -> Edge:
        return cast(Edge, self._modules[key])

    def may_lack(self, key: str) -> bool:
        """Whether zeros on this edge change nothing, so that a call may leave it out."""
        if key in self.binding.separate:  # a cell without its past starts from zeros
            optional = key == Role.STATE and key in self.binding.signature.optional
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
        # The offset is added by the norm of the sum if that has a gain, else by one of the edges.
        offset, gain = self.tensor(self.cell.offset), None if norm is None else self.tensor("gain")
        shift, bias = (offset, None) if gain is not None else (None, offset)
        tapped: dict[str, Tensor] = {}
        normalise = None if self.normalised is None else partial(self._split, tapped)
        total: Tensor | None = None
        separate: dict[str, Tensor] = {}
        for key in self.keys:
            if key not in values:
                continue
            if key == binding.carrier:
                y = self.edge(key)(values[key], step, bias, None if norm else normalise)
            else:
                y = self.edge(key)(values[key], step)
            if key in binding.separate:
                separate[key] = y
            else:
                total = y if total is None else total + y
        keywords = {**self.constants, **self._tensors(binding.keywords.tensors)}
        if norm is not None:
            whole = norm if normalise is None else partial(normalise, norm)
            if "norm" in binding.signature.keywords:
                keywords["norm"] = lambda a: whole(a, gain, shift, step)
            elif total is not None:
                total = whole(total, gain, shift, step)
        given: dict[str, Any] = {"a": total, "edges": separate, "h": values.get(Role.STATE)}
        given |= {**(previous or {}), **separate}
        positional = [given.get(name) for name in binding.signature.positional]
        result = self.cell.compute(*positional, **keywords)
        if self.checked:
            self._check(result, next(iter(values.values())).shape[0])
        output, *rest = result if self.cell.returns else (result,)
        return output, dict(zip(self.cell.returns, rest, strict=True)) | tapped

    def _split(
        self,
        further: dict[str, Tensor],
        norm: nn.Module,
        x: Tensor,
        gain: Tensor | None,
        bias: Tensor | None,
        step: TimeStep,
    ) -> Tensor:
        """gain . (z + noise) + bias, with z = norm(x); z with its noise is added to `further`.

        So are the `moments` of the norm in a clean pass.
        """
        if step.clean and isinstance(norm, BatchNorm):
            further["moments"] = norm.moments(x, step)
        z: Tensor = norm(x, None, None, step)
        if step.noise is not None:
            z = z + step.noise[self.node].to(z.dtype) if self.node in step.noise else z
        elif self.deviation and self.training:
            z = z + self.deviation * torch.randn_like(z)
        further["normalised"] = z
        return affine(z, gain, bias)

    def _check(self, result: Any, batch: int) -> None:
        """Refuse what the cell of a user returns, if it has declared something else."""
        values = result if isinstance(result, tuple) else (result,)
        labels = ("output", *(f"`{name}`" for name in self.cell.returns))
        if len(values) != len(labels):
            found = f"{len(values)} values" if len(values) > 1 else f"a {type(result).__name__}"
            raise UsageError(
                f"{self.name}: `compute` returns the {', '.join(labels)}, says `returns`;"
                f" it returned {found}"
            )
        returned = dict(zip(labels, values, strict=True))
        declared = {"output": ("out_shape", self.out)}
        for name, shape in self.cell.state_shapes(self.out).items():
            declared[f"`{name}`"] = "state_shapes", shape
        for label, (method, shape) in declared.items():
            value, what = returned[label], f"{self.name}: the {label} of `compute` is"
            if not isinstance(value, Tensor):
                raise UsageError(f"{what} a {type(value).__name__}, not a tensor")
            if value.shape != (batch, *shape):
                wanted = f"`{method}` says {(batch, *shape)}"
                raise UsageError(f"{what} {tuple(value.shape)}, but {wanted}")

    def extra_repr(self) -> str:
        return f"{self.cell.cell}, {show_shape(self.out)}"


def nest(root: nn.Module, modules: Mapping[str, nn.Module]) -> None:
    """Put modules under their dotted names, so that parameter keys are the names of the diagram."""
    for name, module in modules.items():
        *path, last = name.split(".")
        parent = root
        for part in path:
            parent = cast(nn.Module, parent._modules.setdefault(part, nn.Module()))
        parent._modules[last] = module
