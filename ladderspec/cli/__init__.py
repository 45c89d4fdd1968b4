"""The command line: one small file per command, imported when it is used."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from ladderspec.errors import LadderspecError, SpecError
from ladderspec.version import __version__

# In the order of the pipeline.
COMMANDS = {
    "new": "write a commented template to start from",
    "validate": "check specs and their variants",
    "show": "print a spec as the paper's table, with shapes and parameters",
    "graph": "print the typed graph",
    "plan": "print how it runs: what is computed once, what loops, and why",
    "draw": "draw it: svg, html, pdf, png, tex, gv",
    "diff": "compare two specs, or a spec and its variant",
    "data": "list, check, fetch and preview the data sets",
    "train": "train the runs of an experiment",
    "ablate": "train all runs of an experiment, and print the table beside the paper's",
    "evaluate": "measure a trained network, whole or with arrows removed",
    "generate": "let a trained network go on by itself",
    "export": "write it as plain PyTorch, or one iteration as ONNX",
    "schema": "print the JSON Schema of the language, for editors",
    "completion": "print a completion script for the shell",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 fine, 1 findings, 2 usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    gc.disable()  # nothing that imports make is garbage; collecting costs a fifth of the start
    try:
        return _run(words)
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _run(words: Sequence[str]) -> int:
    name = words[0] if words else "--help"
    if name not in COMMANDS:
        whole_parser().parse_args([name, *words[1:]])  # prints help, version or what is wrong
        return 2
    parser = argparse.ArgumentParser(prog=f"ladderspec {name}", formatter_class=_Help)
    args = fill(parser, name).parse_args(words[1:])
    gc.freeze()
    gc.enable()
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except SpecError as error:
        print(error, file=sys.stderr)
        return 2 if all(finding.code == "F001" for finding in error.findings) else 1
    except LadderspecError as error:
        print(f"ladderspec: {error}", file=sys.stderr)
        return 2


def fill(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """Give a parser the description, the example and the arguments of a command."""
    command = importlib.import_module(f"ladderspec.cli.{name}")
    text, _, example = (command.__doc__ or "").partition("Example:")
    parser.description, parser.epilog = text.strip(), "example:" + example.rstrip()
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
    return parser


_Help = argparse.RawDescriptionHelpFormatter


def whole_parser(arguments: bool = False) -> argparse.ArgumentParser:
    """All commands in one parser; with their arguments, all of them are imported."""
    parser = argparse.ArgumentParser(
        prog="ladderspec",
        description="Recurrent ladder networks from a YAML table of layers.",
        epilog="example:\n  ladderspec new mine.yaml && ladderspec show mine.yaml",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=f"ladderspec {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, formatter_class=_Help)
        if arguments:
            fill(sub, name)
    return parser
