"""The command line. Commands are imported when they are used."""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from errno import EIO, ENOSPC
from inspect import cleandoc
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

from ladderspec.errors import (
    LadderspecError,
    SpecError,
    did_you_mean,
    memory_missing,
    one_of,
    reason,
    tick,
)
from ladderspec.escaping import escape_terminal
from ladderspec.version import __version__


class Command(NamedTuple):
    """A command: `add_NAME_arguments` and `run_NAME` of a module of this package."""

    module: str
    summary: str


# In the order of the pipeline.
COMMANDS = {
    "new": Command("authoring", "write a commented template to start from"),
    "specs": Command("authoring", "list the shipped specs and experiments"),
    "validate": Command("validate", "check specs and their variants"),
    "show": Command("show", "print a spec as the paper's table, with shapes and parameters"),
    "graph": Command("show", "print the typed graph"),
    "plan": Command("show", "print the schedule: what loops over t, what needs no past, and why"),
    "draw": Command("draw", "draw a spec as svg, html, pdf, png, tex or gv"),
    "diff": Command("show", "compare two specs, or a spec and its variant"),
    "data": Command("data", "list, check, fetch and preview the data sets"),
    "train": Command("experiments", "train the runs of an experiment"),
    "ablate": Command(
        "experiments", "train all runs of an experiment, and write tables and figures"
    ),
    "evaluate": Command("trained", "measure a trained network, whole or with arrows removed"),
    "generate": Command("trained", "continue sequences with a trained network"),
    "export": Command("export", "write a network as plain PyTorch, or one iteration as ONNX"),
    "schema": Command("authoring", "print the JSON Schema of the language, for editors"),
    "completion": Command("authoring", "print a completion script for the shell"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 fine, 1 findings, 2 usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    gc.disable()  # imports make no garbage, and collecting takes a fifth of the start
    try:
        return _run(words)
    except BrokenPipeError:  # the reader of our output has gone
        _silence()
        return 0
    except OSError as error:
        where = f"cannot use {error.filename}"
        if error.filename is None:
            if error.errno not in (ENOSPC, EIO):
                raise
            _silence()  # or Python reports the same again when it flushes
            where = "cannot write"
        print(escape_terminal(f"ladderspec: {where}: {reason(error)}"), file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not (missing := memory_missing(error)):
            raise
        print(f"ladderspec: {missing}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _open_streams() -> None:
    """Give the command streams if its caller has closed them; they replace what they lack."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _silence() -> None:
    """Send what is left for standard output to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "--version"):
        whole_parser().parse_args([name])  # prints, and exits
    if name not in COMMANDS:
        kind = "option" if name.startswith("-") else "command"
        hint = did_you_mean(name, COMMANDS) or "`ladderspec --help` lists them"
        print(escape_terminal(f"ladderspec: no {kind} {tick(name)}; {hint}"), file=sys.stderr)
        return 2
    parser = SuggestingParser(prog=f"ladderspec {name}", formatter_class=_Help)
    args = fill(parser, name).parse_args(words[1:])
    gc.freeze()
    gc.enable()
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except SpecError as error:
        from ladderspec.cli._common import print_findings

        print_findings(error.findings)
        return 2 if all(finding.code == "F001" for finding in error.findings) else 1
    except LadderspecError as error:
        from ladderspec.cli._common import complain

        complain(f"ladderspec: {error}")
        return 2
    except SystemExit as error:  # no command exits by itself
        print(f"ladderspec: a plug-in ended the command with {error!r}", file=sys.stderr)
        return 2


def fill(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """Give a parser the description, the example and the arguments of a command."""
    module = importlib.import_module(f"ladderspec.cli.{COMMANDS[name].module}")
    run = getattr(module, f"run_{name}")
    text, _, example = cleandoc(run.__doc__ or "").partition("Example:")
    parser.description, parser.epilog = text.strip(), "example:" + example.rstrip()
    getattr(module, f"add_{name}_arguments")(parser)
    parser.set_defaults(run=run)
    return parser


class SuggestingParser(argparse.ArgumentParser):
    """Suggests options for misspelt ones; does not take `--see` for `--seed`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "allow_abbrev": False})

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = dict(self._options())
            if unknown[0].startswith("-"):
                self._refuse_option(unknown[0].partition("=")[0], known)
            self._refuse_argument(unknown[0], args, known)
        return found

    def _refuse_option(self, option: str, known: dict[str, argparse.Action]) -> NoReturn:
        long = [name for name in known if name.startswith("--")]
        hint = RENAMED.get(option, "") or did_you_mean(option.lstrip("-"), long)
        self._refuse(f"no option {tick(option)}; {hint or self._lists_them()}")

    def _refuse_argument(
        self, argument: str, args: Sequence[str], known: dict[str, argparse.Action]
    ) -> NoReturn:
        """An argument too many, which is often the second value of an option."""
        given = [word.partition("=")[0] for word in args]
        hint = self._lists_them()
        for option in [name for name in given if name in known]:
            value = known[option].metavar or ""
            if isinstance(known[option], argparse._ExtendAction):
                hint = f"several values are joined by commas: `{option} {value}`"
            elif isinstance(known[option], argparse._AppendAction):
                hint = f"repeat the option for several values: `{option} {value} {option} {value}`"
        self._refuse(f"one argument too many: {tick(argument)}; {hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = did_you_mean(value, action.choices) or f"choose {one_of(action.choices)}"
            name = "/".join(action.option_strings)
            wrong = (
                f"{name} cannot be" if name else f"no {str(action.metavar or action.dest).lower()}"
            )
            raise argparse.ArgumentError(None, f"{wrong} {tick(value)}; {hint}")

    def error(self, message: str) -> NoReturn:
        """Print the message on one line, without the usage; say what a missing argument is."""
        _, required, names = message.partition("arguments are required: ")
        for action in self._actions if required else ():
            name = "/".join(action.option_strings) or str(action.metavar or action.dest)
            if name == names.split(", ")[0]:
                shown = f"{name} {action.metavar}" if action.option_strings else name
                about = action.help or one_of(action.choices or ())
                message = f"{shown} is missing" + (f": {about}" if about else "")
        for pattern, words in REWORDED.items():
            message = re.sub(pattern, words, message)
        self._refuse(message.removeprefix("argument "))

    def _refuse(self, message: str) -> NoReturn:
        from ladderspec.cli._common import complain

        complain(f"{self.prog}: {message}")
        self.exit(2)

    def _lists_them(self) -> str:
        return f"`{' '.join(self.prog.split(' ')[:2])} --help` lists them"

    def _options(self) -> Iterator[tuple[str, argparse.Action]]:
        """The options of this parser and of its subcommands."""
        yield from self._option_string_actions.items()
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for sub in action.choices.values():
                    yield from sub._option_string_actions.items()


# Messages of argparse, and our words for them.
REWORDED = {
    r"invalid (int|float) value: ": "expected a number, not ",
    r": expected one argument": " needs a value",
    r"argument (\S+): not allowed with argument (\S+)": r"\2 and \1: choose one",
}

# Options of another name.
RENAMED = {
    "--only": "rows are chosen by `--row NAME,...`",
    "--workers": "`--processes N` trains so many runs at once",
}


class _Help(argparse.HelpFormatter):
    """Fills the lines of paragraphs; indented lines, such as examples, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        paragraphs = groupby(text.splitlines(), lambda line: line[:1].strip() != "")
        return "\n".join(
            fill(" ".join(lines), width, initial_indent=indent, subsequent_indent=indent)
            if prose
            else "\n".join(lines)
            for prose, lines in paragraphs
        )


def whole_parser(arguments: bool = False) -> argparse.ArgumentParser:
    """All commands in one parser; `arguments` imports all of them for theirs."""
    parser = argparse.ArgumentParser(
        prog="ladderspec",
        description="Recurrent ladder networks from a YAML table of layers.",
        epilog="example:\n  ladderspec new mine.yaml && ladderspec show mine.yaml",
        formatter_class=_Help,
    )
    parser.add_argument(
        "--version", action=_Version, help="print the versions of ladderspec and what it uses"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.summary, formatter_class=_Help)
        if arguments:
            fill(sub, name)
    return parser


# --- versions -------------------------------------------------------------------------------------

PACKAGES = (
    "torch", "pydantic", "networkx", "numpy", "pillow", "graphviz", "safetensors", "pyyaml",
)  # fmt: skip


class _Version(argparse.Action):
    """Print all versions and exit."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n".join(f"{name} {version}" for name, version in versions().items()))
        parser.exit()


def versions() -> dict[str, str]:
    """The versions of ladderspec, Python, the dependencies and Graphviz, without imports."""
    from importlib import metadata
    from platform import python_version

    found = {"ladderspec": __version__, "python": python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "dot": _dot_version()}


def _dot_version() -> str:
    """The version of Graphviz itself; the package `graphviz` is only its Python interface."""
    import subprocess

    try:
        done = subprocess.run(["dot", "-V"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "not found"
    version = re.search(r"version ([\w.~-]+)", done.stderr + done.stdout)
    return version[1] if version else "unknown"
