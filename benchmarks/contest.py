"""The contest of benchmarks/speed.py: who runs against whom, and how turns are timed."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import handwritten as hand
from ladderspec.api import build, load
from ladderspec.network.net import Net

SPECS = Path(__file__).resolve().parent.parent / "specs"
OURS, BY_HAND, LAST = "ladderspec", "by hand", "by hand, channels-last"

Turn = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One network, built and written out by hand."""

    spec: str
    variant: str | None
    by_hand: Callable[[], nn.Module]
    frames: int
    factor: float  # how much faster it has to be at batch 16
    settings: Mapping[str, object] = field(default_factory=dict)

    def ours(self, **settings: object) -> Net:
        variants = {} if self.variant is None else {"variant": self.variant}
        torch.manual_seed(0)
        return build(load(SPECS / self.spec, **variants, **{**self.settings, **settings}))

    def theirs(self, channels_last: bool = False) -> nn.Module:
        torch.manual_seed(0)
        net = self.by_hand()
        return net.to(memory_format=torch.channels_last) if channels_last else net

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """Frames, and the labels that networks with classes compare with."""
        torch.manual_seed(1)
        if not self.frames:  # iterations on one image
            frames = torch.rand(size, 1, 24, 24)
        elif self.by_hand is hand.MusicRLadder:
            frames = (torch.rand(size, self.frames, 1, 1, 88) < 0.05).float()
        else:
            frames = torch.rand(size, self.frames, 1, 32, 32)
        return frames, torch.randint(10, (size,))


OMMNIST = "ommnist/rladder.yaml"
CASES = {
    "rladder": Case(OMMNIST, None, hand.RLadder, 5, 1.35),
    "baseline": Case(OMMNIST, "temporal_baseline", hand.TemporalBaseline, 5, 1.1),
    "hierarchical": Case(OMMNIST, "hierarchical_rnn", hand.HierarchicalRNN, 5, 1.1),
    "music": Case("music/rladder.yaml", None, hand.MusicRLadder, 200, 1.2),
}
GROUPED = {
    f"rtagger, K = {k}": Case(
        "../benchmarks/rtagger.yaml",
        None,
        partial(hand.RTagger, k),
        0,
        1.0,
        {"set": {"params.groups": k}},
    )
    for k in (3, 8)
}


# --- what is timed --------------------------------------------------------------------------------


def training(net: nn.Module, frames: Tensor, labels: Tensor) -> Turn:
    """One training step without the optimiser: cost and gradients."""
    ours = isinstance(net, Net)

    def turn() -> None:
        net.zero_grad(set_to_none=True)
        cost = net.cost(frames, labels).total if ours else net.cost(frames, labels)
        cost.backward()

    return turn


def streaming(net: nn.Module, frames: Tensor) -> Turn:
    """Frame after frame in evaluation, the state handed on from call to call."""
    net.eval()
    first = net.initial_carry if isinstance(net, Net) else net.initial_state

    def turn() -> None:
        with torch.inference_mode():
            state = first(frames.shape[0])
            for t in range(frames.shape[1]):
                _, state = net.iterate(frames[:, t], state)

    return turn


def contenders(case: Case, batch: int, streams: bool = False) -> dict[str, Turn]:
    """Ours, by hand as written, and by hand with channels-last switched on."""
    frames, labels = case.batch(batch)
    nets = {OURS: case.ours(), BY_HAND: case.theirs(), LAST: case.theirs(channels_last=True)}
    if streams:
        short = frames[:, :10]
        return {name: streaming(net, short) for name, net in nets.items()}
    return {name: training(net, frames, labels) for name, net in nets.items()}


# --- alternating turns ----------------------------------------------------------------------------


def alternate(
    turns: Mapping[str, Turn], seconds: float, least: int = 7, before: int = 1
) -> dict[str, list[float]]:
    """Rounds in which each takes one turn, in changing order, for about so many seconds.

    Each has taken so many turns `before`, which are not timed.
    """
    times: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        for _ in range(before):
            turn()
    gc.collect()
    gc.disable()
    start, order = time.perf_counter(), list(turns)
    # One thread by the time it had the processor, so that what others do meanwhile does not count.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    while len(times[order[0]]) < least or time.perf_counter() - start < seconds:
        for name in order:
            before = clock()
            turns[name]()
            times[name].append(clock() - before)
        order = order[1:] + order[:1]
        gc.collect(0)
    gc.enable()
    return times


def ratio(slow: list[float], fast: list[float]) -> str:
    """How many times faster, by rounds: median and quartiles."""
    by_round = [a / b for a, b in zip(slow, fast, strict=True)]
    low, middle, high = statistics.quantiles(by_round, n=4)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def middle(times: list[float]) -> float:
    return statistics.median(times)
