"""The rest of benchmarks/speed.py: memory, overhead, building, algorithms, torch.compile."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from benchmarks.contest import (
    BY_HAND,
    CASES,
    LAST,
    OURS,
    SPECS,
    Turn,
    alternate,
    middle,
    ratio,
    streaming,
    training,
)
from ladderspec.api import build, load
from ladderspec.network.net import Net

# --- memory --------------------------------------------------------------------------------------


def memory(args: argparse.Namespace) -> None:
    """The memory that a training step adds to the largest resident size of its own process."""
    print("| peak memory of a step | batch | ladderspec, MB | by hand, MB | channels-last, MB |")
    print("|---|---|---|---|---|")
    for name in args.nets:
        for batch in args.batches:
            found = [_in_a_process(name, batch, who, args.threads) for who in (OURS, BY_HAND, LAST)]
            print(f"| {name} | {batch} | " + " | ".join(f"{mb:.0f}" for mb in found) + " |")


def _in_a_process(name: str, batch: int, who: str, threads: int) -> float:
    code = f"from benchmarks.upkeep import grow; grow({name!r}, {batch}, {who!r}, {threads})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def grow(name: str, batch: int, who: str, threads: int) -> None:
    """Print how much a step at this batch adds to one at batch 2 with two frames."""
    torch.set_num_threads(threads)
    case = CASES[name]
    net = case.ours() if who == OURS else case.theirs(who == LAST)
    frames, labels = case.batch(batch)
    training(net, frames[:2, :2], labels[:2])()  # kernels are loaded, gradients have their place
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        training(net, frames, labels)()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def saved_for_backward(net: nn.Module, frames: Tensor, labels: Tensor) -> float:
    """MB of activations that wait for the backward pass: for networks too small for the above."""
    found: dict[int, Tensor] = {}  # by storage; alive, so that no address is used twice

    def note(tensor: Tensor) -> Tensor:
        found.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        net.cost(frames, labels)
    for weight in net.parameters():
        found.pop(weight.untyped_storage().data_ptr(), None)
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values()) / 2**20


# --- overhead ------------------------------------------------------------------------------------


class _Calls(TorchFunctionMode):
    """Notes every call of torch, to repeat the tensor work without the Python around it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], Any, Any]] = []
        self.inside = False  # a cell

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        apart = tree_map_only(Tensor, _apart, args)
        name = getattr(func, "__name__", "")
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place:
            apart = (apart[0] * 1, *apart[1:])  # what is changed in place must not be a leaf
        result = func(*args, **(kwargs or {}))
        if not self.inside and _makes_tensors(result):
            self.calls.append((func, apart, kwargs or {}))
        return result

    def repeat(self) -> list[Any]:
        """All results stay to the end, as they wait for the backward pass in a forward one."""
        return [func(*args, **kwargs) for func, args, kwargs in self.calls]


def _apart(x: Tensor) -> Tensor:
    """The same numbers, without their history."""
    return x.detach().requires_grad_(x.requires_grad)


def _makes_tensors(result: Any) -> bool:
    several = isinstance(result, tuple | list) and not isinstance(result, torch.Size)
    return isinstance(result, Tensor) or (several and any(isinstance(x, Tensor) for x in result))


