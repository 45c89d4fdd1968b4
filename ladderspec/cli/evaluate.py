"""Evaluate a trained network: measures by t, confusion, pictures, lesions, activations.

Example:
  ladderspec evaluate out/quickstart/rladder.seed0 --without decoder_to_encoder
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ladderspec.cli._options import add_plugin, at_least, load_plugins
from ladderspec.files import make_folder

if TYPE_CHECKING:
    from ladderspec.learn.measure import Report
    from ladderspec.trained.opened import Opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--without", metavar="SELECTOR", action="append", default=[],
                        help="take arrows, nodes or tasks out of the trained network")  # fmt: skip
    parser.add_argument("--activations", metavar="NODE", action="append", default=[],
                        help="write what a node gives over time, as .npz and picture")  # fmt: skip
    parser.add_argument("--statistics", metavar="N", type=at_least(0),
                        help="batches to measure batch norms on; 0: none")  # fmt: skip
    noise = parser.add_mutually_exclusive_group()
    noise.add_argument("--noise", dest="noise", action="store_true", default=None,
                       help="measure all tasks on noisy input; default: as in the run")  # fmt: skip
    noise.add_argument("--clean", dest="noise", action="store_false",
                       help="measure all tasks on clean input")  # fmt: skip
    parser.add_argument(
        "--count", metavar="N", type=at_least(0), default=4, help="items in pictures; default: 4"
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path,
                        help="for pictures and arrays; default: evaluation in the run")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def add_run(parser: argparse.ArgumentParser) -> None:
    """What `evaluate` and `generate` share."""
    parser.add_argument("run_folder", metavar="RUN", type=Path,
                        help="the folder of a run, or a checkpoint: RUN/best.json")  # fmt: skip
    parser.add_argument("--checkpoint", choices=["best", "last"],
                        help="default: the one that its result reports")  # fmt: skip
    parser.add_argument("--split", choices=["train", "valid", "test"], default="test")
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="the data folder")
    parser.add_argument(
        "--threads", metavar="N", type=at_least(1), help="default: as torch decides"
    )
    add_plugin(parser)


def open_asked(args: argparse.Namespace) -> Opened:
    """The run that the arguments name."""
    load_plugins(args.plugin)
    import torch

    from ladderspec.trained.opened import open_run

    if args.threads is not None:
        torch.set_num_threads(args.threads)
    return open_run(args.run_folder, args.checkpoint, args.data)


def run(args: argparse.Namespace) -> int:
    from ladderspec.trained.evaluate import evaluate, samples

    opened = open_asked(args)
    report = evaluate(opened, args.split, args.without, args.statistics, args.noise)
    output = make_folder(args.output or opened.folder / "evaluation")
    files = []
    looked = args.split, args.without, args.count, args.statistics, args.noise
    picture = samples(opened, *looked)
    if picture is not None:
        picture.save(output / f"{args.split}.png")
        files.append(output / f"{args.split}.png")
    if args.activations:
        files += _activations(opened, args, output)
    if args.json:
        facts = {"metrics": report.metrics, "by_time": report.by_time, "units": report.units,
                 "confusion": report.confusion, "files": [str(file) for file in files]}  # fmt: skip
        print(json.dumps(facts, indent=1))
        return 0
    _print(report, opened, args)
    for file in files:
        print(f"wrote {file}")
    return 0


def _activations(opened: Opened, args: argparse.Namespace, output: Path) -> list[Path]:
    import numpy as np

    from ladderspec.trained.evaluate import activation_sheet, activations

    looked = args.split, args.without, max(16, args.count), args.statistics, args.noise
    arrays = activations(opened, args.activations, *looked)
    np.savez_compressed(output / "activations.npz", **arrays)  # type: ignore[arg-type]
    title = f"{opened.facts['title']}: {args.split}"
    timed = opened.data.forms[next(iter(arrays))].time
    activation_sheet(arrays, title, timed).save(output / "activations.png")
    return [output / "activations.npz", output / "activations.png"]


def _input(opened: Opened, asked: bool | None) -> str:
    """What all tasks are measured on, if the network has noise and it is the same for all."""
    from ladderspec.learn.inputs import noise_of

    noise = opened.noise(asked)
    if noise_of(opened.graph) is None or noise is None:
        return ""
    return f", on {'noisy' if noise else 'clean'} input"


def _print(report: Report, opened: Opened, args: argparse.Namespace) -> None:
    from ladderspec.learn.words import TEACHER

    lesions = f" without {', '.join(args.without)}" if args.without else ""
    update = opened.weights.facts.get("update")
    title = f"{opened.facts['title']}{lesions}: {args.split}"
    print(f"{title}, {opened.which} after {update} updates{_input(opened, args.noise)}")
    width = max((len(name) for name in report.metrics), default=0)
    for name, value in report.metrics.items():
        unit = report.units.get(name.removeprefix(TEACHER), "")
        times = "  ".join(f"{t:.4g}" for t in report.by_time.get(name, []))
        print(f"  {name:<{width}}  {value:8.4g} {unit:<7}" + (f"  by t: {times}" if times else ""))
    for name, table in report.confusion.items():
        print(f"\n{name}: rows are the class, columns what it was taken for")
        print("     " + "".join(f"{i:>5}" for i in range(len(table))))
        for i, row in enumerate(table):
            print(f"{i:>5}" + "".join(f"{n or '.':>5}" for n in row))
