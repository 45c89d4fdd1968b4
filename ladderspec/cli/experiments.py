"""Train the runs of an experiment; compare all of them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ladderspec.cli._common import (
    add_plugin,
    at_least,
    load_plugins,
    notes_to_stderr,
    refuse_ignored,
    say,
    width,
)
from ladderspec.escaping import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ladderspec.ablation.ablate import Outcome
    from ladderspec.ablation.study import Study
    from ladderspec.experiments.reader import Networks
    from ladderspec.experiments.runs import Experiment, Run

# --- runs -----------------------------------------------------------------------------------------


def _comma_list(text: str) -> list[str]:
    """The type of an option with several names: `a,b`."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"expected one or more names, like `a,b`, not {text!r}")
    return found


def _seed_list(text: str) -> list[int]:
    """The type of an option with several seeds: `0,3`."""
    return [at_least(0, 2**31 - 1)(seed) for seed in _comma_list(text)]


def _add_runs(parser: argparse.ArgumentParser) -> None:
    """Runs of an experiment, changes to them, and their folders; for `train` and `ablate`."""
    chosen = parser.add_argument_group("which runs", "may be repeated; default: all of the file")
    for option, metavar, type in (
        ("--row", "NAME,...", _comma_list),
        ("--column", "NAME,...", _comma_list),
        ("--seed", "N,...", _seed_list),
    ):
        chosen.add_argument(option, metavar=metavar, type=type, action="extend", default=[])
    chosen.add_argument(
        "--seeds", metavar="N", type=at_least(1, 1000), help="number of seeds: 0 to N - 1"
    )
    changes = parser.add_argument_group("changes", "of the chosen runs; may be repeated")
    changes.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[],
        help="a field, like training.updates=300, params.width=8 or task.digit.weight=0",
    )  # fmt: skip
    changes.add_argument(
        "--split", choices=["test", "valid"],
        help="data on which trained networks are measured; valid: not the test data",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path,
        help="output folder, with a folder for each run; default: out/EXPERIMENT",
    )  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="continue interrupted runs")
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="the data folder")
    parser.add_argument(
        "--threads", metavar="N", type=at_least(1), help="maximum number of CPU threads of each run"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="device, like cpu or cuda; default: that of the file"
    )
    add_plugin(parser)


def _open(
    args: argparse.Namespace, path: Path, networks: Networks | None = None
) -> tuple[Experiment, tuple[Run, ...]]:
    """The experiment with its changes, and the chosen runs."""
    from ladderspec.experiments.reader import open_experiment
    from ladderspec.experiments.runs import notes_on

    changes = [*args.set, *([f"evaluation.split={args.split}"] if args.split else [])]
    experiment = open_experiment(path, networks, changes, rows=args.row, columns=args.column)
    runs = experiment.select(args.row, args.column, _seeds_of(args))
    notes_to_stderr(notes_on(runs))
    return experiment, runs


def _seeds_of(args: argparse.Namespace) -> list[int]:
    """The seeds that `_add_runs` offers."""
    return list(dict.fromkeys([*range(args.seeds or 0), *args.seed]))


def _machine_of(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options about the machine that are given."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


# --- train ----------------------------------------------------------------------------------------


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        metavar="EXPERIMENT",
        type=Path,
        help="an experiment file, or ladderspec:NAME for a shipped one",
    )
    _add_runs(parser)
    parser.add_argument(
        "--workers", metavar="N", type=at_least(0), help="threads that load batches"
    )
    parser.add_argument("--list", action="store_true", help="print the runs, and train none")


def run_train(args: argparse.Namespace) -> int:
    """Train the runs of an experiment, one after another.

    Example:
      ladderspec train ladderspec:experiments/quickstart --row both -o out/both
      ladderspec train mine.yaml --set training.updates=50 -o out/short
    """
    load_plugins(args.plugin)
    from ladderspec.experiments.runs import on_machine

    experiment, chosen = _open(args, args.experiment)
    if args.list:
        given = ("--output", "--resume", "--data", "--threads", "--workers", "--device")
        refuse_ignored(args, "--list trains nothing", *given)
        for one in chosen:
            print(one_line(f"{one.id}  {one.title}"))
        return 0
    from ladderspec.learn.progress import Display

    runs = on_machine(chosen, _machine_of(args, "threads", "workers", "device"))
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
    from ladderspec.data import Split

    metrics, units = result["metrics"], result["units"]
    assert isinstance(metrics, dict)
    assert isinstance(units, dict)
    if not metrics:
        return f"trained for {result['updates']} updates; there are no data to validate or test it"
    split = "test" if "test" in metrics else next(iter(metrics), "")
    shown = metrics.get(split, {})
    parts = [f"{name} {shown[name]:.4g} {unit}" for name, unit in units.items() if name in shown]
    return f"{Split(split).phrase} after {result['updates']} updates: " + "  ".join(parts)


# --- ablate ---------------------------------------------------------------------------------------


def add_ablate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", type=Path,
                        help="an experiment file, or ladderspec:NAME for a shipped one; for a study"
                        " also a spec")  # fmt: skip
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
    _add_runs(parser)
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


def run_ablate(args: argparse.Namespace) -> int:
    """Train all runs of an experiment, and print tables of their results.

    Finished runs are never repeated; the tables contain all finished runs. --each-role and
    --each-edge remove one kind of arrow, or one arrow, at a time, and draw what each is
    worth.

    Example:
      ladderspec ablate ladderspec:experiments/quickstart --processes 2
      ladderspec ablate ladderspec:experiments/quickstart --each-role --of both
      ladderspec ablate spec.yaml --like experiment.yaml --each-edge
    """
    load_plugins(args.plugin)
    if not args.each:
        refuse_ignored(args, "it is for --each-role and --each-edge", "--of", "--like")
    if args.table_only:
        training = ("--engine", "--slurm", "--processes", "--threads", "--device", "--resume")
        refuse_ignored(args, "--table-only trains nothing", *training)
    study = _study(args) if args.each else None
    if study:
        experiment, runs = _open(args, study.path, study.networks)
    else:
        experiment, runs = _open(args, args.experiment)
    output = study.path.parent if study else args.output or Path("out") / experiment.name
    failed = [] if args.table_only else _train(args, experiment, runs, output)
    seeds = dict.fromkeys([*(run.seed for run in experiment), *_seeds_of(args)])
    from ladderspec.ablation.report import list_files, report

    found = report(
        experiment, experiment.select(seeds=seeds), output, args.data, args.by_time, study
    )
    print(found.text(width()))
    if found.written:
        say("\nwrote " + "\n      ".join(list_files(found.written)))
    for line in found.messages:
        say(f"ladderspec: {line}", sys.stderr)
    for outcome in failed:
        say(f"ladderspec: {outcome.job.id}: {outcome.error}", sys.stderr)
    return 1 if failed or not found.written else 0


def _study(args: argparse.Namespace) -> Study:
    from ladderspec.ablation.study import make_study
    from ladderspec.wording import some_of

    output = args.output or Path("out") / f"{args.experiment.stem}_each_{args.each}"
    study = make_study(args.experiment, args.each, output, args.of, args.like)
    if study.required:
        print(f"cannot be left out: {some_of(study.required)}", file=sys.stderr)
    return study


def _train(
    args: argparse.Namespace, experiment: Experiment, runs: Sequence[Run], output: Path
) -> list[Outcome]:
    from ladderspec.experiments.runs import on_machine
    from ladderspec.learn.progress import Display

    machine = _machine_of(args, "threads", "device")
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