def overhead(args: argparse.Namespace) -> None:
    """Python beside the tensor work, at width 1/8 and batch 2: `engine` at most 6 % of a step.

    `cells` repeats the calls of all cells and the tensor work outside them: what the forward pass
    takes beyond that is the engine. `tensors` repeats all calls of torch and nothing else.
    """
    print(
        "| at width 1/8, batch 2 | step, ms | forward, ms | cells, ms | tensors, ms"
        " | engine | engine and cells |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in args.nets:
        net = CASES[name].ours(set={"params.width": 4})
        frames, labels = CASES[name].batch(2)
        turns = _layers_of(net, frames[:, :20], labels)
        times = alternate(turns, args.seconds)
        step, whole, cells, tensors = (middle(times[key]) for key in turns)
        shown = " | ".join(f"{spent * 1e3:.2f}" for spent in (step, whole, cells, tensors))
        engine, python = (whole - cells) / step, (whole - tensors) / step
        print(f"| {name} | {shown} | {engine:.1%} | {python:.1%} |", flush=True)


def _layers_of(net: Net, frames: Tensor, labels: Tensor) -> dict[str, Turn]:
    """A training step, and its forward pass with less and less around the tensor work."""
    everything, outside, calls = _Calls(), _Calls(), list[tuple[nn.Module, Any]]()
    with everything:
        net.cost(frames, labels)

    def enter(module: nn.Module, args: Any) -> None:
        calls.append((module, args))
        outside.inside = True

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        outside.inside = False

    modules = [net.executor.module(name) for name in net.executor.nodes]
    hooks = [module.register_forward_pre_hook(enter) for module in modules]
    hooks += [module.register_forward_hook(leave) for module in modules]
    with outside:
        net.cost(frames, labels)
    for hook in hooks:
        hook.remove()

    def cells() -> list[Any]:
        return [*(module(*args) for module, args in calls), *outside.repeat()]

    return {
        "step": training(net, frames, labels),
        "forward": lambda: net.cost(frames, labels),
        "cells": cells,
        "tensors": everything.repeat,
    }


# --- building ------------------------------------------------------------------------------------


def building(args: argparse.Namespace) -> None:
    """A net of 17 levels from its graph, and from the text of its spec: at most 2 x by hand."""
    case = CASES["rladder"]
    spec = load(SPECS / case.spec)
    turns: dict[str, Turn] = {
        BY_HAND: lambda: case.by_hand(),
        "build": lambda: build(spec),
        "load and build": lambda: build(load(SPECS / case.spec)),
    }
    times = alternate(turns, args.seconds)
    print("| building the RLadder | ms | times by hand |")
    print("|---|---|---|")
    for name, spent in times.items():
        print(f"| {name} | {middle(spent) * 1e3:.1f} | {ratio(spent, times[BY_HAND])} |")


# --- what each algorithm gains --------------------------------------------------------------------


def algorithms(args: argparse.Namespace) -> None:
    """Steps and streams with FFT convolution and replay, and without, alternating in one run."""
    print("| algorithm | network | with, ms | without, ms | gain |")
    print("|---|---|---|---|---|")
    for name in args.nets:
        case = CASES[name]
        frames, labels = case.batch(16)
        step = training(case.ours(), frames[:, :20], labels)
        _gain("FFT convolution", f"{name}, step at batch 16", step, _without_fft(step), args)
        frames, _ = case.batch(1)
        net, plain = case.ours(), case.ours()
        plain.replay.iterate = lambda net, iterate, shown: iterate()
        turns = (streaming(each, frames[:, :10]) for each in (net, plain))
        _gain("replay", f"{name}, stream of 10 frames", *turns, args)


def _without_fft(turn: Turn) -> Turn:
    def without() -> None:
        with mock.patch("ladderspec.ops.fft_conv.pays", return_value=False):
            turn()

    return without


def _gain(what: str, where: str, one: Turn, other: Turn, args: argparse.Namespace) -> None:
    times = alternate({"with": one, "without": other}, args.seconds, args.rounds, before=4)
    shown = " | ".join(f"{middle(times[key]) * 1e3:.1f}" for key in ("with", "without"))
    print(f"| {what} | {where} | {shown} | {ratio(times['without'], times['with'])} |", flush=True)


# --- torch.compile --------------------------------------------------------------------------------


def compiled(args: argparse.Namespace) -> None:
    """Cost and backward of a whole sequence as one graph of inductor: compile time and step."""
    print("| torch.compile, width 1/4, batch 16 | compiling, s | compiled, ms | eager, ms | gain |")
    print("|---|---|---|---|---|")
    for name in args.nets:
        case = CASES[name]
        net = case.ours(set={"params.width": 8})
        frames, labels = case.batch(16)
        frames = frames[:, :5]
        cost = torch.compile(
            lambda net=net, f=frames, y=labels: net.cost(f, y).total, fullgraph=True
        )

        def step(cost: Turn = cost, net: Net = net) -> None:
            net.zero_grad(set_to_none=True)
            cost().backward()  # type: ignore[attr-defined]

        start = time.perf_counter()
        step()
        spent = time.perf_counter() - start
        turns = {"compiled": step, "eager": training(net, frames, labels)}
        times = alternate(turns, args.seconds, args.rounds)
        shown = " | ".join(f"{middle(times[key]) * 1e3:.1f}" for key in turns)
        print(f"| {name} | {spent:.0f} | {shown} | {ratio(times['eager'], times['compiled'])} |")
