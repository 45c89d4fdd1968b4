"""The cost of the training loop beside the bare forward, backward and optimiser of one net.

    python benchmarks/train_cost.py [--repeats 31] [--batch 50]

Alternates bare updates with those of the loop on the same batch, now the one first and now the
other, on one thread, and counts processor time, so that a busy machine slows both alike; reports
medians and, of the ratio, the quartiles. Then what batches and checkpoints take. At most 3 % for
the loop, 2 % for waiting for data, 2 s for a checkpoint of the largest spec: see TRAINING.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ladderspec.api import build, load
from ladderspec.data import data_config
from ladderspec.experiments.training import OptimiserConfig, TrainingConfig
from ladderspec.learn.batches import Collator, Sampler
from ladderspec.learn.train import batches
from ladderspec.learn.train_state import TrainState, new_train_state, save
from ladderspec.learn.update import update

ROOT = Path(__file__).resolve().parent.parent
SMALLEST = ROOT / "specs/ommnist/rladder_tiny.yaml"
LARGEST = [ROOT / "specs/music/rladder.yaml", ROOT / "specs/ommnist/rladder.yaml"]


def state(spec: Path, batch: int) -> TrainState:
    net = build(load(spec))
    if net.shape[-1] == 88:
        data = data_config("music", name="etudes").open()
    else:
        data = data_config("occluded_mnist", digits="embedded", canvas=net.shape[-1]).open()
    words = TrainingConfig(
        updates=10**6, batch=batch, optimiser=OptimiserConfig(clip={"norm": 1.0})
    )
    collator = Collator(data, net.tasks)
    return new_train_state(net, collator, Sampler(collator, "train", batch), words, 0, 10**6)


def timed(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def loop_cost(repeats: int, size: int) -> None:
    one = state(SMALLEST, size)
    net, adam = one.net, one.optimiser

    def bare() -> None:
        adam.zero_grad(set_to_none=True)
        net.cost(batch.frames, batch.targets).total.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()

    def loop() -> None:
        update(one, batch, share)

    times: dict[str, list[float]] = {"bare": [], "loop": [], "data": []}
    acts = {"bare": bare, "loop": loop}
    coming = batches(one, 0)
    batch, share = next(coming)
    bare()
    for _ in range(repeats):
        start = time.process_time()
        batch, share = next(coming)
        times["data"].append(time.process_time() - start)
        for name, act in acts.items():
            times[name].append(timed(act))
        acts = dict(reversed(acts.items()))
    middle = {name: statistics.median(values) for name, values in times.items()}
    ratios = [a / b - 1 for a, b in zip(times["loop"], times["bare"], strict=True)]
    low, more, high = statistics.quantiles(ratios, n=4)
    print(f"{SMALLEST.stem}, batch {size}, {repeats} updates of each")
    print(f"  bare update   {middle['bare'] * 1e3:8.2f} ms")
    print(
        f"  of the loop   {middle['loop'] * 1e3:8.2f} ms   {more:+.1%} ({low:+.1%} to {high:+.1%})"
    )
    print(f"  a batch       {middle['data'] * 1e3:8.2f} ms   {middle['data'] / middle['bare']:.1%}")


def checkpoint_cost() -> None:
    for spec in LARGEST:
        one = state(spec, 2)
        batch, share = next(batches(one, 0))
        update(one, batch, share)  # so that the optimiser has its averages
        with tempfile.TemporaryDirectory() as folder:
            times = sorted(save(one, Path(folder)) for _ in range(5))
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
        name = f"{spec.parent.name}/{spec.stem}"
        print(f"{name}: a checkpoint of {size / 1e6:.0f} MB takes {times[2]:.2f} s"
              f" ({times[0]:.2f} to {times[-1]:.2f})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--batch", type=int, default=50)
    args = parser.parse_args()
    torch.set_num_threads(1)
    loop_cost(args.repeats, args.batch)
    checkpoint_cost()


if __name__ == "__main__":
    main()
