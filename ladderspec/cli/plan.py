"""Print how the network runs: what is computed once for all t, what loops, and why.

In the paper's letters, with the work, parameters and memory of each phase.

Example:
  ladderspec plan specs/ommnist/rladder.yaml --variant no_decoder_to_encoder
"""

from __future__ import annotations

import argparse
import json

from ladderspec.cli._options import add_changes, add_spec, open_graph
from ladderspec.schedule.plan import schedule
from ladderspec.schedule.plan_text import as_dict, to_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    plan = schedule(open_graph(args))
    if args.json:
        print(json.dumps(as_dict(plan), indent=2, ensure_ascii=False))
    else:
        print(to_text(plan))
    return 0
