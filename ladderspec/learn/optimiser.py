"""The optimiser of a training: any of torch.optim by name, its parameter groups and its state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.experiments.training import OptimiserConfig
from ladderspec.learn.checkpoint import CheckpointError
from ladderspec.network.net import Net
from ladderspec.nn.modules import Declared

Optimiser = torch.optim.Optimizer
NOT_HERE = {
    "lbfgs": "needs a closure",
    "muon": "takes matrices only, but networks have biases, gains and filters too",
    "sparseadam": "needs sparse gradients",
}
FIELDS = ("lr", "weight_decay")  # fields of the config, for every optimiser
OF_ADAM = ("betas", "eps")  # fields of the config, for every optimiser that has betas


@cache
def optimisers() -> dict[str, type[Optimiser]]:
    """The optimisers of torch.optim that need no closure and take dense gradients, by name."""
    found = {
        name.lower(): value
        for name, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, Optimiser) and value is not Optimiser
    }
    return {name: found[name] for name in sorted(found) if name not in NOT_HERE}


def check_optimiser(
    config: OptimiserConfig, updates: int = 1, device: torch.device | None = None
) -> None:
    """Raise UsageError if there is no such optimiser or schedule, or if it cannot be used.

    Args:
        config: the optimiser and its schedule.
        updates: the number of updates of the run.
        device: the device of the run.
    """
    config.schedule.rate_at(config.lr, 0, updates, 1.0)
    parameter = nn.Parameter(torch.zeros(2, 2, device=device))
    group = {"params": [parameter], "weight_decay": config.weight_decay, "probe": False}
    optimiser = _make(config, [group])
    parameter.grad = torch.ones_like(parameter)
    try:
        optimiser.step()
    except Exception as error:  # torch checks most arguments only here
        given = ", ".join(f"{name}: {value}" for name, value in config.arguments.items())
        message = f"optimiser `{config.kind}` cannot train with `arguments: {{{given}}}`: {error}"
        raise UsageError(message) from None


def make_optimiser(config: OptimiserConfig, net: Net) -> Optimiser:
    """The optimiser of all parameters that are not frozen.

    The parameters of probes are a group of their own. With weight decay, the parameters of linear
    maps are another group.
    """
    probes = set(_probes(net))
    decaying = set(_weights_of_maps(net)) if config.weight_decay else set[int]()
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = []
    for probe in (False, True):
        for decays in (True, False):
            chosen = [p for p in trained if (id(p) in probes) is probe]
            chosen = [p for p in chosen if (id(p) in decaying) is decays]
            decay = config.weight_decay if decays else 0.0
            groups.append({"params": chosen, "weight_decay": decay, "probe": probe})
    return _make(config, [group for group in groups if group["params"]])


def _probes(net: Net) -> Iterable[int]:
    for name, readouts in net.readouts.items():
        if not net.tasks[name].teaches:
            for readout in readouts.values():
                yield from map(id, readout.parameters())


def _weights_of_maps(net: nn.Module) -> Iterable[int]:
    """Weights of linear maps start at random; biases, gains and coefficients at given values."""
    for part in net.modules():
        if isinstance(part, Declared):
            for name, declared in part.declared.items():
                if declared.variance is not None and not declared.buffer:
                    yield id(part.get_parameter(name))


# --- arguments ------------------------------------------------------------------------------------


def _make(config: OptimiserConfig, groups: list[dict[str, Any]]) -> Optimiser:
    kind, known = config.kind, optimisers()
    if kind in NOT_HERE:
        raise UsageError(f"optimiser `{kind}` {NOT_HERE[kind]}: choose {one_of(known)}")
    if kind not in known:
        hint = did_you_mean(kind, known) or f"there are {one_of(known, 'and')}"
        raise UsageError(f"no optimiser `{kind}`: {hint}")
    taken = [name for name in inspect.signature(known[kind]).parameters if name != "params"]
    if "weight_decay" not in taken:
        if config.weight_decay:
            raise UsageError(f"optimiser `{kind}` has no weight decay: leave out `weight_decay`")
        groups = [{k: v for k, v in group.items() if k != "weight_decay"} for group in groups]
    arguments = {**_arguments(config, taken), **_fused(config, taken)}
    make: Callable[..., Optimiser] = known[kind]
    try:
        return make(groups, lr=config.lr, **arguments)
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        raise UsageError(f"optimiser `{kind}` does not take these arguments: {error}") from None


def _arguments(config: OptimiserConfig, taken: list[str]) -> dict[str, Any]:
    """Arguments by name: `betas` and `eps` of Adam and its relatives, and `arguments`."""
    adam = "betas" in taken
    fields = {*FIELDS, *(OF_ADAM if adam else ())}
    for name in config.arguments:
        if name in fields:
            raise UsageError(
                f"`{name}` belongs under `optimiser`, not under `arguments`:"
                f" like `optimiser: {{kind: {config.kind}, {name}: ...}}`"
            )
        if name not in taken:
            others = [each for each in taken if each not in fields]
            hint = did_you_mean(name, others) or f"it has {one_of(others, 'and')}"
            raise UsageError(f"optimiser `{config.kind}` has no argument `{name}`: {hint}")
    for name in OF_ADAM:
        if not adam and getattr(config, name) != OptimiserConfig.model_fields[name].default:
            value = getattr(config, name)
            hint = f"write `arguments: {{{name}: {value}}}`" if name in taken else "leave it out"
            raise UsageError(
                f"`{name}` is for Adam and its relatives, not for optimiser `{config.kind}`: {hint}"
            )
    found = {name: getattr(config, name) for name in OF_ADAM} if adam else {}
    return found | {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in config.arguments.items()
    }


def _fused(config: OptimiserConfig, taken: list[str]) -> dict[str, bool]:
    """The fused implementation, if there is one and no other is asked for."""
    chosen = {"fused", "foreach", "differentiable"} & config.arguments.keys()
    return {"fused": True} if "fused" in taken and not chosen else {}


# --- state ----------------------------------------------------------------------------------------


def state_of(
    optimiser: Optimiser, parameters: Iterable[tuple[str, nn.Parameter]]
) -> dict[str, Tensor]:
    """The state of an optimiser, `PARAMETER.KEY` by name."""
    return {
        f"{name}.{key}": value
        for name, parameter in parameters
        for key, value in optimiser.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_state(
    optimiser: Optimiser,
    parameters: Iterable[tuple[str, nn.Parameter]],
    tensors: Mapping[str, Tensor],
) -> None:
    """Averages get the memory layout of their parameters, so that they round equally."""
    fused = bool(optimiser.defaults.get("fused"))
    found: dict[str, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        name, _, key = path.rpartition(".")
        found.setdefault(name, {})[key] = value
    for name, parameter in parameters:
        for key, value in found.get(name, {}).items():
            if not _fits(value, parameter):
                raise CheckpointError(
                    f"the optimiser's {key} of {name} is {tuple(value.shape)},"
                    f" not {tuple(parameter.shape)}"
                )
            same = value.shape == parameter.shape and key != "step"
            loaded = torch.empty_like(parameter).copy_(value) if same else value.clone()
            device = parameter.device if key != "step" or fused else loaded.device
            optimiser.state[parameter][key] = loaded.to(device).detach()


def _fits(value: Tensor, parameter: nn.Parameter) -> bool:
    """A number, or a value for each place of the parameter; an axis may be averaged out."""
    if not value.dim():
        return True
    sizes = list(zip(value.shape, parameter.shape, strict=False))
    return value.dim() == parameter.dim() and all(one in (1, size) for one, size in sizes)
