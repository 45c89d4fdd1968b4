"""Commands on a trained network: evaluate it, or let it generate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ladderspec.cli._common import add_plugin, at_least, load_plugins, notes_to_stderr, say
from ladderspec.errors import UsageError
from ladderspec.escaping import one_line
from ladderspec.files import make_folder, write_atomic

if TYPE_CHECKING:
    from ladderspec.learn.metrics import Report
    from ladderspec.trained.run import TrainedRun

# --- evaluate -------------------------------------------------------------------------------------


def add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--without", metavar="SELECTOR", action="append", default=[],
                        help="remove arrows, nodes or tasks from the trained network")  # fmt: skip
    parser.add_argument("--activations", metavar="NODE", action="append", default=[],
                        help="write the output of a node over t, as .npz and picture")  # fmt: skip
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
    """The arguments that `evaluate` and `generate` share."""
    parser.add_argument("run_folder", metavar="RUN", type=Path,
                        help="the folder of a run, or a checkpoint: RUN/best.json")  # fmt: skip
    parser.add_argument("--checkpoint", choices=["best", "last"],
                        help="default: the one that its result reports")  # fmt: skip
    parser.add_argument("--split", choices=["train", "valid", "test"], default="test")
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="the data folder")
    parser.add_argument(
        "--threads", metavar="N", type=at_least(1, 1024), help="default: as torch decides"
    )
    parser.add_argument("--device", metavar="NAME", default="auto",
                        help="cpu, cuda, cuda:1, mps; default: cuda if it is there")  # fmt: skip
    add_plugin(parser)


def open_run_of(args: argparse.Namespace) -> TrainedRun:
    """The run that the arguments name."""
    load_plugins(args.plugin)
    from ladderspec.trained.run import open_run

    if args.threads is not None:
        import torch

        torch.set_num_threads(args.threads)
    return open_run(args.run_folder, args.checkpoint, args.data, args.device)


def run_evaluate(args: argparse.Namespace) -> int:
    """Evaluate a trained network: metrics by t, confusion matrix, pictures, lesions, activations.

    Example:
      ladderspec evaluate out/quickstart/both.seed0 --without decoder_to_encoder
    """
    from ladderspec.trained.evaluate import evaluate
    from ladderspec.trained.lesion import notes_on

    opened = open_run_of(args)
    report = evaluate(opened, args.split, args.without, args.statistics, args.noise)
    files, problem = list[Path](), None
    try:
        files = _write_pictures(opened, args)
    except (UsageError, OSError) as error:  # after the measures are printed
        problem = error
    notes = [*opened.notes, *(notes_on(opened.graph, args.without) if args.without else [])]
    if args.json:
        data = {"metrics": report.metrics, "by_time": report.by_time, "units": report.units,
                 "confusion": report.confusion, "files": [str(file) for file in files],
                 "notes": notes}  # fmt: skip
        print(json.dumps(data, indent=1))
    else:
        _print(report, opened, args)
        for note in notes:
            print(f"note: {one_line(note)}")
        for file in files:
            say(f"wrote {file}")
    if problem is not None:
        raise problem
    return 0


def _write_pictures(opened: TrainedRun, args: argparse.Namespace) -> list[Path]:
    from ladderspec.trained.evaluate import samples

    output = make_folder(args.output or opened.folder / "evaluation")
    files = []
    picture = samples(opened, args.split, args.without, args.count, args.statistics, args.noise)
    if picture is not None:
        picture.save(output / f"{args.split}.png")
        files.append(output / f"{args.split}.png")
    if args.activations:
        files += _activations(opened, args, output)
    return files


def _activations(opened: TrainedRun, args: argparse.Namespace, output: Path) -> list[Path]:
    import numpy as np

    from ladderspec.data import Split
    from ladderspec.trained.evaluate import activation_sheet, activations

    shown = args.split, args.without, max(16, args.count), args.statistics, args.noise
    arrays = activations(opened, args.activations, *shown)
    np.savez_compressed(output / "activations.npz", **arrays)  # type: ignore[arg-type]
    title = f"{opened.record['title']}: {Split(args.split).phrase}"
    timed = opened.data.forms[next(iter(arrays))].time
    activation_sheet(arrays, title, timed).save(output / "activations.png")
    return [output / "activations.npz", output / "activations.png"]


def _input(opened: TrainedRun, asked: bool | None) -> str:
    """A note on the input, noisy or clean, if the network has noise; empty if tasks differ."""
    from ladderspec.experiments.training import noise_of

    noise = opened.noise(asked)
    if noise_of(opened.graph) is None or noise is None:
        return ""
    return f", on {'noisy' if noise else 'clean'} input"


def _print(report: Report, opened: TrainedRun, args: argparse.Namespace) -> None:
    from ladderspec.data import Split
    from ladderspec.experiments.training import TEACHER

    lesions = f" without {', '.join(args.without)}" if args.without else ""
    update = opened.weights.attributes.get("update")
    data = Split(args.split).phrase + _input(opened, args.noise)
    weights = f"{opened.which} checkpoint, after {update} updates"
    print(one_line(f"{opened.record['title']}{lesions}: {data}, {weights}"))
    width = max((len(name) for name in report.metrics), default=0)
    for name, value in report.metrics.items():
        unit = report.units.get(name.removeprefix(TEACHER), "")
        times = "  ".join(f"{t:.4g}" for t in report.by_time.get(name, []))
        print(f"  {name:<{width}}  {value:8.4g} {unit:<7}" + (f"  by t: {times}" if times else ""))
    for name, table in report.confusion.items():
        print(f"\n{name}: rows are true classes, columns predicted ones")
        print("     " + "".join(f"{i:>5}" for i in range(len(table))))
        for i, row in enumerate(table):
            print(f"{i:>5}" + "".join(f"{n or '.':>5}" for n in row))


# --- generate -------------------------------------------------------------------------------------

LONGEST = 64  # quarters of a step of music


def add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--frames", metavar="N", type=int, default=6,
                        help="number of generated frames; default: 6")  # fmt: skip
    parser.add_argument("--given", metavar="N", type=int,
                        help="frames that are given first; default: as many as the shortest"
                        " item has, at most the `steps` of its training")  # fmt: skip
    parser.add_argument("--first", metavar="N", type=int, default=0, help="the first item")
    parser.add_argument(
        "--count", metavar="N", type=at_least(1), default=4, help="number of items; default: 4"
    )
    parser.add_argument("--sample", action="store_true",
                        help="draw from probabilities instead of feeding them back")  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=at_least(0),
                        help="seed of --sample; default: 0")  # fmt: skip
    parser.add_argument("--step", metavar="QUARTERS", type=float, default=0.5,
                        help="length of a step of music; default: an eighth, 0.5")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", type=Path,
                        help=".png or .svg; for music also .mid, of several items"
                        " FILE-0.mid, FILE-1.mid and so on; default: in the run")  # fmt: skip


def run_generate(args: argparse.Namespace) -> int:
    """Continue sequences with a trained network, whose predictions become its input.

    Writes pictures, and for music a MIDI file.

    Example:
      ladderspec generate out/quickstart/both.seed0 --frames 6 -o future.png
    """
    from ladderspec.trained.generate import continuation_sheet, generate

    if not args.sample and args.seed is not None:
        raise UsageError("--seed would be ignored: nothing is drawn without --sample")
    if not 0 < args.step <= LONGEST:
        raise UsageError(f"--step {args.step}: a step is above 0 and at most {LONGEST} quarters")
    opened = open_run_of(args)
    music = opened.record["data"]["set"] == "music"
    if args.output is not None and args.output.suffix == ".mid" and not music:
        raise UsageError(f"{args.output}: only music becomes MIDI; .png and .svg are pictures")
    found = generate(
        opened,
        args.frames,
        args.split,
        args.first,
        args.count,
        args.given,
        args.sample,
        args.seed or 0,
    )
    notes_to_stderr(opened.notes)
    given, later = found.given, found.later
    title = f"{opened.record['title']}: {given.shape[1]} frames given, {later.shape[1]} generated"
    place = args.output or opened.folder / "evaluation" / "generated.png"
    make_folder(place.parent)
    if place.suffix != ".mid":
        continuation_sheet(found, title, args.first).save(place)
        say(f"wrote {place}")
    if music and (args.output is None or place.suffix == ".mid"):
        _write_midi(given, later, place, args.step)
    return 0


def _write_midi(given: object, later: object, place: Path, step: float) -> None:
    import numpy as np

    from ladderspec.trained.generate import to_midi

    rolls = np.concatenate([np.asarray(given), np.asarray(later)], 1)[:, :, 0, 0]
    for i, roll in enumerate(rolls):
        name = f"{place.stem}.mid" if len(rolls) == 1 else f"{place.stem}-{i}.mid"
        say(f"wrote {write_atomic(place.with_name(name), to_midi(roll, step))}")
