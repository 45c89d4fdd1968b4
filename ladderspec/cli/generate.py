"""Let a trained network go on by itself: pictures, and for music a MIDI file.

Example:
  ladderspec generate out/quickstart/rladder.seed0 --frames 6 -o future.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ladderspec.cli._options import at_least
from ladderspec.cli.evaluate import add_run, open_asked
from ladderspec.errors import UsageError
from ladderspec.files import make_folder

LONGEST = 64  # quarters of a step of music


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--frames", metavar="N", type=int, default=6, help="how many; default: 6")
    parser.add_argument("--given", metavar="N", type=int,
                        help="frames that are given first; default: as many as the shortest"
                        " item has, at most the `steps` of its training")  # fmt: skip
    parser.add_argument("--first", metavar="N", type=int, default=0, help="the first item")
    parser.add_argument(
        "--count", metavar="N", type=at_least(1), default=4, help="how many; default: 4"
    )
    parser.add_argument("--sample", action="store_true",
                        help="draw from probabilities instead of feeding them back")  # fmt: skip
    parser.add_argument("--seed", metavar="N", type=at_least(0), default=0, help="of the draws")
    parser.add_argument("--step", metavar="QUARTERS", type=float, default=0.5,
                        help="length of a step of music; default: an eighth, 0.5")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", type=Path,
                        help=".png or .svg; for music also .mid, of several items"
                        " FILE-0.mid, FILE-1.mid and so on; default: in the run")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from ladderspec.trained.evaluate import continuation_sheet, generate

    if not 0 < args.step <= LONGEST:
        raise UsageError(f"--step {args.step}: a step is above 0 and at most {LONGEST} quarters")
    opened = open_asked(args)
    music = opened.facts["data"]["set"] == "music"
    if args.output is not None and args.output.suffix == ".mid" and not music:
        raise UsageError(f"{args.output}: only music becomes MIDI; .png and .svg are pictures")
    given, later = generate(
        opened, args.frames, args.split, args.first, args.count, args.given, args.sample, args.seed
    )
    title = f"{opened.facts['title']}: {given.shape[1]} frames given, {later.shape[1]} by itself"
    place = args.output or opened.folder / "evaluation" / "generated.png"
    make_folder(place.parent)
    if place.suffix != ".mid":
        continuation_sheet(given, later, title, args.first).save(place)
        print(f"wrote {place}")
    if music and (args.output is None or place.suffix == ".mid"):
        _write_midi(given, later, place, args.step)
    return 0


def _write_midi(given: object, later: object, place: Path, step: float) -> None:
    import numpy as np

    from ladderspec.files import write_atomic
    from ladderspec.trained.midi import to_midi

    rolls = np.concatenate([np.asarray(given), np.asarray(later)], 1)[:, :, 0, 0]
    for i, roll in enumerate(rolls):
        name = f"{place.stem}.mid" if len(rolls) == 1 else f"{place.stem}-{i}.mid"
        print(f"wrote {write_atomic(place.with_name(name), to_midi(roll, step))}")
