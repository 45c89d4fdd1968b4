"""Edge and CellModule: the declarations of a cell as torch modules."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ladderspec.cells import ACTIVATIONS, NORMS, Cell, Projection, Signature, Site
from ladderspec.cells.base import deviation, normalised_shape
from ladderspec.cells.functions import per_channel
from ladderspec.cells.parameters import Parameter
from ladderspec.cells.projections import MAIN_ROLES
from ladderspec.errors import UsageError
from ladderspec.names import Role, Shape, show_shape
from ladderspec.nn.norms import FIRST, BatchNorm, TimeStep, make_norm

Values = Mapping[str, Tensor]
Result = tuple[Tensor, dict[str, Tensor]]


class Declared(nn.Module):
    """A module whose parameters were declared, with their initial values."""

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, Parameter] = {}

    def declare(self, parameters: Mapping[str, Parameter], draw: bool) -> None:
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

    >>> edge = Edge(Projection("transposed", (8, 6, 6), (4, 11, 11), (3, 3), (2, 2)))
    >>> {name: tuple(parameter.shape) for name, parameter in edge.named_parameters()}
    {'weight': (8, 4, 3, 3)}
    """

    weight: Tensor
    gain: Tensor
    drop: float = 0.0  # dropout probability of what it carries (Srivastava et al. 2014)

    def __init__(self, projection: Projection, iterations: int = 1, draw: bool = True) -> None:
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
        further: dict[str, Tensor] | None = None,
    ) -> Tensor:
        """Map and norm of x, with `bias` (by channel) added.

        With `further`, gain and bias are left to the caller; in a clean pass, `mean` and `std` of
        the norm are added to it.
        """
        if self.drop and self.training:
            x = functional.dropout(x, self.drop)
        projection = self.projection
        weight = self.weight if projection.has_weight else None
        if self.norm is None:
            return step.ops.project(projection, x, weight, bias)
        y = step.ops.project(projection, x, weight, None)
        if further is not None:
            return _normalised(self.norm, y, step, further)
        normal: Tensor = self.norm(y, self.gain, bias, step)
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
            self._modules[key] = Edge(projection, iterations, draw)  # a key may be any name
        self.declare(parameters, draw)
        signature = cell.signature()
        everything = "edges" in signature.positional
        self.separate = frozenset(self.keys if everything else signature.separate)
        summed = [key for key in self.keys if key not in self.separate]
        main = [key for key in MAIN_ROLES if key in summed] or summed
        self.carrier = str(main[0]) if main else ""  # its term includes the offset
        for key in summed:
            if projections[key].target != projections[self.carrier].target:
                self._refuse_sum(key, projections)
        if summed and "a" not in signature.positional:
            raise UsageError(
                f"{self.name}: `compute` does not read `{summed[0]}`, which arrives there; name it,"
                " or read `a`, or leave it out of `takes`"
            )
        self.norm_name, kind, groups = cell.node_norm()
        channels = projections[self.carrier].target[0] if self.carrier else 0
        offset = parameters.get(cell.offset)
        if offset is not None and channels and offset.shape != (channels,):
            raise UsageError(
                f"{self.name}: the offset `{cell.offset}` is {show_shape(offset.shape)}, but `a`"
                f" has {channels} channels"
            )
        if kind != "none" and not channels:
            raise UsageError(f"{self.name}: `node_norm` needs edges that enter the sum `a`")
        if kind != "none":
            self._modules[self.norm_name] = make_norm(kind, channels, groups, iterations)
        self.norm_in_compute = "norm" in signature.keywords
        self._resolve(signature, site, projections)
        read = {cell.offset, *signature.keywords} | ({"gain"} if kind != "none" else set())
        read |= self._resolve_first_value(site)
        for unread in [n for n in parameters if n not in read and not n.startswith("initial")]:
            raise UsageError(
                f"{self.name}: `parameters` declares `{unread}`, but `compute` does not read it and"
                f" `offset` is {cell.offset!r}"
            )
        # z in a = gain . z + offset, if it is needed by itself
        self.normalised: Shape | None = None
        if tapped or self.deviation:
            self.normalised = normalised_shape(cell, projections)
        self.checked = not type(cell).__module__.startswith("ladderspec.")

    # --- arguments of compute ---------------------------------------------------------------------

    def _resolve(
        self, signature: Signature, site: Site, projections: Mapping[str, Projection]
    ) -> None:
        """Find once where each argument of `compute` comes from."""
        roles, states = frozenset(Role), self.cell.state_shapes(self.out)
        for name in states:
            if name not in self.cell.returns:
                raise UsageError(f"{self.name}: `state_shapes` names `{name}`, `returns` does not")
        self.positional: list[tuple[str, str]] = []
        for name in signature.positional:
            if name in ("a", "edges"):
                self.positional.append((name, ""))
            elif name in roles:
                if name not in self.keys and name not in signature.optional:
                    self._refuse(name)
                self.positional.append(("edge", name))
            elif name == "h" or name in states:
                if name not in signature.optional:
                    raise UsageError(
                        f"{self.name}: `compute` reads `{name}`, which does not exist before the"
                        f" first iteration; write `{name}=None`"
                    )
                self.positional.append(("state", name))
            else:
                raise UsageError(
                    f"{self.name}: `compute` reads `{name}`, which is no role, no state and not"
                    " `a`; fields and parameters are keyword-only, after a `*`"
                )
        self.constants: dict[str, Any] = {}
        from_shapes = {"out": self.out, **self.cell.constants(site, self.out)}
        self.tensors: list[tuple[str, str]] = []  # argument, and the edge that owns it
        for name in signature.keywords:
            owners = [key for key, each in projections.items() if name in each.extra]
            if name in self.declared:
                self.tensors.append((name, ""))
            elif owners:
                self.tensors.append((name, owners[0]))
            elif name in from_shapes:
                self.constants[name] = from_shapes[name]
            elif name == "activation":
                self.constants[name] = ACTIVATIONS[getattr(self.cell, name)].compute
            elif name in signature.optional and name != "norm":
                self.constants[name] = None
            elif name != "norm":
                if not hasattr(self.cell, name):
                    raise UsageError(
                        f"{self.name}: `compute` reads `{name}`, which is no parameter, field or"
                        " property of the cell"
                    )
                self.constants[name] = getattr(self.cell, name)
        self.optional = signature.optional
        lacks_norm = self.norm_in_compute and self.norm_name not in self._modules
        if lacks_norm and "norm" not in self.optional:
            raise UsageError(f"{self.name}: `node_norm` has no norm; write `norm=None`")

    def _resolve_first_value(self, site: Site) -> set[str]:
        """Find what `first_value` reads besides its noise."""
        self.first: tuple[tuple[str, ...], dict[str, Any]] = ((), {})
        if self.cell.first_value is None:
            return set()
        names = [n for n in inspect.signature(self.cell.first_value).parameters if n != "noise"]
        constants = {"out": self.out, **self.cell.constants(site, self.out)}
        tensors = tuple(name for name in names if name in self.declared)
        self.first = (tensors, {name: constants[name] for name in names if name not in tensors})
        return {"noise", *tensors}

    def first_value(self, batch: int) -> Tensor | None:
        """What delayed edges carry before the first iteration, (B, ...); None: zeros.

        Random numbers behind it are drawn in training, and those of the buffer in evaluation.
        """
        if self.cell.first_value is None:
            return None
        noise = cast(Tensor, self.noise)
        repeated = noise.repeat(batch // len(noise), *(1 for _ in noise.shape[1:]))
        noise = torch.randn_like(repeated) if self.training else repeated
        tensors, constants = self.first
        found: Tensor = self.cell.first_value(
            noise, **{name: getattr(self, name) for name in tensors}, **constants
        )
        return found

    def _refuse(self, role: str) -> None:
        raise UsageError(
            f"{self.name}: `compute` reads `{role}`, but what arrives there is"
            f" {', '.join(self.keys)}; a cell that cannot do without an edge lists it in `needs`,"
            f" one that can has `{role}=None`"
        )

    def _refuse_sum(self, key: str, projections: Mapping[str, Projection]) -> None:
        one, other = projections[key], projections[self.carrier]
        raise UsageError(
            f"{self.name}: `a` sums edges, but `{key}` leads to {show_shape(one.target)} and"
            f" `{self.carrier}` to {show_shape(other.target)}"
        )

    def edge(self, key: str) -> Edge:
        return cast(Edge, self._modules[key])

    def may_lack(self, key: str) -> bool:
        """Whether zeros on this edge change nothing, so that a call may leave it out."""
        if key in self.separate:  # a cell without its past starts from zeros
            return key == Role.STATE and key in self.optional and self.edge(key).keeps_zeros
        return key != self.carrier and self.edge(key).keeps_zeros

    # --- computation ------------------------------------------------------------------------------

    def forward(
        self, values: Values, previous: Values | None = None, step: TimeStep = FIRST
    ) -> Result:
        """Output and further values, from one value per edge.

        `previous` holds the further values of the iteration from which the `state` edge comes.
        """
        norm = self._modules.get(self.norm_name)
        offset = getattr(self, self.cell.offset, None) if self.cell.offset else None
        joint = norm is not None and "gain" in self.declared  # then the offset follows the norm
        apart: dict[str, Tensor] | None = None if self.normalised is None else {}
        of_edge = apart if norm is None else None
        total: Tensor | None = None
        separate: dict[str, Tensor] = {}
        for key in self.keys:
            if key in values:
                bias = offset if key == self.carrier and not joint else None
                if of_edge is not None and key == self.carrier:
                    z = self.edge(key)(values[key], step, further=of_edge)
                    y = self._scaled(z, self.edge(key).gain, bias, step, of_edge)
                else:
                    y = self.edge(key)(values[key], step, bias)
                if key in self.separate:
                    separate[key] = y
                else:
                    total = y if total is None else total + y
        keywords = dict(self.constants)
        for name, owner in self.tensors:
            keywords[name] = getattr(self.edge(owner) if owner else self, name)
        if norm is not None:
            gain, shift = (self.gain, offset) if joint else (None, None)
            if self.norm_in_compute:
                keywords["norm"] = lambda a: norm(a, gain, shift, step)
            elif apart is not None:
                assert total is not None
                z = _normalised(norm, total, step, apart)
                total = self._scaled(z, cast(Tensor | None, gain), shift, step, apart)
            else:
                total = norm(total, gain, shift, step)
        arguments: list[Any] = []
        for source, name in self.positional:
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
