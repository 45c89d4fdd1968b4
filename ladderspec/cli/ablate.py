"""Train all runs of an experiment and report them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ladderspec.cli._options import (
    add_plugin,
    add_runs,
    at_least,
    changes_of,
    load_plugins,
    machine_of,
    refuse_ignored,
    seeds_of,
)
from ladderspec.cli._terminal import say, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ladderspec.ablation.jobs import Outcome
    from ladderspec.ablation.study import Study
    from ladderspec.experiments.runs import Experiment, Run


def add_ablate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", type=Path,
                        help="an experiment file; for a study also a spec")  # fmt: skip
    study = parser.add_argument_group("leave one out").add_mutually_exclusive_group()
    study.add_argument("--each-role", dest="each", action="store_const", const="role",
                       help="remove one kind of arrow at a time")  # fmt: skip
    study.add_argument("--each-edge", dest="each", action="store_const", const="edge",
                       help="remove one arrow at a time")  # fmt: skip
    parser.add_argument(
        "--of",
        metavar="ROW",
        default="",
        help="row from which the study removes arrows; default: the base",
    )
    parser.add_argument(
        "--like",
        metavar="EXPERIMENT",
        type=Path,
        help="experiment whose data and training the study of a spec uses",
    )
    add_runs(parser)
    parser.add_argument(
        "--table-only",
        action="store_true",
        help="write tables and figures of finished runs; train nothing",
    )
    parser.add_argument("--by-time", action="store_true",
                        help="show metrics at every t, also over frames; always with several"
                        " iterations on one input")  # fmt: skip
    where = parser.add_argument_group("where it runs", "default: here, one run after another")
    where.add_argument("--engine", choices=["processes", "ray", "slurm"],
                       help="run on a cluster through Ray or SLURM; or as --processes")  # fmt: skip
    where.add_argument(
        "--slurm",
        metavar="OPTION=VALUE",
        action="append",
        default=[],
        help="option of submitit, like timeout_min=600; may be repeated",
    )
    where.add_argument("--processes", metavar="N", type=int,
                       help="number of runs at once, which share cores and GPUs")  # fmt: skip
    where.add_argument(
        "--threads", metavar="N", type=at_least(1), help="maximum number of CPU threads of each run"
    )
    where.add_argument(
        "--device", metavar="NAME", help="device, like cpu or cuda; default: that of the file"
    )
    add_plugin(parser)


def run_ablate(args: argparse.Namespace) -> int:
    """Train all runs of an experiment, and print tables beside the numbers of the paper.

    Finished runs are never repeated; the tables contain all finished runs. --each-role and
    --each-edge remove one kind of arrow, or one arrow, at a time, and draw what each is
    worth.

    Example:
      ladderspec ablate specs/experiments/quickstart.yaml -o out/quickstart --processes 2
      ladderspec ablate specs/experiments/quickstart.yaml --each-role --of both
      ladderspec ablate mine.yaml --like specs/experiments/quickstart.yaml --each-edge
    """
    load_plugins(args.plugin)
    from ladderspec.experiments.reader import open_experiment

    if not args.each:
        refuse_ignored(args, "it is for --each-role and --each-edge", "--of", "--like")
    if args.table_only:
        training = ("--engine", "--slurm", "--processes", "--threads", "--device", "--resume")
        refuse_ignored(args, "--table-only trains nothing", *training)
    study = _study(args) if args.each else None
    path, networks = (study.path, study.networks) if study else (args.experiment, None)
    experiment = open_experiment(
        path, networks, changes_of(args), rows=args.row, columns=args.column
    )
    asked = seeds_of(args)
    runs = experiment.select(args.row, args.column, asked)
    output = study.path.parent if study else args.output or Path("out") / experiment.name
    failed = [] if args.table_only else _train(args, experiment, runs, output)
    seeds = dict.fromkeys([*(run.seed for run in experiment), *asked])
    from ladderspec.ablation.report import list_files, report

    found = report(
        experiment, experiment.select(seeds=seeds), output, args.data, args.by_time, study
    )
    print(found.text(width()))
    if found.written:
        say("\nwrote " + "\n      ".join(list_files(found.written)))
    for line in found.messages:
        print(f"ladderspec: {line}", file=sys.stderr)
    for outcome in failed:
        print(f"ladderspec: {outcome.job.id}: {outcome.error}", file=sys.stderr)
    return 1 if failed or not found.written else 0


def _study(args: argparse.Namespace) -> Study:
    from ladderspec.ablation.study import make_study
    from ladderspec.wiring.selection import few

    output = args.output or Path("out") / f"{args.experiment.stem}_each_{args.each}"
    study = make_study(args.experiment, args.each, output, args.of, args.like)
    if study.kept:
        print(f"cannot be left out: {few(study.kept)}", file=sys.stderr)
    return study


def _train(
    args: argparse.Namespace, experiment: Experiment, runs: Sequence[Run], output: Path
) -> list[Outcome]:
    from ladderspec.experiments.runs import on_machine
    from ladderspec.learn.progress import Display

    machine = machine_of(args, "threads", "device")
    runs = on_machine(runs, machine)
    with Display().working(experiment.name, "preparing"):
        from ladderspec.ablation.ablate import AblationOptions, ablate
        from ladderspec.ablation.engines import choose
        from ladderspec.learn.setup import check_runs

        if args.engine not in ("ray", "slurm"):  # the data may be on other machines alone
            check_runs(runs, output, args.data)
    order = AblationOptions(output, args.resume, args.data, machine, tuple(args.plugin))
    engine = choose(args.engine, args.processes, output, args.slurm)
    return ablate(experiment, runs, order, engine)
