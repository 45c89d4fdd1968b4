"""Arguments that many commands share: a spec, changes to it, plug-ins."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladderspec.api import compiled, open_spec
from ladderspec.errors import UsageError
from ladderspec.language.read import Request
from ladderspec.wiring.graph import Graph


def add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "spec", metavar="SPEC",
        help="a spec file, ladderspec:NAME for a shipped one, - for standard input, or the folder"
        " of a saved network or of a run",
    )  # fmt: skip


def add_changes(parser: argparse.ArgumentParser) -> None:
    changes = parser.add_argument_group("changes", "applied in this order; each may be repeated")
    changes.add_argument(
        "--variant", metavar="NAME", action="append", default=[], help="a variant of the spec"
    )
    changes.add_argument(
        "--set", metavar="PATH=VALUE", action="append", default=[],
        help="a field, like encoder.lstm1.channels=16 or params.width=8",
    )  # fmt: skip
    changes.add_argument(
        "--without", metavar="SELECTOR", action="append", default=[],
        help="remove a role, arrow, node, level or task, like lateral@conv_*",
    )  # fmt: skip
    changes.add_argument(
        "--add", metavar="ARROW", action="append", default=[],
        help="add an arrow, like 'decoder.input(t-1) -> encoder.conv_2'",
    )  # fmt: skip
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--root", metavar="FOLDER", type=Path, help="where `extends` may reach; default: the spec's"
    )
    add_plugin(reading)


def at_least(least: int, most: float = math.inf) -> Callable[[str], int]:
    """The type of an option: a whole number from `least` to `most`."""

    def number(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            limit = f", at most {most:,}" if most < math.inf else ""
            shown = text if len(text) <= 40 else f"{text[:37]}..."
            wanted = f"expected a whole number, at least {least}{limit}"
            raise argparse.ArgumentTypeError(f"{wanted}, not {shown!r}")
        return int(text)

    return number


def comma_list(text: str) -> list[str]:
    """The type of an option with several names: `a,b`."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"expected one or more names, like `a,b`, not {text!r}")
    return found


def seed_list(text: str) -> list[int]:
    """The type of an option with several seeds: `0,3`."""
    return [at_least(0, 2**31 - 1)(seed) for seed in comma_list(text)]


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Runs of an experiment, changes to them, and their folders; for `train` and `ablate`."""
    chosen = parser.add_argument_group("which runs", "may be repeated; default: all of the file")
    for option, metavar, type in (
        ("--row", "NAME,...", comma_list),
        ("--column", "NAME,...", comma_list),
        ("--seed", "N,...", seed_list),
    ):
        chosen.add_argument(option, metavar=metavar, type=type, action="extend", default=[])
    chosen.add_argument(
        "--seeds", metavar="N", type=at_least(1, 1000), help="number of seeds: 0 to N - 1"
    )
    changes = parser.add_argument_group("changes", "of all runs; may be repeated")
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


def changes_of(args: argparse.Namespace) -> list[str]:
    """The changes that `add_runs` offers, as PATH=VALUE."""
    return [*args.set, *([f"evaluation.split={args.split}"] if args.split else [])]


def seeds_of(args: argparse.Namespace) -> list[int]:
    """The seeds that `add_runs` offers."""
    return list(dict.fromkeys([*range(args.seeds or 0), *args.seed]))


def machine_of(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options about the machine that are given."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def refuse_ignored(args: argparse.Namespace, reason: str, *options: str) -> None:
    """Refuse options that would be ignored, and say why."""
    for option in options:
        if getattr(args, option.lstrip("-").replace("-", "_")) not in (None, False, [], ""):
            raise UsageError(f"{option} would be ignored: {reason}")


def add_plugin(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--plugin", metavar="FILE", action="append", default=[], type=Path,
        help="a Python file with cells, tasks or data sets of your own; it is run",
    )  # fmt: skip


def load_plugins(paths: list[Path]) -> None:
    if paths:
        from ladderspec.plugins import load_plugin

        for path in paths:
            load_plugin(path)


def request(args: argparse.Namespace) -> Request:
    """Load the plug-ins, and return the changes that the arguments ask for."""
    load_plugins(args.plugin)
    return Request.of(args.variant, args.without, args.add, args.set)


def open_graph(args: argparse.Namespace, spec: str | None = None) -> Graph:
    """The graph of the spec or folder of the arguments, with the changes; or of `spec`, without."""
    if spec is None:
        return graph_of(args.spec, request(args), args.root)
    return graph_of(spec, Request(), args.root)


def graph_of(spec: str, changes: Request, root: Path | None) -> Graph:
    """The graph of a spec with changes, or of a folder, which cannot be changed."""
    folder = saved(spec)
    if folder is None:
        return compiled(open_spec(spec, changes, root))
    if changes != Request():
        raise UsageError(
            f"{folder} holds a network, which cannot be changed: changes are for specs"
        )
    from ladderspec.wiring.graph_json import open_graph as read_graph

    return read_graph(folder / "graph.json")


def saved(spec: str) -> Path | None:
    """The folder of a saved network or of a run, if `spec` is a folder."""
    folder = Path(spec)
    if not folder.is_dir():
        return None
    if not (folder / "graph.json").exists():
        raise UsageError(f"{folder} is a folder without a network: it has no graph.json")
    return folder
