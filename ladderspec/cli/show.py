"""Print a spec: as a table, as a graph, as a plan, or as its difference from another."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from ladderspec.api import ROOT_WIDENS, compiled, spec_of
from ladderspec.cli._common import (
    add_changes,
    add_spec,
    coloured,
    graph_of,
    open_graph,
    print_findings,
    refuse_ignored,
    request,
    saved,
    width,
)
from ladderspec.errors import SpecError, UsageError
from ladderspec.escaping import fitted, one_line
from ladderspec.language.read import Document, Request, open_document
from ladderspec.wiring import table
from ladderspec.wiring.graph import Graph, parameters, to_text

# --- show -----------------------------------------------------------------------------------------


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--format", choices=["text", "markdown", "latex"], help="default: text")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--ladder", action="store_true", help="draw the ladder in the terminal")
    parser.add_argument(
        "--ascii", action="store_true", help="with --ladder: use ASCII characters only"
    )
    add_changes(parser)


def run_show(args: argparse.Namespace) -> int:
    """Print a spec as the paper's table: layers, shapes, parameters, totals, tasks and variants.

    Example:
      ladderspec show ladderspec:ommnist/rladder --variant no_decoder_to_encoder
      ladderspec show ladderspec:ommnist/rladder --ladder
    """
    if args.ascii and not args.ladder:
        raise UsageError("--ascii is for --ladder")
    if args.ladder:
        refuse_ignored(args, "--ladder is text", "--json", "--format")
    if args.json:
        refuse_ignored(args, "--json is a format itself", "--format")
    built, variants = _open_with_variants(args)
    if args.ladder:
        print(coloured(_ladder(built, args.ascii), "ladder"))
        return 0
    if args.json:
        data = {**table.as_dict(built), "variants": variants}
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return 0
    if args.format == "latex":
        print(table.to_latex(built), end="")
        return 0
    text = table.to_markdown(built) if args.format == "markdown" else table.to_text(built, width())
    if variants:
        names = max(len(str(variant["name"])) for variant in variants)
        text += "\n\nvariants:"
        for variant in variants:
            line = f"  {variant['name']:<{names}}  {variant['parameters']:>12,}  {variant['title']}"
            text += f"\n{one_line(line)}"
    print(coloured(text, "show") if args.format != "markdown" else text)
    return 0


def _ladder(built: Graph, ascii_only: bool) -> str:
    """The ladder as text; in ASCII too if the terminal knows nothing else."""
    from ladderspec.drawing import ladder

    text = ladder(built, ascii_only=ascii_only, width=width()).rstrip("\n")
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return ladder(built, ascii_only=True, width=width()).rstrip("\n")
    return text


def _open_with_variants(args: argparse.Namespace) -> tuple[Graph, list[dict[str, object]]]:
    """The graph, and the variants of a spec that is shown without changes."""
    if saved(args.spec) is not None:
        return open_graph(args), []
    document = open_document(args.spec, args.root, ROOT_WIDENS)
    changes = request(args)
    spec = spec_of(document, changes)
    names = [] if args.ladder or changes != Request() else list(spec.config.variants)
    return compiled(spec), _variants(document, names)


def _variants(document: Document, names: list[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name in names:
        spec = spec_of(document, Request(variant=(name,)))
        found.append({"name": name, "title": spec.title, "parameters": parameters(compiled(spec))})
    return found


# --- graph ----------------------------------------------------------------------------------------


def add_graph_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "--json", action="store_true", help="print node-link JSON, which networkx reads"
    )
    add_changes(parser)


def run_graph(args: argparse.Namespace) -> int:
    """Print the typed graph: every node and arrow with its role, delay, shape and parameters.

    Example:
      ladderspec graph ladderspec:ommnist/rladder --json > rladder.json
    """
    built = open_graph(args)
    if args.json:
        from ladderspec.wiring.graph_json import dumps

        print(dumps(built))
    else:
        print(coloured(to_text(built, width()), "graph"), end="")
    return 0


# --- plan -----------------------------------------------------------------------------------------


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    add_changes(parser)


def run_plan(args: argparse.Namespace) -> int:
    """Print how the network runs: what loops over t, what needs no past, and why.

    Uses the letters of the paper, and lists the work, parameters and memory of each phase.

    Example:
      ladderspec plan ladderspec:ommnist/rladder --variant no_decoder_to_encoder
    """
    from ladderspec.schedule.plan import schedule
    from ladderspec.schedule.plan_text import WIDTH, as_dict, to_text

    plan = schedule(open_graph(args))
    if args.json:
        print(json.dumps(as_dict(plan), indent=2, ensure_ascii=False))
    else:
        print(coloured(to_text(plan, width() or WIDTH), "plan"))
    return 0


# --- diff -----------------------------------------------------------------------------------------


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second spec or folder")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    add_changes(parser)


def run_diff(args: argparse.Namespace) -> int:
    """Compare two specs, or a spec with what --variant, --without, --add and --set make of it.

    With two specs the changes apply to the second. Exits with 0 if they are equal, with 1 if they
    differ, with 2 if one of them has mistakes.

    Example:
      ladderspec diff ladderspec:ommnist/rladder --variant no_decoder_to_encoder
    """
    from ladderspec.wiring.compare import compare, summary

    changes = request(args)
    if args.other is None and changes == Request():
        raise UsageError("diff needs a second spec, or a change such as --variant NAME")
    try:
        first = graph_of(args.spec, Request(), args.root)
        second = graph_of(args.other or args.spec, changes, args.root)
    except SpecError as error:
        print_findings(error.findings)
        return 2
    found = compare(first, second)
    if args.json:
        data = {
            "parameters": [parameters(first), parameters(second)],
            "differences": [asdict(difference) for difference in found],
            "notes": second.graph["notes"],
        }
        print(json.dumps(data, indent=2, ensure_ascii=False))
    elif found:
        notes = [f"note: {note}" for note in second.graph["notes"]]
        lines = fitted([*map(str, found), summary(first, second), *notes], width())
        print(coloured("\n".join(lines), "diff"))
    return 1 if found else 0
