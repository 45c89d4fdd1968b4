"""Draw a spec."""

from __future__ import annotations

import argparse
import sys
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from ladderspec.api import compiled, open_spec
from ladderspec.cli._common import (
    add_changes,
    add_spec,
    graph_of,
    notes_to_stderr,
    open_graph,
    refuse_ignored,
    request,
    saved,
    say,
)
from ladderspec.drawing import draw, render, scene_of
from ladderspec.drawing.formats import formats
from ladderspec.drawing.options import DPI, KINDS, LAYOUTS, LEVELS, Options
from ladderspec.drawing.style import THEMES
from ladderspec.errors import UsageError
from ladderspec.language.read import Request

_READABLE = 6.0  # points
_PAGE = (17.0, 24.0)  # centimetres: width and height of the text on a page
_SMALLER: dict[str, Options] = {  # options that make a drawing smaller, best first
    "--height 24cm": {"height": "24cm"},
    "--group": {"group": True},
    "--view rolled": {"view": "rolled", "iterations": None},
    "--labels cell": {"labels": "cell"},
}


def add_draw_arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", action="append", default=[],
        help="output file; may be repeated; - is standard output; default: SPEC's name with .svg",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=list(formats()), help="format of standard output; default: svg"
    )
    parser.add_argument("--open", action="store_true", help="open the first file in a viewer")
    _add_view(parser.add_argument_group("view"))
    _add_look(parser.add_argument_group("look"))
    add_changes(parser)


