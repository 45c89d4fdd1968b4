"""Check specs and experiments."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from ladderspec.api import ROOT_WIDENS, Checked, validate_document
from ladderspec.cli._common import add_changes, print_findings, refuse_ignored, request, say
from ladderspec.errors import Finding, SpecError, UsageError, as_json
from ladderspec.escaping import escape_terminal
from ladderspec.language.read import Request, open_document

FORMATS = ("full", "concise", "json", "github")


def add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "specs",
        metavar="SPEC",
        nargs="+",
        help="spec or experiment files, or folders of them; - is standard input",
    )
    parser.add_argument(
        "--output-format", choices=FORMATS, help="format of the findings; default: full"
    )
    parser.add_argument("--json", action="store_true", help="short for --output-format json")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing about good files")
    add_changes(parser)


def run_validate(args: argparse.Namespace) -> int:
    """Check spec and experiment files: fields, graph, shapes, expectations, every variant.

    Prints one line for each valid file, and every mistake in the others.

    Example:
      ladderspec validate ladderspec:ommnist/rladder
    """
    if args.json:
        refuse_ignored(args, "--json is a format itself", "--output-format")
    form = "json" if args.json else args.output_format or "full"
    changes = request(args)
    found: list[Finding] = []
    unread = False
    for path in _files(args.specs):
        checked = _check(path, changes, args.root)
        found += checked.findings
        unread = unread or any(f.code == "F001" and f.place is None for f in checked.findings)
        if not checked.findings and not args.quiet and form in ("full", "concise"):
            say(_summary(path, checked))
    if form == "json":
        print(as_json(found))
    elif form == "github":
        lines = "\n".join(finding.github() for finding in found)
        print(escape_terminal(lines), end="\n" if found else "")
    elif form == "concise":
        for finding in found:
            say(finding.concise(), sys.stderr)
    elif found:
        print_findings(found)
    return 2 if unread else 1 if found else 0


def _check(path: str, changes: Request, root: Path | None) -> Checked:
    """Check a spec, or, if there are no changes, an experiment."""
    try:
        document = open_document(path, root, ROOT_WIDENS)
        if document.is_experiment and changes == Request() and path != "-":
            from ladderspec.experiments.reader import open_experiment
            from ladderspec.experiments.runs import notes_on

            runs = open_experiment(path, check_data=True).runs
            return Checked((), runs=len(runs), notes=tuple(notes_on(runs)))
        return validate_document(document, changes)
    except SpecError as error:
        return Checked(error.findings)


def _files(paths: list[str]) -> list[str]:
    """Files as named, folders as the files in them."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(f for f in Path(path).rglob("*") if f.suffix in (".yaml", ".yml"))
            if not inside:
                raise UsageError(f"{path} holds no .yaml file")
            found += [str(file) for file in inside if os.path.isfile(file)]  # pipes never end
        else:
            found.append(path)
    return found


def _summary(path: str, checked: Checked) -> str:
    counts = [_count(checked.levels, "level"), _count(checked.parameters, "parameter")]
    if checked.runs:
        counts = [_count(checked.runs, "run")]
    if checked.variants:
        counts.append(_count(checked.variants, "variant"))
    notes = [f"  note: {note}" for note in checked.notes]
    return "\n".join([f"{path}: fine, {', '.join(counts)}", *notes])


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
