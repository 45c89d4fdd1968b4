"""Commands that help to write specs: templates, the JSON Schema for editors, shell completion."""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib import resources
from pathlib import Path

from ladderspec.cli._options import add_plugin, load_plugins
from ladderspec.errors import UsageError, did_you_mean
from ladderspec.files import write_atomic

SCHEMA = "ladderspec.schema.json"  # as the first line of the templates says

# --- new ------------------------------------------------------------------------------------------


def add_new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE", nargs="?", help="the file to write; - prints it")
    parser.add_argument("--template", metavar="NAME", default="ladder", help="default: ladder")
    parser.add_argument("--list", action="store_true", help="list the templates")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def run_new(args: argparse.Namespace) -> int:
    """Write a commented template to start from, and beside it the schema that editors read.

    The schema, ladderspec.schema.json, gives editors completion and descriptions on hover.

    Example:
      ladderspec new mine.yaml --template ladder
    """
    from ladderspec.language.spec import dump_schema
    from ladderspec.text.parse import resolve_scalar

    known = templates()
    if args.list:
        width = max(map(len, known))
        for name, text in known.items():
            print(f"{name:<{width}}  {_about(text)}")
        return 0
    if args.path is None:
        raise UsageError("new needs a file to write, or - to print")
    if args.template not in known:
        hint = did_you_mean(args.template, known) or f"there are: {', '.join(known)}"
        raise UsageError(f"no template `{args.template}`; {hint}")
    text = known[args.template]
    if args.path == "-":
        sys.stdout.write(text)
        return 0
    path = Path(args.path)
    if path.exists() and not args.force:
        raise UsageError(f"{path} exists; --force replaces it")
    name = path.stem
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", name) or not isinstance(resolve_scalar(name), str):
        name = json.dumps(name, ensure_ascii=False)  # in quotes: no number, no second `: `
    write_atomic(path, text.replace("name: mine", f"name: {name}", 1))
    schema = path.with_name(SCHEMA)
    if not schema.exists():  # it may be one with the user's own cells
        write_atomic(schema, dump_schema())
        print(f"wrote {schema}, for completion in editors")
    print(f"wrote {path}; next: ladderspec show {path}")
    return 0


def templates() -> dict[str, str]:
    """The templates by name."""
    folder = resources.files("ladderspec") / "templates"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=str)
    return {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}


def _about(text: str) -> str:
    return next(
        line[2:] for line in text.splitlines() if line.startswith("# ") and "$schema" not in line
    )


# --- schema ---------------------------------------------------------------------------------------


def add_schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="default: standard output"
    )
    add_plugin(parser)


def run_schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema of the language, for completion and hover in editors.

    Put `# yaml-language-server: $schema=PATH` on the first line of a spec.

    Example:
      ladderspec schema -o ladderspec.schema.json
    """
    from ladderspec.language.spec import dump_schema

    load_plugins(args.plugin)
    text = dump_schema()
    if args.output:
        write_atomic(args.output, text)
        print(f"wrote {args.output}")
    else:
        print(text, end="")
    return 0


# --- completion -----------------------------------------------------------------------------------


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run_completion(args: argparse.Namespace) -> int:
    """Print a script that completes commands and options in bash, zsh or tcsh.

    Example:
      ladderspec completion bash > ~/.local/share/bash-completion/completions/ladderspec
    """
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion needs the package shtab: pip install 'ladderspec[completion]'"
        ) from None
    from ladderspec.cli import whole_parser

    print(shtab.complete(whole_parser(arguments=True), shell=args.shell))
    return 0
