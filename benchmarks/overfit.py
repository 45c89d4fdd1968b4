"""Can it learn at all: every tiny and small spec that classifies learns 64 sequences by heart.

    python benchmarks/overfit.py [--only rladder_tiny] [--updates 200] [--record]

At default initial values, Adam with one learning rate for all, all sequences in each update. Says
the costs of the first update beside those of a constant predictor, and after how many updates the
error in training mode was below 5 %. `--record` writes benchmarks/overfit.txt.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ladderspec.api import build, load
from ladderspec.data import DataSet, data_config
from ladderspec.language.read import Spec
from ladderspec.learn.batches import Collator
from ladderspec.network.net import Net
from ladderspec.tasks import Classification, Denoising, Prediction

ROOT = Path(__file__).resolve().parent.parent
SEQUENCES = 64
LIMIT = 5.0  # per cent
LR = 0.005
EVERY = 5


@dataclass(frozen=True)
class Result:
    spec: str
    variant: str
    first: dict[str, float]  # costs of the first update
    constant: dict[str, float]  # of a constant predictor
    updates: int
    error: float
    seconds: float

    def __str__(self) -> str:
        name = f"{self.spec}{' ' + self.variant if self.variant else ''}"
        costs = "  ".join(
            f"{task} {value:.3g} ({self.constant[task]:.3g})" for task, value in self.first.items()
        )
        end = f"{self.error:.1f} % after {self.updates} updates"
        return f"{name:<45} {end:<26} first cost (constant): {costs}  {self.seconds:.0f} s"


def cases() -> Iterator[tuple[Path, str]]:
    """Tiny and small specs, bare and with each variant, that have a classification task."""
    files = [*ROOT.glob("specs/*/*_tiny.yaml"), *ROOT.glob("specs/*/*_small.yaml")]
    specs = sorted(path for path in files if path.parent.name != "experiments")
    for path in [*specs, ROOT / "specs/ommnist/appendix_c.yaml"]:
        for variant in ["", *load(path).config.variants]:
            spec = load(path, variant or None)
            if any(isinstance(task, Classification) for task in spec.config.tasks.values()):
                yield path, variant


def data_for(spec: Spec) -> DataSet:
    """Data with the input of the spec."""
    words = spec.config.input
    if words.size is None:
        side = math.isqrt(words.channels)
        return data_config("digits", side=side, flat=True).open()
    still = spec.config.time.frames is None
    view = {"input": "optimal"} if still else {}
    return data_config("occluded_mnist", digits="embedded", canvas=words.size[0], **view).open()


def overfit(path: Path, variant: str, updates: int, seed: int = 1) -> Result:
    """Learn 64 sequences until the error is small, or the updates are used up."""
    start = time.process_time()
    spec = load(path, variant or None)
    net, data = build(spec, seed), data_for(spec)
    collator = Collator(data, net.tasks)
    indices = data.batches("train", 0, SEQUENCES)[0]
    batch = next(collator.pieces(collator.take("train", 0, indices)))
    for name, task in net.tasks.items():
        if isinstance(task, Prediction | Denoising):
            net.set_offset(torch.from_numpy(data.mean(task.field or data.config.input)), name)
    adam = torch.optim.Adam(net.parameters(), LR)
    torch.manual_seed(seed)
    first: dict[str, float] = {}
    for update in range(1, updates + 1):
        costs = net.cost(batch.frames, batch.targets)
        first = first or {name: float(cost.detach()) for name, cost in costs.items()}
        adam.zero_grad()
        costs.total.backward()
        adam.step()
        if update % EVERY == 0 and (error := train_error(net, batch.frames, batch.targets)) < LIMIT:
            break
    seconds = time.process_time() - start
    constant = constants(net, data, batch.targets)
    return Result(path.stem, variant, first, constant, update, error, seconds)


@torch.no_grad()
def train_error(net: Net, frames: torch.Tensor, targets: dict[str, torch.Tensor]) -> float:
    """In per cent, with the statistics of the batch and with noise."""
    name, task = next((n, t) for n, t in net.tasks.items() if isinstance(t, Classification))
    seen = net(frames)[name][:, -1]
    return float((seen.argmax(1) != targets[task.target]).double().mean()) * 100


def constants(net: Net, data: DataSet, targets: dict[str, torch.Tensor]) -> dict[str, float]:
    """Costs of always saying the same: each class alike, the mean frame."""
    found = {}
    for name, task in net.tasks.items():
        if isinstance(task, Classification):
            found[name] = math.log(data.classes or 1)
        else:
            field = task.field or data.config.input
            mean = torch.from_numpy(data.mean(field))
            seen = targets[field].double()
            seen = seen[:, task.ahead :] if isinstance(task, Prediction) else seen
            found[name] = float(((seen - mean) ** 2).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="specs whose name begins so")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines, failed = [], 0
    for path, variant in cases():
        if args.only is None or path.stem.startswith(args.only):
            result = overfit(path, variant, args.updates)
            failed += result.error >= LIMIT or not np.isfinite(list(result.first.values())).all()
            lines.append(str(result))
            print(lines[-1], flush=True)
    if args.record:
        text = f"{SEQUENCES} sequences, Adam {LR}, at most {args.updates} updates; CPU seconds\n\n"
        (ROOT / "benchmarks/overfit.txt").write_text(text + "\n".join(lines) + "\n")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
