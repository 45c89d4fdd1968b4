"""Commands that help to write specs: templates, the JSON Schema for editors, shell completion."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from importlib import resources
from pathlib import Path

from ladderspec.api import compiled, spec_of
from ladderspec.cli._common import add_plugin, load_plugins, refuse_ignored, say, width
from ladderspec.errors import UsageError, did_you_mean, one_of
from ladderspec.escaping import fitted, one_line
from ladderspec.files import write_atomic
from ladderspec.language.read import Request, open_document
from ladderspec.shipped import PREFIX, folder, located, shipped
from ladderspec.wiring.graph import parameters

SCHEMA = "ladderspec.schema.json"  # as the first line of the templates says

# --- new ------------------------------------------------------------------------------------------


def add_new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE", nargs="?", help="the file to write; - prints it")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--template", metavar="NAME", help="template to copy; default: ladder")
    source.add_argument("--from", metavar="NAME", dest="shipped",
                        help="shipped spec to copy, like ommnist/rladder")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the templates")
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


def run_new(args: argparse.Namespace) -> int:
    """Write a file to start from: a commented template, or a copy of a shipped spec.

    The schema beside it, ladderspec.schema.json, gives editors completion and descriptions on
    hover.

    Example:
      ladderspec new mine.yaml --template ladder
      ladderspec new mine.yaml --from ommnist/rladder
    """
    from ladderspec.language.spec import dump_schema
    from ladderspec.text.tree import resolve_scalar

    known = templates()
    if args.list:
        refuse_ignored(args, "--list writes nothing", "--template", "--force")
        longest = max(map(len, known))
        lines = [f"{name:<{longest}}  {_about(text)}" for name, text in known.items()]
        print("\n".join(fitted(lines, width(), indent=longest + 2)))
        return 0
    if args.path is None:
        raise UsageError("new needs a file to write, or - to print")
    template = args.template or "ladder"
    if template not in known:
        hint = did_you_mean(template, known) or f"there are: {', '.join(known)}"
        raise UsageError(f"no template `{template}`; {hint}")
    text = copy_of(args.shipped) if args.shipped else known[template]
    if args.path == "-":
        sys.stdout.write(text)
        return 0
    path = Path(args.path)
    if os.path.exists(path) and not args.force:
        raise UsageError(f"{path} exists; --force replaces it")
    name = one_line(path.stem)
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", name) or not isinstance(resolve_scalar(name), str):
        name = json.dumps(name, ensure_ascii=False)  # in quotes: no number, no second `: `
    named = re.sub(r"^name: .*\n", lambda _: f"name: {name}\n", text, count=1, flags=re.MULTILINE)
    write_atomic(path, named)
    schema, written = path.with_name(SCHEMA), str(path)
    if f"$schema={SCHEMA}" in text and not os.path.exists(schema):  # it may have the user's cells
        written += f" and {write_atomic(schema, dump_schema())}"
    command = "train --list" if re.search(r"^rows:", text, re.MULTILINE) else "show"
    say(f"wrote {written}; next: ladderspec {command} {path}")
    return 0


def copy_of(name: str) -> str:
    """The text of a shipped spec; files beside it are named so that they are found from anywhere.

    `extends: rladder.yaml` becomes `extends: ladderspec:ommnist/rladder`.
    """
    path = located(PREFIX + name.removeprefix(PREFIX))

    def absolute(match: re.Match[str]) -> str:
        target = (path.parent / match[2]).resolve().relative_to(folder())
        return f"{match[1]}{PREFIX}{target.with_suffix('').as_posix()}"

    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(\b(?:extends|spec): )([\w./]+\.yaml)", absolute, text)
    return re.sub(r"\$schema=\S*/", "$schema=", text)


def templates() -> dict[str, str]:
    """The templates by name."""
    folder = resources.files("ladderspec") / "templates"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".yaml")), key=str)
    return {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}


def _about(text: str) -> str:
    return next(
        line[2:] for line in text.splitlines() if line.startswith("# ") and "$schema" not in line
    )


# --- specs ----------------------------------------------------------------------------------------


def add_specs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", help="list this folder only, like ommnist"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def run_specs(args: argparse.Namespace) -> int:
    """List the shipped specs, with their parameters and titles, and the shipped experiments.

    Every command that takes a file takes their names.

    Example:
      ladderspec specs
      ladderspec show ladderspec:ommnist/rladder
    """
    names = [name for name in shipped() if not args.folder or name.startswith(f"{args.folder}/")]
    if not names:
        folders = dict.fromkeys(name.split("/")[0] for name in shipped())
        raise UsageError(f"no shipped specs in `{args.folder}`; there are {one_of(folders, 'and')}")
    found = [_described(PREFIX + name) for name in names]
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    longest = max(len(str(each["name"])) for each in found)
    heads = [f"{each['name']:<{longest}}  {_size(each['parameters']):>10}" for each in found]
    titles = [str(each["title"]) for each in found]
    columns = width()
    lines = [f"{head}  {title}" for head, title in zip(heads, titles, strict=True)]
    if columns and max(map(len, lines)) > columns:  # titles go below
        lines = [f"{head}\n    {title}" for head, title in zip(heads, titles, strict=True)]
    print("\n".join(fitted((part for line in lines for part in line.split("\n")), columns)))
    return 0


def _size(parameters: object) -> str:
    return "experiment" if parameters is None else f"{parameters:,}"


def _described(name: str) -> dict[str, object]:
    """The name, the parameters and the title of a shipped file."""
    document = open_document(name)
    words = [node.value for key in ("title", "name") if (node := document.tree.get(key))]
    if document.is_experiment:
        return {"name": name, "parameters": None, "title": words[0] if words else ""}
    spec = spec_of(document, Request())
    about = spec.config.description or spec.title or spec.name
    return {"name": name, "parameters": parameters(compiled(spec)), "title": about}


# --- schema ---------------------------------------------------------------------------------------


def add_schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--experiment", action="store_true", help="print the schema of experiment files"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="output file; default: standard output"
    )
    add_plugin(parser)


def run_schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema of the language, for completion and hover in editors.

    Put `# yaml-language-server: $schema=PATH` on the first line of a spec.

    Example:
      ladderspec schema -o ladderspec.schema.json
    """
    from ladderspec.language.spec import dump_schema
    from ladderspec.plugins import load_installed

    load_installed()
    load_plugins(args.plugin)
    if args.experiment:
        from ladderspec.experiments.config import dump_experiment_schema

    text = dump_experiment_schema() if args.experiment else dump_schema()
    if args.output:
        write_atomic(args.output, text)
        say(f"wrote {args.output}")
    else:
        print(text, end="")
    return 0


# --- completion -----------------------------------------------------------------------------------


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run_completion(args: argparse.Namespace) -> int:
    """Print a script that completes commands and options in bash, zsh or tcsh.

    Example:
      eval "$(ladderspec completion bash)"
    """
    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion needs the package shtab: pip install 'ladderspec[completion]'"
        ) from None
    from ladderspec.cli import whole_parser

    parser = whole_parser(arguments=True)
    _complete_shipped(parser)
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _complete_shipped(parser: argparse.ArgumentParser) -> None:
    """Offer the shipped specs after `--from`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_shipped(sub)
        elif action.dest == "shipped":
            action.choices = list(shipped())
