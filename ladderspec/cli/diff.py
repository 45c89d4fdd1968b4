"""Compare two specs, or a spec with what --variant, --without, --add and --set make of it.

With two specs the changes apply to the second. Exits with 1 where they differ.

Example:
  ladderspec diff specs/ommnist/rladder.yaml --variant no_decoder_to_encoder
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from ladderspec.cli._options import add_changes, add_spec, graph_of, request
from ladderspec.errors import UsageError
from ladderspec.language.read import Request
from ladderspec.wiring.compare import compare, summary
from ladderspec.wiring.shapes import parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second spec or folder")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    changes = request(args)
    if args.other is None and changes == Request():
        raise UsageError("diff needs a second spec, or a change such as --variant NAME")
    first = graph_of(args.spec, Request(), args.root)
    second = graph_of(args.other or args.spec, changes, args.root)
    found = compare(first, second)
    if args.json:
        facts = {
            "parameters": [parameters(first), parameters(second)],
            "differences": [asdict(difference) for difference in found],
            "notes": second.graph["notes"],
        }
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    elif found:
        notes = [f"note: {note}" for note in second.graph["notes"]]
        print("\n".join([*map(str, found), summary(first, second), *notes]))
    return 1 if found else 0
