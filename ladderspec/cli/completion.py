"""Print a script that completes commands and options in bash, zsh or tcsh.

Example:
  ladderspec completion bash > ~/.local/share/bash-completion/completions/ladderspec
"""

from __future__ import annotations

import argparse

from ladderspec.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion needs the package shtab: pip install 'ladderspec[completion]'"
        ) from None
    from ladderspec.cli import whole_parser

    print(shtab.complete(whole_parser(arguments=True), shell=args.shell))
    return 0
