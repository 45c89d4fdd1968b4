"""Activation checkpointing: memory against time, in a training step.

    python -m benchmarks.checkpoint_cost [--steps 36] [--batch 8] [--rounds 3]

The peak is the most that the process has held, above what it held before the step; every way is
measured in a process of its own. Times are medians of alternating rounds in one process, in
seconds of processor time, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

import ladderspec as ls

SPEC = "specs/ommnist/rladder_tiny.yaml"


def step_of(batch: int, steps: int, stretch: int) -> Callable[[], None]:
    """A training step; `stretch` 0 keeps everything, 1 is True, others are numbers of t."""
    net = ls.build(ls.load(SPEC, set={"params.width": 8}))
    frames, labels = torch.rand(batch, steps, *net.shape), torch.arange(batch) % 10
    checkpoint = bool(stretch) if stretch < 2 else stretch

    def step() -> None:
        net.zero_grad()
        net.cost(frames, labels, checkpoint=checkpoint).total.backward()

    return step


def held() -> float:
    """The most MB that this process has held so far (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def peak(args: argparse.Namespace, stretch: int) -> float:
    """MB, in a fresh process."""
    words = ["--batch", str(args.batch), "--steps", str(args.steps), "--inside", str(stretch)]
    command = [sys.executable, "-m", "benchmarks.checkpoint_cost", *words]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=36)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.inside is not None:
        step_of(2, 2, args.inside)()  # what torch keeps for itself is there before
        step = step_of(args.batch, args.steps, args.inside)
        before = held()
        step()
        print(held() - before)
        return
    ways = {"all is kept": 0, "checkpoint=True": 1, "checkpoint=6": 6, "checkpoint=18": 18}
    steps = {name: step_of(args.batch, args.steps, way) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, step in steps.items():
            start = time.process_time()
            step()
            times[name].append(time.process_time() - start)
    print(f"{args.steps} frames, batch {args.batch}, width 8, one thread\n")
    print("| | peak, MB | step, s |\n|---|---|---|")
    for name, way in ways.items():
        print(f"| {name} | {peak(args, way):.0f} | {median(times[name]):.2f} |")


if __name__ == "__main__":
    main()
