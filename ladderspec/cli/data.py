"""The data sets: list, verify, download and preview them."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladderspec.cli._common import add_plugin, at_least, load_plugins, say
from ladderspec.data import Split, data_config, registered
from ladderspec.data.sources import (
    VARIABLE,
    File,
    State,
    check,
    folder,
    how_to_get,
    locate,
    select,
)
from ladderspec.errors import Findings, Source, UsageError


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, about: str, example: str, run: Callable[..., int]) -> Any:
        action = actions.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}.",
            epilog=f"example:\n  ladderspec data {name} {example}".rstrip(),
            formatter_class=parser.formatter_class,
        )  # fmt: skip
        action.set_defaults(action=run)
        return action

    listed = add("list", "list the data sets and their files", "", _list)
    path = add("path", "print the data folder, or where files are in it", "mnist", _path)
    verify = add("verify", "compare files with the published checksums", "mnist", _verify)
    about = "fetch missing files; interrupted downloads continue"
    fetch = add("download", about, "mnist", _download)
    fetch.add_argument(
        "--mirror", metavar="URL", action="append", default=[],
        help="address to fetch from, with {name} or {path}; default: LADDERSPEC_MIRRORS,"
        " then the publishers",
    )  # fmt: skip
    example = "occluded_mnist --set digits=embedded -o sheet.png"
    preview = add("preview", "write a contact sheet of the first items", example, _preview)
    for action in (path, verify, fetch):
        action.add_argument(
            "names",
            metavar="NAME",
            nargs="*",
            help="a group like mnist, or a file; default: all",
        )
    for action in (listed, verify):
        action.add_argument("--json", action="store_true", help="print JSON for programs")
    for action in (listed, path, verify, fetch, preview):
        action.add_argument(
            "--data", metavar="FOLDER", type=Path,
            help=f"the data folder; default: {VARIABLE}, then the user's own",
        )  # fmt: skip
    _add_preview_arguments(preview)


def _add_preview_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set_name", metavar="SET", help="a data set, like occluded_mnist")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True,
                        help="a .png or .svg file")  # fmt: skip
    parser.add_argument("--set", metavar="FIELD=VALUE", action="append", default=[],
                        help="field of the data set, like canvas=24")  # fmt: skip
    add_plugin(parser)
    parser.add_argument("--split", choices=[str(split) for split in Split], default="test",
                        help="default: test")  # fmt: skip
    for option, kind, default, about in (
        ("--seed", int, 0, "seed of the data"),
        ("--first", int, 0, "index of the first item"),
        ("--count", at_least(1), 4, "number of items"),
    ):
        parser.add_argument(
            option, metavar="N", type=kind, default=default, help=f"{about}; default: {default}"
        )


def run_data(args: argparse.Namespace) -> int:
    """List the data sets, check and download their files, and preview their items.

    Example:
      ladderspec data list
      ladderspec data preview occluded_mnist --set digits=embedded -o sheet.png
    """
    code: int = args.action(args)
    return code


def _state(file: File, root: Path, fresh: bool = False) -> State:
    place = locate(file, root)
    return State.MISSING if place is None else check(file, place, fresh)


def _why(given: Path | None) -> str:
    if given is not None:
        return "--data"
    return VARIABLE if os.environ.get(VARIABLE) else "the default"


def _list(args: argparse.Namespace) -> int:
    root = folder(args.data)
    sets = {name: config.about for name, config in registered(installed=True).items()}
    states = {file: _state(file, root) for file in select([])}
    if args.json:
        files = [_as_dict(file, root, state) for file, state in states.items()]
        print(json.dumps({"folder": str(root), "sets": sets, "files": files}, indent=2))
        return 0
    width = max(map(len, sets))
    for word, about in sets.items():
        print(f"{word:<{width}}  {about}")
    say(f"\n{root} ({_why(args.data)})")
    _print_states(states)
    return 0


def _print_states(states: dict[File, State]) -> None:
    width = max(len(file.path) for file in states)
    for file, state in states.items():
        print(f"  {file.path:<{width}}  {file.bytes:>10,}  {state}")


def _as_dict(file: File, root: Path, state: State) -> dict[str, Any]:
    place = locate(file, root)
    return {
        "path": file.path,
        "bytes": file.bytes,
        "sha256": file.sha256,
        "state": state.name.lower(),
        "place": str(place) if place else None,
    }


def _path(args: argparse.Namespace) -> int:
    root = folder(args.data)
    if not args.names:
        print(root)
        return 0
    missing = 0
    for file in select(args.names):
        place = locate(file, root)
        missing += place is None
        print(place or root / file.path)
    return 1 if missing else 0


def _verify(args: argparse.Namespace) -> int:
    root = folder(args.data)
    states = {file: _state(file, root, fresh=True) for file in select(args.names)}
    bad = [file for file, state in states.items() if state is not State.RIGHT]
    if args.json:
        print(json.dumps([_as_dict(file, root, s) for file, s in states.items()], indent=2))
        return 1 if bad else 0
    say(f"{root} ({_why(args.data)})")
    _print_states(states)
    if bad:
        say(how_to_get(bad, root), sys.stderr)
    return 1 if bad else 0


def _download(args: argparse.Namespace) -> int:
    from ladderspec.data.download import download

    root = folder(args.data)
    report = _Report()
    for file in select(args.names):
        (place,) = download([file], root, args.mirror, report)
        report.done(f"{file.path}  {file.bytes:,} bytes  verified  {place}")
    return 0


class _Report:
    """Progress on a terminal; one line for each file elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.last = 0.0

    def __call__(self, file: File, have: int) -> None:
        now = time.monotonic()
        if self.live and (now - self.last > 0.1 or have == file.bytes):
            self.last = now
            share = have / file.bytes
            bar = "#" * int(share * 30)
            sys.stderr.write(f"\r\033[K{file.name}  [{bar:<30}] {share:4.0%}")
            sys.stderr.flush()

    def done(self, line: str) -> None:
        if self.live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        say(line)


def _preview(args: argparse.Namespace) -> int:
    load_plugins(args.plugin)
    data = data_config(args.set_name, **_fields(args.set)).open(args.seed, args.data)
    data.preview(args.split, args.first, args.count).save(args.output)
    say(f"wrote {args.output}")
    return 0


def _fields(given: list[str]) -> dict[str, Any]:
    """WORD=VALUE, the value read as YAML."""
    from ladderspec.text.tree import parse

    found: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item} sets nothing; WORD=VALUE does")
        findings = Findings()
        node = parse(Source(f"--set {name}", value), findings)
        findings.raise_if_any()
        found[name] = node.plain()
    return found
