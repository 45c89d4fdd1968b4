"""The cost of data as shares of a training update, in one run.

    python benchmarks/data_cost.py [--repeats 21] [--batch 50]

Alternates updates of the smallest spec (forward, backward, Adam) with making their batches, so that
a busy machine slows both alike, and reports medians. Embedded digits: nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ladderspec.api import build, load
from ladderspec.data import DataSet, data_config

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "specs/ommnist/rladder_tiny.yaml"

SETS = {
    "frames and label": ("frames", "label", "labelled"),
    "with the clean digit": ("frames", "label", "labelled", "clean"),
    "all fields": None,
}


def timed(act: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    act(*arguments)
    return time.perf_counter() - start


def updater(data: DataSet, size: int) -> Callable[[], None]:
    """One update of the smallest spec on one batch."""
    net = build(load(SPEC))
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    batch = data.batch("train", 0, data.batches("train", 0, size)[0])
    frames, label = torch.from_numpy(batch["frames"]), torch.from_numpy(batch["label"])

    def update() -> None:
        adam.zero_grad()
        net.cost(frames, {"label": label}).total.backward()
        adam.step()

    return update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--batch", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    data = data_config("occluded_mnist", digits="embedded", canvas=16).open()
    resample = data_config("occluded_mnist", digits="embedded", canvas=16, bounce="resample").open()
    update = updater(data, args.batch)
    update()
    times: dict[str, list[float]] = {}
    for repeat in range(args.repeats):
        indices = data.batches("train", repeat, args.batch)[0]
        times.setdefault("update", []).append(timed(update))
        for name, fields in SETS.items():
            for kind, source in (("", data), (", resample", resample)):
                cost = timed(source.batch, "train", repeat, indices, fields)
                times.setdefault(name + kind, []).append(cost)
        order = timed(data.batches, "train", repeat + 1, args.batch)
        updates = data.size("train") / args.batch
        times.setdefault("order of an epoch, per update", []).append(order / updates)
    whole = statistics.median(times["update"])
    for name, values in times.items():
        middle = statistics.median(values)
        share = "" if name == "update" else f"   {middle / whole:6.2%} of an update (at most 5 %)"
        print(f"{name:<30} {middle * 1e3:8.3f} ms{share}")


if __name__ == "__main__":
    main()
