"""Arguments of many commands, like a spec and changes to it, and texts on a terminal."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from ladderspec.api import compiled, open_spec
from ladderspec.errors import Finding, UsageError
from ladderspec.escaping import escape_terminal, fitted
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
        "--root",
        metavar="FOLDER",
        type=Path,
        help="folder that `extends` cannot leave; default: the folder of the spec",
    )
    add_plugin(reading)


MOST = 10**18 - 1  # of a number of at most 18 digits


def at_least(least: int, most: int = MOST) -> Callable[[str], int]:
    """The type of an option: a whole number from `least` to `most`."""

    def number(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            limit = f", at most {most:,}" if most < MOST or len(text) > 18 else ""
            shown = text if len(text) <= 40 else f"{text[:37]}..."
            wanted = f"expected a whole number, at least {least}{limit}"
            raise argparse.ArgumentTypeError(f"{wanted}, not {shown!r}")
        return int(text)

    return number


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
    if not os.path.isdir(folder):
        return None
    if not os.path.exists(folder / "graph.json"):
        raise UsageError(f"{folder} is a folder without a network: it has no graph.json")
    return folder


# --- texts on a terminal: as wide as it is, in colour unless NO_COLOR is set ---------------------

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"

# What is coloured in the output of each command: a pattern of whole lines or of parts of them.
COLOURS = {
    "show": [
        (r"\A.+", BOLD), (r"^level .*\n[- ]+$", DIM), (r"^note:", YELLOW), (r"^variants:", BOLD),
        (r"^[\d,]+ parameters", BOLD), (r"^task [^:]+", CYAN),
    ],
    "ladder": [(r"◀■|↖■|↺", CYAN), (r"^task [^ ]+", CYAN)],
    "graph": [(r"\A.+", BOLD), (r"\(t-\d+\)", CYAN), (r"^note:", YELLOW), (r"^task [^:]+", CYAN)],
    "plan": [
        (r"\A.+", BOLD), (r"^\d+\. .+", BOLD), (r"^   [\w, ]+(?= = )", CYAN), (r"'+", CYAN),
        (r"^e encoder[\s\S]+", DIM),
    ],
    "diff": [(r"^-.*", RED), (r"^\+.*", GREEN), (r"^~.*", YELLOW), (r"^parameters:.*", BOLD)],
    "error": [(r"^error\[\w+\].*", RED), (r"\^+.*", YELLOW), (r"^  (hint|note):", GREEN)],
}  # fmt: skip


def width(out: TextIO | None = None) -> int | None:
    """The columns of the terminal; None if the output goes elsewhere."""
    out = out or sys.stdout
    return shutil.get_terminal_size().columns if out.isatty() else None


def say(text: str, out: TextIO | None = None) -> None:
    """Print a text with names of files or of others, whose control characters become visible."""
    print(escape_terminal(text), file=out)


def complain(text: str) -> None:
    """Print a message to standard error, fitted to the terminal."""
    text = escape_terminal(text)
    if columns := width(sys.stderr):
        text = "\n".join(fitted(text.split("\n"), columns))
    print(text, file=sys.stderr)


def notes_to_stderr(notes: Iterable[str]) -> None:
    """Print notes beside the output of a command."""
    for note in notes:
        complain(f"note: {note}")


def print_findings(findings: Iterable[Finding]) -> None:
    """Print mistakes, fitted to the terminal and in colour."""
    text = "\n\n".join(finding.full(width(sys.stderr)) for finding in findings)
    print(coloured(escape_terminal(text), "error", sys.stderr), file=sys.stderr)


def coloured(text: str, command: str, out: TextIO | None = None) -> str:
    """The text in colour, if it goes to a terminal that wants it."""
    out = out or sys.stdout
    if not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    for pattern, colour in COLOURS[command]:
        text = re.sub(pattern, rf"\033[{colour}m\g<0>\033[0m", text, flags=re.MULTILINE)
    return text