def _add_view(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--view", choices=KINDS, default="unrolled", help="default: unrolled")
    group.add_argument(
        "-n",
        "--iterations",
        metavar="N",
        type=int,
        help="number of iterations side by side in the unrolled view; default: 2",
    )
    group.add_argument("--fold", action="store_true", help="draw identical rows as one")
    group.add_argument(
        "--group",
        action="store_true",
        help="draw neighbouring rows without delayed arrows as one: 3 x Conv 3x3, Pool",
    )
    group.add_argument(
        "--show", metavar="LEVELS",
        help="levels to show, like lstm1,lstm6,top; the rows between them become one",
    )  # fmt: skip
    group.add_argument(
        "--changes", action="store_true", help="show what --variant, --without and so on changed"
    )
    group.add_argument(
        "--beside", metavar="VARIANTS", help="variants to draw at the right, in the same figure"
    )
    group.add_argument("--against", metavar="OTHER", help="show the differences from another spec")
    group.add_argument(
        "--plan",
        action="store_true",
        help="shade the nodes by phase: those that loop over t, and the others",
    )
    group.add_argument(
        "--plate", metavar="LABEL=LEVELS", action="append", default=[],
        help="draw a frame around neighbouring levels, like K=lstm1,conv_*",
    )  # fmt: skip
    group.add_argument(
        "--start", action="store_true", help="start at the first iteration, with initial values"
    )
    group.add_argument(
        "--layout", choices=LAYOUTS, default="ladder", help="placement of boxes; dot: by Graphviz"
    )


def _add_look(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--theme", choices=list(THEMES), default="paper", help="default: paper")
    group.add_argument(
        "--labels", metavar="WORDS", default="cell,shape,params",
        help="text in boxes: cell, shape, params, name; or none",
    )  # fmt: skip
    group.add_argument(
        "--width", metavar="LENGTH",
        help="maximum width on paper, like 8.5cm; gaps shrink before words do",
    )  # fmt: skip
    group.add_argument("--height", metavar="LENGTH", help="maximum height on paper, like 12cm")
    group.add_argument(
        "--dpi", metavar="N", type=int, help=f"resolution of png files; default: {DPI}"
    )
    group.add_argument(
        "--worth", metavar="SELECTOR=NUMBER", action="append", default=[],
        help="draw arrows as thick as their worth, like lateral=0.5; may be repeated",
    )  # fmt: skip
    group.add_argument("--worth-of", metavar="TEXT", help="name of that worth in the legend")
    group.add_argument(
        "--levels", choices=LEVELS, default="names", help="labels of levels at the left"
    )
    group.add_argument(
        "--title", metavar="TEXT", help="title above the drawing; an empty text removes it"
    )
    group.add_argument("--no-legend", action="store_true", help="leave the legend out")


def run_draw(args: argparse.Namespace) -> int:
    """Draw a spec, unrolled in time or rolled up, or what a variant changed in it.

    The suffix of the file selects the format. svg, html (a page in which a click removes an arrow),
    tex and gv need nothing else; png and pdf need Graphviz.

    Example:
      ladderspec draw mine.yaml -o mine.svg
      ladderspec draw mine.yaml -o mine.html --open
      ladderspec draw mine.yaml -o mine.pdf -o mine.tex --view rolled --width 8.5cm
      ladderspec draw mine.yaml --without lateral --changes -o changes.svg
    """
    if "-" in args.output:
        refuse_ignored(args, "the drawing goes to standard output", "--open")
    else:
        refuse_ignored(args, "the suffix of the file says it; `-o -` prints", "--format")
    if args.format != "png" and not any(Path(path).suffix == ".png" for path in args.output):
        refuse_ignored(args, "no png file is written", "--dpi")
    if not args.worth:
        refuse_ignored(args, "there is no --worth", "--worth-of")
    changes = request(args)
    options = _options(args)
    base = _base(args, changes)
    if base is not None:
        options["base"] = base
    html = args.format == "html" or any(Path(path).suffix == ".html" for path in args.output)
    if html and changes == Request() and args.spec != "-" and saved(args.spec) is None:
        spec = open_spec(args.spec, changes, args.root)
        built, names = compiled(spec), spec.config.variants
        # To choose from in the page.
        options["variants"] = {n: graph_of(args.spec, Request((n,)), args.root) for n in names}
    else:
        built = open_graph(args)
    if args.beside:
        beside = args.beside.split(",")
        options["beside"] = [graph_of(args.spec, Request((name,)), args.root) for name in beside]
    if "-" in args.output:
        if len(args.output) > 1:
            raise UsageError("standard output takes one drawing: leave the other -o out")
        _print(render(built, args.format or "svg", **options))
        return 0
    default = built.graph["name"].strip("<>") if args.spec == "-" else Path(args.spec).stem
    written = draw(built, args.output or [Path(f"{default}.svg")], **options)
    for path in written:
        say(f"wrote {path}")
    if args.layout == "ladder" and any(path.suffix != ".html" for path in written):
        _warn_about_size(built, options)
    if args.open:
        import webbrowser

        webbrowser.open(written[0].resolve().as_uri())
    return 0


def _warn_about_size(built: Any, options: Options) -> None:
    """Say if a drawing is too high for a page or hard to read, and which option helps."""
    problems = _problems(built, options)
    if not problems:
        return
    useless = {
        "--height 24cm": bool(options["height"]),
        "--view rolled": options["view"] != "unrolled" or options["start"],
        "--labels cell": options["view"] == "mini",
    }
    usable = [words for words in _SMALLER if not useless.get(words)]
    helps: list[tuple[str, ...]] = []
    for words in chain.from_iterable(combinations(usable, n + 1) for n in range(len(usable))):
        smaller: Options = {**options}
        for each in words:
            smaller |= _SMALLER[each]
        known = any(set(fewer) <= set(words) for fewer in helps)
        if len(helps) < 2 and not known and not _problems(built, smaller):
            helps.append(words)
    rows = ["--show LEVELS"] if options["view"] == "mini" else ["--show LEVELS", "--view mini"]
    either = " or ".join([" ".join(words) for words in helps] or rows)
    notes_to_stderr([f"this drawing {' and '.join(problems)}; try {either}"])


def _problems(built: Any, options: Options) -> list[str]:
    """The problems of a drawing on paper. One that is too wide is judged as wide as a page."""
    scene = scene_of(built, **options)
    wide, high = (length / 72 * 2.54 for length in scene.paper)
    found, place = [], ""
    if high > _PAGE[1] + 0.01:
        found.append(f"is {high:.3g} cm high (a page has {_PAGE[1]:.0f} cm)")
    if wide > _PAGE[0] and not options["width"]:
        place = f" at the width of a page, {_PAGE[0]:.0f} cm"
        scene = scene_of(built, **options | {"width": f"{_PAGE[0]}cm"})
    if 0 < scene.smallest < _READABLE:
        found.append(f"has words of {scene.smallest:.1f} points{place}")
    return found


def _options(args: argparse.Namespace) -> Options:
    options: Options = {
        "view": args.view,
        "iterations": args.iterations,
        "fold": args.fold,
        "group": args.group,
        "show": args.show,
        "plan": args.plan,
        "labels": args.labels,
        "levels": args.levels,
        "theme": args.theme,
        "title": args.title,
        "start": args.start,
        "layout": args.layout,
        "plates": dict(_plate(text) for text in args.plate),
        "width": args.width,
        "height": args.height,
        "dpi": DPI if args.dpi is None else args.dpi,
        "worth": dict(_worth(text) for text in args.worth),
        "worth_of": args.worth_of or "worth",
    }
    if args.no_legend:
        options["legend"] = False
    return options


def _plate(text: str) -> tuple[str, list[str]]:
    label, equals, levels = text.partition("=")
    if not equals or not levels:
        raise UsageError(f"`{text}` names no plate: LABEL=LEVELS, like K=lstm1,conv_*")
    return label, levels.split(",")


def _worth(text: str) -> tuple[str, float]:
    selector, _, number = text.rpartition("=")
    try:
        return selector, float(number)
    except ValueError:
        message = f"`{text}` says no worth: SELECTOR=NUMBER, like lateral=0.5"
        raise UsageError(message) from None


def _base(args: argparse.Namespace, changes: Request) -> object:
    if args.against and args.changes:
        raise UsageError("--changes and --against: choose one")
    if args.against:
        return open_graph(args, args.against)
    if not args.changes:
        return None
    if changes == Request():
        raise UsageError("--changes needs a change, such as --variant NAME")
    return open_graph(args, args.spec)


def _print(drawing: str | bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(drawing.encode() if isinstance(drawing, str) else drawing)
