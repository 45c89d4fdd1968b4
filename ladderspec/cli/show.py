"""Print a spec as the paper's table: layers, shapes, parameters, totals, tasks and variants.

Example:
  ladderspec show specs/ommnist/rladder.yaml --variant no_decoder_to_encoder
"""

from __future__ import annotations

import argparse
import json

from ladderspec import table
from ladderspec.build import graph, spec_of
from ladderspec.cli._options import add_changes, add_spec, request
from ladderspec.read import Document, Request, open_document
from ladderspec.shapes import parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--format", choices=["text", "markdown", "latex"], default="text")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    add_changes(parser)


def run(args: argparse.Namespace) -> int:
    document = open_document(args.spec, args.root)
    asked = request(args)
    spec = spec_of(document, asked)
    built = graph(spec)
    variants = _variants(document, list(spec.words.variants)) if asked == Request() else []
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


def _variants(document: Document, names: list[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name in names:
        spec = spec_of(document, Request(variant=(name,)))
        found.append({"name": name, "title": spec.title, "parameters": parameters(graph(spec))})
    return found
