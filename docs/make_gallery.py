"""Draw every shipped spec: writes docs/gallery.md and the pictures beside it.

python docs/make_gallery.py            # svg, for the page
python docs/make_gallery.py --png OUT  # all of them as png into a folder, to look at
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

from ladderspec.api import load
from ladderspec.drawing import draw
from ladderspec.files import write_atomic

ROOT = Path(__file__).parents[1]
SPECS = ROOT / "specs"
TALL = 10  # levels: beyond that, a spec is best seen rolled up


class Shot(NamedTuple):
    name: str  # of the file
    caption: str
    spec: str  # path inside specs/
    options: dict[str, Any]
    variant: str | None = None

    def command(self) -> str:
        """How to draw it from the command line."""
        words = [f"ladderspec draw specs/{self.spec}"]
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
        "One iteration; a square marks what arrives one iteration later; identical rows folded",
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
        "variant",
        "What a variant removes stays in its place",
        "ommnist/rladder.yaml",
        {"base": True},
        "no_decoder_to_encoder",
    ),
    Shot(
        "baseline",
        "A variant that drops levels and decoders",
        "ommnist/rladder.yaml",
        {"base": True},
        "temporal_baseline",
    ),
    Shot(
        "plan",
        "The plan: what loops over t, what needs nothing from its past",
        "ommnist/rladder.yaml",
        {"view": "rolled", "plan": True},
        "no_decoder_to_encoder",
    ),
    Shot(
        "mini",
        "The look of the paper's first figure",
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
        "Perceptual grouping: K groups as a plate around everything except the input",
        "textured/rtagger.yaml",
        {"view": "mini"},
    ),
    Shot("plate", "A plate around levels", "related/unet.yaml", {"plates": {"K": ["lstm*"]}}),
    Shot(
        "mono",
        "For print in black: line styles carry the meaning",
        "ommnist/appendix_c.yaml",
        {"theme": "mono", "fold": True},
    ),
    Shot("safe", "For colour-blind readers", "music/rladder.yaml", {"theme": "safe"}),
    Shot("dark", "On dark", "related/video_ladder.yaml", {"theme": "dark"}),
]


def every_spec() -> list[Shot]:
    """Each spec in its best view."""
    found = []
    for path in sorted(SPECS.rglob("*.yaml")):
        if "experiments" in path.parts:
            continue
        spec = str(path.relative_to(SPECS))
        tall = len(load(path).config.levels) > TALL
        options: dict[str, Any] = {"view": "rolled", "fold": True} if tall else {}
        name = re.sub(r"\W+", "_", spec.removesuffix(".yaml"))
        found.append(Shot(name, "", spec, options))
    return found


def paint(shot: Shot, folder: Path, form: str) -> Path:
    path = SPECS / shot.spec
    options = dict(shot.options)
    if options.get("base"):
        options["base"] = load(path)
    (written,) = draw(load(path, shot.variant), folder / f"{shot.name}.{form}", **options)
    return written


def page(views: list[Shot], specs: list[Shot]) -> str:
    lines = ["# Gallery", "", "Made by `make gallery`.", ""]
    lines += [f"- [{title}](#{_anchor(title)})" for title in ("Views", "Every shipped spec")]
    lines += [f"    - [{shot.spec}](#{_anchor(shot.spec)})" for shot in specs]
    lines += ["", "## Views", ""]
    for shot in views:
        lines += [f"### {shot.caption}", "", f"![{shot.caption}](gallery/{shot.name}.svg)"]
        lines += ["", "```sh", shot.command(), "```", ""]
    lines += ["## Every shipped spec", ""]
    for shot in specs:
        text = (SPECS / shot.spec).read_text(encoding="utf-8").rstrip()
        lines += [f"### {shot.spec}", "", f"![{shot.spec}](gallery/{shot.name}.svg)"]
        lines += ["", "```yaml", text, "```", ""]
    return "\n".join(lines)


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
    specs = every_spec()
    for shot in [*SHOWN, *specs]:
        print(paint(shot, folder, "png" if args.png else "svg"))
    if not args.png:
        write_atomic(args.docs / "gallery.md", page(SHOWN, specs))


if __name__ == "__main__":
    main()
