"""Draw every shipped spec: writes docs/gallery.md and the pictures beside it.

python docs/make_gallery.py            # svg, for the page
python docs/make_gallery.py --png OUT  # all of them as png into a folder, to look at
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

from ladderspec.api import graph, load
from ladderspec.drawing import draw
from ladderspec.files import write_atomic
from ladderspec.shipped import PREFIX
from ladderspec.wiring.graph import parameters

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
INTRO = [
    "Every view with the command that draws it, and every shipped spec with its text.",
    "The specs come with the package, so the commands need no clone.",
]
TALL = 10  # levels: beyond that, a spec is best seen rolled up
SIZES = re.compile(r"_(compact|quick|small|tiny)$")  # the same network at another size


class Shot(NamedTuple):
    name: str  # of the file
    caption: str
    spec: str  # path inside specs/
    options: dict[str, Any]
    variant: str | None = None

    def command(self) -> str:
        """How to draw it from the command line."""
        words = [f"ladderspec draw {PREFIX}{self.spec.removesuffix('.yaml')}"]
        words += [f"--variant {self.variant}"] if self.variant else []
        for key, value in self.options.items():
            if key == "base":
                words.append("--changes")
            elif key == "plates":
                words += [f"--plate {label}={','.join(levels)}" for label, levels in value.items()]
            elif value is True:
                words.append(f"--{key}")
            else:
                words.append(f"--{key} {value}")
        return " ".join([*words, f"-o {self.name}.svg"])


# The views on one spec, and what appears in the paper's own figures.
SHOWN = [
    Shot("unrolled", "Two iterations side by side", "ommnist/rladder.yaml", {}),
    Shot(
        "rolled",
        "One iteration, with squares on delayed arrows and identical rows folded",
        "ommnist/rladder.yaml",
        {"view": "rolled", "fold": True},
    ),
    Shot(
        "column",
        "In a column of a paper: 8.5 cm wide, words of 7 points",
        "ommnist/rladder.yaml",
        {"view": "rolled", "group": True, "width": "8.5cm", "height": "12cm"},
    ),
    Shot(
        "index",
        "The paper's first figure: letters of 10 points in 4 cm",
        "ommnist/rladder.yaml",
        {"view": "mini", "show": "conv_3,pool5,lstm6", "levels": "index", "width": "4cm"},
    ),
    Shot(
        "beside",
        "Several variants in one figure",
        "ommnist/rladder.yaml",
        {"view": "mini", "group": True, "beside": "hierarchical_rnn,temporal_baseline"},
    ),
    Shot(
        "changes",
        "What a variant removes, with rows grouped",
        "ommnist/rladder.yaml",
        {"base": True, "view": "rolled", "group": True},
        "no_decoder_to_encoder",
    ),
    Shot(
        "variant",
        "What a variant removes, in grey",
        "ommnist/rladder.yaml",
        {"base": True},
        "no_decoder_to_encoder",
    ),
    Shot(
        "baseline",
        "A variant without a decoder and with fewer levels",
        "ommnist/rladder.yaml",
        {"base": True},
        "temporal_baseline",
    ),
    Shot(
        "plan",
        "The plan: what loops over t, and what is computed for all t at once",
        "ommnist/rladder.yaml",
        {"view": "rolled", "plan": True},
        "no_decoder_to_encoder",
    ),
    Shot(
        "mini",
        "Without cells: the look of the paper's first figure",
        "related/unet.yaml",
        {"view": "mini"},
        "feedback",
    ),
    Shot(
        "start",
        "From the first iteration on, with initial values",
        "music/rladder_tiny.yaml",
        {"iterations": 3, "start": True},
    ),
    Shot(
        "groups",
        "Perceptual grouping: a plate around the levels that all K groups share",
        "textured/rtagger_tiny.yaml",
        {},
    ),
    Shot(
        "groups_mini",
        "The paper's figure of groups",
        "textured/rtagger_tiny.yaml",
        {"view": "mini"},
    ),
    Shot("plate", "A plate around levels", "related/unet.yaml", {"plates": {"K": ["lstm*"]}}),
    Shot(
        "mono",
        "For print in black and white: roles differ in line style",
        "ommnist/appendix_c.yaml",
        {"theme": "mono", "fold": True},
    ),
    Shot("safe", "For colour-blind readers", "music/rladder.yaml", {"theme": "safe"}),
    Shot("dark", "On a dark background", "related/video_ladder.yaml", {"theme": "dark"}),
]


def families() -> dict[Path, list[Path]]:
    """Every spec with the specs of the same network at other sizes."""
    paths = [p for p in sorted(SPECS.rglob("*.yaml")) if "experiments" not in p.parts]
    found: dict[Path, list[Path]] = {}
    for path in paths:
        whole = path.with_name(SIZES.sub("", path.stem) + ".yaml")
        if whole in paths and whole != path:
            found.setdefault(whole, []).append(path)
        else:
            found.setdefault(path, [])
    return found


def best(path: Path) -> Shot:
    """A spec in its best view; if that is among the views already, the same picture."""
    spec = str(path.relative_to(SPECS))
    tall = len(load(path).config.levels) > TALL
    options: dict[str, Any] = {"view": "rolled", "fold": True} if tall else {}
    name = re.sub(r"\W+", "_", spec.removesuffix(".yaml"))
    same = [s for s in SHOWN if (s.spec, s.options, s.variant) == (spec, options, None)]
    return same[0] if same else Shot(name, "", spec, options)


def paint(shot: Shot, folder: Path, form: str) -> Path:
    path = SPECS / shot.spec
    options = dict(shot.options)
    if options.get("base"):
        options["base"] = load(path)
    if options.get("beside"):
        options["beside"] = [load(path, name) for name in options["beside"].split(",")]
    (written,) = draw(load(path, shot.variant), folder / f"{shot.name}.{form}", **options)
    return written


def page(shots: dict[Path, Shot]) -> str:
    lines = ["# Gallery", "", *INTRO, "", "- [Views](#views)"]
    lines += [f"    - [{shot.caption}](#{_anchor(shot.caption)})" for shot in SHOWN]
    lines += ["- [Every shipped spec](#every-shipped-spec)"]
    lines += [f"    - [{shot.spec}](#{_anchor(shot.spec)})" for shot in shots.values()]
    lines += ["", "## Views", ""]
    for shot in SHOWN:
        lines += [f"### {shot.caption}", "", f"![{shot.caption}](gallery/{shot.name}.svg)"]
        lines += ["", "```sh", shot.command(), "```", ""]
    lines += ["## Every shipped spec", ""]
    for path, others in families().items():
        shot, text = shots[path], path.read_text(encoding="utf-8").rstrip()
        title = load(path).title or shot.spec
        lines += [f"### {shot.spec}", "", f"![{title}](gallery/{shot.name}.svg)"]
        lines += ["", "```yaml", text, "```", ""]
        if others:
            lines += ["At other sizes:", "", *map(_line, others), ""]
    return "\n".join(lines)


def _line(path: Path) -> str:
    """A spec at another size, without a section of its own."""
    spec, name = load(path), path.relative_to(SPECS)
    size = f"{len(spec.config.levels)} levels, {parameters(graph(spec)):,} parameters"
    return f"- [{name}](../specs/{name}): {size}"


def _anchor(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--png", metavar="FOLDER", type=Path, help="png files instead of the page")
    parser.add_argument("--docs", metavar="FOLDER", type=Path, default=ROOT / "docs")
    args = parser.parse_args(words)
    folder = args.png or args.docs / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    shots = {path: best(path) for path in families()}
    for shot in {shot.name: shot for shot in [*SHOWN, *shots.values()]}.values():
        print(paint(shot, folder, "png" if args.png else "svg"))
    if not args.png:
        write_atomic(args.docs / "gallery.md", page(shots))


if __name__ == "__main__":
    main()
