"""Print the JSON Schema of the language, for completion and hover in editors.

Put `# yaml-language-server: $schema=PATH` on the first line of a spec.

Example:
  ladderspec schema -o ladderspec.schema.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ladderspec.cli._options import add_plugin, load_plugins
from ladderspec.files import write_atomic
from ladderspec.language.schema import dumps


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="default: standard output"
    )
    add_plugin(parser)


def run(args: argparse.Namespace) -> int:
    load_plugins(args.plugin)
    text = dumps()
    if args.output:
        write_atomic(args.output, text)
        print(f"wrote {args.output}")
    else:
        print(text, end="")
    return 0
