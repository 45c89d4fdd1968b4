"""Networks built from specs against the same networks written out by hand.

    python -m benchmarks.speed [--threads 1] [--only train groups stream memory overhead
                                       build algorithms compile]
                               [--nets rladder ...] [--batches 2 16 64]
                               [--seconds 60] [--rounds 7] [--frames 40]

`train` is cost and backward, `stream` is `iterate` at batch 1 in evaluation. The opponents take
turns in one process, so that a busy machine slows them alike; ratios are medians over rounds with
their quartiles, above 1 where ours is faster. benchmarks/RESULTS.md keeps a run.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace

import torch

from benchmarks import upkeep
from benchmarks.contest import (
    BY_HAND,
    CASES,
    GROUPED,
    LAST,
    OURS,
    alternate,
    contenders,
    middle,
    ratio,
)
from ladderspec.network.replay import AFTER


def train(args: argparse.Namespace) -> None:
    """Ratio at most 1.02 the wrong way anywhere; the factor of each net at batch 16."""
    _head("training step")
    for name in args.nets:
        for batch in args.batches:
            case = replace(CASES[name], frames=args.frames or CASES[name].frames)
            turns = contenders(case, batch)
            times = alternate(turns, args.seconds, args.rounds)
            wanted = CASES[name].factor if batch == 16 else 0.98
            _row(name, batch, times, wanted)


def groups(args: argparse.Namespace) -> None:
    """A small RTagger at batch 16 with 3 and 8 groups, which are 48 and 128 samples."""
    _head("training step")
    for name, case in GROUPED.items():
        _row(name, 16, alternate(contenders(case, 16), args.seconds, args.rounds), case.factor)
    print("\n| activations saved for backward | ladderspec, MB | by hand, MB |\n|---|---|---|")
    for name, case in GROUPED.items():
        nets = case.ours(), case.theirs()
        saved = [upkeep.saved_for_backward(net, *case.batch(16)) for net in nets]
        print(f"| {name} | {saved[0]:.1f} | {saved[1]:.1f} |")


def stream(args: argparse.Namespace) -> None:
    _head("streaming, 1 frame")
    for name in args.nets:
        case = CASES[name]
        # Until every t is captured: a stream is long.
        times = alternate(contenders(case, 1, streams=True), args.seconds, args.rounds, AFTER + 1)
        frames = min(10, case.frames)
        each = {who: [t / frames for t in spent] for who, spent in times.items()}
        _row(name, 1, each, 1.3 if name == "music" else 1.1)


def _head(what: str) -> None:
    print(
        f"| {what} | batch | ladderspec, ms | by hand, ms | faster than by hand"
        " | ... than channels-last | wanted | rounds |"
    )
    print("|---|---|---|---|---|---|---|---|")


def _row(name: str, batch: int, times: dict[str, list[float]], wanted: float) -> None:
    ours = times[OURS]
    print(
        f"| {name} | {batch} | {middle(ours) * 1e3:.2f} | {middle(times[BY_HAND]) * 1e3:.2f}"
        f" | {ratio(times[BY_HAND], ours)} | {ratio(times[LAST], ours)} | {wanted} | {len(ours)} |",
        flush=True,
    )


PARTS = {
    "train": train,
    "groups": groups,
    "stream": stream,
    "memory": upkeep.memory,
    "overhead": upkeep.overhead,
    "build": upkeep.building,
    "algorithms": upkeep.algorithms,
    "compile": upkeep.compiled,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--nets", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--batches", nargs="+", type=int, default=[2, 16, 64])
    parser.add_argument("--seconds", type=float, default=60.0, help="for every row")
    parser.add_argument("--rounds", type=int, default=7, help="at least so many for every row")
    parser.add_argument("--frames", type=int, help="in training, instead of 5 and 200")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(
        f"torch {torch.__version__}, {args.threads} thread(s), {os.cpu_count()} cores,"
        f" load {load}, {time.strftime('%H:%M')}"
    )
    for part in args.only:
        print(f"\n### {part}, {args.threads} thread(s)\n")
        PARTS[part](args)
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"\nload at the end {load}")


if __name__ == "__main__":
    main()
