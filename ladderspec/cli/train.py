"""Train the runs of an experiment."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

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
from ladderspec.cli._terminal import say
from ladderspec.escaping import one_line


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", type=Path, help="an experiment file")
    add_runs(parser)
    parser.add_argument("--threads", metavar="N", type=at_least(1), help="number of CPU threads")
    parser.add_argument(
        "--workers", metavar="N", type=at_least(0), help="threads that load batches"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="device, like cpu or cuda; default: that of the file"
    )
    parser.add_argument("--list", action="store_true", help="print the runs, and train none")
    add_plugin(parser)


def run_train(args: argparse.Namespace) -> int:
    """Train the runs of an experiment, one after another.

    Example:
      ladderspec train specs/experiments/quickstart.yaml --row both -o out/quickstart
      ladderspec train specs/experiments/quickstart.yaml --set training.updates=50 -o out/short
    """
    load_plugins(args.plugin)
    from ladderspec.experiments.reader import open_experiment
    from ladderspec.experiments.runs import on_machine

    experiment = open_experiment(
        args.experiment, changes=changes_of(args), rows=args.row, columns=args.column
    )
    chosen = experiment.select(args.row, args.column, seeds_of(args))
    if args.list:
        given = ("--output", "--resume", "--data", "--threads", "--workers", "--device")
        refuse_ignored(args, "--list trains nothing", *given)
        for one in chosen:
            print(one_line(f"{one.id}  {one.title}"))
        return 0
    from ladderspec.learn.progress import Display

    runs = on_machine(chosen, machine_of(args, "threads", "workers", "device"))
    output = args.output or Path("out") / experiment.name
    display = Display(quiet=os.environ.get("RANK", "0") != "0", total=len(runs))
    with display.working(experiment.name, "preparing"):
        from ladderspec.learn.setup import check_runs
        from ladderspec.learn.train import train

        check_runs(runs, output, args.data)
    for one in runs:
        result = train(one, output / one.id, resume=args.resume, data=args.data, display=display)
        display.done += 1
        if os.environ.get("RANK", "0") == "0":  # one of several processes speaks
            say(f"{one.id}: {_line(result)}  {output / one.id}")
    return 0


def _line(result: dict[str, object]) -> str:
    metrics, units = result["metrics"], result["units"]
    assert isinstance(metrics, dict)
    assert isinstance(units, dict)
    if not metrics:
        return f"trained for {result['updates']} updates; there are no data to validate or test it"
    split = "test" if "test" in metrics else next(iter(metrics), "")
    shown = metrics.get(split, {})
    parts = [f"{name} {shown[name]:.4g} {unit}" for name, unit in units.items() if name in shown]
    return f"{split} after {result['updates']} updates: " + "  ".join(parts)
