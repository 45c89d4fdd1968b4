"""Print the typed graph: every node and arrow with its role, delay, shape and parameters.

Example:
  ladderspec graph specs/ommnist/rladder.yaml --json > rladder.json
"""

from __future__ import annotations

import argparse

from ladderspec.cli._options import add_changes, add_spec, open_graph
from ladderspec.wiring.graph import to_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--json", action="store_true", help="node-link JSON, as networkx reads it")
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    built = open_graph(args)
    if args.json:
        from ladderspec.wiring.graph_json import dumps

        print(dumps(built))
    else:
        print(to_text(built), end="")
    return 0
