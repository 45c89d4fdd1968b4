"""Write a network as one file of plain PyTorch: readable, for the same weights, torch only.

Example:
  ladderspec export specs/ommnist/rladder.yaml -o model.py
  ladderspec export specs/ommnist/rladder.yaml --variant hierarchical_rnn --class HierarchicalRNN
"""

from __future__ import annotations

import argparse
import sys

from ladderspec.cli._options import add_changes, add_spec, request
from ladderspec.corridor import open_spec
from ladderspec.export import to_python
from ladderspec.files import write_atomic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-",
        help="where to; default: -, which is standard output",
    )  # fmt: skip
    parser.add_argument(
        "--class", metavar="NAME", dest="name", help="of the network; default: from the spec's name"
    )
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    text = to_python(open_spec(args.spec, request(args), args.root), args.name)
    if args.output == "-":
        sys.stdout.write(text)
        return 0
    print(f"wrote {write_atomic(args.output, text)}")
    return 0
