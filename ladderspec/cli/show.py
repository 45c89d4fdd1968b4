"""Print a spec as the paper's table: layers, shapes, parameters, totals, tasks and variants.

Example:
  ladderspec show specs/ommnist/rladder.yaml --variant no_decoder_to_encoder
  ladderspec show specs/ommnist/rladder.yaml --ladder
"""

from __future__ import annotations

import argparse
import json
import sys

from ladderspec.cli._options import add_changes, add_spec, open_graph, request, saved
from ladderspec.corridor import ROOT_WIDENS, graph, spec_of
from ladderspec.errors import UsageError
from ladderspec.language.read import Document, Request, open_document
from ladderspec.wiring import table
from ladderspec.wiring.graph import Graph
from ladderspec.wiring.shapes import parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--format", choices=["text", "markdown", "latex"], default="text")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--ladder", action="store_true", help="draw the ladder in the terminal")
    parser.add_argument("--ascii", action="store_true", help="with --ladder: ASCII alone")
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    if args.ascii and not args.ladder:
        raise UsageError("--ascii is for --ladder")
    if args.ladder and (args.json or args.format != "text"):
        raise UsageError("--ladder is text: leave --json and --format out")
    built, variants = _open(args)
    if args.ladder:
        print(_ladder(built, args.ascii))
        return 0
    if args.json:
        facts = {**table.as_dict(built), "variants": variants}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return 0
    writers = {"text": table.to_text, "markdown": table.to_markdown, "latex": table.to_latex}
    print(writers[args.format](built))
    if variants and args.format != "latex":
        print("\nvariants:")
        width = max(len(str(variant["name"])) for variant in variants)
        for variant in variants:
            print(f"  {variant['name']:<{width}}  {variant['parameters']:>12,}  {variant['title']}")
    return 0


def _ladder(built: Graph, ascii_only: bool) -> str:
    """In ASCII too where the terminal knows nothing else."""
    from ladderspec.drawing import ladder

    text = ladder(built, ascii_only=ascii_only).rstrip("\n")
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return ladder(built, ascii_only=True).rstrip("\n")
    return text


def _open(args: argparse.Namespace) -> tuple[Graph, list[dict[str, object]]]:
    """The graph, and of a bare spec its variants."""
    if saved(args.spec) is not None:
        return open_graph(args), []
    document = open_document(args.spec, args.root, ROOT_WIDENS)
    asked = request(args)
    spec = spec_of(document, asked)
    all_of_it = asked == Request() and not args.ladder
    return graph(spec), _variants(document, list(spec.words.variants)) if all_of_it else []


def _variants(document: Document, names: list[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name in names:
        spec = spec_of(document, Request(variant=(name,)))
        found.append({"name": name, "title": spec.title, "parameters": parameters(graph(spec))})
    return found
